"""Calls on CuPy's arrays that were made before only launch; a module stands for CuPy here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.calls import program_calls
from mdtensor.api.engine import registry
from mdtensor.bounded import Bounded
from mdtensor.errors import ShapeError
from mdtensor.translate.md_hom import MDHom
from tests.api.cupy_stand_in import NOT_JOINED, Array, made, use

__all__ = ["made"]  # a fixture


@mdt.stencil(border="reflect")
def blur(u: Any) -> Any:
    return 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])


def image() -> Array:
    return Array.of(np.random.default_rng(3).random((9, 8), np.float32))


def test_a_call_of_several_kernels_is_prepared_once(made: list[str]) -> None:
    u = image()
    first = blur(u)
    kernels = len(made)
    assert kernels > 1
    second = blur(u)
    assert len(made) == kernels
    assert type(second) is Array
    np.testing.assert_allclose(first.host, blur(u.host), rtol=1e-5)
    np.testing.assert_array_equal(first.host, second.host)


def test_another_device_has_kernels_of_its_own(made: list[str]) -> None:
    for device, count in ((0, 1), (1, 2), (0, 2), (1, 2)):
        use(device)
        x = Array.of(np.arange(5, dtype="f4"))
        np.testing.assert_array_equal(mdt.scan("i->i", x).host, np.cumsum(x.host))
        assert len(made) == count


def test_numpy_arrays_of_the_same_layout_go_to_their_own_device(made: list[str]) -> None:
    x = np.arange(5, dtype="f4")
    for _ in range(2):
        assert type(mdt.scan("i->i", Array.of(x))) is Array
        assert type(mdt.scan("i->i", x)) is np.ndarray
    assert len(made) == 1


@pytest.mark.parametrize("into", [False, True], ids=["new", "out"])
def test_contractions_are_recalled_by_their_second_call(made: list[str], into: bool) -> None:
    a, b = Array.of(np.ones((3, 4), "f4")), Array.of(np.ones((4, 5), "f4"))
    out = Array.of(np.zeros((3, 5), "f4")) if into else None
    for _ in range(2):
        mdt.einsum("ij,jk->ik", a, b, out=out)
    kernels = len(made)
    for _ in range(3):
        found = mdt.einsum("ij,jk->ik", a, b, out=out)
        np.testing.assert_array_equal(found.host, np.full((3, 5), 4, "f4"))
    assert len(made) == kernels
    assert out is None or found is out


def test_arrays_in_other_orders_are_other_calls(made: list[str]) -> None:
    rng = np.random.default_rng(5)
    left, right = (rng.integers(-9, 9, (4, 4)).astype("f4") for _ in range(2))
    orders = [np.ascontiguousarray, np.asfortranarray, lambda a: np.repeat(a, 2, axis=1)[:, ::2]]
    for _ in range(3):
        for first in orders:
            for second in orders:
                found = mdt.einsum("ij,jk->ik", Array.of(first(left)), Array.of(second(right)))
                np.testing.assert_array_equal(found.host, left @ right)


def test_a_recalled_call_into_an_operand_is_made_by_way_of_a_copy(made: list[str]) -> None:
    a, b = np.arange(16, dtype="f4").reshape(4, 4), np.eye(4, k=1, dtype="f4")
    out = Array.of(np.zeros((4, 4), "f4"))
    for _ in range(3):
        mdt.einsum("ij,jk->ik", Array.of(a), Array.of(b), out=out)
    shared = Array.of(a.copy())
    assert mdt.einsum("ij,jk->ik", shared, Array.of(b), out=shared) is shared
    np.testing.assert_array_equal(shared.host, a @ b)


def test_results_go_into_arrays_of_the_callers(made: list[str]) -> None:
    x, out = Array.of(np.arange(5, dtype="f4")), Array.of(np.zeros(5, "f4"))
    for _ in range(2):
        assert mdt.scan("i->i", x, out=out) is out
        np.testing.assert_array_equal(out.host, np.cumsum(x.host))
        out.host[...] = 0
    assert mdt.scan("i->i", x, out=x) is x
    np.testing.assert_array_equal(x.host, [0, 1, 3, 6, 10])


def test_plans_launch_without_asking_the_function(made: list[str]) -> None:
    u = image()
    plan = mdt.compile(blur, u)
    results = [plan(u) for _ in range(3)]
    launchers = len(made)
    results.append(plan(u))
    assert len(made) == launchers
    for result in results:
        np.testing.assert_array_equal(result.host, results[0].host)


def test_plans_into_arrays_refuse_others_than_they_were_made_for(made: list[str]) -> None:
    rng = np.random.default_rng(9)
    left, right = (rng.integers(-9, 9, (4, 4)).astype("f4") for _ in range(2))
    a, b, out = Array.of(left), Array.of(right), Array.of(np.zeros((4, 4), "f4"))
    plan = mdt.compile("ij,jk->ik", a, b)
    for _ in range(3):
        out.host[...] = 0
        assert plan(a, b, out=out) is out
        np.testing.assert_array_equal(out.host, left @ right)
    assert made == ["launcher"]
    flat, turned = Array.of(np.zeros(16, "f4")), Array.of(np.asfortranarray(left))
    for operands, target, message in (
        ((a, b), flat, r"^out is float32\[16\] but the result is float32\[4, 4\]"),
        ((a, b), (), r"^out is empty but the result is float32\[4, 4\]"),
        ((turned, b), out, "^an operand is not what the plan was made for"),
        ((a,), out, "^1 operand for a plan of 2"),
        ((a, [[0] * 4] * 4), out, "^a plan takes arrays, not list"),
        ((a, b), b, "^out shares memory with operand 1"),
    ):
        with pytest.raises(ShapeError, match=message):
            plan(*operands, out=target)
    np.testing.assert_array_equal(plan(a, b).host, left @ right)


def test_bfloat16_is_a_type_as_any_other(made: list[str]) -> None:
    x = Array.of(np.arange(6, dtype=ml_dtypes.bfloat16))
    product = mdt.compile("i,i->", x, x)(x, x)
    for found, expected in ((product, 55), (mdt.correlate(x, x), [55])):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found.host.astype(float), expected)
    assert len(made) == 2


@pytest.mark.parametrize("fills", [False, True])
def test_a_padded_convolution_is_one_kernel_where_zeros_outside_cost_nothing(
    made: list[str], monkeypatch: pytest.MonkeyPatch, fills: bool
) -> None:
    asked: list[MDHom] = []

    def fills_with_zeros(md_hom: MDHom) -> bool:
        asked.append(md_hom)
        return fills

    others = registry.engine_for
    engine = SimpleNamespace(fills_with_zeros=fills_with_zeros, joined=NOT_JOINED)
    monkeypatch.setattr(registry, "engine_for", lambda a: engine if a == "cupy" else others(a))
    monkeypatch.setattr(program_calls, "_table", Bounded(64))
    rng = np.random.default_rng(7)
    img, flt = (rng.random(shape, np.float32) for shape in ((2, 9, 8, 4), (5, 3, 3, 4)))
    first, second = (mdt.conv(Array.of(img), Array.of(flt), padding=1) for _ in range(2))
    assert len(asked) == 1
    assert (len(made) == 1) == fills
    np.testing.assert_allclose(first.host, mdt.conv(img, flt, padding=1), rtol=1e-5)
    np.testing.assert_array_equal(first.host, second.host)
