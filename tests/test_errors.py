"""Texts of errors, however long what they show is; warnings: where they point to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import MdtensorError, SubscriptError, shown
from tests import children
from tests.counted import Counted


@pytest.mark.parametrize(
    "call",
    [
        lambda a: mdt.ndimage.minimum_filter(a, size=3, footprint=np.ones((1, 3))),
        lambda a: mdt.ndimage.correlate(a, np.ones((2, 2), "c8"), output=np.float64),
    ],
)
def test_a_warning_points_to_the_call(call) -> None:
    with pytest.warns(UserWarning, match="ignoring|promoting") as caught:
        call(np.ones((3, 4)))
    ours = [each for each in caught if "compiler" not in str(each.message)]  # PyOpenCL warns too
    assert [each.filename for each in ours] == [__file__]


SCRIPT = """
import numpy as np, mdtensor as mdt
def contraction(a):
    return mdt.einsum("ij,jk->ik", a, a)
contraction(np.ones((3, 3)))
"""


@pytest.mark.process
def test_a_store_that_cannot_be_used_is_told_where_the_user_called(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    closed = tmp_path / "closed"
    closed.write_text("no directory")
    places = {"MDTENSOR_CACHE_DIR": closed / "cache", "PYTHONPATH": children.ROOT}
    said = children.run(script, env=places).err
    assert f"{script}:4: StoreWarning: the store" in said
    assert said.count("StoreWarning") == 1


def test_a_long_text_is_shown_around_its_first_mark() -> None:
    text = "".join(chr(ord("a") + n % 26) for n in range(1000))
    error = MdtensorError("wrong", text=text, carets=(500, 503, 900))
    assert str(error).splitlines() == [
        "wrong",
        f"  …{text[420:580]}…",
        "  " + " " * 81 + "^  ^",
    ]
    first, last = (MdtensorError("wrong", text=text, carets=(n,)) for n in (0, 1000))
    assert str(first).splitlines() == ["wrong", f"  {text[:160]}…", "  ^"]
    assert str(last).splitlines() == ["wrong", f"  …{text[840:]}", "  " + " " * 161 + "^"]


def test_long_lines_are_cut() -> None:
    error = MdtensorError("m" * 10_000, notes=["n" * 10_000], hint="h" * 10_000)
    assert [len(line) for line in str(error).splitlines()] == [2000, 2002, 2008]


def test_what_has_no_short_repr_is_shown_too() -> None:
    circular: list[object] = []
    circular.append(circular)
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert shown(circular) == "[[[[[[[[[...]]]]]]]]]"
    assert shown(nested) == "[[[[[[[[[...]]]]]]]]]"
    assert shown(10**5000) == "an int of 16610 bits"
    assert shown(type("Odd", (), {"__repr__": lambda self: 1 / 0})()).startswith(
        "<Odd instance at "
    )


class LookedThrough(str):
    """A text that counts the characters that its methods look at."""

    def __init__(self, _: str) -> None:
        self.seen = 0

    def __getitem__(self, place: Any) -> str:
        found = super().__getitem__(place)
        self.seen += len(found)
        return found

    def __contains__(self, part: Any) -> bool:
        return self.find(part) >= 0

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found

        def looked(*given: Any) -> Any:
            answer = found(*given)
            start, end = 0, len(self)
            if name in ("count", "find", "index", "startswith"):
                start, end = [*given[1:], *(start, end)[len(given) - 1 :]]
            if name in ("find", "index") and answer >= 0:
                end = answer
            self.seen += len(given[0]) if name == "startswith" else end - start
            return answer

        return looked


@pytest.mark.parametrize(
    "text",
    [
        lambda count: "," * count,
        lambda count: "," * count + "->",
        lambda count: "..." * count,
        lambda count: "i" * count,
        lambda count: "i " * count + "->0",
        lambda count: "i->" + " ".join(f"a{n}" for n in range(10_000, 10_000 + count)),
        lambda count: ", ".join(f"a{n}" for n in range(10_000, 10_000 + count)) + " -> i",
        lambda count: "i->i;" + "," * count,
    ],
    ids=["commas", "arrow", "ellipses", "letters", "words", "output", "terms", "epilogue"],
)
def test_long_strings_are_refused_by_linear_work(text: Callable[[int], str]) -> None:
    def steps(count: int) -> int:
        given = LookedThrough(text(count))
        with pytest.raises(SubscriptError) as caught, Counted() as work:
            mdt.reduce(given, np.ones(3))
        assert len(str(caught.value)) < 5000
        return work.steps + given.seen

    steps(100)  # imports
    few, many = steps(3109), steps(6218)  # of which no other test has texts that are kept
    assert many < 2.1 * few + 1000


def test_a_long_string_is_told_in_short() -> None:
    with pytest.raises(SubscriptError) as caught:
        mdt.einsum("," * 40_000, np.ones(3))
    assert str(caught.value).splitlines() == [
        "the string has 40001 terms for 1 operand",
        "  " + "," * 160 + "…",
        "   " + "^" * 160,
        "  operand 0: (3,) float64",
        "  hint: terms are separated by commas, one for each operand",
    ]
