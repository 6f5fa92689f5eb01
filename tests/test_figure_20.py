"""Every computation of Figure 20, by every front end, against NumPy or plain Python."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.figure_20 import FIGURE, PARTS, SUB_FIGURES, Computation, source_of, value_of

PAGE = Path(__file__).parents[1] / "docs" / "computations.md"
INTRODUCTION = """\
# Computations

What the theory gives as examples of multi-dimensional homomorphisms, as it is said here. An
`md_hom` has a scalar function and one combine operator for each dim; its views are in the code.
All that one row shows computes the same, by the same lowering; one way is enough. Programs of
several lines are below the table.

The tests run this code at awkward sizes, compare it with NumPy or plain Python, and compare this
page with it; `pytest tests/test_figure_20.py --update-golden` writes the page.
"""
IMPORTS = """\
```python
import numpy as np
import mdtensor as mdt
from mdtensor.directive import (
    Buffer, add, cc, combine_ops, f_mul, fp64, inp, inp_view, int64, md_hom, mdh, out, out_view,
    ps, pw,
)

D = Buffer[fp64]
PERSON = np.dtype([("id", "i8"), ("last", "S8"), ("born", "i4"), ("postcode", "i4")])
```
"""

WAYS = [
    pytest.param(computation, function, size, id=f"{computation}-{way}-{'x'.join(map(str, size))}")
    for computation in FIGURE
    for way, function in (computation.expressions | computation.programs).items()
    for size in computation.sizes
]


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("computation", "function", "size"), WAYS)
def test_a_computation(computation: Computation, function, size: tuple[int, ...]) -> None:
    operands = computation.operands(*size)
    results, expected = function(*operands), computation.oracle(*operands)
    several = isinstance(expected, tuple)
    for found, right in zip(
        results if several else (results,), expected if several else (expected,), strict=True
    ):
        assert found.shape == np.shape(right)
        if np.asarray(right).dtype.kind in "iu":
            np.testing.assert_array_equal(found, right)
            continue
        terms = max(operand.size for operand in operands)
        finite = np.abs(right)[np.isfinite(right)]
        tolerance = terms * np.finfo(found.dtype).eps
        np.testing.assert_allclose(
            found, right, rtol=tolerance, atol=tolerance * finite.max(initial=0)
        )


def test_every_computation_is_said_in_two_ways() -> None:
    assert len(FIGURE) == 21
    assert all(len(c.expressions) + len(c.programs) >= 2 for c in FIGURE)
    assert all(len(c.sizes) >= 2 for c in FIGURE)
    assert {c.sub_figure for c in FIGURE} == set(range(1, 9))


def test_the_page_shows_the_code_of_the_tests(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page(), encoding="utf-8")
    assert page() == PAGE.read_text(encoding="utf-8"), "run pytest with --update-golden"


def page() -> str:
    rows = "\n".join(map(row, FIGURE))
    head = "| | computation | `md_hom` | expressions | programs |\n|--|---|---|---|---|"
    sections = [
        section(number, title, [c for c in FIGURE if c.sub_figure == number])
        for number, title in enumerate(SUB_FIGURES, 1)
    ]
    return "\n".join(
        [INTRODUCTION, f"{head}\n{rows}\n", "The programs begin with\n", IMPORTS, *sections]
    )


def row(computation: Computation) -> str:
    loops = computation.programs["loops"]
    (md_hom,) = loops.steps(*computation.operands(*computation.sizes[0]))  # type: ignore[attr-defined]
    spelt = re.sub(r":\d+", "", str(md_hom))
    expressions = "<br>".join(f"`{value_of(f)}`" for f in computation.expressions.values())
    anchor = re.sub(r"[^\w -]", "", computation_title(computation)).lower().replace(" ", "-")
    programs = f"[{', '.join(computation.programs)}](#{anchor})"
    cells = (str(computation.sub_figure), computation.name, f"`{spelt}`", expressions, programs)
    return f"| {' | '.join(cells)} |"


def computation_title(computation: Computation) -> str:
    return f"{computation.sub_figure}. {SUB_FIGURES[computation.sub_figure - 1]}"


def section(number: int, title: str, computations: list[Computation]) -> str:
    blocks = [f"## {number}. {title}\n"]
    if number in PARTS:
        blocks.append(code(*PARTS[number]))
    for computation in computations:
        blocks += [f"### {computation.name}\n", code(*computation.programs.values())]
    return "\n".join(blocks)


def code(*functions: object) -> str:
    return "```python\n" + "\n\n".join(map(source_of, functions)) + "\n```\n"
