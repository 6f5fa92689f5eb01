"""Peers on GPUs: compilers that take too long, and which case of a task has to wait for what."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from bench import cuda
from bench.cuda import Cases
from bench.cuda_cases import CASES
from bench.cuda_peers import JAX, call_in_time
from bench.cuda_references import References
from bench.families import BEYOND, EINSUM, FAMILIES, in_order
from bench.results import CaseResult, case_of

WORKLOADS = {workload.name: workload for workload in CASES[BEYOND]}
NAMES = ("logsumexp-512x512x512", "argmax-rows-4096x4096")


def test_a_compiler_that_ends_is_waited_for() -> None:
    done: list[str] = []
    call_in_time(lambda: done.append("compiled"), 60)
    assert done == ["compiled"]

    def refuse() -> None:
        raise NotImplementedError("no such kernel")

    with pytest.raises(NotImplementedError, match="no such kernel"):
        call_in_time(refuse, 60)


def test_a_compiler_that_does_not_end_is_not_waited_for() -> None:
    end = threading.Event()
    with pytest.raises(TimeoutError, match=r"^not compiled within 0\.01 s$"):
        call_in_time(end.wait, 0.01)
    end.set()


class Clock:
    """Stands for the clock of XLA's calls."""

    def __init__(self, *_: Any) -> None:
        pass

    def times(self, calls: list[Any], rounds: int) -> list[list[float]]:
        return [[1e-3] * rounds for _ in calls]


def without_a_device(monkeypatch: pytest.MonkeyPatch, calls: dict[str, Any]) -> Cases:
    """Cases of which all but XLA's part was measured, with these calls of XLA."""
    cases = object.__new__(Cases)
    cases.device, cases.peers, cases.compiling = _Anything(), {JAX: _Anything()}, ""
    cases._kept = {name: (WORKLOADS[name], [], (), ()) for name in NAMES}
    monkeypatch.setattr(cuda, "calls_of", lambda *_, **__: calls)
    monkeypatch.setattr(cuda, "HostClock", Clock)
    return cases


class _Anything:
    """Stands for a device, on which every result is right."""

    def __getattr__(self, name: str) -> Any:
        return _Anything()

    def __call__(self, *_: Any) -> Any:
        return _Anything()

    def __float__(self) -> float:
        return 0.0

    def __le__(self, other: object) -> bool:
        return True


def measured(name: str) -> CaseResult:
    return case_of(
        WORKLOADS[name],
        date="2026-01-01",
        processes="one for all",
        measurements=(),
        refused={"cupy rows": "slow"},
    )


def test_xla_is_measured_after_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ValueError("no such shape")

    cases = without_a_device(monkeypatch, {"broadcast": lambda: None, "other": refuse})
    row = cases.with_xla(measured(NAMES[0]))
    assert [(each.engine, each.call, each.seconds) for each in row.measurements] == [
        (JAX, "broadcast", 1e-3)
    ]
    assert row.refused == {"cupy rows": "slow", "jax other": "ValueError: no such shape"}


def test_a_case_that_xla_compiles_for_ever_keeps_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()
    cases = without_a_device(monkeypatch, {"broadcast": end.wait})
    monkeypatch.setattr(cuda, "COMPILING", 0.01)
    rows = [cases.with_xla(measured(name)) for name in NAMES]
    end.set()
    assert rows[0].refused == {"cupy rows": "slow", "jax broadcast": "not compiled within 0.01 s"}
    assert rows[1] == measured(NAMES[1])  # `--without jax` finds it
    assert cases.compiling == NAMES[0]


def test_cases_need_not_wait_for_the_references_of_others() -> None:
    with References(BEYOND, ["no case"]) as references:
        assert references.has("a case whose results the device computes")
        with pytest.raises(KeyError):
            references.of("no case")
        assert references.has("no case")


def test_cases_are_in_the_order_of_their_patterns() -> None:
    pattern = "matmul-1x*,dot-10^7,matmul-1x1000x2048"
    assert [workload.name for workload in in_order(CASES[EINSUM], pattern)] == [
        *("matmul-1x1000x2048", "matmul-1x4096x25088"),
        "dot-10^7",
    ]
    assert in_order(CASES[EINSUM], None) == list(CASES[EINSUM])


def test_torch_links_a_whole_register_on_a_gpu_alone() -> None:
    name = "prl-2^15x2^15"
    (on_processors,) = (each for each in FAMILIES[BEYOND] if each.name == name)
    assert {*WORKLOADS[name].words} - {*on_processors.words} == {"torch"}
    here, there = (w.operands() for w in (on_processors, WORKLOADS[name]))
    assert all(np.array_equal(one, other) for one, other in zip(here, there, strict=True))
