"""TMA copies to panels of shared memory, their mbarriers, and wgmma products of panels."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.errors import LoweringError
from mdtensor.kernels.dialect import Dialect
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.tma_statements import (
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
from mdtensor.lower.ir.values import Ref

_ROW = 128  # bytes of a panel's row
_GROUP = 8 * _ROW
_TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32"}
_STEP = 32  # bytes of the reduction


def panel_lines(statement: BulkStatement, dialect: Dialect) -> list[str]:
    """The lines of a TMA or wgmma statement; LoweringError in languages without bulk copies."""
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
            return _held_product(statement) if statement.held else _product(statement)
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
    count = len(refs)
    turned = "".join(f", {int(o.turned)}" for o in (product.rows, product.columns))
    if product.rows.memory.itemsize > 2:
        turned = ""  # neighbours are those of the reduction, always
    text = f'"{_instruction(product)}, %{count}, %{count + 1}, 1, 1, 1{turned};"'
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


def _held_product(product: PanelProduct) -> list[str]:
    """A product whose rows are loaded to registers while previous steps are multiplied."""
    refs = [ref for pairs in _in_pairs(product) for ref in pairs]
    count, rows, together = len(refs), product.rows, product.held
    held = ", ".join(f"%{count + n}" for n in range(4))
    text = f'"{_instruction(product)}, {{{held}}}, %{count + 4}, 1, 1, 1;"'
    given = ", ".join(f'"r"(held[n][{k}])' for k in range(4))
    place, column = f"rows + (step + n) * {rows.step}", _advance(product.columns)
    return [
        "{",
        f"  const float* const rows = {_place(rows.buffer, rows.start)};",
        f"  const unsigned long long columns = {_panels(product.columns)};",
        "  #pragma unroll",
        f"  for (int step = 0; step < {product.steps}; step += {together}) {{",
        f"    unsigned held[{together}][4];",
        '    asm volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory");',
        "    #pragma unroll",
        f"    for (int n = 0; n < {together}; n++)",
        f"      load_rows(held[n], {place}, {rows.panel}, (int)warp & 3, (int)lane);",
        '    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");',
        "    #pragma unroll",
        f"    for (int n = 0; n < {together}; n++)",
        f"      asm volatile({text}",
        f"                   : {_operands(refs)}",
        f'                   : {given}, "l"(columns + (step + n) * {column}));',
        '    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");',
        "  }",
        "}",
    ]


def _instruction(product: PanelProduct) -> str:
    """The wgmma instruction with its accumulators, its first operands."""
    columns = 8 * len(product.accumulators[0])
    places = ", ".join(f"%{n}" for n in range(4 * len(product.accumulators[0])))
    kind, depth = _TYPES[product.rows.memory.name], _STEP // product.rows.memory.itemsize
    shape = f"m64n{columns}k{depth}"
    return f"wgmma.mma_async.sync.aligned.{shape}.f32.{kind}.{kind} {{{places}}}"


def _in_pairs(product: PanelProduct) -> list[tuple[Ref, Ref]]:
    """The accumulators in the instruction's order: by groups of columns, then of rows."""
    low, high = product.accumulators
    return [pair for pairs in zip(low, high, strict=True) for pair in pairs]


def _operands(refs: Sequence[Ref]) -> str:
    return ", ".join(f'"+f"({ref.name})' for ref in refs)


def _panels(operand: PanelOperand) -> str:
    place = _place(operand.buffer, operand.start)
    return f"describe_panels({place}, {operand.panel * operand.memory.itemsize}, {_GROUP})"


def _advance(operand: PanelOperand) -> int:
    """The distance between steps of an operand, in units of 16 bytes."""
    return operand.step * operand.memory.itemsize // 16
