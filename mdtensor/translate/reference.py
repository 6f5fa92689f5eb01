"""The reference implementation: any `md_hom` in plain NumPy, dim by dim.

Floating point is computed in float64 and complex128 whatever the types say, integers modulo their
width. Definitions: 002, section 4.2.2, Definition 4; appendix .3.9, Example 25 (prefix sums).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.errors import TranslationError
from mdtensor.translate.combine import Concat, Operator, Pointwise
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.trees import evaluate, evaluated, wide
from mdtensor.translate.views import BufferAccess, ComputedIndex

# As many as fit in cache.
POINTS_AT_ONCE = 1 << 17

Range = tuple[int, int]
Arrays = tuple[np.ndarray, ...]
# From two tuples of arrays to one: an operator, in whatever types it computes.
Combining = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


def run(md_hom: MDHom, inputs: Sequence[np.ndarray], *, cast: bool = False) -> Arrays:
    """Compute an `md_hom` on arrays that have the specs of its inputs.

    Outputs are in C order, float64 or complex128 where their type is a floating one, or of the
    buffers' types with `cast`. Elements that no access writes are 0.

    Raises TranslationError where an empty dim is combined by an operator without identity.

    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> sums = md_hom_from_einsum("ij->i", [TensorSpec.of((2, 3), "i8")])
    >>> run(sums, [np.arange(6).reshape(2, 3)])
    (array([ 3, 12]),)
    """
    specs = [buffer.spec for buffer in md_hom.outputs]
    outputs = tuple(np.zeros(s.shape, s.dtype if cast else wide(s.dtype)) for s in specs)
    compute(md_hom, inputs, outputs)
    return outputs


def compute(md_hom: MDHom, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    """Like `run`, into existing arrays; elements that no access writes are unchanged."""
    arrays = [np.asarray(array) for array in inputs]
    whole = {dim.name: (0, dim.extent) for dim in md_hom.dims}
    for part in _parts(md_hom, whole):
        results = _finished(md_hom, arrays, part, _combined(md_hom, arrays, part))
        for access, result in zip(md_hom.out_view, results, strict=True):
            _write(md_hom, access, part, result, outputs[access.buffer])


def _parts(md_hom: MDHom, part: Mapping[str, Range]) -> list[dict[str, Range]]:
    """Split the index space along concatenated dims into parts that fit in cache."""
    points = 1
    for low, high in part.values():
        points *= high - low
    cuts = [dim.name for dim in md_hom.dims if isinstance(dim.combine, Concat)]
    longest = max(cuts, key=lambda name: part[name][1] - part[name][0], default=None)
    if longest is None or points <= POINTS_AT_ONCE or part[longest][1] - part[longest][0] < 2:
        return [dict(part)]
    low, high = part[longest]
    middle = (low + high) // 2
    return [
        *_parts(md_hom, {**part, longest: (low, middle)}),
        *_parts(md_hom, {**part, longest: (middle, high)}),
    ]


def _combined(
    md_hom: MDHom, inputs: Sequence[np.ndarray], part: Mapping[str, Range]
) -> list[np.ndarray]:
    """The combined results on a part of the index space; reduced dims have extent 1.

    What does not fit in memory is cut once more along the outermost dim that is not concatenated:
    `h(a ++ b) = h(a) ⊗ h(b)`.
    """
    points = 1
    for low, high in part.values():
        points *= high - low
    outermost = next((d for d in md_hom.dims if part[d.name][1] - part[d.name][0] > 1), None)
    if points > POINTS_AT_ONCE and outermost and isinstance(outermost.combine, Pointwise):
        low, high = part[outermost.name]
        middle = (low + high) // 2
        left = _combined(md_hom, inputs, {**part, outermost.name: (low, middle)})
        right = _combined(md_hom, inputs, {**part, outermost.name: (middle, high)})
        return _applied(outermost.combine.op, left, right)
    results = _mapped(md_hom, inputs, part)
    for axis, dim in reversed(list(enumerate(md_hom.dims))):
        results = _along(dim, axis, results)
    return results


def _mapped(
    md_hom: MDHom, inputs: Sequence[np.ndarray], part: Mapping[str, Range]
) -> list[np.ndarray]:
    """The scalar function's results at every point of a part, with one axis per dim."""
    shape = tuple(high - low for low, high in part.values())
    indices = _indices(md_hom, part)
    elements: list[np.ndarray] = []
    for access in md_hom.inp_view:
        elements.append(_read(inputs[access.buffer], access, indices, shape, elements))
    results = evaluated(md_hom.scalar.results, elements, indices)
    return [np.broadcast_to(np.asarray(result), shape) for result in results]


def _indices(md_hom: MDHom, part: Mapping[str, Range]) -> dict[str, np.ndarray]:
    rank = len(md_hom.dims)
    return {
        dim.name: np.arange(*part[dim.name]).reshape([-1 if n == axis else 1 for n in range(rank)])
        for axis, dim in enumerate(md_hom.dims)
    }


def _places(
    access: BufferAccess,
    indices: Mapping[str, np.ndarray],
    shape: Sequence[int],
    elements: Sequence[np.ndarray] = (),
) -> tuple[np.ndarray, ...]:
    """The index arrays of an access, one per axis of a buffer."""
    rank = len(indices)
    places: list[np.ndarray] = []
    for axis, extent in zip(access.index, shape, strict=True):
        if isinstance(axis, ComputedIndex):
            place = np.asarray(evaluate(axis.expr, elements, indices)).astype(np.int64)
            places.append(np.clip(np.where(place < 0, place + extent, place), 0, extent - 1))
            continue
        place = np.full((1,) * rank, axis.offset)
        for name, coefficient in axis.coefficients:
            place = place + coefficient * indices[name]
        places.append(place)
    return tuple(places)


def _read(
    array: np.ndarray,
    access: BufferAccess,
    indices: Mapping[str, np.ndarray],
    shape: tuple[int, ...],
    elements: Sequence[np.ndarray] = (),
) -> np.ndarray:
    if 0 in shape:
        return np.zeros(shape, array.dtype)
    return np.asarray(array[_places(access, indices, array.shape, elements)])


def _finished(
    md_hom: MDHom,
    inputs: Sequence[np.ndarray],
    part: Mapping[str, Range],
    results: Sequence[np.ndarray],
) -> Sequence[np.ndarray]:
    """Apply the epilogue to the results of a part."""
    if md_hom.epilogue is None:
        return results
    ranges = _kept_ranges(md_hom, part)
    shape = tuple(high - low for low, high in ranges.values())
    indices = _indices(md_hom, ranges)
    read = [_read(inputs[a.buffer], a, indices, shape) for a in md_hom.epilogue.view]
    finished = evaluated(md_hom.epilogue.function.results, [*results, *read], indices)
    return [np.broadcast_to(np.asarray(value), shape) for value in finished]


def _kept_ranges(md_hom: MDHom, part: Mapping[str, Range]) -> dict[str, Range]:
    kept = {dim.name for dim in md_hom.kept}
    return {name: (span if name in kept else (0, 1)) for name, span in part.items()}


def _write(
    md_hom: MDHom,
    access: BufferAccess,
    part: Mapping[str, Range],
    result: np.ndarray,
    output: np.ndarray,
) -> None:
    indices = _indices(md_hom, _kept_ranges(md_hom, part))
    places = _places(access, indices, output.shape)
    if result.dtype.kind == "c" and output.dtype.kind not in "bc":
        result = np.real(result)
    with np.errstate(all="ignore"):
        stored = result.astype(output.dtype)
    output[places] = stored if places else stored.reshape(())


def _along(dim: Dim, axis: int, values: list[np.ndarray]) -> list[np.ndarray]:
    """Combine values along one axis by the dim's operator."""
    if isinstance(dim.combine, Concat):
        return values
    if not isinstance(dim.combine, Pointwise):
        return scanned(dim.combine.op, axis, values)
    if values[0].shape[axis] == 0:
        return _identity(dim, dim.combine.op, axis, values)
    return combined(dim.combine.op, axis, values)


def combined(op: Combining, axis: int, values: list[np.ndarray]) -> list[np.ndarray]:
    """Reduce tuples along an axis, in a tree of neighbours, which keeps their order."""
    extent = values[0].shape[axis]
    while extent > 1:
        pairs, odd = divmod(extent, 2)
        left = [_cut(v, axis, 0, 2 * pairs, 2) for v in values]
        right = [_cut(v, axis, 1, 2 * pairs, 2) for v in values]
        joined = _applied(op, left, right)
        last = [_cut(v, axis, 2 * pairs, extent) for v in values]
        values = _concatenated(joined, last, axis) if odd else joined
        extent = pairs + odd
    return values


def scanned(op: Combining, axis: int, values: list[np.ndarray]) -> list[np.ndarray]:
    """Inclusive scan of tuples along an axis, recursively by pairs of neighbours."""
    extent = values[0].shape[axis]
    if extent < 2:
        return values
    left = [_cut(v, axis, 0, extent - 1, 2) for v in values]
    right = [_cut(v, axis, 1, extent, 2) for v in values]
    odd = scanned(op, axis, _applied(op, left, right))
    before = [_cut(v, axis, 0, (extent - 1) // 2) for v in odd]
    even = _applied(op, before, [_cut(v, axis, 2, extent, 2) for v in values])
    results: list[np.ndarray] = []
    for value, at_odd, at_even in zip(values, odd, even, strict=True):
        result = np.array(value, dtype=at_odd.dtype)
        _cut(result, axis, 1, extent, 2)[...] = at_odd
        _cut(result, axis, 2, extent, 2)[...] = at_even
        results.append(result)
    return results


def _applied(
    op: Combining, left: Sequence[np.ndarray], right: Sequence[np.ndarray]
) -> list[np.ndarray]:
    shape = np.broadcast_shapes(*(value.shape for value in (*left, *right)))
    return [np.broadcast_to(np.asarray(value), shape) for value in op(left, right)]


def _identity(dim: Dim, op: Operator, axis: int, values: list[np.ndarray]) -> list[np.ndarray]:
    if op.identity is None:
        raise TranslationError(
            f"dim {dim.name!r} is empty and operator {op!r} has no identity",
            hint="declare the operator's identity, or give the dim at least one element",
        )
    return [
        np.full([1 if n == axis else e for n, e in enumerate(value.shape)], neutral, value.dtype)
        for value, neutral in zip(values, op.identity, strict=True)
    ]


def _cut(value: np.ndarray, axis: int, start: int, stop: int, step: int = 1) -> np.ndarray:
    return value[(slice(None),) * axis + (slice(start, stop, step),)]


def _concatenated(
    left: Sequence[np.ndarray], right: Sequence[np.ndarray], axis: int
) -> list[np.ndarray]:
    return [np.concatenate(pair, axis) for pair in zip(left, right, strict=True)]
