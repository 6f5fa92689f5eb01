"""The renderer of C-like dialects: LoopNests to the text of a program."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mdtensor.kernels.dialect import Dialect
from mdtensor.kernels.group_exchange import cluster_attribute, exchange_lines, taken_number
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.local_memory_pool import entry_of, pooled
from mdtensor.kernels.matrix_product import matrix_product_lines
from mdtensor.kernels.panel_product import panel_lines
from mdtensor.kernels.primitives import in_primitives
from mdtensor.kernels.value_text import ValueText
from mdtensor.kernels.vector_text import lanes_text
from mdtensor.lower.ir.group_statements import (
    Arrive,
    Atomic,
    Await,
    AwaitCluster,
    AwaitCopies,
    AwaitCopiesOut,
    Barrier,
    BeginCluster,
    ClusterArrive,
    ClusterLeaderPointer,
    CommitCopies,
    CopyAsync,
    CopyOut,
    MatrixProduct,
    MemoryBarrier,
    Post,
    ProxyFence,
    WarpShuffle,
)
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.ir.register_types import BOOL, register_dtype
from mdtensor.lower.ir.statements import (
    Allocate,
    Block,
    Comment,
    CopyRegister,
    Declare,
    If,
    Increment,
    Let,
    LetHead,
    LetIndex,
    Loop,
    Pointer,
    Prefetch,
    Set,
    Statement,
    VectorStore,
    When,
)
from mdtensor.lower.ir.tma_statements import BulkStatement
from mdtensor.lower.ir.values import Load

_FLAG = register_dtype(BOOL)  # of accumulators that say whether there was anything


def render(
    nests: Sequence[LoopNest], dialect: Dialect, *, inline: bool = False, streaming: bool = False
) -> KernelSource:
    """Render LoopNests as a program whose first lines are their heads, as comments."""
    head = "".join(f"// {line}\n" for line in nests[0].head.splitlines())
    renderers = [_Renderer(dialect, streaming) for _ in nests]
    kernels = [renderer.kernel(nest) for renderer, nest in zip(renderers, nests, strict=True)]
    prelude = dialect.prelude
    if any(renderer.has_long_vectors for renderer in renderers):
        prelude += "\n" + dialect.long_vectors
    for short in sorted(set[str]().union(*(renderer.short_floats for renderer in renderers))):
        functions = dialect.short_floats[short].functions
        prelude += f"\n{functions}" if functions else ""
    if dialect.matrix_functions and any(renderer.has_matrices for renderer in renderers):
        prelude += "\n" + dialect.matrix_functions
    if any(renderer.has_panels for renderer in renderers):
        prelude += "\n" + dialect.panel_functions
    for name, function in dialect.small_functions.items():
        if any(f"{name}(" in kernel for kernel in kernels):
            prelude += "\n" + function
    if any(renderer.hides_remainders for renderer in renderers):
        prelude += "\n" + dialect.remainder_functions
    return KernelSource(
        head + prelude + "\n\n" + "\n\n".join(kernels) + "\n",
        dialect.name,
        tuple(entry_of(nest, dialect) for nest in nests),
        nests[0].arguments,
        nests[0].sizes,
        dialect.sizes_by_value,
        inline,
        streaming,
        maps=nests[0].maps,
    )


def kernel_text(nest: LoopNest, dialect: Dialect) -> str:
    """Render one kernel for display, without the prelude of its program."""
    return _Renderer(dialect, streaming=False).kernel(nest)


class _Renderer(ValueText):
    def __init__(self, dialect: Dialect, streaming: bool) -> None:
        super().__init__(dialect)
        self.streaming = streaming
        self.named = 0
        self.offsets: Mapping[str, int] = {}
        self.has_matrices = False
        self.has_panels = False
        self.tests_alignment = False
        self.of_bytes = {"scratch"}  # arrays whose elements pointers say

    # ---- kernel and statements

    def kernel(self, nest: LoopNest) -> str:
        dialect = self.dialect
        self.hides_remainders = nest.stores_in_loops and dialect.hidden_remainder != ""
        where = dialect.regions["global"]
        buffers: dict[str, str] = {}
        for argument in nest.arguments:
            const = "const " if argument.role == "input" else ""
            buffers[argument.name] = f"{where}{const}{self.type(argument.memory, 1)}"
            self.memory[argument.name] = where
        if nest.sizes and not dialect.sizes_by_value:
            buffers["sizes"] = f"{where}const {dialect.index}"
        arguments = [dialect.buffer.format(type=t, name=name) for name, t in buffers.items()]
        lines = [dialect.received.format(type=t, name=name) for name, t in buffers.items()]
        lines = lines if dialect.received else []
        numbered = taken_number(nest, dialect)
        lines += numbered or [f"const {dialect.index} group = {dialect.group};"]
        if nest.threads > 1:
            lines.append(f"const {dialect.index} item = {dialect.item};")
        if nest.sizes and dialect.sizes_by_value:
            arguments += [f"const {dialect.index} {size}" for size in nest.sizes]
        elif nest.sizes:
            lines += [
                f"const {dialect.index} {size} = sizes[{n}];" for n, size in enumerate(nest.sizes)
            ]
        arguments += [dialect.map_argument.format(name=each.name) for each in nest.maps]
        self.offsets, pool = pooled(nest, dialect)
        body = [line for statement in nest.body for line in self.statement(statement)]
        if self.tests_alignment:
            mask = dialect.streaming_alignment - 1
            lines += [
                f"const int aligned_{a.name} = ((size_t){a.name} & {mask}) == 0;"
                for a in nest.arguments
                if a.role == "output"
            ]
        lines += [dialect.pool] if pool else []
        lines += body
        signature = dialect.kernel.format(
            cluster=cluster_attribute(nest, dialect),
            threads=nest.threads,
            name=nest.name,
            arguments=", ".join(arguments),
        )
        text = "\n".join("  " + line for line in lines)
        return f"{signature}\n{{\n{text}\n}}"

    def statement(self, statement: Statement) -> list[str]:
        """The lines of a statement, after declarations of its common subexpressions."""
        *declared, last = in_primitives(statement, self.named)
        self.named += len(declared)
        return [line for part in (*declared, last) for line in self._primitive(part)]

    def _primitive(self, statement: Statement) -> list[str]:
        dialect = self.dialect
        if isinstance(statement, BulkStatement):
            self.has_panels = True
            return panel_lines(statement, dialect)
        match statement:
            case LetIndex(name, value, mutable):
                const = "" if mutable else "const "
                return [f"{const}{dialect.index} {name} = {self.index(value)};"]
            case Increment(name, by):
                return [f"{name} += {by!r};"]
            case Let(ref, value, mutable):
                const = "" if mutable else "const "
                kind = self.type(ref.dtype, ref.lanes)
                return [f"{const}{kind} {ref.name} = {self.value(value, ref.lanes)};"]
            case Declare(ref):
                kind = self.type(ref.dtype, ref.lanes)
                return [f"{kind} {ref.name}{dialect.no_value};"]
            case Set(ref, value):
                return [f"{ref.name} = {self.value(value, ref.lanes)};"]
            case Loop():
                return self._loop(statement)
            case If(lhs, op, rhs, body, otherwise):
                lines = [f"if ({lhs!r} {op} {rhs!r}) {{", *self._block(body), "}"]
                return (
                    [*lines[:-1], "} else {", *self._block(otherwise), "}"] if otherwise else lines
                )
            case When(condition, body):
                return [f"if ({self.truth(condition)}) {{", *self._block(body), "}"]
            case Block(body):
                return ["{", *self._block(body), "}"]
            case Pointer():
                return (
                    [self._pointer(statement)]
                    if self.dialect.arrays.get(statement.region, "*")
                    else []
                )
            case VectorStore():
                return self._store(statement)
            case Prefetch(buffer, index):
                text = dialect.prefetch.format(address=self._address(buffer, index))
                return [text] if dialect.prefetch else []
            case LetHead():
                return [self._head(statement)]
            case Allocate():
                return [line for line in (self._array(statement),) if line]
            case Barrier():
                return [dialect.barrier]
            case MemoryBarrier():
                return [dialect.memory_barrier]
            case CopyAsync():
                return self._copy_async(statement)
            case MatrixProduct():
                self.has_matrices = True
                return matrix_product_lines(statement, dialect)
            case CommitCopies():
                return [dialect.commit_copies] if dialect.copy_async else []
            case AwaitCopies(pending):
                text = dialect.await_copies.format(pending=pending)
                return [text] if dialect.copy_async else []
            case CopyOut():
                return [self._copy_out(statement)]
            case ProxyFence():
                return [dialect.show_copies] if dialect.show_copies else []
            case AwaitCopiesOut(pending, read):
                text = dialect.await_out[read] if dialect.await_out else ""
                return [text.format(pending=pending)] if text else []
            case WarpShuffle() | Atomic() | Arrive() | Post() | Await():
                return exchange_lines(statement, dialect)
            case BeginCluster() | AwaitCluster() | ClusterLeaderPointer() | ClusterArrive():
                return exchange_lines(statement, dialect)
            case CopyRegister(ref):
                text = dialect.renewed.get(ref.dtype.name, "").format(name=ref.name)
                return [text] if text else []
            case Comment(text):
                return [f"// {text}"]

    def _array(self, array: Allocate) -> str:
        dialect = self.dialect
        self.memory[array.name] = dialect.regions[array.region]
        if array.memory.name == "uint8":
            self.of_bytes.add(array.name)
        kind = dialect.types[array.memory.name]
        if array.region == "local" and self.offsets:
            offset = self.offsets[array.name]
            return dialect.pooled.format(type=kind, name=array.name, offset=offset)
        return dialect.arrays[array.region].format(type=kind, name=array.name, extent=array.extent)

    def _block(self, body: Sequence[Statement]) -> list[str]:
        return ["  " + line for statement in body for line in self.statement(statement)]

    def _loop(self, loop: Loop) -> list[str]:
        begin = "" if loop.start is None else f"{self.dialect.index} {loop.var} = {loop.start!r}"
        step = loop.step.constant
        if step == 1:
            bounds = f"{loop.var} < {loop.stop!r}; {loop.var}++"
        else:
            bounds = f"{loop.var} + {loop.step!r} <= {loop.stop!r}; {loop.var} += {loop.step!r}"
        before = [*self.dialect.before_loops]
        if _stores_what_may_be_absent(loop):
            before += self.dialect.before_partial_scans
        body = self._block(loop.body)
        if _repeats(loop, body):
            before += self.dialect.before_repetitions
        return [*before, f"for ({begin}; {bounds}) {{", *body, "}"]

    def _pointer(self, pointer: Pointer) -> str:
        where = self.memory.get(pointer.buffer, self.dialect.regions[pointer.region])
        self.memory[pointer.name] = where
        kind = (
            f"{where}{'const ' if pointer.const else ''}{self.dialect.types[pointer.memory.name]}*"
        )
        base, offset = pointer.buffer, pointer.offset
        address = base if not offset.terms else f"{base} + {offset!r}"
        source = f"({kind})({address})" if base in self.of_bytes else address
        return f"{kind} {pointer.name} = {source};"

    def _store(self, store: VectorStore) -> list[str]:
        value, memory = store.value, store.memory
        if value.lanes > 1 and store.stride != Index((((), 1),)) and store.stride != 1:
            text = self.value(value, value.lanes)
            lines: list[str] = []
            for lane in range(value.lanes):
                element = lanes_text(text, value.lanes, lane, 1, self.dialect)
                lines += self._store_one(store, store.index + store.stride * lane, element)
            return lines
        text = self.value(value, value.lanes)
        if value.lanes == 1:
            return self._store_one(store, store.index, text)
        lanes, address = value.lanes, self._address(store.buffer, store.index)
        if short := self._short(memory):
            text = text if value.dtype.kind == "f" else f"convert_float{lanes}({text})"
            return [short.store_together.format(lanes=lanes, value=text, address=address)]
        if memory != value.dtype:
            text = f"convert_{self.type(memory, lanes)}({text})"
        form = self.dialect.wide_store
        kind = self.type(memory, lanes)
        plain = form.format(value=text, lanes=lanes, type=kind, address=address)
        if not (store.streaming and self.streaming):
            return [plain]
        kind = self.type(memory, lanes)
        streaming = self.dialect.streaming_store.format(value=text, type=kind, address=address)
        if store.aligned or not self.dialect.streaming_alignment:
            return [streaming]
        self.tests_alignment = True
        aligned = " && ".join(f"aligned_{name}" for name in sorted(self._outputs()))
        return [f"if ({aligned}) {streaming} else {plain}"]

    def _head(self, head: LetHead) -> str:
        place = f"(size_t)({self._address(head.buffer, head.index)})"
        missing = f"(-{place} & {head.nbytes - 1}) / {head.memory.itemsize}"
        return f"const {self.dialect.index} {head.name} = {missing};"

    def _copy_async(self, copy: CopyAsync) -> list[str]:
        if not self.dialect.copy_async:
            load = Load(copy.source, copy.memory, copy.at, copy.lanes)
            return self._store(VectorStore(copy.target, copy.memory, copy.to, load))
        return [
            self.dialect.copy_async.format(
                nbytes=copy.lanes * copy.memory.itemsize,
                target=self._address(copy.target, copy.to),
                source=self._address(copy.source, copy.at),
            )
        ]

    def _copy_out(self, copy: CopyOut) -> str:
        return self.dialect.copy_out.format(
            target=self._address(copy.target, copy.to),
            source=self._address(copy.source, copy.at),
            nbytes=copy.count * copy.memory.itemsize,
            count=copy.count,
            items=copy.items,
        )

    def _outputs(self) -> list[str]:
        return [name for name in self.memory if name.startswith("O")]

    def _store_one(self, store: VectorStore, index: Index, text: str) -> list[str]:
        if short := self._short(store.memory):
            text = text if store.value.dtype.kind == "f" else f"(float)({text})"
            return [short.store.format(value=text, index=repr(index), buffer=store.buffer)]
        if store.memory != store.value.dtype:
            text = f"({self.dialect.types[store.memory.name]})({text})"
        return [f"{store.buffer}[{index!r}] = {text};"]


def _repeats(loop: Loop, body: Sequence[str]) -> bool:
    """Whether a loop's body is invariant: it combines the same values in each iteration."""
    if not all(isinstance(s, Declare | Let | Pointer | Set) for s in loop.body):
        return False
    return not any(re.search(rf"\b{loop.var}\b", line) for line in body)


def _stores_what_may_be_absent(loop: Loop) -> bool:
    """Whether a loop stores and sets flags of presence; some compilers get such loops wrong."""
    flags = any(isinstance(s, Set) and s.ref.dtype == _FLAG for s in loop.body)
    return flags and any(isinstance(s, VectorStore) for s in loop.body)
