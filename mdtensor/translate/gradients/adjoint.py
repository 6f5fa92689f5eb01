"""The adjoint of one `md_hom`: from cotangents of outputs to cotangents of inputs.

Where results are added up, or not combined at all, it is the transpose of the views, of partial
derivatives of the scalar function (`transposed_access`). Where they are combined otherwise, the
results of the scalar function are an array of their own: maxima and minima select, `logaddexp`
gives a softmax, and any other operator is a scan (`adjoint_scan`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec, kind_of
from mdtensor.translate.combine import CC, Concat, Operator, Pointwise, PrefixSum, named
from mdtensor.translate.gradients.adjoint_scan import adjoint_scan
from mdtensor.translate.gradients.partial_derivatives import cotangents_of
from mdtensor.translate.gradients.transposed_access import AccumulatedTerm, solved_axes, transposed
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.md_hom_program import Step
from mdtensor.translate.program_builder import ProgramBuilder
from mdtensor.translate.scalar import Expr, apply, const, equal, param, select
from mdtensor.translate.scalar_function import ScalarFunction, identity_function
from mdtensor.translate.trees import all_rewritten, params_in
from mdtensor.translate.views import AffineIndex, BufferAccess

# The operations of two operands whose result is one of them, by what tells that it is the first.
_CHOICES = {"max": "gt", "fmax": "gt", "min": "lt", "fmin": "lt"}
_EXTREMA = ("min", "max", "fmin", "fmax", "lesser", "greater")


def in_parts(builder: ProgramBuilder, whole: Step) -> list[Step]:
    """Split an `md_hom` into steps: scalar function, combine operator, epilogue.

    Sums stay with the scalar function.
    """
    md_hom = whole.md_hom
    if md_hom.epilogue is not None:
        first, last = _without_epilogue(builder, whole)
        return [*in_parts(builder, first), last]
    combined = [dim for dim in md_hom.dims if not isinstance(dim.combine, Concat)]
    if all(_is_sum(dim) for dim in combined) or (_is_direct(md_hom) and _is_identity(md_hom)):
        return [whole]
    values, buffers, places = builder.between(md_hom.dims, md_hom.scalar.result_dtypes)
    dims = tuple(replace(dim, combine=CC) for dim in md_hom.dims)
    mapped = replace(md_hom, dims=dims, outputs=buffers, out_view=places)
    parts = [Step(mapped, whole.operands, values)]
    rest = replace(
        md_hom,
        scalar=identity_function(md_hom.scalar.result_dtypes),
        inputs=buffers,
        inp_view=places,
    )
    left = Step(rest, values, whole.results)
    reduced = [dim for dim in combined if isinstance(dim.combine, Pointwise)]
    if not _is_direct(md_hom):
        for dim in reduced[::-1]:
            scan, left = _scanned(builder, left, dim)
            parts.append(scan)
    return [*parts, left]


def _is_sum(dim: Dim) -> bool:
    return isinstance(dim.combine, Pointwise) and dim.combine.op.name == "add"


def _is_direct(md_hom: MDHom) -> bool:
    """Whether a reduction's derivative needs only the element and the result."""
    [op] = md_hom.operators
    is_one = len(op.dtypes) == 1 and all(not isinstance(d.combine, PrefixSum) for d in md_hom.dims)
    return is_one and op.name in (*_EXTREMA, "logaddexp")


def _is_identity(md_hom: MDHom) -> bool:
    """Whether the scalar function is the identity on one affine access."""
    [access, *more], [result] = md_hom.inp_view, md_hom.scalar.results
    return not more and access.is_affine and result.op == "param"


def _without_epilogue(builder: ProgramBuilder, whole: Step) -> tuple[Step, Step]:
    md_hom = whole.md_hom
    epilogue = md_hom.epilogue
    assert epilogue is not None
    kept = [replace(dim, combine=CC) for dim in md_hom.kept]
    between, buffers, places = builder.between(kept, md_hom.scalar.result_dtypes)
    first = replace(md_hom, outputs=buffers, out_view=places, epilogue=None)
    moved = tuple(replace(a, buffer=a.buffer + len(between)) for a in epilogue.view)
    last = MDHom(
        tuple(kept),
        epilogue.function,
        (*buffers, *md_hom.inputs),
        md_hom.outputs,
        (*places, *moved),
        md_hom.out_view,
    )
    return (
        Step(first, whole.operands, between),
        Step(last, (*between, *whole.operands), whole.results),
    )


def _scanned(builder: ProgramBuilder, left: Step, dim: Dim) -> tuple[Step, Step]:
    """Replace a reduction along a dim by a scan, and a step that reads its last elements."""
    md_hom = left.md_hom
    assert isinstance(dim.combine, Pointwise)
    scan = PrefixSum(dim.combine.op)
    results, buffers, places = builder.between(md_hom.dims, md_hom.scalar.result_dtypes)
    first = replace(
        md_hom,
        dims=tuple(replace(d, combine=scan if d.name == dim.name else CC) for d in md_hom.dims),
        outputs=buffers,
        out_view=places,
    )
    last = AffineIndex((), max(0, dim.extent - 1))
    index = tuple(last if d.name == dim.name else AffineIndex.of(d.name) for d in md_hom.dims)
    rest = replace(
        md_hom,
        dims=tuple(d for d in md_hom.dims if d.name != dim.name),
        inputs=buffers,
        inp_view=tuple(BufferAccess(n, index) for n in range(len(results))),
    )
    return Step(first, left.operands, results), Step(rest, results, left.results)


@dataclass(frozen=True, slots=True)
class Margins:
    """A slot that is a padded copy of a `source` of some `shape`, with constants around it.

    The copy begins at these `offsets`.
    """

    source: int
    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    def within(self, access: BufferAccess, extents: Mapping[str, int]) -> BufferAccess | None:
        """Rewrite an access to the slot as one to its source; None if it may leave that.

        Indices outside of the source are none of its elements, where the access is solved for them.
        """
        pairs = zip(access.index, self.offsets, strict=True)
        index = [
            replace(axis, offset=axis.offset - offset)
            for axis, offset in pairs
            if isinstance(axis, AffineIndex)
        ]
        moved = BufferAccess(access.buffer, tuple(index))
        if len(index) < len(access.index):
            return None
        solved = solved_axes(moved, extents)
        bounds = [axis.bounds(extents) for axis in index]
        are_inside = [
            n in solved or (low >= 0 and high < self.shape[n])
            for n, (low, high) in enumerate(bounds)
        ]
        return moved if all(are_inside) else None


def copies_with_margins(
    parts: Sequence[Step], between: Collection[int], specs: Sequence[TensorSpec]
) -> dict[int, Margins]:
    """The slots among `between` that are padded copies of other slots."""
    writers: dict[int, list[Step]] = {}
    for part in parts:
        for slot in part.results:
            writers.setdefault(slot, []).append(part)
    found: dict[int, Margins] = {}
    for slot in between:
        copies = [part for part in writers.get(slot, ()) if part.operands]
        margins = _margins(copies[0], specs) if len(copies) == 1 else None
        if margins is not None:
            found[slot] = margins
    return found


def _margins(part: Step, specs: Sequence[TensorSpec]) -> Margins | None:
    """The padded copy that a step makes; None if it computes anything else."""
    md_hom = part.md_hom
    is_copy = (
        len(part.operands) == len(part.results) == len(md_hom.out_view) == 1
        and md_hom.epilogue is None
        and all(isinstance(dim.combine, Concat) for dim in md_hom.dims)
        and _is_identity(md_hom)
        and md_hom.scalar.results[0].dtype == specs[part.operands[0]].dtype
    )
    if not is_copy:
        return None
    shape = specs[part.operands[0]].shape
    [read], [written] = md_hom.inp_view, md_hom.out_view
    if len(read.index) != len(written.index):
        return None
    offsets: list[int] = []
    for source, target, extent in zip(read.index, written.index, shape, strict=True):
        assert isinstance(source, AffineIndex) and isinstance(target, AffineIndex)
        named = [dim for dim, c in source.coefficients if c]
        is_whole = len(named) == 1 and source == AffineIndex.of(named[0])
        if not is_whole or md_hom.extents[named[0]] != extent:
            return None
        if target != replace(source, offset=target.offset):
            return None
        offsets.append(target.offset)
    return Margins(part.operands[0], tuple(offsets), shape)


def adjoint(
    builder: ProgramBuilder,
    part: Step,
    given: Mapping[int, int],
    wanted: Collection[int],
    known: Collection[int] = (),
    copies: Mapping[int, Margins] = MappingProxyType({}),
) -> list[tuple[int, int]]:
    """Pairs of an input slot of `part`, among `wanted`, and a slot with its cotangent.

    `given` are the cotangents of slots that it writes, `known` are slots that need not be computed
    for it. What is read of `copies` with margins is read of their sources.
    """
    md_hom = part.md_hom
    if 0 in md_hom.extents.values():
        return []
    combined = [dim for dim in md_hom.dims if not isinstance(dim.combine, Concat)]
    if any(isinstance(dim.combine, PrefixSum) for dim in combined):
        return adjoint_scan(builder, part, given, wanted)
    if all(_is_sum(dim) for dim in combined):
        return _of_sum(builder, part, given, wanted, known, copies)
    return _of_choice(builder, part, given)


def _reads(part: Step) -> list[tuple[int, BufferAccess]]:
    return [(part.operands[access.buffer], access) for access in part.md_hom.inp_view]


def _of_sum(
    builder: ProgramBuilder,
    part: Step,
    given: Mapping[int, int],
    wanted: Collection[int],
    known: Collection[int],
    copies: Mapping[int, Margins],
) -> list[tuple[int, int]]:
    md_hom = part.md_hom
    reads = _reads(part)
    count = len(reads)
    cotangents: list[Expr | None] = []
    for access, result in zip(md_hom.out_view, md_hom.scalar.results, strict=True):
        slot = given.get(part.results[access.buffer])
        if slot is None or kind_of(result.dtype) != "f":
            cotangents.append(None)
            continue
        cotangents.append(param(len(reads), builder.specs[slot].dtype))
        reads.append((slot, access))
    positions = [
        n
        for n, (slot, _) in enumerate(reads[:count])
        if slot in wanted and kind_of(builder.specs[slot].dtype) == "f"
    ]
    found = cotangents_of(md_hom.scalar.results, cotangents, positions)
    alike: dict[tuple[int, BufferAccess], Expr] = {}
    for position, value in found.items():
        key = reads[position]
        alike[key] = alike[key] + value if key in alike else value
    linear = tuple(range(count, len(reads)))
    by_results = _by_results(builder, part, list(alike.values()), reads, known)
    pairs: list[tuple[int, int]] = []
    for (slot, access), value in zip(alike, by_results, strict=True):
        copied = copies.get(slot)
        within = copied and copied.within(access, md_hom.extents)
        source, at = (copied.source, within) if copied and within else (slot, access)
        term = AccumulatedTerm(md_hom.extents, value, tuple(reads), linear)
        pairs.append((source, transposed(builder, term, at, builder.specs[source])))
    return pairs


def _by_results(
    builder: ProgramBuilder,
    part: Step,
    values: Sequence[Expr],
    reads: list[tuple[int, BufferAccess]],
    known: Collection[int],
) -> Sequence[Expr]:
    """Rewrite derivatives in terms of the results, like tanh's, if that saves recomputation.

    So the gradient of an epilogue asks for no sums again. The results are added to `reads`.
    """
    md_hom = part.md_hom

    def computed(listed: Sequence[Expr]) -> bool:
        return any(reads[n][0] not in known for value in listed for n in params_in(value))

    if not computed(values):
        return values
    more, names = list[tuple[int, BufferAccess]](), dict[Expr, Expr]()
    for access, result in zip(md_hom.out_view, md_hom.scalar.results, strict=True):
        slot = part.results[access.buffer]
        if slot not in known or builder.specs[slot].dtype != result.dtype:
            continue
        value = param(len(reads) + len(more), result.dtype)
        more.append((slot, access))
        names[result] = value
        if result.op in _CHOICES:
            for one, other in (result.args, result.args[::-1]):
                compared = apply(_CHOICES[result.op], one, other)
                if other.op == "const":
                    names[compared] = apply(_CHOICES[result.op], value, other)
    found = all_rewritten(values, lambda node: names.get(node, node))
    reads += more
    return values if computed(found) else found


def _of_choice(
    builder: ProgramBuilder, part: Step, given: Mapping[int, int]
) -> list[tuple[int, int]]:
    """The adjoint of a min or max reduction (a selection) or of `logaddexp` (a softmax)."""
    md_hom = part.md_hom
    [op], [access] = md_hom.operators, md_hom.out_view
    written = part.results[access.buffer]
    [(source, at)] = _reads(part)
    if written not in given:
        return []
    share = _share_of(builder, part, op, (source, at), (written, access))
    dtype = op.dtypes[0]
    weight, element, whole = param(1, dtype), param(2, dtype), param(3, dtype)
    cotangent = param(0, builder.specs[given[written]].dtype)
    value = select(equal(element, whole), cotangent / weight, 0)
    reads = [(given[written], access), share, (source, at), (written, access)]
    if op.name == "logaddexp":
        value = cotangent * select(equal(element, whole), 1, apply("exp", element - whole))
        reads[1] = (source, at)
    term = AccumulatedTerm(md_hom.extents, value, tuple(reads), (0,))
    return [(source, transposed(builder, term, at, builder.specs[source]))]


def _share_of(
    builder: ProgramBuilder,
    part: Step,
    op: Operator,
    element: tuple[int, BufferAccess],
    whole: tuple[int, BufferAccess],
) -> tuple[int, BufferAccess]:
    """The number of elements that equal the extremum, as a slot and an access."""
    md_hom, dtype = part.md_hom, op.dtypes[0]
    kept = [dim for dim in md_hom.dims if isinstance(dim.combine, Concat)]
    count = builder.new(TensorSpec.of(tuple(dim.extent for dim in kept), dtype))
    place = count, BufferAccess.at(0, [dim.name for dim in kept])
    if op.name == "logaddexp":
        return place
    add = Pointwise(named("add", [dtype]))
    dims = [
        dim if isinstance(dim.combine, Concat) else replace(dim, combine=add) for dim in md_hom.dims
    ]
    types = np.dtype(dtype), builder.specs[whole[0]].dtype
    equals = equal(param(0, types[0]), param(1, types[1]))
    one = select(equals, const(1, dtype), const(0, dtype))
    builder.apply(dims, ScalarFunction(types, (one,), "count"), [element, whole], [place])
    return place
