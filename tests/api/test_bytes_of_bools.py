"""Booleans of every byte: NumPy takes all but 0 for true, and so do kernels; results are 0 or 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor import ndimage
from mdtensor.directive import Buffer, add, cc, combine_ops, inp, int64, mdh, out, pw

RNG = np.random.default_rng(7)
# All bytes, in rows that begin anywhere, with as many zeros besides, in any order.
BYTES = RNG.permutation(np.arange(512, dtype="u1") * np.repeat([1, 0], 256).astype("u1"))
RAW = BYTES.view("?")
TRUE = BYTES != 0
ROWS, TRUE_ROWS = RAW.reshape(32, 16), TRUE.reshape(32, 16)
NUMBERS = RNG.integers(-9, 10, 512)

B = Buffer[np.bool_]


@mdt.stencil(border="nearest")
def differs(u: Any) -> Any:
    return u[0] != u[1]


@mdt.stencil(border="nearest")
def passed_on(u: Any) -> Any:
    return u[1]


@mdh(out(n=Buffer[int64]), inp(x=B), combine_ops(cc, pw(add)))
def counted(n: Any, x: Any) -> None:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            n[i] = 1 if x[i, j] else 0


@mdt.mdh
def loops(y: Any, x: Any) -> None:
    for i in range(x.shape[0]):
        s = 0
        for j in range(x.shape[1]):
            s += x[i, j]
        y[i] = s


def looped(x: np.ndarray) -> np.ndarray:
    y = np.zeros(len(x), int)
    loops(y, x)
    return y


def records(x: np.ndarray) -> np.ndarray:
    made = np.zeros(len(x), [("n", "i4"), ("is", "?")])
    made["n"] = np.arange(len(x)) % 3
    made["is"].view("u1")[...] = x.view("u1")
    return made


Call = Callable[[np.ndarray, np.ndarray], Any]
# Of a vector and of rows of it.
CALLS: dict[str, Call] = {
    "count": lambda x, m: mdt.reduce("i->", x),
    "count in rows": lambda x, m: mdt.reduce("ij->i", m),
    "count in columns": lambda x, m: mdt.reduce("ij->j", m),
    "count in small integers": lambda x, m: mdt.reduce("ij->j", m, dtype="u1"),
    "mean": lambda x, m: mdt.reduce("i->", x, dtype="f8", epilogue=lambda t: t / 512),
    **{
        f"{name}": lambda x, m, name=name: mdt.reduce("ij->i", m, combine=name)
        for name in ("and", "or", "xor", "min", "max", "mul", "fmin", "argmax", "argmin")
    },
    "a function": lambda x, m: mdt.reduce("ij->i", m, f=lambda a: 1 if a else 3),
    "a comparison with True": lambda x, m: mdt.reduce(
        "ij->i", m, f=lambda a: 1 if np.equal(a, True) else 0
    ),
    "an operator": lambda x, m: mdt.reduce("ij->i", m, combine=lambda a, b: a | b),
    "the last": lambda x, m: mdt.reduce("ij->i", m, combine=lambda a, b: b),
    "einsum": lambda x, m: mdt.einsum("ij,kj->ik", m, m),
    "einsum, sums": lambda x, m: mdt.einsum("ij->i", m),
    "einsum of points": lambda x, m: mdt.einsum("i,i->i", x, x[::-1]),
    "einsum with numbers": lambda x, m: mdt.einsum("i,i->", x, NUMBERS),
    "einsum with floats": lambda x, m: mdt.einsum("i,i->", x, NUMBERS.astype("f4")),
    "einsum as floats": lambda x, m: mdt.einsum("ij,kj->ik", m, m, dtype="f8"),
    "einsum of three": lambda x, m: mdt.einsum("ij,kj,kl->il", m, m, m[:, :5]),
    "tensordot": lambda x, m: mdt.tensordot(m, m.T, 1),
    "a semiring": lambda x, m: mdt.einsum("ij,jk->ik", m, m.T, semiring="bool"),
    "a diagonal": lambda x, m: mdt.einsum("ii->", m[:16]),
    "an epilogue": lambda x, m: mdt.reduce(
        "ij->i; i", m, m[:, 0], epilogue=lambda total, b: total + b
    ),
    "a gather": lambda x, m: mdt.reduce("@1 j, i -> i", m, np.arange(9)[::-1]),
    "a window": lambda x, m: mdt.reduce("h+r -> h", x, combine="or", extents={"r": 3}),
    "a stride": lambda x, m: mdt.reduce("2i -> ", x),
    "scan": lambda x, m: mdt.scan("i->i", x),
    "scan of rows": lambda x, m: mdt.scan("ij->ij", m, combine={"j": "xor"}),
    "stencil": lambda x, m: differs(x),
    "stencil that changes nothing": lambda x, m: passed_on(x),
    "conv": lambda x, m: mdt.conv(m[None, :, :, None], m[None, :3, :3, None]),
    "correlate": lambda x, m: mdt.correlate(x, NUMBERS[:5]),
    "lazy ==": lambda x, m: (mdt.lazy(x) == x[::-1]).evaluate(),
    "lazy == True": lambda x, m: (mdt.lazy(x) == True).evaluate(),  # noqa: E712
    "lazy <": lambda x, m: (mdt.lazy(x) < x[::-1]).evaluate(),
    "lazy &": lambda x, m: (mdt.lazy(x) & x[::-1]).evaluate(),
    "lazy ~": lambda x, m: (~mdt.lazy(x)).evaluate(),
    "lazy + 1": lambda x, m: (mdt.lazy(x) + 1).evaluate(),
    "lazy +": lambda x, m: (mdt.lazy(x) + x).evaluate(),
    "lazy ^": lambda x, m: (mdt.lazy(x) ^ x[::-1]).evaluate(),
    "lazy where": lambda x, m: np.where(mdt.lazy(x), 1, NUMBERS).evaluate(),
    "lazy sum": lambda x, m: np.sum(mdt.lazy(m), axis=0),
    "lazy all": lambda x, m: mdt.lazy(m).all(axis=1),
    "lazy astype": lambda x, m: mdt.lazy(x).astype("f4").evaluate(),
    "loops": lambda x, m: looped(m),
    "loops with operators": lambda x, m: counted(m),
    "records": lambda x, m: mdt.reduce(
        "i->", records(x), f=lambda r: r["n"] if r["is"] else 0, combine="add"
    ),
    "equal records": lambda x, m: mdt.reduce(
        "i,j->i", records(x)[:40], records(x), f=lambda a, b: a == b, combine="add"
    ),
    "selected by index": lambda x, m: mdt.reduce(
        "e,b->b", x, np.arange(2), f=lambda e, b: 1 if e == b else 0
    ),
    "a filter": lambda x, m: ndimage.uniform_filter(m, 3, output="f8"),
    "a maximum": lambda x, m: ndimage.maximum_filter(m, 3),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", CALLS)
def test_every_byte_but_zero_is_true(name: str) -> None:
    call = CALLS[name]
    expected = call(TRUE, TRUE_ROWS)
    for x, m in (
        (RAW, ROWS),
        (RAW[::-1][::-1], ROWS.T.copy().T),
        (RAW.repeat(2)[::2], ROWS.repeat(2, axis=1)[:, ::2]),
    ):
        found = call(x, m)
        np.testing.assert_array_equal(as_bytes(found), as_bytes(expected))


def as_bytes(result: Any) -> Any:
    """Results, booleans as what lies in memory."""
    if isinstance(result, tuple):
        return tuple(map(as_bytes, result))
    array = np.asarray(result)
    return array.view("u1") if array.dtype == bool else array


def test_the_same_as_numpy() -> None:
    assert mdt.reduce("i->", RAW) == np.add.reduce(RAW, dtype="i8")
    for name, ufunc in (
        ("and", np.logical_and),
        ("or", np.bitwise_or),
        ("xor", np.bitwise_xor),
        ("max", np.maximum),
        ("min", np.minimum),
    ):
        np.testing.assert_array_equal(
            mdt.reduce("ij->j", ROWS, combine=name), ufunc.reduce(ROWS, axis=0)
        )
    np.testing.assert_array_equal(mdt.scan("i->i", RAW), np.cumsum(RAW))
    np.testing.assert_array_equal(mdt.einsum("ij,kj->ik", ROWS, ROWS), ROWS @ ROWS.T)
    np.testing.assert_array_equal((mdt.lazy(RAW) == RAW[::-1]).evaluate(), RAW[::-1] == RAW)
    np.testing.assert_array_equal((~mdt.lazy(RAW)).evaluate(), ~RAW)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("byte", range(256))
def test_one_element(byte: int) -> None:
    one = np.array([byte], "u1").view("?")
    assert mdt.reduce("i->", one) == int(byte != 0)
    found = mdt.reduce("i->i", one)
    assert found.view("u1")[0] == int(byte != 0)
