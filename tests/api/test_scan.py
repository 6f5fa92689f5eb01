"""scan against NumPy, by generated kernels and by the reference interpreter."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mdtensor.api.frontends.reduce import scan
from mdtensor.errors import MdtensorError, SubscriptError, TranslationError
from tests.cases import close, values

pytestmark = pytest.mark.usefixtures("executed")
RNG = np.random.default_rng(11)
LENGTHS = (1, 2, 7, 64, 1023)


def summed(x: np.ndarray, *, exclusive: bool, reverse: bool) -> np.ndarray:
    """Prefix sums of the last axis in float64, in the order of NumPy's cumsum."""
    exact = x.astype("f8") if x.dtype.kind == "f" else x
    turned = exact[..., ::-1] if reverse else exact
    sums = np.cumsum(turned, axis=-1, dtype=exact.dtype)
    if exclusive:
        sums = np.concatenate([np.zeros_like(sums[..., :1]), sums[..., :-1]], axis=-1)
    return (sums[..., ::-1] if reverse else sums).astype(x.dtype)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_sums(length: int, exclusive: bool, reverse: bool, dtype: str) -> None:
    x = values(RNG, (length,), dtype)
    result = scan("i->i", x, exclusive=exclusive, reverse=reverse)
    close(result, summed(x, exclusive=exclusive, reverse=reverse), length)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("exclusive", [False, True])
def test_any_dim(axis: int, exclusive: bool) -> None:
    a = values(RNG, (5, 17, 9), "float64")
    result = scan("ijk->ijk", a, combine={"ijk"[axis]: "add"}, exclusive=exclusive)
    moved = summed(np.moveaxis(a, axis, -1), exclusive=exclusive, reverse=False)
    close(result, np.moveaxis(moved, -1, axis))


@pytest.mark.parametrize("name", ["mul", "min", "max", "logaddexp"])
def test_operators(name: str) -> None:
    ufunc = {"mul": np.multiply, "min": np.minimum, "max": np.maximum, "logaddexp": np.logaddexp}
    x = values(RNG, (301,), "float64")
    close(scan("i->i", x, combine=name), ufunc[name].accumulate(x), 301)
    turned = ufunc[name].accumulate(x[::-1])[::-1]
    close(scan("i->i", x, combine=name, reverse=True), turned, 301)


def test_exclusive_scans_begin_with_the_identity() -> None:
    x = np.array([3.0, 1.0, 2.0])
    close(scan("i->i", x, combine="min", exclusive=True), np.array([np.inf, 3, 1]))
    close(scan("i->i", x, combine="mul", exclusive=True), np.array([1.0, 3, 3]))
    last = scan("i->i", x, combine=lambda a, b: b, identity=-1.0, exclusive=True)
    close(last, np.array([-1.0, 3, 1]))
    whole = np.array([5, 3], "u1")
    close(scan("i->i", whole, combine="min", exclusive=True), np.array([255, 5], "u1"))


def test_two_dims() -> None:
    a = values(RNG, (13, 21), "float64")
    table = np.cumsum(np.cumsum(a, axis=0), axis=1)
    both = {"i": "add", "j": "add"}
    close(scan("ij->ij", a, combine=both), table, 273)
    padded = np.zeros((14, 22))
    padded[1:, 1:] = table
    close(scan("ij->ij", a, combine=both, exclusive=True), padded[:-1, :-1], 273)


def test_what_the_output_lacks_is_reduced() -> None:
    a = values(RNG, (31, 17), "float64")
    result = scan("ij->i", a, combine={"j": "add", "i": "max"})
    close(result, np.maximum.accumulate(a.sum(axis=1)))
    result = scan("ij->i", a, combine={"i": "max", "j": "add"})
    close(result, np.maximum.accumulate(a, axis=0).sum(axis=1))


def test_order_is_kept_in_both_directions() -> None:
    """Compositions of x ↦ a·x + b, which do not commute."""
    a, b = values(RNG, (50,), "float64"), values(RNG, (50,), "float64")

    def composed(lhs: Any, rhs: Any) -> Any:
        return lhs[0] * rhs[0], lhs[1] * rhs[0] + rhs[1]

    def pairs(order: range, *, reverse: bool) -> np.ndarray:
        rows: list[Any] = []
        for n in order:
            this = (a[n], b[n])
            rows.append(
                composed(*((this, rows[-1]) if reverse else (rows[-1], this))) if rows else this
            )
        return np.array(rows[::-1] if reverse else rows)

    options: dict[str, Any] = {"f": lambda x, y: (x, y), "combine": composed}
    forward = pairs(range(50), reverse=False)
    close(np.stack(scan("i,i->i", a, b, **options), axis=1), forward)
    backward = pairs(range(49, -1, -1), reverse=True)
    close(np.stack(scan("i,i->i", a, b, reverse=True, **options), axis=1), backward)


def test_the_place_of_the_largest_so_far() -> None:
    x = RNG.integers(0, 20, 100)
    expected = np.array([x[: n + 1].argmax() for n in range(100)])
    close(scan("i->i", x, combine="argmax"), expected)
    a = RNG.integers(0, 20, (9, 7))
    expected = np.array([a[: n + 1].argmax(axis=0) for n in range(9)])
    close(scan("ij->ij", a, combine={"i": "argmax"}), expected)


def test_functions_and_indices() -> None:
    x = np.arange(10.0)
    close(scan("i->i", x, f=lambda v, *, i: v * i), np.cumsum(x * np.arange(10)))
    reverse = scan("i->i", x, f=lambda v, *, i: v * i, reverse=True)
    close(reverse, np.cumsum((x * np.arange(10))[::-1])[::-1])
    close(scan("->i", f=lambda *, i: i, extents={"i": 6}), np.cumsum(np.arange(6)))


def test_types() -> None:
    mask = RNG.random(50) < 0.5
    close(scan("i->i", mask), np.cumsum(mask))
    halves = np.full(3000, 1, "f2")
    close(scan("i->i", halves), np.arange(1, 3001).astype("f2"))
    close(scan("i->i", np.full(300, 1, "i1")), np.arange(1, 301).astype("i1"))
    close(scan("i->i", np.full(300, 1, "i1"), dtype="i8"), np.arange(1, 301))


def test_out_and_layouts() -> None:
    a = values(RNG, (12, 10), "float64")
    out = np.empty((10, 12)).T
    assert scan("ij->ij", a, combine={"j": "add"}, out=out) is out
    close(out, np.cumsum(a, axis=1))
    close(scan("ij->ji", a[::-1, ::2], combine={"i": "add"}), np.cumsum(a[::-1, ::2], axis=0).T)
    x = np.arange(6.0)
    scan("i->i", x, out=x, exclusive=True)
    close(x, np.array([0.0, 0, 1, 3, 6, 10]))
    close(scan("2i -> i", x), np.cumsum(x[::2]))


def test_empty() -> None:
    assert scan("i->i", np.zeros(0)).shape == (0,)
    assert scan("i->i", np.zeros(0), exclusive=True).shape == (0,)
    assert scan("ij->ij", np.zeros((0, 3)), combine={"j": "max"}, reverse=True).shape == (0, 3)


A = np.ones((2, 3))
WRONG: dict[str, tuple[Callable[[], Any], type[MdtensorError], str]] = {
    "which dim": (
        lambda: scan("ij->ij", A),
        SubscriptError,
        """\
        several dims could be scanned
          ij->ij
          hint: say which: combine={'j': …}""",
    ),
    "no dim": (
        lambda: scan("ij->", A),
        SubscriptError,
        """\
        no dim is left to be scanned
          ij->
          hint: the output names the dims that stay""",
    ),
    "a dim without operator": (
        lambda: scan("ij->i", A),
        SubscriptError,
        """\
        dim 'j' is not in the output, but no operator combines it
          ij->i
          hint: combine={'j': 'add', …}, or let the output have it""",
    ),
    "no identity": (
        lambda: scan("i->i", A[0], combine=lambda a, b: a + b, exclusive=True),
        TranslationError,
        """\
        an exclusive scan begins with the identity, and operator op has none
          hint: declare it by identity=…""",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_shown(name: str) -> None:
    call, error, expected = WRONG[name]
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == textwrap.dedent(expected)
