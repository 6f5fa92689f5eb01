"""einsum with other operations than products and sums, or with an epilogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array, array_module, as_array, split
from mdtensor.api.arrays.ragged import Ragged
from mdtensor.api.arrays.sparse_arrays import is_sparse
from mdtensor.api.calls.program_calls import call
from mdtensor.api.frontends.einsum.contraction_path import Optimize
from mdtensor.api.frontends.einsum.einsum_planner import check_cast
from mdtensor.api.frontends.einsum.semiring import in_stages, semiring_of
from mdtensor.api.frontends.reduce import extents_of, reduced, reduction_key
from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec, as_dtype
from mdtensor.translate.einsum.subscripts import ELLIPSIS, is_affine, parse, with_output
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction


@dataclass(frozen=True, slots=True)
class Said:
    """The options of an `einsum` call that is run as a reduction."""

    semiring: str | None
    f: Callable[..., Any] | None
    combine: Any
    epilogue: Callable[..., Any] | str | None
    extents: Mapping[str, int] | None
    dtype: object
    acc_dtype: object
    order: str
    casting: str
    optimize: Optimize
    precision: str | None


def einsum_reduction(operands: Sequence[object], said: Said, out: Array | None) -> Any:
    """Run `einsum` as a reduction.

    Sums of products keep einsum's types: booleans are combined by or.
    """
    text, arrays = split(operands)
    if said.precision is not None and not said.semiring is said.f is said.combine is None:
        raise TranslationError(
            f"precision={said.precision!r} is for sums of products",
            hint="leave it out where semiring, f or combine is given",
        )
    semiring = semiring_of(said.semiring, said.f, said.combine)
    text = with_output(text)
    _check_casting(text, arrays, said)
    reduction = Reduction(
        text,
        semiring.f,
        semiring.combine,
        dtype=said.dtype,
        acc_dtype=said.acc_dtype,
        extents=extents_of(said.extents),
        epilogue=said.epilogue,
        counts=semiring.f is not None,
        order=said.order,
        precision=said.precision,
    )
    is_plain = not (is_affine(text) or said.epilogue is not None or said.extents)
    in_pairs = semiring.distributes and is_plain and len(arrays) > 2
    if not in_pairs or any(is_sparse(a) or isinstance(a, Ragged) for a in arrays):
        return reduced(reduction, arrays, out)

    def build(specs: tuple[TensorSpec, ...]) -> Program:
        return in_stages(reduction, specs, said.optimize)

    return call((reduction_key(reduction), said.optimize), arrays, build, out)


def _check_casting(text: str, arrays: Sequence[Any], said: Said) -> None:
    if said.dtype is None:
        return
    to = as_dtype(said.dtype)
    written = [index for t in parse(text, extended=True).terms for index in t]
    sums = [index.sum for index in written if index.name != ELLIPSIS]
    indices = {number for each in sums for number, _ in each.elements}
    for number, array in enumerate(arrays):
        name = f"operand {number}"
        if number not in indices:
            dtype = (
                array.dtype
                if is_sparse(array) or isinstance(array, Ragged)
                else _dtype_of(name, array)
            )
            check_cast(name, dtype, to, said.casting)


def _dtype_of(name: str, array: Any) -> np.dtype:
    return as_array(name, array, array_module([array])).dtype
