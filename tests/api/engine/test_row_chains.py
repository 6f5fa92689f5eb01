"""Chains that share rows become one kernel, which computes what NumPy does in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import fused_calls, registry
from mdtensor.api.engine.fused_calls import FusedKernel
from mdtensor.kernels.kernel_source import KernelEntry

RNG = np.random.default_rng(11)


def worth(seconds: float, apart: float) -> bool:
    return seconds * apart > 0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are asked for after one call, and count as faster than steps."""
    monkeypatch.setattr(registry.engine_for().joined, "made", {})
    monkeypatch.setattr(fused_calls, "WORTH_OFTEN", 1e-12)
    monkeypatch.setattr(fused_calls, "is_worth_joining", worth)
    registry.forget()


def fused() -> list[FusedKernel]:
    engine = registry.engine_for()
    engine.settle(timeout=600)
    return [each for made in engine.joined.made.values() for each in made.kernels.values()]


def entries(joined: FusedKernel) -> Sequence[KernelEntry]:
    program: Any = joined.program
    return program.source.entries


def drawn(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def wide_softmax(x: np.ndarray) -> np.ndarray:
    wide = x.astype("f8")
    powers = np.exp(wide - wide.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def normalised(x: np.ndarray) -> np.ndarray:
    wide = x.astype("f8")
    return (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)


def cross_entropy(x: Any, target: Any) -> Any:
    shifted = x - x.max(-1, keepdims=True)
    return np.log(np.exp(shifted).sum(-1)) - (shifted * target).sum(-1)


def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * np.float32(0.125) + mask
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bhkd->bhqd", powers / powers.sum(-1, keepdims=True), v)


def of_lazy(function: Callable[..., Any], *arrays: np.ndarray) -> Callable[[], Any]:
    return lambda: function(*map(mdt.lazy, arrays)).evaluate()


def in_float64(function: Callable[..., Any], *arrays: np.ndarray) -> Callable[[], Any]:
    return lambda: function(*[array.astype("f8") for array in arrays])


SQUARE, RAGGED, DEEP = drawn(512, 700), drawn(301, 1111), drawn(5, 67, 900)
HOTS = np.eye(700, dtype=np.float32)[RNG.integers(0, 700, 512)]
QKV = [drawn(1, 2, 301, 64), drawn(1, 2, 501, 64), drawn(1, 2, 501, 64)]
CAUSAL = np.where(np.tri(301, 501, 200), 0, -np.inf).astype(np.float32)
# Calls, and what they must give.
CASES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "softmax of rows that no block divides": (
        lambda: mdt.softmax(RAGGED),
        lambda: wide_softmax(RAGGED),
    ),
    "softmax of rows along two axes": (lambda: mdt.softmax(DEEP), lambda: wide_softmax(DEEP)),
    "softmax along the first axis": (
        lambda: mdt.softmax(RAGGED, axis=0),
        lambda: wide_softmax(RAGGED.T).T,
    ),
    "layer norm far from zero": (
        lambda: mdt.layer_norm(RAGGED + np.float32(100)),
        lambda: normalised(RAGGED + np.float32(100)),
    ),
    "cross entropy": (
        of_lazy(cross_entropy, SQUARE, HOTS),
        in_float64(cross_entropy, SQUARE, HOTS),
    ),
    "causal attention of ragged blocks": (
        of_lazy(attention, *QKV, CAUSAL),
        in_float64(attention, *QKV, CAUSAL),
    ),
}


# The sum of a row of hundreds is rounded to 0.004 each time, in whatever order; its mean is off by
# that much of a few such steps.
ATOL = {"layer norm far from zero": 2e-4}


@pytest.mark.parametrize("name", CASES)
def test_a_chain_that_shares_rows_becomes_one_kernel(name: str) -> None:
    call, expected = CASES[name]
    due, atol = expected(), ATOL.get(name, 2e-5)
    np.testing.assert_allclose(call(), due, rtol=2e-4, atol=atol)
    (joined,) = fused()
    assert joined.by_rows is not None
    assert len(entries(joined)) == 1
    with mdt.trace() as seen:
        result = call()
    np.testing.assert_allclose(result, due, rtol=2e-4, atol=atol)
    assert {kernel.tier for each in seen.calls for kernel in each.kernels} == {"fused"}


def test_rows_of_nan_and_of_nothing_but_infinities_stay_what_they_are() -> None:
    x = drawn(512, 600)
    x[3, 5], x[7], x[300, 0] = np.nan, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        due = wide_softmax(x)
    for _ in range(2):
        np.testing.assert_allclose(mdt.softmax(x), due, rtol=2e-5, atol=1e-7)
        assert fused()


def test_powers_of_a_softmax_are_computed_once() -> None:
    np.testing.assert_allclose(mdt.softmax(SQUARE), wide_softmax(SQUARE), rtol=2e-5)
    (joined,) = fused()
    assert joined.by_rows is not None
    assert joined.by_rows.terms_shared
    assert len(joined.steps) == 4


def test_what_lies_between_stays_in_the_caches_of_cores() -> None:
    call, _ = CASES["causal attention of ragged blocks"]
    call()
    (joined,) = fused()
    (entry,) = entries(joined)
    groups, scratch = entry.groups.constant, entry.scratch.constant
    assert groups is not None
    assert scratch is not None
    assert scratch // groups <= registry.engine_for().target.l2_bytes * 0.7


def test_into_an_array_that_is_read() -> None:
    for _ in range(2):
        given = SQUARE.copy()
        mdt.softmax(given, out=given)
        np.testing.assert_allclose(given, wide_softmax(SQUARE), rtol=2e-5)
        fused()


def test_chains_without_common_rows_stay_apart() -> None:
    x = drawn(700, 800)
    for _ in range(2):
        expected = np.exp(x.astype("f8") - x.max()) / np.exp(x.astype("f8") - x.max()).sum()
        np.testing.assert_allclose(mdt.softmax(x, axis=None), expected, rtol=1e-4)
    assert not fused()


def test_what_reads_large_arrays_again_is_worth_a_kernel_and_a_copy_is_not() -> None:
    """A softmax reads its rows three times; of a padded convolution the copy is the least."""
    kind = registry.engine_for().joined.kind
    softmax = mdt.compile(mdt.softmax, mdt.spec((4000, 3000), "f4"))
    assert kind.worth_launches(softmax.program, alone=False) is not None
    image, taps = mdt.spec((1, 56, 56, 64), "f4"), mdt.spec((64, 3, 3, 64), "f4")
    padded = mdt.compile(mdt.conv, image, taps, padding=1)
    assert len(padded.program.steps) > 1
    assert kind.worth_launches(padded.program, alone=False) is None
