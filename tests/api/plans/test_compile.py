"""Plans of any call: what the call itself gives, by its kernels alone where that is all it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.plans.bound_arguments import ArgumentSlots
from mdtensor.api.plans.call_plan import CallPlan
from mdtensor.api.plans.explain import explained
from mdtensor.autotune.search.abort_conditions import evaluations
from mdtensor.errors import DTypeError, IndexingError, ShapeError, TranslationError
from mdtensor.translate.python.tuples import as_tuple
from tests.api import stand_in_bench

RNG = np.random.default_rng(3)
A, B = RNG.random((7, 9), np.float32), RNG.random((9, 5), np.float32)
IMG, FLT, BIAS = RNG.random((2, 8, 8, 3)), RNG.random((4, 3, 3, 3)), RNG.random(4)


@mdt.stencil(border="nearest")
def blurred(u: Any, weight: Any) -> Any:
    return weight * u[0, -1] + u[0, 0] + weight * u[1, 1]


@mdt.stencil
def sum_and_difference(u: Any) -> Any:
    return u[-1] + u[1], u[1] - u[-1]


@mdt.mdh
def matvec(w: Any, M: Any, v: Any) -> None:
    for i in range(M.shape[0]):
        w[i] = 0.0
        for k in range(M.shape[1]):
            w[i] += M[i, k] * v[k]


def largest(x: Any, *, j: Any) -> Any:
    return x, j


def axpy(total: Any, b: Any) -> Any:
    return 2 * total - b


# What is called, the arguments, the options; and whether the plan runs kernels by itself.
CASES: list[tuple[Any, tuple[Any, ...], dict[str, Any], bool]] = [
    ("ij,jk->ik", (A, B), {"semiring": "min_plus"}, True),
    ("ij,jk,kl->il", (A, B, B.T.copy()), {"semiring": "max_plus"}, True),
    ("ij,jk", (A, B), {"semiring": "logsumexp", "dtype": "f8"}, True),
    ("ij,jk->ik; k", (A, B, B[0].copy()), {"epilogue": axpy}, True),
    ("h+r->h", (A[0],), {"extents": {"r": 3}, "combine": "max"}, True),
    ("ij,jk,kl->il", (A, B, B.T), {"optimize": True}, True),
    (mdt.einsum, ("ij,jk->ik", A, A.T), {"f": np.minimum, "combine": "add"}, True),
    (mdt.reduce, ("ij->i", A), {"f": largest, "combine": "argmax"}, True),
    (mdt.reduce, ("ij,jk->ik", A, B), {"acc_dtype": "f8"}, True),
    (mdt.reduce, ("i,i->", A[0], A[0]), {}, True),
    (mdt.reduce, ("ij->i", A[:0]), {}, True),
    (mdt.scan, ("ij->ij", A[::-1]), {"combine": {"j": "add"}, "exclusive": True}, True),
    (mdt.conv, (IMG, FLT), {"bias": BIAS, "stride": 2, "epilogue": "relu"}, True),
    (mdt.conv, (IMG, FLT), {"padding": "same"}, True),
    (mdt.convolve, (B[0], A[0]), {}, True),
    (mdt.convolve, (A, B[:2, :2], "same"), {}, True),
    (blurred, (A, 0.5), {}, True),
    (blurred, (A, np.array(0.5, "f4")), {}, True),
    (blurred, (A, np.float32(0.5)), {}, False),
    (sum_and_difference, (A[0],), {}, True),
    (mdt.softmax, (A,), {}, True),
    (mdt.var, (A,), {"axis": 0}, True),
    (mdt.argmax, (A,), {"axis": 1}, True),
    (mdt.max_pool, (IMG, 2), {"axes": (1, 2)}, True),
    (mdt.matmul, (A, B), {}, True),
    (mdt.ndimage.gaussian_filter, (A, 1.5), {}, False),
    (mdt.ndimage.maximum_filter, (A,), {"footprint": np.eye(3)}, False),
]
IDS = [f"{n}-{c[0] if isinstance(c[0], str) else c[0].__name__}" for n, c in enumerate(CASES)]


def call_of(what: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return mdt.einsum(what, *args, **options) if isinstance(what, str) else what(*args, **options)


def operands_of(plan: mdt.Plan, args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
    given = (*args, *options.values())
    operands = [value for value in given if isinstance(value, np.ndarray)]
    assert len(operands) == len(plan.specs)
    return operands


def check(found: Any, expected: Any) -> None:
    for one, other in zip(as_tuple(found), as_tuple(expected), strict=True):
        assert (type(one), one.dtype, one.shape) == (type(other), other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize(("what", "args", "options", "by_kernels"), CASES, ids=IDS)
def test_a_plan_gives_what_the_call_gives(
    what: Any, args: tuple[Any, ...], options: dict[str, Any], by_kernels: bool
) -> None:
    plan = mdt.compile(what, *args, **options)
    operands = operands_of(plan, args, options)
    if by_kernels:
        plan._arguments = None  # type: ignore[attr-defined]
    expected = call_of(what, args, options)
    for _ in range(2):
        check(plan(*operands), expected)
    out = tuple(np.full_like(array, 77) for array in map(np.asarray, as_tuple(expected)))
    for _ in range(2):
        target = out[0] if len(out) == 1 else out
        assert plan(*operands, out=target) is target
        check(tuple(array[()] for array in out), as_tuple(expected))


def test_other_values_than_those_of_planning() -> None:
    plan = mdt.compile("ij,jk->ik", mdt.spec((7, 9)), mdt.spec((9, 5)), semiring="min_plus")
    for seed in range(3):
        rng = np.random.default_rng(seed)
        a, b = rng.random((7, 9), np.float32), rng.random((9, 5), np.float32)
        np.testing.assert_allclose(plan(a, b), (a[:, :, None] + b).min(1))
    again = mdt.compile(mdt.reduce, "ij,jk->ik", A.T, A.T.copy().T)
    a, b = np.asfortranarray(RNG.random((9, 7), np.float32)), A
    twice = mdt.compile(mdt.reduce, "ij,ij->i", A, A)
    np.testing.assert_allclose(twice(A, 2 * A), 2 * (A * A).sum(1), rtol=1e-6)
    assert [spec.strides for spec in again.specs] == [(1, 9), (1, 7)]
    with pytest.raises(ShapeError, match=r"operand 1: float32\[7, 9\], the plan has"):
        again(a, b)


def test_what_a_call_checks_its_plan_checks() -> None:
    labels = np.arange(7) % 9
    plan = mdt.compile(mdt.cross_entropy, A, labels)
    assert plan(A, labels) == mdt.cross_entropy(A, labels)
    with pytest.raises(IndexingError, match="label 9, where there are 9 classes"):
        plan(A, labels + 3)


def test_a_function_that_prepares_its_operands_and_has_no_out() -> None:
    a, b = RNG.random(9) + 1j, RNG.random(4) - 2j
    plan = mdt.compile(mdt.correlate, a, b)  # its second operand is conjugated first
    np.testing.assert_allclose(plan(b[0] * a, b), np.correlate(b[0] * a, b))
    with pytest.raises(ShapeError, match="correlate takes no out"):
        plan(a, b, out=np.empty(6, complex))


def test_operands_that_swap_their_places() -> None:
    """The larger operand of a convolution is its image, wherever it stands."""
    plan = mdt.compile(mdt.correlate, mdt.spec((4,)), mdt.spec((9,)), "full")
    a, b = RNG.random(4, np.float32), RNG.random(9, np.float32)
    np.testing.assert_allclose(plan(a, b), np.correlate(a, b, "full"), rtol=1e-5)


def test_a_directive_writes_to_its_operands() -> None:
    w = np.zeros(7, "f4")
    plan = mdt.compile(matvec, w, A, mdt.spec((9,)))
    v = RNG.random(9, np.float32)
    assert not w.any(), "planning runs nothing"
    assert plan(w, A, v) is None
    np.testing.assert_allclose(w, A @ v, rtol=1e-6)
    assert [str(m) for m in plan.md_homs] == ["md_hom[i:7, k:9](mul, (cc, pw(add)))"]
    with pytest.raises(ShapeError, match="out is"):
        plan(w, A, v, out=w)


def test_records_are_read_anew_by_each_call() -> None:
    people = np.array([(1, 2.0), (3, 0.5)], [("id", "i8"), ("mark", "f4")])

    def best(p: Any) -> Any:
        return p["mark"]

    plan = mdt.compile(mdt.reduce, "i->", people, f=best, combine="max")
    assert plan(people) == 2
    people["mark"] = [1, 9]
    assert plan(people) == 9


def test_reprs_and_labels() -> None:
    plan = mdt.compile(mdt.conv, IMG, FLT, bias=mdt.spec((4,), "f8"), stride=2)
    assert repr(plan) == (
        "Plan(conv, float64[2, 8, 8, 3], float64[4, 3, 3, 3], bias=float64[4], stride=2)"
    )
    assert plan.label == "conv"
    assert plan.result == mdt.spec((2, 3, 3, 4), "f8")
    plan = mdt.compile(mdt.reduce, "ij->i", A, f=largest, combine="max")
    assert repr(plan) == "Plan(reduce, 'ij->i', float32[7, 9], f=largest, combine='max')"
    assert (plan.label, plan.results) == ("reduce ij->i", (mdt.spec((7,)), mdt.spec((7,), "i8")))
    plan = mdt.compile("ij,jk->ik", A, B, semiring="bool")
    assert repr(plan) == "Plan('ij,jk->ik', float32[7, 9], float32[9, 5], semiring='bool')"
    plan = mdt.compile("ij,jk->ik", A, B, acc_dtype="f8", semiring=None)
    assert repr(plan) == "Plan('ij,jk->ik', float32[7, 9], float32[9, 5], acc_dtype='f8')"
    assert plan.md_homs[0].scalar.result_dtypes == (np.dtype("f8"),)


def test_calls_are_counted_once() -> None:
    plan = mdt.compile(sum_and_difference, A[0])
    single = mdt.compile(mdt.reduce, "ij->i", A)
    mdt.stats(reset=True)
    for count in range(1, 4):
        plan(A[0])
        plan(A[0], out=(np.empty(7, "f4"), np.empty(7, "f4")))
        single(A)
        single(A, out=np.empty(7, "f4"))
        assert mdt.stats().generated == {"float": 4 * count}


def test_a_plan_is_recorded_and_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_bench.use(stand_in_bench.Bench(), monkeypatch)
    plan = mdt.compile("ij,jk->ik", A, B, semiring="max_plus")
    plan(A, B)
    with mdt.tuning("record") as seen:
        plan(A, B)
        plan(A, B, out=np.empty((7, 5), "f4"))
    assert [item.md_hom for item in seen] == list(plan.md_homs)
    [report] = plan.tune("1h", quiet=True, again=True, abort=evaluations(4))
    assert (report.label, report.trials > 0) == ("ij,jk->ik", True)
    np.testing.assert_allclose(plan(A, B), (A[:, :, None] + B).max(1))
    assert "schedule (from the store: tuned)" in plan.explain()


def test_a_kernel_without_an_estimate_is_explained() -> None:
    plan = mdt.compile("ij,j->i", A, B[:, 0].copy())
    (choice,), (md_hom,) = plan.choices(), plan.md_homs
    assert "cost\n  not estimated\nsource" in explained(md_hom, replace(choice, seconds=0.0))


def test_explain_shows_every_md_hom() -> None:
    text = mdt.compile(sum_and_difference, A[0]).explain()
    assert text.count("md_hom[i0:7](f, (cc))") == text.count("kernel_0(") == 1
    shown = mdt.compile(mdt.reduce, "ij->i", A[:0]).explain()
    assert shown == "nothing is computed: float32[0] is empty, or filled with zeros"
    staged = mdt.compile("ij,jk,kl->il", *[mdt.spec((60, 60))] * 3, semiring="min_plus")
    assert staged.explain().count("schedule (from") == len(staged.md_homs) == 2


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: mdt.compile(print), TranslationError, "neither an einsum string nor a function"),
    (lambda: mdt.compile(np.tensordot, A, B), TranslationError, "neither an einsum string"),
    (lambda: mdt.compile("ij->i", A, out=A), TranslationError, "out is no option of a plan"),
    (lambda: mdt.compile(mdt.scan, "i->i", A[0], to=1), TypeError, "unexpected keyword argument"),
    (lambda: mdt.compile("ij->i", A, semiring="min"), TranslationError, "unknown semiring 'min'"),
    (lambda: mdt.compile("i->", np.array([None])), DTypeError, "kernels compute with dtype object"),
    (
        lambda: mdt.compile("i->", A[0].astype(">f4")),
        DTypeError,
        "compute with a foreign byte order",
    ),
    (
        lambda: mdt.compile(mdt.convolve, np.ones(5, "g"), np.ones(3, "g")),
        TranslationError,
        "a call of convolve on these operands runs no kernels",
    ),
    (
        lambda: mdt.compile("i->", np.zeros(3, "f8,i4")["f0"]),
        ShapeError,
        "elements of operand 0 do not lie at whole multiples of their size",
    ),
]


@pytest.mark.parametrize(("wrong", "error", "message"), REFUSED)
def test_refusals(wrong: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wrong()


def test_refusals_of_calls() -> None:
    plan = mdt.compile(sum_and_difference, mdt.spec((9,)))
    x, out = np.ones(9, "f4"), (np.empty(7, "f4"), np.empty(7, "f4"))
    with pytest.raises(ShapeError, match=r"out is float32\[7\] but the result is float32\[7\], f"):
        plan(x, out=out[0])
    with pytest.raises(ShapeError, match="out shares memory with another result") as caught:
        plan(x, out=(out[0], out[0]))
    assert caught.value.__context__ is None
    with pytest.raises(ShapeError, match="out shares memory with operand 0"):
        plan(x, out=(x[2:], out[0]))
    plan(x, out=out)
    with pytest.raises(ShapeError, match="out shares memory with operand 0"):
        plan(x, out=(x[2:], out[0]))
    with pytest.raises(ShapeError, match="a plan takes arrays"):
        plan([1.0] * 9)
    with pytest.raises(ShapeError, match="a plan takes arrays"):
        plan(x, out=(None, None))


def test_calls_of_other_threads_are_not_planned() -> None:
    """Planning is seen by its own context only."""
    from threading import Thread

    found: list[Any] = []

    def elsewhere(u: Any) -> Any:
        if not found:
            thread = Thread(target=lambda: found.append(mdt.reduce("i->", np.arange(5.0))))
            thread.start()
            thread.join()
        return u[0]

    assert isinstance(mdt.compile(mdt.stencil(elsewhere), A[0]), CallPlan)
    assert found == [10.0]


@pytest.mark.parametrize(("fills", "steps"), [(True, 1), (False, 3)])
def test_a_plan_where_zeros_are_read_outside_is_one_step(
    fills: bool, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = SimpleNamespace(fills_with_zeros=lambda md_hom: fills)
    monkeypatch.setattr(registry, "engine_for", lambda arrays="numpy": engine)
    specs = mdt.spec((2, 9, 9, 4)), mdt.spec((8, 3, 3, 4))
    arguments = ArgumentSlots.of(mdt.conv, specs, {"padding": 1})
    gpu = SimpleNamespace()  # the module of arrays on one
    assert len(CallPlan("conv", "conv", arguments, gpu).md_homs) == steps
    assert len(CallPlan("conv", "conv", arguments).md_homs) == 3  # zeros, a copy, the product
