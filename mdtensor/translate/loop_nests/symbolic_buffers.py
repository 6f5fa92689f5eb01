"""Symbolic arrays of a traced loop nest: indexing records a read, assignment a store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, Protocol, cast

import numpy as np

from mdtensor.errors import FieldError, TranslationError, shown
from mdtensor.specs import TensorSpec
from mdtensor.translate.arithmetic import Aggregate
from mdtensor.translate.python.functions import conjunction, equality
from mdtensor.translate.records.columns import Column, word_spec
from mdtensor.translate.records.records import RecordOperand, Text
from mdtensor.translate.scalar import Expr, as_expr


class ElementRecorder(Protocol):
    """Receives the reads and stores of elements."""

    def read(self, buffer: SymbolicBuffer, index: tuple[Expr, ...]) -> Any:
        """Record a read; the element's symbolic value."""
        ...

    def store(
        self, buffer: SymbolicBuffer, index: tuple[Expr, ...], value: Any, where: Any = True
    ) -> None:
        """Record a store of a value under a condition."""
        ...


class _Whole(Aggregate):
    """Base class of symbolic values with several elements, which refuse arithmetic."""

    __slots__ = ()

    def refused(self, what: str) -> TranslationError:
        """The error for an operation on several elements at once."""
        return TranslationError(
            f"{self!r} is used as a whole: {what}", hint="loop over its elements"
        )

    def __iter__(self) -> Iterator[Any]:
        raise TranslationError(
            f"{self!r} is gone over as a whole",
            hint="go over indices: for i in range(len(x)): … x[i]",
        )


class SymbolicBuffer(_Whole):
    """A symbolic array: only its name, type and shape are known.

    An element of a structured type has fields, by attribute and by key; a field is a buffer of its
    own, named `buffer.field`, whose last axes are those of a sub-array. Strings are held as words,
    along one more axis (see `records.columns.words_of`).
    """

    __slots__ = ("_fields", "_recorder", "_text", "is_weak", "name", "outer", "spec")

    def __init__(
        self,
        name: str,
        spec: TensorSpec,
        recorder: ElementRecorder,
        *,
        is_weak: bool = False,
        outer: int | None = None,
    ) -> None:
        self.name = name
        # Axes of the array of records of which this is a field; those behind are a sub-array's.
        self.outer = len(spec.shape) + 1 if outer is None else outer
        depth = len(spec.shape) if outer is None else outer
        self._text = spec.dtype if spec.dtype.kind in "SU" else None
        self.spec = spec if self._text is None else word_spec(spec)
        self.is_weak = is_weak
        self._recorder = recorder
        self._fields = {
            field: SymbolicBuffer(f"{name}.{field}", field_spec, recorder, outer=depth)
            for field, field_spec in fields_of(spec).items()
        }

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, without the axis of a string's words."""
        return self.spec.shape if self._text is None else self.spec.shape[:-1]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.spec.shape) - (self._text is not None)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self.spec.dtype

    @property
    def fields(self) -> Mapping[str, SymbolicBuffer]:
        """The buffers of the fields; empty without fields."""
        return self._fields

    @property
    def parts(self) -> tuple[SymbolicBuffer, ...]:
        """The buffer itself, and all nested fields' buffers."""
        fields = self._fields.values()
        return (self, *(part for field in fields for part in field.parts))

    def __len__(self) -> int:
        if not self.spec.shape:
            raise TranslationError(f"{self.name} has no axes and so no length")
        return self.spec.shape[0]

    def __getitem__(self, index: Any) -> Any:
        return self.field(index) if isinstance(index, str) else self.element(_items(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.assign(_items(index), value)

    def field(self, name: Any) -> SymbolicBuffer:
        """The buffer of a field, by name or position."""
        names = list(self._fields)
        if isinstance(name, int) and -len(names) <= name < len(names):
            name = names[name]
        if name not in self._fields:
            hint = f"one of {', '.join(names)}" if names else "its elements are no records"
            raise FieldError(f"{self.name} has no field {name!r}", hint=hint)
        return self._fields[name]

    def set_where(self, condition: Any, index: Any, value: Any) -> None:
        """Assign an element under a condition."""
        self.assign(_items(index), value, condition)

    def element(self, items: tuple[Any, ...]) -> Any:
        """The element at an index, or a row where indices are fewer than axes."""
        if len(items) < self.ndim:
            return SymbolicRow(self, items)
        place = self._place(items)
        if self._text is not None:
            return self._text_at(self._text, place)
        return SymbolicRecord(self, items) if self._fields else self._recorder.read(self, place)

    def _text_at(self, dtype: np.dtype, place: tuple[Expr, ...]) -> Text:
        def word(column: Column) -> Any:
            return self._recorder.read(self, (*place, as_expr(column.word)))

        return Text.of(dtype, f"an element of {self.name}", RecordOperand(0, word))

    def assign(self, items: tuple[Any, ...], value: Any, where: Any = True) -> None:
        """Store a value at an index under a condition."""
        if len(items) < self.ndim:
            raise TranslationError(
                f"{self.name} has {self.ndim} axes but is assigned at {len(items)} indices",
                hint="loop over all axes and assign single elements",
            )
        if self._fields:
            raise TranslationError(
                f"an element of {self.name} is a record and cannot be assigned whole",
                hint=f"assign its fields, such as {self.name}[i][{next(iter(self._fields))!r}]",
            )
        self._set(items, value, where)

    def _set(self, items: tuple[Any, ...], value: Any, where: Any) -> None:
        if self._text is not None:
            raise TranslationError(
                f"an element of {self.name} is a string, and kernels write only numbers",
                hint="write an index, and take the string by it afterwards",
            )
        self._recorder.store(self, self._place(items), value, where)

    def _place(self, items: tuple[Any, ...]) -> tuple[Expr, ...]:
        if len(items) > self.ndim:
            raise TranslationError(f"{self.name} has {self.ndim} axes but {len(items)} indices")
        return tuple(
            self._index(axis, item, extent)
            for axis, (item, extent) in enumerate(zip(items, self.shape, strict=True))
        )

    def _index(self, axis: int, item: Any, extent: int) -> Expr:
        index = self._number(item)
        if index.op != "const":
            return index
        value = index.number
        if not -extent <= value < extent:
            raise TranslationError(
                f"index {value} is out of reach: axis {axis} of {self.name} has extent {extent}"
            )
        return as_expr(value + extent if value < 0 else value)

    def _number(self, item: Any) -> Expr:
        if isinstance(item, slice) or item is Ellipsis or item is None:
            raise TranslationError(
                f"{self.name} is indexed by a slice",
                hint="loop over the axis and index single elements",
            )
        if isinstance(item, SymbolicBuffer | SymbolicRow | SymbolicRecord):
            raise TranslationError(f"{self.name} is indexed by an array", hint="index one element")
        index = as_expr(item)
        if index.dtype.kind not in "iu":
            raise TranslationError(
                f"index {index!r} of {self.name} is {index.dtype.name}, not an integer",
                hint="use // for divisions, or convert it by int()",
            )
        return index

    def __repr__(self) -> str:
        return f"{self.name}: {self.spec!r}"


class OpenBuffer(SymbolicBuffer):
    """A symbolic array of unknown shape, with as many axes as each access has indices."""

    __slots__ = ()

    def __init__(self, name: str, dtype: np.dtype, recorder: ElementRecorder) -> None:
        super().__init__(name, TensorSpec.of((), dtype), recorder)

    @property
    def shape(self) -> tuple[int, ...]:
        """Raises TranslationError: the shape is unknown."""
        raise TranslationError(
            f"the shape of {self.name} is not known", hint=f"{self.name}=Buffer[T, extents…]"
        )

    def __len__(self) -> int:
        return self.shape[0]

    def element(self, items: tuple[Any, ...]) -> Any:
        """The element at an index."""
        return self._recorder.read(self, self._place(items))

    def assign(self, items: tuple[Any, ...], value: Any, where: Any = True) -> None:
        """Store a value at an index under a condition."""
        self._set(items, value, where)

    def _place(self, items: tuple[Any, ...]) -> tuple[Expr, ...]:
        return tuple(self._number(item) for item in items)


class SymbolicRow(_Whole):
    """A buffer with its first axes indexed: `A[i]` of a matrix."""

    __slots__ = ("_buffer", "_items")

    def __init__(self, buffer: SymbolicBuffer, items: tuple[Any, ...]) -> None:
        self._buffer = buffer
        self._items = items

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the remaining axes."""
        return self._buffer.shape[len(self._items) :]

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self._buffer.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        return self._buffer.element((*self._items, *_items(index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._buffer.assign((*self._items, *_items(index)), value)

    def set_where(self, condition: Any, index: Any, value: Any) -> None:
        """Assign an element under a condition."""
        self._buffer.assign((*self._items, *_items(index)), value, condition)

    def __iter__(self) -> Iterator[Any]:
        if not self.is_sub_array:
            return super().__iter__()
        return (self[position] for position in range(len(self)))

    def equals(self, other: object) -> Any:
        """Whether two sub-arrays of records have equal elements; rows of arrays are refused."""
        if not isinstance(other, SymbolicRow) or not self.is_sub_array or not other.is_sub_array:
            raise self.refused("a comparison")
        if self.shape != other.shape:
            raise self.refused(f"a comparison with {other!r}")
        return _all(equality(self[n], other[n]) for n in range(len(self)))

    @property
    def is_sub_array(self) -> bool:
        """Whether the row is a sub-array field of one record."""
        return len(self._items) >= self._buffer.outer

    def __repr__(self) -> str:
        return f"a row of {self._buffer!r}"


class SymbolicRecord(_Whole):
    """An element of a structured type."""

    __slots__ = ("_buffer", "_items")

    def __init__(self, buffer: SymbolicBuffer, items: tuple[Any, ...]) -> None:
        self._buffer = buffer
        self._items = items

    def __len__(self) -> int:
        return len(self._buffer.fields)

    def __iter__(self) -> Iterator[Any]:
        return (self[name] for name in self._buffer.fields)

    def __getitem__(self, name: str | int) -> Any:
        return self._buffer.field(name).element(self._items)

    def __getattr__(self, name: str) -> Any:
        return self._buffer.field(name).element(self._items)

    def __setitem__(self, name: str | int, value: Any) -> None:
        self._buffer.field(name).assign(self._items, value)

    def set_where(self, condition: Any, name: str | int, value: Any) -> None:
        """Assign a field under a condition."""
        self._buffer.field(name).assign(self._items, value, condition)

    def equals(self, other: object) -> Any:
        """The equality of all fields as an expression; both must have the same fields."""
        if not isinstance(other, SymbolicRecord):
            raise TranslationError(
                f"{self!r} is compared with {shown(other)}", hint=self._way_out()
            )
        names = self._buffer.fields.keys()
        if other._buffer.fields.keys() != names:
            raise TranslationError(
                f"{self!r} and {other!r} have different fields",
                hint="compare the fields that both have",
            )
        return _all(equality(self[name], other[name]) for name in names)

    def refused(self, what: str) -> TranslationError:
        """The error for an operation on all fields at once."""
        return TranslationError(f"{self!r} is used as a whole: {what}", hint=self._way_out())

    def _way_out(self) -> str:
        return f"take one of its fields: {', '.join(self._buffer.fields)}"

    def __repr__(self) -> str:
        return f"a record of {self._buffer.name}"


def fields_of(spec: TensorSpec) -> dict[str, TensorSpec]:
    """The specs of a record's fields, by name; the axes of a sub-array come last.

    >>> fields_of(TensorSpec.of((5,), [("id", "i8"), ("values", "f8", (8,))]))
    {'id': int64[5], 'values': float64[5, 8]}
    """
    found: dict[str, TensorSpec] = {}
    for name in spec.dtype.names or ():
        dtype: np.dtype = spec.dtype[name]
        found[name] = TensorSpec.of((*spec.shape, *dtype.shape), dtype.base)
    return found


def _all(conditions: Iterable[Any]) -> Any:
    return reduce(conjunction, conditions, True)


def _items(index: Any) -> tuple[Any, ...]:
    return cast(tuple[Any, ...], index) if isinstance(index, tuple) else (index,)
