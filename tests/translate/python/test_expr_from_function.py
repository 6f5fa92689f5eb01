# ruff: noqa: FURB136, FURB163, FURB192, PIE790, PIE804, PLC3002, PLE0643, RET503, SIM300
"""Functions of Python against running the Python itself, and what is refused and why."""

from __future__ import annotations

import math
import operator
import textwrap
from collections.abc import Callable
from contextlib import suppress
from functools import partial, reduce
from typing import Any

import numpy as np
import pytest

from mdtensor.errors import MdtensorError, ProgramError
from mdtensor.translate.operators.operators import operator as operator_function
from mdtensor.translate.python.expr_from_function import scalar_function, source_of, traced
from mdtensor.translate.python.interpreter import Interpreter
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


class Word:
    """A symbolic object of somebody else: it has its own equality, elements and stores."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def __eq__(self, other: object) -> Any:
        return A == other if isinstance(other, Expr) else A > 5

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: int) -> Expr:
        return A + index

    def __setitem__(self, index: int, value: Any) -> None:
        self.log.append(f"[{index}] = {value!r}")

    def set_where(self, condition: Any, index: int, value: Any) -> None:
        self.log.append(f"[{index}] = {value!r} where {condition!r}")

    @property
    def name(self) -> Expr:
        return B

    def larger(self, other: Expr) -> Expr:
        return self.name if self.name > other else other


def test_objects_have_their_own_say() -> None:
    word, other = Word(), Word()
    assert repr(traced(lambda w, v: 1 if w == v else 2, word, other)) == "select((p0 > 5), 1, 2)"
    assert repr(traced(lambda w: w[2] + w.name, word)) == "((p0 + 2) + p1)"
    assert repr(traced(lambda w, x: w.larger(x), word, A)) == "select((p1 > p0), p1, p0)"


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


def test_nothing_is_set_after_a_return_on_some_paths() -> None:
    def leaves(w, a):
        if a > 0:
            return
        w[0] = a

    with pytest.raises(
        ProgramError, match=r"^an element is set after a return under a condition\n"
    ):
        traced(leaves, Word(), A)


def test_callable_objects_are_functions() -> None:
    threshold = Threshold(2.5)
    assert repr(traced(threshold, A)) == "select((p0 > 2.5), p0, 2.5)"
    assert "2.5" in repr(traced(lambda a: threshold(a) if a > 0 else a, A))
    largest = operator_function(lambda a, b: a if a > b else b)
    assert largest(1, 2) == 2
    assert repr(traced(lambda a, b: largest(a, largest(b, 0)), A, B)) == (
        "select((p0 > select((p1 > 0), p1, 0)), p0, select((p1 > 0), p1, 0))"
    )


def test_stores_know_their_conditions() -> None:
    def stores(w, a):
        w[0] = a
        if a > 0:
            w[1] = a
            if a > 9:
                w[2] += 1
        else:
            w[3] = -a

    word = Word()
    source = source_of(stores)
    assert source is not None
    Interpreter(source, globals()).execute(source.statements, {"w": word, "a": A})
    assert word.log == [
        "[0] = p0",
        "[1] = p0 where (p0 > 0)",
        "[2] = ((p0 + 2) + 1) where ((p0 > 0) & (p0 > 9))",
        "[3] = neg(p0) where not((p0 > 0))",
    ]


def test_statements_change_the_variables_that_they_are_given() -> None:
    def body(x):
        y = x + 1
        if y > 2:
            y = 2

    source = source_of(body)
    assert source is not None
    variables: dict[str, Any] = {"x": A}
    assert Interpreter(source, {}).execute(source.statements, variables) is None
    assert repr(variables["y"]) == "select(((p0 + 1) > 2), 2, (p0 + 1))"


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


# ---- what is refused ----------------------------------------------------------------------------


def endless(a):
    while a > 1:
        a = a / 2
    return a


def tried(a):
    try:
        return 1 if a > 0 else 2
    finally:
        pass


def recursive(a):
    return a if a < 1 else recursive(a / 2)


def half(a):
    if a > 0:
        x = 1
    return x


def some_paths(a):
    if a > 0:
        return a


def different_tuples(a):
    return (a, a) if a > 0 else (a, a, a)


def none_or_number(a):
    x = None
    if a > 0:
        x = a
    return x + 1


def long_loop(a):
    for _ in range(10**9):
        a = a if a > 1 else a + 1
    return a


def symbolic_range(a):
    for _ in range(a):
        a += 1
    return a


def conditional_break(a):
    for _ in range(3):
        if a > 1:
            break
        a += 1
    return a


def appended(a):
    values = [a]
    if a > 0:
        values.append(1)
    return values[-1]


def stored(a):
    values = [a, a]
    if a > 0:
        values[0] = 1
    return values[0]


def changes_globals(a):
    global SCALE
    SCALE = a if a > 0 else 1
    return a


def filtered(a):
    return sum(x for x in (a, 1) if x > 0)


def unknown_name(a):
    return a if a > 0 else undefined  # noqa: F821


def bits(a):
    if a > 0:
        return a & 3
    return a


def bad_index(a):
    return (a, 1)[2] if a > 0 else a


def wrong_call(a):
    return clamp(a, depth=2) if a > 0 else a


def raises(a):
    if a < 0:
        raise ValueError
    return a


def with_statement(a):
    with suppress(ValueError):
        return a if a > 0 else 1


def number_is_no_sequence(a):
    x, y = a if a > 0 else 2
    return x + y


def asserted(a):
    assert a > 0, "positive"
    return a


def in_a_callee(a):
    return endless(a) + 1 if a > 0 else a


def formatted(a):
    return f"{a}" if a > 0 else ""


def not_ascii(a):
    return "äöü" and bits("ßßß" and a) if a > 0 else (a, "ÄÖÜ" and a & 1)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            endless,
            """\
            'while' has no known number of steps
              while a > 1:
              ^
              FILE, in endless
              hint: write 'for … in range(…)' with a constant""",
        ),
        (
            tried,
            """\
            'try' cannot be traced: kernels raise nothing
              try:
              ^
              FILE, in tried
              hint: test with if instead""",
        ),
        (
            recursive,
            """\
            recursive calls itself
              return a if a < 1 else recursive(a / 2)
                                     ^
              FILE, in recursive
              hint: write the recursion as a loop""",
        ),
        (
            half,
            """\
            'x' is set in one branch only of the if in line N
              return x
                     ^
              FILE, in half
              hint: set it before the if""",
        ),
        (
            some_paths,
            """\
            some_paths returns a value on some paths only
              def some_paths(a):
              ^
              FILE, in some_paths
              hint: end it with a return""",
        ),
        (
            different_tuples,
            """\
            the value is a tuple of 2 or of 3 values
              return (a, a) if a > 0 else (a, a, a)
                     ^
              FILE, in different_tuples""",
        ),
        (
            none_or_number,
            """\
            'x' is a number or None after the if in line N
              return x + 1
                     ^
              FILE, in none_or_number
              hint: set it before the if""",
        ),
        (
            long_loop,
            """\
            a loop of more than 4096 steps would be unrolled
              for _ in range(10**9):
                       ^
              FILE, in long_loop
              hint: make it a dim of the computation""",
        ),
        (
            symbolic_range,
            """\
            the value of p0 is known only when the kernel runs
              for _ in range(a):
                       ^
              FILE, in symbolic_range
              hint: indices and bounds of loops must be constants here""",
        ),
        (
            conditional_break,
            """\
            'break' under a condition that is known only when the kernel runs
              break
              ^
              FILE, in conditional_break
              hint: let a variable say whether the rest still counts""",
        ),
        (
            appended,
            """\
            a list is changed under a condition that may not hold
              values.append(1)
              ^
              FILE, in appended
              hint: use tuples, and choose values by 'a if condition else b'""",
        ),
        (
            stored,
            """\
            an element is set under a condition that is known only when the kernel runs
              values[0] = 1
              ^
              FILE, in stored
              hint: set it in any case, to a value chosen by 'a if condition else b'""",
        ),
        (
            changes_globals,
            """\
            'global' cannot be traced: kernels change no variables of Python
              global SCALE
              ^
              FILE, in changes_globals
              hint: return it""",
        ),
        (
            filtered,
            """\
            the condition of a filter is known only when the kernel runs
              return sum(x for x in (a, 1) if x > 0)
                                              ^
              FILE, in filtered""",
        ),
        (
            unknown_name,
            """\
            name 'undefined' is not defined
              return a if a > 0 else undefined  # noqa: F821
                                     ^
              FILE, in unknown_name""",
        ),
        (
            bits,
            """\
            operation 'and' takes integers and booleans, not float64
              return a & 3
                     ^
              FILE, in bits
              hint: convert the operands, or compare them first""",
        ),
        (
            bad_index,
            """\
            IndexError: tuple index out of range
              return (a, 1)[2] if a > 0 else a
                     ^
              FILE, in bad_index""",
        ),
        (
            wrong_call,
            """\
            clamp has no parameter 'depth'
              return clamp(a, depth=2) if a > 0 else a
                     ^
              FILE, in wrong_call""",
        ),
        (
            raises,
            """\
            'raise' cannot be traced: kernels raise nothing
              raise ValueError
              ^
              FILE, in raises
              hint: return a value such as nan""",
        ),
        (
            with_statement,
            """\
            'with' cannot be traced
              with suppress(ValueError):
              ^
              FILE, in with_statement
              hint: leave it out of the traced function""",
        ),
        (
            number_is_no_sequence,
            """\
            select((p0 > 0), p0, 2) is one number and cannot be iterated
              x, y = a if a > 0 else 2
              ^
              FILE, in number_is_no_sequence""",
        ),
        (
            asserted,
            """\
            the condition of an assertion is known only when the kernel runs
              assert a > 0, "positive"
                     ^
              FILE, in asserted""",
        ),
        (
            in_a_callee,
            """\
            'while' has no known number of steps
              while a > 1:
              ^
              FILE, in endless
              hint: write 'for … in range(…)' with a constant""",
        ),
        (
            formatted,
            """\
            JoinedStr cannot be traced
              return f"{a}" if a > 0 else ""
                     ^
              FILE, in formatted
              hint: write it in simpler Python""",
        ),
    ],
)
def test_what_is_refused(function: Callable, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        traced(function, A)
    assert masked(caught.value) == textwrap.dedent(message)


def masked(error: MdtensorError) -> str:
    """The text of an error, without the numbers of lines, which it must have."""
    lines = str(error).splitlines()
    for n, line in enumerate(lines):
        if __file__ in line:
            place, _, name = line.strip().partition(", in ")
            assert place.removeprefix(f"{__file__}:").isdigit()
            lines[n] = f"  FILE, in {name}"
        elif "the if in line" in line:
            head, _, number = line.rpartition(" ")
            assert number.isdigit()
            lines[n] = f"{head} N"
    return "\n".join(lines)


def test_carets_count_characters() -> None:
    with pytest.raises(ProgramError) as caught:
        traced(not_ascii, param(0, "i4") / 1)
    assert masked(caught.value).splitlines()[1:3] == ["  return a & 3", "         ^"]
    with pytest.raises(ProgramError) as caught:
        traced(lambda a: ("äöü", a & 1) if a > 0 else a, A)
    (column,), text = caught.value.carets, caught.value.text
    assert text is not None
    assert text[column:].startswith("a & 1")


def test_functions_without_source_can_only_be_called() -> None:
    space: dict[str, Any] = {}
    exec("def f(a): return a * 2\ndef g(a): return a if a > 0 else 1", space)
    assert repr(traced(space["f"], A)) == "(p0 * 2)"
    with pytest.raises(ProgramError) as caught:
        traced(space["g"], A)
    assert str(caught.value) == textwrap.dedent("""\
        g cannot be traced: the truth of (p0 > 0) is known only when the kernel runs
          its source was not found, so that it could only be called
          hint: use numpy.where(condition, then, otherwise) for if""")


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
