"""Accumulators that stay in registers: kernels of random schedules against the oracle."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.lowering import lowered
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from tests.kernels.kernel_cases import Case, einsum, gpu, matmul
from tests.lower import fuzz
from tests.lower.random_resident import random_resident_schedule

VALUES = {
    "tiles": (0, 8, 0),
    "threads": (4, 1, 8),
    "registers": (4, 8, 4),
    "chunks": (4, 8, 4),
    "staged": ("local", "local"),
    "resident": True,
}


AS_SOURCES = {"chunks": (1, 8, 4), "as_source": (True, True), "padding": (4, 4)}


def product(**values: object) -> Schedule:
    return gpu(3, (1,), **(VALUES | values))


CASES = {
    "whole blocks": Case(matmul(32, 24, 64), product(parts=(2, 1, 2), prefetch=True)),
    "what remains of every dim": Case(matmul(21, 27, 45), product(parts=(2, 1, 2), prefetch=True)),
    "several blocks a group": Case(matmul(40, 24, 70), product(padding=(4, 0))),
    "chunks far apart, in warps": Case(
        matmul(37, 24, 68),
        product(
            registers=(8, 4, 8), chunks=(4, 4, 4), warp=(2, 1, 4), padding=(4, 0), prefetch=True
        ),
    ),
    "a tile that three work-items do not share out in rows": Case(
        matmul(21, 27, 45), product(threads=(3, 1, 1), chunks=(1, 1, 1))
    ),
    "parts of a reduction": Case(matmul(16, 90, 40), product(parts=(1, 3, 2), prefetch=True)),
    "doubles": Case(matmul(24, 16, 36, "f8"), product(prefetch=True)),
    "half floats": Case(matmul(24, 16, 36, "f2"), product()),
    "bytes": Case(matmul(24, 16, 36, "i1"), product()),
    "one input staged": Case(matmul(21, 27, 45), product(staged=("local", ""))),
    "rows by warps": Case(
        einsum("ij,j->i", {"i": 13, "j": 203}),
        gpu(2, (1,), threads=(2, 16), registers=(2, 8), chunks=(1, 4), resident=True),
    ),
    "rows of whole chunks": Case(
        einsum("ij,j->i", {"i": 13, "j": 256}),
        gpu(2, (1,), parts=(3, 2), threads=(2, 16), registers=(2, 8), chunks=(1, 4), resident=True),
    ),
    "stages": Case(matmul(32, 96, 64), product(parts=(2, 1, 2), stages=3)),
    "stages, some tiles through registers": Case(
        matmul(21, 100, 45), product(parts=(2, 1, 2), padding=(4, 0), stages=2, prefetch=True)
    ),
    "stages, as their sources": Case(
        matmul(37, 60, 64),
        product(chunks=(1, 8, 4), as_source=(True, True), padding=(4, 4), stages=4),
    ),
    "stages of tiles in parts": Case(
        matmul(40, 90, 44), product(parts=(1, 3, 2), stages=3, as_source=(True, False))
    ),
    "more stages than tiles": Case(matmul(16, 8, 24), product(stages=4)),
    "stages of doubles": Case(matmul(24, 48, 36, "f8"), product(stages=3)),
    "stages of half floats": Case(matmul(24, 48, 36, "f2"), product(stages=3)),
    "stages of bytes": Case(matmul(24, 48, 36, "i1"), product(stages=3, prefetch=True)),
    "stages of tiles of two dims": Case(
        einsum("ikl,lkj->ij", {"i": 21, "k": 5, "l": 26, "j": 24}),
        gpu(
            4,
            (1, 2),
            tiles=(0, 1, 8, 0),
            threads=(4, 1, 1, 8),
            registers=(4, 1, 8, 4),
            staged=("local", "local"),
            resident=True,
            stages=3,
        ),
    ),
    "blocks end with their dims": Case(
        matmul(21, 27, 44), product(tail="overlap", parts=(2, 1, 2), prefetch=True)
    ),
    "only rows end with their blocks": Case(
        matmul(21, 27, 45), product(tail="overlap", parts=(2, 1, 2))
    ),
    "blocks that overlap, in stages": Case(
        matmul(37, 60, 44), product(tail="overlap", parts=(3, 1, 2), stages=3, **AS_SOURCES)
    ),
    "blocks that overlap, parts of a reduction": Case(
        matmul(21, 90, 44), product(tail="overlap", parts=(2, 3, 2), last_group=True)
    ),
    "blocks that overlap, parts and a second kernel": Case(
        matmul(21, 90, 44), product(tail="overlap", parts=(2, 3, 2))
    ),
    "blocks that overlap, work-items share points": Case(
        matmul(9, 90, 44),
        product(tail="overlap", threads=(2, 2, 8), tiles=(0, 32, 0), parts=(2, 1, 2)),
    ),
    "blocks that overlap, of nothing staged": Case(
        matmul(21, 27, 44), product(tail="overlap", parts=(2, 1, 2), staged=("", ""))
    ),
    "general, in stages": Case(
        matmul(21, 27, 45), product(parts=(0, 1, 0), prefetch=True, stages=3), general=True
    ),
    "general": Case(matmul(21, 27, 45), product(parts=(0, 1, 0), prefetch=True), general=True),
}


@pytest.mark.parametrize("name", CASES)
def test_named_cases(name):
    assert fuzz.check(CASES[name])


@pytest.mark.parametrize("last_group", [False, True])
def test_random_schedules(last_group):
    checked = 0
    for number in range(40):
        case = fuzz.random_case(f"{14 if last_group else 11}/gpu/{number}")
        problem = case.problem()
        if problem.contracted:
            schedule = random_resident_schedule(random.Random(number), problem)
            schedule = replace(schedule, last_group=last_group or schedule.last_group)
            checked += fuzz.check(replace(case, schedule=schedule))
    assert checked > (12 if last_group else 15)


def test_operands_and_results_move_in_wide_pieces():
    case = CASES["whole blocks"]
    text = program_of(case.problem(), case.schedule, CUDA).text
    for piece in (
        "g0_0 = *(const float4*)(I0",
        "g1_0 = *(const float4*)(I1",
        "= *(const float4*)(p0 + 64);",
        "*(float4*)(S1 + 4*c1_2 + 32*c1_1) = g1_0;",
        "*(float4*)(o0 + 64) = make_float4(a4_0, a5_0, a6_0, a7_0);",
    ):
        assert piece in text


def test_accumulators_are_moved_before_several_are_stored_at_once():
    case = CASES["whole blocks"]
    text = program_of(case.problem(), case.schedule, CUDA).text
    moved = [f'"+f"(a{n}_0));' for n in range(16)]
    assert all(text.count(each) == 1 for each in moved)
    assert text.index(moved[-1]) < text.index("*(float4*)(o0) = ")
    assert "asm" not in program_of(case.problem(), case.schedule, OPENCL).text.lower()


@pytest.mark.parametrize(
    "case",
    [
        Case(matmul(32, 24, 64, "f8"), product(parts=(2, 1, 2))),
        Case(matmul(32, 24, 64), product(registers=(2, 8, 4), chunks=(2, 8, 4))),
        Case(matmul(32, 24, 63), product(parts=(2, 1, 2))),
    ],
    ids=["doubles", "few points", "one at a time"],
)
def test_others_stay_where_they_are(case):
    assert '"+f"' not in program_of(case.problem(), case.schedule, CUDA).text


def test_blocks_that_end_with_their_dims_ask_for_no_end():
    case = CASES["blocks end with their dims"]
    text = program_of(case.problem(), case.schedule, CUDA).text
    assert "t_i = (lo_i < 5 ? lo_i : 5);" in text
    assert "t_k = (lo_k < 12 ? lo_k : 12);" in text
    assert "room" not in text
    assert " < 20 ? " not in text
    assert " < 43 ? " not in text


def test_blocks_along_elements_that_are_accessed_together_begin_where_others_do():
    case = CASES["only rows end with their blocks"]
    assert [t.overlap for t in tilings_of(case.problem(), case.schedule)] == [True, False, False]


@pytest.mark.parametrize(
    "changes", [{"cluster": True}, {"parts": (1, 1, 1)}, {"threads": (8, 1, 8)}], ids=repr
)
def test_blocks_that_do_not_overlap(changes: dict[str, object]):
    plain = {"tail": "overlap", "parts": (2, 3, 2)}
    schedule = product(**(plain | changes))
    assert not tilings_of(Case(matmul(21, 90, 44), schedule).problem(), schedule)[0].overlap


def test_there_is_one_barrier_before_and_one_after_a_tile_is_put():
    case = CASES["whole blocks"]
    text = program_of(case.problem(), case.schedule, CUDA).text
    assert text.count("__syncthreads();") == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"resident": False},
            "schedule.chunks goes with resident accumulators only",
        ),
        ({"chunks": (4, 8)}, "schedule.chunks needs 3 entries or none"),
        ({"chunks": (3, 8, 4)}, "a register tile is a whole number of chunks"),
        ({"warp": (3, 1, 8)}, "the work-items of a dim are a whole number of warps"),
        ({"stages": 2, "tiles": (0, 0, 0)}, "stages need staged inputs and tiles of a reduced dim"),
        ({"prefetch": True, "tiles": (0, 0, 0)}, "prefetch needs staged inputs and tiles of one"),
        (
            {"warp": (4, 1, 1), "threads": (4, 2, 1)},
            "work-items that share a reduction are numbered row by row",
        ),
        (
            {"asm": "cpu", "staged": ("", ""), "threads": (1, 1, 1)},
            "cpu keeps no accumulators over tiles",
        ),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(LoweringError, match=message):
        validate(matmul_problem(), product(**changes))


def test_a_tile_is_not_more_than_work_items_can_hold():
    schedule = product(threads=(1, 1, 1), tiles=(0, 64, 0))
    with pytest.raises(LoweringError, match=r"a work-item would hold 64 pieces of a staged tile"):
        lowered(Case(matmul(32, 640, 64), schedule).problem(), schedule)


def matmul_problem():
    return CASES["whole blocks"].problem()
