"""The transpose of a view: a term's sums are accumulated at the indices that the view reads.

An index of distinct dims is written as it is read. A window, such as 2h+r, is read backwards: its
longest dim is solved for, and what depends on that dim is read from a copy with zeros around and
between. A computed index is a scatter.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Collection, Mapping

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec, strides_in_order
from mdtensor.translate.combine import CC, Combine, Pointwise, named
from mdtensor.translate.md_hom import Dim
from mdtensor.translate.program_builder import ProgramBuilder, dims_of, everywhere
from mdtensor.translate.scalar import Expr, apply, cast, const, equal, index_of, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import dims_in, params_in, rewritten, substitute
from mdtensor.translate.views import AffineIndex, BufferAccess, ComputedIndex

F32 = np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class AccumulatedTerm:
    """A term to be summed: an expression of reads, at every point of `extents`.

    It is linear in each of the elements whose positions are `linear`: 0 where they are.
    """

    extents: Mapping[str, int]
    value: Expr
    reads: tuple[tuple[int, BufferAccess], ...]
    linear: tuple[int, ...]

    @property
    def used(self) -> tuple[int, ...]:
        """Positions of the reads that the value or computed indices depend on."""
        found = dict.fromkeys(params_in(self.value))
        for position in range(len(self.reads) - 1, -1, -1):
            if position in found:
                found |= dict.fromkeys(self.reads[position][1].elements)
        return tuple(sorted(found))


def transposed(
    builder: ProgramBuilder, term: AccumulatedTerm, access: BufferAccess, spec: TensorSpec
) -> int:
    """A slot of `spec`: at each index, the sum of the term over all points that access it.

    Shapes are those of the spec, and so are the type and the axes' order in memory; floats of 16
    bits are added up in float32.
    """
    extents = term.extents
    if 0 in extents.values():
        return builder.zeros(spec)
    if not access.is_affine:
        return _scattered(builder, term, access, spec)
    term = _pruned(term)
    if _is_distinct(access, extents):
        return _written(builder, term, access, spec)
    pivots = _pivots(access, extents)
    if pivots is None:
        return _scattered(builder, term, access, spec)
    return _gathered(builder, term, access, spec, pivots)


def _pruned(term: AccumulatedTerm) -> AccumulatedTerm:
    """The term without unused reads."""
    used = term.used
    if len(used) == len(term.reads):
        return term
    places = {old: param(new, _type_of(term, old)) for new, old in enumerate(used)}

    def moved(access: BufferAccess) -> BufferAccess:
        axes = [
            ComputedIndex(substitute(axis.expr, places))
            if isinstance(axis, ComputedIndex)
            else axis
            for axis in access.index
        ]
        return BufferAccess(access.buffer, tuple(axes))

    reads = tuple((term.reads[n][0], moved(term.reads[n][1])) for n in used)
    linear = tuple(new for new, old in enumerate(used) if old in term.linear)
    return AccumulatedTerm(term.extents, substitute(term.value, places), reads, linear)


def _type_of(term: AccumulatedTerm, position: int) -> np.dtype:
    for expr in (term.value, *_computed(term)):
        for node in _params(expr):
            if node.number == position:
                return node.dtype
    raise AssertionError(position)


def _computed(term: AccumulatedTerm) -> list[Expr]:
    return [
        axis.expr
        for _, access in term.reads
        for axis in access.index
        if isinstance(axis, ComputedIndex)
    ]


def _params(expr: Expr) -> list[Expr]:
    found: list[Expr] = []

    def note(node: Expr) -> Expr:
        if node.op == "param":
            found.append(node)
        return node

    rewritten(expr, note)
    return found


def _longer(access: BufferAccess, extents: Mapping[str, int]) -> list[list[tuple[str, int]]]:
    """The dims of each axis and their coefficients, without dims of extent 1."""
    return [
        [(dim, c) for dim, c in axis.coefficients if c and extents[dim] > 1]
        for axis in access.index
        if isinstance(axis, AffineIndex)
    ]


def _is_distinct(access: BufferAccess, extents: Mapping[str, int]) -> bool:
    """Whether the access is injective in its dims.

    As in 4i+r, where r is less than 4: the steps of each dim are longer than all shorter ones
    reach together.
    """
    for axis in _longer(access, extents):
        reach = 0
        for dim, step in sorted(axis, key=lambda each: abs(each[1])):
            if abs(step) <= reach:
                return False
            reach += abs(step) * (extents[dim] - 1)
    return True


def solved_axes(access: BufferAccess, extents: Mapping[str, int]) -> Collection[int]:
    """The axes for whose dims `transposed` solves, whose spec may be smaller than their range."""
    if not access.is_affine or _is_distinct(access, extents):
        return ()
    return _pivots(access, extents) or ()


def _function(
    builder: ProgramBuilder, term: AccumulatedTerm, value: Expr, name: str
) -> ScalarFunction:
    types = tuple(builder.specs[slot].dtype for slot, _ in term.reads)
    return ScalarFunction(types, (value,), name)


def _sums(dtype: np.dtype) -> np.dtype:
    return F32 if dtype.itemsize < F32.itemsize else dtype


def _written(
    builder: ProgramBuilder, term: AccumulatedTerm, access: BufferAccess, spec: TensorSpec
) -> int:
    """The sums for an injective access: written where the term's access reads."""
    kept = {name for axis in _longer(access, term.extents) for name, _ in axis}
    computed = _sums(spec.dtype)
    add = Pointwise(named("add", [computed]))
    once = [n for n, extent in term.extents.items() if extent == 1]
    dims = [
        Dim(name, extent, CC if name in kept or name in once else add)
        for name, extent in term.extents.items()
    ]
    result = _room(builder, access, term.extents, spec)
    function = _function(builder, term, cast(term.value, computed), "adjoint")
    builder.apply(dims, function, term.reads, [(result, access)])
    return result


def _room(
    builder: ProgramBuilder, access: BufferAccess, extents: Mapping[str, int], spec: TensorSpec
) -> int:
    """A result slot for writes by an access; zero-filled unless they cover it."""
    names: list[str] = []
    for axis, extent in zip(access.index, spec.shape, strict=True):
        assert isinstance(axis, AffineIndex)
        names += [dim for dim, c in axis.coefficients if c and extents[dim] > 1]
        low, high = axis.bounds(extents)
        count = math.prod(extents[dim] for dim, c in axis.coefficients if c)
        if high - low + 1 != extent or count != extent:
            return builder.zeros(spec)
    if len(set(names)) < len(names):  # a diagonal
        return builder.zeros(spec)
    return builder.new(spec.packed())


def _pivots(access: BufferAccess, extents: Mapping[str, int]) -> dict[int, tuple[str, int]] | None:
    """Per axis with several dims, the longest dim of no other axis and its coefficient; or None."""
    axes = _longer(access, extents)
    found: dict[int, tuple[str, int]] = {}
    for axis, listed in enumerate(axes):
        if len(listed) < 2:
            continue
        others = {dim for n, other in enumerate(axes) if n != axis for dim, _ in other}
        own = [(dim, c) for dim, c in listed if dim not in others]
        if not own:
            return None
        # What is left is walked for every element, so that a longer dim saves more of the work.
        found[axis] = max(own, key=lambda each: (extents[each[0]], abs(each[1]) == 1))
    return found


def _materialised(
    builder: ProgramBuilder, term: AccumulatedTerm, dtype: np.dtype
) -> AccumulatedTerm:
    """Materialise the term in a slot with an axis for each dim."""
    value = cast(term.value, _sums(dtype))
    extents = dict(term.extents)
    slot = builder.new(TensorSpec.of(tuple(extents.values()), value.dtype))
    at = BufferAccess.at(0, extents)
    dims = [Dim(name, extent, CC) for name, extent in extents.items()]
    builder.apply(dims, _function(builder, term, value, "term"), term.reads, [(slot, at)])
    return AccumulatedTerm(extents, param(0, value.dtype), ((slot, at),), (0,))


def _gathered(
    builder: ProgramBuilder,
    term: AccumulatedTerm,
    access: BufferAccess,
    spec: TensorSpec,
    pivots: dict[int, tuple[str, int]],
) -> int:
    """The sums for window accesses: each pivot is solved for, out-of-range reads are 0."""
    names = {dim for dim, _ in pivots.values()}
    depending = [n for n, (_, read) in enumerate(term.reads) if names & set(read.dims)]
    is_padded = term.linear and all(
        n in depending and names <= set(term.reads[n][1].dims) for n in term.linear
    )
    if not is_padded or set(depending) - set(term.linear) or names & set(dims_in(term.value)):
        term = _materialised(builder, term, spec.dtype)
    if any(not access.is_affine for n, (_, access) in enumerate(term.reads) if n in term.linear):
        term = _materialised(builder, term, spec.dtype)
    extents = {name: extent for name, extent in term.extents.items() if name not in names}
    solved: dict[str, AffineIndex] = {}
    index = list(access.index)
    for axis, (pivot, coefficient) in pivots.items():
        read = access.index[axis]
        assert isinstance(read, AffineIndex)
        name = _fresh(pivot, {*term.extents, *extents})
        sign = 1 if coefficient > 0 else -1
        rest = [(dim, -sign * c) for dim, c in read.coefficients if c and dim != pivot]
        extents[name] = spec.shape[axis]
        solved[pivot] = AffineIndex(((name, sign), *rest), -sign * read.offset)
        index[axis] = AffineIndex.of(name)
    steps = {pivot: abs(c) for pivot, c in pivots.values()}
    reads = tuple(
        _spread(builder, slot, read, solved, steps, {**term.extents, **extents})
        if n in term.linear
        else (slot, read)
        for n, (slot, read) in enumerate(term.reads)
    )
    return _written(
        builder,
        AccumulatedTerm(extents, term.value, reads, term.linear),
        BufferAccess(0, tuple(index)),
        spec,
    )


def _fresh(name: str, taken: Collection[str]) -> str:
    """A dim name not in `taken`, made from `name`; kernels have variables called by it."""
    while name in taken:
        name += "_"
    return name


def _spread(
    builder: ProgramBuilder,
    slot: int,
    read: BufferAccess,
    solved: Mapping[str, AffineIndex],
    steps: Mapping[str, int],
    extents: Mapping[str, int],
) -> tuple[int, BufferAccess]:
    """A zero-padded, dilated copy of what an access reads, with an axis for each dim.

    The axes lie in the order in which the dims walk the memory of the slot.
    """
    shape: list[int] = []
    written: list[AffineIndex] = []
    index: list[AffineIndex] = []
    for dim in read.dims:
        if dim not in solved:
            shape.append(extents[dim])
            written.append(AffineIndex.of(dim))
            index.append(AffineIndex.of(dim))
            continue
        low, high = solved[dim].bounds(extents)
        before = max(0, -low)
        shape.append(before + max(high, steps[dim] * (extents[dim] - 1)) + 1)
        written.append(AffineIndex(((dim, steps[dim]),), before))
        index.append(AffineIndex(solved[dim].coefficients, solved[dim].offset + before))
    source = builder.specs[slot]
    dtype = source.dtype
    order = sorted(range(len(shape)), key=lambda n: -_step_along(read, read.dims[n], source))
    copy = builder.zeros(TensorSpec.of(shape, dtype, strides_in_order(shape, order)))
    dims = [Dim(dim, extents[dim], CC) for dim in read.dims]
    function = ScalarFunction((dtype,), (param(0, dtype),), "spread")
    builder.apply(dims, function, [(slot, read)], [(copy, BufferAccess(0, tuple(written)))])
    return copy, BufferAccess(0, tuple(index))


def _step_along(read: BufferAccess, dim: str, spec: TensorSpec) -> int:
    """The elements of memory between reads at neighbouring indices of a dim."""
    return sum(
        abs(stride * dict(axis.coefficients).get(dim, 0))
        for axis, stride in zip(read.index, spec.strides, strict=True)
        if isinstance(axis, AffineIndex)
    )


def _scattered(
    builder: ProgramBuilder, term: AccumulatedTerm, access: BufferAccess, spec: TensorSpec
) -> int:
    """The sums for a computed index, by comparison with every place of a flat array."""
    strides = TensorSpec.of(spec.shape).strides
    flat = functools.reduce(
        operator.add,
        [
            _index(axis, extent) * stride
            for axis, extent, stride in zip(access.index, spec.shape, strides, strict=True)
        ],
    )
    size, place = math.prod(spec.shape), _fresh("at", term.extents)
    computed = _sums(spec.dtype)
    value = cast(term.value, computed)
    value = select(equal(index_of(place), cast(flat, np.int64)), value, const(0, computed))
    combine: Combine = Pointwise(named("add", [computed]))
    dims = [Dim(place, size, CC)]
    dims += [Dim(name, extent, combine) for name, extent in term.extents.items()]
    line = builder.new(TensorSpec.of((size,), spec.dtype))
    function = _function(builder, term, value, "scatter")
    builder.apply(dims, function, term.reads, [(line, BufferAccess.at(0, [place]))])
    result = builder.new(spec.packed())
    line_index = AffineIndex(tuple((f"a{n}", stride) for n, stride in enumerate(strides)))
    copy = ScalarFunction((spec.dtype,), (param(0, spec.dtype),), "copy")
    read, written = (line, BufferAccess(0, (line_index,))), (result, everywhere(spec.shape))
    builder.apply(dims_of(spec.shape), copy, [read], [written])
    return result


def _index(axis: AffineIndex | ComputedIndex, extent: int) -> Expr:
    """The index along an axis as an int64 expression; computed ones are clamped."""
    if isinstance(axis, ComputedIndex):
        place = cast(axis.expr, np.int64)
        place = select(apply("lt", place, 0), place + extent, place)
        place = select(apply("lt", place, 0), 0, place)
        return select(apply("ge", place, extent), extent - 1, place)
    terms: list[Expr] = [index_of(dim) * c for dim, c in axis.coefficients if c]
    return functools.reduce(operator.add, terms, const(axis.offset, np.int64))
