"""Computations beyond einsum on CuPy arrays, through generated CUDA, against NumPy arrays.

The expected values are those of the reference interpreter on the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from tests.api.executors import use_reference

pytestmark = pytest.mark.gpu

Call = Callable[..., Any]


def _numbers(*shape: int, dtype: str = "f4") -> np.ndarray:
    rng = np.random.default_rng(7)
    if dtype[0] in "iu":
        return rng.integers(0, 9, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


@mdt.stencil(border="reflect")
def blur(u: Any) -> Any:
    return 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])


@mdt.operator(identity=(0, 1), commutative=False)
def composed(lhs: Any, rhs: Any) -> Any:
    return lhs[0] * rhs[1] + rhs[0], lhs[1] * rhs[1]


CASES: dict[str, tuple[Call, tuple[np.ndarray, ...]]] = {
    "affine indices": (
        lambda x, w: mdt.einsum("n 2h+r 2w+s c, k r s c -> n h w k", x, w),
        (_numbers(2, 21, 19, 5), _numbers(7, 3, 3, 5)),
    ),
    "min-plus": (
        lambda a, b: mdt.einsum("ij,jk->ik", a, b, semiring="min_plus"),
        (_numbers(37, 41), _numbers(41, 29)),
    ),
    "log-sum-exp": (
        lambda a, b: mdt.einsum("ij,jk->ik", a, b, semiring="logsumexp"),
        (_numbers(17, 31), _numbers(31, 23)),
    ),
    "epilogue": (
        lambda a, b, c: mdt.einsum("ij,jk->ik; k", a, b, c, epilogue="bias_relu"),
        (_numbers(33, 17), _numbers(17, 45), _numbers(45)),
    ),
    "maximum": (lambda a: mdt.reduce("ij->i", a, combine="max"), (_numbers(31, 257),)),
    "argmax": (lambda a: mdt.reduce("ij->i", a, combine="argmax"), (_numbers(31, 257),)),
    "histogram": (
        lambda e, b: mdt.reduce("e,b->b", e, b, f=lambda e, b: 1 if e == b else 0),
        (_numbers(5000, dtype="i4"), np.arange(9, dtype="i4")),
    ),
    "two operators": (
        lambda a: mdt.reduce("ij->", a, combine={"i": "max", "j": "add"}),
        (_numbers(33, 65),),
    ),
    "box sums": (
        lambda a: mdt.reduce("ij->i", a, combine={"j": "add", "i": mdt.ps("add")}),
        (_numbers(65, 33),),
    ),
    "scan": (lambda a: mdt.scan("i->i", a), (_numbers(10007, dtype="i8"),)),
    "scan of columns": (
        lambda a: mdt.scan("ij->ij", a, combine={"i": "max"}, reverse=True),
        (_numbers(65, 33),),
    ),
    "order is kept": (
        lambda a, b: mdt.reduce("ij,ij->i", a, b, f=lambda a, b: (a, b), combine=composed),
        (_numbers(9, 65, dtype="i4"), _numbers(9, 65, dtype="i4")),
    ),
    "gather": (
        lambda a, i: mdt.reduce("@1 j, i -> i j", a, i),
        (_numbers(33, 7), _numbers(65, dtype="i8")),
    ),
    "index values": (
        lambda a: mdt.reduce("ij->i", a, f=lambda a, *, j: a * j),
        (_numbers(33, 65),),
    ),
    "convolution": (
        lambda x, w: mdt.conv(x, w, padding=1, stride=2),
        (_numbers(2, 17, 19, 8), _numbers(6, 3, 3, 8)),
    ),
    "depthwise": (
        lambda x, w: mdt.conv(x, w, padding="same", groups=8),
        (_numbers(1, 17, 19, 8), _numbers(8, 3, 3, 1)),
    ),
    "pooling of a copy": (
        lambda x: mdt.max_pool(x, (3, 3), stride=2, padding=1, axes=(1, 2)),
        (_numbers(16, 96, 96),),
    ),
    "stencil": (blur, (_numbers(65, 47),)),
    "slices": (
        lambda a: (mdt.lazy(a)[1:] - mdt.lazy(a)[:-1]).evaluate(),
        (_numbers(65, 47),),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels(cupy: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, arrays = CASES[name]
    found = call(*map(cupy.asarray, arrays))
    use_reference(monkeypatch)
    wanted = call(*arrays)
    results = found if isinstance(found, tuple) else (found,)
    for got, right in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert isinstance(got, cupy.ndarray)
        assert got.dtype == right.dtype
        np.testing.assert_allclose(got.get(), right, rtol=2e-4, atol=2e-5)
