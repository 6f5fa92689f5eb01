"""The writer of pictures: whatever it is given, XML comes of it."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtensor.api.reports.svg_writer import COLOURS, LogScale, Picture, escaped, spread

SVG = "{http://www.w3.org/2000/svg}"
ANY_TEXT = st.text(st.characters(exclude_categories=()))  # halves of pairs too


@given(ANY_TEXT)
def test_any_text_is_a_text_of_xml(text: str) -> None:
    picture = Picture(10, 10, text)
    picture.text(1, 2, text, most=5)
    picture.dot(1, 2, "ours", text)
    picture.cross(1, 2, text)
    svg = picture.svg()
    root = ElementTree.fromstring(svg.encode("utf-8"))
    assert [child.tag for child in root] == [
        f"{SVG}{t}" for t in ("title", "text", "circle", "path")
    ]


@given(ANY_TEXT)
def test_escaping_loses_nothing_that_xml_has(text: str) -> None:
    back = ElementTree.fromstring(f"<a>{escaped(text)}</a>").text or ""
    given_one = text.replace("\r\n", "\n").replace("\r", "\n")  # as XML reads both
    assert len(back) == len(given_one)
    for mine, theirs in zip(back, given_one, strict=True):
        assert mine == theirs or (mine == "\ufffd" and not theirs.isprintable())


def test_a_picture_can_stand_alone() -> None:
    root = ElementTree.fromstring(Picture(30, 20, "t").svg(COLOURS))
    assert root.get("viewBox") == "0 0 30 20"
    (style,) = root.iter(f"{SVG}style")
    assert "prefers-color-scheme: dark" in (style.text or "")


def test_a_path_is_from_point_to_point() -> None:
    picture = Picture(10, 10, "")
    picture.path([(1, 2), (3.25, 4)], "line")
    assert '<path d="M1.0 2.0 L3.2 4.0" class="line"/>' in picture.svg()


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1, 1000, [1, 10, 100, 1000]),
        (3e-6, 3e-5, [5e-6, 1e-5, 2e-5]),
        (1e-12, 1e4, [1e-12, 1e-9, 1e-6, 1e-3, 1, 1e3]),
        (2, 2, [1, 2, 5]),
    ],
)
def test_ticks(low: float, high: float, ticks: list[float]) -> None:
    assert LogScale(low, high, 0, 100).ticks() == pytest.approx(ticks)


def test_places_on_a_logarithmic_scale() -> None:
    scale = LogScale(1, 100, 200, 100)
    assert [scale.at(v) for v in (1, 10, 100)] == [200, 150, 100]


@given(st.lists(st.floats(0, 100), max_size=8))
def test_labels_keep_apart_in_their_order(places: list[float]) -> None:
    found = spread(places, 10)
    assert all(new >= old for new, old in zip(found, places, strict=True))
    ordered = sorted(found)
    assert all(b - a > 9.999 for a, b in pairwise(ordered))
