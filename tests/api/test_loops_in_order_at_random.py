"""Random loops whose order matters: what runs in order is what Python computes, or is refused."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mdtensor.api.calls import program_calls
from mdtensor.directive import mdh
from mdtensor.errors import ProgramError
from mdtensor.translate import reference
from mdtensor.translate.loops import md_homs_from_loops

# Indices reach from 0 to 19; outer loops have 6 iterations, inner ones 5.
PLACES = ("k", "k + 1", "k + 2", "9 - k", "2 * k", "j + 3", "j", "j + k", "7", "k + 8", "3 * j")
UPDATES = (
    "{to} = {value}",
    "{to} += {value}",
    "{to} = min({to}, {value})",
    "{to} -= 0.5 * {value}",
)


def text_of(seed: int) -> str:
    """A function of two arrays: an outer loop around statements and inner loops."""
    rng = random.Random(seed)

    def element(*, is_inner: bool) -> str:
        places = [place for place in PLACES if is_inner or "j" not in place]
        if rng.random() < 0.4:
            return f"x[{rng.choice(places)}]"
        return f"d[{rng.choice(places)}, {rng.choice(places)}]"

    def statement(*, is_inner: bool) -> str:
        to = element(is_inner=is_inner)
        reads = [element(is_inner=is_inner) for _ in range(rng.randint(1, 3))]
        value = f" {rng.choice('+-')} ".join(reads)
        if rng.random() < 0.2:
            value = f"{value} if {element(is_inner=is_inner)} > 0.4 else {reads[0]}"
        return rng.choice(UPDATES).format(to=to, value=value)

    lines = ["def drawn(d, x):", "    for k in range(6):"]
    for _ in range(rng.randint(1, 3)):
        is_inner = rng.random() < 0.7
        if is_inner:
            lines.append(f"        for j in range({rng.choice(('5', 'k', 'k, 5', '1, 5'))}):")
        margin = " " * (12 if is_inner else 8)
        lines += [margin + statement(is_inner=is_inner) for _ in range(rng.randint(1, 2))]
    return "\n".join(lines) + "\n"


def function_of(seed: int) -> Callable[..., None]:
    """The function of that text, whose source is found."""
    text, name = text_of(seed), f"<loops in order {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {}
    exec(compile(text, name, "exec"), space)
    return space["drawn"]


def check(seed: int) -> str:
    """Compares; "right", or "refused"."""
    rng = np.random.default_rng(seed)
    arrays = rng.random((20, 20)) / 8, rng.random(20) / 8
    ours, expected = ([array.copy() for array in arrays] for _ in range(2))
    function = function_of(seed)
    function(*expected)
    try:
        mdh(function)(*ours)
    except ProgramError:
        for found, before in zip(ours, arrays, strict=True):
            np.testing.assert_array_equal(found, before)
        return "refused"
    for found, wanted in zip(ours, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, err_msg=text_of(seed))
    return "right"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_they_agree_with_python(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(md_homs_from_loops, "STORES", 0)  # nothing is written out as few kernels
    monkeypatch.setattr(program_calls, "executor", reference.compute)
    outcomes = [check(seed) for seed in range(first, first + 20)]
    assert outcomes.count("right") >= 6  # others have no order of kernels
