"""Cache keys of calls: their arguments' layouts and values, as hashable tuples.

Layouts of arrays, values of everything else, functions by what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from mdtensor.api.arrays import cupy_arrays, invalidation
from mdtensor.api.arrays.array_collections import LONGEST
from mdtensor.api.arrays.sparse_arrays import arrays_of_sparse, is_sparse
from mdtensor.api.calls.function_fingerprint import function_key
from mdtensor.api.engine import tuning_mode
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.operators.combine_operators import OperatorFunction

# From the arguments of a call to its key, and the arrays among them; NotPlainError, TypeError or
# RecursionError where there is none.
Described = Callable[[Sequence[Any], Mapping[str, Any]], tuple[tuple[object, ...], list[Any]]]

_ndarray = np.ndarray
_type_of: Any = type
_watchers = invalidation.watchers
_NAMED = object()  # stands between positional and named arguments

# Arguments of these classes mean the same whenever they are equal.
_PLAIN: frozenset[Any] = frozenset(
    (
        int,
        bool,
        bytes,
        type(None),
        type(...),
        type,
        np.ufunc,
        BuiltinFunctionType,
        _type_of(np.max),
    )
)
_FUNCTIONS = frozenset((FunctionType, OperatorFunction))


class NotPlainError(Exception):
    """An argument that has no cache key."""


def describer(of: Callable[[Any], Hashable] | None = None, *, numbers: bool = False) -> Described:
    """A function from a call to its cache key and the arrays in it.

    `of` gives the key of the first argument, where that is what a method belongs to. `numbers`
    says that Python's floating-point numbers are among the arrays.
    """

    def described(
        args: Sequence[Any], options: Mapping[str, Any]
    ) -> tuple[tuple[object, ...], list[Any]]:
        parts: list[Any] = []
        arrays: list[Any] = []
        if of is not None:
            parts.append(of(args[0]))
            args = args[1:]
        for value in args:
            if type(value) is _ndarray:
                parts += value.shape, value.strides, value.dtype
                arrays.append(value)
            elif type(value) is str:
                parts.append(value)
            else:
                _describe(value, parts, arrays, numbers)
        if options:
            parts.append(_NAMED)
            for name, value in options.items():
                parts.append(name)
                if type(value) is str:
                    parts.append(value)
                elif type(value) is _ndarray:
                    parts += value.shape, value.strides, value.dtype
                    arrays.append(value)
                else:
                    _describe(value, parts, arrays, numbers)
        if _watchers:
            parts += tuning_mode.ending() or ()
        if cupy_arrays.array_class is not None:
            _add_place(parts, arrays)
        return tuple(parts), arrays

    return described


# fmt: off
def typical(args: tuple[Any, ...]) -> tuple[object, ...] | None:
    """The key of a call on a string and one to three NumPy arrays, or two of CuPy's; else None.

    It is what a describer gives for them.
    """
    count = len(args)
    if count == 3:
        first, second, third = args
        kind = _type_of(second)
        if type(first) is str and kind is type(third):
            if kind is _ndarray:
                return (
                    first, second.shape, second.strides, second.dtype,
                    third.shape, third.strides, third.dtype,
                )
            if kind is cupy_arrays.array_class:
                order = cupy_arrays.library().order_of
                return (
                    first, second.shape, order(second) or second.strides, second.dtype,
                    second.data.device_id, third.shape, order(third) or third.strides,
                    third.dtype, third.data.device_id, cupy_arrays.current_device(),
                )
    elif count == 2:
        first, second = args
        if type(first) is str and type(second) is _ndarray:
            return first, second.shape, second.strides, second.dtype
    elif count == 4:
        first, second, third, fourth = args
        if type(first) is str and type(second) is type(third) is type(fourth) is _ndarray:
            return (
                first, second.shape, second.strides, second.dtype,
                third.shape, third.strides, third.dtype,
                fourth.shape, fourth.strides, fourth.dtype,
            )
    return None
# fmt: on


def with_out(key: tuple[object, ...], options: Mapping[str, Any]) -> tuple[object, ...] | None:
    """The key extended by a NumPy `out`, if that is the only option; else None."""
    out = options.get("out") if len(options) == 1 else None
    if type(out) is not _ndarray:
        return None
    return *key, _NAMED, "out", out.shape, out.strides, out.dtype


def _describe(value: Any, parts: list[Any], arrays: list[Any], numbers: bool) -> None:
    """Appends an argument's key parts to a list, and its arrays to another.

    What is added begins with a tuple for an array, with a class for what is neither array nor
    string, so no two lists of arguments have the same key.
    """
    kind = _type_of(value)
    if kind is _ndarray:
        parts += value.shape, value.strides, value.dtype
        arrays.append(value)
    elif kind is cupy_arrays.array_class:
        order = cupy_arrays.library().order_of(value) or value.strides
        parts += value.shape, order, value.dtype, value.data.device_id
        arrays.append(value)
    elif kind is str:
        parts.append(value)
    elif kind in _PLAIN:
        parts += kind, value
    elif kind is float or kind is complex:
        if numbers:
            parts += (), kind
            arrays.append(value)
        else:
            parts += kind, repr(value)  # -0.0 equals 0.0
    elif kind is tuple or kind is list:
        if len(value) > LONGEST:
            raise NotPlainError
        parts += kind, len(value)
        for part in value:
            _describe(part, parts, arrays, numbers=False)
    elif kind is dict:
        parts += kind, len(value)
        for name, part in value.items():
            _describe(name, parts, arrays, numbers=False)
            _describe(part, parts, arrays, numbers=False)
    elif kind is Combination:
        parts += kind, value.kind
        _describe(value.operator, parts, arrays, numbers=False)
    elif kind in _FUNCTIONS:
        parts += kind, function_key(value)
    elif isinstance(value, np.generic):
        parts += (), kind
        arrays.append(value)
    elif isinstance(value, np.dtype):
        parts += np.dtype, value
    elif is_sparse(value) and (stored := arrays_of_sparse(value)):
        parts += kind, value.shape, value.has_canonical_format
        for array in stored:
            _describe(array, parts, arrays, numbers=False)
    else:
        raise NotPlainError


def _add_place(parts: list[Any], arrays: Sequence[Any]) -> None:
    """Appends the current device to the key of a call on CuPy arrays."""
    if any(type(array) is cupy_arrays.array_class for array in arrays):
        parts.append(cupy_arrays.current_device())
