"""A few hundred random functions of Python for every front end that traces them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.translate import fuzz_python
from tests.translate.programs.comparing import same
from tests.translate.programs.shrinking import shortest
from tests.workers import COMPILER, RIGHT, MismatchError

COUNT = int(os.environ.get("MDTENSOR_TEST_FUNCTIONS", "20"))


@pytest.mark.process
def test_random_functions() -> None:
    report = fuzz_python.WORKERS.run(fuzz_python.names_of(5, COUNT))
    assert not report.failures, str(report)
    evaluated, compiled = (report.counts[f"{RIGHT}, {how}"] for how in ("evaluated", "compiled"))
    assert evaluated + compiled + report.counts[COMPILER] > 0.8 * COUNT, str(report)
    assert compiled + report.counts[COMPILER] > 0.9 * COUNT // fuzz_python.COMPILED - 2


def test_every_front_is_compiled_by_turns() -> None:
    names = fuzz_python.names_of(0, fuzz_python.COMPILED * len(fuzz_python.FRONTS))
    compiled = [n for n in names if int(n.split("/")[2]) % fuzz_python.COMPILED == 0]
    assert {name.split("/")[1] for name in compiled} == set(fuzz_python.FRONTS)


def test_differences_are_seen() -> None:
    same(np.ones(3), [1, 1, 1 + 1e-9], 1e-8)
    for found in (np.array([1, 1, 1 + 1e-7]), np.array([1, np.nan, 1]), np.ones(2)):
        with pytest.raises(MismatchError):
            same(found, np.ones(3), 1e-8)


def test_failures_become_short() -> None:
    text = "def f(a, b):\n    v = a + 3\n    if b > 2:\n        v = b // (a * 2)\n    return v\n"
    found = shortest(text, lambda shorter: "//" in shorter)
    assert found == "def f(a, b):\n    v = b // 2\n    return v\n"
