"""From assignments to steps: arrays for versions of buffers, and copies between them.

A step must not write to what it reads, so an assignment that changes an array which is still read
writes to a new one; elements that it leaves alone are copied before.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC
from mdtensor.translate.loop_nests.source_loop_nest import Loops, Nest, Reduced, SourceRead
from mdtensor.translate.loops.assignments import Assignment
from mdtensor.translate.loops.fusion import Versions, version_of
from mdtensor.translate.loops.loop_program import LoopStep
from mdtensor.translate.loops.md_hom_from_assignment import (
    covers,
    is_computed,
    md_hom_from_assignment,
)
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.scalar import Expr, const, index_of
from mdtensor.translate.scalar_function import identity_function
from mdtensor.translate.trees import params_in, substitute
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec

APART = 1 << 26
"""Elements, at most, of arrays between steps of which ranges from data leave some out."""


def without_dead(
    nest: Nest,
    listed: Sequence[Assignment],
    specs: Mapping[str, TensorSpec],
    inner: Collection[str],
) -> list[Assignment]:
    """Dead-store elimination: drop assignments that nobody reads before they are overwritten.

    Buffers in `inner` are gone when the function ends.
    """
    found = list(listed)
    for position in reversed(range(len(found))):
        buffer = found[position].buffer
        version = sum(a.buffer == buffer for a in found[: position + 1])
        after = next((a for a in found[position + 1 :] if a.buffer == buffer), None)
        is_last = after is None and buffer not in inner
        is_partly_left = after is not None and not _covers(after, specs)
        if not is_last and not is_partly_left and not _is_read(nest, found, buffer, version):
            del found[position]
    return found


def _covers(assignment: Assignment, specs: Mapping[str, TensorSpec]) -> bool:
    """Whether an assignment writes every element of its buffer."""
    extents = {loop.name: loop.extent for loop in assignment.kept}
    return covers(assignment.index, extents, specs[assignment.buffer].shape)


def _is_read(nest: Nest, listed: Sequence[Assignment], buffer: str, version: int) -> bool:
    return any(
        read.buffer == buffer and version_of(listed, read) == version
        for assignment in listed
        for read in nest.reads_of(*assignment.values).values()
    )


class Apart:
    """Splits off reductions into arrays of their own, where one `md_hom` cannot hold them."""

    def __init__(self, nest: Nest, source: FunctionSource, specs: dict[str, TensorSpec]) -> None:
        self._nest = nest
        self._source = source
        self._specs = specs

    def split(self, listed: Sequence[Assignment]) -> list[Assignment]:
        """Split assignments so that each has reductions of one operator and the same loops."""
        found: list[Assignment] = []
        for assignment in listed:
            self._split(assignment, found)
        return found

    def _split(self, assignment: Assignment, found: list[Assignment]) -> None:
        nest = self._nest
        for position in nest.entries_of(assignment.value):
            reduced = nest.entries[position]
            if isinstance(reduced, Reduced) and not self._stays(assignment, position, reduced):
                self._set_apart(position, reduced, found)
        found.append(assignment)

    def _stays(self, assignment: Assignment, position: int, reduced: Reduced) -> bool:
        """Whether a reduction can be part of the assignment's own `md_hom`."""
        nest, direct = self._nest, params_in(assignment.value)
        if position not in direct:
            return False
        entries = (nest.entries[n] for n in direct)
        first = next(entry for entry in entries if isinstance(entry, Reduced))
        if (first.operator.name, first.loops) != (reduced.operator.name, reduced.loops):
            return False
        # The view of an epilogue computes no indices.
        extents = {loop.name: loop.extent for loop in assignment.kept}
        around = _around(nest, assignment.value)
        return not is_computed(nest, around, extents, lambda read: self._specs[read.buffer].shape)

    def _set_apart(self, position: int, reduced: Reduced, found: list[Assignment]) -> None:
        """Compute a reduction into an array of its own, which its entry reads from now on."""
        dims = self._nest.dims_of(reduced.term)
        kept = tuple(loop for loop in reduced.outer if loop.name in dims)
        self._check_ranges(kept)
        name = f"sum{len(self._specs)}'"
        self._specs[name] = TensorSpec.of([loop.extent for loop in kept], reduced.dtype)
        index = tuple(AffineIndex.of(loop.name) for loop in kept)
        value = self._nest.add(reduced)
        self._split(Assignment(name, index, kept, value, -1, self._source.node), found)
        places = tuple(index_of(loop.name) for loop in kept)
        self._nest.entries[position] = SourceRead(
            name, places, reduced.dtype, 0, kept, (), self._source.node
        )

    def _check_ranges(self, kept: Loops) -> None:
        """Checks that no split reduction needs a large array for data-dependent iterations."""
        names = {loop.name for loop in kept}
        for loop in kept:
            bounds = () if loop.range is None else (loop.range.begin, loop.range.end)
            outer = names & self._nest.dims_of(*bounds)
            if outer and math.prod(each.extent for each in kept) > APART:
                others = " and ".join(repr(o.variable) for o in kept if o.name in outer)
                raise self._source.error(
                    self._source.node,
                    f"what a loop inside of {loop.variable!r} gives depends on loop {others} too,"
                    f" which decides the bounds of {loop.variable!r}: it would take an array of all"
                    " pairs of their iterations",
                    f"read nothing at {others} in the inner loop, and use it after that",
                )


def _around(nest: Nest, value: Expr) -> Expr:
    """A value with its reductions replaced by constants."""
    reduced = [n for n in params_in(value) if isinstance(nest.entries[n], Reduced)]
    return substitute(value, {n: const(0, nest.entries[n].dtype) for n in reduced})


class Planner:
    """Plans the steps of assignments, with arrays for the versions of buffers.

    Arrays named in `in_place` may be written in part: what else is in them stays. `inner` are
    buffers of the function itself, with nothing in them at the beginning. `by_parts` means that an
    assignment which alone reads what it changes writes to an array of the changed elements first,
    which are then copied; else there is a new array for all elements.
    """

    def __init__(
        self,
        nest: Nest,
        source: FunctionSource,
        specs: Mapping[str, TensorSpec],
        inner: Collection[str],
        in_place: Collection[str] = (),
        *,
        by_parts: bool = False,
    ) -> None:
        self.specs = dict(specs)
        self._nest = nest
        self._source = source
        self._inner = inner
        self._in_place = in_place
        self._by_parts = by_parts
        self._places: dict[tuple[str, int], str] = {}
        self._versions = Versions(())
        self._readers: dict[tuple[str, int], list[int]] = {}

    def place(self, buffer: str, version: int) -> str:
        """The array that holds a version of a buffer."""
        return self._places.get((buffer, version), buffer)

    def steps(self, listed: Sequence[Assignment]) -> tuple[LoopStep, ...]:
        """A step per assignment, and copies where old contents are needed."""
        self._versions = Versions(listed)
        self._readers = {}
        for position, assignment in enumerate(listed):
            for read in self._nest.reads_of(*assignment.values).values():
                known = self._readers.setdefault((read.buffer, self._versions.of(read)), [])
                known.append(position)
        steps: list[LoopStep] = []
        versions: dict[str, int] = {}
        for position, assignment in enumerate(listed):
            buffer, version = assignment.buffer, versions.get(assignment.buffer, 0)
            versions[buffer] = version + 1
            before = self.place(buffer, version)
            if self._may_write_over(position, buffer, version):
                self._places[buffer, version + 1] = before
            elif self._is_alone(position, assignment, version):
                self._places[buffer, version + 1] = before
                steps += self._through_part(assignment, before)
                continue
            else:
                after = self._places[buffer, version + 1] = f"{buffer}#{version + 1}"
                self.specs[after] = TensorSpec.of(
                    self.specs[buffer].shape, self.specs[buffer].dtype
                )
                is_partial = not _covers(assignment, self.specs)
                if is_partial and (version or buffer not in self._inner):
                    steps.append(copying(before, self.specs[before], after, self.specs[after]))
            steps.append(self._step(assignment, self.place(buffer, version + 1)))
        return tuple(steps)

    def _may_write_over(self, position: int, buffer: str, version: int) -> bool:
        """Whether an assignment may overwrite its buffer's current array."""
        if not version and buffer not in self._inner and buffer not in self._in_place:
            return False
        readers = self._readers.get((buffer, version), ())
        return not any(version == 0 or reader >= position for reader in readers)

    def _is_alone(self, position: int, assignment: Assignment, version: int) -> bool:
        """Whether a partial assignment is the only reader of the version that it overwrites."""
        readers = self._readers.get((assignment.buffer, version), ())
        return (
            self._by_parts
            and version > 0
            and not assignment.also
            and max(readers) == position
            and not _covers(assignment, self.specs)
        )

    def _through_part(self, assignment: Assignment, target: str) -> list[LoopStep]:
        """Steps that compute new elements in a temporary, and copy them to the target."""
        whole = self._step(assignment, target)
        md_hom, out = whole.md_hom, whole.md_hom.outputs[0]
        dims = md_hom.dims[: len(assignment.kept)]
        spec = TensorSpec.of([dim.extent for dim in dims], out.spec.dtype)
        name = f"part {spec!r}"
        self.specs[name] = spec
        part, at = BufferSpec(name, spec), BufferAccess.at(0, [dim.name for dim in dims])
        beside = replace(md_hom, outputs=(part,), out_view=(at,))
        function = identity_function([spec.dtype])
        moved = MDHom(dims, function, (part,), (out,), (at,), md_hom.out_view)
        return [
            LoopStep(beside, whole.inputs, (name,)),
            LoopStep(moved, (name,), whole.outputs),
        ]

    def _step(self, assignment: Assignment, target: str) -> LoopStep:
        def array(read: SourceRead) -> tuple[str, TensorSpec]:
            name = self.place(read.buffer, self._versions.of(read))
            return name, self.specs[name]

        out = BufferSpec(target, self.specs[target])
        md_hom = md_hom_from_assignment(self._nest, self._source, assignment, array, out)
        return LoopStep(md_hom, tuple(b.name for b in md_hom.inputs), (target,))


def copying(before: str, spec: TensorSpec, after: str, target: TensorSpec) -> LoopStep:
    """The step that copies one array to another."""
    dims = tuple(Dim(f"d{n}", extent, CC) for n, extent in enumerate(spec.shape))
    access = BufferAccess.at(0, [dim.name for dim in dims])
    inputs, outputs = (BufferSpec(before, spec),), (BufferSpec(after, target),)
    md_hom = MDHom(dims, identity_function([spec.dtype]), inputs, outputs, (access,), (access,))
    return LoopStep(md_hom, (before,), (after,))
