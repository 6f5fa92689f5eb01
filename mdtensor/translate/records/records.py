"""Symbolic records in traced functions: elements with fields, sub-arrays and strings.

They ask for the columns (`columns.py`) that an operation needs.
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import FieldError, shown
from mdtensor.options import is_sequence
from mdtensor.translate.arithmetic import Aggregate
from mdtensor.translate.python.functions import conjunction, equality
from mdtensor.translate.records.columns import WORD, Column, Path, part_dtype
from mdtensor.translate.scalar import I64, Expr, apply, as_expr, cast
from mdtensor.translate.tracing import SymbolError

CHARACTER = np.dtype("u1")


@dataclass(frozen=True, slots=True)
class RecordOperand:
    """An operand of records or strings: its number, and its columns as expressions by `value`.

    Strings of two operands that are `encoded` are compared by their codes.
    """

    number: int
    value: Callable[[Column], Expr]
    encoded: bool = False

    def __repr__(self) -> str:
        return f"operand {self.number}"


def has_parts(dtype: np.dtype) -> bool:
    """Whether elements of a type are records or strings, read by columns.

    >>> [has_parts(np.dtype(name)) for name in ("f4", "S8", "U2")]
    [False, True, True]
    """
    return dtype.names is not None or dtype.kind in "SU"


def symbol_of(dtype: np.dtype, operand: RecordOperand, what: str = "", path: Path = ()) -> Any:
    """The symbolic element of a type in a traced function, or a part of it.

    `what` is its name in errors.

    >>> from mdtensor.translate.scalar import param
    >>> person = np.dtype([("id", "i8"), ("name", "S8")])
    >>> symbol = symbol_of(person, RecordOperand(0, lambda column: param(column.word, "u4")))
    >>> symbol["name"] == b"Ann"
    ((p0 == 7237185) & (p1 == 0))
    """
    what = what or repr(operand)
    if dtype.names is not None:
        return Record(dtype, operand, what, path)
    if dtype.subdtype is not None:
        return SubArray(dtype, operand, what, path)
    if dtype.kind in "SU":
        return Text.of(dtype, what, operand, path)
    if dtype.kind not in "biufc":
        raise FieldError(
            f"{what} is {dtype}, with which no kernel computes",
            hint="convert it to an integer, a float or a string of fixed length",
        )
    return operand.value(Column(path))


class _Part(Aggregate):
    """Base class of symbolic records, sub-arrays and strings, which only support equality."""

    __slots__ = ()

    def refused(self, what: str) -> FieldError:
        """The error for an operation that needs a number."""
        return FieldError(f"{what} takes numbers, not {self!r}", hint=self._way_out())

    @abstractmethod
    def _way_out(self) -> str:
        """The hint of such an error."""


class Record(_Part):
    """A symbolic record, with fields by key and by attribute; `==` compares all fields."""

    __slots__ = ("_dtype", "_operand", "_path", "_what")

    def __init__(self, dtype: np.dtype, operand: RecordOperand, what: str, path: Path = ()) -> None:
        self._dtype = dtype
        self._operand = operand
        self._what = what
        self._path = path

    def __getitem__(self, name: Any) -> Any:
        names = self._dtype.names or ()
        if isinstance(name, int) and -len(names) <= name < len(names):
            name = names[name]
        if name not in names:
            raise FieldError(
                f"{self._what} has no field {name!r}", hint=f"its fields are {', '.join(names)}"
            )
        what = f"field {name!r} of {self._what}"
        return symbol_of(self._dtype[name], self._operand, what, (*self._path, name))

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __len__(self) -> int:
        return len(self._dtype.names or ())

    def __iter__(self) -> Iterator[Any]:
        return (self[name] for name in self._dtype.names or ())

    def equals(self, other: object) -> Any:
        """The equality of all fields as an expression."""
        if not isinstance(other, Record):
            raise FieldError(f"{self!r} is compared with {other!r}", hint=self._way_out())
        if self._dtype.names != other._dtype.names:
            raise FieldError(
                f"{self!r} and {other!r} have different fields",
                hint="compare the fields that both have",
            )
        return _all(equality(mine, its) for mine, its in zip(self, other, strict=True))

    def _way_out(self) -> str:
        names = self._dtype.names or ()
        return f"take one of its fields: {', '.join(names)}"

    def __repr__(self) -> str:
        return f"{self._what} (a record)"


class SubArray(_Part):
    """A symbolic sub-array field, indexed by constants; it can be iterated."""

    __slots__ = ("_base", "_operand", "_path", "_shape", "_what")

    def __init__(self, dtype: np.dtype, operand: RecordOperand, what: str, path: Path = ()) -> None:
        self._base, self._shape = dtype.base, dtype.shape
        self._operand = operand
        self._what = what
        self._path = path

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self._shape)

    def __len__(self) -> int:
        return self._shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        first, *rest = index if is_sequence(index) else (index,)
        position = _position(first, len(self), self._what)
        inner = part_dtype(np.dtype((self._base, self._shape)), position)
        part = symbol_of(inner, self._operand, self._what, (*self._path, position))
        if not rest:
            return part
        if not isinstance(part, SubArray):
            raise FieldError(f"{self!r} has {self.ndim} axes, but there are more indices")
        return part[tuple(rest)]

    def equals(self, other: object) -> Any:
        """The equality of all elements as an expression."""
        if not isinstance(other, SubArray) or self.shape != other.shape:
            raise FieldError(f"{self!r} is compared with {other!r}", hint=self._way_out())
        return _all(equality(mine, its) for mine, its in zip(self, other, strict=True))

    def _way_out(self) -> str:
        return "take one of its elements, or loop over them"

    def __repr__(self) -> str:
        extents = ", ".join(map(str, self._shape))
        return f"{self._what} ({self._base}[{extents}])"


@dataclass(frozen=True, eq=False, repr=False)
class Text(_Part):
    """A symbolic string of fixed length; trailing zeros are ignored, as in NumPy.

    `kind` is that of its type, "S" or "U". `character(n)` is the code of a character. `word(n)`
    holds one character of "U", four of "S". Parts of strings have no words, and no origin.
    """

    kind: str
    length: int
    what: str
    character: Callable[[int], Expr]
    word: Callable[[int], Expr] | None = None
    origin: tuple[RecordOperand, Path] | None = None

    @classmethod
    def of(cls, dtype: np.dtype, what: str, operand: RecordOperand, path: Path = ()) -> Text:
        """Build a string of a type from its words (see `words_of`)."""

        def word(position: int) -> Expr:
            return operand.value(Column(path, position))

        def character(position: int) -> Expr:
            place, within = divmod(position, 4)
            return cast((word(place) >> 8 * within) & 255, CHARACTER)

        origin = (operand, path)
        if dtype.kind == "U":
            return cls("U", dtype.itemsize // 4, what, word, word, origin)
        return cls("S", dtype.itemsize, what, character, word, origin)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(self.length))

    def equals(self, other: object) -> Any:
        """The equality of all characters as an expression."""
        if isinstance(other, str | bytes):
            return self._equals_constant(other)
        if not isinstance(other, Text):
            raise FieldError(f"{self!r} is compared with {other!r}, a number", hint=self._way_out())
        if self.kind != other.kind:
            raise FieldError(
                f"{self!r} is compared with {other!r}",
                hint="bytes (S) and text (U) differ; convert one array by astype",
            )
        if self._is_encoded and other._is_encoded:
            return apply("eq", self._code(other), other._code(self))
        if self.word is not None and other.word is not None:
            return _same(self._words(self.word), other._words(other.word))
        return _same(self._characters(), other._characters())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            places = range(self.length)[index]
            return Text(self.kind, len(places), self.what, lambda n: self.character(places[n]))
        place = _position(index, self.length, self.what)
        if self.kind == "S":
            return cast(self.character(place), I64)  # Python has the code as an int
        return Text(self.kind, 1, self.what, lambda _: self.character(place))

    def _equals_constant(self, given: str | bytes) -> Any:
        codes = self._codes(given)
        if len(codes) > self.length:
            raise FieldError(
                f"{given!r} has {len(codes)} characters, but {self!r} holds {self.length}",
                hint=f"it equals no such string; compare with {given[: self.length]!r}",
            )
        if self.word is None or self.kind == "U":
            return _same(self._characters(), codes)
        padded = bytes(codes) + bytes(-len(codes) % WORD.itemsize)
        return _same(self._words(self.word), np.frombuffer(padded, "<u4").tolist())

    def _codes(self, given: str | bytes) -> list[int]:
        if self.kind == "U" and isinstance(given, bytes):
            raise FieldError(
                f"{self!r} is compared with bytes", hint=f"with text: {given.decode('latin1')!r}"
            )
        if self.kind == "U":
            return [ord(c) for c in str(given).rstrip("\0")]
        if isinstance(given, str) and not given.isascii():
            raise FieldError(
                f"{self!r} is compared with {given!r}, which is not ASCII",
                hint=f"encode it as the field is: {given!r}.encode(…)",
            )
        encoded = given.encode() if isinstance(given, str) else given
        return list(encoded.rstrip(b"\0"))

    @property
    def _is_encoded(self) -> bool:
        one_word = 1 if self.kind == "U" else WORD.itemsize
        return self.origin is not None and self.origin[0].encoded and self.length > one_word

    def _code(self, other: Text) -> Expr:
        assert self.origin is not None
        assert other.origin is not None
        (operand, path), (peer, its_path) = self.origin, other.origin
        return operand.value(Column(path, peer=(peer.number, its_path)))

    def _words(self, word: Callable[[int], Expr]) -> list[Expr]:
        size = WORD.itemsize if self.kind == "S" else 1
        return [word(n) for n in range(-(-self.length // size))]

    def _characters(self) -> list[Expr]:
        return [self.character(n) for n in range(self.length)]

    def _way_out(self) -> str:
        return "compare strings by == and !=, with strings or constants"

    def __repr__(self) -> str:
        return f"{self.what} ({self.kind}{self.length})"


def _same(mine: Sequence[Any], its: Sequence[Any]) -> Any:
    """Equality of words or characters; the shorter string is padded with zeros."""
    longest = max(len(mine), len(its))
    padded = ([*side, *[0] * (longest - len(side))] for side in (mine, its))
    return _all(apply("eq", as_expr(a), b) for a, b in zip(*padded, strict=True))


def _all(conditions: Any) -> Any:
    return reduce(conjunction, conditions, True)


def _position(index: Any, extent: int, what: str) -> int:
    if isinstance(index, Expr) and index.op == "const":
        index = index.value
    try:
        place = operator.index(index)
    except (TypeError, SymbolError):
        raise FieldError(
            f"{what} is indexed by {shown(index)}", hint="positions in it must be known constants"
        ) from None
    if not -extent <= place < extent:
        raise FieldError(f"index {place} is out of reach: {what} has {extent} elements")
    return place % extent
