"""Stencils: functions of arrays, defined at one point with relative indices."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, overload

from mdtensor.api.arrays.array_collections import collection_of
from mdtensor.api.arrays.device_scope import where_arrays_lie
from mdtensor.api.arrays.memory_overlap import check_distinct
from mdtensor.api.arrays.operands import (
    Array,
    array_module,
    as_array,
    check_known,
    has_layout,
)
from mdtensor.api.calls.call_cache import is_traced, with_call_cache
from mdtensor.api.calls.function_fingerprint import function_key
from mdtensor.api.calls.program_calls import call
from mdtensor.decorated import Decorated
from mdtensor.errors import ArgumentError, ShapeError, TranslationError, shown
from mdtensor.options import whole
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.scalar import Number, is_number
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_stencil import Stencil, md_homs_from_stencil
from mdtensor.translate.stencils.stencil_from_function import stencil_from_function

# One array, or a tuple of several.
Arrays = Any


def _itself(stencil: StencilFunction) -> StencilFunction:
    """The cache key of a stencil: the object itself, whose constants are captured once."""
    return stencil


class StencilFunction(Decorated):
    """A function on arrays, defined by its value at one point; made by `mdtensor.stencil`."""

    def __init__(self, function: Callable[..., object], border: Border) -> None:
        if not callable(function):
            raise TranslationError(
                f"{shown(function)} is no function",
                hint="@mdtensor.stencil(border=…) decorates one",
            )
        functools.update_wrapper(self, function)
        self.function = function
        self.border = border
        self._signature = _signature_of(function)

    @functools.partial(with_call_cache, of=_itself, front_end="stencil")
    def __call__(self, *args: Any, out: Arrays | None = None, **kwargs: Any) -> Any:
        """Apply the stencil at every point: one array, or a tuple of several.

        Arrays have one shape; arrays without axes are single values. Python's numbers become
        constants of the kernel, so a number that changes from call to call is better an array
        without axes, or a scalar of NumPy. The types of the results are those of the function's
        expressions. `out` receives the results, and may be one of the arrays.

        Raises ShapeError where shapes differ or `valid` leaves nothing, TranslationError for an
        index that is not relative.
        """
        return self._called(self._bound(args, kwargs), out=out)

    @where_arrays_lie
    def steps(self, *args: Any, n: int, out: Arrays | None = None, **kwargs: Any) -> Any:
        """Apply the stencil `n` times, each time to the previous result as its first array.

        A function that returns a tuple advances as many arrays: `return u_next, u[0, 0]` goes on
        with (u_next, u). Two sets of arrays are exchanged, so no step but the first two
        allocates. The arguments are left as they are, unless `out` is one of them. Nothing is
        exchanged where results are no memory: Dask arrays, and arrays whose gradient is taken.
        """
        n = whole("n", n)
        if n < 0:
            raise ShapeError(f"n is {n}; a number of steps is 0 or more")
        arguments = self._bound(args, kwargs)
        if n == 0:
            return self._copied(arguments, out)
        state: list[Array] = []
        spare: list[Array] = []
        for step in range(n):
            last = step == n - 1
            room = None if last and out is not None else _room(spare, state)
            # What was written two steps before has the fixed border already.
            inside = self.border.mode == "fixed" and room is not None
            target = out if room is None and last else room
            results = self._called(arguments, out=target, inside=inside)
            spare, state = state, _listed(results)
            if len(state) > len(arguments):
                raise ShapeError(
                    f"{self._name} returns {len(state)} values, but takes {len(arguments)}",
                    hint="a step replaces the first arguments by the results",
                )
            arguments = (*state, *arguments[len(state) :])
        return state[0] if len(state) == 1 else tuple(state)

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self._name}{self._signature}: {error}") from None

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", "the stencil")

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments in the parameters' order; anything but a number becomes an array.

        Those of Dask, and sharded ones, stay as they are.
        """
        if kwargs or len(args) != len(self._signature.parameters):
            bound = self._bind(args, kwargs)
            bound.apply_defaults()
            args = (*bound.args, *bound.kwargs.values())
        return tuple(
            a
            if is_number(a) or has_layout(a) or is_traced(a) or collection_of(a)
            else as_array(f"argument {n}", a, array_module(args))
            for n, a in enumerate(args)
        )

    @functools.partial(with_call_cache, of=_itself, front_end="stencil")
    def _called(self, arguments: Sequence[Any], *, out: Arrays | None, inside: bool = False) -> Any:
        """Apply the stencil once; with `inside`, only at points with all their neighbours."""
        constants: list[Number | None] = [a if is_number(a) else None for a in arguments]
        operands = [a for a in arguments if not is_number(a)]
        build = functools.partial(self._computation, constants, inside)
        key = self._key(constants, inside=inside)
        # Numbers that the function takes from around it are those of its first call on a shape.
        return call(key, operands, build, out, moment=lambda: function_key(self.function))

    def _key(self, constants: Sequence[Number | None], *, inside: bool) -> Hashable:
        """The cache key of a call, without the layouts of its arrays."""
        # 1, 1.0 and True are equal, 0.0 and -0.0 too, but not the same constants.
        return ("stencil", self, tuple(map(function_key, constants)), inside)

    def _computation(
        self, constants: Sequence[Number | None], inside: bool, specs: tuple[TensorSpec, ...]
    ) -> Program:
        stencil = self._stencil(constants, specs)
        return Program.of(*md_homs_from_stencil(stencil, self.border)[: 1 if inside else None])

    def _stencil(self, constants: Sequence[Number | None], specs: Sequence[TensorSpec]) -> Stencil:
        left = iter(specs)
        return stencil_from_function(
            self.function, [next(left) if c is None else c for c in constants]
        )

    def _copied(self, arguments: Sequence[Any], out: Arrays | None) -> Arrays:
        if any(hasattr(a, "shards") for a in arguments):
            raise ShapeError("n is 0, and copies nothing of sharded arrays", hint="n=1 or more")
        if out is not None and any(map(collection_of, arguments)):
            raise ArgumentError("out is not for Dask arrays", hint="the result is a new Dask array")
        constants: list[Number | None] = [a if is_number(a) else None for a in arguments]
        arrays = [a for a in arguments if not is_number(a)]
        for array in arrays:
            check_known(array)
        specs = [TensorSpec.of(array.shape, array.dtype) for array in arrays]
        count = len(self._stencil(constants, specs).scalar.results)
        if out is None:
            # Arrays whose gradient is taken cannot be written to, and are their own copies.
            copies = tuple(a if is_traced(a) else a.copy() for a in arguments[:count])
            return copies[0] if count == 1 else copies
        for target, source in zip(_listed(out), arguments, strict=False):
            check_distinct("out", target)
            target[...] = source
        return out

    def __repr__(self) -> str:
        return f"<stencil {self._name}, border {self.border.mode!r}>"


def _signature_of(function: Callable[..., object]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise TranslationError(
            f"{shown(function)} is no function of Python's", hint="lambda u: u[-1] + u[1]"
        ) from None


def _listed(arrays: Arrays) -> list[Array]:
    return list(arrays) if isinstance(arrays, tuple) else [arrays]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _room(spare: Sequence[Array], state: Sequence[Array]) -> Arrays | None:
    """The buffers of the step before last, cut to the shapes of the next results; None without any.

    Each step takes from the shape what the one before took. None where there are no such arrays
    yet, or arrays that nothing can be written to, or where types have changed, which they do in
    the first steps only, or shapes of sharded arrays.
    """
    pairs = list(zip(spare, state, strict=True)) if spare else []
    if not spare or any(before.dtype != now.dtype for before, now in pairs):
        return None
    if not all(has_layout(before) or hasattr(before, "shards") for before in spare):
        return None
    if any(hasattr(before, "shards") and before.shape != now.shape for before, now in pairs):
        return None
    rooms = [_shrunk(before, now.shape) for before, now in pairs]
    return rooms[0] if len(rooms) == 1 else tuple(rooms)


def _shrunk(before: Array, shape: Sequence[int]) -> Array:
    """A leading part of an array, which shrinks again by as much as it did to `shape`."""
    if tuple(shape) == tuple(before.shape):
        return before
    extents = (max(0, 2 * now - then) for then, now in zip(before.shape, shape, strict=True))
    return before[tuple(map(slice, extents))]


@overload
def stencil(
    function: Callable[..., object], /, *, border: str = "valid", cval: Number = 0.0
) -> StencilFunction: ...


@overload
def stencil(
    function: None = None, /, *, border: str = "valid", cval: Number = 0.0
) -> Callable[[Callable[..., object]], StencilFunction]: ...


def stencil(
    function: Callable[..., object] | None = None, /, *, border: str = "valid", cval: Number = 0.0
) -> StencilFunction | Callable[[Callable[..., object]], StencilFunction]:
    """Makes a function of what happens at one point: `u[-1, 0]` is the element above the point.

    `border` says what lies outside of the arrays, in the words of scipy.ndimage: `constant` (the
    value `cval`), `nearest`, `reflect`, `mirror` or `wrap`. With `valid`, nothing does, and the
    result is smaller by as much as the function reaches. With `fixed`, nothing does either, and
    where the function would reach outside, the result has what the array has there: boundary
    values that stay as they are. Of several results, each keeps those of the array in its place.
    How far it reaches is found by calling it once on symbols, for each combination of shapes and
    types; numbers that it takes from around it are those of that moment.

    Raises TranslationError for another word.

    >>> import numpy as np
    >>> @stencil(border="constant")
    ... def total(u):
    ...     return u[-1] + u[0] + u[1]
    >>> total(np.arange(5.0))
    array([1., 3., 6., 9., 7.])
    >>> total.steps(np.arange(5.0), n=2)
    array([ 4., 10., 18., 22., 16.])
    >>> @stencil(border="fixed")
    ... def mean(u):
    ...     return (u[-1] + u[1]) / 2
    >>> mean.steps(np.array([0.0, 0, 0, 0, 4]), n=100)
    array([0., 1., 2., 3., 4.])
    """
    if function is None:
        return functools.partial(StencilFunction, border=Border(border, cval))
    return StencilFunction(function, Border(border, cval))
