"""Rendering of values and indices in a C-like dialect."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.kernels.dialect import Dialect, ShortFloat
from mdtensor.kernels.fused_products import fused_terms
from mdtensor.kernels.primitives import is_condition
from mdtensor.kernels.vector_text import LANES, lanes_text, shifted_parts
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.register_types import BOOL, F32, U8
from mdtensor.lower.ir.statements import IndexCalc
from mdtensor.lower.ir.values import (
    Calc,
    FromIndex,
    Gather,
    Iota,
    Literal,
    Load,
    Pack,
    Ref,
    Shift,
    Shuffle,
    Slice,
    Value,
)
from mdtensor.specs import is_short_float
from mdtensor.translate.operations import COMPARISONS, OPERATIONS

_BITS = {"and": "&", "or": "|", "xor": "^"}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "quot": "/", "rem": "%"}
_INFIX = _ARITHMETIC | _BITS | {"shl": "<<", "shr": ">>"}
_WRAPPING = ("add", "sub", "mul", "shl")


class ValueText:
    """The renderer of values; it records which helper functions the program needs."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.memory: dict[str, str] = {}
        self.short_floats: set[str] = set()
        self.has_long_vectors = False
        self.hides_remainders = False
        self.known_types: dict[np.dtype, str] = {}

    def _short(self, memory: np.dtype) -> ShortFloat | None:
        """The spelling of a 16-bit float type's loads and stores; None for other types."""
        if not is_short_float(memory):
            return None
        self.short_floats.add(memory.name)
        return self.dialect.short_floats[memory.name]

    @staticmethod
    def _address(buffer: str, index: Index) -> str:
        return f"{buffer} + {index!r}" if index.terms else buffer

    def index(self, value: Index | IndexCalc) -> str:
        """The text of an index expression."""
        if isinstance(value, Index):
            return repr(value)
        lhs, rhs = repr(value.lhs), repr(value.rhs)
        if value.op == "min":
            return f"({lhs} < {rhs} ? {lhs} : {rhs})"
        if value.op == "%" and self.hides_remainders:
            return self.dialect.hidden_remainder.format(number=lhs, by=rhs)
        if value.op in ("/", "%") and lhs.isidentifier():  # numbers of items, never negative
            return self.dialect.division.format(lhs=lhs, op=value.op, rhs=rhs)
        return f"({lhs}) {value.op} ({rhs})"

    def type(self, dtype: np.dtype, lanes: int) -> str:
        """The type of an element in memory, or of a vector of several."""
        if lanes == 1 and dtype in self.known_types:
            return self.known_types[dtype]
        if dtype.name not in self.dialect.types:
            raise LoweringError(f"{self.dialect.name} has no type {dtype.name}")
        if lanes == 1:  # NumPy takes long to name a type
            return self.known_types.setdefault(dtype, self.dialect.types[dtype.name])
        if lanes > len(self.dialect.lanes):
            if lanes != self.dialect.long_lanes or dtype.itemsize > 2:
                raise LoweringError(
                    f"{self.dialect.name} has no vectors of {lanes} lanes of {dtype}"
                )
            self.has_long_vectors = True
        return f"{self.dialect.wide_types[dtype.name]}{lanes}"

    def _vector(self, dtype: np.dtype, lanes: int) -> str:
        """The type of a vector in registers; LoweringError if the dialect has none."""
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
                return self._true_as_one(value.memory, self._load(value), value.lanes)
            case Slice(inner, start, lanes):
                return self._slice(inner, start, lanes)
            case Iota(dtype, lanes):
                numbers = ", ".join(map(str, range(lanes)))
                return f"({self.type(dtype, lanes)})({numbers})"
            case Gather():
                return self._true_as_one(value.memory, self._gather(value), value.lanes)
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

    def _true_as_one(self, memory: np.dtype, text: str, lanes: int) -> str:
        """Loaded text with booleans normalised to 0 and 1: in NumPy every nonzero byte is True."""
        if memory != BOOL:
            return text
        kind = self._vector(U8, lanes)
        return f"({kind})({text} != 0)" if lanes == 1 else f"min({text}, ({kind})(1))"

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
                self._load(Load(load.buffer, load.memory, load.index + load.stride * lane))
                for lane in range(valid)
            ]
        parts += ["0"] * (load.lanes - valid)
        return f"({self.type(load.dtype, load.lanes)})({', '.join(parts)})"

    def _backwards(self, load: Load) -> str:
        """A contiguous vector load with reversed lanes."""
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
            return self._load(Load(load.buffer, load.memory, index))
        address = self._address(load.buffer, index)
        if short := self._short(load.memory):
            return short.load_together.format(lanes=lanes, address=address)
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
        if self.dialect.fused and (terms := fused_terms(calc)):
            x, y, addend = (self.value(term, lanes) for term in terms)
            return self.dialect.fused.format(x=x, y=y, addend=addend)
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
        """The text, cast back to a small integer type that C promoted to int."""
        small = calc.lanes == 1 and calc.dtype.kind in "iu" and calc.dtype.itemsize < 4
        if not small or calc.op in _BITS:
            return text
        return f"({self.type(calc.dtype, 1)}){text}"

    def _byte(self, calc: Calc, kind: str) -> str:
        """A condition as a byte, 0 or 1, per lane."""
        if calc.lanes == 1:
            return f"({kind}){self.truth(calc)}"
        mask = self._mask(calc, calc.lanes, _mask_size(calc))
        return f"(convert_{kind}{mask} & ({kind})(1))"

    def _zero(self, calc: Calc) -> str:
        zero = "-0.0f" if calc.dtype == F32 else "-0.0" if calc.dtype.kind == "f" else "0"
        return f"({self.type(calc.dtype, calc.lanes)})({zero})"

    def _wrapped(self, calc: Calc, symbol: str, args: Sequence[str]) -> str:
        """Wrapping integer arithmetic: signed operands are computed as unsigned ones."""
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
            text = f"({unsigned})({args[0]}) {symbol} ({unsigned})({args[1]})"
            return f"{self.dialect.small.get((dtype.name, symbol), f'({kind})')}({text})"
        as_unsigned = f"as_{unsigned}{lanes}"
        return f"as_{kind}({as_unsigned}({args[0]}) {symbol} {as_unsigned}({args[1]}))"

    def _select(self, calc: Calc, kind: str) -> str:
        condition, *choices = calc.args
        then, otherwise = (self.value(choice, calc.lanes) for choice in choices)
        if calc.lanes == 1:
            if hiding := self.dialect.small.get((calc.dtype.name, calc.op)):
                then = f"{hiding}({then})"
            return self._narrowed(calc, f"({self.truth(condition)} ? {then} : {otherwise})")
        mask = self._mask(condition, calc.lanes, calc.dtype.itemsize)
        return f"select({otherwise}, {then}, {mask})"

    def truth(self, value: Value) -> str:
        """The text of a condition, as C's `if` takes it."""
        if not (isinstance(value, Calc) and is_condition(value)):
            return self._text(value)
        if value.op in COMPARISONS:
            lhs, rhs = map(self._text, value.args)
            return f"({lhs} {OPERATIONS[value.op].symbol} {rhs})"
        if value.op == "not":
            return f"(!{self.truth(value.args[0])})"
        lhs, rhs = map(self.truth, value.args)
        return f"({lhs} {_BITS[value.op]} {rhs})"

    def _mask(self, value: Value, lanes: int, size: int) -> str:
        """A condition as a vector mask of `size`-byte integers, all bits set where it holds."""
        kind = self.type(np.dtype(f"i{size}"), lanes)
        if not (isinstance(value, Calc) and is_condition(value)):
            return f"(convert_{kind}({self.value(value, lanes)}) != ({kind})(0))"
        held = _mask_size(value)
        if value.op in COMPARISONS:
            lhs, rhs = (self.value(arg, lanes) for arg in value.args)
            text = f"({lhs} {OPERATIONS[value.op].symbol} {rhs})"
        elif value.op == "not":
            text = f"(~{self._mask(value.args[0], lanes, held)})"
        else:
            lhs, rhs = (self._mask(arg, lanes, held) for arg in value.args)
            text = f"({lhs} {_BITS[value.op]} {rhs})"
        return text if held == size else f"convert_{kind}{text}"


def _mask_size(condition: Value) -> int:
    """The least size in bytes per lane of the masks that a condition's comparisons give."""
    assert isinstance(condition, Calc)
    if condition.op in COMPARISONS:
        return condition.args[0].dtype.itemsize
    return min(map(_mask_size, condition.args))
