"""The one renderer: LoopNests to the text of a program in a C-like dialect."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.kernels.dialect import Dialect, ShortFloat
from mdtensor.kernels.groups import taken_number, told
from mdtensor.kernels.matrix_product import matrix_product_lines
from mdtensor.kernels.panel_product import panel_lines
from mdtensor.kernels.pool import entry_of, pooled
from mdtensor.kernels.primitives import COMPARISONS, in_primitives, is_condition
from mdtensor.kernels.source import KernelSource
from mdtensor.kernels.vector_text import LANES, lanes_text, shifted_parts
from mdtensor.lower.bulk_nest import BulkStatement
from mdtensor.lower.index import Index
from mdtensor.lower.nest import (
    F16,
    F32,
    Allocate,
    Arrive,
    Atomic,
    Await,
    AwaitCopies,
    Barrier,
    Block,
    Calc,
    Comment,
    CommitCopies,
    CopyAsync,
    Declare,
    Exchange,
    FromIndex,
    Gather,
    If,
    IndexCalc,
    Iota,
    Let,
    LetHead,
    LetIndex,
    Literal,
    Load,
    Loop,
    LoopNest,
    MatrixProduct,
    Pack,
    Pointer,
    Post,
    Prefetch,
    Ref,
    Set,
    Shift,
    Shuffle,
    Slice,
    Statement,
    Step,
    Store,
    Value,
    is_short_float,
)

_BITS = {"and": "&", "or": "|", "xor": "^"}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "quot": "/", "rem": "%"}
_INFIX = _ARITHMETIC | _BITS | {"shl": "<<", "shr": ">>"}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_WRAPPING = ("add", "sub", "mul", "shl")


def render(
    nests: Sequence[LoopNest], dialect: Dialect, *, inline: bool = False, streaming: bool = False
) -> KernelSource:
    """The program of the nests; its first lines are the nests' heads, as comments."""
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


class _Renderer:
    def __init__(self, dialect: Dialect, streaming: bool) -> None:
        self.dialect = dialect
        self.streaming = streaming
        self.memory: dict[str, str] = {}
        self.named = 0
        self.offsets: Mapping[str, int] = {}
        self.has_matrices = False
        self.has_panels = False
        self.short_floats: set[str] = set()
        self.has_long_vectors = False
        self.tests_alignment = False

    # ---- kernel and statements

    def kernel(self, nest: LoopNest) -> str:
        dialect = self.dialect
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
            threads=nest.threads, name=nest.name, arguments=", ".join(arguments)
        )
        text = "\n".join("  " + line for line in lines)
        return f"{signature}\n{{\n{text}\n}}"

    def _short(self, memory: np.dtype) -> ShortFloat | None:
        """How floats of 16 bits are loaded and stored; None for other types."""
        if not is_short_float(memory):
            return None
        self.short_floats.add(memory.name)
        return self.dialect.short_floats[memory.name]

    def statement(self, statement: Statement) -> list[str]:
        """The lines of a statement, after the declarations of the values that it uses twice."""
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
            case Step(name, by):
                return [f"{name} += {by!r};"]
            case Let(ref, value, mutable):
                const = "" if mutable else "const "
                kind = self.type(ref.dtype, ref.lanes)
                return [f"{const}{kind} {ref.name} = {self.value(value, ref.lanes)};"]
            case Declare(ref):
                return [f"{self.type(ref.dtype, ref.lanes)} {ref.name};"]
            case Set(ref, value):
                return [f"{ref.name} = {self.value(value, ref.lanes)};"]
            case Loop():
                return self._loop(statement)
            case If(lhs, op, rhs, body, otherwise):
                lines = [f"if ({lhs!r} {op} {rhs!r}) {{", *self._block(body), "}"]
                return (
                    [*lines[:-1], "} else {", *self._block(otherwise), "}"] if otherwise else lines
                )
            case Block(body):
                return ["{", *self._block(body), "}"]
            case Pointer():
                return [self._pointer(statement)]
            case Store():
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
            case Exchange() | Atomic() | Arrive() | Post() | Await():
                return told(statement, dialect)
            case Comment(text):
                return [f"// {text}"]

    def _array(self, array: Allocate) -> str:
        dialect = self.dialect
        self.memory[array.name] = dialect.regions[array.region]
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
        return [f"for ({begin}; {bounds}) {{", *self._block(loop.body), "}"]

    def _pointer(self, pointer: Pointer) -> str:
        where = self.dialect.regions[pointer.region]
        self.memory[pointer.name] = where
        kind = (
            f"{where}{'const ' if pointer.const else ''}{self.dialect.types[pointer.memory.name]}*"
        )
        base, offset = pointer.buffer, pointer.offset
        address = base if not offset.terms else f"{base} + {offset!r}"
        source = f"({kind})({address})" if base == "scratch" else address
        return f"{kind} {pointer.name} = {source};"

    def _store(self, store: Store) -> list[str]:
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
            return self._store(Store(copy.target, copy.memory, copy.to, load))
        return [
            self.dialect.copy_async.format(
                nbytes=copy.lanes * copy.memory.itemsize,
                target=self._address(copy.target, copy.to),
                source=self._address(copy.source, copy.at),
            )
        ]

    def _outputs(self) -> list[str]:
        return [name for name in self.memory if name.startswith("O")]

    def _store_one(self, store: Store, index: Index, text: str) -> list[str]:
        if short := self._short(store.memory):
            text = text if store.value.dtype.kind == "f" else f"(float)({text})"
            return [short.store.format(value=text, index=repr(index), buffer=store.buffer)]
        if store.memory != store.value.dtype:
            text = f"({self.dialect.types[store.memory.name]})({text})"
        return [f"{store.buffer}[{index!r}] = {text};"]

    @staticmethod
    def _address(buffer: str, index: Index) -> str:
        return f"{buffer} + {index!r}" if index.terms else buffer

    # ---- indices and values

    @staticmethod
    def index(value: Index | IndexCalc) -> str:
        if isinstance(value, Index):
            return repr(value)
        lhs, rhs = repr(value.lhs), repr(value.rhs)
        if value.op == "min":
            return f"({lhs} < {rhs} ? {lhs} : {rhs})"
        return f"({lhs}) {value.op} ({rhs})"

    def type(self, dtype: np.dtype, lanes: int) -> str:
        if dtype.name not in self.dialect.types:
            raise LoweringError(f"{self.dialect.name} has no type {dtype.name}")
        if lanes == 1:
            return self.dialect.types[dtype.name]
        if lanes > len(self.dialect.lanes):
            if lanes != self.dialect.long_lanes or dtype.itemsize > 2:
                raise LoweringError(
                    f"{self.dialect.name} has no vectors of {lanes} lanes of {dtype}"
                )
            self.has_long_vectors = True
        return f"{self.dialect.wide_types[dtype.name]}{lanes}"

    def _vector(self, dtype: np.dtype, lanes: int) -> str:
        """The type of what is computed with."""
        if lanes > 1 and not self.dialect.vectors:
            raise LoweringError(f"{self.dialect.name} has no vectors of {lanes} lanes")
        return self.type(dtype, lanes)

    def value(self, value: Value, lanes: int) -> str:
        """The text of a value, widened to `lanes`."""
        text = self._text(value)
        if value.lanes == lanes:
            return text
        return f"({self._vector(value.dtype, lanes)})({text})"

    def _text(self, value: Value) -> str:
        match value:
            case Ref(name, _, _):
                return name
            case Literal(number, dtype, _):
                return self._literal(number, dtype)
            case Load():
                return self._load(value)
            case Slice(inner, start, lanes):
                return self._slice(inner, start, lanes)
            case Iota(dtype, lanes):
                numbers = ", ".join(map(str, range(lanes)))
                return f"({self.type(dtype, lanes)})({numbers})"
            case Gather():
                return self._gather(value)
            case Shift():
                return self._shift(value)
            case Shuffle():
                return self._shuffle(value)
            case FromIndex(index, dtype, _):
                return f"({self.dialect.types[dtype.name]})({index!r})"
            case Calc():
                return self._calc(value)
            case Pack(values):
                form = self.dialect.pack
                kind = self.type(value.dtype, value.lanes)
                return form.format(type=kind, values=", ".join(map(self._text, values)))

    def _literal(self, number: bool | int | float, dtype: np.dtype) -> str:
        if dtype.kind == "f":
            suffix = "f" if dtype == F32 else ""
            if math.isnan(number):
                return "NAN"
            if math.isinf(number):
                return "-INFINITY" if number < 0 else "INFINITY"
            return f"{float(number)!r}{suffix}"
        text = str(int(number))
        if dtype == np.int32 and number > np.iinfo(np.int32).min:
            return text
        if dtype.itemsize == 8:
            if int(number) == np.iinfo(np.int64).min:
                text = f"-{np.iinfo(np.int64).max}L - 1"
            else:
                text += "UL" if dtype.kind == "u" else "L"
        return f"({self.dialect.types[dtype.name]})({text})"

    def _load(self, load: Load) -> str:
        if load.lanes == 1:
            if short := self._short(load.memory):
                return short.load.format(index=repr(load.index), buffer=load.buffer)
            return f"{load.buffer}[{load.index!r}]"
        stride = load.stride if isinstance(load.stride, int) else load.stride.constant
        valid = load.valid or load.lanes
        if stride == 1 and valid == load.lanes:
            return self._vector_load(load, load.index, load.lanes)
        if stride == -1 and valid == load.lanes:
            return self._backwards(load)
        parts: list[str] = []
        if stride == 1:
            start = 0
            while start < valid:
                length = 1 << ((valid - start).bit_length() - 1)
                parts.append(self._vector_load(load, load.index + start, length))
                start += length
        else:
            parts = [
                self._text(Load(load.buffer, load.memory, load.index + load.stride * lane))
                for lane in range(valid)
            ]
        parts += ["0"] * (load.lanes - valid)
        return f"({self.type(load.dtype, load.lanes)})({', '.join(parts)})"

    def _backwards(self, load: Load) -> str:
        """Neighbours from the last to the first."""
        lanes = min(load.lanes, len(LANES))
        parts = [
            f"{self._vector_load(load, load.index - (first + lanes - 1), lanes)}"
            f".s{LANES[:lanes][::-1]}"
            for first in range(0, load.lanes, lanes)
        ]
        if len(parts) == 1:
            return parts[0]
        return f"({self.type(load.dtype, load.lanes)})({', '.join(parts)})"

    def _gather(self, gather: Gather) -> str:
        places = self._text(gather.places)
        valid = gather.valid or gather.lanes
        parts: list[str] = []
        for lane in range(valid):
            place = f"{places}.s{LANES[lane]}"
            index = f"{gather.index!r} + {place}" if gather.index.terms else place
            if short := self._short(gather.memory):
                parts.append(short.load.format(index=index, buffer=gather.buffer))
            else:
                parts.append(f"{gather.buffer}[{index}]")
        parts += ["0"] * (gather.lanes - valid)
        return f"({self.type(gather.dtype, gather.lanes)})({', '.join(parts)})"

    def _shift(self, shift: Shift) -> str:
        text, lanes = self._text(shift.value), shift.lanes
        fill = (
            self.value(shift.fill, lanes) if shift.fill.lanes == lanes else self._text(shift.fill)
        )
        parts = [f"{fill}.s{LANES[n]}" if shift.fill.lanes > 1 else fill for n in range(shift.by)]
        parts += shifted_parts(text, lanes, shift.by)
        return f"({self.type(shift.dtype, lanes)})({', '.join(parts)})"

    def _shuffle(self, shuffle: Shuffle) -> str:
        first, second = self._text(shuffle.first), self._text(shuffle.second)
        picks = ", ".join(map(str, shuffle.picks))
        return self.dialect.shuffle.format(first=first, second=second, picks=picks)

    def _vector_load(self, load: Load, index: Index, lanes: int) -> str:
        if lanes == 1:
            return self._text(Load(load.buffer, load.memory, index))
        address = self._address(load.buffer, index)
        if load.memory == F16:
            return f"vload_half{lanes}(0, {address})"
        form = self.dialect.wide_load
        return form.format(lanes=lanes, type=self.type(load.memory, lanes), address=address)

    def _slice(self, inner: Value, start: int, lanes: int) -> str:
        return lanes_text(self._text(inner), inner.lanes, start, lanes, self.dialect)

    def _calc(self, calc: Calc) -> str:
        lanes, op = calc.lanes, calc.op
        kind = self._vector(calc.dtype, lanes)
        if op == "select":
            return self._select(calc, kind)
        if is_condition(calc):
            return self._byte(calc, kind)
        args = [self.value(arg, lanes) for arg in calc.args]
        if op == "cast":
            source = calc.args[0]
            return f"({kind})({args[0]})" if lanes == 1 else f"convert_{kind}({self._text(source)})"
        if op == "not":
            return f"({args[0]} ^ ({kind})(1))"
        if op == "neg":
            return self._wrapped(calc, "-", [f"({self._zero(calc)})", args[0]])
        if op == "invert":
            return f"({kind})(~{args[0]})"
        if op in _INFIX:
            if op in _WRAPPING and calc.dtype.kind in "iu":
                return self._wrapped(calc, _INFIX[op], args)
            return self._narrowed(calc, f"({args[0]} {_INFIX[op]} {args[1]})")
        function = self.dialect.functions.get(op, op)
        if lanes == 1 and calc.dtype.kind in "iu" and calc.dtype.itemsize < 4:
            # Computed as int, they would not tell which function of that name is meant.
            args = [f"({kind}){arg}" for arg in args]
        return f"{function}({', '.join(args)})"

    def _narrowed(self, calc: Calc, text: str) -> str:
        """C computes with small integers as int; bits of them stay what they are."""
        small = calc.lanes == 1 and calc.dtype.kind in "iu" and calc.dtype.itemsize < 4
        if not small or calc.op in _BITS:
            return text
        return f"({self.type(calc.dtype, 1)}){text}"

    def _byte(self, calc: Calc, kind: str) -> str:
        """A condition as a byte, 0 or 1."""
        if calc.lanes == 1:
            return f"({kind}){self._truth(calc)}"
        mask = self._mask(calc, calc.lanes, _mask_size(calc))
        return f"(convert_{kind}{mask} & ({kind})(1))"

    def _zero(self, calc: Calc) -> str:
        zero = "-0.0f" if calc.dtype == F32 else "-0.0" if calc.dtype.kind == "f" else "0"
        return f"({self.type(calc.dtype, calc.lanes)})({zero})"

    def _wrapped(self, calc: Calc, symbol: str, args: Sequence[str]) -> str:
        """Integer arithmetic modulo the width: signed numbers are computed as unsigned ones."""
        dtype, lanes = calc.dtype, calc.lanes
        if dtype.kind == "f":
            return f"({args[0]} {symbol} {args[1]})"
        kind = self.type(dtype, lanes)
        unsigned = self.dialect.unsigned.get(dtype.name)
        if lanes == 1 and dtype.itemsize == 2:
            # C would compute a product of two of them as an int, which it may overflow.
            unsigned = self.dialect.unsigned["int32"]
        if unsigned is None:
            text = f"({args[0]} {symbol} {args[1]})"
            return f"({kind}){text}" if lanes == 1 and dtype.itemsize < 4 else text
        if lanes == 1:
            return f"({kind})(({unsigned})({args[0]}) {symbol} ({unsigned})({args[1]}))"
        as_unsigned = f"as_{unsigned}{lanes}"
        return f"as_{kind}({as_unsigned}({args[0]}) {symbol} {as_unsigned}({args[1]}))"

    def _select(self, calc: Calc, kind: str) -> str:
        condition, *choices = calc.args
        then, otherwise = (self.value(choice, calc.lanes) for choice in choices)
        if calc.lanes == 1:
            return self._narrowed(calc, f"({self._truth(condition)} ? {then} : {otherwise})")
        mask = self._mask(condition, calc.lanes, calc.dtype.itemsize)
        return f"select({otherwise}, {then}, {mask})"

    def _truth(self, value: Value) -> str:
        """A condition in C's sense."""
        if not (isinstance(value, Calc) and is_condition(value)):
            return self._text(value)
        if value.op in COMPARISONS:
            lhs, rhs = map(self._text, value.args)
            return f"({lhs} {_COMPARE[value.op]} {rhs})"
        if value.op == "not":
            return f"(!{self._truth(value.args[0])})"
        lhs, rhs = map(self._truth, value.args)
        return f"({lhs} {_BITS[value.op]} {rhs})"

    def _mask(self, value: Value, lanes: int, size: int) -> str:
        """A condition as a vector of integers of `size` bytes, all bits set where it holds."""
        kind = self.type(np.dtype(f"i{size}"), lanes)
        if not (isinstance(value, Calc) and is_condition(value)):
            return f"(convert_{kind}({self.value(value, lanes)}) != ({kind})(0))"
        held = _mask_size(value)
        if value.op in COMPARISONS:
            lhs, rhs = (self.value(arg, lanes) for arg in value.args)
            text = f"({lhs} {_COMPARE[value.op]} {rhs})"
        elif value.op == "not":
            text = f"(~{self._mask(value.args[0], lanes, held)})"
        else:
            lhs, rhs = (self._mask(arg, lanes, held) for arg in value.args)
            text = f"({lhs} {_BITS[value.op]} {rhs})"
        return text if held == size else f"convert_{kind}{text}"


def _mask_size(condition: Value) -> int:
    """Bytes per lane of the smallest mask that a condition's comparisons give."""
    assert isinstance(condition, Calc)
    if condition.op in COMPARISONS:
        return condition.args[0].dtype.itemsize
    return min(map(_mask_size, condition.args))
