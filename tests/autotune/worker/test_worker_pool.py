"""Requests that are served side by side."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mdtensor.autotune.worker.worker import WorkerCrashed, WorkerTimeout
from mdtensor.autotune.worker.worker_pool import Crew

pytestmark = pytest.mark.process

TARGETS = "tests.autotune.worker_targets"


def test_requests_are_served_at_the_same_time(tmp_path: Path) -> None:
    request = {"folder": str(tmp_path), "members": 3}
    with Crew(f"{TARGETS}:meeting", 3) as crew:
        pids = [each.result() for each in [crew.submit(request, 60) for _ in range(3)]]
    assert len(set(pids)) == 3


def test_one_that_hangs_is_replaced_and_the_others_go_on() -> None:
    with Crew(f"{TARGETS}:sleeper", 2) as crew:
        hanging, quick = crew.submit(600.0, 1.0), crew.submit(0.0, 60)
        assert quick.result() == 0.0
        with pytest.raises(WorkerTimeout):
            hanging.result()
        assert [each.result() for each in [crew.submit(0.0, 60) for _ in range(4)]] == [0.0] * 4


def test_closing_waits_for_nobody(tmp_path: Path) -> None:
    with Crew(f"{TARGETS}:meeting", 1) as crew:
        request = {"folder": str(tmp_path), "members": 2}  # of which one never comes
        under_way, waiting = crew.submit(request, 900), crew.submit(request, 900)
        while not any(tmp_path.iterdir()):
            time.sleep(0.01)
    with pytest.raises(WorkerCrashed):
        under_way.result()
    assert waiting.cancelled()
