"""Ragged operands: rewriting an `md_hom` over the concatenated values of all sequences.

A front end builds its `md_hom` of dense arrays whose dim along a sequence has any extent. Here one
dim along all values stands for that dim: together with the dim of the batch where both remain or
both are combined, and as ranges from data where the sequences are combined one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import Concat, Pointwise
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.rewrites.places_of_dims import DimReplacement, stored_index, unused_name
from mdtensor.translate.scalar import I64, Expr, apply, cast, const, index_of, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import dims_in
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex

# What stands behind the inputs of an `md_hom`: where sequences begin and end, and for each value
# the number of its sequence.
OFFSETS, ROWS = "offsets", "rows"
_PADDED = "r.padded(fill) is a dense array of a ragged operand r"


@dataclass(frozen=True, slots=True)
class RaggedDims:
    """The batch and sequence dims by name, and the total number of values.

    `more` are the specs of the arrays that there are besides: `OFFSETS` and `ROWS`.
    """

    batch: str
    sequence: str
    count: int
    more: Mapping[str, TensorSpec]


def over_values(
    md_hom: MDHom, ragged: Mapping[int, tuple[TensorSpec, int, int]], dims: RaggedDims
) -> tuple[MDHom, tuple[str, ...]]:
    """Rewrite an `md_hom` to the values of ragged inputs; also names of extra inputs.

    `ragged` are its ragged inputs: the spec of their values, and the axes of batch and sequence in
    the dense arrays of which it was built. An output that keeps sequences is ragged as well: it
    lacks the axis of the batch.

    Raises TranslationError where an axis of sequences is walked by no dim of its own, where
    sequences remain without the batch or are scanned, and for operators without identity.

    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> dense = md_hom_from_einsum("btd,btd->bd", [TensorSpec.of((8, 100, 4))] * 2)
    >>> values = TensorSpec.of((100, 4))
    >>> dims = RaggedDims("b", "t", 100, {"offsets": TensorSpec.of((9,), "i8")})
    >>> sums, more = over_values(dense, {0: (values, 0, 1), 1: (values, 0, 1)}, dims)
    >>> sums, more
    (md_hom[b:8, e:100, d:4](mul, (cc, pw(add), cc)), ('offsets',))
    >>> sums.scalar.results, sums.inp_view
    ((select(((p0 <= e) & (e < p1)), (p2 * p3), 0),), ((b), (b+1), (e, d), (e, d)))
    """
    combines = {dim.name: dim.combine for dim in md_hom.dims}
    _check_order(md_hom, dims)
    is_range = isinstance(combines[dims.batch], Concat) and isinstance(
        combines[dims.sequence], Pointwise
    )
    along = unused_name("e", combines)
    used = _used(md_hom, ragged, dims)
    count = len(md_hom.inputs)
    if is_range:
        more: tuple[str, ...] = (OFFSETS,)
        at, behind = AffineIndex.of(dims.batch), AffineIndex.of(dims.batch, offset=1)
        first = [BufferAccess(count, (at,)), BufferAccess(count, (behind,))]
        begin, end = (cast(param(n, dims.more[OFFSETS].dtype), I64) for n in (0, 1))
        element = index_of(along)
        here = apply("and", apply("le", begin, element), apply("lt", element, end))
        places: dict[str, Expr] = {dims.sequence: element - begin}
    else:
        more, first, places, here = (), [], {}, None
        if used:
            more, first = (ROWS,), [BufferAccess(count, (AffineIndex.of(along),))]
            places[dims.batch] = stored_index(0, dims.more[ROWS].dtype)
        if dims.sequence in used:
            more = (ROWS, OFFSETS)
            first += [BufferAccess(count + 1, (ComputedIndex(places[dims.batch]),))]
            begin = cast(param(1, dims.more[OFFSETS].dtype), I64)
            places[dims.sequence] = index_of(along) - begin
    moved = _OverValues(DimReplacement(places, len(first)), ragged, dims.sequence, along)
    inputs = [
        replace(b, spec=ragged[n][0]) if n in ragged else b for n, b in enumerate(md_hom.inputs)
    ]
    inputs += [BufferSpec(name, dims.more[name]) for name in more]
    view = (*first, *map(moved.access, md_hom.inp_view))
    results = md_hom.scalar.rewritten(moved.places).results
    if here is not None:
        results = _within(md_hom, results, here)
    types = tuple([inputs[access.buffer].spec.dtype for access in view])
    outputs, out_view = _outputs(md_hom, dims, along)
    rewritten = MDHom(
        _dims(md_hom, dims, along, is_range=is_range),
        ScalarFunction(types, results, md_hom.scalar.name),
        tuple(inputs),
        outputs,
        view,
        out_view,
        _epilogue(md_hom, moved, dims, is_range=is_range),
    )
    return rewritten, more


def ragged_axes(access: BufferAccess, dims: RaggedDims) -> tuple[int, int] | None:
    """The batch and sequence axes of an output; None if it keeps no sequences."""
    if dims.sequence not in access.dims:
        return None
    walks = [AffineIndex.of(name) for name in (dims.batch, dims.sequence)]
    batch, sequence = map(access.index.index, walks)
    return batch, sequence


def _check_order(md_hom: MDHom, dims: RaggedDims) -> None:
    """Raises TranslationError for unsupported combinations of batch and sequence dims."""
    combines = {dim.name: dim.combine for dim in md_hom.dims}
    batch, sequence = combines[dims.batch], combines[dims.sequence]
    for name, combine in ((dims.batch, batch), (dims.sequence, sequence)):
        if not isinstance(combine, Concat | Pointwise):
            raise TranslationError(
                f"dim {name!r} of a ragged operand is scanned",
                hint=f"scan r[i] by turns; {_PADDED}",
            )
    if isinstance(sequence, Concat) and not isinstance(batch, Concat):
        raise TranslationError(
            f"dim {dims.sequence!r} of a ragged operand remains without its batch"
            f" {dims.batch!r}: sequences differ in length",
            hint=f"keep both, or combine {dims.sequence!r}; {_PADDED}",
        )
    if not isinstance(sequence, Pointwise):
        return
    if isinstance(batch, Concat):
        if sequence.op.identity is None:
            raise TranslationError(
                f"operator {sequence.op!r} has no identity, and a sequence may be empty",
                hint="mdtensor.operator(identity=…) declares it",
            )
        return
    names = [dim.name for dim in md_hom.dims]
    in_turn = names.index(dims.batch) + 1 == names.index(dims.sequence)
    if batch != sequence or not (in_turn or sequence.op.commutative):
        raise TranslationError(
            f"dims {dims.batch!r} and {dims.sequence!r} of a ragged operand are combined by"
            f" {batch!r} and {sequence!r}",
            hint=f"reduce {dims.sequence!r} first, then the result along {dims.batch!r}",
        )


def _used(
    md_hom: MDHom, ragged: Mapping[int, tuple[TensorSpec, int, int]], dims: RaggedDims
) -> set[str]:
    """The subset of the two dims used other than to index ragged inputs."""
    dense = [access for access in md_hom.inp_view if access.buffer not in ragged]
    used = {name for access in dense for name in access.dims}
    used |= {name for result in md_hom.scalar.results for name in dims_in(result)}
    return used & {dims.batch, dims.sequence}


@dataclass(frozen=True, slots=True)
class _OverValues:
    """The rewrite rule for accesses: ragged inputs by values, others by `places`."""

    places: DimReplacement
    ragged: Mapping[int, tuple[TensorSpec, int, int]]
    sequence: str
    along: str

    def access(self, access: BufferAccess) -> BufferAccess:
        """Rewrite an access of any buffer."""
        is_ragged = access.buffer in self.ragged
        return self.places.access(self.walked(access) if is_ragged else access)

    def walked(self, access: BufferAccess) -> BufferAccess:
        """Rewrite an access of a ragged buffer to its values."""
        _, batch, sequence = self.ragged[access.buffer]
        if access.index[sequence] != AffineIndex.of(self.sequence):
            raise TranslationError(
                f"index {access.index[sequence]!r} of sequences is no dim of its own", hint=_PADDED
            )
        return _without(access, batch, self.sequence, self.along)


def _without(access: BufferAccess, batch: int, sequence: str, along: str) -> BufferAccess:
    """The access without the batch axis, and with `along` in place of the sequence dim."""
    walk = AffineIndex.of(sequence)
    kept = [index for axis, index in enumerate(access.index) if axis != batch]
    return BufferAccess(
        access.buffer, tuple([AffineIndex.of(along) if i == walk else i for i in kept])
    )


def _within(md_hom: MDHom, results: tuple[Expr, ...], here: Expr) -> tuple[Expr, ...]:
    """Mask results outside of a sequence's range by the operator's identity."""
    operators = md_hom.operators
    if len(operators) != 1:
        raise TranslationError(
            f"sequences are combined by one operator, not by {operators}",
            hint="reduce the result of one by the next",
        )
    nothing = zip(results, operators[0].identity or (), strict=True)
    return tuple([select(here, result, const(none, result.dtype)) for result, none in nothing])


def _dims(md_hom: MDHom, dims: RaggedDims, along: str, *, is_range: bool) -> tuple[Dim, ...]:
    """The dims with `along`, over all values, in place of the sequence dim."""
    return tuple(
        [
            Dim(along, dims.count, dim.combine) if dim.name == dims.sequence else dim
            for dim in md_hom.dims
            if is_range or dim.name != dims.batch
        ]
    )


def _outputs(
    md_hom: MDHom, dims: RaggedDims, along: str
) -> tuple[tuple[BufferSpec, ...], tuple[BufferAccess, ...]]:
    """The outputs and their view; ragged ones are stored as values."""
    outputs, view = [*md_hom.outputs], [*md_hom.out_view]
    for n, access in enumerate(md_hom.out_view):
        axes = ragged_axes(access, dims)
        if axes is None:
            continue
        batch, sequence = axes
        spec = outputs[access.buffer].spec
        outputs[access.buffer] = replace(
            outputs[access.buffer], spec=spec_of_values(spec, batch, sequence, dims.count)
        )
        view[n] = _without(access, batch, dims.sequence, along)
    return tuple(outputs), tuple(view)


def spec_of_values(dense: TensorSpec, batch: int, sequence: int, count: int) -> TensorSpec:
    """The spec of a ragged result's values, in C order, from the dense one."""
    shape = [count if axis == sequence else n for axis, n in enumerate(dense.shape)]
    del shape[batch]
    return TensorSpec.of(shape, dense.dtype)


def _epilogue(
    md_hom: MDHom, moved: _OverValues, dims: RaggedDims, *, is_range: bool
) -> Epilogue | None:
    epilogue = md_hom.epilogue
    if epilogue is None:
        return None
    view: list[BufferAccess] = []
    used = {name for result in epilogue.function.results for name in dims_in(result)}
    for access in epilogue.view:
        view.append(moved.walked(access) if access.buffer in moved.ragged else access)
        used |= set(view[-1].dims)
    if lost := sorted(used & ({dims.sequence} if is_range else {dims.batch, dims.sequence})):
        raise TranslationError(
            f"an epilogue of a ragged result takes its dims {', '.join(map(repr, lost))}",
            hint="apply it by a call on the result",
        )
    return Epilogue(epilogue.function, tuple(view))
