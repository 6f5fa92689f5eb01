"""Choices: the open parameters of a kind of GPU schedules, by dim and by stream.

Every kind has a function that returns them; `gpu_space` makes parameters of all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mdtensor.dataclass import dataclass
from mdtensor.lower.gpu.base.block_shapes import POINTS, can_be_staged
from mdtensor.lower.gpu.base.device_limits import MOST_PARTIALS, part_counts
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.declaration import tried
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

WHOLE = 0  # among chunks: all points of a work-item; among parts: a group for every block

_STEPS = (1, 2, 4, 8, 16, 32)
CHUNKS = (1, 2, 4, 8, 16, WHOLE)
_SHORT = 32  # extents of reduced dims of which every divisor is tried
DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_PADDINGS = tried(Schedule, "padding")
_SWATHS = tried(Schedule, "swath")
STAGES = tried(Schedule, "stages")
ONE, NONE = (1,), (0,)

Counts = tuple[int, ...]
Flags = tuple[bool, ...]
NO: Flags = (False,)
EITHER: Flags = (False, True)
YES: Flags = (True,)


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that a kind of schedules leaves open; fixed ones are a single choice.

    By dim: `points` of a work-item, `items` of a group, `chunks`, `tiles`, `parts` of reduced dims
    and `blocks` of a part of kept ones. By stream: `staged`. `lanes` tells whether the shape of
    warps varies, `warp` is that of all where it does not; `leads` whether blocks may begin before
    a dim; `marches` whether they may hand on what they read; `last` whether reduced dims come last
    among groups; `before` are kept dims in the order that loops must have.
    """

    points: tuple[Counts, ...]
    items: tuple[Counts, ...]
    chunks: tuple[Counts, ...]
    tiles: tuple[Counts, ...]
    parts: tuple[Counts, ...]
    blocks: tuple[Counts, ...]
    staged: tuple[tuple[str, ...], ...]
    last: Flags
    resident: bool = True
    padding: Counts = _PADDINGS
    as_source: Flags = EITHER
    stages: Counts = NONE
    prefetch: bool = False
    lanes: bool = False
    warp: Counts = ()
    leads: bool = False
    tails: tuple[str, ...] = ("split",)
    swaths: Counts = NONE
    streaming: Flags = NO
    last_group: Flags = NO
    clusters: Flags = NO
    tensor: tuple[int, int, int] | None = None
    before: tuple[int, ...] = ()
    bulk: bool = False
    results: tuple[str, ...] = ("",)
    marches: Flags = NO


def by_dim(problem: Problem, choices: Callable[[int], Counts]) -> tuple[Counts, ...]:
    """The choices of every dim."""
    return tuple(map(choices, problem.dims))


def only(problem: Problem, some: Mapping[int, Counts], default: Counts) -> tuple[Counts, ...]:
    """The choices of some dims, and the default for all others."""
    return tuple(some.get(d, default) for d in problem.dims)


def last_dims(problem: Problem) -> Flags:
    """The choices for putting reduced dims last among groups, if both kinds of dims exist."""
    kept, reduced = problem.kept, problem.contracted
    return EITHER if kept and reduced else (bool(reduced),)


def swaths_of(problem: Problem) -> Counts:
    """The candidate widths of swaths in which groups are numbered."""
    return _SWATHS if len(problem.kept) > 1 else NONE


def tails_of(problem: Problem) -> tuple[str, ...]:
    """The candidate tails of kept dims: overlapping only where an extent is no power of two."""
    ragged = any(problem.extent(d).bit_count() > 1 for d in problem.kept)
    return ("split", "overlap") if ragged else ("split",)


def points_along(problem: Problem, d: int) -> Counts:
    """The candidate points of a work-item along a dim."""
    extent = problem.extent(d)
    if not problem.reduced[d]:
        return tuple(n for n in POINTS if n <= extent)
    if problem.keeps_order and d != problem.contracted[-1]:
        return ONE
    return tuple(sorted({n for n in _STEPS if n <= max(16, extent)} | divisors(extent)))


def divisors(extent: int) -> set[int]:
    """The divisors of a short extent; none of a long one."""
    return {n for n in range(1, extent + 1) if extent % n == 0} if extent <= _SHORT else set()


def parts_along(problem: Problem, target: Target, d: int) -> Counts:
    """The candidate numbers of groups that share a reduced dim; 1 where order forbids it."""
    if not problem.reduced[d]:
        return ONE
    kept_points = 1
    for e in problem.kept:
        kept_points *= problem.extent(e)
    most = min(problem.extent(d), MOST_PARTIALS // kept_points)
    if problem.keeps_order and d != problem.contracted[0]:
        most = 1
    return tuple(n for n in part_counts(target) if n <= max(1, most))


def staged_choices(problem: Problem) -> tuple[tuple[str, ...], ...]:
    """The candidate regions in which each stream can be staged."""
    return tuple(
        ("", "local") if can_be_staged(problem, n) else ("",) for n in range(len(problem.streams))
    )
