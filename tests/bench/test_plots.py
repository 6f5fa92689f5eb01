"""Plots of result files: every case is in them, and what is drawn where is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import plots
from bench.results import CaseResult, Limit, Measurement, Run

SVG = "{http://www.w3.org/2000/svg}"
PEAK, BANDWIDTH = 60e12, 4e12


def case(name: str, ours: float, peer: float, *, flops: int = 10**9) -> CaseResult:
    return CaseResult(
        name,
        "ik,kj->ij",
        ((8, 8), (8, 8)),
        "float32",
        flops,
        10**7,
        "2026-01-01",
        "one for all",
        (
            Measurement("mdtensor", "plan", ours, 0.0, (ours,), 0.0),
            Measurement("torch", "mm", peer, 0.0, (peer,), 0.0),
        ),
        limit=Limit(1e-5, "memory", PEAK, BANDWIDTH, BANDWIDTH),
    )


RUN = Run("2026-01-01", {}, {}, {}, {}, (case("slow<er>", 2e-5, 1e-5), case("faster", 1e-5, 4e-5)))


def elements(text: str, kind: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text).iter(SVG + kind))


def test_bars_begin_at_one_and_are_as_long_as_ratios_say() -> None:
    text = plots.ratios(RUN, "a title")
    said = [each.text for each in elements(text, "text")]
    assert {"a title", "slow<er>", "faster", "0.50 torch", "4.00 torch"} <= set(said)
    slower, faster = elements(text, "rect")[1:]
    assert float(faster.attrib["width"]) == pytest.approx(
        2 * float(slower.attrib["width"]), abs=0.2
    )
    assert float(slower.attrib["x"]) + float(slower.attrib["width"]) == pytest.approx(
        float(faster.attrib["x"]), abs=0.2
    )
    assert slower.attrib["fill"] != faster.attrib["fill"]


def test_points_at_the_limit_lie_on_the_roof() -> None:
    limit = 10**7 / BANDWIDTH
    run = replace(RUN, cases=(case("bound by memory", limit, 1.0, flops=10**7), *RUN.cases))
    text = plots.roofline(run, "a title")
    assert text is not None
    point = elements(text, "circle")[0].attrib
    roof = elements(text, "line")[-2].attrib
    (x, y), ends = (
        (float(point[k]) for k in ("cx", "cy")),
        [float(roof[k]) for k in roof if k[0] in "xy"],
    )
    along = (x - ends[0]) / (ends[2] - ends[0])
    assert y == pytest.approx(ends[1] + along * (ends[3] - ends[1]), abs=0.3)
    assert len(elements(text, "circle")) == 3


def test_files_lie_beside_the_results(tmp_path: Path) -> None:
    drawn = [plot.name for plot in plots.draw(RUN, tmp_path / "2026-x.json", "a title")]
    assert drawn == ["2026-x-ratios.svg", "2026-x-roofline.svg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == drawn
    without = replace(RUN, cases=tuple(replace(each, limit=None) for each in RUN.cases))
    assert plots.roofline(without, "a title") is None
