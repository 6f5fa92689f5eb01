"""A call that is recalled does what it would do if it were made in full."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from mdtensor.api.calls import call_cache, program_calls
from mdtensor.api.engine import registry
from mdtensor.directive import Buffer, add, cc, combine_ops, fp64, inp, out, pw
from mdtensor.errors import IndexingError

RNG = np.random.default_rng(77)
FACTOR = 2.0
ndimage = mdt.ndimage


def drawn(*shape: int, dtype: str = "f8") -> np.ndarray:
    return RNG.integers(1, 9, shape).astype(dtype)


@mdt.stencil
def neighbours(u: Any, c: Any) -> Any:
    return c * u[-1] + u[1]


@mdt.mdh
def scaled_rows(w: Any, m: Any, c: Any) -> None:
    for i in range(m.shape[0]):
        w[i] = 0
        for k in range(m.shape[1]):
            w[i] += c * m[i, k]


@mdt.mdh(out(w=Buffer[fp64]), inp(M=Buffer[fp64], v=Buffer[fp64]), combine_ops(cc, pw(add)))
def matvec(w: Any, M: Any, v: Any) -> None:
    for i in range(M.shape[0]):
        for k in range(len(v)):
            w[i] = M[i, k] * v[k]


def scaled(x: Any) -> Any:
    return x * FACTOR


# Front ends, how they are called on two arrays, and what comes out by NumPy.
CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "einsum": (
        mdt.einsum,
        lambda call, a, b: call("ij,jk->ik", a, b, order="C"),
        lambda a, b: a @ b,
    ),
    "min_plus": (
        mdt.einsum,
        lambda call, a, b: call("ij,jk->ik", a, b, semiring="min_plus"),
        lambda a, b: (a[:, :, None] + b[None]).min(1),
    ),
    "tensordot": (mdt.tensordot, lambda call, a, b: call(a, b, 1), lambda a, b: a @ b),
    "reduce": (
        mdt.reduce,
        lambda call, a, b: call("ij,ij->i", a, b, f=lambda x, y: x - 2 * y, combine="max"),
        lambda a, b: (a - 2 * b).max(1),
    ),
    "scan": (
        mdt.scan,
        lambda call, a, b: call("ij,ij->ij", a, b, combine={"j": "add"}),
        lambda a, b: (a * b).cumsum(1),
    ),
    "convolve": (
        mdt.convolve,
        lambda call, a, b: call(a[0], b[1]),
        lambda a, b: np.convolve(a[0], b[1]),
    ),
    "correlate": (
        mdt.correlate,
        lambda call, a, b: call(a[0], b[1], "full"),
        lambda a, b: np.correlate(a[0], b[1], "full"),
    ),
    "conv": (
        mdt.conv,
        lambda call, a, b: call(a[None, :, :, None], b[None, :2, :2, None])[0, :, :, 0],
        lambda a, b: sum(
            b[r, s] * a[r : r + len(a) - 1, s : s + len(a) - 1] for r in (0, 1) for s in (0, 1)
        ),
    ),
    "several programs": (
        mdt.cross_entropy,
        lambda call, a, b: call(a, (b[0] % len(a)).astype(int)),
        lambda a, b: np.mean(
            [
                np.log(np.exp(row - row[int(c) % len(a)]).sum())
                for row, c in zip(a, b[0], strict=True)
            ]
        ),
    ),
    "matvec": (
        matvec,
        lambda call, a, b: call(a, b[0]),
        lambda a, b: a @ b[0],
    ),
}


def refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("the call was made in full")


@pytest.mark.parametrize("name", CALLS)
def test_calls_on_other_arrays_are_recalled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, call, expected = CALLS[name]
    for _ in range(2):
        a, b = drawn(6, 6), drawn(6, 6)
        np.testing.assert_allclose(call(function, a, b), expected(a, b))
    monkeypatch.setattr(call_cache, "_in_full", refuse)
    a, b = drawn(6, 6), drawn(6, 6)
    np.testing.assert_allclose(call(function, a, b), expected(a, b))


@pytest.mark.parametrize("name", [name for name in CALLS if name != "matvec"])
def test_an_array_given_twice_does_not_mix_up_operands(name: str) -> None:
    function, call, expected = CALLS[name]
    invalidation.clear()
    a, b = drawn(7, 7), drawn(7, 7)
    for x, y in ((a, a), (a, b), (b, a)):
        np.testing.assert_allclose(call(function, x, y), expected(x, y))


def test_new_shapes_of_calls_of_several_programs_are_recalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = [(drawn(n, n + 2), np.arange(n)) for n in (5, 6, 7, 9)]
    found = [mdt.cross_entropy(*case) for case in cases]
    monkeypatch.setattr(call_cache, "_in_full", refuse)
    np.testing.assert_allclose([mdt.cross_entropy(*case) for case in cases], found)


def test_a_call_that_is_planned_once_it_was_made_writes_nothing() -> None:
    @call_cache.with_call_cache
    def both(a: np.ndarray, to: np.ndarray) -> np.ndarray:
        to[...] = mdt.reduce("ij->i", mdt.einsum("ij,kj->ik", a, a), combine="max")
        return mdt.einsum("i,i->i", to, to)

    for _ in range(3):
        a, to = drawn(5, 6), np.zeros(5)
        due = (a @ a.T).max(1)
        np.testing.assert_allclose(both(a, to), due * due)
        np.testing.assert_allclose(to, due)


@pytest.mark.parametrize("place", ["check_types", "as_computed", "staged"])
def test_a_call_that_interrupts_another_is_no_part_of_it(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    invalidation.clear()
    a, b, found = drawn(5, 6), drawn(6, 7), list[np.ndarray]()

    def interrupt(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == place:
            found.append(mdt.einsum("ij,jk->ik", a, b))

    scores, labels = drawn(5, 8), np.arange(5)
    sys.setprofile(interrupt)
    try:
        loss = mdt.cross_entropy(scores, labels)
    finally:
        sys.setprofile(None)
    assert found
    for product in found:
        np.testing.assert_array_equal(product, a @ b)
    monkeypatch.setattr(call_cache, "_in_full", refuse)
    assert mdt.cross_entropy(scores, labels) == loss


def test_what_a_call_checks_is_checked_when_it_is_recalled() -> None:
    scores, labels = drawn(6, 6), np.arange(6)
    for _ in range(3):
        mdt.cross_entropy(scores, labels)
    with pytest.raises(IndexingError, match="label 6, where there are 6 classes"):
        mdt.cross_entropy(scores, labels + 1)


@pytest.mark.parametrize("name", CALLS)
def test_layouts_and_types_are_told_apart(name: str) -> None:
    function, call, expected = CALLS[name]
    a, b = drawn(5, 5), drawn(5, 5)
    for _ in range(2):
        for x, y in ((a, b), (a.T, b), (a, b[::-1]), (a[::-1, ::-1], b.T)):
            np.testing.assert_allclose(call(function, x, y), expected(x, y))
    if name != "matvec":  # whose types are declared
        for x in (a.astype("f4"), a.astype("i4"), a.astype(">f8")):
            for _ in range(2):
                np.testing.assert_allclose(call(function, x, x), expected(x, x), rtol=1e-6)


def test_arrays_that_begin_at_any_byte_are_read() -> None:
    a = drawn(9, 9, dtype="f4")
    memory = np.zeros(a.nbytes + 1, "u1")
    shifted = np.frombuffer(memory.data, "f4", a.size, offset=1).reshape(a.shape)
    shifted[...] = a + 1
    for x in (a, a, shifted, a):
        np.testing.assert_array_equal(mdt.reduce("ij->i", x, combine="max"), x.max(1))


def test_options_that_are_equal_but_not_the_same_are_told_apart() -> None:
    a = drawn(4)
    assert mdt.reduce("i->", a, dtype="f8").dtype == "f8"
    assert mdt.reduce("i->", a, dtype="f4").dtype == "f4"
    assert mdt.reduce("i->", a, dtype=np.dtype("f4")).dtype == "f4"
    assert mdt.reduce("i->", a, dtype=np.float64).dtype == "f8"
    u = drawn(5, dtype="i8")
    for number in (1, 1.0, True, 1, 1.0, True):
        assert neighbours(u, number).dtype == np.result_type(u, type(number))
    for value in (0.0, -0.0, 0.0, -0.0):
        product = mdt.reduce("i->i", np.ones(3), f=lambda x, value=value: x * value)
        np.testing.assert_array_equal(np.signbit(product), np.signbit(value))


def test_numbers_that_kernels_are_handed_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    m, w = drawn(4, 3), np.empty(4)
    u = drawn(6)
    for number in (0.5, 1.5, 0.5):
        assert scaled_rows(w, m, number) is None
        np.testing.assert_allclose(w, number * m.sum(1))
        np.testing.assert_allclose(neighbours(u, np.float64(number)), number * u[:-2] + u[2:])
    monkeypatch.setattr(call_cache, "_in_full", refuse)
    scaled_rows(w, m, 7.25)
    np.testing.assert_allclose(w, 7.25 * m.sum(1))
    np.testing.assert_allclose(neighbours(u, np.float64(3)), 3 * u[:-2] + u[2:])


def test_what_functions_refer_to_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    a = drawn(5)
    for factor in (2.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert mdt.reduce("i->", a, f=scaled) == factor * a.sum()

    @mdt.mdh
    def loop(w: Any, x: Any) -> None:
        for i in range(len(x)):
            w[i] = FACTOR * x[i]

    w = np.empty(5)
    for factor in (2.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        loop(w, a)
        np.testing.assert_allclose(w, factor * a)


def test_weights_of_filters_count_by_what_they_contain(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.ndimage as peer

    u, weights = drawn(8, 9), drawn(3, 3)
    for _ in range(2):
        for change in (0.0, 1.0):
            weights[1, 1] = change
            np.testing.assert_allclose(
                ndimage.correlate(u, weights), peer.correlate(u, weights), atol=1e-12
            )
    monkeypatch.setattr(call_cache, "_in_full", refuse)
    np.testing.assert_allclose(ndimage.correlate(u, weights), peer.correlate(u, weights))
    np.testing.assert_allclose(
        ndimage.correlate(u + 1, weights.copy()), peer.correlate(u + 1, weights)
    )


def test_contents_are_entries_of_the_call_cache_and_do_not_drop_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import scipy.ndimage as peer

    u, many = drawn(5, 6), [np.array([n, 1.0, n + 2]) for n in range(70)]
    for weights in many:
        ndimage.correlate1d(u, weights, axis=0)
    monkeypatch.setattr(call_cache, "_in_full", refuse)
    for weights in many:
        found = ndimage.correlate1d(u, weights, axis=0)
        np.testing.assert_allclose(found, peer.correlate1d(u, weights, axis=0), atol=1e-12)


def test_filters_warn_every_time() -> None:
    u, footprint = drawn(5, 5), np.array([[0, 1], [1, 1]])
    for _ in range(3):
        with pytest.warns(UserWarning, match="ignoring size") as caught:
            ndimage.minimum_filter(u, size=2, footprint=footprint)
        assert caught[0].filename == __file__


def test_results_go_where_the_caller_says() -> None:
    a = drawn(6, 6)
    first, second = np.empty(6), np.empty(6)
    for _ in range(3):
        assert mdt.reduce("ij->i", a, combine="max", out=first) is first
        np.testing.assert_array_equal(first, a.max(1))
        targets = (first, second)
        assert mdt.reduce("ij->i", a, f=lambda x: (x, -x), out=targets) is targets
        np.testing.assert_array_equal(first, a.sum(1))
        np.testing.assert_array_equal(second, -a.sum(1))
        # By way of copies: into a part of what is read, and into another type.
        whole = a.copy()
        assert mdt.reduce("ij->i", whole, combine="max", out=whole[0]) is not None
        np.testing.assert_array_equal(whole[0], a.max(1))
        single = np.empty(6, "f4")
        mdt.reduce("ij->i", a, combine="max", out=single)
        np.testing.assert_array_equal(single, a.max(1))


def test_a_result_over_an_operand_is_computed_beside_it() -> None:
    u, into = drawn(6, 6), np.empty((6, 6))
    expected = u @ u
    for target in (into, into, u):
        assert mdt.einsum("ij,jk->ik", u, drawn(6, 6) * 0 + np.eye(6), out=into) is into
        assert mdt.einsum("ij,jk->ik", u, u, out=target) is target
        np.testing.assert_array_equal(target, expected)


def test_what_is_read_only_is_refused_each_time() -> None:
    a, target = drawn(4, 4), np.empty(4)
    for _ in range(2):
        mdt.reduce("ij->i", a, out=target)
    target.flags.writeable = False
    with pytest.raises(mdt.errors.ShapeError, match="read-only"):
        mdt.reduce("ij->i", a, out=target)
    w = np.zeros(4)
    for _ in range(2):
        scaled_rows(w, a, 1.0)
    with pytest.raises(mdt.errors.ShapeError, match="shares memory"):
        scaled_rows(a[0], a, 1.0)


def test_a_better_kernel_is_taken_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    a = drawn(4, 4)
    for _ in range(2):
        mdt.reduce("ij->i", a, combine="min")
    asked: list[Any] = []
    serving = registry.serving

    def counted(md_hom: Any, arrays: str = "numpy") -> Any:
        asked.append(md_hom)
        return serving(md_hom, arrays)

    monkeypatch.setattr(registry, "serving", counted)
    mdt.reduce("ij->i", a, combine="min")
    assert not asked
    registry.forget()
    mdt.reduce("ij->i", a, combine="min")
    assert len(asked) == 1


def test_kernels_chosen_before_better_ones_were_known_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a = drawn(3, 5)
    ready_for = program_calls.ready_for

    def overtaken(*given: Any, **options: Any) -> Any:
        ready = ready_for(*given, **options)
        registry.forget()  # a thread in the background has found something
        return ready

    monkeypatch.setattr(program_calls, "ready_for", overtaken)
    mdt.reduce("ij->i", a, combine="fmin")
    monkeypatch.setattr(program_calls, "ready_for", refuse)
    with pytest.raises(AssertionError):
        mdt.reduce("ij->i", a, combine="fmin")


def test_recorded_calls_are_seen_every_time() -> None:
    a = drawn(4, 4)
    for _ in range(2):
        mdt.scan("ij->ij", a, combine={"j": "add"})
    with mdt.tuning("record") as seen:
        for _ in range(3):
            mdt.scan("ij->ij", a, combine={"j": "add"})
    assert [seen.calls(item) for item in seen] == [3]


def test_recalled_calls_are_counted() -> None:
    a = drawn(4, 4)
    mdt.reduce("ij->i", a)
    before = mdt.stats().generated["float"]
    for _ in range(5):
        mdt.reduce("ij->i", a)
    assert mdt.stats().generated["float"] == before + 5
