"""Calls by a text: what they compute, their gradients, their batches, and both of each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.frameworks import call_text as call_texts
from mdtensor.api.frameworks.call_text import (
    Held,
    batched_text,
    held_call,
    pullback_text,
    reads_results,
    results_of,
    run,
)
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec

RANDOM = np.random.default_rng(3)


@mdt.stencil(border="nearest")
def mean(u: Any) -> Any:
    return (u[-1] + u[0] * u[0] + u[1]) / 3


def gathered(rows: np.ndarray) -> Any:
    return mdt.reduce("2i j -> i", rows, combine="max", extents={"i": 2})


@dataclass(frozen=True)
class Call:
    """A call that has a text, and the shapes of its operands."""

    held: Held
    shapes: tuple[tuple[int, ...], ...]

    @property
    def text(self) -> str:
        return self.held.text


def held(function: Any, *given: Any, bias: tuple[int, ...] | None = None, **options: Any) -> Call:
    """A call on arrays, which are told by their shapes."""
    named = options if bias is None else {**options, "bias": mdt.spec(bias, "f8")}
    placed = [mdt.spec(each, "f8") if isinstance(each, tuple) else each for each in given]
    shapes = [each for each in (*given, bias) if isinstance(each, tuple)]
    return Call(held_call(function, *placed, **named), tuple(shapes))


LAYOUT = "NCHW,KCRS->NKPQ"
CASES: dict[str, tuple[Call, Callable[..., np.ndarray] | None]] = {
    "product": (held(mdt.einsum, "ij,jk->ik", (3, 4), (4, 5)), lambda a, b: a @ b),
    "diagonal": (held(mdt.einsum, "ii->i", (4, 4)), np.diag),
    "three": (
        held(mdt.einsum, "ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
        lambda a, b, c: a @ b @ c,
    ),
    "window": (
        held(mdt.einsum, "h+r, r -> h", (6,), (3,)),
        lambda a, b: np.correlate(a, b, "valid"),
    ),
    "max": (held(mdt.reduce, "ij->i", (3, 4), combine="max"), lambda a: a.max(1)),
    "product of all": (held(mdt.reduce, "ij->", (2, 3), combine="mul"), np.prod),
    "logsumexp": (
        held(mdt.reduce, "ij->i", (3, 4), combine="logaddexp"),
        lambda a: np.logaddexp.reduce(a, 1),
    ),
    "running sum": (
        held(mdt.scan, "ij->ij", (3, 4), combine={"j": "add"}, reverse=True),
        lambda a: a[:, ::-1].cumsum(1)[:, ::-1],
    ),
    "running product, exclusive": (
        held(mdt.scan, "ij->ij", (3, 4), combine={"i": "mul"}, exclusive=True),
        lambda a: np.concatenate([np.ones((1, 4)), a.cumprod(0)[:-1]]),
    ),
    "convolution": (
        held(
            mdt.conv,
            *((2, 3, 5, 6), (4, 3, 3, 2)),
            bias=(4,),
            layout=LAYOUT,
            stride=[2, 1],
            padding=[1, 0],
        ),
        None,
    ),
    "transposed convolution": (
        held(mdt.conv, (2, 3, 5), (3, 2, 3), layout="NCW,CKS->NKQ", stride=2, transposed=True),
        None,
    ),
    "stencil": (held(mean, (7,)), None),
    "function": (held(gathered, (4, 3)), lambda a: a[::2].max(1)),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Any:
    made, reference = CASES[request.param]
    return made.text, [RANDOM.standard_normal(shape) for shape in made.shapes], reference


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


def test_a_batch_is_every_call(case: Any) -> None:
    text, arrays, _ = case
    check_batch(text, arrays, {0})
    check_batch(text, arrays, set(range(len(arrays))))


def test_a_batch_of_gradients_is_every_gradient(case: Any) -> None:
    text, arrays, _ = case
    back, given = pulled(text, arrays)
    check_batch(back, given, {len(given) - 1})


def test_a_batch_of_batches() -> None:
    text = held(mdt.einsum, "ij,jk->ik", (3, 4), (4, 5)).text
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


SPEC = TensorSpec.of((3, 4), "f8")
ADDED = held(mdt.einsum, "ij->i", (3, 4))
EXPONENTIALS = held(mdt.reduce, "ij->i", (3, 4), combine="logaddexp")


def test_what_a_gradient_reads() -> None:
    assert not reads_results(ADDED.text, (SPEC,))
    assert reads_results(EXPONENTIALS.text, (SPEC,))


def test_a_gradient_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(call_texts, "_reads_results", lambda *given: asked.append(given) or False)
    call = held(mdt.einsum, "iij->j", (3, 3, 7))
    spec = TensorSpec.of((3, 3, 7), "f8")
    assert [reads_results(call.text, (spec,)) for _ in range(3)] == [False] * 3
    assert len(asked) == 1
    reads_results(call.text, (spec,), wanted=())
    assert len(asked) == 2


def test_calls_on_results_of_calls_have_one_text() -> None:
    def cubed(a: np.ndarray) -> Any:
        return mdt.einsum("ij,jk->ik", mdt.einsum("ij,jk->ik", a, a), a)

    call, a = held(cubed, (3, 3)), RANDOM.standard_normal((3, 3))
    np.testing.assert_allclose(run(call.text, a), a @ a @ a, rtol=1e-12)
    back = pullback_text(call.text, 1, [0], [0], results=False)
    one = np.ones((3, 3))
    expected = one @ (a @ a).T + a.T @ one @ a.T + (a @ a).T @ one
    np.testing.assert_allclose(run(back, a, one), expected, rtol=1e-12)


def test_what_is_more_than_calls_has_no_text() -> None:
    def shifted(a: np.ndarray) -> Any:
        return mdt.einsum("ij,jk->ik", a, a) + 1

    with pytest.raises(TranslationError, match="a call of shifted is not one computation"):
        held(shifted, (3, 3))


def test_operands_may_lie_elsewhere_but_are_no_others() -> None:
    call = held(mdt.einsum, "ij,j->i", (3, 4), (4,))
    a, b = RANDOM.standard_normal((4, 3)).T, RANDOM.standard_normal(4)
    np.testing.assert_allclose(run(call.text, a, b), a @ b, rtol=1e-13)
    for wrong in (a.T, a.astype("f4")):
        with pytest.raises(TranslationError, match=r"operand 0 is .*, where .* is due"):
            run(call.text, wrong, b)


def test_a_call_has_one_text() -> None:
    again = held(mdt.einsum, "ij->i", (3, 4))
    assert again.text == ADDED.text


def test_a_gradient_is_not_handed_what_it_does_not_read() -> None:
    text = held(mdt.einsum, "ij,jk->ik", (3, 4), (4, 5)).text
    a, b, cotangent = (RANDOM.standard_normal(shape) for shape in ((3, 4), (4, 5), (3, 5)))
    back = pullback_text(text, 2, [0, 1], [0], results=False)
    for_a, for_b = run(back, a, b, cotangent)
    np.testing.assert_allclose(for_a, cotangent @ b.T, rtol=1e-12)
    np.testing.assert_allclose(for_b, a.T @ cotangent, rtol=1e-12)
    with pytest.raises(TranslationError, match=r"operands \[1\] are read"):
        run(pullback_text(EXPONENTIALS.text, 1, [0], [0], results=False), a, np.ones(3))
    assert not reads_results(EXPONENTIALS.text, (SPEC,), wanted=())
