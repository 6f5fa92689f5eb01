"""The renderer of LLVM IR: LoopNests to the text of a module.

Each kernel is `void (ptr arguments, ptr sizes, i64 begin, i64 end)`: it runs the groups from
`begin` to `end`, which are independent, on buffers whose addresses lie at `arguments`.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.errors import LoweringError
from mdtensor.kernels.kernel_source import KernelEntry, KernelSource
from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.group_order import take_number
from mdtensor.kernels.llvm.language import LLVM
from mdtensor.kernels.llvm.llvm_statements import STREAMS, VECTOR_BYTES, Statements
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.ir.register_types import I64


def render(
    nests: Sequence[LoopNest], language: LLVM, *, inline: bool = False, streaming: bool = False
) -> KernelSource:
    """Render LoopNests as a module whose first lines are their heads, as comments.

    Raises LoweringError for groups of more than one work-item.
    """
    head = "".join(f"; {line}\n" for line in nests[0].head.splitlines())
    declared: dict[str, str] = {}
    kernels = [_kernel(nest, language, declared, streaming=streaming) for nest in nests]
    text = "\n\n".join((*kernels, "\n".join(declared[name] for name in sorted(declared))))
    return KernelSource(
        f"{head}{text}\n!0 = !{{i32 1}}\n",
        language.name,
        tuple(KernelEntry(n.name, 1, n.groups, n.scratch, 0, n.counters) for n in nests),
        nests[0].arguments,
        nests[0].sizes,
        False,
        inline,
        streaming,
    )


def _kernel(nest: LoopNest, language: LLVM, declared: dict[str, str], *, streaming: bool) -> str:
    if nest.threads > 1 or nest.maps or nest.cluster > 1:
        raise LoweringError("llvm has groups of one work-item alone")
    builder = FunctionBuilder(language)
    statements = Statements(builder, streaming=streaming)
    _take_arguments(builder, nest)
    head, inside, after = (builder.name(kind) for kind in ("groups", "group", "after"))
    builder.let("launched group", "%begin", I64, mutable=True)
    builder.jump(head)
    builder.begin(head)
    number = builder.get("launched group")
    builder.branch(builder.emit(f"icmp slt i64 {number}, %end"), inside, after)
    builder.begin(inside)
    with builder.scope():
        if nest.in_order:
            take_number(builder, nest)
        else:
            builder.let("group", number, I64)
        statements.body(nest.body)
    builder.set("launched group", builder.emit(f"add nsw i64 {number}, 1"))
    builder.jump(head)
    builder.begin(after)
    if statements.streamed:
        builder.do("fence seq_cst")  # others see what bypassed the caches
    builder.do("ret void")
    declared |= builder.declared
    lines = "\n".join((*builder.entry, *builder.lines))
    return (
        f"define void @{nest.name}(ptr %arguments, ptr %sizes, i64 %begin, i64 %end) {{\n"
        f"entry:\n{lines}\n}}"
    )


def _take_arguments(builder: FunctionBuilder, nest: LoopNest) -> None:
    for number, argument in enumerate(nest.arguments):
        place = builder.emit(f"getelementptr ptr, ptr %arguments, i64 {number}")
        builder.point(argument.name, builder.emit(f"load ptr, ptr {place}"), argument.memory)
    for number, size in enumerate(nest.sizes):
        place = builder.emit(f"getelementptr i64, ptr %sizes, i64 {number}")
        builder.let(size, builder.emit(f"load i64, ptr {place}"), I64)
    outputs = [a.name for a in nest.arguments if a.role == "output"]
    places = [f"ptrtoint ptr {builder.buffers[name].operand} to i64" for name in outputs]
    together = "0"
    for place in places:
        together = builder.emit(f"or i64 {together}, {builder.emit(place)}")
    beyond = builder.emit(f"and i64 {together}, {VECTOR_BYTES - 1}")
    builder.lines.append(f"  %{STREAMS} = icmp eq i64 {beyond}, 0")
