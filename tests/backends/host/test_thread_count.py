"""How many threads kernels get."""

from __future__ import annotations

import math
import os

import pytest

from mdtensor.backends.host import thread_count as module
from mdtensor.backends.host.hardware import core_count
from mdtensor.backends.host.thread_count import thread_count


@pytest.mark.parametrize(
    ("said", "threads"),
    [("1", 1), ("3,2", 3), (" 2 ", 2), ("", math.inf), ("0", math.inf), ("many", math.inf)],
)
def test_threads_that_openmp_would_take(said, threads):
    assert module._asked_for({"OMP_NUM_THREADS": said}) == threads


@pytest.mark.parametrize(
    ("file", "text", "threads"),
    [
        ("cpu.max", "200000 100000\n", 2),
        ("cpu.max", "150000 100000\n", 2),
        ("cpu.max", "1000 100000\n", 1),
        ("cpu.max", "max 100000\n", math.inf),
        ("cpu.max", "nonsense\n", math.inf),
        ("cpu/cpu.cfs_quota_us", "300000\n", 3),
        ("cpu/cpu.cfs_quota_us", "-1\n", math.inf),
        ("other", "", math.inf),
    ],
)
def test_threads_that_a_control_group_grants(tmp_path, file, text, threads):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    assert module._granted(tmp_path) == threads


def test_the_least_of_all_counts(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert thread_count() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "100000")
    assert 1 <= thread_count() <= core_count()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity")
def test_one_core_is_one_thread():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert thread_count() == 1
    finally:
        os.sched_setaffinity(0, allowed)
