"""The computation of an einsum call: its contractions in order, and the layout of its result.

Nothing here touches an array: all follows from subscripts, specs and options.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from mdtensor.api.frontends.einsum.contraction_path import Optimize, Path, contraction_path
from mdtensor.errors import DTypeError, ShapeError, shown
from mdtensor.specs import TensorSpec, as_dtype, common_dtype, contiguous_strides, is_short_float
from mdtensor.translate.einsum.contraction import Contraction, resolve
from mdtensor.translate.einsum.index_space import IndexSpace, index_space
from mdtensor.translate.einsum.md_hom_from_einsum import (
    accumulation_dtype,
    md_hom_from_contraction,
    md_hom_from_index_space,
)
from mdtensor.translate.einsum.subscripts import parse
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.program_builder import ProgramBuilder


def prepare(
    subscripts: str,
    specs: Sequence[TensorSpec],
    *,
    dtype: object = None,
    order: str = "K",
    casting: str = "safe",
    acc_dtype: object = None,
    precision: str | None = None,
    optimize: Optimize = False,
    out_spec: TensorSpec | None = None,
) -> Program:
    """The program of `einsum` with these arguments, on operands of these specs.

    Its result has the spec `out_spec` where kernels may write there, else one of its own. It has no
    steps where the result is all zeros: it is empty, or a sum over nothing.

    Raises SubscriptError (a ValueError) where string and shapes do not fit, DTypeError (a
    TypeError) where a cast is not allowed, PathError (a RuntimeError) for a path that leads
    nowhere.

    >>> a, b, c = (TensorSpec.of(shape) for shape in ((8, 500), (500, 600), (600, 8)))
    >>> for step in prepare("ij,jk,kl", (a, b, c)).steps:
    ...     print(step.operands, step.md_hom)
    (1, 2) md_hom[j:500, k:600, l:8](mul, (cc, pw(add), cc))
    (0, 4) md_hom[i:8, j:500, l:8](mul, (cc, pw(add), cc))
    """
    parsed = parse(subscripts)
    if parsed.is_affine:
        return _prepared_whole(
            index_space(parsed, specs), specs, dtype, order, casting, acc_dtype, precision, out_spec
        )
    contraction = resolve(parsed, specs, out_spec)
    # NumPy assigns a contraction with a path to a 0-d `out` without regard to casting.
    assigned = optimize not in (False, None) and out_spec is not None and not out_spec.shape
    target = None if out_spec is None or assigned else out_spec.dtype
    computed = computation_dtype(specs, dtype, target, casting)
    converted, operands = _converted(specs, range(len(specs)), computed)
    if out_spec is not None and _written_in_kernel(computed, out_spec):
        result = out_spec
    else:
        shape = [contraction.extents[name] for name in contraction.output]
        strides = result_strides(contraction, specs, order)
        result = TensorSpec.of(shape, computed, strides)
    if 0 in contraction.extents.values():
        return _zeros(len(specs), result)
    accumulated = accumulation_dtype(computed) if acc_dtype is None else as_dtype(acc_dtype)
    path = contraction_path(contraction, [spec.shape for spec in operands], optimize)
    builder = ProgramBuilder(operands)
    slot = _contracted(builder, contraction, path, accumulated, precision, result)
    return builder.program([slot], converted=converted)


def _zeros(operands: int, result: TensorSpec) -> Program:
    """The program of a result that is all zeros."""
    return Program(operands, (result,), (), (), fills=(0,))


def _prepared_whole(
    space: IndexSpace,
    specs: Sequence[TensorSpec],
    dtype: object,
    order: str,
    casting: str,
    acc_dtype: object,
    precision: str | None,
    out_spec: TensorSpec | None,
) -> Program:
    """The program of a string with sums as indices: one `md_hom` of all operands."""
    factors = [n for n in range(len(specs)) if n not in space.index_operands]
    target = None if out_spec is None else out_spec.dtype
    computed = computation_dtype([specs[n] for n in factors], dtype, target, casting)
    converted, operands = _converted(specs, factors, computed)
    shape = tuple(space.extents[name] for name in space.output)
    if out_spec is not None and out_spec.shape != shape:
        raise ShapeError(f"out has shape {out_spec.shape} but the result {shape}")
    result = TensorSpec.of(shape, computed, ordered_strides(shape, order))
    if out_spec is not None and _written_in_kernel(computed, out_spec):
        result = out_spec
    if 0 in space.extents.values():
        return _zeros(len(specs), result)
    md_hom = md_hom_from_index_space(
        space, operands, dtype=computed, acc_dtype=acc_dtype, precision=precision, out=result
    )
    return replace(Program.of(md_hom), converted=converted)


def _converted(
    specs: Sequence[TensorSpec], factors: Iterable[int], computed: np.dtype
) -> tuple[tuple[tuple[int, np.dtype], ...], list[TensorSpec]]:
    """The factors that are copied to the computed type first, and all operands' specs after that.

    The others are converted by the kernel.
    """
    copied = [n for n in factors if not _read_in_kernel(specs[n].dtype, computed)]
    operands = list(specs)
    for number in copied:
        operands[number] = TensorSpec.of(specs[number].shape, computed)
    return tuple([(number, computed) for number in copied]), operands


def computation_dtype(
    specs: Sequence[TensorSpec], dtype: object, out: np.dtype | None, casting: str
) -> np.dtype:
    """The type of NumPy's computation: `dtype`, or the common type of all arrays.

    Raises DTypeError where `casting` forbids to bring an array to it, or the result to `out`.
    """
    arrays = [spec.dtype for spec in specs] + ([] if out is None else [out])
    computed = common_dtype(arrays) if dtype is None else as_dtype(dtype)
    for number, spec in enumerate(specs):
        check_cast(f"operand {number}", spec.dtype, computed, casting)
    if out is not None:
        check_cast("out", out, computed, casting)
        check_cast("the result", computed, out, casting)
    return computed


def check_cast(what: str, given: np.dtype, to: np.dtype, casting: str) -> None:
    """Raise DTypeError where `casting` forbids a conversion of elements."""
    if not np.can_cast(given, to, cast("Any", casting)):
        raise DTypeError(
            f"{what} cannot be cast from {given} to {to} under casting={shown(casting)}",
            hint="allow it by casting='same_kind' or 'unsafe', or choose another dtype",
        )


def _read_in_kernel(given: np.dtype, computed: np.dtype) -> bool:
    """Whether a kernel can convert elements on load with NumPy's results."""
    if given == computed:
        return True
    rounds = is_short_float(computed) and not np.can_cast(given, computed)
    return np.can_cast(given, computed, "same_kind") and not rounds


def _written_in_kernel(computed: np.dtype, out: TensorSpec) -> bool:
    """Whether a kernel can convert results on store, each to its own address.

    Not where bytes become wider: kernels add them up in more bits, of which the lower eight count.
    """
    overlaps = any(s == 0 and n > 1 for n, s in zip(out.shape, out.strides, strict=True))
    loses = computed != out.dtype and computed.kind in "iu" and computed.itemsize == 1
    return np.can_cast(computed, out.dtype, "same_kind") and not overlaps and not loses


def result_strides(
    contraction: Contraction, specs: Sequence[TensorSpec], order: str
) -> tuple[int, ...]:
    """Strides, in elements, that NumPy would give to the result.

    For the order K they follow from which of the operands' strides are the larger ones.
    """
    extents = contraction.extents
    shape = [extents[name] for name in contraction.output]
    order = order.upper()
    if order == "C" or len(shape) < 2 or 0 in shape:
        return contiguous_strides(shape)
    walks = [_walk(names, spec) for names, spec in zip(contraction.inputs, specs, strict=True)]
    if order == "A":
        order = "F" if all(map(_is_in_fortran_order, walks)) else "C"
    if order != "K":
        return ordered_strides(shape, order)
    ones = frozenset([name for name, extent in extents.items() if extent == 1])
    places = tuple([_places(walk) for walk in walks])
    inside = _axes_inside(contraction.output, tuple(extents), ones, places)
    return tuple([math.prod([shape[axis] for axis in axes]) for axes in inside])


# Extent and stride of every dim that an operand is walked along.
_Walk = dict[str, tuple[int, int]]


def _walk(names: Sequence[str], spec: TensorSpec) -> _Walk:
    walk: _Walk = {}
    for name, extent, stride in zip(names, spec.shape, spec.strides, strict=True):
        walk[name] = extent, stride + (walk[name][1] if name in walk else 0)
    return walk


def _is_in_fortran_order(walk: _Walk) -> bool:
    extents, strides = zip(*walk.values(), strict=True) if walk else ((), ())
    return TensorSpec.of(extents[::-1], np.int8, strides[::-1]).is_contiguous


def _places(walk: _Walk) -> tuple[tuple[str, bool, int], ...]:
    """Each dim's name, whether its extent is 1, and the signed rank of its stride."""
    sizes = [0]
    for size in sorted([abs(stride) for _, stride in walk.values()]):
        sizes += [] if size == sizes[-1] else [size]  # a set would ask traced numbers for a hash
    return tuple(
        [
            (name, extent == 1, sizes.index(abs(stride)) * (1 if stride > 0 else -1))
            for name, (extent, stride) in walk.items()
        ]
    )


@lru_cache(1024)
def _axes_inside(
    output: tuple[str, ...],
    names: tuple[str, ...],
    ones: frozenset[str],
    walks: tuple[tuple[tuple[str, bool, int], ...], ...],
) -> tuple[tuple[int, ...], ...]:
    """The longer axes that NumPy lays out inside each axis of a result.

    They follow from the operands' strides, of which it matters which ones are the larger (see
    `_places`). NumPy's own iterator is asked, with axes of extent 2 for all that are longer.
    """
    dims = [*output, *sorted(set(names) - set(output))]
    kept = len(output)
    operands: list[np.ndarray] = []
    op_axes: list[list[int]] = []
    for walk in walks:
        operands.append(_untouchable([(1 if unit else 2, stride) for _, unit, stride in walk]))
        positions = {name: axis for axis, (name, _, _) in enumerate(walk)}
        op_axes.append([positions.get(name, -1) for name in dims])
    op_axes.append([*range(kept), *[-1] * (len(dims) - kept)])
    nditer: Any = np.nditer
    iterator = nditer(
        [*operands, None],
        flags=["external_loop", "buffered", "delay_bufalloc", "reduce_ok", "zerosize_ok"],
        op_flags=[["readonly"]] * len(walks) + [["readwrite", "allocate", "no_broadcast"]],
        op_axes=op_axes,
        order="K",
        itershape=[1 if name in ones else 2 for name in dims],
    )
    steps: tuple[int, ...] = iterator.operands[-1].strides
    long = sorted([axis for axis in range(kept) if output[axis] not in ones], key=steps.__getitem__)
    return tuple(tuple(long[: max(1, step).bit_length() - 1]) for step in steps)


def ordered_strides(shape: Sequence[int], order: str) -> tuple[int, ...]:
    """The strides, in elements, of a new array in order F, or in C order for any other."""
    if order.upper() == "F":
        return contiguous_strides(shape[::-1])[::-1]
    return contiguous_strides(shape)


def _untouchable(axes: Collection[tuple[int, int]]) -> np.ndarray:
    """An array without memory for given extents and strides, for use with NumPy's iterator only."""
    extents, strides = zip(*axes, strict=True) if axes else ((), ())
    return np.lib.stride_tricks.as_strided(np.empty(1, np.int8), extents, strides)


def _contracted(
    builder: ProgramBuilder,
    contraction: Contraction,
    path: Path,
    accumulated: np.dtype,
    precision: str | None,
    result: TensorSpec,
) -> int:
    """Add a step for each stage of the path; returns the slot of the result.

    Intermediates have the accumulation type.
    """
    terms = dict(enumerate(contraction.inputs))
    for number, positions in enumerate(path):
        waiting = [*terms]
        chosen = [waiting[position] for position in sorted(positions)]
        inputs = tuple([terms.pop(slot) for slot in chosen])
        operands = [builder.specs[slot] for slot in chosen]
        extents = broadcast_extents(inputs, operands)
        if number == len(path) - 1:
            output, spec = contraction.output, result
            extents |= {name: contraction.extents[name] for name in output}
        else:
            needed = {name for names in terms.values() for name in names}.union(contraction.output)
            output = tuple(name for name in extents if name in needed)
            spec = TensorSpec.of([extents[name] for name in output], accumulated)
        md_hom = md_hom_from_contraction(
            Contraction(inputs, output, extents),
            operands,
            dtype=accumulated,
            precision=precision,
            out=spec,
        )
        (slot,) = builder.add(md_hom, chosen)
        terms[slot] = output
    (slot,) = terms
    return slot


def broadcast_extents(
    inputs: Sequence[Sequence[str]], specs: Sequence[TensorSpec]
) -> dict[str, int]:
    """The extents of dims by name, with axes of extent 1 broadcast."""
    extents: dict[str, int] = {}
    for names, spec in zip(inputs, specs, strict=True):
        for name, extent in zip(names, spec.shape, strict=True):
            extents[name] = extent if extents.get(name, 1) == 1 else extents[name]
    return extents
