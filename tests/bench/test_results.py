"""Result files: what is written can be read, what is derived is right, the table shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import render
from bench.families import BEYOND, EINSUM, selected
from bench.results import Limit, Measurement, Run, case_of, from_json, read, to_json, write


def measured(engine: str, call: str, seconds: float) -> Measurement:
    return Measurement(engine, call, seconds, 0.0, (seconds,), 1e-7)


@pytest.fixture
def run() -> Run:
    hot = {"enqueue": 4e-6, "plan": 5e-6, "einsum": 6e-6}
    host: dict[str, Any] = {
        "hot": hot,
        "asleep": hot,
        "beyond_enqueue": {"plan": 1e-6, "einsum": 2e-6},
        "queue": "worker threads",
    }
    large, small = selected("matmul-1024x1024x1024-float64")[0], selected("table6-17")[0]
    cases = (
        case_of(
            large,
            date="2026-01-01",
            processes="one per engine",
            measurements=(
                measured("mdtensor", "plan", 0.010),
                measured("mdtensor", "einsum", 0.009),
                measured("mdtensor untuned", "plan", 0.016),
                measured("numpy", "dot", 0.013),
                measured("torch", "mm", 0.012),
            ),
            limit=Limit(0.008, "arithmetic", 268e9, None, None),
        ),
        case_of(
            small,
            date="2026-01-01",
            processes="one per engine",
            measurements=(
                measured("mdtensor", "plan", 5e-6),
                measured("mdtensor", "einsum", 6e-6),
                measured("mdtensor untuned", "plan", 10e-6),
                measured("numpy", "einsum", 30e-6),
                measured("numpy", "matmul", 4e-6),
            ),
            host=host,
        ),
    )
    first = {"alone": 4e-4, "in_a_row": 6e-4, "largest": 1e-3, "samples": 9, "compilations": 0}
    device = {"name": "CPU", "cores": 2, "driver": "OpenCL"}
    return Run("2026-01-01", device, {"python": "3.13"}, {"numpy": "2"}, {}, cases, first)


def test_ratios(run: Run) -> None:
    large, small = run.cases
    assert large.ratio == pytest.approx(1.2)
    assert large.limit_ratio == pytest.approx(0.8)
    assert large.untuned_ratio == pytest.approx(0.625)
    assert large.ok is True
    assert small.ratio == pytest.approx(0.8)
    assert small.ok is None


def test_summary(run: Run) -> None:
    assert run.summary() == pytest.approx(
        {
            "geomean to best peer, from 1 MFLOP": 1.2,
            "geomean to best peer, below 1 MFLOP": 0.8,
            "below 1 MFLOP, einsum to numpy.einsum": 5.0,
            "below 1 MFLOP, einsum to numpy.matmul": 4 / 6,
            "below 1 MFLOP, plan to numpy.einsum": 6.0,
            "below 1 MFLOP, plan to numpy.matmul": 0.8,
            "Table 6, einsum to numpy.einsum": 5.0,
            "Table 6, einsum to numpy.matmul": 4 / 6,
            "Table 6, plan to numpy.einsum": 6.0,
            "Table 6, plan to numpy.matmul": 0.8,
            "geomean untuned to tuned": (0.625 * 0.5) ** 0.5,
            "least untuned to tuned": 0.5,
        }
    )


def test_file_is_read_as_it_was_written(run: Run) -> None:
    assert from_json(to_json(run)) == run


def test_file_with_unknown_field_is_refused(run: Run) -> None:
    document = json.loads(to_json(run))
    document["cases"][0]["surprise"] = 1
    with pytest.raises(TypeError, match="surprise"):
        from_json(json.dumps(document))


def test_file_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="no result file of version 1"):
        from_json('{"version": 0}')


def test_later_result_takes_the_place_of_the_earlier(run: Run) -> None:
    again = run.with_case(run.cases[0])
    assert [case.name for case in again.cases] == [case.name for case in run.cases]


def test_table(run: Run) -> None:
    lines = render.rendered(run, "file.json").splitlines()
    assert (
        "| matmul-1024x1024x1024-float64 | 2.15 | 25.2 | 10 ms | 12 ms torch mm | **1.20** | 1.15 "
        "| 80% arithmetic | 0.62 |" in lines
    )
    assert (
        "| table6-17-10x500x64 | 4.00 µs | 5.00 µs | 1.00 µs | 6.00 µs | 2.00 µs | 5.00 µs "
        "| 6.00 µs |" in lines
    )


def test_table_of_a_case_beyond_einsum(run: Run) -> None:
    (scan,) = selected("scan-add-2^24", BEYOND)
    case = case_of(
        scan,
        date="2026-01-01",
        processes="one for all",
        measurements=(
            measured("mdtensor", "call", 0.004),
            measured("mdtensor untuned", "call", 0.005),
            measured("numba", "loop", 0.016),
        ),
        limit=Limit(0.0036, "memory", None, 40e9, 35e9),
    )
    beyond = Run(run.date, run.device, run.system, run.versions, {}, (case,))
    assert from_json(to_json(beyond)) == beyond
    assert case.ok is False
    assert (
        "| scan-add-2^24 | 0.0168 | 134 | 4 ms | 16 ms numba loop | **4.00** | 4.5 missed "
        "| 90% memory | 0.80 |" in render.rendered(beyond, "cpu-kernels.json").splitlines()
    )


@pytest.mark.parametrize("kind", render.QUOTES)
def test_quoted_cases_exist(kind: str) -> None:
    newest = read(render.result_files(kind)[0])
    names = {case.name for case in newest.cases}
    assert {name for _, name in render.QUOTES[kind].cases} <= names


def test_quotes_stand_between_the_marks_of_their_family(run: Run, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nb\n", encoding="utf-8")
    render.quote_in(readme, render.QUOTES[EINSUM], run, "file.json")
    render.quote_in(readme, render.QUOTES[BEYOND], run, "file.json")
    lines = readme.read_text(encoding="utf-8").splitlines()
    assert (lines[0], lines[-1]) == ("a", "b")
    assert "old" not in lines
    assert any("[file](bench/results/file.json)" in line for line in lines)


def test_kept_results_are_well_formed() -> None:
    for path in render.result_files():
        run = read(path)
        assert run.cases
        assert all(m.seconds > 0 for case in run.cases for m in case.measurements)


def test_file_appears_whole(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "results" / "run.json"
    write(run, path)
    assert read(path) == run
    assert list(path.parent.iterdir()) == [path]


def test_titles_say_on_which_days_cases_were_measured(run: Run) -> None:
    name = "2026-01-03-cpu-einsum.json"
    assert render.title_of(run, name).endswith("CPU × 2, 2026-01-01")
    large, small = run.cases
    later = run.with_case(replace(small, date="2026-01-03T10:00:00+00:00"))
    assert render.title_of(later, name).endswith(", 2026-01-01 to 2026-01-03")
    assert render.title_of(replace(run, cases=()), name).endswith(", 2026-01-01")
    assert render.days_of((large, replace(large, date="2026-01-02"), *later.cases)) == (
        "2026-01-01 to 2026-01-03"
    )
