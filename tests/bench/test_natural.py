"""Natural calls: which of them are timed, and what is left out."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench import natural
from bench.child import ChildError
from bench.engines import OURS
from bench.families import ALL
from bench.kernels.everyday import EVERYDAY
from bench.natural import Bench, Way, line_of


def test_everyday_cases_are_twenty_with_a_peer() -> None:
    assert len(EVERYDAY) == 20
    assert all({"mdtensor", "numpy", "jax"} <= set(workload.words) for workload in EVERYDAY)


class Process:
    """A device's process: mdtensor takes a second, NumPy two; OpenCL's gives no answer."""

    is_alive = True

    def __init__(self, engines: Any, **variables: str) -> None:
        self.device = variables["MDTENSOR_DEVICE"]

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, do: str, **request: Any) -> Any:
        if do == "prepare" and self.device == "opencl":
            raise ChildError("no answer to prepare in 3 s")
        if do == "prepare":
            calls = ("plan", "einsum", "einsum out") if request["engine"] == OURS else ("dot",)
            return {"errors": {request["prefix"] + call: 0.0 for call in calls}, "refused": {}}
        return {"median": 1.0 if request.get("engine") == OURS else 2.0}


def test_a_device_that_fails_is_told_and_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(natural, "Child", Process)
    monkeypatch.setattr(natural, "PAUSE_SECONDS", 0.0)
    options = argparse.Namespace(
        device=["llvm", "opencl"], seconds=1.0, rounds=2, batch_seconds=0.1, limit=3.0, out=None
    )
    (workload,) = (each for each in ALL if each.name == "bmatmul-1000x4x4x4")
    with ExitStack() as stack:
        row = Bench(options, stack, (OURS, "numpy")).row(workload, tmp_path)
    told = capsys.readouterr().out
    assert told == "bmatmul-1000x4x4x4 opencl: no answer to prepare in 3 s\n"
    assert row.seconds == {
        Way("llvm", OURS, "new einsum"): 1.0,
        Way("llvm", OURS, "einsum out"): 1.0,
        Way("llvm", "numpy", "new dot"): 2.0,
        Way("llvm", "numpy", "dot"): 2.0,
    }
    assert line_of(row, options.device).count("2.00") == 2
    assert not list(tmp_path.iterdir())
