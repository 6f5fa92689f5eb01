"""The cases that are measured on CUDA devices, and how their results are shown."""

from __future__ import annotations

import pytest

from bench import render
from bench.cuda_cases import CASES
from bench.families import BEYOND, EINSUM, FAMILIES, fits
from bench.results import CaseResult, Measurement, Run
from bench.run import file_for
from mdtensor.specs import TensorSpec


@pytest.mark.parametrize("family", [EINSUM, BEYOND])
def test_cases_have_names_of_their_own_and_peers(family: str) -> None:
    names = [workload.name for workload in CASES[family]]
    assert len(set(names)) == len(names) > 10
    for workload in CASES[family]:
        assert {"mdtensor"} < set(workload.words)
        assert workload.floor is workload.limit_floor is None
        assert all(isinstance(spec, TensorSpec) for spec in (*workload.inputs, *workload.outputs))


@pytest.mark.parametrize("family", [EINSUM, BEYOND])
def test_all_cases_of_processors_are_measured_on_gpus_too(family: str) -> None:
    here = {workload.name for workload in CASES[family]}
    assert {workload.name for workload in FAMILIES[family]} <= here


def test_names_are_chosen_by_patterns() -> None:
    chosen = [w.name for w in CASES[EINSUM] if fits(w, "matmul-1x*,dot")]
    assert chosen == ["dot-2^24", "dot-10^7", "matmul-1x1000x2048", "matmul-1x4096x25088"]
    assert all(fits(w, None) for w in CASES[BEYOND])


def measurement(engine: str, call: str, seconds: float) -> Measurement:
    return Measurement(engine, call, seconds, 0.0, (seconds,), 0.0)


CASE = CaseResult(
    "matmul-8x8x8",
    "ik,kj->ij",
    ((8, 8), (8, 8)),
    "float32",
    1024,
    768,
    "2026-01-01",
    "one for all",
    (
        measurement("torch", "mm", 4e-6),
        measurement("cupy", "matmul", 3e-6),
        measurement("mdtensor", "plan", 2e-6),
        measurement("mdtensor untuned", "plan", 2.5e-6),
    ),
)
RUN = Run(
    "2026-01-01T00:00:00+00:00",
    {"name": "NVIDIA H200", "cores": 132, "driver": "580", "vector_bytes": 4},
    {"python": "3.12", "host_seconds": {"plan, out": 3.5e-6}},
    {"torch": "2.11"},
    {},
    (CASE,),
)


def test_libraries_of_gpus_are_peers() -> None:
    assert CASE.peer == measurement("cupy", "matmul", 3e-6)
    assert CASE.ratio == pytest.approx(1.5)
    assert CASE.untuned_ratio == pytest.approx(0.8)


@pytest.mark.parametrize(("family", "title"), [(EINSUM, "contractions"), (BEYOND, "beyond einsum")])
def test_results_are_shown_under_their_family(family: str, title: str) -> None:
    path = file_for(RUN, f"{family}-cuda")
    assert path.name == f"2026-01-01-nvidia-h200-x132-{family}-cuda.json"
    text = render.rendered(RUN, path.name)
    assert text.startswith(f"## {title}: NVIDIA H200 × 132, 2026-01-01")
    assert "3.00 µs cupy matmul | **1.50**" in text
    assert "costs the host: plan, out 3.50 µs" in text


def test_what_was_measured_on_processors_stays_quoted() -> None:
    found = {path.name for family in (EINSUM, BEYOND) for path in render.result_files(family)}
    assert found
    assert not any("cuda" in name for name in found)
