"""Calls on Dask arrays: planned on placeholders, then turned into graphs of tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import check_known
from mdtensor.api.dask.dask_graph import DaskArray, dask_arrays, dask_module
from mdtensor.api.parts.foreign_call import ForeignCall
from mdtensor.errors import ArgumentError, DTypeError
from mdtensor.specs import is_computed
from mdtensor.translate.md_hom_program import Program


def called(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    described: object = None,
) -> Any:
    """Run a front end's call with Dask arrays among its arguments; its results are Dask arrays.

    Nothing is computed, and nothing kept by how calls are `described`. NumPy's arrays may stand
    beside them, and are one chunk each.

    Raises ShapeError for chunks of unknown sizes, DTypeError for what has no kernels or is no
    array of NumPy in chunks, ArgumentError for `out`.
    """
    if options.get("out") is not None:
        raise ArgumentError("out is not for Dask arrays", hint="the result is a new Dask array")
    return _DaskCall().run(function, args, options)


class _DaskCall(ForeignCall):
    """A call whose programs become graphs of tasks."""

    def is_foreign(self, argument: Any) -> bool:
        return hasattr(argument, "__dask_graph__") and hasattr(argument, "chunks")

    def placeholder(self, array: DaskArray) -> np.ndarray:
        check_known(array)
        if type(array._meta) is not np.ndarray:
            kind = type(array._meta).__name__
            raise DTypeError(
                f"the chunks of a Dask array are {kind}s, not NumPy's arrays",
                hint="x.map_blocks(numpy.asarray) converts them",
            )
        if not is_computed(array.dtype) or not array.dtype.isnative:
            raise DTypeError(
                f"no kernels compute with {array.dtype}",
                hint="convert the Dask array by astype, or call dask.array's own function",
            )
        return self.placeholders.of(array)

    def constant(self, array: np.ndarray) -> DaskArray:
        return dask_module("dask.array").from_array(array, chunks=-1)

    def computed(self, planned: Program, operands: Sequence[DaskArray]) -> Sequence[DaskArray]:
        return dask_arrays(planned, operands)

    def refused(self) -> DTypeError:
        return DTypeError(
            "a call on Dask arrays with these arguments is more than kernels on them",
            hint="call it on the arrays in chunks: x.map_blocks(…)",
        )
