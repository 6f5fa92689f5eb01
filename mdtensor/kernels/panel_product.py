"""Bulk copies to panels of local memory, the signals that tell of them, and products of panels."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.errors import LoweringError
from mdtensor.kernels.dialect import Dialect
from mdtensor.lower.bulk_nest import (
    AwaitProducts,
    AwaitSignal,
    AwaitStores,
    BulkCopy,
    BulkStatement,
    BulkStore,
    PanelOperand,
    PanelProduct,
    SendSignal,
    Signals,
    WarpBarrier,
)
from mdtensor.lower.index import Index
from mdtensor.lower.nest import Ref

_ROW = 128  # bytes of a panel's row
_GROUP = 8 * _ROW
_HALF = 2
_SHORT = {"float16": "f16", "bfloat16": "bf16"}


def panel_lines(statement: BulkStatement, dialect: Dialect) -> list[str]:
    """The lines of a statement; LoweringError in languages without bulk copies."""
    if not dialect.panel_functions:
        raise LoweringError(f"{dialect.name} has no bulk copies")
    match statement:
        case Signals(signals):
            return _beginning(signals)
        case AwaitSignal(buffer, index, phase):
            return [f"await_signal({_place(buffer, index)}, {phase!r});"]
        case SendSignal(buffer, index, nbytes):
            if nbytes:
                return [f"expect_bytes({_place(buffer, index)}, {nbytes});"]
            return [f"send_signal({_place(buffer, index)});"]
        case BulkCopy(source, at, target, to, signal, index):
            where = ", ".join(f"(int)({n!r})" for n in at)
            places = f"{_place(target, to)}, &{source}, {_place(signal, index)}"
            return [f"copy_box({places}, {where});"]
        case BulkStore(to, at, source, begin):
            where = ", ".join(f"(int)({n!r})" for n in at)
            return [f"store_box(&{to}, {_place(source, begin)}, {where});"]
        case AwaitStores(pending, read):
            kind = ".read" if read else ""
            return [f'asm volatile("cp.async.bulk.wait_group{kind} {pending};" : : : "memory");']
        case WarpBarrier(shown):
            return ["show_local();"] * shown + ["__syncwarp();"]
        case PanelProduct():
            return _product(statement)
        case AwaitProducts(pending, accumulators):
            text = f'"wgmma.wait_group.sync.aligned {pending};"'
            return [f'asm volatile({text} : {_operands(accumulators)} : : "memory");']


def _place(buffer: str, index: Index) -> str:
    return f"{buffer} + {index!r}" if index.terms else buffer


def _beginning(signals: Sequence[tuple[str, int, int]]) -> list[str]:
    lines = ["if (item == 0) {"]
    for buffer, count, senders in signals:
        loop = f"for (int n = 0; n < {count}; n++)"
        lines.append(f"  {loop} begin_signal({buffer} + n, {senders});")
    return [*lines, "  show_signals();", "}", "__syncthreads();"]


def _product(product: PanelProduct) -> list[str]:
    refs = [ref for pairs in _in_pairs(product) for ref in pairs]
    columns, count = 8 * len(product.accumulators[0]), len(refs)
    places = ", ".join(f"%{n}" for n in range(count))
    short = _SHORT[product.rows.memory.name]
    turned = ", ".join(str(int(o.turned)) for o in (product.rows, product.columns))
    kind = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{short}.{short}"
    text = f'"{kind} {{{places}}}, %{count}, %{count + 1}, 1, 1, 1, {turned};"'
    steps = [_advance(operand) for operand in (product.rows, product.columns)]
    given = f'"l"(rows + step * {steps[0]}), "l"(columns + step * {steps[1]})'
    return [
        "{",
        f"  const unsigned long long rows = {_panels(product.rows)};",
        f"  const unsigned long long columns = {_panels(product.columns)};",
        '  asm volatile("wgmma.fence.sync.aligned;" : : : "memory");',
        "  #pragma unroll",
        f"  for (int step = 0; step < {product.steps}; step++) {{",
        f"    asm volatile({text}",
        f"                 : {_operands(refs)}",
        f"                 : {given});",
        "  }",
        '  asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");',
        "}",
    ]


def _in_pairs(product: PanelProduct) -> list[tuple[Ref, Ref]]:
    """The accumulators in the order of the instruction: by groups of columns, then of rows."""
    low, high = product.accumulators
    return [pair for pairs in zip(low, high, strict=True) for pair in pairs]


def _operands(refs: Sequence[Ref]) -> str:
    return ", ".join(f'"+f"({ref.name})' for ref in refs)


def _panels(operand: PanelOperand) -> str:
    place = _place(operand.buffer, operand.start)
    return f"describe_panels({place}, {operand.panel * _HALF}, {_GROUP})"


def _advance(operand: PanelOperand) -> int:
    """Units of 16 bytes from one step to the next."""
    return operand.step * _HALF // 16
