"""Parts of an `md_hom`: the computation restricted to a box of its index space.

A homomorphism says how parts are put together again: `h(a ++ b) = h(a) ⊗ h(b)` (002, section
4.2.2, Definition 3), and its views say which elements a part reads and writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Operator
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.scalar import Expr, index_of, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import all_rewritten, dims_in, evaluate, params_in
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex

Range = tuple[int, int]
Box = tuple[slice, ...]

# Points of a computed index that are evaluated to learn which elements a part reads.
_MOST_POINTS = 1 << 20
_INT64 = np.dtype(np.int64)
_MOST_PARTS = 1 << 12


@dataclass(frozen=True, slots=True)
class MDHomPart:
    """A part: its own `md_hom`, and the boxes of the whole arrays that it reads and writes.

    Behind the whole's inputs come arrays without axes, one for each of `begins`, with that value:
    the place of the part along dims whose indices functions take. So parts of the same extents
    are one `md_hom`, and share their kernel.
    """

    md_hom: MDHom
    reads: tuple[Box, ...]
    writes: tuple[Box, ...]
    begins: tuple[int, ...]


# Each step of a stencil has the parts of the one before.
_parts = Bounded[tuple[MDHom, tuple[tuple[str, Range], ...]], MDHomPart](_MOST_PARTS)


def part_of(md_hom: MDHom, ranges: Mapping[str, Range]) -> MDHomPart:
    """Restrict an `md_hom` to half-open ranges of its dims.

    Dims without `ranges` are whole. Raises TranslationError where its results do not lie in a box.

    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> sums = md_hom_from_einsum("ij->i", [TensorSpec.of((4, 6))])
    >>> part = part_of(sums, {"i": (2, 4), "j": (0, 3)})
    >>> part.md_hom, part.reads, part.writes
    (md_hom[i:2, j:3](id, (cc, pw(add))), ((slice(2, 4, 1), slice(0, 3, 1)),), ((slice(2, 4, 1),),))
    """
    every = {dim.name: ranges.get(dim.name, (0, dim.extent)) for dim in md_hom.dims}
    return _parts.made((md_hom, tuple(every.items())), lambda: _made(md_hom, every))


def _made(md_hom: MDHom, ranges: Mapping[str, Range]) -> MDHomPart:
    moved = _Moved(md_hom, ranges)
    reads = tuple(moved.read(number) for number in range(len(md_hom.inputs)))
    inputs = tuple(_part_of(b, box) for b, box in zip(md_hom.inputs, reads, strict=True))
    begun = moved.begun
    first = len(inputs)
    inputs += tuple(BufferSpec(f"begin_{name}", TensorSpec.of((), _INT64)) for name in begun)
    begins = tuple(BufferAccess(first + n, ()) for n in range(len(begun)))
    written = [moved.written(access) for access in md_hom.out_view]
    if len({access.buffer for access in md_hom.out_view}) != len(md_hom.outputs):
        raise TranslationError("several results of one array are not computed in parts")
    boxes = {a.buffer: box for a, (_, box) in zip(md_hom.out_view, written, strict=True)}
    writes = tuple(boxes[number] for number in range(len(md_hom.outputs)))
    part = MDHom(
        tuple(replace(d, extent=ranges[d.name][1] - ranges[d.name][0]) for d in md_hom.dims),
        ScalarFunction(
            (*(_INT64,) * len(begun), *md_hom.scalar.params),
            moved.rewritten(md_hom.scalar.results, shift=len(begun), begin=0),
            md_hom.scalar.name,
        ),
        inputs,
        tuple(_part_of(b, box) for b, box in zip(md_hom.outputs, writes, strict=True)),
        (*begins, *(moved.access(access, reads) for access in md_hom.inp_view)),
        tuple(access for access, _ in written),
        moved.epilogue(reads, begins),
    )
    return MDHomPart(part, reads, writes, tuple(ranges[name][0] for name in begun))


def combination(operator: Operator, extents: Sequence[int], carried: int | None = None) -> MDHom:
    """The operator applied to two tuples of arrays, elementwise, as an `md_hom`.

    The left arrays are of extent 1 along the axis that is `carried` over, if one is.

    >>> from mdtensor.translate.combine import named
    >>> combination(named("max", ["f4"]), (3,))
    md_hom[d0:3](max, (cc))
    """
    names = [f"d{axis}" for axis in range(len(extents))]
    before = [1 if axis == carried else extent for axis, extent in enumerate(extents)]
    left = tuple(
        AffineIndex() if axis == carried else AffineIndex.of(name)
        for axis, name in enumerate(names)
    )
    width = len(operator.dtypes)
    sides = [(f"{side}{n}", n) for side in ("lhs", "rhs") for n in range(width)]
    shapes = [before] * width + [list(extents)] * width
    return MDHom(
        tuple(Dim(name, extent, CC) for name, extent in zip(names, extents, strict=True)),
        ScalarFunction(operator.dtypes * 2, operator.results, operator.name),
        tuple(
            BufferSpec(name, TensorSpec.of(shape, operator.dtypes[n]))
            for (name, n), shape in zip(sides, shapes, strict=True)
        ),
        tuple(
            BufferSpec(f"out{n}", TensorSpec.of(extents, dtype))
            for n, dtype in enumerate(operator.dtypes)
        ),
        (
            *(BufferAccess(n, left) for n in range(width)),
            *(BufferAccess.at(width + n, names) for n in range(width)),
        ),
        tuple(BufferAccess.at(n, names) for n in range(width)),
    )


@dataclass(frozen=True, slots=True)
class _Moved:
    """Views and functions of a whole, rebased to the begin of a part."""

    md_hom: MDHom
    ranges: Mapping[str, Range]

    @property
    def begun(self) -> tuple[str, ...]:
        """The dims whose indices functions take and whose range is partial."""
        md_hom = self.md_hom
        taken = list(md_hom.scalar.results)
        if md_hom.epilogue is not None:
            taken += md_hom.epilogue.function.results
        taken += [i.expr for a in md_hom.inp_view for i in a.index if isinstance(i, ComputedIndex)]
        used = {name for expr in taken for name in dims_in(expr)}
        return tuple(
            dim.name
            for dim in md_hom.dims
            if dim.name in used and self.ranges[dim.name] != (0, dim.extent)
        )

    def read(self, number: int) -> Box:
        """The box of an input that the part reads."""
        between = () if self.md_hom.epilogue is None else self.md_hom.epilogue.view
        accesses = [a for a in (*self.md_hom.inp_view, *between) if a.buffer == number]
        shape = self.md_hom.inputs[number].spec.shape
        if not accesses:
            return tuple(slice(0, min(1, extent), 1) for extent in shape)
        spans = [
            [self._span(index, extent) for index, extent in zip(access.index, shape, strict=True)]
            for access in accesses
        ]
        return tuple(
            slice(min(low for low, _ in axis), max(high for _, high in axis) + 1, 1)
            for axis in zip(*spans, strict=True)
        )

    def _span(self, index: AffineIndex | ComputedIndex, extent: int) -> Range:
        """The smallest and the largest value of an index on the part."""
        if isinstance(index, AffineIndex):
            extents = {name: high - low for name, (low, high) in self.ranges.items()}
            low, high = index.bounds(extents)
            return low + self._shift(index), high + self._shift(index)
        return self._computed(index, extent)[0]

    def _shift(self, index: AffineIndex) -> int:
        return sum(c * self.ranges[dim][0] for dim, c in index.coefficients)

    def _computed(self, index: ComputedIndex, extent: int) -> tuple[Range, int]:
        """The span of a computed index, and what to add to negative values.

        The whole axis, where values depend on elements, or are moved to its ends.
        """
        names = index.dims
        points = [self.ranges[name][1] - self.ranges[name][0] for name in names]
        if params_in(index.expr) or np.prod(points, dtype=object) > _MOST_POINTS:
            return (0, extent - 1), 0
        values: Any = np.asarray(evaluate(index.expr, [], self._indices(names)))
        low, high = (int(values.min()), int(values.max())) if values.size else (0, extent - 1)
        if 0 <= low <= high < extent:
            return (low, high), 0
        if -extent <= low <= high < 0:
            return (low + extent, high + extent), extent
        return (0, extent - 1), 0

    def _indices(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        rank = len(names)
        return {
            name: np.arange(*self.ranges[name]).reshape(
                [-1 if n == axis else 1 for n in range(rank)]
            )
            for axis, name in enumerate(names)
        }

    def access(self, access: BufferAccess, reads: Sequence[Box]) -> BufferAccess:
        """Rebase an input access to the part's box."""
        box = reads[access.buffer]
        shape = self.md_hom.inputs[access.buffer].spec.shape
        axes = zip(access.index, box, shape, strict=True)
        return BufferAccess(access.buffer, tuple(self._index(*each) for each in axes))

    def _index(
        self, index: AffineIndex | ComputedIndex, held: slice, extent: int
    ) -> AffineIndex | ComputedIndex:
        if isinstance(index, AffineIndex):
            return replace(index, offset=index.offset + self._shift(index) - held.start)
        [expr] = self.rewritten([index.expr], shift=len(self.begun), begin=0)
        by = self._computed(index, extent)[1] - held.start
        return ComputedIndex(expr + by if by else expr)

    def rewritten(self, results: Sequence[Expr], *, shift: int, begin: int) -> tuple[Expr, ...]:
        """Shift parameters by `shift`, and rebase indices to the part's begins.

        The places of the part are parameters from `begin` on.
        """
        places = {name: begin + n for n, name in enumerate(self.begun)}

        def moved(node: Expr) -> Expr:
            if node.op == "param" and shift:
                return param(node.number + shift, node.dtype)
            if node.op == "index" and node.value in places:
                return index_of(str(node.value)) + param(places[str(node.value)], _INT64)
            return node

        return all_rewritten(results, moved)

    def epilogue(self, reads: Sequence[Box], begins: Sequence[BufferAccess]) -> Epilogue | None:
        """The epilogue on the part."""
        given = self.md_hom.epilogue
        if given is None:
            return None
        count = len(given.function.params)
        results = self.rewritten(given.function.results, shift=0, begin=count)
        used = {dim for result in given.function.results for dim in dims_in(result)}
        more = tuple(begins) if used else ()
        if not more:
            results = given.function.results
        return Epilogue(
            ScalarFunction(
                (*given.function.params, *(_INT64,) * len(more)), results, given.function.name
            ),
            (*(self.access(access, reads) for access in given.view), *more),
        )

    def written(self, access: BufferAccess) -> tuple[BufferAccess, Box]:
        """Rebase an output access to the part's own array, and the box that it fills."""
        axes = [self._written(index) for index in access.index if isinstance(index, AffineIndex)]
        names = [dim for index, _ in axes for dim in index.dims]
        if len(set(names)) != len(names):
            raise TranslationError(f"results at {access!r} are no box, and not computed in parts")
        return BufferAccess(access.buffer, tuple(i for i, _ in axes)), tuple(box for _, box in axes)

    def _written(self, index: AffineIndex) -> tuple[AffineIndex, slice]:
        start = index.offset + self._shift(index)
        for dim, step in index.coefficients:
            if step and not self._extent(dim):
                return AffineIndex.of(dim), slice(start, start, 1)
        moving = [(d, c) for d, c in index.coefficients if c and self._extent(d) > 1]
        if not moving:
            return AffineIndex(), slice(start, start + 1, 1)
        if len(moving) > 1:
            raise TranslationError(
                f"results at {index!r} are no box, and not computed in parts",
                hint=f"cut {moving[0][0]!r} or {moving[1][0]!r} into single indices",
            )
        [(dim, step)] = moving
        last = self._extent(dim) - 1
        if step > 0:
            return AffineIndex.of(dim), slice(start, start + step * last + 1, step)
        return AffineIndex(((dim, -1),), last), slice(start + step * last, start + 1, -step)

    def _extent(self, dim: str) -> int:
        low, high = self.ranges[dim]
        return high - low


def _part_of(buffer: BufferSpec, box: Box) -> BufferSpec:
    shape = [len(range(axis.start, axis.stop, axis.step)) for axis in box]
    return replace(buffer, spec=TensorSpec.of(shape, buffer.spec.dtype))
