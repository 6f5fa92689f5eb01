"""The text of values and indices as Python: scalars are numbers, vectors are lists of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mdtensor.lower.ir.index import Index, as_index
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
from tests.lower.checker.arithmetic import cast_text, operation_text

I64 = np.dtype(np.int64)
LONGEST = 1500  # characters of an expression; Python's parser nests no more than 200 parentheses


class NotInterpretedError(Exception):
    """A statement that the interpreter does not know."""


@dataclass(frozen=True)
class Place:
    """Where a name of a kernel points: a memory, what it is, and the text of an offset into it."""

    memory: str
    kind: str
    offset: str = ""
    size: int = 1

    def at(self, index: str) -> str:
        """The text of an index into the memory; that of scratch memory counts bytes."""
        if self.kind == "scratch":
            return f"{self.offset or 0} + {self.size} * ({index})"
        return f"{self.offset} + {index}" if self.offset else index


class _Lanes(NamedTuple):
    """Vectors that a comprehension walks, by the names of their lanes."""

    lanes: int
    names: dict[str, str]

    @property
    def next(self) -> str:
        """A name for the lanes of one more vector."""
        return f"l{len(self.names)}"


class ValueText:
    """Writes values; `names` are what variables are called, `places` where pointers point."""

    def __init__(self, *, wide_are_aligned: bool) -> None:
        self.names: dict[str, str] = {}
        self.places: dict[str, Place] = {}
        self.wide_are_aligned = wide_are_aligned

    def named_apart(self, text: str) -> str:
        """A variable that holds what a long text says."""
        raise NotImplementedError

    def index(self, index: Index | IndexCalc | int) -> str:
        """The text of an index expression."""
        if isinstance(index, IndexCalc):
            lhs, rhs = self.index(index.lhs), self.index(index.rhs)
            if index.op == "min":
                return f"min({lhs}, {rhs})"
            if index.op in "/%":
                return f"natural({lhs}) {'//' if index.op == '/' else '%'} ({rhs})"
            return f"({lhs}) {index.op} ({rhs})"
        terms = as_index(index).terms
        if not terms:
            return "0"
        parts = [
            "*".join([str(c), *(self.names[n] for n in m)])
            if c != 1 or not m
            else "*".join(self.names[n] for n in m)
            for m, c in terms
        ]
        return " + ".join(parts)

    def value(self, value: Value, lanes: int = 1) -> str:
        """The text of a value, widened to `lanes`."""
        text = self._vector(value) if value.lanes > 1 else self._scalar(value)
        if len(text) > LONGEST:
            text = self.named_apart(text)
        return text if value.lanes == lanes else f"[{text}] * {lanes}"

    def _scalar(self, value: Value, leaf: Callable[[Value], str] | None = None) -> str:
        match value:
            case Ref(name, _, _):
                return self.names[name]
            case Literal(number, dtype, _):
                return literal_text(number, dtype)
            case Load(buffer, memory, index):
                return self.load(buffer, memory, self.index(index))
            case Slice(inner, start, 1):
                return f"{self._vector(inner)}[{start}]"
            case FromIndex(index, dtype, _):
                return cast_text(f"({self.index(index)})", I64, dtype)
            case Calc(op, args, dtype):
                texts = [(leaf or self._scalar)(arg) for arg in args]
                given = args[-1].dtype if op == "select" else args[0].dtype
                text = operation_text(op, texts, given, dtype)
                return text if leaf or len(text) <= LONGEST else self.named_apart(text)
            case _:
                raise NotInterpretedError(f"scalar {type(value).__name__}")

    def _vector(self, value: Value) -> str:
        match value:
            case Ref(name, _, _):
                return self.names[name]
            case Literal() | FromIndex():
                return f"[{self._scalar(value)}] * {value.lanes}"
            case Load():
                return self._load(value)
            case Slice(inner, start, lanes):
                return f"{self._vector(inner)}[{start}:{start + lanes}]"
            case Iota(dtype, lanes):
                kind = "float(n)" if dtype.kind == "f" else "n"
                return f"[{kind} for n in range({lanes})]"
            case Gather(buffer, memory, index, places, valid):
                count = valid or value.lanes
                each = self.load(buffer, memory, f"{self.index(index)} + p")
                whole = f"[{each} for p in {self.names[places.name]}[:{count}]]"
                return f"({whole} + {zeros(value.dtype, value.lanes - count)})"
            case Shift(inner, by, fill):
                first = self.value(fill, value.lanes)
                return f"(({first})[:{by}] + {self._vector(inner)}[:{value.lanes - by}])"
            case Shuffle(first, second, picks):
                both = f"({self.names[first.name]} + {self.names[second.name]})"
                return f"list(map({both}.__getitem__, {picks}))"
            case Pack(values):
                return f"[{', '.join(self._scalar(each) for each in values)}]"
            case Calc():
                return self._lanewise(value)

    def _lanewise(self, calc: Calc) -> str:
        lanes = _Lanes(calc.lanes, {})
        text = self._of_lane(calc, lanes)
        return _comprehension(text, lanes)

    def _of_lane(self, value: Value, lanes: _Lanes) -> str:
        if value.lanes == 1 or isinstance(value, Literal | FromIndex):
            text = self._scalar(value)
            return self.named_apart(text) if isinstance(value, Calc) else text
        if not isinstance(value, Calc):
            return lanes.names.setdefault(self._vector(value), lanes.next)
        text = self._scalar(value, lambda arg: self._of_lane(arg, lanes))
        if len(text) <= LONGEST:
            return text
        return lanes.names.setdefault(self.named_apart(_comprehension(text, lanes)), lanes.next)

    def load(self, buffer: str, memory: np.dtype, index: str) -> str:
        """The text of an element of a buffer."""
        place = self.places[buffer]
        at = place.at(index)
        if place.kind == "scratch":
            return f"{place.memory}.get_as({at}, {memory.itemsize})"
        text = f"{place.memory}.read({at}, who)" if place.kind == "local" else None
        return text or f"{place.memory}[{at}]"

    def _load(self, load: Load) -> str:
        count = load.valid or load.lanes
        stride = self.index(load.stride)
        index = self.index(load.index)
        if stride == "1":
            place = self.places[load.buffer]
            if self.wide_are_aligned and place.kind == "input" and load.lanes == count:
                return f"{place.memory}.wide({place.at(index)}, {load.memory.itemsize}, {count})"
            each = self.load(load.buffer, load.memory, "n")
            text = f"[{each} for n in span({index}, {count})]"
        else:
            each = self.load(load.buffer, load.memory, f"{index} + {stride} * n")
            text = f"[{each} for n in range({count})]"
        return (
            text if count == load.lanes else f"({text} + {zeros(load.dtype, load.lanes - count)})"
        )


def _comprehension(text: str, lanes: _Lanes) -> str:
    """The vector whose lanes a text says."""
    if not lanes.names:
        return f"[{text}] * {lanes.lanes}"
    variables, vectors = ", ".join(lanes.names.values()), ", ".join(lanes.names)
    return f"[{text} for {variables}, in zip({vectors})]"


def literal_text(number: bool | int | float, dtype: np.dtype) -> str:
    """A constant."""
    text = repr(float(number) if dtype.kind not in "iub" else int(number))
    return f"({text})" if text.startswith("-") else text


def zeros(dtype: np.dtype, count: int) -> str:
    """A vector of zeros."""
    return f"[{0 if dtype.kind in 'iub' else 0.0}] * {count}"
