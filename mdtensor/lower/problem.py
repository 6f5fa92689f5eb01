"""Problem: an MDHom as the lowering sees it: flat buffers, linear addresses, numbered dims.

Extents, strides and offsets are index expressions. In a problem for one shape they are numbers;
`generalised` replaces extents and strides by names, which gives the one problem that stands for
all shapes of a structure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.lower.index import ZERO, Index, as_index, name
from mdtensor.lower.passes.real_from_complex import real_from_complex
from mdtensor.translate.combine import Concat, Operator, Pointwise
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.scalar import Expr, ScalarFunction
from mdtensor.translate.total_operators import with_total_operators
from mdtensor.translate.views import Access, Buffer

LITERAL_STRIDES = (-1, 0, 1)


@dataclass(frozen=True, slots=True)
class Stream:
    """All reads of one buffer that differ only by a constant: a buffer and a stride per dim."""

    buffer: int
    strides: tuple[Index, ...]

    def uses(self, dim: int) -> bool:
        """Whether the address depends on a dim."""
        return bool(self.strides[dim].terms)


@dataclass(frozen=True, slots=True)
class Read:
    """An element that the scalar function takes: a stream, and an offset in elements."""

    stream: int
    offset: int


@dataclass(frozen=True, slots=True)
class Write:
    """Where one element of the result tuple goes: a buffer, a stride per dim, an offset."""

    buffer: int
    strides: tuple[Index, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Problem:
    """The index space, what is read, computed, combined and written; dims are numbered.

    `labels` are the dims' names for readers of the kernel; they take no part in comparison of
    structures, which use numbers. `reduced[d]` tells whether dim d vanishes by `operator`.
    """

    labels: tuple[str, ...]
    extents: tuple[Index, ...]
    reduced: tuple[bool, ...]
    scalar: ScalarFunction
    operator: Operator | None
    inputs: tuple[np.dtype, ...]
    outputs: tuple[np.dtype, ...]
    streams: tuple[Stream, ...]
    reads: tuple[Read, ...]
    writes: tuple[Write, ...]
    sizes: tuple[str, ...] = ()

    @property
    def dims(self) -> range:
        """Numbers of all dims."""
        return range(len(self.extents))

    @property
    def kept(self) -> tuple[int, ...]:
        """Numbers of the dims that remain in the result."""
        return tuple(d for d in self.dims if not self.reduced[d])

    @property
    def contracted(self) -> tuple[int, ...]:
        """Numbers of the dims that are reduced."""
        return tuple(d for d in self.dims if self.reduced[d])

    @property
    def is_general(self) -> bool:
        """Whether extents are names: one kernel for all shapes of the structure."""
        return bool(self.sizes)

    def extent(self, dim: int) -> int:
        """The extent of a dim, as a number."""
        value = self.extents[dim].constant
        if value is None:
            raise LoweringError(f"dim {self.labels[dim]!r} has no fixed extent")
        return value


def problem_from_md_hom(md_hom: MDHom) -> Problem:
    """The problem of an MDHom: complex numbers split, unit dims dropped, dims merged.

    Raises LoweringError for what no kernel is generated for: prefix sums, and different
    operators on different dims.
    """
    real = real_from_complex(with_total_operators(md_hom))
    for dim in real.dims:
        if not isinstance(dim.combine, Concat | Pointwise):
            raise LoweringError(f"no kernel is generated yet for dim {dim!r} with {dim.combine!r}")
    if len(real.operators) > 1:
        raise LoweringError(
            f"no kernel is generated yet for different operators {list(real.operators)} at once"
        )
    dims = [dim for dim in real.dims if dim.extent != 1]
    position = {dim.name: number for number, dim in enumerate(dims)}
    streams: dict[Stream, int] = {}
    reads: list[Read] = []
    for access in real.inp_view:
        strides, offset = _linear(access, real.inputs[access.buffer], position)
        number = streams.setdefault(Stream(access.buffer, strides), len(streams))
        reads.append(Read(number, offset))
    problem = Problem(
        tuple(dim.name for dim in dims),
        tuple(as_index(dim.extent) for dim in dims),
        tuple(isinstance(dim.combine, Pointwise) for dim in dims),
        real.scalar,
        real.operators[0] if real.operators else None,
        tuple(buffer.spec.dtype for buffer in real.inputs),
        tuple(buffer.spec.dtype for buffer in real.outputs),
        tuple(streams),
        tuple(reads),
        tuple(
            Write(a.buffer, *_linear(a, real.outputs[a.buffer], position)) for a in real.out_view
        ),
    )
    return merged(problem)


def _linear(
    access: Access, buffer: Buffer, position: dict[str, int]
) -> tuple[tuple[Index, ...], int]:
    strides = [0] * len(position)
    offset = 0
    for axis, stride in zip(access.index, buffer.spec.strides, strict=True):
        offset += axis.offset * stride
        for dim, coefficient in axis.coefficients:
            if dim in position:
                strides[position[dim]] += coefficient * stride
    return tuple(map(as_index, strides)), offset


def merged(problem: Problem) -> Problem:
    """Neighbouring dims that every address walks through as one become one dim.

    Dim a (outer) and b (inner) merge where each access has stride(a) = stride(b) · extent(b) and
    both are combined alike; a contiguous element-wise computation becomes one loop.
    """
    if _uses_index(problem.scalar):
        return problem
    for outer in problem.dims:
        for inner in problem.dims:
            if outer != inner and _mergeable(problem, outer, inner):
                return merged(_merge(problem, outer, inner))
    return problem


def _uses_index(scalar: ScalarFunction) -> bool:
    def visit(expr: Expr) -> bool:
        return expr.op == "index" or any(visit(arg) for arg in expr.args)

    return any(visit(result) for result in scalar.results)


def _mergeable(problem: Problem, outer: int, inner: int) -> bool:
    if problem.reduced[outer] != problem.reduced[inner]:
        return False
    accesses: Sequence[Stream | Write] = (*problem.streams, *problem.writes)
    extent = problem.extent(inner)
    return all(
        access.strides[outer].constant == (access.strides[inner].constant or 0) * extent
        for access in accesses
    )


def _merge(problem: Problem, outer: int, inner: int) -> Problem:
    def without(values: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(value for d, value in enumerate(values) if d != outer)

    extents = list(problem.extents)
    extents[inner] = extents[outer] * extents[inner]
    labels = list(problem.labels)
    labels[inner] = labels[outer] + labels[inner]
    return replace(
        problem,
        labels=tuple(label for d, label in enumerate(labels) if d != outer),
        extents=without(tuple(extents)),
        reduced=tuple(r for d, r in enumerate(problem.reduced) if d != outer),
        streams=tuple(replace(s, strides=without(s.strides)) for s in problem.streams),
        writes=tuple(replace(w, strides=without(w.strides)) for w in problem.writes),
    )


def generalised(problem: Problem) -> tuple[Problem, tuple[int, ...]]:
    """The structure of a problem, and the sizes that give back this one problem.

    Extents become names, and strides too unless they are -1, 0 or 1 (which decide how memory is
    accessed); equal strides of one access keep separate names. Labels become numbers, so that
    equal structures compare equal.
    """
    values: list[int] = []
    names: list[str] = []

    def named(label: str, value: Index) -> Index:
        names.append(label)
        constant = value.constant
        assert constant is not None
        values.append(constant)
        return name(label)

    def strides(label: str, given: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(
            stride if stride.constant in LITERAL_STRIDES else named(f"{label}{d}", stride)
            for d, stride in enumerate(given)
        )

    extents = tuple(named(f"N{d}", extent) for d, extent in enumerate(problem.extents))
    streams = tuple(
        replace(stream, strides=strides(f"stride{n}_", stream.strides))
        for n, stream in enumerate(problem.streams)
    )
    writes = tuple(
        replace(write, strides=strides(f"step{n}_", write.strides))
        for n, write in enumerate(problem.writes)
    )
    general = replace(
        problem,
        labels=tuple(f"d{d}" for d in problem.dims),
        extents=extents,
        streams=streams,
        writes=writes,
        sizes=tuple(names),
    )
    return general, tuple(values)


def points(problem: Problem) -> int:
    """Number of points of the index space of a problem with fixed extents."""
    return math.prod(problem.extent(d) for d in problem.dims)


__all__ = ["ZERO", "Problem", "Read", "Stream", "Write", "generalised", "problem_from_md_hom"]
