"""Zero padding: a guarded factor of a product becomes a zero-padded stream.

A convolution with padding reads the nearest element instead of one outside, and selects zero for
the product. Bulk copies give zeros for such indices by themselves, and need neither. Accumulators
that stay in registers take zero instead of the element, once for all products with it, or as it is
copied to local memory. (A zero times an infinity or a NaN is a NaN, where the guard gives zero; as
where an image is copied with zeros around it.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.problem.problem import Axis, Computed, Problem, Read
from mdtensor.translate.loop_nests.affine_from_expr import affine_from_expr
from mdtensor.translate.scalar import Expr, const


@lru_cache(maxsize=256)
def zero_filled(problem: Problem) -> Problem:
    """The problem with its guarded factor read as zero-padded; unchanged without one.

    Dims and streams keep their numbers.
    """
    guarded = [n for n, read in enumerate(problem.reads) if read.computed]
    if len(guarded) != 1 or problem.is_general or len(problem.scalar.results) != 1:
        return problem
    (number,), (result,) = guarded, problem.scalar.results
    read = problem.reads[number]
    shared = [each.stream for each in problem.all_reads].count(read.stream) > 1
    if shared or not _is_guarded_product(result, number, read.computed):
        return problem
    axes = [_axis(problem, part) for part in read.computed]
    found = tuple(axis for axis in axes if axis is not None)
    if len(found) < len(axes):
        return problem
    stream = problem.streams[read.stream]
    strides = tuple(
        stream.strides[d] + sum(axis.stride * axis.coefficients[d] for axis in found)
        for d in problem.dims
    )
    streams = list(problem.streams)
    streams[read.stream] = replace(stream, strides=strides, axes=found)
    reads = list(problem.reads)
    reads[number] = replace(read, computed=())
    scalar = replace(problem.scalar, results=(result.args[1],))
    return replace(problem, scalar=scalar, streams=tuple(streams), reads=tuple(reads))


def place_of(problem: Problem, read: Read) -> Index:
    """The offset of a read, with all indices at their start."""
    axes = problem.streams[read.stream].axes
    return as_index(read.offset) + sum(axis.stride * axis.offset for axis in axes)


def _is_guarded_product(result: Expr, number: int, computed: tuple[Computed, ...]) -> bool:
    """Whether the result is a product inside the bounds of a factor, and zero outside."""
    if result.op != "select" or result.args[2] != const(0, result.dtype):
        return False
    condition, value = result.args[:2]
    if value.op != "mul" or not any(_element(factor) == number for factor in value.args):
        return False
    inside = {
        bound
        for part in computed
        for bound in (part.expr >= 0, part.expr < (part.extent.constant or 0))
    }
    return set(_conditions(condition)) == inside


def _conditions(condition: Expr) -> Iterator[Expr]:
    if condition.op != "and":
        yield condition
        return
    for part in condition.args:
        yield from _conditions(part)


def _element(factor: Expr) -> int:
    """The parameter that a factor is, possibly cast or rounded; -1 for other expressions."""
    inner = factor.args[0] if factor.op in ("cast", "tf32") else factor
    return inner.number if inner.op == "param" else -1


def _axis(problem: Problem, part: Computed) -> Axis | None:
    """The axis of a computed index if it is affine; else None."""
    index, stride, extent = affine_from_expr(part.expr), part.stride.constant, part.extent.constant
    if index is None or stride is None or extent is None:
        return None
    by_label = dict(index.coefficients)
    coefficients = tuple(by_label.get(label, 0) for label in problem.labels)
    return Axis(stride, extent, coefficients, index.offset)


def axes_of(problem: Problem, number: int) -> tuple[Axis, ...] | None:
    """The axes of a stream's array, the nearest first; None where strides form no array.

    Dims whose steps are multiples of each other and overlap walk through one axis together; those
    that walk in steps through neighbouring elements have an axis each, which overlaps the other.
    A dim that walks backwards begins at an axis' `offset`, see `begin_of`.
    """
    stream = problem.streams[number]
    found: list[Axis] = []
    for stride, d in sorted(_steps(problem, number), key=lambda step: (abs(step[0]), step[1])):
        last = found[-1] if found else None
        length, sign = abs(stride), 1 if stride > 0 else -1
        if last is None or last.stride == 1 or length >= last.stride * last.extent:
            last, step = Axis(length, 1, (0,) * len(problem.dims)), 1
            found.append(last)
        elif length % last.stride:
            return None
        else:
            step = length // last.stride
        reach = step * (problem.extent(d) - 1)
        coefficients = tuple(c + sign * step * (e == d) for e, c in enumerate(last.coefficients))
        offset = last.offset + (reach if sign < 0 else 0)
        found[-1] = Axis(last.stride, last.extent + reach, coefficients, offset)
    return tuple(sorted((*stream.axes, *found), key=lambda axis: axis.stride))


def begin_of(problem: Problem, number: int, axes: Sequence[Axis], offset: Index | int) -> Index:
    """Where the array of a stream's axes begins, of which a read has an offset."""
    found = [axis for axis in axes if axis not in problem.streams[number].axes]
    return as_index(offset) - sum(axis.stride * axis.offset for axis in found)


def _steps(problem: Problem, number: int) -> Iterator[tuple[int, int]]:
    """The strides of a stream's dims beyond its padded axes."""
    stream = problem.streams[number]
    for d in problem.dims:
        named = sum(axis.stride * axis.coefficients[d] for axis in stream.axes)
        stride = (stream.strides[d] - as_index(named)).constant
        if stride:
            yield stride, d
