"""Random loops of `mdh` whose bounds are data, and stores at indices that are data."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

import mdtensor as mdt
from tests.translate.programs import data
from tests.translate.programs.comparing import same, tolerance
from tests.translate.programs.loops import (
    Nest,
    Operand,
    accumulated,
    drawn_arrays,
    drawn_nest,
    dtype_of,
    is_short,
    steps,
    stored,
    written,
)
from tests.translate.programs.ranges import Range
from tests.translate.programs.reductions import summable
from tests.translate.programs.statements import INDENT, Body

_BINS = 5  # elements along an axis that is written at indices from data
_HIGHEST = 4  # bounds that are data are at most this
_TYPES = ("i4", "i8", "i8", "u1", "i2")


def check(rng: random.Random, name: str) -> None:
    """A nest as it is, where arrays of integers say how far a loop goes or where it stores."""
    nest = drawn_nest(rng)
    order = list(nest.variables)
    lines, known, shape = (_ranges if rng.random() < 0.5 else _scatter)(nest, order)
    text = written(nest, "y, p, q, t", lines)
    made = data.module(name, text)
    arrays, numbers = drawn_arrays(nest), np.random.default_rng(rng.getrandbits(32))
    size = max(_HIGHEST, *nest.variables.values()) + 1
    types = [rng.choice(_TYPES) for _ in "pq"]
    # Ranges that begin below 0 are refused, those without elements are not.
    least = rng.choice((0, 0, 0, -2)) if "u1" not in types else 0
    bounds = [numbers.integers(least, _HIGHEST + 1, size).astype(dtype) for dtype in types]
    index = rng.choice(_TYPES)
    places = numbers.integers(0 if index[0] == "u" else -_BINS, _BINS, size).astype(index)
    start = rng.choice((0, 1))
    expected, found = (np.full(shape, start, dtype_of(known)) for _ in range(2))
    try:
        made.nest(expected, *bounds, places, *map(Operand, arrays))
    except IndexError:  # of a range that begins below 0, and reads at 9 less its index
        return
    mdt.mdh(made.nest)(found, *bounds, places, *arrays)
    points = _HIGHEST * int(np.prod(list(nest.variables.values())))
    same(found, expected, tolerance(known, points + 1, short=is_short(nest, text)))


def _ranges(nest: Nest, order: list[str]) -> tuple[list[str], Range, Sequence[int]]:
    """Each point of the outer loops sets an element by a reduction over a range."""
    rng = nest.rng
    if len(order) == 1:
        nest.variables["r"] = 1
        order.append("r")
    reduced = order.pop()
    nest.variables[reduced] = _HIGHEST
    shape = [nest.variables[v] for v in order]
    body = nest.body(order)
    body.statements(rng.choice((0, 0, 1)))
    if rng.random() < 0.9:
        known = accumulated(nest, body, order, reduced)
        whole = f"for {reduced} in range({_HIGHEST}):"
        at = next(n for n, line in enumerate(body.lines) if line == whole)
        body.lines[at] = f"for {reduced} in {_bounds(rng, order)}:"
    else:
        known = stored(body, order)
    return _around(nest, order, body), known, shape


def _bounds(rng: random.Random, order: Sequence[str]) -> str:
    v = rng.choice(order)
    forms = (
        *(f"range(p[{v}], q[{v}])", f"range(p[{v}], q[{v}])", f"range(q[{v}])"),
        *(f"range({v}, q[{v}])", f"range(min(p[{v}], 2), q[q[{v}]])", "range(p[0], q[1])"),
        *(f"range(p[{v}], min(p[{v}] + 1, {_HIGHEST}))", f"range(p[{v}] // 2, {_HIGHEST})"),
    )
    return rng.choice(forms)


def _scatter(nest: Nest, order: list[str]) -> tuple[list[str], Range, Sequence[int]]:
    """Each point of the loops gives something to an element whose index is data."""
    rng = nest.rng
    body = nest.body(order)
    body.statements(rng.choice((0, 1, 1, 2)))
    axes = [
        rng.choice((f"t[{v}]", f"t[{v}]", f"t[{v}] // 2", "t[2]")) for v in rng.sample(order, 1)
    ]
    shape = [_BINS]
    if rng.random() < 0.3:
        v = rng.choice(order)
        is_own = rng.random() < 0.5
        axes.append(v if is_own else f"t[{v}]")
        shape.append(nest.variables[v] if is_own else _BINS)
    target = f"y[{', '.join(axes)}]"
    term = summable(body, int(np.prod(list(nest.variables.values()))) + 1)
    kind = rng.choice(("+=", "+=", "-=", "min", "max", "if", "better", "="))
    match kind:
        case "+=" | "-=" | "=":
            lines = [f"{target} {kind} {term.text}"]
        case "min" | "max":
            lines = [f"{target} = {kind}({target}, {term.text})"]
        case "if":
            lines = [f"if {body.draw.condition(2)}:", f"{INDENT}{target} += {term.text}"]
        case _ if term.range.is_exact:
            lines = [f"if {term.text} < {target}:", f"{INDENT}{target} = {term.text}"]
        case _:
            lines = [f"{target} = min({term.text}, {target})"]
    body.lines += lines
    return _around(nest, order, body), term.range, shape


def _around(nest: Nest, order: Sequence[str], body: Body) -> list[str]:
    lines = body.lines
    for v in reversed(order):
        lines = [f"for {v} in {steps(nest.rng, nest, v)}:", *(INDENT + line for line in lines)]
    return lines
