"""The page of a report: what it shows, that it needs nothing else, and how it is written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.reports.report import write_page
from mdtensor.api.reports.report_page import page_of
from mdtensor.api.reports.report_subject import Subject
from mdtensor.autotune.store.rows import TrialRow
from mdtensor.autotune.trial import Trial
from mdtensor.errors import ArgumentError, ReportError, TuningError
from mdtensor.lower.problem.problem_key import problem_key

VOID = ("meta", "br")
HOSTILE = "<script>alert('i')</script>\"&\x00\ud800]]>--><svg onload=x>"


pytestmark = pytest.mark.usefixtures("own_cache")


class Page(HTMLParser):
    """A page as a browser sees it: its tags, which must be balanced, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open
        for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
            ElementTree.fromstring(svg)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.tags}

    def cells(self) -> list[str]:
        """The texts of the table, in order."""
        whole = "".join(self.texts)
        return [line for line in whole.split("\n") if line.strip()]


def read(file: Path) -> Page:
    return Page(file.read_text(encoding="utf-8"))


def product(*shape: int) -> mdt.Plan:
    i, j, k = shape
    return mdt.compile("ij,jk->ik", mdt.spec((i, j)), mdt.spec((j, k)))


def remember(plan: mdt.Plan, *seconds: float | None) -> None:
    """Put trials of the plan's schedule into the store, and their best as the winner."""
    (choice,) = plan.choices()
    engine = registry.engine_for()
    key = problem_key(engine.problem_of(plan.md_homs[0]))
    for n, each in enumerate(seconds):
        schedule = replace(choice.schedule, ahead=n % 2).to_json()
        trial = Trial("crashed", detail=HOSTILE) if each is None else Trial("ok", each)
        engine.store.record_trial(key, engine.environment, schedule, trial)
    best = min(each for each in seconds if each is not None)
    schedule = choice.schedule.to_json()
    engine.store.set_winner(key, engine.environment, schedule, seconds=best, confirmed=True)
    registry.forget()


def test_a_plan_shows_all_that_is_known_of_it(tmp_path: Path) -> None:
    plan = product(60, 70, 80)
    remember(plan, 8e-6, None, *[(4 + n % 2) * 1e-6 for n in range(12)])
    plan.report(tmp_path / "x.html", peers={"their <lib>": 1e-5})
    page = read(tmp_path / "x.html")
    for title in ("(De/re)-composition", "Roofline", "Search", "Importance of tuning parameters"):
        assert title in page.texts
    assert sum(name == "svg" for name, _ in page.tags) == 4
    (choice,) = plan.choices()
    assert choice.origin == "tuned"
    assert choice.source.text in "".join(page.texts)
    assert plan.md_homs[0].describe() in page.texts
    assert "their <lib> 10.0 µs" in page.texts
    heads = [attrs["data-head"] for name, attrs in page.tags if name == "td" and attrs]
    assert heads == ["untuned", "tuned", "gain", "saved a call", "trials"]
    start = page.texts.index("8.00 µs")
    assert page.texts[start : start + 5] == ["8.00 µs", "4.00 µs", "2.00 ×", "4.00 µs", "14"]
    assert "ahead" in page.texts


def test_a_plan_that_nobody_tuned_has_what_the_cost_model_expects(tmp_path: Path) -> None:
    plan = product(61, 71, 81)
    plan.report(tmp_path / "x.html")
    page = read(tmp_path / "x.html")
    assert "Roofline" in page.texts
    assert "Search" not in page.texts
    assert any(text.startswith("expected ") for text in page.texts)


def test_a_recording_has_a_line_for_each_computation(tmp_path: Path) -> None:
    with mdt.tuning("record") as seen:
        for _ in range(3):
            mdt.einsum("ij,jk->ik", np.ones((5, 6)), np.ones((6, 7)))
        mdt.einsum("i,i->", np.ones(9), np.ones(9))
    mdt.report(tmp_path / "x.html", seen)
    page = read(tmp_path / "x.html")
    assert "2 computations" in page.texts
    labels = [item.label for item in seen]
    assert all(page.texts.count(label) >= 2 for label in labels)
    assert page.texts.count("3") >= 1  # calls
    targets = {attrs.get("href") for name, attrs in page.tags if name == "a"}
    assert targets == {"#c0", "#c1"}
    assert {attrs["id"] for _, attrs in page.tags if "id" in attrs} == {"c0", "c1"}


def test_all_calls_together_gain_what_their_sum_does(tmp_path: Path) -> None:
    subjects = [
        Subject(name, name, "e", [trial(before)], winner(name, after), calls=calls)
        for name, before, after, calls in (("a", 9e-6, 3e-6, 2), ("b", 6e-6, 6e-6, 1))
    ]
    # (2 * 9 + 6) / (2 * 3 + 6)
    assert "All calls together: 2.00 × as fast as untuned." in page_of("t", subjects)


def test_untuned_is_what_took_turns_with_the_winner() -> None:
    from mdtensor.autotune.store.rows import ChoiceRow

    subject = Subject("a", "a", "e", [trial(9e-6)], winner("a", 2e-6))
    assert (subject.untuned, subject.gain) == (9e-6, 4.5)
    compared = replace(subject, before=ChoiceRow("k", "{}", 3e-6))
    assert (compared.untuned, compared.gain) == (3e-6, 1.5)
    assert replace(subject, trials=()).gain is None
    assert replace(subject, winner=None).gain is None


def trial(seconds: float, text: str = "{}") -> TrialRow:
    return TrialRow("p", "e", text, "ok", seconds, None, "")


def winner(problem: str, seconds: float) -> Any:
    from mdtensor.autotune.store.rows import WinnerRow

    return WinnerRow(problem, "e", "{}", seconds, 1, 1.0, True)


def test_the_whole_store(tmp_path: Path) -> None:
    mdt.report(tmp_path / "x.html")
    assert "Nothing is tuned or computed yet." in read(tmp_path / "x.html").texts
    for name in ("dot[n:64]", HOSTILE.replace("\ud800", "").replace("\x00", "")):
        registry.store().record_trial(name, "cpu-1", {"a": 1}, Trial("ok", 3e-6))
        registry.store().set_winner(name, "cpu-1", {"a": 2}, seconds=1.5e-6)
    mdt.report(str(tmp_path / "x.html"))
    page = read(tmp_path / "x.html")
    assert page.texts.count("2.00 ×") == 2
    assert page.texts.index("dot[n:64]") > page.texts.index("3.00 µs")  # the last one comes first


def test_pages_need_nothing_from_elsewhere_and_run_nothing(tmp_path: Path) -> None:
    hostile = Subject(HOSTILE, HOSTILE, HOSTILE, [trial(1e-6)] * 9, winner("p", 1e-6))
    plan = product(62, 72, 82)
    plan.label = HOSTILE
    write_page(tmp_path / "x.html", HOSTILE, [hostile, *plan._subjects({HOSTILE: 1e-6})])
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not page.names & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    for name, attrs in page.tags:
        assert not {*attrs} & {"src", "srcset", "action", "data"}, (name, attrs)
        assert not [key for key in attrs if key.startswith("on")]
        assert (attrs.get("href") or "#").startswith("#")
    assert "url(" not in text
    assert "@import" not in text
    assert set(re.findall(r"https?://[^\"' <]*", text)) == {"http://www.w3.org/2000/svg"}
    shown = HOSTILE.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    assert shown in page.texts  # as a text


def test_a_computation_without_dims_and_one_without_work(tmp_path: Path) -> None:
    with mdt.tuning("record") as seen:
        mdt.einsum(",->", np.float32(2), np.float32(3))
        mdt.einsum("ij->ji", np.ones((4, 5))).copy()
        mdt.scan("i->i", np.ones(50))
    assert len(seen) >= 2
    mdt.report(tmp_path / "x.html", seen)
    assert "(De/re)-composition" in read(tmp_path / "x.html").texts
    empty = mdt.compile("ij,jk->ik", mdt.spec((0, 3)), mdt.spec((3, 4)))
    empty.report(tmp_path / "y.html")
    assert "svg" not in read(tmp_path / "y.html").names


def test_computations_of_every_kind_are_drawn(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    a, image = rng.random((20, 30)), rng.random((1, 9, 10, 3), np.float32)
    with mdt.tuning("record") as seen:
        mdt.einsum("ij,kj->ik", a + 1j, a - 1j)  # two buffers of a problem for one
        mdt.argmax(a, axis=1)
        mdt.conv(image, rng.random((4, 3, 3, 3), np.float32), padding="same", epilogue="relu")
        mdt.ndimage.gaussian_filter(a, 1.0)
        mdt.softmax(a, axis=1)
        mdt.einsum("abcdefg,g->fedcba", rng.random((2, 3, 2, 3, 2, 3, 4))[::-1], rng.random(4))
    mdt.report(tmp_path / "x.html", seen, pictures=tmp_path / "svg")
    page = read(tmp_path / "x.html")
    assert page.texts.count("(De/re)-composition") == len(seen) >= 8
    assert "mul, then epilogue" in page.texts
    assert len([*(tmp_path / "svg").glob("*-decomposition.svg")]) == len(seen)


def test_long_labels_are_cut(tmp_path: Path) -> None:
    page = Page(page_of("x" * 5000, [Subject("y" * 5000, "p", "e")]))
    assert max(map(len, page.texts[-20:])) <= 400


def test_long_sources_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mdtensor.api.reports import report_page

    plan = product(63, 73, 83)
    whole = len(plan.choices()[0].source.text)
    monkeypatch.setattr(report_page, "_MOST_SOURCE", 100)
    plan.report(tmp_path / "x.html")
    assert f"… {whole - 100} characters more" in "".join(read(tmp_path / "x.html").texts)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("missing/x.html", "No such file or directory"),
        ("folder", "Is a directory"),
        ("", "it is no file"),
        ("a\0b", "its name has a null character"),
        ("x" * 300, "File name too long"),
    ],
)
def test_places_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, reason: str
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    before = {*os.listdir(tmp_path), "cache"}  # where the store may lie by then
    with pytest.raises(ReportError, match=f": .*{re.escape(reason)}"):
        mdt.report(place)
    assert {*os.listdir(tmp_path), "cache"} == before


def raising(error: BaseException) -> Callable[..., Any]:
    def raises(*_: Any, **__: Any) -> Any:
        raise error

    return raises


@pytest.mark.parametrize(
    ("error", "caught"),
    [(OSError(28, "No space left on device"), ReportError), (KeyboardInterrupt(), None)],
)
def test_half_a_page_is_never_left(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    caught: type[BaseException] | None,
) -> None:
    place = tmp_path / "x.html"
    place.write_text("before")
    monkeypatch.setattr(Path, "replace", raising(error))
    with pytest.raises(caught or type(error)):
        mdt.report(place)
    assert place.read_text() == "before"
    assert {p.name for p in tmp_path.iterdir()} <= {"x.html", "cache"}


@pytest.mark.parametrize("file", [None, 3, b"x.html", ["x"]])
def test_what_is_no_path(file: Any) -> None:
    with pytest.raises(ArgumentError, match="is no path"):
        mdt.report(file)


@pytest.mark.parametrize(
    "peers",
    [
        3,
        ["a"],
        {1: 2.0},
        {"a": "b"},
        {"a": 0},
        {"a": -1.0},
        {"a": np.inf},
        {"a": np.nan},
        {"a": True},
    ],
)
def test_peers_that_are_none(tmp_path: Path, peers: Any) -> None:
    with pytest.raises(ArgumentError, match="peers"):
        product(4, 5, 6).report(tmp_path / "x.html", peers=peers)


def test_peers_are_for_one_computation(tmp_path: Path) -> None:
    peers: Mapping[str, float] = {"numpy": 1e-6}
    with mdt.tuning("record") as seen:
        mdt.einsum("i,i->", np.ones(9), np.ones(9))
        mdt.einsum("i,i->i", np.ones(9), np.ones(9))
    with pytest.raises(ArgumentError, match="are for one computation, and the report is on 2"):
        mdt.report(tmp_path / "x.html", seen, peers=peers)
    with pytest.raises(ArgumentError, match="on the store"):
        mdt.report(tmp_path / "x.html", peers=peers)
    mdt.report(tmp_path / "x.html", next(iter(seen)), peers=peers)
    assert "numpy 1.00 µs" in read(tmp_path / "x.html").texts


def test_each_picture_is_a_file_too(tmp_path: Path) -> None:
    plan = product(64, 74, 84)
    remember(plan, *[(4 + n % 2) * 1e-6 for n in range(12)])
    folder = tmp_path / "pictures"
    for _ in range(2):  # into a folder that is there, too
        plan.report(tmp_path / "x.html", pictures=folder)
    names = ("decomposition", "importance", "roofline", "search")
    assert sorted(p.name for p in folder.iterdir()) == [f"0-{name}.svg" for name in names]
    for picture in folder.iterdir():
        root = ElementTree.parse(picture).getroot()
        assert root[1].tag.endswith("style")
        assert root[2].get("class") == "paper"
    with pytest.raises(ReportError, match="cannot make the folder"):
        mdt.report(tmp_path / "x.html", pictures=tmp_path / "x.html")
    with pytest.raises(ArgumentError, match="is no path"):
        mdt.report(tmp_path / "x.html", pictures=3)  # type: ignore[arg-type]


def test_what_was_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="nothing that was recorded"):
        mdt.report(tmp_path / "x.html", 7)  # type: ignore[arg-type]
