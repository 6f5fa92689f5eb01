"""Softmax, norms and the like of CuPy's arrays become one kernel, once they come again."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from mdtensor.api.engine import registry

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(3)


def drawn(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def layer_norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = np.einsum("bqd,bkd->bqk", q, k) * np.float32(0.125)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bqk,bkd->bqd", powers / powers.sum(-1, keepdims=True), v)


X, ODD, DEEP, LONG = drawn(4096, 1000), drawn(1001, 999), drawn(8, 40, 4, 128), drawn(300, 20000)
QKV = [drawn(12, 256, 64) for _ in range(3)]
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[np.ndarray]]] = {
    "softmax": (mdt.softmax, softmax, [X]),
    "softmax of odd rows": (mdt.softmax, softmax, [ODD]),
    "softmax along an axis between": (
        lambda x: mdt.softmax(x, axis=1),
        lambda x: softmax(x, 1),
        [DEEP],
    ),
    "softmax of short rows": (mdt.softmax, softmax, [drawn(20000, 10)]),
    "softmax of long rows": (mdt.softmax, softmax, [LONG]),
    "softmax of one row": (mdt.softmax, softmax, [drawn(1000)]),
    "layer norm": (mdt.layer_norm, layer_norm, [X]),
    "layer norm of several axes": (mdt.layer_norm, layer_norm, [DEEP]),
    "rows of an array that goes on": (
        lambda x: mdt.softmax(x[:, 1:-2]),
        lambda x: softmax(x[:, 1:-2]),
        [X],
    ),
    "attention": (
        lambda *given: attention(*map(mdt.lazy, given)).evaluate(),
        attention,
        QKV,
    ),
}


@pytest.mark.parametrize("dtype", ["f4", "f2", "f8"])
@pytest.mark.parametrize("name", CASES)
def test_one_kernel_computes_what_steps_did(name: str, dtype: str) -> None:
    import cupy

    function, reference, arrays = CASES[name]
    given = [array.astype(dtype) for array in arrays]
    expected = reference(*[array.astype("f8") for array in given])
    on_gpu = [cupy.asarray(array) for array in given]
    tolerance = {"f2": 4e-3, "f4": 2e-5, "f8": 1e-12}[dtype]  # numbers beside f2 make f4
    tiers: set[str] = set()
    for _ in range(4):
        with mdt.trace() as seen:
            found = function(*on_gpu)
        assert found.dtype in (dtype, "f4")  # a number of float32 makes more of f2
        np.testing.assert_allclose(
            found.get(), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max()
        )
        registry.engine_for("cupy").settle(300)
        tiers |= {kernel.tier for each in seen.calls for kernel in each.kernels}
    assert "fused" in tiers


def test_a_captured_graph_runs_when_its_kernels_are_dropped() -> None:
    """What a better kernel replaced stays in graphs of the caller's."""
    import cupy

    engine = registry.engine_for("cupy")
    x, out = cupy.asarray(ODD[:, :517].copy()), cupy.empty((1001, 517), "f4")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        mdt.softmax(x, out=out)
        stream.synchronize()
        stream.begin_capture()
        mdt.softmax(x, out=out)
        graph = stream.end_capture()
    engine.settle(300)
    for drop in (engine.joined.made.clear, engine.tiers.table.clear, invalidation.clear):
        drop()
    gc.collect()
    out[:] = 7
    cupy.cuda.Device().synchronize()
    graph.launch(stream)
    stream.synchronize()
    expected = softmax(ODD[:, :517].astype("f8"))
    np.testing.assert_allclose(out.get(), expected, rtol=2e-5, atol=1e-7)


def test_a_graph_that_is_captured_has_the_one_kernel() -> None:
    import cupy

    x, out = cupy.asarray(X), cupy.empty_like(cupy.asarray(X))
    for _ in range(3):
        mdt.softmax(x, out=out)
        registry.engine_for("cupy").settle(300)
    out[:] = 7
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        mdt.softmax(x, out=out)
        stream.begin_capture()
        mdt.softmax(x, out=out)
        graph = stream.end_capture()
        out[:] = 7
        graph.launch(stream)
        stream.synchronize()
    np.testing.assert_allclose(out.get(), softmax(X.astype("f8")), rtol=2e-5, atol=1e-7)
