"""Operators of JAX in its programs; values and gradients of all calls: test_jax_calls.py."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mdtensor as mdt
import mdtensor.jax as ours
from mdtensor.api.frameworks import jax_operators
from mdtensor.errors import (
    ArgumentError,
    DTypeError,
    GradientError,
    LaunchError,
    ShapeError,
    SubscriptError,
    TranslationError,
)
from tests import children
from tests.interrupts import comes_at, interrupt

RANDOM = np.random.default_rng(11)
# What JAX makes of an exception within a program.
RAISED = (jax.errors.JaxRuntimeError, ValueError)


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        yield


def normal(*shape: int) -> Any:
    return jnp.asarray(RANDOM.standard_normal(shape))


def product(a: Any, b: Any) -> Any:
    return ours.einsum("ij,jk->ik", a, b)


def moments(a: Any) -> Any:
    return mdt.reduce("ij->i", a, f=lambda x: (x, x * x), combine="add")


both_moments = ours.operator(moments)


def test_batches_of_gradients_and_gradients_of_batches() -> None:
    a, b = normal(6, 3, 4), normal(4, 5)

    def energy(product: Any) -> Any:
        return lambda a: (product(a, b) ** 2).sum()

    found = jax.jit(jax.vmap(jax.grad(energy(product))))(a)
    np.testing.assert_allclose(found, jax.vmap(jax.grad(energy(jnp.matmul)))(a), rtol=1e-12)
    found = jax.grad(lambda a: jax.vmap(energy(product))(a).sum())(a)
    np.testing.assert_allclose(found, jax.grad(energy(jnp.matmul))(a), rtol=1e-12)
    due = jax.hessian(energy(jnp.matmul))(a[0])
    for transform in (
        jax.hessian,
        lambda f: jax.jacrev(jax.jacrev(f)),
        lambda f: jax.jacrev(jax.jacfwd(f)),
        lambda f: jax.jit(jax.jacfwd(jax.grad(jax.checkpoint(f)))),
    ):
        np.testing.assert_allclose(transform(energy(product))(a[0]), due, rtol=1e-12)
    twice = jax.vmap(jax.vmap(product, (0, None)), (None, 0))(a, normal(2, 4, 5))
    assert twice.shape == (2, 6, 3, 5)


def test_only_gradients_that_are_asked_for_are_computed() -> None:
    a, b = normal(3, 4), normal(4, 5)
    program = str(jax.make_jaxpr(jax.grad(lambda b: product(a, b).sum()))(b))
    assert ",2,[1],[0],false]" in program  # by one operand, and without the result
    counted = jax.grad(lambda b: product(jnp.arange(12).reshape(3, 4), b).sum())(b)
    np.testing.assert_allclose(counted, np.arange(12).reshape(3, 4).sum(0)[:, None] * np.ones(5))


def test_results_of_which_one_is_differentiated() -> None:
    a = normal(3, 4)
    first, second = both_moments(a)
    np.testing.assert_allclose(first, a.sum(1), rtol=1e-12)
    np.testing.assert_allclose(second, (a**2).sum(1), rtol=1e-12)
    found = jax.grad(lambda a: both_moments(a)[1].sum())(a)
    np.testing.assert_allclose(found, 2 * a, rtol=1e-12)


def test_programs_with_loops_branches_and_checkpoints() -> None:
    a, w = normal(3, 4), normal(4, 4) / 2

    def program(product: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            state = jnp.tanh(product(state, w))
            return state, state.sum()

        def computed(a: Any) -> Any:
            state, sums = jax.lax.scan(jax.checkpoint(step), a, None, length=3)
            more = jax.lax.cond(sums[0] > 0, lambda s: product(s, w), jnp.negative, state)
            return (more**2).sum() + sums.sum()

        return computed

    found = jax.jit(jax.value_and_grad(program(product)))(a)
    expected = jax.value_and_grad(program(jnp.matmul))(a)
    jax.tree.map(lambda f, e: np.testing.assert_allclose(f, e, rtol=1e-10), found, expected)
    batch = jnp.stack([a, 2 * a])
    found = jax.vmap(jax.grad(program(product)))(batch)
    np.testing.assert_allclose(found, jax.vmap(jax.grad(program(jnp.matmul)))(batch), rtol=1e-10)


def test_buffers_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[int] = []
    run = jax_operators.run

    def watched(text: str, *arrays: Any, out: Any) -> Any:
        places.extend(array.ctypes.data for array in (*arrays, out))
        return run(text, *arrays, out=out)

    monkeypatch.setattr(jax_operators, "run", watched)
    a, b = normal(3, 4), normal(4, 5)
    found = jax.jit(product)(a, b).block_until_ready()
    assert places == [each.unsafe_buffer_pointer() for each in (a, b, found)]


def test_donated_buffers() -> None:
    a, b = normal(4, 4), normal(4, 4)
    expected = np.asarray(a) @ np.asarray(b) + np.asarray(a)
    found = jax.jit(lambda a, b: product(a, b) + a, donate_argnums=0)(a, b)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert a.is_deleted()


def test_a_program_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = normal(3, 4), normal(4, 5)
    found = jax.jit(product)
    expected = found(a, b)

    def traced_again(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(jax_operators, "results_of", traced_again)
    np.testing.assert_array_equal(found(a, b), expected)
    np.testing.assert_array_equal(product(a, b), expected)


def test_threads_run_programs_at_one_time() -> None:
    compiled = jax.jit(lambda a, b: product(product(a, b), b))
    given = [(normal(16, 16), normal(16, 16)) for _ in range(24)]

    def one(pair: tuple[Any, Any]) -> Any:
        with jax.enable_x64(True):
            return compiled(*pair)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(one, given))
    for (a, b), each in zip(given, found, strict=True):
        np.testing.assert_allclose(each, a @ b @ b, rtol=1e-10, atol=1e-12)


def test_errors_of_kernels_are_those_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = jax.jit(product)
    a, b = normal(3, 4), normal(4, 5)

    def lost(*_: Any, out: Any) -> Any:
        raise LaunchError("the device is lost")

    with monkeypatch.context() as patch:
        patch.setattr(jax_operators, "run", lost)
        with pytest.raises(RAISED, match="LaunchError: the device is lost"):
            jax.block_until_ready(compiled(a, b))
    np.testing.assert_allclose(compiled(a, b), a @ b, rtol=1e-12)


def test_an_interrupt_never_passes_for_a_result() -> None:
    square = normal(3, 3) / 10

    def twice(a: Any) -> Any:
        return jax.lax.fori_loop(0, 2, lambda _, state: product(state, square) + a, a)

    compiled = jax.jit(twice).lower(square).compile()
    expected = np.asarray(compiled(square))
    for place in itertools.count():
        found: list[Any] = []

        def work(found: list[Any] = found) -> None:
            with suppress(*RAISED):
                found.append(jax.block_until_ready(compiled(square)))

        if not comes_at(place, interrupt, work, str(Path(mdt.__file__).parent)):
            break
        assert not found, place
    np.testing.assert_array_equal(found[0], expected)
    assert place > 20


def test_types() -> None:
    a, b = normal(3, 4), normal(4, 5)
    short = [each.astype(jnp.bfloat16) for each in (a, b)]
    found = product(*short)
    exact = np.asarray(short[0], np.float64) @ np.asarray(short[1], np.float64)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(found, np.float64), exact, rtol=2**-7, atol=2**-7)
    assert jax.grad(lambda a: product(a, short[1]).sum())(short[0]).dtype == jnp.bfloat16
    assert product(short[0], b.astype(jnp.float32)).dtype == jnp.float32
    assert product(a.astype(jnp.float16), b.astype(jnp.float16)).dtype == jnp.float16
    assert product(jnp.ones((3, 4), jnp.int32), b.astype(jnp.float32)).dtype == jnp.float32
    whole = jnp.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(product(whole, whole.T), np.asarray(whole) @ np.asarray(whole).T)
    np.testing.assert_allclose(product(a + 1j, b), np.asarray(a + 1j) @ np.asarray(b), rtol=1e-12)
    assert ours.reduce("i->", jnp.array([False, True]), combine="or")
    np.testing.assert_array_equal(ours.einsum(",i->i", 2.0, np.ones(3)), [2.0, 2.0, 2.0])


def test_elements_that_are_none() -> None:
    assert product(jnp.ones((0, 4)), normal(4, 5)).shape == (0, 5)
    np.testing.assert_array_equal(product(jnp.ones((3, 0)), jnp.ones((0, 5))), np.zeros((3, 5)))
    assert jax.vmap(lambda row: ours.einsum("i->", row))(jnp.ones((0, 4))).shape == (0,)


def test_without_types_of_64_bits() -> None:
    def widened(a: Any) -> Any:
        return mdt.reduce("ij->i", a, dtype="f8")

    with jax.enable_x64(False):
        a = jnp.arange(12.0).reshape(3, 4)
        found = jax.jit(lambda a: ours.reduce("ij->i", a, combine="argmax"))(a)
        assert found.dtype == jnp.int32
        np.testing.assert_array_equal(found, [3, 3, 3])
        sums = ours.operator(widened)
        assert sums(a).dtype == jnp.float32
        np.testing.assert_array_equal(sums(a), [6, 22, 38])
        with pytest.raises(GradientError, match="is float64 and JAX holds it as float32"):
            jax.grad(lambda a: sums(a).sum())(a)


def test_a_plan_is_for_its_shapes() -> None:
    plan = ours.operator(mdt.compile("ij,j->i", mdt.spec((3, 4), "f8"), mdt.spec((4,), "f8")))
    a, b = normal(3, 4), normal(4)
    np.testing.assert_allclose(jax.jit(plan)(a, b), a @ b, rtol=1e-12)
    with pytest.raises(ShapeError, match="not what the plan was made for"):
        jax.eval_shape(plan, a.T, b)


def test_wrong_calls_are_refused_while_programs_are_traced() -> None:
    a, image, filters = jnp.ones((3, 4)), jnp.ones((1, 2, 5, 5)), jnp.ones((3, 2, 3, 3))
    wrong: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (SubscriptError, "extent 4 in operand 0 but 3 in operand 1", lambda: product(a, a)),
        (SubscriptError, "at least one operand", lambda: ours.einsum("i->i")),
        (DTypeError, "begin with a string", lambda: ours.einsum(3, a)),  # type: ignore[arg-type]
        (ArgumentError, "operand 0 is 'abc'", lambda: ours.einsum("i->", "abc")),
        (
            TranslationError,
            "unknown operator 'most'",
            lambda: ours.reduce("ij->", a, combine="most"),
        ),
        (SubscriptError, "does not have", lambda: ours.scan("ij->ij", a, dim="k")),
        (ShapeError, "the image has 2 axes", lambda: ours.conv(a, a)),
        (DTypeError, "stride is 'x'", lambda: ours.conv(image, filters, stride="x")),  # type: ignore[arg-type]
        (DTypeError, "stride", lambda: ours.conv(image, filters, stride=1.5)),  # type: ignore[arg-type]
        (ArgumentError, "3 is no function", lambda: ours.operator(3)),  # type: ignore[arg-type]
        (DTypeError, "larger than any number", lambda: ours.scan("i->i", -(10**20), dim="i")),
        (DTypeError, "larger than any number", lambda: ours.einsum("->", 10**20)),
        (DTypeError, "float8", lambda: ours.einsum("ij->", a.astype(jnp.float8_e4m3fn))),
        (DTypeError, "key<", lambda: ours.einsum("i->", jax.random.split(jax.random.key(0)))),
        (DTypeError, "byte order", lambda: ours.einsum("i->", np.ones(3, ">f8"))),
        (GradientError, "complex", lambda: jax.grad(lambda a: product(a + 0j, a.T).real.sum())(a)),
    ]
    for kind, words, call in wrong:
        with pytest.raises(kind, match=words):
            jax.eval_shape(call)


@pytest.mark.process
def test_without_jax_the_module_says_so_when_it_is_used() -> None:
    program = """
import sys
sys.modules["jax"] = None
import mdtensor.jax
try:
    mdtensor.jax.einsum("i->", None)
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert children.run("-c", program).out == "jax\n"
