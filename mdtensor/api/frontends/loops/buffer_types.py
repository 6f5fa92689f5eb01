"""Buffer types of a directive: scalar types, and sizes where they are declared."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, ShapeError, shown
from mdtensor.options import whole
from mdtensor.specs import TensorSpec, as_dtype
from mdtensor.translate.python.tuples import as_tuple


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A basic type; indexing it by a number gives an array field of that many elements.

    >>> fp64
    float64
    >>> fp64[8]
    dtype(('<f8', (8,)))
    """

    dtype: np.dtype

    __iter__ = None  # indexing it never ends

    def __getitem__(self, count: int | tuple[int, ...]) -> np.dtype:
        return as_dtype((self.dtype, count))

    def __repr__(self) -> str:
        return self.dtype.name


def _scalar(code: str) -> ScalarType:
    return ScalarType(np.dtype(code))


fp16, fp32, fp64 = _scalar("f2"), _scalar("f4"), _scalar("f8")
int8, int16, int32, int64 = _scalar("i1"), _scalar("i2"), _scalar("i4"), _scalar("i8")
uint8, uint16, uint32, uint64 = _scalar("u1"), _scalar("u2"), _scalar("u4"), _scalar("u8")
char = _scalar("u1")
"""A character, as its code."""


def dtype_of(said: Any) -> np.dtype:
    """The NumPy type of a basic type, of a dict of fields, or of an argument of `numpy.dtype`.

    Raises DTypeError for anything else.

    >>> dtype_of({"id": int64, "values": fp64[8]})
    dtype([('id', '<i8'), ('values', '<f8', (8,))])
    """
    try:
        return _dtype_of(said)
    except (DTypeError, RecursionError):
        raise DTypeError(
            f"{shown(said)} is no scalar type",
            hint="fp32, np.float32, 'f4', or a dict of fields: {'values': fp64[8]}",
        ) from None


def _dtype_of(said: Any) -> np.dtype:
    if isinstance(said, ScalarType):
        return said.dtype
    if isinstance(said, dict):
        fields = cast("dict[str, Any]", said)
        return as_dtype([(name, _dtype_of(given)) for name, given in fields.items()])
    if said is None:
        raise DTypeError("None is no type")
    return as_dtype(said)


@dataclass(frozen=True, slots=True)
class BufferType:
    """A buffer's scalar type, and its extents or None if the loops imply them."""

    dtype: np.dtype
    shape: tuple[int, ...] | None = None

    def taken(self, array: Any) -> Any:
        """The array; strings are viewed as records of characters where these are declared."""
        fields = list((self.dtype.fields or {}).values())
        is_text = len(fields) == 1 and fields[0][0] == np.dtype(("u1", (array.dtype.itemsize,)))
        return array.view(self.dtype) if is_text and array.dtype.kind == "S" else array

    def check(self, name: str, spec: TensorSpec) -> None:
        """Raises DTypeError or ShapeError where an array is not what was declared."""
        if spec.dtype != self.dtype:
            hint = f"convert it by {name}.astype({self.dtype.name!r}), or declare its type"
            if self.dtype.names or spec.dtype.kind in "SUV":
                hint = f"declare its type: Buffer[{name}.dtype]"
            raise DTypeError(f"{name} holds {spec.dtype}, but was declared as {self!r}", hint=hint)
        if self.shape is not None and spec.shape != self.shape:
            raise ShapeError(f"{name} has shape {spec.shape}, but was declared as {self!r}")

    def __repr__(self) -> str:
        extents = "" if self.shape is None else "".join(f", {extent}" for extent in self.shape)
        return f"Buffer[{str(self.dtype) if self.dtype.names else self.dtype.name}{extents}]"


class Buffer:
    """`Buffer[T]`, or with sizes `Buffer[T, n, m]`, `Buffer[T, (n, m)]`, `Buffer[T, [n, m]]`.

    >>> Buffer[fp32], Buffer["i8", 3, 4], Buffer[np.float64, (3, 4)]
    (Buffer[float32], Buffer[int64, 3, 4], Buffer[float64, 3, 4])
    """

    def __class_getitem__(cls, said: Any) -> Any:
        dtype, *sizes = as_tuple(said) or (None,)
        if not sizes:
            return BufferType(dtype_of(dtype))
        extents = (*as_tuple(sizes[0]), *sizes[1:])
        return BufferType(dtype_of(dtype), tuple(whole("a size", size) for size in extents))


class Scalar:
    """`Scalar[int64, fp64]` annotates a tuple of scalars, the operand of an operator."""

    def __class_getitem__(cls, said: Any) -> Any:
        return said
