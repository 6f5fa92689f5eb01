"""The space of schedules on GPUs: each schedule has its place there, and each place a schedule.

That holds for schedules of every kind, those that the cost models favour among them.
"""

from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import Any

import pytest

from mdtensor.autotune.space.space import Space
from mdtensor.lower.gpu.base.block_shapes import blocked
from mdtensor.lower.gpu.space.gpu_kinds import kinds_of
from mdtensor.lower.gpu.space.gpu_ranking import misfit
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.lower.search.schedule_space import configuration_from, parameters_of, schedule_from
from mdtensor.specs import TensorSpec
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from tests.lower import fuzz, fuzz_cuda
from tests.lower.codegen.scatter import test_cooperative_scatter
from tests.lower.codegen.tma.tma_convolutions import MIDDLE
from tests.lower.gpu.candidates import test_pointwise_candidates, test_scan_candidates
from tests.lower.gpu.candidates.test_gpu_candidates import SHAPES, problem_of
from tests.lower.gpu.candidates.test_tma_candidates import product_of, tf32
from tests.targets import H200 as WITHOUT_CLUSTERS

SAMPLES = 60
H200 = replace(WITHOUT_CLUSTERS, clusters=True)
# What a schedule says of processors' vectors and threads, and what no product of matrices is.
FIXED = {"asm", "lane", "width", "tail", "inline", "scatter", "resident", "reduce_order", "lead"}
FIXED |= {"tensor", "bulk", "results", "peel", "ahead", "transposed", "in_turn", "march"}
WITH_MATRICES = replace(H200, matrices=True, bulk_copies=True, local_bytes=227 << 10)
# One problem or more for every kind of schedule.
OF_KINDS = {
    **{f"points: {name}": problem for name, problem in test_pointwise_candidates.PROBLEMS.items()},
    **{
        f"scan: {name}": test_scan_candidates.problem_of(name)
        for name in test_scan_candidates.LARGE
    },
    **{
        f"scatter: {name}": problem_from_md_hom(md_hom)
        for name, md_hom in test_cooperative_scatter.MD_HOMS.items()
    },
    **{f"halves: {text}": problem_of(text, "f2") for text in SHAPES},
    "bulk: ik,kj->ij": product_of(1000, 1000, 1000),
    "bulk: few blocks": product_of(256, 200, 2056),
    "bulk: results that no box can take": product_of(136, 333, 200, text="ik,jk->ij"),
    "bulk: tf32": tf32(200, 328, 1000, "ik,jk->ij"),
    "bulk: tf32 through registers": tf32(200, 328, 1000, "ik,kj->ij"),
    "bulk: a convolution": MIDDLE.problem(),
}
KINDS = {
    "points: star": {"simple", "resident", "planes"},
    "scan: a vector": {"simple", "resident", "look_back"},
    "scatter: a histogram": {"simple", "scatter", "scatter_together", "resident"},
    "halves: ik,kj->ij": {"simple", "resident", "matrices", "bulk"},
    "bulk: tf32 through registers": {"simple", "resident", "matrices", "bulk"},
    "bulk: a convolution": {
        *("simple", "resident", "bulk"),
        *("bulk 8x0 4x2 4x3", "bulk 16x0 4x2 2x3", "bulk 16x0 4x2", "bulk 16x0 4x3"),
        *("bulk 16x0 4x2 4x3", "bulk 16x0 16x2", "bulk 6x0 32x2", "bulk 6x0 32x3"),
    },
}
UNSTAGED = {"staged": ("", ""), "prefetch": False}
SMALL = replace(H200, max_threads=32)


def space_of(problem: Problem) -> Space:
    return Space(parameters_of(problem, H200), node_limit=100_000)


def space_with_matrices(problem: Problem) -> Space:
    return Space(parameters_of(problem, WITH_MATRICES), node_limit=100_000)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1"])
def test_every_candidate_has_its_place(text: str, dtype: str) -> None:
    problem, rng = problem_of(text, dtype), random.Random(0)
    space, candidates = space_of(problem), [schedule for _, schedule in ranked(problem, H200)]
    for schedule in (*candidates[:: len(candidates) // 40], candidates[-1]):
        place = space.nearest(configuration_from(problem, schedule), rng)
        assert place is not None
        assert schedule_from(problem, H200, place) == schedule


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", OF_KINDS)
def test_candidates_of_every_kind_have_their_place(name: str) -> None:
    problem, rng = OF_KINDS[name], random.Random(0)
    space = space_with_matrices(problem)
    found = [schedule for _, schedule in ranked(problem, WITH_MATRICES)]
    tensors = [schedule for schedule in found if schedule.tensor]
    for schedule in (*found[:20], *found[:: -(-len(found) // 30)], *tensors[::7], found[-1]):
        assert not misfit(problem, schedule, WITH_MATRICES)
        place = space.nearest(configuration_from(problem, schedule), rng)
        assert place is not None
        assert schedule_from(problem, WITH_MATRICES, place) == schedule


def test_any_of_many_streams_is_staged_or_not() -> None:
    def distance(*values: Any) -> Any:
        return sum(abs(a - b) for a, b in zip(values[:8], values[8:], strict=True))

    text = ",".join(["n"] * 8 + ["e"] * 8) + "->n"
    reduction = Reduction(text, distance, "max")
    specs = [TensorSpec.of((1024,))] * 8 + [TensorSpec.of((4096,))] * 8
    problem, rng = problem_from_md_hom(md_hom_from_reduction(reduction, specs)), random.Random(0)
    space = Space(parameters_of(problem, H200))
    _, best = ranked(problem, H200)[0]
    for staged in (best.staged, ("",) * 8 + ("local", "") * 4):
        schedule = replace(best, staged=staged)
        place = space.nearest(configuration_from(problem, schedule), rng)
        assert place is not None
        assert schedule_from(problem, H200, place).staged == staged


@pytest.mark.parametrize("name", KINDS)
def test_a_problem_has_schedules_of_several_kinds(name: str) -> None:
    problem, rng = OF_KINDS[name], random.Random(6)
    space = space_with_matrices(problem)
    assert set(kinds_of(problem, WITH_MATRICES)) == KINDS[name]
    for kind in KINDS[name]:
        place = space.nearest({"kind": kind}, rng, pinned=["kind"])
        assert place is not None
        validate(problem, schedule_from(problem, WITH_MATRICES, place))


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("points: star in a border", {"registers", "threads", "chunks", "lead", "tail", "parts"}),
        ("points: turned", {"staged", "padding", "swath", "streaming", "warp"}),
        ("scan: a vector", {"registers", "threads", "chunks"}),
        ("scatter: a histogram", {"registers", "threads", "chunks", "parts"}),
        ("halves: ik,kj->ij", {"registers", "threads", "tiles", "stages", "swath", "streaming"}),
        ("bulk: ik,kj->ij", {"registers", "threads", "stages", "swath", "parts", "results"}),
        ("bulk: a convolution", {"registers", "stages", "swath", "parts", "results"}),
    ],
)
def test_neighbours_of_a_kind_differ_in_what_it_leaves_open(name: str, fields: set[str]) -> None:
    problem, rng, missing = OF_KINDS[name], random.Random(2), set(fields)
    space = space_with_matrices(problem)
    found = (schedule for _, schedule in ranked(problem, WITH_MATRICES))
    if name[0] in "hb":
        found = (s for s in found if s.tensor and s.bulk == (name[0] == "b"))
    best = next(found)
    place = space.nearest(configuration_from(problem, best), rng)
    assert place is not None
    for near in space.neighbours(place, rng):
        schedule = schedule_from(problem, WITH_MATRICES, near)
        changed = {f for f in missing if getattr(schedule, f) != getattr(best, f)}
        if changed and not misfit(problem, schedule, WITH_MATRICES):
            missing -= changed
        if not missing:
            break
    assert not missing


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", [*OF_KINDS, *SHAPES])
def test_every_place_has_a_valid_schedule(name: str) -> None:
    problem, rng = OF_KINDS.get(name) or problem_of(name), random.Random(1)
    space = space_with_matrices(problem)
    for number in range(SAMPLES):
        place = space.sample(rng)
        if number % 2:  # kinds of few schedules too
            kind = rng.choice(list(kinds_of(problem, WITH_MATRICES)))
            place = space.nearest({**place, "kind": kind}, rng, pinned=["kind"])
            assert place is not None
        schedule = schedule_from(problem, WITH_MATRICES, place)
        validate(problem, schedule)
        back = space.nearest(configuration_from(problem, schedule), rng)
        assert back is not None
        assert schedule_from(problem, WITH_MATRICES, back) == schedule


def test_neighbours_are_near_and_some_of_them_fit() -> None:
    problem, rng = problem_of("ik,kj->ij"), random.Random(2)
    space = space_of(problem)
    best = ranked(problem, H200)[0][1]
    place = space.nearest(configuration_from(problem, best), rng)
    assert place is not None
    found = [schedule_from(problem, H200, near) for near in space.neighbours(place, rng)]
    assert len(set(found)) > 40
    assert sum(not misfit(problem, schedule, H200) for schedule in found) > 20


def test_groups_march_where_neighbours_read_the_same() -> None:
    rng = random.Random(5)
    for name, marches in (("points: star", True), ("points: outer", False)):
        problem = OF_KINDS[name]
        space = space_with_matrices(problem)
        places = [space.nearest({"march": True}, rng, pinned=["march"]) for _ in range(20)]
        assert (None not in places) is marches
        drawn = [schedule_from(problem, WITH_MATRICES, place) for place in places if place]
        assert any(schedule.march for schedule in drawn) is marches


def test_all_that_a_schedule_says_varies() -> None:
    problem, rng = problem_of("ik,kj->ij"), random.Random(3)
    space = space_of(problem)
    drawn = [schedule_from(problem, H200, space.sample(rng)) for _ in range(400)]
    for field in fields(Schedule):
        found = {getattr(schedule, field.name) for schedule in drawn}
        assert (len(found) > 1) is (field.name not in FIXED), field.name


@pytest.mark.parametrize(
    ("changes", "rejection"),
    [
        ({"x0": 256, "x2": 256}, "fits_work_items(items3=65536)"),
        ({"r0": 16, "r2": 16}, "fits_registers(accumulators2=256)"),
        ({"staged0": "local", "r1": 16, "t1": 8}, "holds_whole_blocks(t1=8, r1=16, x1=1)"),
    ],
)
def test_limits_have_names(changes: dict[str, object], rejection: str) -> None:
    problem = problem_of("ik,kj->ij")
    space = space_of(problem)
    simple = configuration_from(problem, ranked(problem, H200)[-1][1])
    place = space.nearest({**simple, "kind": "resident"}, random.Random(4))
    assert place is not None
    wanted = _derived(space, {**place, **changes})
    assert rejection in (space.explain_rejection(wanted) or "")


def _derived(space: Space, place: dict[str, object]) -> dict[str, object]:
    """The values of parameters that follow from those before them."""
    found = dict(place)
    for parameter in space.parameters:
        values = parameter.values_given(found)  # type: ignore[arg-type]
        if len(values) == 1:
            found[parameter.name] = values[0]
    return found


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"threads": (64, 1, 64)}, "fits_work_items: 4096 of 1024"),
        ({"registers": (16, 8, 16)}, "fits_registers: "),
        ({"tiles": (0, 256, 0), "prefetch": False}, "fits_local_memory: "),
        ({"registers": (8, 64, 8), **UNSTAGED}, "fits_instructions: "),
        (
            {"threads": (2, 1, 2), "tiles": (0, 64, 0), "prefetch": False, "stages": 0},
            "fits_copies_of_an_item: ",
        ),
        (
            {"threads": (256, 1, 1), "registers": (8, 8, 4), "chunks": (), "warp": (), **UNSTAGED},
            "has_work: 2048 points for",
        ),
        ({"reduce_order": (0,)}, "schedule.reduce_order is no permutation"),
    ],
)
def test_what_the_whole_schedule_tells_has_names(changes: dict[str, object], reason: str) -> None:
    problem = problem_of("ik,kj->ij")
    schedule = blocked(problem, (8, 8), (8, 16), 16)
    assert schedule.prefetch
    assert misfit(problem, schedule, H200) == ""
    assert misfit(problem, replace(schedule, **changes), H200).startswith(reason)


@pytest.mark.parametrize("kind", ["", fuzz.MD_HOM])
def test_sampled_schedules_compute_what_they_should(kind: str) -> None:
    rng = random.Random(7)
    checked = resident = 0
    for name in fuzz.names_of(17, ("gpu",), 24, kind=kind):
        case = replace(fuzz.random_case(name), general=False)
        schedules = tuple(fuzz_cuda.drawn(problem, SMALL, rng) for problem in case.problems())
        if isinstance(case, fuzz.Case):
            checked += fuzz.check(replace(case, schedule=schedules[0]))
        else:
            checked += fuzz.check(replace(case, schedules=schedules))
        resident += any(schedule.resident for schedule in schedules)
    assert checked > 12
    assert resident > 4
