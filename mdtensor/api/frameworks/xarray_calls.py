"""Calls on xarray's DataArrays: run on their data, with names and coordinates restored.

A result's axis has the name of the operand's axis that it runs along, as views of the `md_hom`s
say it. xarray itself makes the results, by the rules of its own functions.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np

from mdtensor.api.arrays.array_collections import collection_of
from mdtensor.api.arrays.nested_arguments import mapped, mapped_call
from mdtensor.api.arrays.xarray_arrays import is_of_xarray, spec_of_xarray
from mdtensor.api.calls.call_key import Described, NotPlainError
from mdtensor.api.frontends.lazy.lazy_array import LazyArray, as_lazy
from mdtensor.api.parts.axis_origins import (
    Along,
    Axis,
    Origins,
    origins_of_results,
    own,
    with_same_index,
)
from mdtensor.api.parts.foreign_call import ForeignCall
from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.errors import AlignmentError, ArgumentError, AxisError, DTypeError
from mdtensor.translate.md_hom_program import Program

DataArray = Any

_OF_RUNS = frozenset(("devices", "memory_limit"))  # options that say where and how calls run
_BY_POSITION = "pass .data of the arrays whose axes meet by position"
# By function and arguments, the origins of the axes of a call's results.
_known = Bounded[Hashable, "_Axes"](1024)


def called(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    described: Described,
) -> Any:
    """Run a front end's call with DataArrays among its arguments; its results are DataArrays.

    The function is called on their data, of whatever library. Arrays without names may stand
    beside them. `axis` may be names of the first DataArray's dims.

    Raises AlignmentError where names or coordinates of the arrays differ that should be the same,
    AxisError for names that no dim has, DTypeError for a Dataset and what has no kernels,
    ArgumentError for `out`.
    """
    if options.get("out") is not None:
        raise ArgumentError("out is not for xarray's arrays", hint="the result is a new DataArray")
    arrays = _arrays_in((*args, *options.values()))
    for array in arrays:
        spec_of_xarray("an argument", array)
        if len({*array.dims}) < array.ndim:
            raise AlignmentError(
                f"a DataArray has dims {array.dims}, one of them twice",
                hint=f"names of its own for each, or {_BY_POSITION}",
            )
    if any(isinstance(argument, LazyArray) for argument in (*args, *options.values())):
        lazy, named = mapped_call(_as_lazy, args, options)
        return function(*lazy, **named)
    args, options = _with_numbers(function, arrays[0], args, options)
    xarray = importlib.import_module("xarray")
    try:
        xarray.align(*arrays, join="exact", copy=False)
    except ValueError as error:
        raise AlignmentError(
            f"DataArrays of one call are not aligned: {error}",
            hint="xarray.align(…, join='inner') keeps what they share; x.rename(…) tells dims"
            f" apart; {_BY_POSITION}",
        ) from None
    planned = {name: option for name, option in options.items() if name not in _OF_RUNS}
    axes = _axes_of(function, arrays, args, planned, described)
    axes.check(arrays)
    data, named = mapped_call(_data_of, args, options)
    result = function(*data, **named)
    if not isinstance(result, tuple):
        return _labelled(xarray, result, axes.results[0], arrays)
    several = cast("tuple[Any, ...]", result)
    pairs = zip(several, axes.results, strict=True)
    return tuple([_labelled(xarray, each, of_axes, arrays) for each, of_axes in pairs])


def _as_lazy(argument: Any) -> Any:
    return as_lazy(argument) if is_of_xarray(argument) else argument


def _data_of(argument: Any) -> Any:
    return argument.data if is_of_xarray(argument) else argument


@dataclass(frozen=True, slots=True)
class _Axes:
    """The origins of each axis of each result, and the sets of axes that share an index."""

    results: tuple[tuple[Origins, ...], ...]
    shared: frozenset[frozenset[Axis]]

    def check(self, arrays: Sequence[DataArray]) -> None:
        """Raises AlignmentError where axes that share an index have different names."""
        for axes in self.shared:
            first, *others = sorted(axes)
            for other in others:
                if _dim(arrays, first) != _dim(arrays, other):
                    raise AlignmentError(
                        f"dim {_dim(arrays, first)!r} of DataArray {first[0]} and dim"
                        f" {_dim(arrays, other)!r} of DataArray {other[0]} have one index",
                        hint=f"x.rename(…) gives both one name, or {_BY_POSITION}",
                    )


def _axes_of(
    function: Callable[..., Any],
    arrays: Sequence[DataArray],
    args: Sequence[Any],
    options: Mapping[str, Any],
    described: Described,
) -> _Axes:
    """The origins of the results' axes, cached for equal arguments."""

    def told(argument: Any) -> Any:
        if not is_of_xarray(argument):
            return argument
        number = _number(arrays, argument)
        return "DataArray", number, tuple(argument.shape), argument.dtype

    key: Hashable = None
    with suppress(NotPlainError, TypeError, RecursionError):
        key = function, described(*mapped_call(told, args, options))[0]

    def axes() -> _Axes:
        return _OriginsCall(function, arrays).axes(function, args, options)

    return axes() if key is None else _known.made(key, axes)


class _OriginsCall(ForeignCall):
    """A call whose programs are not run, but analysed for the origins of axes."""

    def __init__(self, function: Callable[..., Any], arrays: Sequence[DataArray]) -> None:
        super().__init__()
        self._arrays = arrays
        self._name = getattr(function, "__name__", "the function")
        self._shared = set[frozenset[Axis]]()

    def axes(
        self, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
    ) -> _Axes:
        """The origins of the axes of the results."""
        returned = self.run(function, args, options)
        several = cast("tuple[Any, ...]", returned if isinstance(returned, tuple) else (returned,))
        results = tuple([tuple(self._origins(each)) for each in several])
        return _Axes(results, frozenset(self._shared))

    def is_foreign(self, argument: Any) -> bool:
        return collection_of(argument, depth=0) is not None

    def placeholder(self, array: Any) -> np.ndarray:
        spec = spec_of_xarray("an argument", array) if is_of_xarray(array) else array
        return self.placeholders.of(spec, array)

    def constant(self, array: Any) -> list[Origins]:
        return [{} for _ in array.shape]

    def computed(self, planned: Program, operands: Sequence[Any]) -> Sequence[Any]:
        results, shared = origins_of_results(planned, [*map(self._origins, operands)])
        self._shared.update(shared)
        return results

    def refused(self) -> DTypeError:
        return DTypeError(
            f"this call of {self._name} on DataArrays is more than kernels on them",
            hint="pass .data of arrays whose elements count, as weights do, or of all",
        )

    def _origins(self, operand: Any) -> Sequence[Origins]:
        if is_of_xarray(operand):
            return own(_number(self._arrays, operand), operand.ndim)
        return self.constant(operand) if self.is_foreign(operand) else operand


def _labelled(
    xarray: Any, result: Any, axes: Sequence[Origins], arrays: Sequence[DataArray]
) -> DataArray:
    """A result as a DataArray, with the coordinates that xarray keeps for its dims."""
    names = _names(axes, arrays)
    kept = {
        name
        for name, origins, extent in zip(names, axes, np.shape(result), strict=True)
        for axis in _nearest(origins)
        if _dim(arrays, axis) == name
        and origins[axis] >= Along.WINDOWED
        and arrays[axis[0]].shape[axis[1]] == extent
    }
    read = {dim for array in arrays for dim in array.dims}
    return xarray.apply_ufunc(
        lambda *_data: result,  # pyright: ignore[reportUnknownLambdaType]
        *arrays,
        input_core_dims=[array.dims for array in arrays],
        output_core_dims=[names],
        exclude_dims=read.intersection(names) - kept,
        join="exact",
        dask="allowed",
    )


def _names(axes: Sequence[Origins], arrays: Sequence[DataArray]) -> list[Hashable]:
    """The dims of a result: the unique name of each axis's nearest origins, else a default.

    Raises AlignmentError where two have the same index as axes of one name.
    """
    found = [{_dim(arrays, axis) for axis in _nearest(origins)} for origins in axes]
    given: list[Hashable] = [each.pop() if len(each) == 1 else None for each in found]
    names = [*given]
    for number, (name, origins) in enumerate(zip(given, axes, strict=True)):
        others = [other for n, other in enumerate(axes) if n != number and given[n] == name]
        if not with_same_index(origins):
            names[number] = None if others else name
        elif any(map(with_same_index, others)):
            raise AlignmentError(
                f"two axes of the result are dim {name!r}",
                hint=f"x.rename(…) of one of the arrays, or {_BY_POSITION}",
            )
    for number, name in enumerate(names):
        if name is None:  # what xarray calls axes without a name
            default = (f"dim_{n}" for n in itertools.count(number))
            names[number] = next(each for each in default if each not in names)
    return names


def _nearest(origins: Origins) -> Iterable[Axis]:
    """The origins with the same index; all origins where there are none."""
    return with_same_index(origins) or origins


def _dim(arrays: Sequence[DataArray], axis: Axis) -> Hashable:
    return arrays[axis[0]].dims[axis[1]]


def _number(arrays: Sequence[DataArray], array: DataArray) -> int:
    return next(number for number, each in enumerate(arrays) if each is array)


def _arrays_in(arguments: Sequence[Any]) -> list[DataArray]:
    """The distinct xarray objects among arguments."""
    found: list[DataArray] = []

    def note(argument: Any) -> None:
        if is_of_xarray(argument) and not any(argument is each for each in found):
            found.append(argument)

    mapped_call(note, arguments, {})
    return found


def _with_numbers(
    function: Callable[..., Any],
    array: DataArray,
    args: Sequence[Any],
    options: Mapping[str, Any],
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with axis names replaced by axis numbers."""

    def number(name: Any) -> Any:
        if not isinstance(name, str):
            return name
        if name not in array.dims:
            raise AxisError(f"axis={name!r}, and the DataArray has dims {array.dims}")
        return array.get_axis_num(name)

    positional, named = [*args], {**options}
    parameters = [*inspect.signature(function).parameters]
    place = parameters.index("axis") if "axis" in parameters else len(args)
    if place < len(args):
        positional[place] = mapped(number, args[place])
    if "axis" in named:
        named["axis"] = mapped(number, named["axis"])
    return positional, named
