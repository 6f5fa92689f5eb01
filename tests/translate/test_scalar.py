from __future__ import annotations

import copy
import math
import operator
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from mdtensor.errors import TranslationError
from mdtensor.translate.graphs import count_of_nodes
from mdtensor.translate.operations import OPERATIONS
from mdtensor.translate.scalar import (
    BOOL,
    F32,
    LARGEST,
    Expr,
    apply,
    as_expr,
    cast,
    const,
    equal,
    index_of,
    not_equal,
    param,
    select,
    truth,
    weak,
)
from mdtensor.translate.scalar_function import ScalarFunction, factor, product
from mdtensor.translate.tracing import SymbolError, while_tracing
from mdtensor.translate.trees import evaluate, wide
from tests.counted import Counted

A, B = param(0, "f4"), param(1, "f4")
M, N = param(0, "i4"), param(1, "i4")
P, Q = param(0, "?"), param(1, "?")
Z = param(0, "c8")


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("expr", "printed", "value"),
    [
        (A * B + 1, "((p0 * p1) + 1)", 13.0),
        (2 - A / B, "(2 - (p0 / p1))", 1.25),
        (-A, "neg(p0)", -3.0),
        (+A, "p0", 3.0),
        (sum([A, B]), "(p0 + p1)", 7.0),
        (sum([A > 1, B > 1]), "((0 + int64((p0 > 1))) + int64((p1 > 1)))", 2),
        (A + 0, "p0", 3.0),
        (A + 0.0, "(p0 + 0.0)", 3.0),
        (select(A < B, A, 0.0), "select((p0 < p1), p0, 0.0)", 3.0),
        (select(A, 1.0, B), "select((p0 != 0), 1.0, p1)", 1.0),
        (apply("min", A, B), "min(p0, p1)", 3.0),
        (apply("sqrt", B), "sqrt(p1)", 2.0),
        (cast(A, "f4"), "p0", 3.0),
        (A.astype("i4") / 2, "(float64(int32(p0)) / 2.0)", 1.5),
        (A + index_of("i"), "(float64(p0) + float64(i))", 8.0),
        (1 + A, "(1 + p0)", 4.0),
        (1 * A, "(1 * p0)", 3.0),
        (1 / B, "(1 / p1)", 0.25),
        (7 % B, "(7 % p1)", 3.0),
        (7 // B, "(7 // p1)", 1.0),
        (A % -2, "(p0 % -2)", -1.0),
        (divmod(B, A)[0], "(p1 // p0)", 1.0),
        (divmod(B, A)[1], "(p1 % p0)", 1.0),
        (2**A, "(2 ** p0)", 8.0),
        (A**B, "(p0 ** p1)", 81.0),
        (A**2, "(p0 * p0)", 9.0),
        (A**3, "((p0 * p0) * p0)", 27.0),
        (A**0.5, "sqrt(p0)", math.sqrt(3)),
        (A**-1, "(p0 ** -1)", 1 / 3),
        (abs(-A), "abs(neg(p0))", 3.0),
        (round(A / 2), "int64(rint((p0 / 2)))", 2),
        (round(A / 8, 1), "(rint(((p0 / 8) * 10.0)) / 10.0)", 0.4),
        (math.floor(A / 2), "int64(floor((p0 / 2)))", 1.0),
        (math.ceil(A / 2), "int64(ceil((p0 / 2)))", 2.0),
        (math.trunc(-A / 2), "int64(trunc((neg(p0) / 2)))", -1.0),
        (apply("not", A >= B), "not((p0 >= p1))", True),
        (~(A >= B), "not((p0 >= p1))", True),
        (equal(A, B), "(p0 == p1)", False),
        (not_equal(A, 3), "(p0 != 3)", False),
        (Z.astype("c16").real, "real(complex128(p0))", 3.0),
        (Z.imag, "imag(p0)", 0.0),
        (np.conj(Z), "conj(p0)", 3.0),
        (np.conj(A), "p0", 3.0),
        (abs(Z), "hypot(real(p0), imag(p0))", 3.0),
        (A.imag, "0", 0.0),
    ],
)
def test_expressions_print_and_evaluate(expr: Expr, printed: str, value: float) -> None:
    assert repr(expr) == printed
    result = evaluate(expr, [np.float32(3), np.float32(4)], {"i": np.int64(5)})
    assert result == value
    assert result.dtype == wide(expr.dtype)


def test_integers_stay_in_their_type() -> None:
    a = param(0, "u1")
    assert (a + 1).dtype == np.uint8
    assert evaluate(a + 1, [np.uint8(255)]) == 0


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (M & N, 8),
        (M | N, 14),
        (M ^ N, 6),
        (1 & N, 0),
        (1 | N, 11),
        (1 ^ N, 11),
        (M << 2, 48),
        (M >> 2, 3),
        (1 << N, 1024),
        (5000 >> N, 4),
        (~M, -13),
        (M // -5, -3),
        (M % -5, -3),
        (M**3, 1728),
        (M**0, 1),
        (M // (N - N), 0),
        (abs(-M), 12),
        (np.floor(M), 12),
    ],
)
def test_integers(expr: Expr, expected: int) -> None:
    assert expr.dtype == np.int32
    assert evaluate(expr, [np.int32(12), np.int32(10)]) == expected


def pairs() -> list[tuple[str, Callable, tuple[np.ndarray, ...]]]:
    """Every ufunc of two or one floats that can be traced, and operands for it."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0.1, 0.9, (2, 50))
    one = [
        *(np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.sqrt, np.cbrt),
        *(np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.tanh),
        *(np.arcsinh, np.arctanh, np.fabs, np.floor, np.ceil, np.trunc, np.rint, np.sign),
        *(np.abs, np.negative, np.positive, np.square, np.reciprocal, np.radians, np.degrees),
        *(np.isnan, np.isinf, np.isfinite, np.logical_not, np.signbit, np.round, np.real),
    ]
    two = [
        *(np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.mod, np.fmod),
        *(np.power, np.minimum, np.maximum, np.fmin, np.fmax, np.arctan2, np.hypot),
        *(np.copysign, np.logaddexp, np.less, np.less_equal, np.greater, np.greater_equal),
        *(np.equal, np.not_equal, np.logical_and, np.logical_or, np.logical_xor),
    ]
    singles = [(f.__name__, f, (x - 0.5 if f is not np.log else x,)) for f in one]
    return [*singles, *((f.__name__, f, (8 * x - 4, 8 * y - 4)) for f in two)]


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("name", "function", "operands"), pairs())
def test_functions_of_numpy_are_traced(name, function, operands) -> None:
    symbols = [param(n, "f8") for n in range(len(operands))]
    with np.errstate(all="ignore"):
        expected = function(*operands)
        np.testing.assert_allclose(evaluate(function(*symbols), operands), expected, rtol=1e-15)


def test_where_and_clip_are_traced() -> None:
    x = np.linspace(-2, 2, 9)
    expr = np.where(A > 1, 1.0, np.clip(A, -1, 0.5))
    assert repr(expr) == "select((p0 > 1), 1.0, min(max(p0, -1), 0.5))"
    np.testing.assert_array_equal(evaluate(expr, [x]), np.where(x > 1, 1.0, np.clip(x, -1, 0.5)))
    assert repr(np.clip(A, None, 2)) == "min(p0, 2)"
    assert repr(np.logical_and(A, True)) == "((p0 != 0) & True)"


def test_scalars_of_numpy_keep_their_type() -> None:
    assert (np.float64(2) * A).dtype == np.float64
    assert (A * np.asarray(2, "f4")).dtype == np.float32
    assert (A + np.int64(1)).dtype == np.float64
    assert as_expr(np.bool_(True)).dtype == BOOL


def test_nan_wins_in_min_and_loses_in_fmin() -> None:
    nan = [np.float32("nan"), np.float32(4)]
    for op, expected in {"min": math.nan, "max": math.nan, "fmin": 4, "fmax": 4}.items():
        for args in ((A, B), (B, A)):
            np.testing.assert_equal(evaluate(apply(op, *args), nan), expected)


def test_erf_is_that_of_the_standard_library() -> None:
    x = np.linspace(-3, 3, 7)
    np.testing.assert_array_equal(evaluate(apply("erf", A), [x]), [math.erf(v) for v in x])
    np.testing.assert_array_equal(evaluate(apply("erfc", A), [x]), [math.erfc(v) for v in x])


@pytest.mark.parametrize(
    ("expr", "printed"),
    [
        (P + Q, "(p0 | p1)"),
        (P * Q, "(p0 & p1)"),
        (apply("max", P, Q), "(p0 | p1)"),
        (~P, "not(p0)"),
        (abs(P), "p0"),
        (np.isfinite(P), "True"),
        (np.isnan(M), "False"),
        (P < Q, "(p0 < p1)"),
        (P | True, "(p0 | True)"),
    ],
)
def test_booleans_are_conditions(expr: Expr, printed: str) -> None:
    assert (repr(expr), expr.dtype) == (printed, BOOL)


def test_arithmetic_of_booleans_is_numpys() -> None:
    assert (P / Q).dtype == np.float64
    assert (P + 1).dtype == np.int64
    assert (P // Q).dtype == np.int8
    assert np.exp(P).dtype == np.float64


def test_common_types_are_numpys() -> None:
    assert (M * B).dtype == np.float64
    assert (Z + 1.5).dtype == np.complex64
    assert (M + 1.5).dtype == np.float64
    assert np.exp(M).dtype == np.float64


def test_numbers_of_python_are_weak_through_select_and_arithmetic() -> None:
    number = select(A > 0, 1.0, -1.0)
    assert (number.weak, number.dtype) == (True, np.float64)
    assert repr(number * 2 * A) == "(float32((select((p0 > 0), 1.0, -1.0) * 2)) * p0)"
    assert (number * A).dtype == np.float32
    assert repr(number * A) == "(select((p0 > 0), 1.0, -1.0) * p0)"
    assert select(A > 0, 1, 0.5).dtype == np.float64
    assert (select(A > 0, 1, 0) * A).dtype == np.float32
    assert not select(A > 0, A, 0).weak
    assert weak(1).weak
    assert not weak(True).weak


def test_comparisons_with_numbers_out_of_range() -> None:
    byte = param(0, "u1")
    values = np.array([0, 200], "u1")
    np.testing.assert_array_equal(evaluate(byte < 300, [values]), [True, True])
    np.testing.assert_array_equal(evaluate(byte > -1, [values]), [True, True])


def test_product_of_booleans_is_and() -> None:
    assert repr(product(["?", "i4"], "?").results[0]) == "(p0 & bool(p1))"


def test_zeros_of_two_signs_are_two_constants() -> None:
    assert const(0.0, "f8") != const(-0.0, "f8")
    assert const(complex(0.0, -0.0), "c16") != const(0j, "c16")
    assert const(0, "f8") == const(0.0, "f8")


def test_trees_are_values() -> None:
    assert param(0, "f4") + 1 == A + 1
    assert A + 1 != A + 2
    assert hash(A + 1) == hash(param(0, "f4") + 1)
    assert pickle.loads(pickle.dumps(A + 1)) == A + 1
    assert const(math.nan, "f4") == const(float("nan"), "f4")
    assert (A * A + 1).size == 5
    assert truth(P) is P


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: apply("add", A), "operation 'add' does not take 1 operands"),
        (lambda: apply("add", 1, 2), "operation 'add' has no operand of known type"),
        (lambda: A & B, "operation 'and' takes integers and booleans, not float32"),
        (lambda: P - Q, "operation 'sub' is not defined on booleans, as in NumPy"),
        (lambda: param(0, "u1") + 300, "300 does not fit uint8"),
        (lambda: M**-2, "integers to negative integer powers are not allowed, as in NumPy"),
        (lambda: M**N, "integers have no negative powers, which an exponent of int32 may ask for"),
        (lambda: A < 10**400, "an integer of 1329 bits fits no float"),
        (lambda: np.sin(Z), "operation 'sin' is not defined on complex numbers here"),
        (lambda: A + "x", "operation 'add': 'x' is no scalar"),
        (lambda: A * np.zeros(3), r"operation 'mul': an array of shape (3,) is no scalar"),
        (lambda: np.gcd(M, N), "np.gcd cannot be traced"),
        (lambda: np.add.reduce(A), "np.add.reduce cannot be traced"),
        (lambda: np.add(A, B, dtype="f8"), "np.add with dtype= cannot be traced"),
        (lambda: np.sum(A), "np.sum cannot be traced"),
    ],
)
def test_misuse_is_explained(wrong: Callable[[], Expr], message: str) -> None:
    with pytest.raises(TranslationError) as caught:
        wrong()
    assert str(caught.value).splitlines()[0] == message


@pytest.mark.parametrize("convert", [bool, float, int, complex, math.exp, range])
def test_values_are_not_known_while_tracing(convert: Callable) -> None:
    with pytest.raises(SymbolError, match=r"of \(p0 < p1\) is known only when the kernel runs"):
        convert(A < B)


TOO_MANY = (
    "an expression has more than 20000 operations\n"
    "  hint: unroll fewer steps, or write them as a dim of the computation"
)


def doubled(x: Expr, steps: int) -> Expr:
    """A graph of two nodes for each step, which doubles the tree that it stands for."""
    for _ in range(steps):
        x = x * x + x
    return x


def test_what_is_shared_is_one_node() -> None:
    with Counted(most=200_000):
        x, again = doubled(A, 60), doubled(A, 60)
        assert count_of_nodes([x]) == 121
        assert (x, hash(x), repr(x)) == (again, hash(again), repr(again))
        assert x != doubled(B, 60)
        assert len(repr(x)) < 2000
        packed = pickle.dumps(x)
        assert len(packed) < 10_000
        assert pickle.loads(packed) == x == copy.deepcopy(x)
        function = ScalarFunction((F32,), (x, x))
        assert pickle.loads(pickle.dumps(function)) == function
        assert evaluate(x, [np.float64(-0.5)]) == doubled_of(-0.5)


def doubled_of(x: float) -> float:
    for _ in range(60):
        x = x * x + x
    return x


def test_the_nodes_of_a_chain_are_bounded() -> None:
    x = A
    for _ in range(LARGEST - 1):
        x = apply("neg", x)
    assert count_of_nodes([x]) == LARGEST
    assert evaluate(x, [np.float32(1)]) == -1
    with pytest.raises(TranslationError) as error:
        apply("neg", x)
    assert str(error.value) == TOO_MANY


def test_the_nodes_of_a_graph_are_bounded() -> None:
    with pytest.raises(TranslationError) as error:
        doubled(A, LARGEST)
    assert str(error.value) == TOO_MANY


def test_the_nodes_of_a_function_are_bounded() -> None:
    results = tuple([doubled(A * n, 100) for n in range(100)])
    with pytest.raises(TranslationError) as error:
        ScalarFunction((F32,), results)
    assert str(error.value) == TOO_MANY


def test_texts_of_shared_graphs_name_what_is_shared() -> None:
    assert repr(doubled(A, 2)) == ("((((p0 * p0) + p0) * ((p0 * p0) + p0)) + ((p0 * p0) + p0))")
    assert repr(doubled(A, 12)).startswith(
        "let t0 = ((p0 * p0) + p0); t1 = ((t0 * t0) + t0); t2 = ((t1 * t1) + t1); "
    )
    assert repr(doubled(A, 12)).endswith(" in ((t10 * t10) + t10)")


def test_equality_means_nothing_while_tracing() -> None:
    with pytest.raises(SymbolError, match=r"hint: compare by numpy.equal"):
        while_tracing(operator.eq, A, B)


def test_hardware_may_round_factors_that_are_asked_to_be_less_precise() -> None:
    a, b = (factor(param(n, "f4"), "tf32") for n in range(2))
    rounded = ScalarFunction((F32, F32), (a * b,), "mul")
    assert (repr(rounded), rounded.precision) == ("mul_tf32", "tf32")
    assert evaluate(rounded.results[0], [np.float32(1.0001), np.float32(3)]) == pytest.approx(
        float(np.float32(1.0001)) * 3
    )
    exact = rounded.exact()
    assert exact == product(["f4", "f4"], "f4")
    assert (repr(exact), exact.precision, exact.exact()) == ("mul", None, exact)


@pytest.mark.parametrize("dtype", ["f2", "f8", "c8", "i4", "?"])
def test_factors_of_other_types_are_as_they_are(dtype: str) -> None:
    assert factor(param(0, dtype), "tf32") == param(0, dtype)


def test_every_operation_has_its_meaning() -> None:
    assert {"exp", "erf", "select", "lshift", "fmin"} <= OPERATIONS.keys()
    assert all(operation.arity in (1, 2, 3) for operation in OPERATIONS.values())
