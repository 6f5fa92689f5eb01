"""The registry of kinds of schedules on a GPU: all that belongs to one kind, in one entry.

The search space, the ranking of candidates and the estimates of schedules follow from `KINDS`. The
lowering lies below and chooses an emitter by the fields of a schedule; tests ask that it is the one
that the schedule's kind names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from mdtensor.lower.codegen.cpu.tiled_loops import tiled_loops
from mdtensor.lower.codegen.register_blocking.register_blocking import resident_tiles
from mdtensor.lower.codegen.register_blocking.tensor_core_tile import (
    matrix_product,
    rows_of,
    validate_tensor,
)
from mdtensor.lower.codegen.scan.cooperative_scan import scan_blocks
from mdtensor.lower.codegen.scan.look_back import look_back
from mdtensor.lower.codegen.scatter.cooperative_scatter import scatter_blocks
from mdtensor.lower.codegen.scatter.scatter import scatter
from mdtensor.lower.codegen.streaming.plane_prefetch import Ahead
from mdtensor.lower.codegen.streaming.planes import plane_dim
from mdtensor.lower.codegen.streaming.pointwise import pointwise_tiles
from mdtensor.lower.codegen.tma.tma_layout import validate_bulk
from mdtensor.lower.codegen.tma.wgmma_loop import bulk_tiles
from mdtensor.lower.codegen.tma.wgmma_store import validate_results
from mdtensor.lower.gpu.candidates.gpu_candidates import (
    can_be_resident,
    gpu_candidates,
    ranked_on_gpu,
)
from mdtensor.lower.gpu.candidates.plane_candidates import plane_estimate
from mdtensor.lower.gpu.candidates.pointwise_candidates import (
    point_candidates,
    point_estimate,
    shares_along,
)
from mdtensor.lower.gpu.candidates.scan_candidates import scan_candidates, scan_estimate
from mdtensor.lower.gpu.candidates.scatter_candidates import (
    can_scatter_together,
    scatter_candidates,
    scatter_estimate,
)
from mdtensor.lower.gpu.candidates.tensor_core_candidates import matrix_dims
from mdtensor.lower.gpu.candidates.tma_candidates import bulk_candidates
from mdtensor.lower.gpu.cost.gpu_cost import gpu_estimate
from mdtensor.lower.gpu.cost.tensor_core_cost import matrix_estimate
from mdtensor.lower.gpu.cost.tma_cost import bulk_estimate
from mdtensor.lower.gpu.space import open_choices
from mdtensor.lower.gpu.space.open_choices import Choices
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.default_schedule import can_scatter
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.rules.register_blocking_rules import validate_resident
from mdtensor.lower.schedule.rules.scan_rules import validate_scan
from mdtensor.lower.schedule.rules.scatter_rules import validate_scatter
from mdtensor.lower.schedule.rules.valid import validate_work_items
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

SIMPLE, SCATTER, RESIDENT = "simple", "scatter", "resident"
LOOK_BACK, SCATTER_TOGETHER = "look_back", "scatter_together"
MATRICES, BULK = "matrices", "bulk"
PLANES = "planes"

Pairs = list[tuple[float, Schedule]]
Rule = Callable[[Problem, Schedule], None]


def _no_candidates(_problem: Problem, _target: Target) -> Iterable[Schedule]:
    return ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of schedules: where it applies, its candidates, its space, its rules, cost, emitter.

    `applies` tells whether a problem on a target has the kind, `owns` whether a schedule is of it.
    `space` has what it leaves open, by name: one entry, but for matrices whose rows can lie in
    several ways. `candidates` may yield schedules of other kinds too; `best` finds the best ones
    among them without estimating all. `rules` are those that it adds to what every kernel needs.
    """

    name: str
    applies: Callable[[Problem, Target], bool]
    owns: Callable[[Problem, Schedule], bool]
    space: Callable[[Problem, Target], Mapping[str, Choices]]
    rules: tuple[Rule, ...]
    cost: Callable[[Problem, Schedule, Target], float]
    emit: Callable[..., object]
    candidates: Callable[[Problem, Target], Iterable[Schedule]] = _no_candidates
    best: Callable[[Problem, Target, int | None], Pairs] | None = None


@lru_cache(maxsize=16)
def kinds_of(problem: Problem, target: Target) -> dict[str, Choices]:
    """What the kinds of schedules that a problem of fixed extents has leave open, by name."""
    found: dict[str, Choices] = {}
    for kind in KINDS:
        if kind.applies(problem, target):
            found |= kind.space(problem, target)
    return found


def kind_of(problem: Problem, schedule: Schedule) -> Kind:
    """The kind of a schedule."""
    return next(kind for kind in KINDS if kind.owns(problem, schedule))


def name_of_kind(problem: Problem, schedule: Schedule) -> str:
    """The name of a schedule's kind in configurations.

    Of matrices by bulk copies it says how rows lie, if along several dims, such as "bulk 8x0 4x2":
    8 along dim 0, 4 along dim 2.
    """
    kind = kind_of(problem, schedule)
    rows = rows_of(problem, schedule) if kind.name == BULK else ()
    counts = (f"{schedule.registers[d] * schedule.threads[d]}x{d}" for d in rows)
    return kind.name if len(rows) < 2 else " ".join((BULK, *counts))


def _named(
    name: str, choices: Callable[[Problem, Target], Choices]
) -> Callable[[Problem, Target], Mapping[str, Choices]]:
    return lambda problem, target: {name: choices(problem, target)}


def _looks_back(problem: Problem, target: Target) -> bool:
    is_long = problem.scanned >= 0 and problem.extent(problem.scanned) > WARP
    return target.counts_groups and is_long


def _has_planes(problem: Problem, _: Target) -> bool:
    shares = not problem.contracted and plane_dim(problem) >= 0
    return shares and any(shares_along(problem, d) for d in problem.kept)


def _has_matrices(problem: Problem, target: Target) -> bool:
    return target.matrices and bool(_of_matrices(problem, target))


def _of_matrices(problem: Problem, target: Target) -> Mapping[str, Choices]:
    dims = matrix_dims(problem)
    if dims is None:
        return {}
    matrices = open_choices.matrices(problem, target, dims)
    return {MATRICES: matrices} if matrices.tiles[dims[2]] else {}


def _of_bulk(problem: Problem, target: Target) -> Mapping[str, Choices]:
    """Products of matrices that bulk copies bring: choices for each way in which rows can lie."""
    problem = zero_filled(problem)
    bulk = list(bulk_candidates(problem, target))
    if not bulk:
        return {}
    dims = bulk[0].tensor[0], bulk[0].tensor[1], bulk[0].tensor[2]
    results = tuple({schedule.results: None for schedule in bulk} | {"": None})
    matrices = open_choices.matrices(problem, target, dims)
    one = open_choices.bulk(problem, matrices, dims, results)
    found = {BULK: one}
    for schedule in bulk:
        name = name_of_kind(problem, schedule)
        if name not in found:
            rows = rows_of(problem, schedule)
            found[name] = open_choices.spread(problem, one, schedule, rows)
    return found


def _is_plain(schedule: Schedule) -> bool:
    """Whether a schedule is resident, and neither scatters nor multiplies matrices."""
    return schedule.resident and not schedule.scatter and not schedule.tensor


def _marches_with_planes(schedule: Schedule) -> bool:
    return schedule.march and any(schedule.staged)


# In the order in which the search space has them.
KINDS = (
    Kind(
        SIMPLE,
        applies=lambda _problem, _target: True,
        owns=lambda _, s: not (s.resident or s.scatter or s.tensor),
        space=_named(SIMPLE, open_choices.simple),
        rules=(validate_work_items,),
        cost=gpu_estimate,
        emit=tiled_loops,
    ),
    Kind(
        SCATTER,
        applies=lambda problem, _: can_scatter(problem),
        owns=lambda _, s: s.scatter and not s.resident,
        space=_named(SCATTER, open_choices.scattered),
        rules=(validate_scatter,),
        cost=gpu_estimate,
        emit=scatter,
    ),
    Kind(
        SCATTER_TOGETHER,
        applies=lambda problem, _: can_scatter_together(problem),
        owns=lambda _, s: s.scatter and s.resident,
        space=_named(SCATTER_TOGETHER, open_choices.scattered_together),
        rules=(validate_resident, validate_scatter),
        cost=scatter_estimate,
        emit=scatter_blocks,
        candidates=scatter_candidates,
    ),
    Kind(  # scans of a group
        RESIDENT,
        applies=lambda problem, _: problem.scanned >= 0,
        owns=lambda p, s: _is_plain(s) and p.scanned >= 0 and s.parts[p.scanned] <= 1,
        space=_named(RESIDENT, lambda problem, _: open_choices.scan(problem, shared=False)),
        rules=(validate_resident, validate_scan),
        cost=scan_estimate,
        emit=scan_blocks,
        candidates=scan_candidates,
    ),
    Kind(  # scans that groups share
        LOOK_BACK,
        applies=_looks_back,
        owns=lambda p, s: _is_plain(s) and p.scanned >= 0 and s.parts[p.scanned] > 1,
        space=_named(LOOK_BACK, lambda problem, _: open_choices.scan(problem, shared=True)),
        rules=(validate_resident, validate_scan),
        cost=scan_estimate,
        emit=look_back,
        candidates=scan_candidates,
    ),
    Kind(  # reductions with accumulators in registers
        RESIDENT,
        applies=lambda problem, _: can_be_resident(problem),
        owns=lambda p, s: _is_plain(s) and can_be_resident(p) and not _marches_with_planes(s),
        space=_named(RESIDENT, lambda p, target: open_choices.reduction(zero_filled(p), target)),
        rules=(validate_resident,),
        cost=gpu_estimate,
        emit=resident_tiles,
        candidates=gpu_candidates,
        best=ranked_on_gpu,
    ),
    Kind(  # points that share what they read
        RESIDENT,
        applies=lambda problem, _: not problem.contracted,
        owns=lambda p, s: _is_plain(s) and not p.contracted and not _marches_with_planes(s),
        space=_named(RESIDENT, lambda problem, _: open_choices.points(problem)),
        rules=(validate_resident,),
        cost=point_estimate,
        emit=pointwise_tiles,
        candidates=point_candidates,
    ),
    Kind(
        PLANES,
        applies=_has_planes,
        owns=lambda p, s: _is_plain(s) and p.scanned < 0 and _marches_with_planes(s),
        space=_named(PLANES, open_choices.planes),
        rules=(validate_resident,),
        cost=plane_estimate,
        emit=Ahead,
        candidates=point_candidates,
    ),
    Kind(
        MATRICES,
        applies=_has_matrices,
        owns=lambda _, s: bool(s.tensor) and not s.bulk and not s.scatter,
        space=_of_matrices,
        rules=(validate_resident, validate_tensor),
        cost=matrix_estimate,
        emit=matrix_product,
        candidates=gpu_candidates,
        best=ranked_on_gpu,
    ),
    Kind(
        BULK,
        applies=lambda _, target: target.bulk_copies,
        owns=lambda _, s: bool(s.tensor) and s.bulk and not s.scatter,
        space=_of_bulk,
        rules=(validate_resident, validate_tensor, validate_bulk, validate_results),
        cost=bulk_estimate,
        emit=bulk_tiles,
        candidates=gpu_candidates,
        best=ranked_on_gpu,
    ),
)
