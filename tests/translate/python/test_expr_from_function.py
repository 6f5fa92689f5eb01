# ruff: noqa: FURB136, FURB163, FURB192, PIE790, PIE804, PLC3002
"""Functions of Python against running the Python itself."""

from __future__ import annotations

import math
import operator
import runpy
import sys
from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdtensor.errors import ProgramError
from mdtensor.translate.operators.combine_operators import operator as operator_function
from mdtensor.translate.python.expr_from_function import scalar_function, traced
from mdtensor.translate.scalar import Expr, param
from mdtensor.translate.trees import evaluate

A, B, C = (param(n, "f8") for n in range(3))
SCALE = 2.5
WEIGHTS = (0.25, 0.5, 0.25)


def clamp(x, low=-1.0, *, high=1.0):
    """Called by others."""
    if x < low:
        return low
    if x > high:
        return high
    return x


def plain(a, b):
    return a * b + SCALE


def early_returns(a, b):
    if a > b:
        if a > 2 * b:
            return a - b
        a = a + 1
    elif a == b:
        return 0.0
    else:
        b += 1
        if b > 3:
            return b
    return a * 10 + b


def assignments(a, b):
    low, high = (a, b) if a < b else (b, a)
    (x, y), z = (low, high), high - low
    x *= 2
    y -= z
    total: float = x + y
    best = -math.inf
    for value in (a, b, total):
        if value > best:
            best = value
    return total, best


def logic(a, b):
    between = -1 < a < 1 <= b
    if between or not (a >= b and b != 2):
        return 1
    return -1 if a or b else 0


def loops(a, b):
    total = 0.0
    for n in range(6):
        if n == 1:
            continue
        if n == 4:
            break
        for m, w in enumerate(WEIGHTS):
            total += w * a**n * (b + m)
    for x, y in zip((a, b), (b, a), strict=True):
        total = total + x / (1 + abs(y))
    return total


def calls(a, b):
    inner = lambda x, k=2: clamp(x * k) + SCALE  # noqa: E731

    def outer(x):
        return inner(x) if x > 0 else inner(x, 3)

    return outer(a) + outer(b) + clamp(a, high=0.5) + clamp(*(b,), **{"low": 0.0})


def builtins(a, b):
    values = [a, b, 0.5]
    lowest, highest = min(values), max(a, b, 0)
    some = any(v > 1 for v in values) and all(v > -3 for v in values)
    return (
        lowest + highest + sum(values) + sum(v * w for v, w in zip(values, WEIGHTS, strict=True)),
        round(a) + int(b) + float(a) + bool(b) + len(values),
        pow(abs(a), 2) + divmod(b, 2)[0] if some else 0,
        reduce(operator.mul, values) + list(map(abs, values))[-1],
        sorted([2, 1])[0] * values[1] * values[-1],
    )


def maths(a, b):
    if a > 0:
        x = math.sqrt(a) + math.log(a) + math.log(a, 2) + math.pow(a, b)
    else:
        x = math.exp(a) + math.erf(a)
    y = math.hypot(a, b, 1) + math.atan2(a, b) + math.floor(a) + math.ceil(b) - math.trunc(a)
    z = math.radians(a) + math.copysign(1, b) + math.prod((a, b)) + math.fmod(a, 3)
    return x + y + z + math.pi + (1 if math.isnan(a) else 0)


def numpys(a, b):
    if np.logical_and(a > 0, b > 0):
        return np.float64(np.sqrt(a)) + np.where(a > b, a, 1.0)
    return np.clip(a, -0.5, 0.5) + np.sum((a, b)) + np.maximum(a, b) + np.max([a, b])


def tuples(a, b):
    lhs, rhs = (a, 1), (b, 0)
    if lhs < rhs or lhs == rhs:
        return lhs
    return rhs


def membership(a, b):
    if a in (1, 2.0, b):
        return 1
    return 2 if b not in (0, 1) else 3


def walrus(a, b):
    if (d := a - b) > 0:
        return d
    return -d


def nothing_special(a, b):
    """Documented; passes."""
    pass
    assert SCALE > 2
    x = [n * a for n in range(4) if n % 2]
    table = {"first": x[0], "rest": x[1:]}
    return table["first"] - table["rest"][0] * b


def is_none(a, b, c=None):
    if c is None:
        return a if a > b else b
    return c


def first_found(a, b):
    for n in range(-3, 4):
        if a < n:
            if b > n:
                return n, b
            return n, a
        b = b + 0.5
    return 9, a


def counted(a, b):
    conditions = (a > 0, b > 0, a > b)
    return sum(conditions) * 2 if sum(conditions) > 1 else a


def nan_idiom(a, b):
    return b if a != a else a


FUNCTIONS = [
    *(plain, early_returns, assignments, logic, loops, calls, builtins, maths, numpys, tuples),
    *(membership, walrus, nothing_special, is_none, first_found, counted, nan_idiom),
    *(lambda a, b: a if a > b else b, lambda a, b: -a if not a < b else math.sin(b)),
    partial(clamp, high=0.25),
]
POINTS = [
    (x, y)
    for x in (-2.5, -1.0, -0.0, 0.3, 1.0, 2.0, 3.7)
    for y in (-3.0, -0.5, 0.0, 0.75, 1.0, 2.0, 4.0)
]


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: getattr(f, "__name__", "partial"))
def test_functions_mean_what_python_makes_of_them(function: Callable) -> None:
    if isinstance(function, partial):
        results, points = as_tuple(traced(function, A)), [(x,) for x, _ in POINTS]
    else:
        results, points = as_tuple(traced(function, A, B)), POINTS
    for point in points:
        values = [np.float64(v) for v in point]
        expected = as_tuple(function(*values))
        assert len(results) == len(expected)
        for result, value in zip(results, expected, strict=True):
            got = evaluate(result, values) if isinstance(result, Expr) else result
            np.testing.assert_allclose(got, value, rtol=1e-14, err_msg=str(point))


@pytest.mark.parametrize(
    ("function", "printed"),
    [
        (lambda a, b: a * b, "(p0 * p1)"),
        (lambda a, b: 1 if a == b else 0, "select((p0 == p1), 1, 0)"),
        (lambda a, b: a and b, "select((p0 != 0), p1, p0)"),
        (lambda a, b: a > 0 and b > 0, "((p0 > 0) & (p1 > 0))"),
        (lambda a, b: 0 < a < b, "((p0 > 0) & (p0 < p1))"),
        (lambda a, b: not a, "not((p0 != 0))"),
        (lambda a, b: [a, (b, 1)], "[p0, (p1, 1)]"),
        (lambda a, b: None, "None"),
        (max, "max(p0, p1)"),
        (math.atan2, "atan2(p0, p1)"),
        (np.maximum, "max(p0, p1)"),
        (operator.add, "(p0 + p1)"),
        (operator.eq, "(p0 == p1)"),
    ],
)
def test_results(function: Callable, printed: str) -> None:
    assert repr(traced(function, A, B)) == printed


if sys.version_info >= (3, 15):  # older ones have no such syntax

    def test_comprehensions_unpack(tmp_path: Path) -> None:
        path = tmp_path / "unpacking.py"
        path.write_text(
            "def spread(a):\n    return [*(n, 1 if a > 0 else a) for n in range(2)]\n"
            "def joined(a):\n    return {**d for d in [{'a': 1 if a > 0 else a}]}\n"
        )
        functions = runpy.run_path(str(path))
        assert (
            repr(traced(functions["spread"], A))
            == "[0, select((p0 > 0), 1, p0), 1, select((p0 > 0), 1, p0)]"
        )
        with pytest.raises(ProgramError, match="joined"):
            traced(functions["joined"], A)


def test_lambdas_of_one_line_are_told_apart() -> None:
    both = (lambda a: 1 if a > 0 else 2, lambda a: 3 if a > 0 else 4)
    assert [repr(traced(f, A)) for f in both] == [
        "select((p0 > 0), 1, 2)",
        "select((p0 > 0), 3, 4)",
    ]
    nested = lambda a: (lambda b: b if b > 0 else -b)(a) if a < 9 else a  # noqa: E731
    assert repr(traced(nested, A)) == "select((p0 < 9), select((p0 > 0), p0, neg(p0)), p0)"


def test_closures_are_read_when_the_function_runs() -> None:
    factor = 2

    def scaled(a):
        return a * factor if a > 0 else a

    assert "(p0 * 2)" in repr(traced(scaled, A))
    factor = 3
    assert "(p0 * 3)" in repr(traced(scaled, A))


class Threshold:
    """A callable of somebody else."""

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def __call__(self, value):
        return value if value > self.limit else self.limit


def test_equality_is_no_accident_in_functions_without_source() -> None:
    space: dict[str, Any] = {}
    exec("def same(a, b): return 1 if a == b else 0", space)
    same = space["same"]
    with pytest.raises(ProgramError, match=r"^the value of p0 is known only when the kernel runs"):
        traced(lambda a, b: same(a, b) if a > 0 else b, A, B)
    with pytest.raises(ProgramError, match=r"^same cannot be traced: the value of p0 is known"):
        traced(same, A, B)


def test_callable_objects_are_functions() -> None:
    threshold = Threshold(2.5)
    assert repr(traced(threshold, A)) == "select((p0 > 2.5), p0, 2.5)"
    assert "2.5" in repr(traced(lambda a: threshold(a) if a > 0 else a, A))
    largest = operator_function(lambda a, b: a if a > b else b)
    assert largest(1, 2) == 2
    assert repr(traced(lambda a, b: largest(a, largest(b, 0)), A, B)) == (
        "select((p0 > select((p1 > 0), p1, 0)), p0, select((p1 > 0), p1, 0))"
    )


def test_weak_numbers_take_the_type_of_elements() -> None:
    f = scalar_function(lambda e, b: 1 if e == b else 0, ["f4", "f4"])
    assert f.result_dtypes == (np.dtype("i8"),)
    g = scalar_function(lambda a: (1.5 if a > 0 else 2, 0.5, True, 3), ["f4"])
    assert [str(d) for d in g.result_dtypes] == ["float32", "float32", "bool", "int64"]
    assert repr(g.results[0]) == "select((p0 > 0), 1.5, 2)"
    assert scalar_function(lambda a: 0.5, ["i4"]).result_dtypes == (np.dtype("f8"),)
    assert scalar_function(lambda a: (1.0 if a > 0 else -1.0) * a, ["f4"]).result_dtypes == (
        np.dtype("f4"),
    )


def test_scalar_functions() -> None:
    def place(a, b=0, *, j, k=3):
        return (a * b, j + k) if a > b else (b, j)

    f = scalar_function(place, ["f4", "i2"], indices={"i": "rows", "j": "columns"})
    assert (f.name, f.params) == ("place", (np.dtype("f4"), np.dtype("i2")))
    assert [repr(r) for r in f.results] == [
        "select((p0 > float32(p1)), (p0 * float32(p1)), float32(p1))",
        "select((p0 > float32(p1)), (columns + 3), columns)",
    ]
    assert f.result_dtypes == (np.dtype("f4"), np.dtype("i8"))
    assert repr(scalar_function(np.multiply, ["f4", "f4"], name="product")) == "product"
    assert scalar_function(max, ["f4", "f4"]).result_dtypes == (np.dtype("f4"),)


def test_functions_without_source_can_only_be_called() -> None:
    space: dict[str, Any] = {}
    exec("def f(a): return a * 2\ndef g(a): return a if a > 0 else 1", space)
    assert repr(traced(space["f"], A)) == "(p0 * 2)"
    with pytest.raises(ProgramError) as caught:
        traced(space["g"], A)
    assert str(caught.value) == (
        "g cannot be traced: the truth of (p0 > 0) is known only when the kernel runs\n"
        "  its source was not found, so that it could only be called\n"
        "  hint: use numpy.where(condition, then, otherwise) for if, or define the function in a"
        " file or a notebook"
    )
    with pytest.raises(ProgramError, match="its source was not found, so that it could only be"):
        traced(eval("lambda a: 1 if a > 0 else 0"), A)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: scalar_function(lambda a: a, ["f4", "f4"]),
            (
                "the function takes 1 element, but 2 are read\n"
                "  hint: a parameter for every element, then the indices' names after a *"
            ),
        ),
        (
            lambda: scalar_function(lambda a, *, k: a, ["f4"], indices={"i": "i", "j": "j"}),
            "the function takes an index 'k', which is no dim\n  hint: the dims are i, j",
        ),
        (
            lambda: scalar_function(lambda a: None, ["f4"]),
            "the function returns nothing\n  hint: end it with a return",
        ),
        (
            lambda: scalar_function(lambda a: "text", ["f4"]),
            "the function returns 'text', which is no number",
        ),
    ],
)
def test_wrong_scalar_functions(make: Callable, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        make()
    assert str(caught.value) == message
