"""The signature of a plan: its arrays' layouts, and errors for other arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from mdtensor.api.arrays import cupy_arrays
from mdtensor.api.arrays.operands import check_mask, read_only, spec_of
from mdtensor.api.arrays.sparse_arrays import check_dense
from mdtensor.api.arrays.torch_tensors import host_array, is_tensor
from mdtensor.dataclass import dataclass
from mdtensor.errors import ShapeError, count_of
from mdtensor.specs import TensorSpec

Array = Any
_may_share_memory = np.may_share_memory
_ndarray = np.ndarray
_type_of: Any = type


@dataclass(frozen=True, slots=True)
class PlanArrays:
    """Operands and results of the plan that `label` names, by their specs.

    `layouts` are shape, strides in bytes and type of each operand, `layouts_with_out` those of
    operands and results. Strides mean nothing to a plan that `computes` nothing.
    """

    label: str
    specs: tuple[TensorSpec, ...]
    results: tuple[TensorSpec, ...]
    computes: bool
    layouts: tuple[object, ...] = field(init=False)
    layouts_with_out: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layouts", _layouts(self.specs))
        object.__setattr__(self, "layouts_with_out", (*self.layouts, *_layouts(self.results)))

    def check(self, operands: Sequence[Array], out: Sequence[Array] | None) -> None:
        """Raises ShapeError or DTypeError where operands or results do not match the plan."""
        arrays = operands if out is None else (*operands, *out)
        try:
            given = tuple([f for x in arrays for f in (x.shape, x.strides, x.dtype)])
        except AttributeError:
            raise self.no_arrays(arrays) from None
        check_masks(operands)
        self.check_arrays(arrays)
        if given != (self.layouts if out is None else self.layouts_with_out):
            self.compare(operands, out)

    def compare(self, operands: Sequence[Array], out: Sequence[Array] | None) -> None:
        """Raises ShapeError on a difference from the plan; strides of empty arrays may differ."""
        if len(operands) != len(self.specs):
            given = count_of(len(operands), "operand", "operands")
            raise ShapeError(f"{given} for a plan of {len(self.specs)}", text=self.label)
        self.check_arrays(operands if out is None else (*operands, *out))
        if out is not None and (given := tuple(map(spec_of, out))) != self.results:
            raise ShapeError(
                f"out is {listed(given) or 'empty'} but the result is {listed(self.results)}",
                text=self.label,
            )
        pairs = list(zip(operands, self.specs, strict=True))
        same = all((op.shape, op.dtype) == (spec.shape, spec.dtype) for op, spec in pairs)
        if same and not self.computes:
            return
        raise ShapeError(
            "an operand is not what the plan was made for",
            text=self.label,
            notes=[
                f"operand {n}: {spec_of(op)!r}, the plan has {spec!r}"
                for n, (op, spec) in enumerate(pairs)
            ],
            hint="mdtensor.compile(...) makes a plan for these; the function itself takes any",
        )

    def check_arrays(self, given: Sequence[Any]) -> None:
        """Raises ShapeError for objects with a layout that are no arrays of NumPy or CuPy."""
        if not all(map(_is_array, given)):
            raise self.no_arrays(given)

    def no_arrays(self, given: Sequence[Any]) -> ShapeError:
        """The error for operands without a layout; for a torch tensor, the reason to refuse it."""
        for number, array in enumerate(given):
            what = f"operand {number}" if number < len(self.specs) else "out"
            check_dense(what, array)
            if is_tensor(array):
                host_array(what, array)
        names = [type(array).__name__ for array in given if not _is_array(array)]
        return ShapeError(
            f"a plan takes arrays, not {names[0] if names else 'these'}",
            text=self.label,
            hint="numpy.asarray of many other objects shares their memory",
        )

    def check_out(self, *arrays: Array) -> None:
        """Raises an error where kernels may not write the outputs while they read the operands."""
        count = len(self.specs)
        for position, out in enumerate(arrays[count:], start=count):
            is_cupys = _type_of(out) is cupy_arrays.array_class
            cupys = cupy_arrays.library() if is_cupys else None
            may_share_memory = cupys.may_share_memory if cupys else _may_share_memory
            if not is_cupys and not getattr(out.flags, "writeable", True):
                raise read_only("out", text=self.label)
            for number, array in enumerate(arrays[:position]):
                if may_share_memory(array, out):
                    name = f"operand {number}" if number < count else "another result"
                    raise ShapeError(
                        f"out shares memory with {name}",
                        text=self.label,
                        hint="a call of the function itself copies where that is needed",
                    )


def _is_array(array: Any) -> bool:
    return isinstance(array, _ndarray) or _type_of(array) is cupy_arrays.array_class


def check_masks(operands: Sequence[Array]) -> None:
    """Raises DTypeError for a masked array: launches ignore masks."""
    for number, operand in enumerate(operands):
        if type(operand) is not _ndarray and type(operand) is not cupy_arrays.array_class:
            check_mask(f"operand {number}", operand)


def listed(specs: Sequence[TensorSpec]) -> str:
    """Specs as text, for a message."""
    return ", ".join(map(repr, specs))


def _layouts(specs: Sequence[TensorSpec]) -> tuple[object, ...]:
    """The flat layout key of arrays: shape, strides in bytes and type of each."""
    return tuple(
        part
        for spec in specs
        for part in (spec.shape, tuple(s * spec.dtype.itemsize for s in spec.strides), spec.dtype)
    )


def orders_of(specs: Sequence[TensorSpec], device: int) -> tuple[object, ...]:
    """The flat layout key of CuPy arrays: shape, order, type and device of each.

    It is enough to know that elements are in C order without gaps.
    """
    strides = _layouts(specs)[1::3]
    return tuple(
        part
        for spec, steps in zip(specs, strides, strict=True)
        for part in (spec.shape, spec.is_contiguous or steps, spec.dtype, device)
    )
