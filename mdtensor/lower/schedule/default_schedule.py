"""Default schedules of a problem, and properties of its dims by strides."""

from __future__ import annotations

from dataclasses import replace

from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scatter_pattern import selected, selection_of
from mdtensor.lower.problem.simd_lanes import MOST_APART, most_lanes
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target
from mdtensor.translate.trees import dims_in, params_in

# Elements that vectors may gather for one point: each is code of its own, and Intel's compiler was
# seen to fail on texts of some hundred thousand characters.
_MOST_GATHERED = 128
_FAR = 1 << 20  # what a stride that is a name counts as
WINDOW = 12  # a window that is no longer is unrolled as a whole


def lane_width(problem: Problem, target: Target) -> int:
    """Lanes that fill a vector register with the widest result type."""
    widest = max(register_dtype(t).itemsize for t in problem.scalar.result_dtypes)
    return max(1, min(most_lanes(problem), target.vector_bytes // widest))


def lane_dims(problem: Problem, width: int) -> tuple[int, ...]:
    """Candidate lane dims: those of stride one in some access, the output's first.

    Where none does, as among complex numbers, those whose neighbours lie closest, a few apart.
    Where results lie next to each other along short dims only, which would leave lanes of vectors
    of `width` empty, also the longer ones whose neighbours a staged tile can bring together.
    """
    walked = {s.constant for a in (*problem.writes, *problem.streams) for s in a.strides}
    near = next((n for n in range(1, MOST_APART) if n in walked), MOST_APART)
    written = [
        d
        for d in problem.result_dims
        if not (problem.keeps_order and problem.reduced[d])
        and any(w.strides[d].constant == near for w in problem.writes)
    ]
    read = [
        d
        for d in problem.dims
        if not (problem.keeps_order and problem.reduced[d])
        and any(stream.strides[d].constant == near for stream in problem.streams)
    ]
    far: list[int] = []
    if problem.contracted and not any(_is_long(problem, d, width) for d in written):
        far = [
            d
            for d in problem.kept
            if _is_long(problem, d, width)
            and any(s.uses(d) and problem.is_plain(n) for n, s in enumerate(problem.streams))
        ]
        far.sort(key=lambda d: min(distance(w.strides[d].constant) for w in problem.writes))
    found = dict.fromkeys((*written, *read, *far[:2]))
    return tuple(d for d in found if gathers_along(problem, d) * width <= _MOST_GATHERED)


def gathers_along(problem: Problem, d: int) -> int:
    """Number of reads whose computed index varies along a dim's lanes."""
    varies: list[bool] = []
    found = 0
    for read in problem.reads:
        expressions = [part.expr for part in read.computed]
        computed = any(
            problem.labels[d] in dims_in(expr) or any(varies[n] for n in params_in(expr))
            for expr in expressions
        )
        found += computed
        varies.append(computed or problem.streams[read.stream].uses(d))
    return found


def _is_long(problem: Problem, d: int, width: int) -> bool:
    extent = problem.extents[d].constant
    return extent is None or extent >= width


def short_reductions(problem: Problem) -> tuple[int, ...]:
    """Reduced dims short enough to be unrolled, such as those of windows."""
    extents = [(d, problem.extents[d].constant) for d in problem.contracted]
    return tuple(d for d, extent in extents if extent is not None and 1 < extent <= WINDOW)


def nearest_first(problem: Problem) -> tuple[int, ...]:
    """Dims by descending mean stride, as an order of loops."""

    def far(d: int) -> tuple[float, int]:
        strides = [
            distance(access.strides[d].constant)
            for access in (*problem.writes, *problem.streams)
            if access.strides[d].terms
        ]
        return -(sum(strides) / len(strides) if strides else 0.0), d

    return tuple(sorted(problem.dims, key=far))


def distance(stride: int | None) -> int:
    """The size of a stride in elements; symbolic strides count as far."""
    return _FAR if stride is None else abs(stride)


def combining_order(problem: Problem) -> tuple[int, ...]:
    """The combined dims by descending stride, or in their own order where it matters."""
    if problem.keeps_order:
        return problem.contracted
    return tuple(d for d in nearest_first(problem) if problem.reduced[d])


def plain(problem: Problem, asm: str = "cpu") -> Schedule:
    """The simplest schedule: one group, one point at a time."""
    ones = (1,) * len(problem.extents)
    order = nearest_first(problem)
    return Schedule(
        asm=asm,
        parts=ones,
        tiles=(0,) * len(ones),
        threads=ones,
        registers=ones,
        lane=-1,
        width=1,
        group_order=order,
        loop_order=tuple(d for d in order if not problem.reduced[d]),
        reduce_order=combining_order(problem),
        staged=("",) * len(problem.streams),
    )


def can_scatter(problem: Problem) -> bool:
    """Whether a problem's scatter pattern may be used."""
    return selection_of(problem) is not None and not problem.keeps_order


def scattering(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule changed to scatter, without features that exclude it."""
    selection = selected(problem)
    count = len(problem.extents)
    return replace(
        schedule,
        tiles=(0,) * count,
        registers=tuple(schedule.registers[d] if problem.reduced[d] else 1 for d in problem.dims),
        parts=tuple(1 if d == selection.dim else p for d, p in enumerate(schedule.parts)),
        lane=-1,
        width=1,
        staged=("",) * len(problem.streams),
        tail="split",
        streaming=False,
        peel=False,
        transposed=False,
        ahead=0,
        scatter=True,
    )
