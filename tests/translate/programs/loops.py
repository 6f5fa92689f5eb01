"""Random loop nests of `mdh`, as they are and with operators, against the loops run by Python."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import mdtensor as mdt
from mdtensor.directive import Buffer, cc, combine_ops, inp, out, pw
from tests.translate.programs import data
from tests.translate.programs.comparing import same, tolerance
from tests.translate.programs.elements import element
from tests.translate.programs.expressions import Number, Part, Scope, entity
from tests.translate.programs.ranges import LITERAL, LONG, Range, chosen
from tests.translate.programs.reductions import OPERATORS, summable
from tests.translate.programs.statements import INDENT, Body, Names

_EXTENTS = (1, 2, 3, 4)
_MOST = 2 * max(_EXTENTS) + 2  # elements along an axis, for all that indices reach


@dataclass(frozen=True)
class Operand:
    """An array whose elements Python holds as a program does: records, tuples and strings."""

    array: np.ndarray

    def __getitem__(self, place: Any) -> Any:
        found, dtype = self.array[place], self.array.dtype
        is_row = isinstance(place, int) and self.array.ndim > 1
        return element(found, np.dtype((dtype, found.shape)) if is_row else dtype)


class Combining:
    """An array of results: what is assigned to an element is combined with what was before."""

    def __init__(self, array: np.ndarray, operator: Callable[[Any, Any], Any]) -> None:
        self.array, self.operator = array, operator
        self.written: set[Any] = set()

    def __setitem__(self, place: Any, value: Any) -> None:
        if place in self.written:
            value = self.operator(self.array[place], value)
        self.array[place] = value
        self.written.add(place)


@dataclass
class Nest:
    """A function of loops as it is written: its operands, its loops and the body of each."""

    rng: random.Random
    operands: dict[str, np.dtype]
    axes: dict[str, int]
    variables: dict[str, int]
    names: Names
    around: list[str]

    def reads(self, variables: Sequence[str]) -> list[Callable[[], Number | Part]]:
        return [lambda name=name: self.read(name, variables) for name in self.operands]

    def read(self, name: str, variables: Sequence[str]) -> Number | Part:
        """An element, or a row, at indices that lie inside."""
        if self.axes[name] == 2 and self.rng.random() < 0.2:
            row = np.dtype((self.operands[name], (_MOST,)))
            return entity(f"{name}[{self.index(variables)}]", row)
        indices = ", ".join(self.index(variables) for _ in range(self.axes[name]))
        return entity(f"{name}[{indices}]", self.operands[name])

    def index(self, variables: Sequence[str]) -> str:
        v, offset = self.rng.choice(variables), self.rng.choice((0, 1, 2))
        forms = (v, v, f"{v} + {offset}", f"2 * {v} + {offset}", f"{_MOST - 1} - {v}", f"{offset}")
        return self.rng.choice(forms)

    def body(self, variables: Sequence[str], outer: Body | None = None) -> Body:
        """What is inside of the loops of these variables."""
        scope = Scope() if outer is None else outer.scope.copy()
        scope.reads = self.reads(variables)
        known = {number.text for number in scope.numbers}
        for name in variables:
            if name not in known:
                scope.numbers.append(Number(name, Range(LONG, 0, max(_EXTENTS), pure=False)))
        return Body(self.rng, scope, self.names, [], self.around)


def drawn_nest(rng: random.Random) -> Nest:
    count = rng.choice((1, 2, 2, 3))
    operands = {name: data.drawn_dtype(rng) for name in "abc"[:count]}
    axes = {name: rng.choice((1, 1, 2)) for name in operands}
    variables = {name: rng.choice(_EXTENTS) for name in "ijk"[: rng.choice((1, 2, 2, 3))]}
    return Nest(rng, operands, axes, variables, Names(), [])


def check(rng: random.Random, name: str) -> None:
    """Loops as they are: each point of the outer ones sets an element, perhaps by a reduction."""
    nest = drawn_nest(rng)
    order = list(nest.variables)
    reduced = order.pop() if len(order) > 1 and rng.random() < 0.6 else None
    body = nest.body(order)
    body.statements(rng.choice((0, 1, 1, 2)))
    known = stored(body, order) if reduced is None else accumulated(nest, body, order, reduced)
    lines = body.lines
    for variable in reversed(order):
        lines = [f"for {variable} in {steps(rng, nest, variable)}:", *(INDENT + n for n in lines)]
    text = written(nest, "y", lines)
    made = data.module(name, text)
    arrays = drawn_arrays(nest)
    shape = [nest.variables[v] for v in order]
    start = rng.choice((0, 1))
    expected, found = (np.full(shape, start, dtype_of(known)) for _ in range(2))
    made.nest(expected, *map(Operand, arrays))
    mdt.mdh(made.nest)(found, *arrays)
    points = 1 if reduced is None else nest.variables[reduced]
    same(found, expected, tolerance(known, points + 1, short=is_short(nest, text)))


def steps(rng: random.Random, nest: Nest, variable: str) -> str:
    extent = nest.variables[variable]
    return rng.choice((f"range({extent})", f"range(0, {extent})", f"range({extent - 1}, -1, -1)"))


def stored(body: Body, order: Sequence[str]) -> Range:
    """Sets an element; some only under a condition."""
    target = f"y[{', '.join(order)}]"
    value = summable(body, 1)
    if not body.chance(0.4):
        body.lines.append(f"{target} = {value.text}")
        return value.range
    body.lines += [f"if {body.draw.condition(2)}:", f"{INDENT}{target} = {value.text}"]
    if body.chance(0.5):
        other = body.alike(body, 2, [value.range])
        merged = chosen([value.range, other.range])
        if merged is not None and merged.is_whole == value.range.is_whole:
            body.lines += ["else:", f"{INDENT}{target} = {other.text}"]
            return merged
    return value.range


def accumulated(nest: Nest, body: Body, order: Sequence[str], reduced: str) -> Range:
    """A loop that adds to a variable or takes the best of it, or adds to the element itself."""
    rng, target = nest.rng, f"y[{', '.join(order)}]"
    inner = nest.body([*order, reduced], body)
    inner.statements(rng.choice((0, 1, 1, 2)))
    term = summable(inner, max(_EXTENTS) + 1)
    kind = rng.choice(("+", "+", "element", "min", "max", "if"))
    total = target if kind == "element" else nest.names.new("s")
    start = f"{'np.int64' if term.range.is_whole else 'np.float64'}({rng.choice((0, 1, -2))})"
    if kind in ("min", "max"):
        best = [f"{total} = {kind}({total}, {term.text})"]
        mark = "<" if kind == "min" else ">"
        best_if = [f"if {term.text} {mark} {total}:", f"{INDENT}{total} = {term.text}"]
        inner.lines += best if rng.random() < 0.7 or not term.range.is_exact else best_if
    elif kind == "if":
        inner.lines += [f"if {inner.draw.condition(2)}:", f"{INDENT}{total} += {term.text}"]
    else:
        inner.lines.append(f"{total} += {term.text}")
    if kind != "element":
        body.lines.append(f"{total} = {start}")
    body.lines.append(f"for {reduced} in range({nest.variables[reduced]}):")
    body.indented(inner)
    if kind != "element":
        body.lines.append(f"{target} = {total}")
    return term.range


def check_with_operators(rng: random.Random, name: str) -> None:
    """Loops whose operators are named: the body says what one point contributes."""
    nest = drawn_nest(rng)
    order = list(nest.variables)
    kept = [v for v in order if rng.random() < 0.6] or order[:1]
    body = nest.body(order)
    body.statements(rng.choice((0, 1, 2, 3)))
    value = summable(body, int(np.prod([nest.variables[v] for v in order])))
    lines = [*body.lines, f"y[{', '.join(kept)}] = {value.text}"]
    for variable in reversed(order):
        lines = [
            f"for {variable} in range({nest.variables[variable]}):",
            *map(INDENT.__add__, lines),
        ]
    combine = rng.choice(list(OPERATORS))
    text = written(nest, "y", lines)
    made = data.module(name, text)
    arrays = drawn_arrays(nest)
    expected = np.zeros([nest.variables[v] for v in kept], dtype_of(value.range))
    made.nest(Combining(expected, OPERATORS[combine]), *map(Operand, arrays))
    operators = [cc if v in kept else pw(combine) for v in order]
    buffers = {n: Buffer[dtype] for n, dtype in nest.operands.items()}
    directive = mdt.mdh(out(y=Buffer[expected.dtype]), inp(**buffers), combine_ops(*operators))
    found = np.zeros_like(expected)
    directive(made.nest)(found, *arrays)
    points = int(np.prod(list(nest.variables.values())))
    same(found, expected, tolerance(value.range, points, short=is_short(nest, text)))


def written(nest: Nest, target: str, lines: Sequence[str]) -> str:
    """The text of the function and of its helpers."""
    head = f"def nest({', '.join((target, *nest.operands))}):"
    return "\n\n".join([*nest.around, "\n".join([head, *map(INDENT.__add__, lines)])]) + "\n"


def drawn_arrays(nest: Nest) -> list[np.ndarray]:
    return [
        data.drawn_array(nest.rng, [_MOST] * nest.axes[name], dtype)
        for name, dtype in nest.operands.items()
    ]


def dtype_of(known: Range) -> str:
    return "i8" if known.is_whole or known.kind == LITERAL else "f8"


def is_short(nest: Nest, text: str) -> bool:
    """Whether parts of it may be computed in float32."""
    return "float32" in text or any("f4" in str(t.descr) for t in nest.operands.values())
