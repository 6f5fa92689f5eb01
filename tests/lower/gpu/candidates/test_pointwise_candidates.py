"""Candidates without a reduction on GPUs: valid, right, and in a sensible order."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.streaming.plane_candidates import STORED, plane_candidates
from mdtensor.lower.gpu.streaming.planes import planes_of
from mdtensor.lower.gpu.streaming.pointwise_candidates import point_candidates
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.schedule import MOST_STAGES
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.lower.search.candidates import estimated, ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.program_builder import ProgramBuilder
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_stencil import md_homs_from_stencil
from mdtensor.translate.stencils.stencil_from_function import stencil_from_function
from tests.kernels.kernel_cases import Case, einsum
from tests.lower import fuzz
from tests.problems import einsum_problem as problem_of
from tests.targets import H200


def star(u):
    return u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] + u[0, 0, -1] + u[0, 0, 1]


def stencil(n: int, border: str) -> Problem:
    found = stencil_from_function(star, [TensorSpec.of((n, n, n))])
    return problem_from_md_hom(md_homs_from_stencil(found, Border(border))[0])


def filled(n: int) -> Problem:
    builder = ProgramBuilder([])
    slot = builder.zeros(TensorSpec.of((n, n)))
    return problem_from_md_hom(builder.program([slot]).steps[0].md_hom)


PROBLEMS = {
    "star": stencil(256, "valid"),
    "star in a border": stencil(256, "constant"),
    "outer": problem_of("i,j->ij", (3000,), (1000,)),
    "filled": filled(1000),
    "turned": problem_of("ijk->kji", (256, 64, 512)),
    "flat": problem_of("i,i->i", (1 << 20,), (1 << 20,)),
    "bytes": problem_of("ij,j->ij", (999, 1001), (1001,), dtype="i1"),
    "doubles": problem_of("ij,j->ij", (500, 1000), (1000,), dtype="f8"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_candidates_can_be_rendered_and_keep_the_limits(name):
    problem = PROBLEMS[name]
    found = list(point_candidates(problem, H200))
    assert len(found) == len(set(found)) > 10
    for schedule in found[:: len(found) // 6]:
        assert 32 <= math.prod(schedule.threads) <= H200.max_threads
        assert 0 < estimated(problem, schedule, H200) < 1
        assert "__global__" in program_of(problem, schedule, CUDA).text


@pytest.mark.parametrize(
    "sizes",
    [einsum("ijk->kji", {"i": 21, "j": 3, "k": 37}), einsum("i,j->ij", {"i": 50, "j": 131})],
)
def test_candidates_are_right(sizes):
    problem = Case(sizes, None).problem()
    found = list(point_candidates(problem, H200))
    for schedule in found[:: len(found) // 12]:
        assert fuzz.check(Case(sizes, schedule))


def test_stencils_share_planes_and_rows():
    for name in ("star", "star in a border"):
        (_, best), *others = ranked(PROBLEMS[name], H200)
        assert best.resident
        assert best.threads[-1] >= 32
        # Results in a border begin at odd places, where planes were seen to be no faster.
        assert (best.march, any(best.staged)) == ((True,) * 2 if name == "star" else (False,) * 2)
        unstaged = next(s for _, s in [(0, best), *others] if s.resident and not any(s.staged))
        assert unstaged.registers[0] >= 4


def test_planes_come_to_whole_rows_of_groups_that_a_core_has_at_once():
    (_, best), *_ = ranked(PROBLEMS["star"], H200)
    assert best.registers[2] * best.threads[2] >= 254
    groups = math.prod(best.parts)
    assert H200.cores / 2 < groups <= 8 * H200.cores
    lone = replace(best, parts=(1, *best.parts[1:]), stages=2)
    assert estimated(PROBLEMS["star"], lone, H200) > 1.2 * estimated(PROBLEMS["star"], best, H200)


def test_as_many_planes_come_as_the_bandwidth_takes():
    problem, target = stencil(512, "valid"), replace(H200, local_bytes=227 << 10, bulk_copies=True)
    found = list(plane_candidates(problem, target))
    stored = [s for s in found if not s.results]
    assert {s.stages for s in stored} > {2, 3, 5}
    alone = [s for s in stored if math.prod(s.parts) == 128 and s.stages < MOST_STAGES]
    assert alone
    for schedule in alone:  # a group of each core
        (planes,) = planes_of(problem, schedule, tilings_of(problem, schedule))
        nbytes = 4 * planes.size
        wanted = STORED.on_their_way * target.bandwidth / 128
        assert schedule.stages == 2 or (schedule.stages - 2) * nbytes <= wanted


def test_results_leave_in_runs_where_they_can():
    target = replace(H200, local_bytes=227 << 10, bulk_copies=True)
    (_, best), *_ = ranked(stencil(512, "valid"), target)
    assert (best.march, best.results) == (True, "local")
    assert math.prod(best.threads) <= 512
    for problem, device in ((PROBLEMS["star"], H200), (PROBLEMS["star in a border"], target)):
        assert not any(s.results for s in plane_candidates(problem, device))


def test_blocks_begin_where_results_can_be_written_at_once():
    found = point_candidates(PROBLEMS["star in a border"], H200)
    assert {schedule.lead for schedule in found} >= {(), (0, 0, 1)}


def test_what_lies_across_the_results_goes_through_local_memory():
    _, best = ranked(PROBLEMS["turned"], H200)[0]
    assert best.staged == ("local",)


def test_planes_that_are_read_once_cost_less():
    problem = PROBLEMS["star"]
    best = next(s for _, s in ranked(problem, H200) if s.resident and not any(s.staged))
    single = replace(best, registers=(1, 1, 1), chunks=(1, 1, 1), parts=(254,) * 3)
    assert estimated(problem, best, H200) < estimated(problem, single, H200)
