"""Gradients of every front end and of programs, compared with central differences."""

from __future__ import annotations

import re

import dask.array
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import GradientError, MdtensorError
from tests.gradients.front_ends import CASES
from tests.gradients.gradcheck import gradcheck


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", CASES)
def test_front_end(name: str) -> None:
    function, shapes = CASES[name]
    random = np.random.default_rng(7)
    gradcheck(function, [random.standard_normal(shape) for shape in shapes])


def _network(w1, w2, x, target):
    hidden = np.tanh(mdt.einsum("bi,ij->bj", x, w1))
    return ((mdt.einsum("bj,jk->bk", hidden, w2) - target) ** 2).sum()


def test_a_program_of_calls() -> None:
    random = np.random.default_rng(3)
    w1, w2, x, target = (random.standard_normal(s) for s in ((3, 4), (4, 2), (5, 3), (5, 2)))
    gradcheck(lambda a, b: _network(a, b, x, target), [w1, w2])
    for_w1, for_w2 = mdt.grad(_network, (0, 1))(w1, w2, x, target)
    hidden = np.tanh(x @ w1)
    error = 2 * (hidden @ w2 - target)
    np.testing.assert_allclose(for_w2, hidden.T @ error, rtol=1e-10)
    np.testing.assert_allclose(for_w1, x.T @ (error @ w2.T * (1 - hidden**2)), rtol=1e-10)


def test_second_order() -> None:
    random = np.random.default_rng(4)
    matrix, x = random.standard_normal((3, 3)), random.standard_normal(3)

    def energy(x):
        return (mdt.einsum("i,ij,j->", x, matrix, x) + np.sin(x).sum()) * 1.0

    def first(x):
        return (mdt.grad(energy)(x) * np.array([1.0, 0, 0])).sum()

    expected = (matrix + matrix.T)[0] - np.array([np.sin(x[0]), 0, 0])
    np.testing.assert_allclose(mdt.grad(first)(x), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["conv", "cumprod", "softmax", "stencil with zeros", "window"])
def test_second_order_of_front_end(name: str) -> None:
    function, shapes = CASES[name]
    random = np.random.default_rng(2)

    def gradients(*arrays):
        def total(*given):
            return np.sin(mdt.lazy(function(*given))).sum()

        return mdt.grad(total, range(len(arrays)))(*arrays)

    gradcheck(gradients, [random.standard_normal(shape) for shape in shapes], tolerance=1e-5)


@pytest.mark.parametrize("n", [0, 3])
def test_steps_of_a_stencil(n: int) -> None:
    product = mdt.stencil(lambda u: u[-1] * u[0] + u[1], border="fixed")
    gradcheck(lambda x: product.steps(x, n=n), [np.linspace(0.5, 1, 6)])


def test_equal_maxima_share_their_cotangent() -> None:
    total = mdt.grad(lambda x: mdt.reduce("i->", x, combine="max"))
    np.testing.assert_array_equal(total(np.array([2.0, 1, 2])), [0.5, 0, 0.5])


def test_float32_stays_float32() -> None:
    gradient = mdt.grad(lambda x: mdt.einsum("i,i->", x, x))(np.ones(3, "f4"))
    assert gradient.dtype == np.float32
    np.testing.assert_array_equal(gradient, [2, 2, 2])


def test_an_array_given_twice_has_two_gradients() -> None:
    x = np.array([1.0, 2.0])
    first, second = mdt.grad(lambda a, b: mdt.einsum("i,i->", a, b * b), (0, 1))(x, x)
    np.testing.assert_array_equal(first, x * x)
    np.testing.assert_array_equal(second, 2 * x * x)


def test_empty_arrays() -> None:
    for_a, for_b = mdt.vjp(mdt.einsum, "ij,jk->ik", np.ones((2, 0)), np.ones((0, 3)))[1](
        np.ones((2, 3))
    )
    assert (for_a.shape, for_b.shape) == ((2, 0), (0, 3))


def test_arrays_that_no_kernel_reads_have_gradients() -> None:
    apart = np.ndarray(3, "f8", buffer=bytearray(25), offset=1)
    apart[:] = X
    for x in (apart, X.astype(">f8")):
        found = mdt.grad(lambda a: mdt.einsum("i,i->", a, a))(x)
        np.testing.assert_array_equal(found, 2 * X)


def test_the_gradient_of_a_constant_is_an_array_within_another_one() -> None:
    seen = []

    def scaled(x):
        seen.append(mdt.grad(lambda y: (y * y).sum())(X))
        return np.linalg.norm(seen[-1]) * x.sum()

    np.testing.assert_allclose(mdt.grad(scaled)(X), np.linalg.norm(2 * X) * np.ones(3))
    assert type(seen[0]) is np.ndarray
    inner = mdt.grad(lambda x: mdt.grad(lambda y: (x * y * y).sum())(X).sum())
    np.testing.assert_allclose(inner(X), 2 * X)  # which depends on what is around it


X = np.array([1.0, 2, 3])
W = np.array([1 + 2j, 3 - 1j, 0.5j])
_COMPLEX = (
    "a value is complex128, through which nothing can be differentiated\n"
    "  hint: compute real and imaginary parts as arrays of their own"
)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: mdt.grad(lambda x: x.sum())(np.arange(3)),
            (
                "argument 0 is int64, and only floating-point arrays have gradients\n"
                "  hint: convert it by a.astype(float)"
            ),
        ),
        (
            lambda: mdt.grad(lambda x: x.sum())([1.0, 2.0]),
            (
                "argument 0 is [1.0, 2.0], and only NumPy's arrays have gradients\n"
                "  hint: numpy.asarray(a); torch's tensors and calls of mdtensor.jax have their own"
            ),
        ),
        (
            lambda: mdt.grad(lambda x: x.sum())(dask.array.ones(3)),
            (
                "argument 0 is an array (3,) of float64, and only NumPy's arrays have gradients\n"
                "  hint: numpy.asarray(a); torch's tensors and calls of mdtensor.jax have their own"
            ),
        ),
        (
            lambda: mdt.grad(lambda x: mdt.reduce("i->", x, combine="argmax"))(X),
            "a result is int64, which has no gradient",
        ),
        (
            lambda: mdt.grad(lambda x: ((x > 0) * x).sum())(X),
            (
                "(p0 > 0) is bool, through which nothing can be differentiated\n"
                "  it is used in float64((p0 > 0))\n"
                "  hint: choose by numpy.where(condition, a, b); only conditions may be compared or"
                " rounded"
            ),
        ),
        (
            lambda: mdt.grad(lambda x: float(x.sum()))(X),
            (
                "the value of an array is asked for in a function that is differentiated\n"
                "  hint: return lazy arrays; choose elements by numpy.where(condition, a, b)"
            ),
        ),
        (
            lambda: mdt.grad(lambda x: 2.0)(X),
            (
                "the function returns 2.0, which does not depend on its arguments\n"
                "  hint: return what mdtensor's and NumPy's functions give for them"
            ),
        ),
        (
            lambda: mdt.grad(lambda x: x * 2)(X),
            (
                "a gradient is of one number, and the function has a result of shape (3,)\n"
                "  hint: add it up, result.sum(), or use mdtensor.vjp"
            ),
        ),
        (
            lambda: mdt.grad(lambda x: x.sum(), 1)(X),
            "there is no argument 1 to differentiate by",
        ),
        (
            lambda: mdt.grad(lambda x: mdt.einsum("i->", x, out=np.zeros(())))(X),
            "out= is written in a function that is differentiated",
        ),
        *(
            (lambda program=program: mdt.grad(program)(X), _COMPLEX)
            for program in (
                lambda x: mdt.einsum("i->", np.abs(mdt.einsum("i,i->i", x, W))),
                lambda x: mdt.einsum("i,i->", x, W).real,
                lambda x: np.abs(mdt.reduce("i,i->i", x, W)).sum(),
            )
        ),
        (
            lambda: mdt.vjp(mdt.einsum, "i->", np.arange(3)),
            (
                "no argument is an array of floating point, and only these have gradients\n"
                "  hint: convert one by a.astype(float)"
            ),
        ),
        (
            lambda: mdt.vjp(mdt.einsum, "i->i", X)[1](np.ones(2)),
            "a cotangent has shape (2,) but the result (3,)",
        ),
        (
            lambda: mdt.vjp(mdt.einsum, "i->i", X)[1](X, X),
            "2 cotangents for 1 results",
        ),
    ],
)
def test_what_has_no_gradient_is_named(call, text: str) -> None:
    with pytest.raises(MdtensorError, match=f"^{re.escape(text)}$"):
        call()


@pytest.mark.parametrize("program", [lambda x: np.abs(x * W).sum(), lambda x: (x * W).real.sum()])
def test_complex_numbers_inside_an_expression_are_refused(program) -> None:
    with pytest.raises(GradientError, match="complex128"):
        mdt.grad(program)(X)


def test_calls_after_an_error_are_as_before() -> None:
    with pytest.raises(GradientError):
        mdt.grad(lambda x: float(x.sum()))(X)
    assert mdt.einsum("i,i->", X, X) == 14
    assert type(mdt.einsum("i->i", X)) is np.ndarray
