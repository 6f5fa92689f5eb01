"""Calls on Dask arrays: planned on placeholders, then made into graphs of tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import check_known
from mdtensor.api.calls.computation import Computation
from mdtensor.api.dask.dask_graph import DaskArray, dask_arrays, dask_module
from mdtensor.api.parts.placeholders import Placeholders, planned_by
from mdtensor.dataclass import dataclass
from mdtensor.errors import ArgumentError, DTypeError
from mdtensor.specs import is_computed


def called(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    described: object = None,
) -> Any:
    """A call of a front end with Dask arrays among its arguments: its results are Dask arrays.

    Nothing is computed, and nothing kept by how calls are `described`. NumPy's arrays may stand
    beside them, and are one chunk each.

    Raises ShapeError for chunks of unknown sizes, DTypeError for what has no kernels or is no
    array of NumPy in chunks, ArgumentError for `out`.
    """
    if options.get("out") is not None:
        raise ArgumentError("out is not for Dask arrays", hint="the result is a new Dask array")
    call = _Call()
    given = [call.stand_in(argument) for argument in args]
    named = {name: call.stand_in(argument) for name, argument in options.items()}
    returned = planned_by(call.plan, function, *given, **named)
    return call.arrays_of(returned)


@dataclass(slots=True)
class _Call:
    """A call, with placeholders for its Dask arrays."""

    placeholders: Placeholders = field(default_factory=Placeholders)

    def stand_in(self, argument: Any) -> Any:
        """An argument with placeholders for Dask arrays in it, also in tuples and lists."""
        if type(argument) in (tuple, list):
            return type(argument)(map(self.stand_in, argument))
        if not _is_dask(argument):
            return argument
        check_known(argument)
        if type(argument._meta) is not np.ndarray:
            kind = type(argument._meta).__name__
            raise DTypeError(
                f"the chunks of a Dask array are {kind}s, not NumPy's arrays",
                hint="x.map_blocks(numpy.asarray) converts them",
            )
        if not is_computed(argument.dtype) or not argument.dtype.isnative:
            raise DTypeError(
                f"no kernels compute with {argument.dtype}",
                hint="convert the Dask array by astype, or call dask.array's own function",
            )
        return self.placeholders.of(argument)

    def plan(self, planned: Computation, operands: Sequence[Any], out: Any) -> Any:
        """Makes the graph of a computation, and gives placeholders for its results."""
        given = [self._operand(operand) for operand in operands]
        results = dask_arrays(planned, given)
        placed = tuple(map(self.placeholders.of, results))
        return placed[0] if len(placed) == 1 else placed

    def arrays_of(self, returned: Any) -> Any:
        """What a call returned, with Dask arrays in the place of placeholders."""
        if hasattr(returned, "shape"):
            return self.array_of(returned)
        return tuple(map(self.array_of, returned))

    def array_of(self, value: Any) -> DaskArray:
        """The Dask array for which a placeholder was returned."""
        found = self.placeholders.array_of(value)
        if found is None:
            raise _more_than_kernels()
        return found

    def _operand(self, operand: Any) -> DaskArray:
        array = np.asarray(operand)
        found = self.placeholders.array_of(array)
        if found is None and self.placeholders.has_part(array):
            raise _more_than_kernels()
        return dask_module("dask.array").from_array(array, chunks=-1) if found is None else found


def _more_than_kernels() -> DTypeError:
    return DTypeError(
        "a call on Dask arrays with these arguments is more than kernels on them",
        hint="call it on the arrays in chunks: x.map_blocks(…)",
    )


def _is_dask(argument: object) -> bool:
    return hasattr(argument, "__dask_graph__") and hasattr(argument, "chunks")
