"""First calls on random structures: what is timed are calls that run, of all kinds."""

from __future__ import annotations

import numpy as np
import pytest

from bench.first_structures import KINDS, Draw, Found, case_of, summary


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_calls_run(number: int) -> None:
    draw = Draw(f"test/{number}")
    draw.points = 1e3
    found = KINDS[number](draw).call()
    assert all(np.size(each) for each in (found if isinstance(found, tuple) else (found,)))


def test_a_case_is_known_by_its_number() -> None:
    assert case_of(3, 7).words == case_of(3, 7).words != case_of(4, 7).words


def test_what_is_above_the_bound_is_counted() -> None:
    lines = summary([Found("slow", (4.0, 2.0, 5.0)), Found("right", (1.0, 3.0, 1.0))], 1)
    assert lines[1].endswith("slow")
    assert "2 structures, 1 left out" in lines[-1]
    assert "largest 2.00, 1 above 1.5" in lines[-1]
