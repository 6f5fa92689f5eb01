"""Row-blocking of chains of `md_hom`s: dims along which a whole chain can be tiled.

An `md_hom` that concatenates along a dim computes each index of it alone (002, section 4.2.2,
Definition 4). Where all of a chain do, and hand results on along that dim at the same index, the
chain itself concatenates along it: a block of rows goes through all of them, and what lies between
is there for that block only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import Concat
from mdtensor.translate.md_hom import Epilogue, MDHom
from mdtensor.translate.md_hom_program import Step
from mdtensor.translate.rewrites.overwritten import overwritten
from mdtensor.translate.trees import dims_in
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex


@dataclass(frozen=True, slots=True)
class RowDim:
    """A dim shared by all `md_hom`s of a chain: its extent, and its name in each.

    `axes` has the axis along which it lies in each slot that is handed on.
    """

    extent: int
    dims: tuple[str, ...]
    axes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ChainStage:
    """One `md_hom` of a chain on a block of rows.

    Its arrays, inputs first, are parts of those in `slots`; in `strides`, for each array, are
    elements between where a block begins and where one does that is a row further along.
    """

    md_hom: MDHom
    slots: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def results(self) -> tuple[int, ...]:
        """The slots of the outputs."""
        return self.slots[len(self.md_hom.inputs) :]

    @property
    def overwritten(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a result's and an input's slot that may share memory."""
        pairs = [(self.results[n], self.slots[other]) for n, other in overwritten(self.md_hom)]
        return tuple([pair for pair in pairs if self.slots.count(pair[1]) == 1])


def shared_rows(chain: Sequence[Step]) -> tuple[RowDim, ...]:
    """The dims along which the whole chain can be tiled, in the order of its last result.

    >>> from mdtensor.translate.combine import CC, Pointwise, named
    >>> from mdtensor.translate.md_hom import Dim
    >>> from mdtensor.translate.scalar_function import identity_function
    >>> from typing import NamedTuple
    >>> class Step(NamedTuple):
    ...     md_hom: MDHom
    ...     operands: tuple[int, ...]
    ...     results: tuple[int, ...]
    >>> def reduction(name, source, extents, *, of):
    ...     dims = tuple(
    ...         Dim(d, n, Pointwise(named(name, ["f4"])) if d == of else CC)
    ...         for d, n in extents.items()
    ...     )
    ...     kept = [d for d in extents if d != of]
    ...     spec = TensorSpec.of([extents[d] for d in extents])
    ...     out = TensorSpec.of([extents[d] for d in kept])
    ...     return MDHom(
    ...         dims, identity_function([spec.dtype]),
    ...         (BufferSpec("x", spec),), (BufferSpec("y", out),),
    ...         (BufferAccess.at(0, extents),), (BufferAccess.at(0, kept),),
    ...     )
    >>> sums = Step(reduction("add", 0, {"i": 4, "j": 3, "k": 5}, of="k"), (0,), (2,))
    >>> largest = Step(reduction("max", 2, {"p": 4, "q": 3}, of="q"), (2,), (1,))
    >>> shared_rows([sums, largest])
    (RowDim(extent=4, dims=('i', 'p'), axes=((2, 0),)),)
    """
    handed = _handed_on(chain)
    if not chain or not handed:
        return ()
    rows: list[RowDim] = []
    last = chain[-1].md_hom
    written = [dim for access in last.out_view for dim in access.dims]
    for name in dict.fromkeys((*written, *(dim.name for dim in last.kept))):
        row = _row_through(chain, handed, name)
        if row is not None:
            rows.append(row)
    return tuple(rows)


def rows_within(chain: Sequence[Step], own: Collection[int]) -> tuple[RowDim, ...]:
    """The shared rows of a chain, if all of its private slots (`own`) have them; else ().

    No rows are shared without private slots.
    """
    rows = shared_rows(chain) if own else ()
    return rows if rows and {*own} <= dict(rows[0].axes).keys() else ()


def pieces(
    chain: Sequence[Step],
    rows: Sequence[RowDim],
    lengths: Sequence[int],
    own: Sequence[int],
    *,
    rows_inside: bool = False,
) -> tuple[ChainStage, ...]:
    """The stages of a chain on a block of `lengths` rows; private slots are compact.

    Elements of one row are neighbours in those, or, with `rows_inside`, those of all rows.
    """
    shapes: dict[int, TensorSpec] = {}
    for link in chain:
        for slot, buffer in zip(link.results, link.md_hom.outputs, strict=True):
            if slot in own:
                shapes[slot] = _compact(slot, buffer.spec, rows, lengths, rows_inside=rows_inside)
    return tuple(
        _Piecewise(link, [row.dims[n] for row in rows], lengths, shapes).piece()
        for n, link in enumerate(chain)
    )


Uses = Mapping[int, Sequence[tuple[int, BufferAccess]]]


def _handed_on(chain: Sequence[Step]) -> Uses:
    """The accesses of slots written and read within the chain, with the link's number."""
    read = {slot for link in chain for slot in link.operands}
    handed = {slot for link in chain for slot in link.results} & read
    uses: dict[int, list[tuple[int, BufferAccess]]] = {slot: [] for slot in sorted(handed)}
    for number, link in enumerate(chain):
        for access in link.md_hom.out_view:
            if (slot := link.results[access.buffer]) in uses:
                uses[slot].append((number, access))
        for access in _reads(link.md_hom):
            if (slot := link.operands[access.buffer]) in uses:
                uses[slot].append((number, access))
    return uses


def _reads(md_hom: MDHom) -> tuple[BufferAccess, ...]:
    between = () if md_hom.epilogue is None else md_hom.epilogue.view
    return (*md_hom.inp_view, *between)


def _row_through(chain: Sequence[Step], handed: Uses, last: str) -> RowDim | None:
    """The shared row that a dim of the last `md_hom` extends to; None if it does not."""
    names: dict[int, str] = {len(chain) - 1: last}
    axes: dict[int, int] = {}
    waiting = True
    while waiting:
        waiting = False
        for slot, uses in handed.items():
            if slot in axes:
                continue
            found = [axis for n, a in uses if n in names for axis in _axes_of(a, names[n])]
            if not found:
                continue
            axes[slot], waiting = found[0], True
            for number, access in uses:
                dim = _plain(access, found[0])
                if dim is None or names.setdefault(number, dim) != dim:
                    return None
    extents = {link.md_hom.extents.get(names.get(n, "")) for n, link in enumerate(chain)}
    (extent, *others) = extents
    if others or extent is None or extent < 2 or axes.keys() != handed.keys():
        return None
    if not all(_is_cut(link.md_hom, names[n]) for n, link in enumerate(chain)):
        return None
    for slot, uses in handed.items():
        if any(_axes_of(access, names[n]) != [axes[slot]] for n, access in uses):
            return None
    return RowDim(extent, tuple(names[n] for n in range(len(chain))), tuple(axes.items()))


def _axes_of(access: BufferAccess, dim: str) -> list[int]:
    """The axes whose index depends on a dim."""
    return [axis for axis, index in enumerate(access.index) if dim in index.dims]


def _plain(access: BufferAccess, axis: int) -> str | None:
    """The dim that is itself the index of an axis; None for other indices."""
    index = access.index[axis]
    if not isinstance(index, AffineIndex) or len(index.dims) != 1:
        return None
    return index.dims[0] if index == AffineIndex.of(index.dims[0]) else None


def _is_cut(md_hom: MDHom, name: str) -> bool:
    """Whether a dim is concatenated, and no function takes its index."""
    if not any(d.name == name and isinstance(d.combine, Concat) for d in md_hom.dims):
        return False
    written = {access.buffer: _step(access, md_hom, name) for access in md_hom.out_view}
    if any(_step(access, md_hom, name) != written[access.buffer] for access in md_hom.out_view):
        return False
    functions = [md_hom.scalar, *([md_hom.epilogue.function] if md_hom.epilogue else [])]
    taken = [result for function in functions for result in function.results]
    taken += [i.expr for a in _reads(md_hom) for i in a.index if isinstance(i, ComputedIndex)]
    return all(name not in dims_in(expr) for expr in taken)


def _step(access: BufferAccess, md_hom: MDHom, name: str) -> int:
    """The distance in elements between results of adjacent indices of a dim."""
    return sum(_along(access, md_hom.outputs[access.buffer], name))


def _compact(
    slot: int,
    spec: TensorSpec,
    rows: Sequence[RowDim],
    lengths: Sequence[int],
    *,
    rows_inside: bool,
) -> TensorSpec:
    shape = list(spec.shape)
    along = [dict(row.axes)[slot] for row in rows]
    for axis, length in zip(along, lengths, strict=True):
        shape[axis] = length
    if not rows_inside:
        return TensorSpec.of(shape, spec.dtype)
    strides = list(shape)
    step = 1
    for axis in (*reversed(along), *(a for a in reversed(range(len(shape))) if a not in along)):
        strides[axis] = step
        step *= shape[axis]
    return TensorSpec.of(shape, spec.dtype, strides)


@dataclass(frozen=True, slots=True)
class _Piecewise:
    """One `md_hom` with the names of its rows, and the compact specs of private slots."""

    link: Step
    names: Sequence[str]
    lengths: Sequence[int]
    compact: Mapping[int, TensorSpec]

    def piece(self) -> ChainStage:
        md_hom = self.link.md_hom
        inputs: dict[tuple[int, tuple[int, ...]], int] = {}
        view = [self._numbered(access, inputs) for access in md_hom.inp_view]
        epilogue = md_hom.epilogue
        if epilogue is not None:
            between = [self._numbered(access, inputs) for access in epilogue.view]
            epilogue = Epilogue(epilogue.function, tuple(between))
        lengths = dict(zip(self.names, self.lengths, strict=True))
        outputs = {a.buffer: self._strides(a, self.link.results, md_hom) for a in md_hom.out_view}
        part = MDHom(
            tuple(replace(d, extent=lengths.get(d.name, d.extent)) for d in md_hom.dims),
            md_hom.scalar,
            tuple(self._buffer(md_hom.inputs[n], self.link.operands[n]) for n, _ in inputs),
            tuple(map(self._buffer, md_hom.outputs, self.link.results)),
            tuple(view),
            md_hom.out_view,
            epilogue,
        )
        slots = (*(self.link.operands[n] for n, _ in inputs), *self.link.results)
        steps = (*(strides for _, strides in inputs), *(outputs[n] for n in sorted(outputs)))
        return ChainStage(part, slots, steps)

    def _numbered(
        self, access: BufferAccess, inputs: dict[tuple[int, tuple[int, ...]], int]
    ) -> BufferAccess:
        """The access to an input that is numbered by buffer and block strides."""
        strides = self._strides(access, self.link.operands, self.link.md_hom)
        number = inputs.setdefault((access.buffer, strides), len(inputs))
        return replace(access, buffer=number)

    def _strides(
        self, access: BufferAccess, slots: Sequence[int], md_hom: MDHom
    ) -> tuple[int, ...]:
        if slots[access.buffer] in self.compact:
            return (0,) * len(self.names)
        is_read = slots is self.link.operands
        buffer = (md_hom.inputs if is_read else md_hom.outputs)[access.buffer]
        return tuple(sum(_along(access, buffer, name)) for name in self.names)

    def _buffer(self, buffer: BufferSpec, slot: int) -> BufferSpec:
        return replace(buffer, spec=self.compact.get(slot, buffer.spec))


def _along(access: BufferAccess, buffer: BufferSpec, name: str) -> Iterator[int]:
    """The stride of a dim's index in the address, for each axis."""
    for index, stride in zip(access.index, buffer.spec.strides, strict=True):
        if isinstance(index, AffineIndex):
            yield sum(stride * factor for dim, factor in index.coefficients if dim == name)
