"""Problem: an MDHom with flat buffers, linear addresses and numbered dims, to be lowered.

Extents, strides and offsets are index expressions. In a problem for one shape they are numbers; in
the one problem that stands for all shapes of a structure they are names
(`lower.problem.generic_problem`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.forks import cached_property
from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.pass_runner import Pass, run
from mdtensor.lower.problem.merge_dims import Merging
from mdtensor.lower.problem.signed_zeros import beginning_with_zero, with_scans_from_minus_zero
from mdtensor.lower.problem.split_complex import real_from_complex
from mdtensor.translate.combine import Concat, Operator, PrefixSum
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.rewrites.lifted_operators import with_lifted_operators
from mdtensor.translate.rewrites.total_operators import with_total_operators
from mdtensor.translate.scalar import Expr, const
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import dims_in, rewritten
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex

_MOST_POINTS = (1 << 63) - 1  # what kernels count in
STRUCTURE = "_structure"  # the attribute in which a problem keeps what `generalised` found


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of an array: its stride and extent, and the index into it, affine in the dims."""

    stride: int
    extent: int
    coefficients: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Stream:
    """A buffer and strides per dim, shared by all reads that differ only in constant offsets.

    Where an index into one of `axes`, which the strides count already, lies outside, the element is
    zero. Offsets of reads count from where these indices are 0 (see `lower.problem.zero_padding`).
    """

    buffer: int
    strides: tuple[Index, ...]
    axes: tuple[Axis, ...] = ()

    def uses(self, dim: int) -> bool:
        """Whether the address depends on a dim."""
        return bool(self.strides[dim].terms)


@dataclass(frozen=True, slots=True)
class Computed:
    """A computed part of an address: the index into an axis, and the axis' stride.

    Parameter n of `expr` is what read n gives. Values below zero count from the end of the axis;
    what is still outside is moved to the nearest end.
    """

    expr: Expr
    extent: Index
    stride: Index


@dataclass(frozen=True, slots=True)
class Read:
    """An element that a scalar function reads: a stream, an offset, and computed indices."""

    stream: int
    offset: Index | int
    computed: tuple[Computed, ...] = ()


@dataclass(frozen=True, slots=True)
class Write:
    """The address of one element of the result tuple: a buffer, a stride per dim, an offset."""

    buffer: int
    strides: tuple[Index, ...]
    offset: Index | int


@dataclass(frozen=True, slots=True)
class Finish:
    """The epilogue: a function of combined tuples' elements, then of those of `reads`."""

    function: ScalarFunction
    reads: tuple[Read, ...] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """The valid range of a reduced dim, from `begin` up to `end`, which depend on kept dims.

    Parameter n of the expressions, which are int64, is what read n gives. Ranges are clipped to the
    dim.
    """

    dim: int
    begin: Expr
    end: Expr


@dataclass(frozen=True)
class Problem:
    """A computation: index space, reads, scalar function, operator, writes; dims are numbered.

    `labels` are the dims' names for readers of the kernel; they take no part in comparison of
    structures, which use numbers. `reduced[d]` tells whether elements along dim d are combined by
    `operator`. The dim `scanned` is one of them: every partial result along it is a result too
    (-1 where there is none; else it is the only one). Streams from `finish_streams` on are read
    by the `finish` alone. `reaches` has the first and the last element of each input, counted from
    where its addresses are; () where they are not known. Along the dim of `bounds`, only points
    inside count.
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
    scanned: int = -1
    finish: Finish | None = None
    reaches: tuple[tuple[int, int], ...] = ()
    bounds: Bounds | None = None

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        # In another process texts have other hashes.
        apart = ("_hash", STRUCTURE)
        return {name: value for name, value in self.__dict__.items() if name not in apart}

    @cached_property
    def _hash(self) -> int:
        # Problems that are alike in these are few, and the whole of one takes long.
        sizes, types = (self.extents, self.reduced, self.sizes), (self.inputs, self.outputs)
        return hash((self.scalar.digest, *sizes, *types))

    @property
    def written_dtypes(self) -> tuple[np.dtype, ...]:
        """Types of the written elements, after the epilogue if there is one."""
        last = self.scalar if self.finish is None else self.finish.function
        return last.result_dtypes

    @cached_property
    def finish_streams(self) -> int:
        """Number of the first stream that only the epilogue reads."""
        count = len(self.streams)
        if self.finish is None:
            return count
        return min((read.stream for read in self.finish.reads), default=count)

    @property
    def all_reads(self) -> tuple[Read, ...]:
        """The reads of the scalar function, then those of the epilogue."""
        return self.reads if self.finish is None else (*self.reads, *self.finish.reads)

    @property
    def accumulates_in_place(self) -> bool:
        """Whether partial results can be held in the outputs, as both have equal types."""
        stored = tuple(self.outputs[write.buffer] for write in self.writes)
        return stored == self.scalar.result_dtypes

    def is_plain(self, stream: int) -> bool:
        """Whether a stream is read once per point, without computed indices."""
        found = {(read.offset, bool(read.computed)) for read in self.reads if read.stream == stream}
        return len(found) == 1 and not found.pop()[1]

    def places(self, stream: int) -> tuple[Index, ...]:
        """The distinct offsets at which a stream is read; () where indices are computed."""
        found = [read for read in self.reads if read.stream == stream]
        if any(read.computed for read in found):
            return ()
        return tuple(dict.fromkeys(as_index(read.offset) for read in found))

    @cached_property
    def dims(self) -> range:
        """Numbers of all dims."""
        return range(len(self.extents))

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """Numbers of the dims that remain in the result."""
        return tuple(d for d in self.dims if not self.reduced[d])

    @cached_property
    def contracted(self) -> tuple[int, ...]:
        """Numbers of the dims that are reduced."""
        return tuple(d for d in self.dims if self.reduced[d])

    @cached_property
    def result_dims(self) -> tuple[int, ...]:
        """Numbers of the dims of the result: kept ones and a scanned one."""
        return tuple(d for d in self.dims if not self.reduced[d] or d == self.scanned)

    @cached_property
    def used(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the dims that each stream's addresses depend on."""
        return tuple(tuple(d for d in self.dims if s.uses(d)) for s in self.streams)

    @cached_property
    def _numbers(self) -> tuple[int | None, ...]:
        return tuple(extent.constant for extent in self.extents)

    @property
    def keeps_order(self) -> bool:
        """Whether elements must be combined in the order of the dims."""
        return self.operator is not None and not self.operator.commutative

    @property
    def is_general(self) -> bool:
        """Whether sizes are symbolic: one kernel for all shapes of the structure."""
        return bool(self.sizes)

    def extent(self, dim: int) -> int:
        """The extent of a dim as a number; LoweringError if it is symbolic."""
        value = self._numbers[dim]
        if value is None:
            raise LoweringError(f"dim {self.labels[dim]!r} has no fixed extent")
        return value


def problem_from_md_hom(md_hom: MDHom, *, units: bool = False) -> Problem:
    """The problem of an MDHom: complex numbers split, unit dims dropped, dims merged.

    With `units`, a dim of extent 1 that results lie along stays where a longer one has the same
    role, so that a batch of one and one of several are one structure.

    Raises LoweringError where dims have different operators, or a prefix sum is not the only
    combination: `translate.rewrites.stages` gives a chain of md_homs without those; and where there
    are more points than 64 bits count.
    """
    return FLATTEN(run(MD_HOM_PASSES, md_hom), units)


def _flattened(real: MDHom, units: bool) -> Problem:
    """The problem of an MDHom without complex numbers, whose operators are total."""
    _check_one_kernel(real)
    alike = _units_like_others(real) if units else ()
    dims = [dim for dim in real.dims if dim.extent != 1 or dim.name in alike]
    labels = [dim.name for dim in dims]
    views = _Views(labels)
    reads = tuple(views.read(access, real.inputs[access.buffer]) for access in real.inp_view)
    operator = real.operators[0] if real.operators else None
    functions = [beginning_with_zero(real.scalar, operator, real.dims)]
    operator = with_scans_from_minus_zero(operator, real.dims)
    between: tuple[Read, ...] = ()
    if real.epilogue is not None:
        views.begin_finish()
        epilogue = real.epilogue
        between = tuple(views.read(a, real.inputs[a.buffer]) for a in epilogue.view)
        functions.append(epilogue.function)
    named = {n for function in functions for result in function.results for n in dims_in(result)}
    if not named.issubset(labels):
        functions = [_on_dims(function, labels) for function in functions]
    named.update(n for r in (*reads, *between) for c in r.computed for n in dims_in(c.expr))
    written = [(a.buffer, *_linear(a, real.outputs[a.buffer], views)) for a in real.out_view]
    merging = Merging(
        labels,
        [dim.extent for dim in dims],
        [not isinstance(dim.combine, Concat) for dim in dims],
        [strides for _, strides in views.streams] + [strides for _, strides, _ in written],
        {d for d, label in enumerate(labels) if label in named},
        operator is not None and not operator.commutative,
    )
    left = merging.merged()
    return Problem(
        tuple([labels[d] for d in left]),
        tuple([as_index(merging.extents[d]) for d in left]),
        tuple([merging.reduced[d] for d in left]),
        functions[0],
        operator,
        tuple([buffer.spec.dtype for buffer in real.inputs]),
        tuple([buffer.spec.dtype for buffer in real.outputs]),
        tuple([Stream(buffer, _indices(strides, left)) for buffer, strides in views.streams]),
        reads,
        tuple([Write(b, _indices(strides, left), offset) for b, strides, offset in written]),
        scanned=next((n for n, d in enumerate(left) if _is_scanned(dims[d])), -1),
        finish=None if len(functions) == 1 else Finish(functions[1], between),
        reaches=tuple([_reach(buffer) for buffer in real.inputs]),
    )


def _units_like_others(real: MDHom) -> list[str]:
    """Concatenated dims of extent 1 that the same accesses use as some longer dim."""
    units = [dim for dim in real.dims if dim.extent == 1 and isinstance(dim.combine, Concat)]
    if not units:
        return []
    accesses = [*real.inp_view, *real.out_view]
    if real.epilogue is not None:
        accesses += real.epilogue.view
    used = [[index.dims for index in access.index] for access in accesses]

    def role(dim: Dim) -> tuple[bool, ...]:
        return tuple([any(dim.name in dims for dims in axes) for axes in used])

    longer = {role(d) for d in real.dims if d.extent != 1 and isinstance(d.combine, Concat)}
    return [dim.name for dim in units if role(dim) in longer]


MD_HOM_PASSES = (
    Pass("lift operators", with_lifted_operators),
    Pass("make operators total", with_total_operators),
    Pass("split complex numbers", real_from_complex),
)
FLATTEN = Pass("flatten", _flattened)


def _check_one_kernel(md_hom: MDHom) -> None:
    combined = [dim for dim in md_hom.dims if not isinstance(dim.combine, Concat)]
    if len(md_hom.operators) > 1 or (len(combined) > 1 and any(map(_is_scanned, combined))):
        raise LoweringError(
            f"one kernel cannot combine by {[dim.combine for dim in combined]}",
            hint="cut the md_hom into stages first",
        )
    if (count := math.prod([dim.extent for dim in md_hom.dims])) > _MOST_POINTS:
        raise LoweringError(f"{count} points are more than any device computes")


def _is_scanned(dim: Dim) -> bool:
    return isinstance(dim.combine, PrefixSum)


def _indices(strides: Sequence[int], dims: Sequence[int]) -> tuple[Index, ...]:
    return tuple([as_index(strides[d]) for d in dims])


def _reach(buffer: BufferSpec) -> tuple[int, int]:
    """The offsets of the first and the last element of a buffer."""
    spans = [s * (n - 1) for s, n in zip(buffer.spec.strides, buffer.spec.shape, strict=True)]
    return sum(min(0, span) for span in spans), sum(max(0, span) for span in spans)


def reaching_own_points(problem: Problem) -> Problem:
    """The problem with each input's known extent reduced to what its points read.

    For problems that run at several places of larger arrays, the last of which may be an end.
    """
    if any(read.computed for read in problem.all_reads):
        return replace(problem, reaches=())
    reaches: dict[int, tuple[int, int]] = {}
    for read in problem.all_reads:
        stream, offset = problem.streams[read.stream], as_index(read.offset).constant or 0
        spans = [
            (stride.constant or 0) * (problem.extent(d) - 1)
            for d, stride in enumerate(stream.strides)
        ]
        low, high = (offset + sum(bound(0, span) for span in spans) for bound in (min, max))
        least, most = reaches.get(stream.buffer, (low, high))
        reaches[stream.buffer] = min(least, low), max(most, high)
    return replace(
        problem, reaches=tuple([reaches.get(n, (0, 0)) for n in range(len(problem.inputs))])
    )


class _Views:
    """The streams of accesses as they are collected: a buffer, and a stride per dim."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = labels
        self.position = {label: number for number, label in enumerate(labels)}
        self.streams: list[tuple[int, list[int]]] = []
        self.first = 0

    def begin_finish(self) -> None:
        """Begin the epilogue's streams, which are not shared with earlier ones."""
        self.first = len(self.streams)

    def read(self, access: BufferAccess, buffer: BufferSpec) -> Read:
        strides, offset = _linear(access, buffer, self)
        stream = (access.buffer, strides)
        if stream not in self.streams[self.first :]:
            self.streams.append(stream)
        number = self.streams.index(stream, self.first)
        if access.is_affine:
            return Read(number, offset)
        rule = _dropping_dims(self.labels)
        computed = tuple(
            Computed(rewritten(axis.expr, rule), as_index(extent), as_index(stride))
            for axis, extent, stride in zip(
                access.index, buffer.spec.shape, buffer.spec.strides, strict=True
            )
            if isinstance(axis, ComputedIndex)
        )
        return Read(number, offset, computed)


def _on_dims(function: ScalarFunction, labels: Sequence[str]) -> ScalarFunction:
    """The function with indices of dropped dims replaced by 0."""
    return function.rewritten(_dropping_dims(labels))


def _dropping_dims(labels: Sequence[str]) -> Callable[[Expr], Expr]:
    """A rewrite rule that replaces indices of dims not in `labels` by 0."""

    def kept(node: Expr) -> Expr:
        is_dropped = node.op == "index" and node.value not in labels
        return const(0, node.dtype) if is_dropped else node

    return kept


def _linear(access: BufferAccess, buffer: BufferSpec, views: _Views) -> tuple[list[int], int]:
    """Strides per dim and the offset of the affine part of an access."""
    position = views.position
    strides = [0] * len(position)
    offset = 0
    for axis, stride in zip(access.index, buffer.spec.strides, strict=True):
        if not isinstance(axis, AffineIndex):
            continue
        offset += axis.offset * stride
        for dim, coefficient in axis.coefficients:
            if dim in position:
                strides[position[dim]] += coefficient * stride
    return strides, offset


def points(problem: Problem) -> int:
    """Number of points of the index space of a problem with fixed extents."""
    return math.prod(problem.extent(d) for d in problem.dims)
