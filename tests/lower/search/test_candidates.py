"""Candidates for CPUs, and the space that a search walks: valid, and made for what is read."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from random import Random

import ml_dtypes
import numpy as np
import pytest

from mdtensor.autotune.space.space import Space
from mdtensor.lower.cpu.cost.cpu_cost import estimate, least_seconds
from mdtensor.lower.cpu.cpu_candidates import cpu_candidates
from mdtensor.lower.cpu.parallelism import divided
from mdtensor.lower.lowering import lowered
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.schedule.rules.row_stores import unlike_rows
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.search.candidates import ranked
from mdtensor.lower.search.schedule_space import configuration_from, parameters_of, schedule_from
from mdtensor.specs import TensorSpec
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from tests.kernels.kernel_cases import prefix_sums
from tests.lower.codegen.memory.test_prefetch import box, star, stencil
from tests.problems import einsum_problem as einsum
from tests.targets import CPU

AVX2 = replace(CPU, vector_bytes=32, vector_registers=16, units=2)
BFLOAT = np.dtype(ml_dtypes.bfloat16).name
PROBLEMS = {
    "box": stencil(box, 4096, 4096),
    "small box": stencil(box, 224, 224),
    "star": stencil(star, 256, 256, 256),
    "matmul": einsum("ij,jk->ik", (1000, 999), (999, 1001)),
    "matvec": einsum("ij,j->i", (4096, 4096), (4096,)),
    "product": einsum("ij,i->ij", (4095, 4095), (4095,)),
    "windows": einsum("h+r c, r c -> h c", (114, 32), (3, 32)),
    "scan": problem_from_md_hom(prefix_sums(1, 1 << 22, "j")),
    "capsules": einsum("pcib,kcbj->pkij", (12544, 27, 4, 4), (32, 27, 4, 4)),
    "complex matmul": einsum("ij,jk->ik", (300, 301), (301, 305), dtype="c8"),
    "swapped axes": einsum("ij->ji", (1000, 1024)),
    "bfloat16 matmul": einsum("ij,jk->ik", (1000, 999), (999, 1001), dtype=BFLOAT),
    "float16 windows": einsum("n h+r c, r c k -> n h k", (2, 114, 32), (3, 32, 64), dtype="f2"),
    "factors with no dim in common": einsum("ij,k->i", (512, 64), (600,)),
    "many streams": einsum(",".join(["ij"] * 16) + "->j", *[(1000, 2000)] * 16),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_candidates_are_valid(name):
    problem = PROBLEMS[name]
    for schedule in cpu_candidates(problem, CPU):
        validate(problem, schedule)


@pytest.mark.parametrize("dtype", ["f2", BFLOAT])
def test_products_of_short_floats_are_widened_once_for_a_tile(dtype: str) -> None:
    shapes = (1024, 1024), (1024, 1024)
    narrow, wide = (einsum("ij,jk->ik", *shapes, dtype=each) for each in (dtype, "f4"))
    for target in (CPU, AVX2):
        assert ranked(narrow, target)[0][1].staged == ("scratch", "scratch")
        assert not any(all(s.staged) for s in cpu_candidates(wide, target))


def test_short_floats_that_are_read_once_stay_where_they_are() -> None:
    row = einsum("ij,j->i", (4096, 4096), (4096,), dtype=BFLOAT)
    assert not any(ranked(row, CPU)[0][1].staged)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", PROBLEMS)
def test_candidates_for_general_kernels_fit_the_structure(name):
    problem = PROBLEMS[name]
    structure, _ = generalised(problem)
    for schedule in cpu_candidates(problem, CPU, general=True):
        lowered(structure, schedule)


def test_rows_of_a_stencil_share_what_they_read():
    best = ranked(PROBLEMS["small box"], CPU)[0][1]
    assert best.registers[0] > 1


def test_windows_that_overlap_are_unrolled_as_a_whole():
    problem = PROBLEMS["windows"]
    (window,) = problem.contracted
    unrolled = [s for s in cpu_candidates(problem, CPU) if s.registers[window] == 3]
    rolled = replace(unrolled[0], registers=_with(unrolled[0].registers, window, 1))
    assert estimate(problem, unrolled[0], CPU) < estimate(problem, rolled, CPU)
    space, rng = Space(parameters_of(problem, CPU)), Random(2)
    drawn = {schedule_from(problem, CPU, space.sample(rng)).registers[window] for _ in range(100)}
    assert 3 in drawn


def _with(values: tuple[int, ...], d: int, value: int) -> tuple[int, ...]:
    return (*values[:d], value, *values[d + 1 :])


def test_groups_that_share_a_scan_take_turns_in_parts_that_caches_hold():
    problem = PROBLEMS["scan"]
    best = ranked(problem, CPU)[0][1]
    assert best.in_turn
    nbytes = 4 * problem.extent(problem.scanned) // best.parts[problem.scanned]
    assert nbytes <= CPU.l2_bytes
    assert not any(s.in_turn for _, s in ranked(problem, CPU, general=True))


def test_results_that_no_cache_holds_bypass_them():
    best = ranked(PROBLEMS["star"], CPU)[0][1]
    assert best.streaming
    assert best.peel, "rows of 252 begin anywhere"
    assert not unlike_rows(PROBLEMS["star"], best), "short rows have many ends"
    assert not any(s.streaming or s.ahead for s in cpu_candidates(PROBLEMS["small box"], CPU))


def test_few_rows_that_begin_differently_are_joined():
    problem = PROBLEMS["box"]
    joined = [s for s in cpu_candidates(problem, CPU) if s.peel and unlike_rows(problem, s)]
    assert joined
    assert all(s.streaming and 1 < s.registers[0] <= 4 for s in joined)
    best = ranked(problem, replace(CPU, units=2, rate=2.6e9 * 32))[0][1]
    assert best.peel
    assert unlike_rows(problem, best), "where arithmetic is no longer than memory"
    general = cpu_candidates(problem, CPU, general=True)
    assert not any(s.peel and unlike_rows(problem, s) for s in general)


def test_what_joined_rows_keep_counts_as_registers():
    problem = PROBLEMS["box"]
    row = next(s for s in cpu_candidates(problem, CPU) if s.peel and s.registers == (4, 32))
    few = replace(CPU, vector_registers=8 + 2 + 1 + 3)
    assert estimate(problem, row, few) == estimate(problem, row, CPU)
    fewer = replace(few, vector_registers=few.vector_registers - 1)
    assert estimate(problem, row, fewer) > estimate(problem, row, few)


def test_one_run_that_no_cache_holds_is_asked_for_ahead():
    large = einsum("i->", (1 << 24,))
    for general in (False, True):
        best = ranked(large, CPU, general=general)[0][1]
        assert best.lane == 0
        assert best.ahead * best.registers[0] * 4 == 16384, "four pages"
        assert estimate(large, best, CPU) < estimate(large, replace(best, ahead=0), CPU)
    assert not any(s.ahead for s in cpu_candidates(einsum("i->", (100 * 4096,)), CPU))


def test_what_reads_nothing_has_candidates_though_no_cache_holds_its_result():
    places = md_hom_from_reduction(
        Reduction("->i", lambda *, i: i, "add", extents={"i": 1 << 24}), []
    )
    for general in (False, True):
        assert ranked(problem_from_md_hom(places), CPU, general=general)


def test_several_runs_side_by_side_need_nobody_to_ask():
    rows = einsum("ij->i", (4096, 4096))
    for general in (False, True):
        best = ranked(rows, CPU, general=general)[0][1]
        assert (best.lane, best.ahead) == (1, 0)
        assert best.registers[0] >= 4
    short = einsum("ij->i", (1 << 20, 16))
    assert all(s.registers[0] == 1 for s in cpu_candidates(short, CPU) if s.lane == 1)


def test_runs_are_walked_alone_where_every_vector_is_computed_for_long():
    extremes = problem_from_md_hom(
        md_hom_from_reduction(Reduction("ij->i", None, "max"), [TensorSpec.of((4096, 4096))])
    )
    best = ranked(extremes, CPU)[0][1]
    assert best.registers[0] == 1
    assert best.ahead
    several = replace(best, registers=(4, best.registers[1]))
    assert estimate(extremes, several, CPU) > 1.1 * estimate(extremes, best, CPU)


def test_columns_are_not_asked_for_ahead():
    columns = einsum("ij->j", (4096, 4096))
    along = [s for s in cpu_candidates(columns, CPU) if s.lane == 1]
    assert along
    assert not any(s.ahead for s in along), "the next row is no neighbour"


def test_what_is_staged_bypasses_the_caches_where_results_are_large():
    taps = ("hc,kc->hk", (200000, 27), (64, 27))  # 51 MB of results; k is far apart in the factor
    large, small = einsum(*taps), einsum("hc,kc->hk", (500, 27), (64, 27))
    both = [s for s in cpu_candidates(large, CPU) if s.streaming and any(s.staged)]
    assert both
    for schedule in both:
        validate(large, schedule)
    best = ranked(large, CPU)[0][1]
    assert best.streaming
    assert any(best.staged)
    assert not any(s.streaming for s in cpu_candidates(small, CPU))
    assert not any(s.streaming and any(s.staged) for s in cpu_candidates(large, CPU, general=True))


def test_results_that_caches_hold_stay_there():
    problem = einsum("h+r w+s c, r s c -> h w c", (112, 112, 32), (3, 3, 32))
    best = ranked(problem, CPU)[0][1]
    assert not best.streaming
    streamed = replace(best, streaming=True)
    validate(problem, streamed)
    assert estimate(problem, streamed, CPU) > 1.2 * estimate(problem, best, CPU)


def test_results_that_lie_far_apart_along_the_lanes_are_transposed():
    problem = PROBLEMS["capsules"]
    _, best = ranked(problem, CPU)[0]
    assert best.transposed
    assert [best.registers[problem.labels.index(d)] for d in "ij"] == [4, 4], "one line of results"
    assert not any(s.transposed for s in cpu_candidates(PROBLEMS["box"], CPU))


def test_shared_reads_count_once():
    problem = PROBLEMS["small box"]
    candidates = {s.registers: s for s in cpu_candidates(problem, CPU) if s.lane == 1}
    times = [estimate(problem, candidates[rows, 32], CPU) for rows in (1, 4)]
    assert times[1] < 0.8 * times[0]


@pytest.mark.parametrize("name", PROBLEMS)
def test_configurations_of_the_space_are_valid(name):
    problem = PROBLEMS[name]
    space = Space(parameters_of(problem, CPU))
    rng = Random(1)
    seen = set[tuple[bool, bool, bool]]()
    transposed = set[bool]()
    for _ in range(300):
        schedule = schedule_from(problem, CPU, space.sample(rng))
        validate(problem, schedule)
        seen.add((schedule.peel, schedule.streaming, schedule.ahead > 0))
        transposed.add(schedule.transposed)
        again = space.nearest(configuration_from(problem, schedule), rng)
        assert again is not None
        assert schedule_from(problem, CPU, again) == schedule
    assert any(ahead for _, _, ahead in seen)
    if name in ("capsules", "swapped axes"):
        assert transposed == {True, False}
    if name in ("box", "star", "product"):
        assert {peel for peel, _, _ in seen} == {True, False}


def test_steps_of_a_window_can_be_tiles_of_one():
    problem = einsum("h+r w+s c, k r s c -> h w k", (9, 9, 512), (512, 3, 3, 512))
    rows = next(d for d in problem.contracted if problem.extent(d) == 3)
    values = {parameter.name: parameter.values for parameter in parameters_of(problem, CPU)}
    assert values[f"t{rows}"] == (0, 1)
    assert 1 not in values[f"t{problem.kept[0]}"]


def test_short_rows_are_padded_where_narrower_vectors_would_be_several():
    ten = list(cpu_candidates(einsum("ij,jk->ik", (100, 500), (500, 10)), CPU))
    padded = [schedule for schedule in ten if schedule.tail == "pad"]
    assert padded, "two lanes behind eight"
    assert all(schedule.registers[2] == 16 for schedule in padded), "one vector has them all"
    eight = cpu_candidates(einsum("ij,jk->ik", (100, 500), (500, 8)), CPU)
    assert not any(schedule.tail == "pad" for schedule in eight), "one narrower vector"
    names = cpu_candidates(einsum("ij,jk->ik", (100, 500), (500, 10)), CPU, general=True)
    assert not any(schedule.tail == "pad" for schedule in names), "general kernels have all lengths"


def test_few_rows_read_columns_where_they_are_as_many_as_the_nearest_cache_holds():
    _, best = ranked(einsum("ij,jk->ik", (64, 500), (500, 800)), CPU)[0]
    assert not any(best.staged)
    assert best.tiles[1]
    assert best.tiles[2] == best.registers[2]


def test_products_of_complex_numbers_have_lanes_along_every_second_element():
    seconds, first = ranked(PROBLEMS["complex matmul"], CPU)[0]
    assert (first.lane, first.width) == (2, 16)
    scalar = replace(first, lane=-1, width=1, registers=(1, 1, 1))
    assert seconds < 0.2 * estimate(PROBLEMS["complex matmul"], scalar, CPU)


def test_complex_numbers_that_are_stored_have_lanes_too():
    product = einsum("ij,ij->ij", (300, 301), (300, 301), dtype="c8")
    _, first = ranked(product, CPU)[0]
    assert first.width == 16


def test_rows_of_complex_numbers_are_read_along_themselves():
    _, first = ranked(einsum("ij,j->i", (1000, 1000), (1000,), dtype="c8"), CPU)[0]
    assert (first.lane, first.width) == (1, 16)


@pytest.mark.parametrize("shape", [(300, 301, 305), (256, 256, 256), (128, 128, 128)])
def test_products_of_complex_numbers_are_staged_first(shape: tuple[int, int, int]):
    m, k, n = shape
    _, first = ranked(einsum("ij,jk->ik", (m, k), (k, n), dtype="c8"), CPU)[0]
    assert first.staged == ("", "scratch")


def test_both_halves_of_complex_numbers_are_staged_apart():
    product = einsum("ij,jk->ik", (256, 256), (256, 256), dtype="c8")
    _, first = ranked(product, CPU)[0]
    assert first.staged == ("", "scratch")
    assert first.width == 16


TARGETS = {
    "one": replace(CPU, cores=1),
    "two": replace(CPU, cores=2),
    "many": replace(CPU, cores=64),
}


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_no_more_than_are_asked_for_are_the_first_of_all(name, general):
    problem = PROBLEMS[name]
    everything = ranked(problem, CPU, general=general)
    for most in (1, 2, 7):
        assert ranked(problem, CPU, general=general, most=most)[:most] == everything[:most]


def test_what_cannot_be_best_is_not_estimated():
    problem = PROBLEMS["matmul"]
    assert len(ranked(problem, CPU, most=2)) < 0.6 * len(ranked(problem, CPU))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_least_seconds_are_below_the_estimate_in_any_parts(name, general, target):
    problem, cores = PROBLEMS[name], TARGETS[target].cores
    for candidate in islice(cpu_candidates(problem, TARGETS[target], general=general), 0, None, 5):
        least = least_seconds(problem, candidate, TARGETS[target], general=general)
        for groups in (1, 2, cores, 4 * cores, 1000):
            made = divided(problem, candidate, TARGETS[target], groups, split_reductions=True)
            assert least <= estimate(problem, made, TARGETS[target], general=general)
