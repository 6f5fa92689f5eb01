"""Calls by a text: what they compute, their gradients, their batches, and both of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.frameworks import call_text as call_texts
from mdtensor.api.frameworks.call_text import (
    batched_text,
    call_text,
    kept_text,
    pullback_text,
    reads_results,
    results_of,
    run,
)
from mdtensor.errors import ArgumentError, ShapeError, TranslationError
from mdtensor.specs import TensorSpec

RANDOM = np.random.default_rng(3)


@mdt.stencil(border="nearest")
def mean(u: Any) -> Any:
    return (u[-1] + u[0] * u[0] + u[1]) / 3


def gathered(rows: np.ndarray) -> Any:
    return mdt.reduce("2i j -> i", rows, combine="max", extents={"i": 2})


LAYOUT = "NCHW,KCRS->NKPQ"
CASES: dict[str, tuple[str, tuple[tuple[int, ...], ...], Callable[..., np.ndarray] | None]] = {
    "product": (call_text("einsum", "ij,jk->ik"), ((3, 4), (4, 5)), lambda a, b: a @ b),
    "diagonal": (call_text("einsum", "ii->i"), ((4, 4),), np.diag),
    "three": (
        call_text("einsum", "ij,jk,kl->il"),
        ((2, 3), (3, 4), (4, 2)),
        lambda a, b, c: a @ b @ c,
    ),
    "window": (
        call_text("einsum", "h+r, r -> h"),
        ((6,), (3,)),
        lambda a, b: np.correlate(a, b, "valid"),
    ),
    "max": (call_text("reduce", "ij->i", combine="max"), ((3, 4),), lambda a: a.max(1)),
    "product of all": (call_text("reduce", "ij->", combine="mul"), ((2, 3),), np.prod),
    "logsumexp": (
        call_text("reduce", "ij->i", combine="logaddexp"),
        ((3, 4),),
        lambda a: np.logaddexp.reduce(a, 1),
    ),
    "running sum": (
        call_text("scan", "ij->ij", combine={"j": "add"}, reverse=True),
        ((3, 4),),
        lambda a: a[:, ::-1].cumsum(1)[:, ::-1],
    ),
    "running product, exclusive": (
        call_text("scan", "ij->ij", combine={"i": "mul"}, exclusive=True),
        ((3, 4),),
        lambda a: np.concatenate([np.ones((1, 4)), a.cumprod(0)[:-1]]),
    ),
    "convolution": (
        call_text("conv", layout=LAYOUT, stride=[2, 1], padding=[1, 0], bias=True),
        ((2, 3, 5, 6), (4, 3, 3, 2), (4,)),
        None,
    ),
    "transposed convolution": (
        call_text("conv", layout="NCW,CKS->NKQ", stride=[2], transposed=True),
        ((2, 3, 5), (3, 2, 3)),
        None,
    ),
    "stencil": (kept_text(mean), ((7,),), None),
    "function": (kept_text(gathered), ((4, 3),), lambda a: a[::2].max(1)),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Any:
    text, shapes, reference = CASES[request.param]
    return text, [RANDOM.standard_normal(shape) for shape in shapes], reference


def test_a_text_is_what_it_says(case: Any) -> None:
    text, arrays, reference = case
    found = np.asarray(run(text, *arrays))
    (spec,) = results_of(text, tuple(TensorSpec.of(each.shape, each.dtype) for each in arrays))
    assert (found.shape, found.dtype) == (spec.shape, spec.dtype)
    if reference is not None:
        np.testing.assert_allclose(found, reference(*arrays), rtol=1e-12, atol=1e-12)


def pulled(text: str, arrays: list[np.ndarray]) -> tuple[str, list[np.ndarray]]:
    """The text of a call's gradient by all of its operands, and arrays for it."""
    result = np.asarray(run(text, *arrays))
    numbers = list(range(len(arrays)))
    back = pullback_text(text, len(arrays), numbers, [0])
    return back, [*arrays, result, RANDOM.standard_normal(result.shape)]


def results(text: str, arrays: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    found = run(text, *arrays)
    return tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))


def test_a_gradient_is_that_of_central_differences(case: Any) -> None:
    text, arrays, _ = case
    back, given = pulled(text, arrays)
    cotangent, step = given[-1], 1e-6
    for number, found in enumerate(results(back, given)):
        direction = RANDOM.standard_normal(arrays[number].shape)

        def moved(by: float, number: int = number, direction: Any = direction) -> Any:
            there = [a + by * direction if n == number else a for n, a in enumerate(arrays)]
            return np.vdot(cotangent, run(text, *there))

        expected = (moved(step) - moved(-step)) / (2 * step)
        np.testing.assert_allclose(np.vdot(found, direction), expected, rtol=1e-6, atol=1e-6)


def test_a_batch_is_every_call(case: Any) -> None:
    text, arrays, _ = case
    check_batch(text, arrays, {0})
    check_batch(text, arrays, set(range(len(arrays))))


def test_a_batch_of_gradients_is_every_gradient(case: Any) -> None:
    text, arrays, _ = case
    back, given = pulled(text, arrays)
    check_batch(back, given, {len(given) - 1})


def test_a_batch_of_batches() -> None:
    text = call_text("einsum", "ij,jk->ik")
    a, b = RANDOM.standard_normal((2, 6, 3, 4)), RANDOM.standard_normal((6, 4, 5))
    twice = batched_text(batched_text(text, [True, True]), [True, False])
    np.testing.assert_allclose(run(twice, a, b), a @ b, rtol=1e-12)
    at_once = batched_text(text, [True, False])
    again = pullback_text(at_once, 2, [1], [0])
    found = run(again, a[0], b[0], a[0] @ b[0], np.ones((6, 3, 5)))
    np.testing.assert_allclose(found, np.einsum("vij,vik->jk", a[0], np.ones((6, 3, 5))))


def check_batch(text: str, arrays: list[np.ndarray], numbers: set[int]) -> None:
    """Whether a batch of 3 along these operands is three calls."""
    stacked = [
        RANDOM.standard_normal((3, *array.shape)) if n in numbers else array
        for n, array in enumerate(arrays)
    ]
    found = results(batched_text(text, [n in numbers for n in range(len(arrays))]), stacked)
    for place in range(3):
        each = [array[place] if n in numbers else array for n, array in enumerate(stacked)]
        for one, all_of_them in zip(results(text, each), found, strict=True):
            np.testing.assert_allclose(all_of_them[place], one, rtol=1e-10, atol=1e-12)


def test_what_a_gradient_reads() -> None:
    spec = (TensorSpec.of((3, 4), "f8"),)
    assert not reads_results(call_text("einsum", "ij->i"), spec)
    assert reads_results(call_text("reduce", "ij->i", combine="logaddexp"), spec)


def test_a_gradient_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(call_texts, "_reads_results", lambda *given: asked.append(given) or False)
    text, spec = call_text("einsum", "iij->j"), (TensorSpec.of((3, 3, 7), "f8"),)
    assert [reads_results(text, spec) for _ in range(3)] == [False] * 3
    assert len(asked) == 1
    reads_results(text, spec, wanted=())
    reads_results(text, (TensorSpec.of((3, 3, 8), "f8"),))
    assert len(asked) == 3


def test_several_computations_have_no_text() -> None:
    def twice(a: np.ndarray) -> Any:
        return mdt.einsum("ij,jk->ik", mdt.einsum("ij,jk->ik", a, a), a)

    with pytest.raises(TranslationError, match="a call of twice is not one computation"):
        run(kept_text(twice), np.ones((3, 3)))


def test_operands_of_several_types_have_no_batches() -> None:
    text = batched_text(
        call_text("einsum", "ij,jk->ik", dtype="f4", casting="unsafe"), [True, True]
    )
    halves = np.ones((2, 3, 3), "f8")
    try:
        found = run(text, halves, halves)
    except TranslationError as error:
        assert "several types" in str(error)  # noqa: PT017
    else:
        np.testing.assert_array_equal(found, np.full((2, 3, 3), 3.0))


def test_a_plan_is_for_its_shapes() -> None:
    plan = mdt.compile("ij,j->i", mdt.spec((3, 4), "f8"), mdt.spec((4,), "f8"))
    text = kept_text(plan)
    assert text == kept_text(plan)
    a, b = RANDOM.standard_normal((4, 3)).T, RANDOM.standard_normal(4)
    np.testing.assert_allclose(run(text, a, b), a @ b, rtol=1e-13)
    with pytest.raises(ShapeError, match="the plan has"):
        run(text, a.T, b)


def test_a_gradient_is_not_handed_what_it_does_not_read() -> None:
    text = call_text("einsum", "ij,jk->ik")
    a, b, cotangent = (RANDOM.standard_normal(shape) for shape in ((3, 4), (4, 5), (3, 5)))
    back = pullback_text(text, 2, [0, 1], [0], results=False)
    for_a, for_b = run(back, a, b, cotangent)
    np.testing.assert_allclose(for_a, cotangent @ b.T, rtol=1e-12)
    np.testing.assert_allclose(for_b, a.T @ cotangent, rtol=1e-12)
    reading = call_text("reduce", "ij->i", combine="logaddexp")
    with pytest.raises(TranslationError, match=r"operands \[1\] are read"):
        run(pullback_text(reading, 1, [0], [0], results=False), a, np.ones(3))
    assert not reads_results(reading, (TensorSpec.of((3, 4), "f8"),), wanted=())


def test_what_is_no_function_has_no_text() -> None:
    with pytest.raises(ArgumentError, match="3 is no function"):
        kept_text(3)  # type: ignore[arg-type]
