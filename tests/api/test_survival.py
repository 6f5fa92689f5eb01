"""A few tries of each campaign of what processes and caches must survive."""

from __future__ import annotations

import contextlib
import shutil
import threading
from pathlib import Path

import pytest

from mdtensor import forks as forks_of_process
from tests.api.survival import damage, exits, interrupts, programs
from tests.api.survival.__main__ import CAMPAIGNS, main


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A cache, and the number of its trials."""
    cache = tmp_path_factory.mktemp("whole") / "cache"
    return cache, damage.made(cache)


@pytest.mark.process
@pytest.mark.parametrize("way", damage.WAYS)
def test_damaged_programs_are_survived(way: str, whole: tuple[Path, int], tmp_path: Path) -> None:
    cache, trials = whole
    shutil.copytree(cache, tmp_path / "cache")
    assert damage.read_where_all_programs_are(way, tmp_path / "cache", trials) == ""


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("campaign", "tries"),
    [("forks", 10), ("kernels", 10), ("ends", 6), ("exits", 4), ("crowd", 4), ("damage", 12)],
)
def test_what_processes_survive(campaign: str, tries: int, tmp_path: Path) -> None:
    """At random moments: tests/test_forks.py has those that a program can be told."""
    assert list(CAMPAIGNS[campaign](tries, 0, tmp_path)) == [""] * tries


@pytest.mark.process
@pytest.mark.parametrize(
    ("device", "work", "tries"),
    [
        ("llvm", "first call of a process", 2),
        ("opencl", "gradient", 9),
        ("opencl", "first call", 9),
    ],
)
def test_interrupts_are_survived(device: str, work: str, tries: int, tmp_path: Path) -> None:
    assert list(interrupts.interrupted(device, work, tries, tmp_path)) == [""] * tries


def test_what_an_interrupt_leaves_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that loses it, and a lock that stays locked."""

    def loses() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            interrupts.gradient()

    held = threading.Lock()
    assert held.acquire()
    monkeypatch.setattr(interrupts, "LONGEST_S", 0.0)
    assert "the interrupt was lost" in interrupts.tried(loses, 3, lambda: None)
    monkeypatch.setattr(forks_of_process, "_kept", [held])
    assert "a lock is held" in interrupts.tried(interrupts.gradient, 3, lambda: None)


@pytest.mark.process
def test_a_campaign_says_what_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(exits, "_PROGRAM", "os.abort()")
    report = tmp_path / "report.json"
    assert main(["--exits", "1", "--report", str(report)]) == 1
    assert "code=-6" in report.read_text(encoding="utf-8")


_WORKING = "while True: pass"
_WAITING = "import threading; threading.Event().wait()"


@pytest.mark.campaign
@pytest.mark.parametrize(("program", "longest_s"), [(_WORKING, 2.0), (_WAITING, 100.0)])
def test_a_process_hangs_that_waits_for_nothing_or_works_on(
    program: str, longest_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "LONGEST_S", longest_s)
    process = programs.started(program, tmp_path)
    assert programs.is_waiting_for_processors(process.pid), "it begins"
    end = programs.ended(process, 0.5)
    assert end.code is None
    assert "wchan" in end.trouble
