"""Schedules: their text, and what they say of themselves."""

from __future__ import annotations

import pytest

from mdtensor.errors import LoweringError
from mdtensor.lower.schedule.schedule import Schedule
from tests.kernels.kernel_cases import CASES
from tests.lower import fuzz


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", fuzz.names_of(11, fuzz.FAMILIES, 50))
def test_text_gives_back_the_schedule(name):
    schedule = fuzz.random_case(name).schedule
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert hash(Schedule.from_json(schedule.to_json())) == hash(schedule)


@pytest.mark.parametrize("text", ["", "[]", '{"asm": "cpu"}', '{"colour": "red"}', "null"])
def test_what_is_no_schedule_is_refused(text):
    with pytest.raises(LoweringError, match="not a schedule"):
        Schedule.from_json(text)


def test_description_names_the_dims(golden):
    lines = [CASES[n].schedule.describe(CASES[n].problem()) for n in ("matmul_staged", "gpu_outer")]
    golden("schedules.txt", "\n\n".join(lines) + "\n")
