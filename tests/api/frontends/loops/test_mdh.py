"""The directive: calls, declared buffers, and programs that it refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mdtensor.api.calls import program_calls
from mdtensor.directive import (
    Buffer,
    add,
    cc,
    combine_ops,
    fp32,
    fp64,
    inp,
    int64,
    mdh,
    out,
    pw,
)
from mdtensor.errors import DTypeError, ProgramError, ShapeError, TranslationError

pytestmark = pytest.mark.usefixtures("by_reference")
D = Buffer[fp64]
X, Y, M = np.arange(6.0), np.zeros(6), np.arange(36.0).reshape(6, 6)
COUNTS = np.zeros(6, np.int64)


# --- calls -----------------------------------------------------------------------------------


@mdh(out(w=D), inp(M=D, v=D), combine_ops(cc, pw(add)))
def matvec(w, M, v):
    """Matrix times vector."""
    for i in range(M.shape[0]):
        for k in range(len(v)):
            w[i] = M[i, k] * v[k]


def test_outputs_are_written_in_place_or_returned() -> None:
    w = np.empty(6)
    assert matvec(w, M, X) is None
    np.testing.assert_allclose(w, M @ X)
    np.testing.assert_allclose(matvec(M, X), M @ X)
    np.testing.assert_allclose(matvec(M=M, v=X), M @ X)
    np.testing.assert_allclose(matvec(M, v=X), M @ X)


def test_the_function_keeps_its_name_and_text() -> None:
    assert matvec.__name__ == "matvec"
    assert matvec.__doc__ == "Matrix times vector."
    assert str(matvec.steps(M, X)[0]) == "md_hom[i:6, k:6](mul, (cc, pw(add)))"


@pytest.mark.parametrize(
    "array",
    [
        M.T,
        M[::-1],
        np.asfortranarray(M),
        np.arange(72.0).reshape(6, 12)[:, ::2],
        M.astype(">f8"),
        M.tolist(),
    ],
    ids=["transposed", "reversed", "fortran", "strided", "bytes", "list"],
)
def test_arrays_of_any_layout(array) -> None:
    np.testing.assert_allclose(matvec(array, X), np.asarray(array) @ X)


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match=r"matvec\(\) lacks an argument for 'v'"):
        matvec(M)
    with pytest.raises(TypeError, match=r"takes 3 arguments, or 2 without its outputs, not 4"):
        matvec(Y, M, X, X)


def test_declared_sizes_are_checked() -> None:
    @mdh(out(y=Buffer[fp32, 4]), inp(x=Buffer[fp32, (4,)]), combine_ops(cc))
    def scaled(y, x):
        for i in range(4):
            y[i] = 2 * x[i]

    np.testing.assert_array_equal(scaled(np.ones(4, "f4")), [2, 2, 2, 2])
    with pytest.raises(ShapeError) as error:
        scaled(np.ones(5, "f4"))
    assert str(error.value) == "x has shape (5,), but was declared as Buffer[float32, 4]"


def test_clauses_are_checked() -> None:
    with pytest.raises(TranslationError, match="'add' does not say how a loop is combined"):
        combine_ops(cc, add)  # type: ignore[arg-type]
    with pytest.raises(TranslationError, match="is no clause of mdh"):
        mdh(out(w=D), cc)
    with pytest.raises(DTypeError, match="is no scalar type"):
        Buffer[3.5]


def test_several_outputs_and_accesses() -> None:
    @mdh(out(pairs=D, total=D), inp(x=D), combine_ops(cc))
    def paired(pairs, total, x):
        for i in range(len(x) // 2):
            pairs[2 * i] = x[2 * i + 1]
            pairs[2 * i + 1] = x[2 * i]
            total[i] = pairs[2 * i] + pairs[2 * i + 1]

    pairs, total = paired(X)
    np.testing.assert_array_equal(pairs, [1, 0, 3, 2, 5, 4])
    np.testing.assert_array_equal(total, [1, 5, 9])


def test_gathers_conditions_and_functions() -> None:
    def clipped(value, low, high):
        if value < low:
            return low
        return min(value, high)

    @mdh(out(y=D), inp(x=D, idx=Buffer[int64]), combine_ops(cc, pw("max")))
    def gathered(y, x, idx):
        for i in range(3):
            for j in range(2):
                near = x[idx[i] + j] if idx[i] + j < len(x) else 0.0
                y[i] = clipped(np.sqrt(near), 0.5, 1.5)

    idx = np.array([0, 5, 2])
    expected = [
        max(np.clip(np.sqrt(X[k + j] if k + j < 6 else 0), 0.5, 1.5) for j in range(2)) for k in idx
    ]
    np.testing.assert_allclose(gathered(X, idx), expected)


def test_numbers_share_a_kernel_and_keep_their_types() -> None:
    @mdh
    def scaled(alpha, x):
        for i in range(len(x)):
            x[i] = alpha * x[i]

    for alpha in (2.0, 3.5, np.float32(0.5), 2, True):
        x = np.arange(4, dtype="f4")
        scaled(alpha, x)
        np.testing.assert_array_equal(x, np.arange(4, dtype="f4") * alpha)
    programs = [key[2] for key in program_calls._table if key[:2] == ("mdh", scaled.key)]
    assert len(programs) == 4
    assert scaled.steps(2.0, np.ones(4, "f4"))[0].outputs[0].spec.dtype == np.float32


def test_outputs_without_operators() -> None:
    @mdh(out(y=Buffer[fp64, 6]), inp(x=D))
    def total(y, x):
        for i in range(6):
            for j in range(6):
                y[i] += x[j]

    np.testing.assert_allclose(total(X), np.full(6, 15))

    @mdh(out(y=D), inp(x=D))
    def unsized(y, x):
        for i in range(6):
            y[i] += x[i]

    with pytest.raises(ProgramError, match="output y is neither passed nor declared with its size"):
        unsized(X)


def test_empty_loops() -> None:
    np.testing.assert_array_equal(matvec(np.ones((3, 0)), np.ones(0)), np.zeros(3))
    assert matvec(np.ones((0, 3)), np.ones(3)).shape == (0,)


def test_arrays_that_overlap_are_refused_where_order_matters() -> None:
    @mdh
    def shifted(y, x):
        for i in range(len(y)):
            y[i] = x[i]

    x = np.arange(6.0)
    with pytest.raises(ShapeError) as error:
        shifted(x[1:], x[:-1])
    assert str(error.value) == (
        "y is written, and shares memory with x\n  hint: pass a copy: x.copy()"
    )


def test_closures_are_looked_up_at_every_call() -> None:
    factor = 2.0

    @mdh
    def scaled(x):
        for i in range(len(x)):
            x[i] = factor * x[i]

    x = np.ones(3)
    scaled(x)
    factor = 3.0
    scaled(x)
    np.testing.assert_array_equal(x, [6, 6, 6])


# --- wrong programs --------------------------------------------------------------------------


def carried(x):
    for i in range(1, len(x)):
        x[i] = x[i - 1] + 1


def below_zero(x, y):
    for i in range(len(x)):
        y[i] = x[i - 1]


def unknown_end(x):
    i = 0
    while i < len(x):
        x[i] = 1
        i += 1


def unknown_construct(x):
    for i in range(len(x)):
        with open("x"):
            x[i] = 1


def scattered(x, h):
    for i in range(len(x)):
        h[x[i]] = i


def not_injective(M, w):
    for i in range(3):
        for j in range(3):
            w[i + j] = M[i, j]


def unknown_bound(x, n):
    for i in range(len(x)):
        for _ in range(x[i]):
            n[i] += 1


def last_iteration(M, x):
    for i in range(len(x)):
        for k in range(M.shape[1]):
            t = M[i, k]
        x[i] = t


def running_sum(x, y):
    s = 0.0
    for i in range(len(x)):
        s += x[i]
        y[i] = s


def place_of_largest(x, y):
    best, at = -1.0, 0
    for i in range(len(x)):
        if x[i] > best:
            best = x[i]
            at = i
    y[0] = at


def in_turns(M, t, w):
    for i in range(len(w)):
        for k in range(M.shape[1]):
            t[k] = M[i, k] * 2
        for k in range(M.shape[1]):
            w[i] += t[k]


def left_early(x):
    for i in range(len(x)):
        if x[i] > 3:
            break
        x[i] = 0


def rounded_sum(x, n):
    for i in range(len(x)):
        n[0] += x[i]


def slices(x, y):
    for i in range(len(x)):
        y[i] = x[:i]


def over_elements(x, y):
    for value in x:
        y[0] += value


WRONG = [
    (carried, (np.ones(5000),), "loop 'i' reads an element of x that an earlier iteration writes"),
    (
        below_zero,
        (X, Y),
        "index i-1 of x is out of reach: it runs from -1 to 4, but axis 0 has extent 6",
    ),
    (unknown_end, (X,), "a while loop runs an unknown number of times"),
    (unknown_construct, (X,), "'with' cannot be traced"),
    (
        scattered,
        (np.zeros(5000, int), Y),
        "iterations of loop 'i' may write the same element of h, and the last would win",
    ),
    (not_injective, (M, Y), "several iterations of loop 'i' write one element of w"),
    (unknown_bound, (X, COUNTS), "a bound of a loop is no integer"),
    (last_iteration, (M, Y), "'t' is what the last iteration of loop 'k' left in it"),
    (
        running_sum,
        (np.ones(100), np.ones(100)),
        "loop 'i' carries 's' to the next iteration, and other statements use it",
    ),
    (
        place_of_largest,
        (np.ones(100), Y),
        "loop 'i' carries 'at' to the next iteration, and it follows from itself by no operator",
    ),
    (
        in_turns,
        (np.ones((5000, 3)), np.ones(3), np.ones(5000)),
        "every iteration of loop 'i' writes the same element of t, and the last would win",
    ),
    (left_early, (X,), "'break' under a condition that is known only when the kernel runs"),
    (
        rounded_sum,
        (X, COUNTS),
        "n holds integers, so every step of the reduction would round",
    ),
    (slices, (X, Y), "x is indexed by a slice"),
    (over_elements, (X, Y), "a loop goes over the elements of an array"),
]


@pytest.mark.parametrize(
    ("function", "arguments", "message"), WRONG, ids=[function.__name__ for function, *_ in WRONG]
)
def test_a_wrong_program_says_why(
    function: Callable[..., None], arguments: tuple[object, ...], message: str
) -> None:
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    with pytest.raises(ProgramError) as error:
        mdh(function)(*arguments)
    assert error.value.message == message
    assert error.value.text
    assert error.value.carets
    assert error.value.notes[0].endswith(f"in {function.__name__}")
    for kept, given in zip(before, arguments, strict=True):
        np.testing.assert_array_equal(kept, given)


def test_an_error_shows_line_caret_and_hint() -> None:
    with pytest.raises(ProgramError) as error:
        mdh(unknown_bound)(X, COUNTS)
    line = unknown_bound.__code__.co_firstlineno + 2
    assert str(error.value) == (
        "a bound of a loop is no integer\n"
        "  for _ in range(x[i]):\n"
        "           ^\n"
        f"  {__file__}:{line}, in unknown_bound\n"
        "  hint: bounds are integers from arguments and shapes, sums of outer loops' variables, or"
        " elements of arrays of integers"
    )


def writes_an_input(y, x):
    for i in range(6):
        x[i] = 1.0
        y[i] = 2.0


def reads_an_output(y, x):
    for i in range(6):
        y[i] = y[i] + x[i]


def two_loops(y, x):
    for i in range(6):
        for k in range(6):
            y[i] = x[k]


def index_of_reduced(y, x):
    for i in range(6):
        for k in range(6):
            y[i, k] = x[i]


def statement_beside(y, x):
    for i in range(6):
        t = x[i]
        for _ in range(6):
            y[i] = t


def sometimes(y, x):
    for i in range(6):
        if x[i] > 0:
            y[i] = 1.0


def never(y, x):
    for i in range(6):
        x[i]


def shifted(y, x):
    for i in range(3):
        for j in range(3):
            y[i + j] = x[i]


def triangle(y, x):
    for i in range(6):
        for _ in range(i):
            y[i] = x[i]


WRONG_NESTS = [
    (writes_an_input, (cc,), "x is an input, but it is written"),
    (reads_an_output, (cc,), "output y is read before it is written"),
    (two_loops, (cc,), "combine_ops names 1 operator, but more loops are nested"),
    (
        two_loops,
        (cc, cc),
        "every iteration of loop 'k' writes the same element of y, but cc keeps them all",
    ),
    (
        index_of_reduced,
        (cc, pw(add)),
        "y is written at an index of loop 'k', which pw(add) reduces to one element",
    ),
    (
        statement_beside,
        (cc, pw(add)),
        "combine_ops names 2 operators, but 1 loop is nested",
    ),
    (sometimes, (cc,), "output y is written under a condition only"),
    (never, (cc,), "output y is never written"),
    (shifted, (cc, cc), "several iterations of loop 'i' write one element of y"),
    (triangle, (cc, pw(add)), "the bounds of loop '_' depend on other loops"),
]


@pytest.mark.parametrize(("function", "operators", "message"), WRONG_NESTS)
def test_a_wrong_nest_says_why(function, operators, message: str) -> None:
    decorated = mdh(out(y=D), inp(x=D), combine_ops(*operators))(function)
    with pytest.raises(ProgramError) as error:
        decorated(X)
    assert error.value.message == message
    assert error.value.hint


@pytest.mark.parametrize("dtype", ["u1", "u4", "u8", "i1", "i8", "f4"])
@pytest.mark.parametrize("offset", [-2, 300])
def test_elements_are_compared_with_indices_beyond_their_type(dtype: str, offset: int) -> None:
    def compared(y, c):
        for i in range(3):
            y[i, 0] = 1 if c[i] < i + offset else 0
            y[i, 1] = 1 if c[1] >= i + offset else 0
            y[i, 2] = 1 if i + offset != c[i] else 0
            y[i, 3] = 1 if i + offset <= c[i] <= i else 0

    elements = np.array([0, 1, 3], dtype)
    expected, found = np.full((2, 3, 4), 7)
    compared(expected, elements)
    mdh(compared)(found, elements)
    np.testing.assert_array_equal(found, expected)
