"""reduce against NumPy, by generated kernels and by the reference interpreter."""

from __future__ import annotations

import gc
import itertools
import math
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
import mdtensor.api.calls.program_calls as module
from mdtensor.api.arrays import invalidation
from mdtensor.api.frontends.reduce import reduce
from mdtensor.bounded import Bounded
from mdtensor.errors import (
    DTypeError,
    MdtensorError,
    OperatorError,
    ProgramError,
    ShapeError,
    SubscriptError,
    TranslationError,
)
from mdtensor.translate.combine import NAMES, PAIR_NAMES
from mdtensor.translate.operators.combination import ps
from mdtensor.translate.operators.combine_operators import operator
from tests.api.executors import executions
from tests.cases import close, values
from tests.counted import no_collections

pytestmark = pytest.mark.usefixtures("executed")
RNG = np.random.default_rng(7)


# ---- named operators

DTYPES = ("bool", "int8", "int32", "uint64", "float16", "float32", "float64")
# Kernels of other types are compiled in other tests.
COMPILED = ("int32", "float32")
UFUNCS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "logaddexp": np.logaddexp,
}


def takes(name: str, dtype: str) -> bool:
    is_float = np.dtype(dtype).kind == "f"
    return is_float if name == "logaddexp" else not is_float or name not in ("and", "or", "xor")


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("executed", "name", "dtype"),
    [case for case in executions(UFUNCS, DTYPES, COMPILED) if takes(*case[1:])],
    indirect=["executed"],
)
def test_named_operators(name: str, dtype: str) -> None:
    kind = np.dtype(dtype).kind
    a = values(RNG, (5, 13), dtype)
    exact = a.astype("f8") if kind == "f" else a
    # NumPy adds bytes up in the machine's word; ours stay what they are, as in einsum.
    wanted: Any = np.int64 if dtype == "bool" and name in ("add", "mul") else a.dtype
    expected = UFUNCS[name].reduce(exact, axis=1).astype(wanted)
    close(reduce("ij->i", a, combine=name), expected)
    whole = UFUNCS[name].reduce(exact, axis=None).astype(wanted)
    close(reduce("ij->", a, combine=name), whole)


@pytest.mark.parametrize(
    ("executed", "name", "dtype"),
    executions(["argmin", "argmax"], DTYPES, COMPILED),
    indirect=["executed"],
)
def test_arguments(name: str, dtype: str) -> None:
    a = values(RNG, (4, 37), dtype)
    a[1] = a[1, 0]
    a[2, 5:9] = a[2, 3]
    if a.dtype.kind == "f":
        a[3, [11, 17]] = np.nan
    numpys = getattr(np, name)
    close(reduce("ij->i", a, combine=name), numpys(a, axis=1))
    close(reduce("ij->j", a, combine=name), numpys(a, axis=0))
    close(reduce("ij->", a, combine=name), numpys(a))
    close(reduce("ij,i->j", a[:3], np.ones(3, a.dtype), combine=name), numpys(a[:3], axis=0))


def test_functions_of_numpy_and_python() -> None:
    a, mask = values(RNG, (5, 13), "float64"), values(RNG, (9,), "bool")
    for function in (np.add, np.sum, np.maximum, np.min, np.argmax, np.multiply):
        numpys = getattr(function, "reduce", function)
        close(reduce("ij->i", a, combine=function), numpys(a, axis=1))
    close(reduce("ij->i", a, combine=max), a.max(axis=1))
    close(reduce("i->", mask, combine=sum), mask.sum())
    close(reduce("i->", mask, combine=np.logical_or), mask.any())


def test_value_and_index() -> None:
    a = values(RNG, (6, 29), "float32")
    value, index = reduce("ij->i", a, f=lambda x, *, j: (x, j), combine="argmax")
    close(value, a.max(axis=1))
    close(index, a.argmax(axis=1))
    value, place = reduce("ij->", a, f=lambda x, *, i, j: (x, 100 * j + i), combine="argmin")
    i, j = np.unravel_index(a.argmin(), a.shape)
    assert (value, place) == (a.min(), 100 * j + i)


def test_a_declared_operator() -> None:
    @operator(identity=(-math.inf, -1))
    def last_maximum(lhs: Any, rhs: Any) -> Any:
        return rhs if rhs[0] >= lhs[0] else lhs

    a = RNG.integers(0, 5, (6, 40)).astype("f4")
    _, index = reduce("ij->i", a, f=lambda x, *, j: (x, j), combine=last_maximum)
    close(index, 39 - a[:, ::-1].argmax(axis=1))
    empty = reduce("ij->i", a[:, :0], f=lambda x, *, j: (x, j), combine=last_maximum)
    close(empty[1], np.full(6, -1))


def test_all_infinite_values_have_an_index() -> None:
    assert reduce("i->", np.full(5, -np.inf), combine="argmax") == 0
    assert reduce("i->", np.full(5, np.inf), combine="argmin") == 0


@pytest.mark.usefixtures("by_reference")
def test_the_position_among_one_element_is_0() -> None:
    for combine in ("argmin", np.argmax):
        found = reduce("ij->ji", np.array([[3.0, 1, 2]]), combine=combine)
        assert (found.shape, found.dtype, found.any()) == ((3, 1), np.int64, False)


# ---- functions


def test_a_general_histogram() -> None:
    weights, keys = values(RNG, (200,), "float64"), RNG.integers(0, 5, 200)
    largest = reduce(
        "e,e,b->b",
        keys,
        weights,
        np.arange(5),
        f=lambda k, w, b: w if k == b else -math.inf,
        combine="max",
    )
    close(largest, np.array([weights[keys == b].max() for b in range(5)]))


def test_a_map() -> None:
    x = values(RNG, (33,), "float32")
    close(reduce("i->i", x, f=lambda v: np.exp(v) + 1), np.exp(x) + 1)
    close(reduce("i->i", x, f=lambda v, *, i: v * i), x * np.arange(33))
    close(reduce("i,j->ij", x, x, f=lambda a, b: a - b), np.subtract.outer(x, x))


def test_a_double_reduction() -> None:
    x = values(RNG, (1000,), "float64")

    def both(lhs: Any, rhs: Any) -> Any:
        return lhs[0] + rhs[0], max(lhs[1], rhs[1])

    total, largest = reduce("i->", x, f=lambda v: (v, v), combine=both, identity=(0, -math.inf))
    close(total, x.sum(), 1000)
    close(largest, x.max())
    total, largest = reduce("i->", x, f=lambda v: (v, v), combine=both)
    close(total, x.sum(), 1000)
    close(largest, x.max())


def test_values_of_indices() -> None:
    assert reduce("->", f=lambda *, i: i * i, extents={"i": 10}) == 285
    close(reduce("->i", f=lambda *, i: 2 * i, extents={"i": 4}), np.arange(0, 8, 2))
    a = values(RNG, (9, 9), "float64")
    close(reduce("ij->", a, f=lambda x, *, i, j: x if i <= j else 0.0), np.triu(a).sum(), 81)


# ---- several operators


# ---- sums as indices, gathers


# ---- types


def test_types() -> None:
    f2, i1 = np.ones(5000, "f2"), np.full(300, 100, "i1")
    assert reduce("i->", f2) == 5000
    assert reduce("i->", f2).dtype == np.float16
    assert reduce("i->", i1) == np.int8(30000 % 256)
    assert reduce("i->", i1, dtype="i8") == 30000
    assert reduce("i->", i1, f=lambda x: x * 2, dtype="i8") == -56 * 300
    assert reduce("i->", np.float32([1e8, 1, -1e8]), acc_dtype="f8") == 1
    close(reduce("i->", np.array([1, 2], "i4"), combine="logaddexp"), np.logaddexp(1.0, 2.0))
    close(reduce("i->", np.array([2.9, 3.9]), dtype="i4"), np.int32(5))
    total, square = reduce("i->", i1, f=lambda x: (x, x), dtype=("i4", "f4"))
    assert (total.dtype, square.dtype) == (np.int32, np.float32)
    close(reduce("i,i->", np.array([1j, 2]), np.array([2, 1j])), np.complex128(4j))


def test_booleans_are_counted() -> None:
    mask = np.array([True, True, False])
    close(reduce("i->", mask), np.int64(2))
    close(reduce("i->", mask, combine="mul"), np.int64(0))
    close(reduce("i->", mask, combine="or"), np.True_)
    close(reduce("i->", np.arange(5.0), f=lambda x: x > 1), np.int64(3))
    close(reduce("i->", mask, dtype=bool), np.True_)


def test_empty() -> None:
    none = np.zeros((3, 0))
    close(reduce("ij->i", none), np.zeros(3))
    close(reduce("ij->i", none, combine="max"), np.full(3, -np.inf))
    assert reduce("ij->j", none).shape == (0,)
    with pytest.raises(TranslationError, match="has no identity"):
        reduce("ij->i", none, combine=lambda a, b: a + b)
    with pytest.raises(ShapeError, match="argmax of no elements"):
        reduce("ij->i", none, combine="argmax")


# ---- out, epilogues


def test_out() -> None:
    a = values(RNG, (5, 6), "float64")
    out = np.empty(5)
    assert reduce("ij->i", a, out=out) is out
    close(out, a.sum(axis=1))
    reduce("ij->i", a, out=a[:, 2], combine="max")
    assert (a[:, 2] == a.max(axis=1)).all()
    pair = np.empty(5), np.empty(5, np.int32)
    assert reduce("ij->i", a, f=lambda x, *, j: (x, j), combine="argmin", out=pair) is pair
    np.testing.assert_array_equal(pair[1], a.argmin(axis=1))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("gelu", lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
        ("silu", lambda x: x / (1 + np.exp(-x))),
        ("tanh", np.tanh),
    ],
)
def test_epilogues_by_name(name: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
    a, b = values(RNG, (4, 5), "float32"), values(RNG, (5, 6), "float32")
    b[:, 0] *= 1000
    line = values(RNG, (6,), "float32")
    exact = a.astype("f8") @ b
    with np.errstate(over="ignore"):
        close(reduce("ij,jk->ik", a, b, epilogue=name), function(exact).astype("f4"))
        result = reduce("ij,jk->ik; k", a, b, line, epilogue=f"bias_{name}")
        close(result, function(exact + line).astype("f4"))


def test_epilogues_without_their_semicolon() -> None:
    a, b, c = np.ones((2, 3)), np.ones((3, 4)), np.ones(4)
    with pytest.raises(ProgramError, match="behind a semicolon"):
        reduce("ij,jk->ik", a, b, epilogue="bias")
    with pytest.raises(SubscriptError, match="stand behind a semicolon"):
        reduce("ij,jk->ik", a, b, c, epilogue="bias")


def test_epilogues() -> None:
    a, b, c = (values(RNG, shape, "float32") for shape in ((4, 5), (5, 6), (4, 6)))
    exact = a.astype("f8") @ b
    alpha, beta = 2.0, 0.5
    result = reduce("ij,jk->ik; ik", a, b, c, epilogue=lambda acc, old: alpha * acc + beta * old)
    close(result, (alpha * exact + beta * c).astype("f4"))
    line = c[0].copy()
    close(reduce("ij,jk->ik; k", a, b, line, epilogue="bias"), (exact + line).astype("f4"))
    mean = reduce("ij->i", a, epilogue=lambda total: total / 5)
    close(mean, a.mean(axis=1, dtype="f8").astype("f4"))
    shifted = reduce("ij->i", a, epilogue=lambda total, *, i: total + i)
    np.testing.assert_allclose(shifted, a.sum(axis=1, dtype="f8") + np.arange(4), rtol=1e-4)
    norm, root = reduce("ij->i", a, f=lambda x: x * x, epilogue=lambda s: (s, np.sqrt(s)))
    close(root, np.linalg.norm(a.astype("f8"), axis=1).astype("f4"))
    close(norm, (a.astype("f8") ** 2).sum(axis=1).astype("f4"))


def test_an_epilogue_sees_the_wide_sum() -> None:
    halves = np.full(3000, 30, "f2")
    result = reduce("i->", halves, epilogue=lambda total: total / 3000)
    assert (result, result.dtype) == (30, np.float16)
    bytes_ = np.full(3, 100, "i1")
    assert reduce("i->", bytes_, epilogue="relu") == 44
    assert reduce("i->", bytes_, epilogue="relu", dtype="i4") == 300


def test_an_epilogue_after_an_argument() -> None:
    a = values(RNG, (4, 9), "float64")
    close(reduce("ij->i", a, combine="argmax", epilogue=lambda j: j + 1), a.argmax(axis=1) + 1)


# ---- check


def test_check_finds_what_is_not_associative() -> None:
    a = values(RNG, (3, 4), "float64")
    close(reduce("ij->i", a, combine="max", check=True), a.max(axis=1))
    close(reduce("ij->i", a, combine={"j": "add", "i": ps("add")}, check=True), a.sum(1).cumsum())
    with pytest.raises(OperatorError, match=r"(?s)not associative.*\(a ∘ b\) ∘ c = .*hint: "):
        reduce("ij->i", a, combine=lambda x, y: x - y, check=True)
    with pytest.raises(OperatorError, match=r"(?s)identity.*changes a value"):
        reduce("ij->i", a, combine=lambda x, y: x + y, identity=1.0, check=True)
    close(reduce("ij->", a, combine={"i": "max", "j": "add"}, check=True), a.max(axis=0).sum())
    with pytest.raises(OperatorError, match=r"'op' \(∘\) and 'op' \(⊕\).*do not interchange"):
        reduce(
            "ij->",
            a,
            f=lambda x: (x, x),
            combine=lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]),
            check=True,
        )


# ---- the table of calls


def test_a_function_is_known_by_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(4.0)
    monkeypatch.setattr(module, "_table", Bounded(64))
    invalidation.clear()

    def scaled(factor: float) -> Callable[..., Any]:
        return lambda v: factor * v

    results = [reduce("i->", x, f=scaled(factor)) for factor in (2.0, 3.0, 2.0)]
    assert results == [12, 18, 12]
    kept = [each for each in module._table.values() if isinstance(each, module.Program)]
    assert len(kept) == 2


# ---- what is wrong

Call = Callable[[], Any]
A = np.ones((2, 3), "f4")
KNOWN = ", ".join((*NAMES, *PAIR_NAMES))
WRONG: dict[str, tuple[Call, type[MdtensorError], str]] = {
    "unknown operator": (
        lambda: reduce("ij->i", A, combine="plus"),
        TranslationError,
        f"unknown operator 'plus'\n  hint: one of {KNOWN}",
    ),
    "mean": (
        lambda: reduce("ij->i", A, combine="mean"),
        TranslationError,
        """\
        unknown operator 'mean'
          hint: a mean is a sum with epilogue=lambda total: total / count""",
    ),
    "no operator for a dim": (
        lambda: reduce("ij->", A, combine={"j": "add"}),
        SubscriptError,
        """\
        dim 'i' is not in the output, but no operator combines it
          ij->
          hint: combine={'i': 'add', …}, or let the output have it""",
    ),
    "an operator for no dim": (
        lambda: reduce("ij->i", A, combine={"j": "add", "k": "max"}),
        SubscriptError,
        """\
        combine names dim 'k', which the string does not have
          ij->i
          hint: its dims are 'i', 'j'""",
    ),
    "a reduced dim in the output": (
        lambda: reduce("ij->ij", A, combine={"j": "add"}),
        SubscriptError,
        """\
        dim 'j' is in the output, but pw('add') would reduce it
          ij->ij
          hint: leave it out of the output, or scan it: combine={'j': ps(…)}""",
    ),
    "a scanned dim that is gone": (
        lambda: reduce("ij->i", A, combine={"j": ps("add")}),
        SubscriptError,
        """\
        dim 'j' is scanned by ps('add'), but the output does not have it
          ij->i
          hint: a scan keeps its dim""",
    ),
    "no operator at all": (
        lambda: reduce("ij->i", A, combine=3),
        TranslationError,
        f"3 is no operator\n  hint: a function of two elements, or one of {KNOWN}",
    ),
    "argmax of values without an index": (
        lambda: reduce("ij->i", A, f=lambda x: x, combine="argmax"),
        TranslationError,
        """\
        operator 'argmax' takes a value and an index, not (float32)
          hint: return (value, index) from f, for example lambda a, *, j: (a, j)""",
    ),
    "operands without an epilogue": (
        lambda: reduce("ij->i; i", A, np.ones(2)),
        SubscriptError,
        """\
        operands stand after the semicolon, but there is no epilogue
          ij->i; i
               ^
          hint: epilogue='bias' adds one; any function of result and operands can be given""",
    ),
    "unknown epilogue": (
        lambda: reduce("ij->i", A, epilogue="softmax"),
        TranslationError,
        """\
        unknown epilogue 'softmax'
          hint: a function, or relu, gelu, silu, tanh, bias, and bias_relu and so on""",
    ),
    "epilogue of a reduced dim": (
        lambda: reduce("ij->i; j", A, np.ones(3, "f4"), epilogue="bias"),
        TranslationError,
        "the epilogue (j) uses ['j'], which point-wise combination reduces",
    ),
    "no arrow": (
        lambda: reduce("ij", A),
        SubscriptError,
        """\
        the output is missing
          ij
            ^
          hint: write the dims that remain after '->'""",
    ),
    "number of types": (
        lambda: reduce("ij->i", A, dtype=("f4", "f8")),
        DTypeError,
        "2 types for 1 result",
    ),
    "bits of floats": (
        lambda: reduce("ij->i", A, combine="and"),
        TranslationError,
        """\
        operation 'and' takes integers and booleans, not float32
          hint: convert the operands, or compare them first""",
    ),
    "complex numbers have no order": (
        lambda: reduce("i->", np.ones(2, "c8"), combine="max"),
        TranslationError,
        """\
        complex numbers have no order for operator 'max'
          hint: combine their real parts or absolute values: f=lambda z: abs(z)""",
    ),
    "nothing to multiply": (
        lambda: reduce("->", extents={"i": 3}),
        TranslationError,
        """\
        there are no elements to multiply
          hint: give f""",
    ),
}  # fmt: skip


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_shown(name: str, executed: str) -> None:
    call, error, expected = WRONG[name]
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == textwrap.dedent(expected)


def test_a_function_with_other_parameters_is_refused() -> None:
    with pytest.raises(TranslationError, match="2 elements"):
        reduce("ij->i", A, f=lambda x, y: x)
    with pytest.raises(TranslationError, match="'k'"):
        reduce("ij->i", A, f=lambda x, *, k: x)


def test_a_function_may_call_mdtensor_on_constants() -> None:
    """Such a call is no part of the one that traces the function, nor of a plan of that."""

    def times(x: Any) -> Any:
        return x * mdt.einsum("i,i->", [1.0, 2.0], [3, 4])

    x = np.ones(3)
    assert [mdt.reduce("i->", x, f=times) for _ in range(3)] == [33] * 3
    plan = mdt.compile(mdt.reduce, "i->", np.ones(4), f=times)
    assert plan(np.ones(4)) == 44


NUMBERS = itertools.count(2)


def test_what_interrupts_a_function_that_is_traced_may_call_mdtensor() -> None:
    """As callbacks of the garbage collection, handlers of signals and destructors do."""
    seen: list[float] = []
    number = next(NUMBERS)  # so that the function is a new one

    def collected(phase: str, _: object) -> None:
        if phase == "start" and not seen:
            seen.append(mdt.reduce("i,i->", [1.0, 2.0], [3.0, 4.0], f=lambda a, b: a * b + 1))

    def product(a: float, b: float) -> float:
        gc.collect()
        return a * b * number

    with no_collections():  # but that one
        gc.callbacks.append(collected)
        assert mdt.reduce("i,i->", np.ones(3), np.ones(3), f=product) == 3 * number
        gc.callbacks.remove(collected)
    assert seen == [13]
