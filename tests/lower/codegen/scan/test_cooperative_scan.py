"""Scans by work-items and groups together, against the oracle."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.lowering import lowered
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from tests.kernels.kernel_cases import compositions, gpu, prefix_sums
from tests.lower import fuzz
from tests.lower.md_hom_cases import MDHomCase, single_case
from tests.lower.random_resident import random_scan_schedule
from tests.lower.running import device

SMALL = (-9, 9)


def rows(shape: tuple[int, int] = (3, 301), **values: object) -> MDHomCase:
    plain = {"threads": (1, 64), "registers": (1, 8), "chunks": (1, 4), "staged": ("", "")}
    schedule = gpu(2, (1,), **(plain | {"resident": True} | values))
    return single_case(prefix_sums(*shape, "j"), schedule, (SMALL, SMALL))


def columns(shape: tuple[int, int] = (45, 19), **values: object) -> MDHomCase:
    plain = {"threads": (4, 8), "registers": (3, 1), "staged": ("", ""), "resident": True}
    schedule = gpu(2, (0,), **(plain | values))
    return single_case(prefix_sums(*shape, "i"), schedule, (SMALL, SMALL))


def chain(count: int = 1001, **values: object) -> MDHomCase:
    plain = {"threads": (32,), "registers": (2,), "staged": ("",), "resident": True}
    schedule = gpu(1, (0,), **(plain | values))
    return single_case(compositions(count), schedule, (SMALL,))


CASES = {
    "one block": rows((3, 512), parts=(3, 1)),
    "what remains of a block": rows((3, 211), parts=(3, 1)),
    "several blocks of a group": rows((3, 1301), parts=(3, 1)),
    "rows by one group": rows((5, 130), parts=(1, 1), threads=(1, 32)),
    "rows by half warps": rows((5, 130), threads=(4, 16), registers=(2, 4), chunks=(1, 2)),
    "rows by two warps each": rows((5, 130), threads=(2, 64), registers=(2, 1), chunks=()),
    "less than a warp": rows((3, 67), threads=(1, 8)),
    "work-items that are no whole warps": rows((3, 67), threads=(1, 12)),
    "columns": columns(),
    "columns of several blocks": columns(parts=(1, 2), registers=(2, 2)),
    "columns by one work-item each": columns(threads=(1, 16)),
    "groups tell each other": rows((2, 2100), parts=(2, 5)),
    "many groups": rows((2, 5003), parts=(2, 79), threads=(1, 32), registers=(1, 2), chunks=()),
    "order is kept": chain(parts=(1,)),
    "order is kept by groups": chain(parts=(100,)),
    "general": replace(rows((3, 301), parts=(0, 1)), general=True),
}


@pytest.mark.parametrize("name", CASES)
def test_named_cases(name):
    assert fuzz.check(CASES[name])


def test_random_schedules():
    checked = 0
    for number, name in enumerate(fuzz.names_of(16, ("gpu",), 90, kind=fuzz.MD_HOM)):
        case = fuzz.random_case(name)
        problems = case.problems()
        if len(problems) > 1 or problems[0].scanned < 0:
            continue
        schedule = random_scan_schedule(random.Random(number), problems[0])
        checked += fuzz.check(replace(case, schedules=(schedule,)))
    assert checked > 5


def text_of(name: str) -> str:
    case = CASES[name]
    return program_of(case.problem(), case.schedule, CUDA).text


def test_elements_and_results_move_in_wide_pieces():
    text = text_of("one block")
    assert text.count("*(const float4*)(b0") == 2
    assert text.count("__shfl_up_sync") == 2 * (5 + 1)


def test_launches_follow_each_other():
    """Counters are left as the next launch needs them."""
    case = CASES["many groups"]
    source = program_of(case.problem(), case.schedule, OPENCL)
    assert [entry.name for entry in source.entries] == ["kernel_0"]
    program = device().compile(source)
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.integers(-9, 9, (2, 5003)).astype(np.float32)
        bias = rng.integers(-9, 9, 5003).astype(np.float32)
        out = np.full((2, 5003), np.nan, np.float32)
        program(x, bias, out)
        np.testing.assert_array_equal(out, 2 * np.cumsum(x, 1) + bias)


def test_a_group_has_words_for_every_four_bytes():
    case = CASES["order is kept by groups"]
    (nest,) = lowered(case.problem(), case.schedule)
    assert nest.in_order
    assert nest.groups.constant == 16
    assert nest.counters.constant == 2 + 16 * 2 * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": (2, 2)}, "a block of a known extent each"),
        ({"parts": (1, 5)}, "one point of the others each"),
        ({"parts": (2, 9), "threads": (1, 40)}, "have whole warps along it"),
        ({"parts": (2, 5), "group_order": (1, 0)}, "have whole warps along it"),
        ({"last_group": True}, "a scan has no lead, no warps of its own shape and no swaths"),
        ({"staged": ("local", "")}, "a scan reads its inputs as they come"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    case = CASES["groups tell each other"]
    schedule: Schedule = replace(case.schedule, **changes)
    with pytest.raises(LoweringError, match=message):
        validate(case.problem(), schedule)
