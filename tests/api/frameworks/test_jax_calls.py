"""Calls of front ends on JAX's arrays, concrete and traced: values, gradients, batches."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import mdtensor as mdt
import mdtensor.jax as ours
from mdtensor.errors import DTypeError, GradientError, IndexingError

RANDOM = np.random.default_rng(7)


@pytest.fixture(autouse=True, params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    [found, *_] = jax.devices(request.param)
    with jax.enable_x64(True), jax.default_device(found):
        yield found


def normal(*shape: int) -> Any:
    return jnp.asarray(RANDOM.standard_normal(shape))


@mdt.stencil(border="nearest")
def mean(u: Any) -> Any:
    return (u[-1] + u[0] * u[0] + u[1]) / 3


def stencil_reference(u: Any) -> Any:
    around = np.pad(u, 1, mode="edge")
    return (around[:-2] + u * u + around[2:]) / 3


LABELS = np.array([0, 3, 2])
CALLS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], Any]] = {
    "einsum": (
        lambda a, b: ours.einsum("ij,jk->ik", a, b),
        ((3, 4), (4, 5)),
        lambda a, b: a @ b,
    ),
    "reduce": (
        lambda a: ours.reduce("ij->i", a, combine="logaddexp"),
        ((3, 4),),
        lambda a: jax.nn.logsumexp(a, 1),
    ),
    "scan": (
        lambda a: ours.scan("ij->ij", a, dim="j", combine="mul", exclusive=True),
        ((3, 4),),
        lambda a: np.cumprod(np.pad(a, ((0, 0), (1, 0)), constant_values=1), 1)[:, :-1],
    ),
    "lines": (
        lambda a, w, b: ours.conv(a, w, b, stride=2, padding=1),
        ((2, 3, 6), (4, 3, 3), (4,)),
        lambda a, w, b: jax.lax.conv(a, w, (2,), [(1, 1)]) + b[:, None],
    ),
    "softmax": (lambda a: mdt.softmax(a, axis=1), ((3, 4),), lambda a: jax.nn.softmax(a, 1)),
    "layer_norm": (
        mdt.layer_norm,
        ((3, 4), (4,), (4,)),
        lambda a, w, b: jax.nn.standardize(a, epsilon=1e-5) * w + b,
    ),
    "max_pool": (lambda a: mdt.max_pool(a, (3, 3), stride=2, padding=1), ((2, 6, 6),), None),
    "conv": (
        lambda a, w: mdt.conv(a, w, padding=1, layout="NCHW,KCRS->NKPQ"),
        ((1, 2, 5, 5), (3, 2, 3, 3)),
        lambda a, w: jax.lax.conv(a, w, (1, 1), "SAME"),
    ),
    "cross_entropy": (
        lambda a: mdt.cross_entropy(a, LABELS),
        ((3, 4),),
        lambda a: -jax.nn.log_softmax(a)[np.arange(3), LABELS].mean(),
    ),
    "stencil": (ours.operator(mean), ((7,),), stencil_reference),
    "filter": (lambda a: mdt.ndimage.gaussian_filter(a, 1.0), ((6, 6),), None),
    "lazy": (lambda a: (mdt.lazy(a) * a + 1).sum(axis=0).evaluate(), ((3, 4),), None),
    "plan": (
        mdt.compile("ij,jk->ik", mdt.spec((3, 4), "f8"), mdt.spec((4, 5), "f8")),
        ((3, 4), (4, 5)),
        lambda a, b: a @ b,
    ),
}


ONE_CALL = ("einsum", "reduce", "scan", "lines", "stencil")


@pytest.mark.parametrize("name", CALLS)
def test_every_front_end_stands_in_programs(name: str) -> None:
    call, shapes, due = CALLS[name]
    given = [normal(*shape) for shape in shapes]
    found = call(*given)
    assert isinstance(found, jax.Array)
    if due is not None:
        np.testing.assert_allclose(found, due(*given), rtol=1e-12, atol=1e-12)
    jitted, facts = jax.jit(call)(*given), jax.eval_shape(call, *given)
    np.testing.assert_allclose(jitted, found, rtol=1e-12, atol=1e-13)
    for each in (found, jitted):
        assert (facts.shape, facts.dtype) == (each.shape, each.dtype)
    # Forwards, the second derivative of running products has too many operations.
    modes = ["rev"] if name == "scan" else ["fwd", "rev"]
    check_grads(call, given, order=2, modes=modes)
    several = [jnp.stack([each, each + 1, each - 1], 1) for each in given]
    batch = jax.vmap(call, 1)(*several)
    for place in range(3):
        one = call(*(each[:, place] for each in several))
        np.testing.assert_allclose(batch[place], one, rtol=1e-10)
    if name in ONE_CALL:
        program = str(jax.make_jaxpr(jax.vmap(call, 1))(*several))
        assert program.count("= mdtensor[") == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_calls_and_operations_of_jax_take_turns(dtype: str) -> None:
    """Each reads what the other has just written, in a program and outside of one."""
    extent, turns = 512, 12
    a = normal(extent, extent).astype(dtype)
    weights = (normal(extent, extent) / extent**0.5).astype(dtype)

    def turned(product: Callable[..., Any], x: Any) -> Any:
        for _ in range(turns):
            x = jnp.sin(product("ij,jk->ik", jnp.cos(x), weights))
        return x

    def exact(x: Any) -> Any:
        return turned(jnp.einsum, x.astype("float64"))

    bound = {"float32": 1e-4, "bfloat16": 0.3, "float16": 0.05}[dtype]
    expected = exact(a)
    for found in (turned(mdt.einsum, a), jax.jit(partial(turned, mdt.einsum))(a)):
        assert found.dtype == dtype
        assert found.devices() == a.devices()
        np.testing.assert_allclose(found.astype("float64"), expected, atol=bound)


def test_arrays_of_numpy_may_stand_beside_those_of_jax() -> None:
    a, b = normal(3, 4), RANDOM.standard_normal((4, 2))
    found = mdt.einsum("ij,jk->ik", a, b)
    assert found.devices() == a.devices()
    np.testing.assert_allclose(found, np.asarray(a) @ b, rtol=1e-12)
    np.testing.assert_allclose(mdt.einsum("ij->ji", a), np.asarray(a).T)
    for call in (mdt.einsum, jax.jit(mdt.einsum, static_argnums=0)):
        assert call("ij,jk->ik", a[:0], b).shape == (0, 2)
        np.testing.assert_array_equal(call("ij,jk->ik", a[:, :0], b[:0]), np.zeros((3, 2)))


WAITS = r"""
extern "C" __global__ void waits(long long cycles) {
  const long long begun = clock64();
  while (clock64() - begun < cycles) {}
}
"""


def test_arrays_of_jax_are_read_before_they_are_freed(device: Any) -> None:
    def wait() -> None:
        """Keeps the stream of mdtensor's kernels busy for 30 ms, if there is one."""
        if device.platform != "cpu":
            cupy = importlib.import_module("cupy")
            cupy.RawKernel(WAITS, "waits")((1,), (1,), (np.int64(50_000_000),))

    for _ in range(4):
        a = jnp.full(1 << 20, 2.0).block_until_ready()
        wait()
        squares = mdt.einsum("i,i->i", a, a)
        del a
        others = [jnp.full(1 << 20, 5.0 + n) for n in range(4)]
        np.testing.assert_array_equal(squares, np.full(1 << 20, 4.0))
        del others


def test_types_are_those_of_jax() -> None:
    with jax.enable_x64(False):
        a = jnp.ones((3, 4))
        for call in (mdt.softmax, jax.jit(mdt.softmax)):
            assert call(a).dtype == np.float32
            assert call(a.astype(jnp.bfloat16)).dtype == jnp.bfloat16
        # Arrays of NumPy beside them have JAX's types.
        for call in (mdt.einsum, jax.jit(mdt.einsum, static_argnums=0)):
            assert call("ij,jk->ik", a, np.ones((4, 2))).dtype == np.float32


def test_what_jax_cannot_follow_is_refused() -> None:
    a, weights = normal(6, 6), normal(3, 3)
    filtered = mdt.ndimage.correlate(a, weights)
    np.testing.assert_allclose(
        jax.jit(lambda x: mdt.ndimage.correlate(x, np.asarray(weights)))(a), filtered
    )
    with pytest.raises(GradientError, match="this call of correlate does more to arrays"):
        jax.jit(mdt.ndimage.correlate)(a, weights)
    with pytest.raises(IndexingError, match="label 9, where there are 4 classes"):
        jax.grad(lambda x: mdt.cross_entropy(x, np.array([0, 1, 9])))(normal(3, 4))
    with pytest.raises(DTypeError, match="no kernels compute with"):
        mdt.softmax(jax.random.key(0))
    with pytest.raises(DTypeError, match="no kernels compute with"):
        jax.jit(mdt.softmax)(jax.random.key(0))


def test_lazy_arrays_are_reshaped() -> None:
    found = (mdt.lazy(normal(2, 3)).reshape(3, 2) * 2).evaluate()
    assert isinstance(found, jax.Array)
    assert found.shape == (3, 2)
