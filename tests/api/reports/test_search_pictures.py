"""Pictures of trials and rooflines: what is drawn where."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from mdtensor.api.reports.search_pictures import (
    peak_of,
    roofline_picture,
    search_seconds,
    trials_picture,
)
from mdtensor.api.reports.svg_writer import Picture
from mdtensor.autotune.store.rows import TrialRow
from mdtensor.autotune.trial import Status
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from tests.targets import CPU

SVG = "{http://www.w3.org/2000/svg}"


def row(created: float, seconds: float | None = 1e-6, status: Status = "ok") -> TrialRow:
    return TrialRow("p", "e", "{}", status, seconds, None, "<broken>", created)


def product(dtype: str = "f4", n: int = 64) -> Problem:
    spec = TensorSpec.of((n, n), np.dtype(dtype))
    return problem_from_md_hom(md_hom_from_einsum("ij,jk->ik", (spec, spec)))


def drawn(picture: Picture | None) -> ElementTree.Element:
    assert picture is not None
    return ElementTree.fromstring(picture.svg())


def dots(root: ElementTree.Element) -> list[tuple[str, float, float, str]]:
    """Class, place and title of every point."""
    return [
        (e.get("class", ""), float(e.get("cx", "")), float(e.get("cy", "")), e[0].text or "")
        for e in root.iter(f"{SVG}circle")
    ]


def test_pauses_between_searches_are_left_out() -> None:
    rows = [row(100), row(101), row(5000), row(5002.5), row(4000), row(4001)]
    assert search_seconds(rows) == [0, 1, 1, 3.5, 3.5, 4.5]
    assert search_seconds([]) == []


def test_trials_are_lower_the_faster_they_are_and_later_to_the_right() -> None:
    rows = [row(0, 4e-6), row(1, 8e-6), row(2, 2e-6), row(3, None, "crashed"), row(4, 3e-6)]
    root = drawn(trials_picture(rows, 2e-6))
    found = dots(root)
    assert [kind for kind, *_ in found] == ["ours", "trial", "ours", "trial"]
    assert [x for _, x, _, _ in found] == sorted(x for _, x, _, _ in found)
    heights = [y for _, _, y, _ in found]  # downwards
    assert heights[1] < heights[0] < heights[3] < heights[2]
    assert [text for *_, text in found][2] == "trial 3: 2.00 µs"
    (failed,) = [e for e in root.iter(f"{SVG}path") if e.get("class") == "failed"]
    assert failed[0].text == "crashed: <broken>"
    assert "5 trials, 1 × failed" in "".join(root.itertext())


def test_the_line_of_the_best_never_rises() -> None:
    rows = [row(n, seconds) for n, seconds in enumerate([5e-6, 9e-6, 3e-6, 4e-6, 1e-6])]
    root = drawn(trials_picture(rows, None))
    (best,) = [e for e in root.iter(f"{SVG}path") if e.get("class") == "best"]
    places = re.findall(r"([\d.]+) ([\d.]+)", best.get("d", ""))
    heights = [float(y) for _, y in places]
    assert len(places) == 6
    assert heights == sorted(heights)
    assert heights[-1] > heights[0]


def test_many_trials_are_drawn_in_part() -> None:
    rows = [row(n, 1e-3 - 1e-8 * (n == 4321)) for n in range(5000)]
    found = dots(drawn(trials_picture(rows, None)))
    assert len(found) <= 1002
    assert [text for kind, *_, text in found if kind == "ours"] == [
        "trial 1: 1.00 ms",
        "trial 4322: 1.00 ms",
    ]


@pytest.mark.parametrize("rows", [[], [row(0, None, "wrong")]])
def test_without_times_there_is_no_picture(rows: list[TrialRow]) -> None:
    assert trials_picture(rows, None) is None


@pytest.mark.parametrize("seconds", [[1e-6], [1e-6, 1e-6], [1e-300, 9e18]])
def test_trials_of_any_times_are_inside(seconds: list[float]) -> None:
    root = drawn(trials_picture([row(0, each) for each in seconds], seconds[0]))
    assert all(0 <= x <= 360 and 0 <= y <= 240 for _, x, y, _ in dots(root))


def test_doubles_have_half_the_peak_on_processors() -> None:
    # 4e9 * 16 multiply-adds of a core, on two cores.
    assert peak_of(product(), CPU) == (2 * 64e9 * 2, "float32")
    assert peak_of(product("f8"), CPU) == (64e9 * 2, "float64")


def test_times_are_under_the_roof_at_the_same_intensity() -> None:
    problem = product(n=512)
    at_peak = 2 * 512**3 / 256e9
    times = {"untuned": 4 * at_peak, "tuned": 2 * at_peak}
    root = drawn(roofline_picture(problem, CPU, times, {"<peer>": at_peak}))
    found = dots(root)
    assert [kind for kind, *_ in found] == ["before", "ours", "peer"]
    assert len({x for _, x, _, _ in found}) == 1
    untuned, tuned, peer = (y for _, _, y, _ in found)
    assert untuned - tuned == pytest.approx(tuned - peer, abs=0.2)  # factors of two
    assert "<peer> 1.05 ms: 256 GFLOP/s" in [text for *_, text in found]
    (roof,) = [e for e in root.iter(f"{SVG}path") if e.get("class") == "roof"]
    places = [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", roof.get("d", ""))]
    assert places[1] == places[2] == pytest.approx(peer, abs=0.11)
    assert places[0] > places[1]


def test_nothing_computed_or_measured_has_no_roofline() -> None:
    spec = TensorSpec.of((4, 8))
    copy = problem_from_md_hom(md_hom_from_einsum("ij->ji", (spec,)))
    assert roofline_picture(copy, CPU, {"tuned": 1e-6}, {}) is None
    assert roofline_picture(product(), CPU, {}, {}) is None
