"""From expressions of slices to programs: an `md_hom` for each fused expression.

A reduction ends a fused expression: what follows is fused with the reduction as its epilogue where
it takes its elements one by one, and is an `md_hom` of its own otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mdtensor.specs import TensorSpec, kind_of
from mdtensor.translate.combine import CC, Pointwise, PrefixSum, named
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.program_builder import ProgramBuilder
from mdtensor.translate.scalar import Expr, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.stencils.slices import (
    Assembly,
    ElementRead,
    FusedValue,
    Leaf,
    ReducedValue,
    Source,
    composed,
    dim_of,
    fused_from_source,
)
from mdtensor.translate.trees import substitute
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec


def program_from_slices(fused: FusedValue, specs: Sequence[TensorSpec]) -> Program:
    """The program that computes a value in C order; `specs` are the leaves', by number.

    >>> from mdtensor.translate.stencils.slices import combined, fused_from_source, sliced
    >>> a = fused_from_source(Leaf(0, (10,), TensorSpec.of((10,)).dtype))
    >>> ends = [sliced(a, slice(None, -1)), sliced(a, slice(1, None))]
    >>> program = program_from_slices(combined(ends, lambda x, y: x * y), [TensorSpec.of((10,))])
    >>> print(program.steps[0].md_hom.describe())
    out_view(out: float32[9] (i0) -> (i0))
    md_hom[i0:9](f, (cc))
    inp_view(a0: float32[10] (i0) -> (i0), (i0+1))
    """
    chain = _Chain(specs)
    return chain.builder.program([chain.finish(fused)])


class _Chain:
    """Builds the program; shared sources are computed once."""

    def __init__(self, specs: Sequence[TensorSpec]) -> None:
        self.builder = ProgramBuilder(specs)
        # Compared one by one: sources with watched numbers have no hash.
        self.known: list[tuple[ReducedValue | Assembly, int]] = []

    def finish(self, fused: FusedValue) -> int:
        """Add the steps that compute a value; returns its slot."""
        source = fused.reads[0].source if len(fused.reads) == 1 else None
        if isinstance(source, Assembly) and fused == fused_from_source(source):
            return self._assemble(source)
        out = BufferSpec("out", TensorSpec.of(fused.shape, fused.dtype))
        carrier = _carrier(fused)
        if carrier is None:
            reads = _Reads(self)
            view = reads.view(fused)
            dims = tuple(Dim(dim_of(axis), extent, CC) for axis, extent in enumerate(fused.shape))
            written = BufferAccess.at(0, [dim.name for dim in dims])
            md_hom = MDHom(
                dims, _function(fused, stored=True), reads.buffers, (out,), view, (written,)
            )
            return self._add(md_hom, reads)
        return self._with_epilogue(fused, carrier, out)

    def slot(self, source: ReducedValue | Assembly) -> int:
        """The slot of a reduction or an assembly."""
        for known, slot in self.known:
            if known is source or known == source:
                return slot
        is_assembly = isinstance(source, Assembly)
        slot = self._assemble(source) if is_assembly else self._reduce(source)
        self.known.append((source, slot))
        return slot

    def _add(self, md_hom: MDHom, reads: _Reads) -> int:
        (slot,) = self.builder.add(md_hom, reads.inputs)
        return slot

    def _assemble(self, assembly: Assembly) -> int:
        out = BufferSpec("out", TensorSpec.of(assembly.shape, assembly.dtype))
        made: list[tuple[MDHom, _Reads]] = []
        for block in assembly.blocks:
            reads = _Reads(self)
            view = reads.view(block.of)
            dims = tuple(Dim(dim_of(axis), n, CC) for axis, n in enumerate(block.of.shape))
            written = (BufferAccess(0, block.places),)
            function = _function(block.of, stored=True)
            md_hom = MDHom(dims, function, reads.buffers, (out,), view, written)
            made.append((md_hom, reads))
        slot = self.builder.new(out.spec)
        for md_hom, reads in made:
            self.builder.add(md_hom, reads.inputs, (slot,))
        return slot

    def _reduce(self, reduction: ReducedValue) -> int:
        spec = TensorSpec.of(reduction.shape, reduction.dtype)
        written = BufferAccess.at(0, [dim_of(axis) for axis in reduction.kept])
        reads = _Reads(self)
        view = reads.view(reduction.of)
        out = (BufferSpec("out", spec),)
        dims, function = _dims(reduction), _function(reduction.of)
        md_hom = MDHom(dims, function, reads.buffers, out, view, (written,))
        return self._add(md_hom, reads)

    def _with_epilogue(self, fused: FusedValue, carrier: ElementRead, out: BufferSpec) -> int:
        """Add the reduction read by `carrier`, with the remaining expression as epilogue."""
        reduction = carrier.source
        assert isinstance(reduction, ReducedValue)
        reads = _Reads(self)
        view = reads.view(reduction.of)
        places = {
            index.dims[0]: AffineIndex.of(dim_of(axis))
            for axis, index in zip(reduction.kept, carrier.index, strict=True)
            if index.dims
        }
        axes = [places.get(dim_of(axis), AffineIndex()) for axis in range(len(fused.shape))]
        others = [read for read in fused.reads if read is not carrier]
        between = tuple(reads.access(read.source, composed(read.index, axes)) for read in others)
        order = [carrier, *others]
        types = tuple(read.source.dtype for read in order)
        renamed = [param(order.index(read), read.source.dtype) for read in fused.reads]
        result = _stored(substitute(fused.expr, renamed))
        epilogue = Epilogue(ScalarFunction(types, (result,), "g"), between)
        md_hom = MDHom(
            _dims(reduction),
            _function(reduction.of),
            reads.buffers,
            (out,),
            view,
            (BufferAccess(0, tuple(axes)),),
            None if result == param(0, types[0]) else epilogue,
        )
        return self._add(md_hom, reads)


class _Reads:
    """Collects the input buffers of one `md_hom`."""

    def __init__(self, chain: _Chain) -> None:
        self._chain = chain
        self._numbers: dict[int, int] = {}
        self._buffers: list[BufferSpec] = []

    @property
    def buffers(self) -> tuple[BufferSpec, ...]:
        return tuple(self._buffers)

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(self._numbers)

    def view(self, fused: FusedValue) -> tuple[BufferAccess, ...]:
        return tuple(self.access(read.source, read.index) for read in fused.reads)

    def access(self, source: Source, index: tuple[AffineIndex, ...]) -> BufferAccess:
        if isinstance(source, Leaf):
            slot, name = source.number, f"a{source.number}"
        else:
            slot = self._chain.slot(source)
            name = f"t{slot - self._chain.builder.operands}"
        if slot not in self._numbers:
            self._numbers[slot] = len(self._numbers)
            self._buffers.append(BufferSpec(name, self._chain.builder.specs[slot]))
        return BufferAccess(self._numbers[slot], index)


def _carrier(fused: FusedValue) -> ElementRead | None:
    """The reduction read that the rest can be an epilogue of; None without one."""
    for read in fused.reads:
        if not isinstance(read.source, ReducedValue):
            continue
        extents = {dim_of(axis): extent for axis, extent in enumerate(fused.shape)}
        plain = all(
            index == AffineIndex.of(*index.dims)
            and math.prod(extents[dim] for dim in index.dims) == extent
            for index, extent in zip(read.index, read.source.shape, strict=True)
        )
        used = [dim for index in read.index for dim in index.dims]
        once = len(set(used)) == len(used)
        same = sum(other.source == read.source for other in fused.reads) == 1
        whole = math.prod(fused.shape) == math.prod(read.source.shape)
        if plain and once and same and whole:
            return read
    return None


def _dims(reduction: ReducedValue) -> tuple[Dim, ...]:
    op = named(reduction.op, [reduction.dtype])
    combine = PrefixSum(op) if reduction.scans else Pointwise(op)
    return tuple(
        Dim(dim_of(axis), extent, combine if axis in reduction.axes else CC)
        for axis, extent in enumerate(reduction.of.shape)
    )


def _function(fused: FusedValue, *, stored: bool = False) -> ScalarFunction:
    """The scalar function of a value, for combination or to be `stored`."""
    types = tuple(read.source.dtype for read in fused.reads)
    return ScalarFunction(types, (_stored(fused.expr) if stored else fused.expr,))


def _stored(expr: Expr) -> Expr:
    """Strip a cast between floats that storing implies."""
    narrows = expr.op == "cast" and kind_of(expr.dtype) == kind_of(expr.args[0].dtype) == "f"
    return expr.args[0] if narrows else expr
