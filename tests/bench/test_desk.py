"""Jobs on several GPUs, cut off and gone on with."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.desk import Desk, share_of

pytestmark = pytest.mark.process

WORK = """
import os, pathlib, sys, time
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
part = pathlib.Path(sys.argv[1] + ".part")
part.write_text(os.environ["CUDA_VISIBLE_DEVICES"] + " " + cores)
part.replace(sys.argv[1])
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A job, and those that must be done before."""

    stem: str
    before: tuple[Step, ...] = ()


def needs(step: Step) -> Sequence[Step]:
    return step.before


def desk_of(out: Path, gpus: tuple[str, ...] = ("0", "1"), after: Path | None = None) -> Desk[Step]:
    """A desk whose jobs end once a file is there."""

    def command(step: Step) -> list[str]:
        result = out / f"{step.stem}.json"
        return [sys.executable, "-c", WORK, str(result), str(after or out)]

    return Desk(out, gpus, command)


A, B = Step("a"), Step("b")
LAST = Step("a-b", (A, B))
STEPS = [A, B, LAST]


def test_every_job_has_a_gpu_its_share_of_cores_and_what_it_needs(tmp_path: Path) -> None:
    desk, all_cores = desk_of(tmp_path), os.sched_getaffinity(0)
    assert desk.work(STEPS, needs, 60)
    found = {step: desk.result(step).read_text().split() for step in STEPS}
    assert {gpu for gpu, _ in found.values()} == {"0", "1"}
    for gpu, cores in found.values():
        assert list(map(int, cores.split(","))) == share_of(gpu, "01", sorted(all_cores))
    assert os.sched_getaffinity(0) == all_cores
    made = [desk.result(step).stat().st_mtime_ns for step in STEPS]
    assert max(made) == made[-1]


def test_what_is_there_is_not_done_again(tmp_path: Path) -> None:
    for step in STEPS:
        desk_of(tmp_path).result(step).write_text("mine")
    assert desk_of(tmp_path).work(STEPS, needs, 60)
    assert [desk_of(tmp_path).result(step).read_text() for step in STEPS] == ["mine"] * 3


def test_what_is_under_way_is_awaited_by_a_later_call(tmp_path: Path) -> None:
    earlier = desk_of(tmp_path, after=tmp_path / "end")
    assert not earlier.work([A], needs, 0.0)
    later = desk_of(tmp_path, ("1",))
    assert later.gpu_of(A) == "0"
    (tmp_path / "end").touch()
    assert later.work([A], needs, 60)
    assert later.result(A).read_text().split()[0] == "0"
    assert earlier.work([A], needs, 60)  # which takes note of its end
    assert earlier.gpu_of(A) is later.gpu_of(A) is None


def test_a_job_that_fails_is_not_begun_again_and_others_wait_for_nothing(tmp_path: Path) -> None:
    desk = Desk[Step](tmp_path, ("0",), lambda step: [sys.executable, "-c", "raise SystemExit(1)"])
    assert not desk.work(STEPS, needs, 60)
    assert not list(tmp_path.glob("*.json"))
    assert not list(tmp_path.glob("*.running"))
