"""Type rules of reductions: of elements, accumulation and storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.errors import DTypeError, count_of
from mdtensor.specs import as_dtype, kind_of
from mdtensor.translate.einsum.md_hom_from_einsum import accumulation_dtype
from mdtensor.translate.scalar import BOOL, I64, Expr, cast

_RING = ("add", "mul")


def natural_dtype(dtype: np.dtype, names: Sequence[str | None], *, counts: bool) -> np.dtype:
    """The default type of stored results, for function results of a type.

    Where it `counts`, sums and products of booleans are int64. Logarithms are floats.

    >>> natural_dtype(np.dtype("?"), ["add"], counts=True)
    dtype('int64')
    """
    if "logaddexp" in names and dtype.kind in "biu":
        return np.result_type(dtype, np.float16)
    if counts and dtype == BOOL and any(name in _RING for name in names):
        return I64
    return dtype


def asked_dtypes(dtype: object, count: int) -> tuple[np.dtype, ...]:
    """Normalise a `dtype` argument to one type per result.

    Raises DTypeError where their number differs, and for what is no type.
    """
    each: Any = dtype
    if not isinstance(dtype, tuple | list):
        each = (dtype,) * count
    dtypes = tuple(map(as_dtype, each))
    if len(dtypes) != count:
        raise DTypeError(f"{len(dtypes)} types for {count_of(count, 'result', 'results')}")
    return dtypes


def held_dtype(dtype: np.dtype, names: Sequence[str | None], *, is_finished: bool) -> np.dtype:
    """The default accumulation type for results stored as `dtype`.

    Bytes are added up in 16 bits only where nothing sees the upper one: where all operators are
    sums and products, and no epilogue follows (`is_finished`).

    >>> held_dtype(np.dtype("i1"), ["add"], is_finished=True)
    dtype('int16')
    """
    wraps = is_finished and all(name in _RING for name in names)
    return accumulation_dtype(dtype) if wraps or dtype.kind not in "iu" else dtype


def floats_widened(elements: Sequence[Expr], held: np.dtype) -> list[Expr]:
    """Elements with floats cast to the accumulation type.

    Integers stay as they are, since a function can tell how they wrap around.
    """
    return [
        cast(e, held) if kind_of(e.dtype) in "fc" and np.can_cast(e.dtype, held) else e
        for e in elements
    ]


def factors(elements: Sequence[Expr], asked: np.dtype | None, held: np.dtype) -> list[Expr]:
    """Elements cast for multiplication: to the type `asked` for, or the accumulation type."""
    if asked is not None:
        return [brought(element, asked, held) for element in elements]
    wider = (held != BOOL and np.can_cast(element.dtype, held) for element in elements)
    return [cast(e, held) if wide else e for e, wide in zip(elements, wider, strict=True)]


def brought(value: Expr, dtype: np.dtype, held: np.dtype) -> Expr:
    """A result cast to the accumulation type `held`, by way of `dtype` where that rounds."""
    is_wider = value.dtype == held and dtype.kind == held.kind
    if is_wider or np.can_cast(value.dtype, dtype):
        return cast(value, held)
    return cast(cast(value, dtype), held)
