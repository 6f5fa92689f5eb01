"""Random functions and operators of `reduce`, `scan` and the DSL, against loops of Python."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import mdtensor as mdt
from tests.translate.programs import data
from tests.translate.programs.comparing import same, tolerance
from tests.translate.programs.elements import element
from tests.translate.programs.expressions import Number, Part, Scope, entity
from tests.translate.programs.ranges import LITERAL, LONG, NARROW, WHOLE, Range, combined
from tests.translate.programs.statements import INDENT, Body, Names

EXTENTS = (1, 2, 3, 4, 5)
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "min": min,
    "max": max,
}


@dataclass(frozen=True)
class Elements:
    """A function of elements as text, with what it reads and what it returns."""

    terms: tuple[tuple[str, ...], ...]
    dims: tuple[str, ...]
    dtypes: tuple[np.dtype, ...]
    indices: tuple[str, ...]
    text: str
    results: tuple[Range, ...]


def function_of_elements(
    rng: random.Random, sums: int, *, records: bool = True, indices: bool = True
) -> Elements:
    """A function `f` of up to three elements; `sums` is how many of its results are added."""
    dims = ("i", "j", "k")[: rng.choice((1, 2, 2, 3))]
    count = rng.choice((1, 2, 2, 3))
    terms = [tuple(rng.sample(dims, rng.randint(1, min(2, len(dims))))) for _ in range(count)]
    dims = tuple(dict.fromkeys(name for term in terms for name in term))
    dtypes = [data.drawn_dtype(rng, records=records) for _ in terms]
    if count > 1 and rng.random() < 0.5:
        dtypes[1] = dtypes[0]
    held = [rng.choice(dims)] if indices and rng.random() < 0.3 else []
    parameters = "abc"[:count]
    scope = Scope()
    for name, dtype in zip(parameters, dtypes, strict=True):
        add(scope, entity(name, dtype))
    scope.numbers += [Number(name, Range(LONG, 0, max(EXTENTS), pure=False)) for name in held]
    body = Body(rng, scope, Names())
    body.statements(rng.choice((0, 1, 2, 3, 4)))
    results = [summable(body, sums) for _ in range(rng.choice((1, 1, 1, 2)))]
    body.lines.append(f"return {', '.join(result.text for result in results)}")
    keywords = f", *, {', '.join(held)}" if held else ""
    lines = [f"def f({', '.join(parameters)}{keywords}):", *(INDENT + n for n in body.lines)]
    text = "\n\n".join([*body.around, "\n".join(lines)]) + "\n"
    ranges = tuple(result.range for result in results)
    return Elements(tuple(terms), dims, tuple(dtypes), tuple(held), text, ranges)


def add(scope: Scope, found: Number | Part) -> None:
    """Makes an operand known to a scope."""
    if isinstance(found, Number):
        scope.numbers.append(found)
    else:
        scope.parts.append(found)


def summable(body: Body, sums: int) -> Number:
    """A result of which a sum stays inside its type, and has one type in Python, too."""
    for _ in range(20):
        found = body.result(3)
        kind = found.range.kind
        if kind in NARROW or not found.range.pure or kind in (LITERAL, LONG):
            to = "np.int64" if kind in WHOLE else "np.float64" if kind != "f4" else ""
            found = Number(f"{to}({found.text})" if to else found.text, found.range)
        total = combined("*", found.range, Range(LITERAL, sums, sums))
        if found.range.is_whole and found.range.bound * sums < 1 << 50:
            return found
        if total is not None and not found.range.is_whole and total.bound < 1e12:
            return found
    return body.draw.known(1)


def is_short(function: Elements) -> bool:
    """Whether parts of it may be computed in float32."""
    return "float32" in function.text or any("f4" in str(dtype.descr) for dtype in function.dtypes)


def check(rng: random.Random, name: str, scans: bool) -> None:
    """One function, reduced or scanned along some dims."""
    function = function_of_elements(rng, sums=max(EXTENTS) ** 3)
    kept = [d for d in function.dims if rng.random() < 0.5]
    if scans:
        kept = [rng.choice(function.dims)]
    reduced = [d for d in function.dims if d not in kept]
    subscripts = f"{','.join(''.join(term) for term in function.terms)}->{''.join(kept)}"
    combine = rng.choice(list(OPERATORS)) if len(function.results) == 1 else "add"
    operator = drawn_operator(rng, combine, len(function.results))
    made = data.module(name, function.text + operator)
    extents = {d: rng.choice(EXTENTS) for d in function.dims}
    arrays = [
        data.drawn_array(rng, [extents[d] for d in term], dtype)
        for term, dtype in zip(function.terms, function.dtypes, strict=True)
    ]
    fold = vars(made).get("op", OPERATORS[combine])
    expected = folded(made.f, function, extents, kept, arrays, fold, scans)
    said: Any = made.op if operator else combine
    if scans:
        scanned = mdt.ps(said) if reduced else said
        said = {kept[0]: scanned, **dict.fromkeys(reduced, said)} if reduced else said
        found = mdt.scan(subscripts, *arrays, f=made.f, combine=said)
    else:
        found = mdt.reduce(subscripts, *arrays, f=made.f, combine=said)
    points = int(np.prod([extents[d] for d in function.dims]))
    compared(function, found, expected, points)


def compared(function: Elements, found: Any, expected: Sequence[Any], points: int) -> None:
    """Checks each of the results of a function."""
    several = found if isinstance(found, tuple) else (found,)
    for place, (one, other, known) in enumerate(
        zip(several, expected, function.results, strict=True)
    ):
        bound = tolerance(known, points, short=is_short(function))
        same(one, other, bound, f"result {place}: ")


def drawn_operator(rng: random.Random, combine: str, results: int) -> str:
    """The text of a function `op` that combines as an operator does; none for most."""
    if rng.random() < 0.6:
        return ""
    if results == 2:
        bodies = [
            ["return l[0] + r[0], l[1] + r[1]"],
            ["a, b = l", "c, d = r", "return a + c, b + d"],
            ["a = l[0]", "a += r[0]", "return (a, sum((l[1], r[1])))"],
        ]
    elif combine == "add":
        bodies = [["return l + r"], ["total = l", "total += r", "return total"]]
    else:
        sign = "<" if combine == "min" else ">"
        bodies = [
            [f"return l if l {sign}= r else r"],
            [f"if l {sign} r:", f"{INDENT}return l", "return r"],
            [f"return {combine}(l, r)"],
            [f"best = r if r {sign} l else l", "return best"],
        ]
    return "\n\n\ndef op(l, r):\n" + "\n".join(INDENT + line for line in rng.choice(bodies)) + "\n"


def folded(
    f: Callable[..., Any],
    function: Elements,
    extents: dict[str, int],
    kept: Sequence[str],
    arrays: Sequence[np.ndarray],
    operator: Callable[[Any, Any], Any],
    scans: bool,
) -> list[np.ndarray]:
    """The results by loops of Python: reduced dims inside of those that are kept."""
    shape = [extents[d] for d in kept]
    rest = [d for d in function.dims if d not in kept]
    count = len(function.results)
    found: list[list[Any]] = []
    for place in itertools.product(*map(range, shape)):
        total: Any = None
        for inner in itertools.product(*(range(extents[d]) for d in rest)):
            at = dict(zip((*kept, *rest), (*place, *inner), strict=True))
            held = [
                element(array[tuple(at[d] for d in term)], array.dtype)
                for array, term in zip(arrays, function.terms, strict=True)
            ]
            value = f(*held, **{d: at[d] for d in function.indices})
            total = value if total is None else both(operator, total, value, count)
        if scans and found:
            total = both(operator, found[-1] if count > 1 else found[-1][0], total, count)
        found.append(list(total) if count > 1 else [total])
    return [np.array([values[n] for values in found]).reshape(shape) for n in range(count)]


def both(operator: Callable[[Any, Any], Any], a: Any, b: Any, count: int) -> Any:
    """Two results as one; operators of one value combine each of several."""
    if count == 1:
        return operator(a, b)
    if operator in OPERATORS.values():
        return tuple(operator(x, y) for x, y in zip(a, b, strict=True))
    return operator(tuple(a), tuple(b))


def check_formula(rng: random.Random, name: str) -> None:
    """The same function in a program of the DSL."""
    function = function_of_elements(rng, sums=max(EXTENTS) ** 3, records=False, indices=False)
    kept = [d for d in function.dims if rng.random() < 0.6]
    extents = {d: rng.choice(EXTENTS) for d in function.dims}
    if not kept:
        kept = [function.dims[0]]
    steps = {d: rng.choice((1, 1, 2)) for d in function.dims}
    listed = ", ".join(function.dims)
    accesses = [
        f"x{n}=[lambda {listed}: ({', '.join(scaled(d, steps) for d in term)})]"
        for n, term in enumerate(function.terms)
    ]
    kinds = [f"np.dtype({dtype.str!r})" for dtype in function.dtypes]
    outs = ["fp64" if not known.is_whole else "int64" for known in function.results]
    results = [f"y{n}=[lambda {listed}: ({', '.join(kept)})]" for n in range(len(outs))]
    combines = ", ".join("cc" if d in kept else "pw(add)" for d in function.dims)
    sizes = ", ".join(str(extents[d]) for d in function.dims)
    text = "\n".join(
        [
            function.text,
            "",
            "def program():",
            "    return (",
            f"        out_view[{', '.join(outs)}]({', '.join(results)}),",
            f"        md_hom[{sizes}](f, ({combines},)),",
            f"        inp_view[{', '.join(kinds)}]({', '.join(accesses)}),",
            "    )",
            "",
        ]
    )
    made = data.module(name, text)
    arrays = [
        data.drawn_array(rng, [(extents[d] - 1) * steps[d] + 1 for d in term], dtype)
        for term, dtype in zip(function.terms, function.dtypes, strict=True)
    ]
    cut = [
        array[tuple(slice(None, None, steps[d]) for d in term)]
        for array, term in zip(arrays, function.terms, strict=True)
    ]
    expected = folded(made.f, function, extents, kept, cut, OPERATORS["add"], scans=False)
    found = mdt.mdh()(made.program)(*arrays)
    compared(function, found, expected, int(np.prod(list(extents.values()))))


def scaled(dim: str, steps: dict[str, int]) -> str:
    """An index function of one dim."""
    return dim if steps[dim] == 1 else f"{steps[dim]} * {dim}"
