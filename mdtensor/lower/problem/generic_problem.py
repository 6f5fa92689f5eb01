"""The structure of a problem: the problem with symbolic sizes, shared by all shapes.

One kernel serves all shapes of a structure; the sizes that go with the names are its arguments.
"""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import field, replace

import numpy as np

from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.pass_runner import Pass
from mdtensor.lower.problem.problem import (
    STRUCTURE,
    Bounds,
    Computed,
    Finish,
    Problem,
    Read,
    Write,
)
from mdtensor.lower.problem.simd_lanes import MOST_APART
from mdtensor.translate.graphs import folded, in_order
from mdtensor.translate.scalar import Expr
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import dims_in, renaming, with_args

# A structure, and the sizes that make it a problem.
Shape = tuple[Problem, tuple[int, ...]]

# These decide how memory is accessed: the further ones where no elements are closer.
LITERAL_STRIDES = (-1, 0, 1)
FURTHER = tuple(n for n in range(-MOST_APART, MOST_APART + 1) if n not in LITERAL_STRIDES)
# Neighbours that are that close are told apart by the offset itself, so that loads are shared.
LITERAL_OFFSET = 32
LITERAL_STEPS = 8
_LITERALS = range(-LITERAL_OFFSET, LITERAL_OFFSET + 1)
# Windows begin so many of their own steps apart, at most, where that number is part of a structure.
LITERAL_SLIDE = 3


def generalised(problem: Problem) -> Shape:
    """The structure of a problem, and the sizes that instantiate it as this problem.

    Extents become names, and strides too unless they are -1, 0 or 1, or small where no neighbours
    are closer; offsets unless they are small or a few strides, those of results unless they are 0
    or neighbours; and constants beside indices unless they are small. Equal strides of one access
    keep separate names, but those of windows that overlap: where they begin a few of their own
    steps apart, neighbours share what they read. What is written alike has the same names. Labels
    become numbers, so that equal structures compare equal. A problem keeps what was found.
    """
    kept: Shape | None = problem.__dict__.get(STRUCTURE)
    if kept is None:
        problem.__dict__[STRUCTURE] = kept = _generalised(problem)
    return kept


def _generalised(problem: Problem) -> tuple[Problem, tuple[int, ...]]:
    found = _sketch(problem)
    if found is None:
        return _Names(problem).structure()
    sketch, sizes = found
    general = _known.get(sketch)
    if general is None:
        general = _Names(problem).structure()[0]
        _known.keep(sketch, general)
    return general, sizes


GENERALISE = Pass("generalise", generalised)
# Structures by what tells them apart: to look one up takes less than to make it again.
_known = Bounded[tuple[object, ...], Problem](1024)


def _sketch(problem: Problem) -> tuple[tuple[object, ...], tuple[int, ...]] | None:
    """A cheap key of a problem's structure, and its sizes; None where more than sizes vary."""
    finish = problem.finish
    functions = (problem.scalar,) if finish is None else (problem.scalar, finish.function)
    if any(dims_in(result) for function in functions for result in function.results):
        return None
    moved = [n for n, write in enumerate(problem.writes) if as_index(write.offset).constant]
    if not all(_is_beside(problem.writes, n) for n in moved):
        return None
    accesses = (*problem.all_reads, *problem.writes)
    offsets = [as_index(access.offset).constant or 0 for access in accesses]
    if not all(-LITERAL_OFFSET <= offset <= LITERAL_OFFSET for offset in offsets):
        return None
    offsets = list(map(_literal, offsets))
    if problem.bounds is not None or any(read.computed for read in problem.all_reads):
        return None
    walks = [walk.strides for walk in (*problem.streams, *problem.writes)]
    strides = [[stride.constant or 0 for stride in walk] for walk in walks]
    slides = [_slides(problem, stream.strides) for stream in problem.streams]
    slides += [{}] * len(problem.writes)
    near = list(map(_literals_of, strides))
    literal = [
        tuple([_literal(s) if s in literals else slide.get(d) for d, s in enumerate(walk)])
        for walk, literals, slide in zip(strides, near, slides, strict=True)
    ]
    sizes = [extent.constant or 0 for extent in problem.extents]
    alike = [_first_alike(problem.writes, n) for n in range(len(problem.writes))]
    own = [*range(len(problem.streams)), *(len(problem.streams) + n for n in alike)]
    for n, (walk, literals, slide) in enumerate(zip(strides, near, slides, strict=True)):
        if own[n] == n:
            sizes += [s for d, s in enumerate(walk) if s not in literals and d not in slide]
    buffers = [walk.buffer for walk in (*problem.streams, *problem.writes)]
    counts = (len(problem.streams), len(problem.reads), problem.scanned)
    sketch = (*counts, *problem.reduced, *functions, problem.operator, *offsets)
    sketch += (*literal, *alike, *buffers, *[read.stream for read in problem.all_reads])
    return (*sketch, *problem.inputs, None, *problem.outputs), tuple(sizes)


def _literal(number: int) -> int:
    """A small number as a plain int, also for traced ints (see `api.calls.traced_ints`)."""
    return _LITERALS[bisect_left(_LITERALS, number)]


def _first_alike(writes: Sequence[Write], number: int) -> int:
    """The number of the first write with the same buffer and strides."""
    own = writes[number]
    walks = ((write.buffer, write.strides) for write in writes)
    return next(n for n, walk in enumerate(walks) if walk == (own.buffer, own.strides))


def _is_beside(writes: Sequence[Write], number: int) -> bool:
    """Whether another write has the same buffer and strides."""
    own = writes[number]
    walks = ((write.buffer, write.strides) for n, write in enumerate(writes) if n != number)
    return (own.buffer, own.strides) in walks


def apart_along(strides: Sequence[int | None], d: int, *, general: bool) -> int:
    """The stride along a dim where kernels shuffle elements of that stride; else 0.

    General kernels know it if it is part of their structure.
    """
    stride = strides[d] or 0
    known = not general or stride in _literals_of(strides)
    return abs(stride) if known and abs(stride) <= MOST_APART else 0


def _literals_of(walk: Sequence[int | None]) -> tuple[int, ...]:
    """The stride values that stay literal in a structure, given an access's strides."""
    return LITERAL_STRIDES if 1 in walk or -1 in walk else (*LITERAL_STRIDES, *FURTHER)


def _slides(problem: Problem, strides: tuple[Index, ...]) -> dict[int, tuple[int, int]]:
    """Kept dims along which windows overlap, each with the window's dim and its stride there.

    In arrays that lie in order dims have no elements in common, whatever their extents are.
    """
    found: dict[int, tuple[int, int]] = {}
    for d in problem.kept:
        apart = strides[d].constant
        for step in problem.contracted:
            one = strides[step].constant
            if not apart or not one or one in LITERAL_STRIDES or apart % one:
                continue
            if 0 < apart // one < min(LITERAL_SLIDE + 1, problem.extents[step].constant or 0):
                found.setdefault(d, (step, _literal(apart // one)))
    return found


@dataclass(slots=True)
class _Names:
    """The symbolic names of a structure and their values, in order of creation."""

    problem: Problem
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    labels: dict[str, str] = field(default_factory=dict[str, str])

    def structure(self) -> tuple[Problem, tuple[int, ...]]:
        problem = self.problem
        self.labels = {label: f"d{d}" for d, label in enumerate(problem.labels)}
        extents = tuple(self.name(f"N{d}", extent) for d, extent in enumerate(problem.extents))
        streams = tuple(
            replace(stream, strides=self.strides_of_stream(f"stride{n}_", stream.strides))
            for n, stream in enumerate(problem.streams)
        )
        writes = tuple(
            replace(
                write,
                strides=self.strides(f"step{_first_alike(problem.writes, n)}_", write.strides),
                offset=self.write_offset(f"to{n}", n),
            )
            for n, write in enumerate(problem.writes)
        )
        finish = problem.finish
        if finish is not None:
            reads = tuple(self.read(f"after{n}_", read) for n, read in enumerate(finish.reads))
            finish = Finish(self.function("after", finish.function), reads)
        general = replace(
            problem,
            labels=tuple(self.labels.values()),
            extents=extents,
            scalar=self.function("in", problem.scalar),
            streams=streams,
            reads=tuple(self.read(f"read{n}_", read) for n, read in enumerate(problem.reads)),
            writes=writes,
            finish=finish,
            reaches=(),
            bounds=self.bounds(problem.bounds),
        )
        return replace(general, sizes=tuple(self.sizes)), tuple(self.sizes.values())

    def name(self, label: str, value: Index | int) -> Index:
        constant = as_index(value).constant
        assert constant is not None
        self.sizes[label] = constant
        return name(label)

    def strides(self, label: str, given: tuple[Index, ...]) -> tuple[Index, ...]:
        literals = _literals_of([stride.constant for stride in given])
        return tuple(
            as_index(_literal(stride.constant))
            if stride.constant in literals
            else self.name(f"{label}{d}", stride)
            for d, stride in enumerate(given)
        )

    def strides_of_stream(self, label: str, given: tuple[Index, ...]) -> tuple[Index, ...]:
        slides = _slides(self.problem, given)
        apart = tuple(as_index(0) if d in slides else stride for d, stride in enumerate(given))
        named = self.strides(label, apart)
        return tuple(
            named[slides[d][0]] * slides[d][1] if d in slides else stride
            for d, stride in enumerate(named)
        )

    def offset(self, label: str, value: Index | int) -> Index | int:
        constant = as_index(value).constant
        assert constant is not None
        if abs(constant) > LITERAL_OFFSET:
            return self.name(label, value)
        return as_index(_literal(constant)) if isinstance(value, Index) else _literal(constant)

    def write_offset(self, label: str, number: int) -> Index | int:
        """The offset of a write; a literal where another write has the same strides."""
        offset = self.problem.writes[number].offset
        if as_index(offset).constant and not _is_beside(self.problem.writes, number):
            return self.name(label, offset)
        return self.offset(label, offset)

    def read(self, label: str, given: Read) -> Read:
        computed = tuple(
            Computed(
                self.expressions(f"{label}place{k}_", [part.expr])[0],
                self.name(f"{label}axis{k}", part.extent),
                self.gap(f"{label}gap{k}", part.stride),
            )
            for k, part in enumerate(given.computed)
        )
        return replace(given, offset=self.shared_offset(label, given), computed=computed)

    def gap(self, label: str, stride: Index) -> Index:
        """The stride of a computed index; 1 stays literal, to need no product."""
        return as_index(1) if stride.constant == 1 else self.name(label, stride)

    def shared_offset(self, label: str, given: Read) -> Index | int:
        """The offset of a read; reads of the same element share a name."""
        same = (
            n
            for n, read in enumerate(self.problem.reads)
            if (read.stream, read.offset) == (given.stream, given.offset)
        )
        first = next(same, None)
        if (steps := self.steps(given)) is not None:
            return steps
        return self.offset(label + "at" if first is None else f"read{first}_at", given.offset)

    def steps(self, given: Read) -> Index | None:
        """The offset of a read as multiples of its stream's strides plus a small rest; or None.

        So neighbours along all dims are told apart by numbers of steps, and share what they read.
        """
        rest = as_index(given.offset).constant
        assert rest is not None
        if abs(rest) <= LITERAL_OFFSET:
            return None
        walked = self.problem.streams[given.stream].strides
        slides = _slides(self.problem, walked)
        literals = _literals_of([stride.constant for stride in walked])
        strides = {
            f"stride{given.stream}_{d}": stride.constant or 0
            for d, stride in enumerate(walked)
            if stride.constant not in literals and d not in slides
        }
        found = as_index(0)
        for label, stride in sorted(strides.items(), key=lambda pair: -abs(pair[1])):
            count = round(rest / stride)
            if abs(count) > LITERAL_STEPS:
                return None
            rest -= count * stride
            found = found + name(label) * _literal(count)
        return found + _literal(rest) if abs(rest) <= LITERAL_OFFSET else None

    def bounds(self, given: Bounds | None) -> Bounds | None:
        if given is None:
            return None
        return Bounds(given.dim, *self.expressions("bound", (given.begin, given.end)))

    def function(self, label: str, given: ScalarFunction) -> ScalarFunction:
        return replace(given, results=self.expressions(label, given.results))

    def expressions(self, label: str, exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        """Expressions on the structure's dims, with names for large constants beside indices."""
        rename, count = renaming(self.labels), itertools.count()
        places = _places_of_indices(exprs)

        def step(node: Expr, args: list[Expr]) -> Expr:
            if not args:
                return rename(node)
            is_moved = any(map(operator.is_not, args, node.args))
            if node.op != "select" and (is_moved or id(node) in places):
                args = [self.sized(f"{label}{next(count)}", a) if _is_large(a) else a for a in args]
            return with_args(node, args)

        return tuple(folded(exprs, step))

    def sized(self, label: str, constant: Expr) -> Expr:
        self.name(label, constant.number)
        return Expr("size", (), constant.dtype, label)


def _places_of_indices(exprs: Sequence[Expr]) -> set[int]:
    """The ids of all nodes below expressions that are compared with an index for equality.

    Such an expression is a computed index, with extents in it where it counts from the end.
    """
    found = [
        other
        for node in in_order(exprs)
        if node.op == "eq"
        for one, other in (node.args, node.args[::-1])
        if one.op == "index"
    ]
    return set(map(id, in_order(found)))


def _is_large(expr: Expr) -> bool:
    is_place = expr.op == "const" and expr.dtype == np.int64 and isinstance(expr.value, int)
    return is_place and abs(expr.number) > LITERAL_OFFSET
