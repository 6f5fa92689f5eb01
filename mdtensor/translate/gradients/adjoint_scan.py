"""The adjoint of a scan by any operator: a scan of affine functions in reverse.

Results are y[j] = y[j-1] ⊗ x[j]. A change of y[j] reaches all later results, so its cotangent is
r[j] = c[j] + T[j] r[j+1], where c are the cotangents that are given, and T[j] are the derivatives
of y[j] ⊗ x[j+1] by y[j], transposed. Functions r → c + T r compose to such functions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec, kind_of
from mdtensor.translate.combine import CC, Operator, PrefixSum, named
from mdtensor.translate.gradients.partial_derivatives import cotangents_of
from mdtensor.translate.gradients.transposed_access import AccumulatedTerm, transposed
from mdtensor.translate.md_hom import Dim
from mdtensor.translate.md_hom_program import Step
from mdtensor.translate.program_builder import ProgramBuilder
from mdtensor.translate.rewrites.scans import reversed_along
from mdtensor.translate.scalar import Expr, apply, cast, const, index_of, param, select
from mdtensor.translate.scalar_function import ScalarFunction, identity_function
from mdtensor.translate.views import AffineIndex, BufferAccess, ComputedIndex

Read = tuple[int, BufferAccess]


@dataclass(frozen=True, slots=True)
class _Scan:
    """A scan, with its element, result and cotangent slots; `real` are the float positions."""

    dims: tuple[Dim, ...]
    dim: Dim
    op: Operator
    elements: tuple[Read, ...]
    results: tuple[Read, ...]
    cotangents: Mapping[int, Read]
    real: tuple[int, ...]

    @property
    def extents(self) -> dict[str, int]:
        """Extent of every dim by name."""
        return {dim.name: dim.extent for dim in self.dims}

    @property
    def everywhere(self) -> BufferAccess:
        """The access with an axis for each dim."""
        return BufferAccess.at(0, self.extents)

    def moved(self, read: Read, by: int) -> Read:
        """A read shifted by `by` along the scanned dim, clamped to its ends."""
        slot, access = read
        last = self.dim.extent - 1
        index = index_of(self.dim.name)
        near = apply("min", apply("max", index + by, 0), last)
        axes: list[AffineIndex | ComputedIndex] = []
        for axis in access.index:
            assert isinstance(axis, AffineIndex)
            if self.dim.name not in axis.dims:
                axes.append(axis)
                continue
            place: Expr = const(axis.offset, np.int64)
            for name, coefficient in axis.coefficients:
                at = near if name == self.dim.name else index_of(name)
                place = place + at * coefficient
            axes.append(ComputedIndex(place))
        return slot, BufferAccess(access.buffer, tuple(axes))

    def derivatives(self, first: int) -> dict[tuple[int, int], Expr]:
        """Partial derivatives of result k by parameter first + n, keyed by (n, k)."""
        found: dict[tuple[int, int], Expr] = {}
        for k in self.real:
            one = const(1, self.op.dtypes[k])
            wanted = {first + n for n in self.real}
            parts = cotangents_of([self.op.results[k]], [one], wanted)
            found |= {(position - first, k): part for position, part in parts.items()}
        return found


def adjoint_scan(
    builder: ProgramBuilder, part: Step, given: Mapping[int, int], wanted: Collection[int]
) -> list[tuple[int, int]]:
    """Pairs of an input slot of a scan and a slot with its cotangent."""
    md_hom = part.md_hom
    [dim] = [dim for dim in md_hom.dims if isinstance(dim.combine, PrefixSum)]
    [op] = md_hom.operators
    results = tuple((part.results[access.buffer], access) for access in md_hom.out_view)
    real = tuple(n for n, dtype in enumerate(op.dtypes) if kind_of(dtype) == "f")
    cotangents = {n: (given[results[n][0]], results[n][1]) for n in real if results[n][0] in given}
    if not cotangents:
        return []
    scan = _Scan(
        md_hom.dims,
        dim,
        op,
        tuple((part.operands[access.buffer], access) for access in md_hom.inp_view),
        results,
        cotangents,
        real,
    )
    terms = _of_sums(builder, scan) if op.name == "add" else _of_any(builder, scan)
    return [
        (slot, transposed(builder, term, access, builder.specs[slot]))
        for n, term in terms.items()
        for slot, access in (scan.elements[n],)
        if slot in wanted
    ]


def _of_sums(builder: ProgramBuilder, scan: _Scan) -> dict[int, AccumulatedTerm]:
    """The adjoint of a cumulative sum: a reversed cumulative sum."""
    terms: dict[int, AccumulatedTerm] = {}
    for n, read in scan.cotangents.items():
        dtype = builder.specs[read[0]].dtype
        add = named("add", [dtype])
        total = builder.new(_spec(scan, dtype))
        _reversed(builder, scan, add, [read], [total])
        terms[n] = AccumulatedTerm(scan.extents, param(0, dtype), ((total, scan.everywhere),), (0,))
    return terms


def _spec(scan: _Scan, dtype: np.dtype) -> TensorSpec:
    return TensorSpec.of(tuple(scan.extents.values()), dtype)


def _reversed(
    builder: ProgramBuilder, scan: _Scan, op: Operator, reads: Sequence[Read], totals: Sequence[int]
) -> None:
    """Add a step that scans `reads` from the last element on."""
    dims = [replace(d, combine=PrefixSum(op)) if d is scan.dim else d for d in scan.dims]
    types = [builder.specs[slot].dtype for slot, _ in reads]
    builder.apply(
        dims, identity_function(types), reads, [(total, scan.everywhere) for total in totals]
    )
    last = builder.steps.pop()
    reverse = reversed_along(last.md_hom, [scan.dim.name])
    builder.steps.append(replace(last, md_hom=reverse))


def _of_any(builder: ProgramBuilder, scan: _Scan) -> dict[int, AccumulatedTerm]:
    """The adjoint of a general scan: a reversed scan of affine functions, then derivatives."""
    totals = _cotangents_of_all(builder, scan)
    width = len(scan.op.dtypes)
    before = tuple(scan.moved(read, -1) for read in scan.results)
    reads = (*before, *scan.elements, *((slot, scan.everywhere) for slot in totals))
    derivatives = scan.derivatives(width)
    is_first = apply("eq", index_of(scan.dim.name), 0)
    terms: dict[int, AccumulatedTerm] = {}
    linear = tuple(range(2 * width, len(reads)))
    for position, n in enumerate(scan.real):
        dtype = scan.op.dtypes[n]
        alone = param(2 * width + position, dtype)
        value: Expr = const(0, dtype)
        for other, k in enumerate(scan.real):
            if (n, k) in derivatives:
                total = param(2 * width + other, scan.op.dtypes[k])
                value = value + derivatives[n, k] * total
        value = select(is_first, alone, cast(value, dtype))
        terms[n] = AccumulatedTerm(scan.extents, value, reads, linear)
    return terms


def _cotangents_of_all(builder: ProgramBuilder, scan: _Scan) -> list[int]:
    """Slots with the module's r, the cotangents of all results, one per real position."""
    count = len(scan.real)
    behind = tuple(scan.moved(read, 1) for read in scan.elements)
    reads = [*scan.results, *behind]
    places: dict[int, int] = {}
    for n, read in scan.cotangents.items():
        places[n] = len(reads)
        reads.append(read)
    derivatives = scan.derivatives(0)
    is_last = apply("eq", index_of(scan.dim.name), scan.dim.extent - 1)
    values: list[Expr] = []
    for n in scan.real:
        for k in scan.real:
            zero = const(0, scan.op.dtypes[n])
            found = derivatives.get((n, k))
            values.append(zero if found is None else select(is_last, zero, cast(found, zero.dtype)))
    for n in scan.real:
        dtype = scan.op.dtypes[n]
        values.append(param(places[n], dtype) if n in places else const(0, dtype))
    types = tuple(builder.specs[slot].dtype for slot, _ in reads)
    made = [builder.new(_spec(scan, value.dtype)) for value in values]
    at = scan.everywhere
    builder.apply(
        [replace(dim, combine=CC) for dim in scan.dims],
        ScalarFunction(types, tuple(values), "jacobian"),
        reads,
        [(slot, at) for slot in made],
    )
    op = _composition([scan.op.dtypes[n] for n in scan.real])
    totals = [builder.new(builder.specs[slot]) for slot in made]
    _reversed(builder, scan, op, [(slot, at) for slot in made], totals)

    return totals[count * count :]


def _composition(types: Sequence[np.dtype]) -> Operator:
    """The operator that composes affine functions (matrix, vector); the left is applied last."""
    count = len(types)
    entries = [types[n] for n in range(count) for _ in range(count)] + list(types)
    size = len(entries)
    lhs = [param(n, dtype) for n, dtype in enumerate(entries)]
    rhs = [param(size + n, dtype) for n, dtype in enumerate(entries)]

    def row_times(n: int, column: Sequence[Expr]) -> Expr:
        total = lhs[n * count] * column[0]
        for k in range(1, count):
            total = total + lhs[n * count + k] * column[k]
        return cast(total, types[n])

    matrix = [
        row_times(n, [rhs[m * count + k] for m in range(count)])
        for n in range(count)
        for k in range(count)
    ]
    constants = [lhs[count * count + n] + row_times(n, rhs[count * count :]) for n in range(count)]
    identity = [float(n == k) for n in range(count) for k in range(count)] + [0.0] * count
    return Operator(
        tuple(entries), (*matrix, *constants), tuple(identity), commutative=False, name="compose"
    )
