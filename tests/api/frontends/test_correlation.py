"""`convolve` and `correlate` against NumPy and scipy.signal: values, shapes, types, errors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import signal

import mdtensor as mdt
from mdtensor.api.frontends import correlation
from mdtensor.errors import DTypeError, MdtensorError, ShapeError

MODES = ("full", "same", "valid")
NAMES = ("convolve", "correlate")
TYPES = ("?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
SHAPES = [
    ((7, 5), (3, 2)),
    ((3, 2), (7, 5)),
    ((3, 6), (4, 2)),
    ((4, 4), (1, 4)),
    ((2, 1, 5), (2, 3, 2)),
    ((3, 4, 5), (2, 2, 3)),
    ((2, 3, 2, 4), (1, 2, 2, 2)),
]


def filled(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    values = 4 * generator.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.standard_normal(shape)
    return (abs(values) if np.dtype(dtype).kind == "u" else values).astype(dtype)


def check(result: np.ndarray, wanted: np.ndarray) -> None:
    assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(result, wanted)
        return
    tolerance = 200 * np.finfo(wanted.dtype).eps
    np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=50 * tolerance)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", MODES)
def test_one_axis_is_numpys(name: str, mode: str) -> None:
    for n, m in product(range(1, 8), repeat=2):
        for given, other in (("f8", "f8"), ("c16", "c16"), ("i4", "f4")):
            a, v = filled((n,), given), filled((m,), other, 1)
            check(getattr(mdt, name)(a, v, mode), getattr(np, name)(a, v, mode))


@pytest.mark.sampled(24)
@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("a", "v"), [((6,), (3,)), ((3,), (6,)), ((4,), (4,)), *SHAPES])
def test_named_methods_and_several_axes_are_scipys(
    name: str, mode: str, a: tuple[int, ...], v: tuple[int, ...]
) -> None:
    for dtype in ("f8", "c16"):
        one, other = filled(a, dtype), filled(v, dtype, 1)
        function, wanted = getattr(mdt, name), getattr(signal, name)
        if mode == "valid" and a in ((3, 6), (2, 1, 5)):
            with pytest.raises(ValueError, match="For 'valid' mode"):
                wanted(one, other, mode, "direct")
            with pytest.raises(ShapeError, match="for 'valid' mode"):
                function(one, other, mode)
            continue
        expected = wanted(one, other, mode, "direct")
        check(function(one, other, mode, "direct"), expected)
        check(function(one, other, mode, "auto"), expected)
        if len(a) > 1:
            check(function(one, other, mode), expected)


@pytest.mark.sampled(24)
@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize(("given", "other"), list(product(TYPES, TYPES)))
def test_types_are_numpys(given: str, other: str) -> None:
    a, v = filled((6,), given), filled((3,), other, 1)
    check(mdt.convolve(a, v), np.convolve(a, v))


@pytest.mark.parametrize("dtype", ["?", "u2", "f2", "f8", "c8"])
def test_kernels(dtype: str) -> None:
    a, v = filled((40,), dtype), filled((7,), dtype, 1)
    for name, mode in (("convolve", "full"), ("correlate", "same")):
        check(getattr(mdt, name)(a, v, mode), getattr(np, name)(a, v, mode))


def test_kernels_on_several_axes() -> None:
    a, v = filled((20, 33), "f8"), filled((5, 6), "f8", 1)
    for mode in MODES:
        check(mdt.convolve(a, v, mode), signal.convolve(a, v, mode, "direct"))


@pytest.mark.usefixtures("by_reference")
def test_numbers_and_lists() -> None:
    check(mdt.convolve(3, [1, 2]), np.convolve(3, [1, 2]))
    check(mdt.convolve(3, 4), np.convolve(3, 4))
    assert mdt.correlate(3, 4) == 12
    assert mdt.convolve(3, 4, method="direct") == 12
    assert mdt.correlate(3, 4j, method="direct") == -12j
    for number, mode in enumerate(("valid", "same", "full")):
        check(mdt.convolve([1, 2, 3], [1, 2], number), np.convolve([1, 2, 3], [1, 2], mode))


@pytest.mark.usefixtures("by_reference")
def test_strided_operands() -> None:
    a = filled((20, 6), "f8")
    check(mdt.convolve(a[::-2, 1], a[::3, 2]), np.convolve(a[::-2, 1], a[::3, 2]))


def test_fft_is_scipys_and_counted() -> None:
    a, v = filled((50,), "f8"), filled((9,), "f8", 1)
    mdt.stats(reset=True)
    check(mdt.convolve(a, v, method="fft"), signal.convolve(a, v, method="fft"))
    check(mdt.correlate(a, v, "same", "fft"), signal.correlate(a, v, "same", "fft"))
    assert mdt.stats().numpy == {("float", "method fft"): 2}


def test_types_without_kernels_are_numpys_and_counted() -> None:
    mdt.stats(reset=True)
    one, two = Decimal(1), Decimal(2)
    assert mdt.convolve([one, two], [one]).tolist() == [one, two]
    a = np.ones((2, 2), "g")
    check(mdt.correlate(a, a, "full"), signal.correlate(a, a, "full", "direct"))
    assert mdt.stats().numpy == {
        ("object", "dtype object"): 1,
        ("longdouble", f"dtype {a.dtype.name}"): 1,
    }


def test_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    correlation.scipy_signal.cache_clear()
    monkeypatch.setitem(sys.modules, "scipy.signal", None)
    with pytest.raises(DTypeError) as caught:
        mdt.convolve([1, 2], [3], method="fft")
    assert str(caught.value) == (
        "scipy computes convolutions by FFT and of types without kernels; it is not installed\n"
        "  hint: pip install scipy, or method='direct' on numbers of NumPy's usual types"
    )


@pytest.mark.parametrize("function", [mdt.convolve, mdt.correlate])
@pytest.mark.parametrize(
    ("a", "v", "options", "error", "text"),
    [
        ([], [1], {}, ShapeError, "a cannot be empty\n  a: (0,)    v: (1,)"),
        ([1], [], {}, ShapeError, "v cannot be empty\n  a: (1,)    v: (0,)"),
        (
            [[1]],
            [1],
            {},
            ShapeError,
            (
                "a and v should have the same dimensionality\n  a: (1, 1)    v: (1,)\n"
                "  hint: give the smaller one axes of extent 1"
            ),
        ),
        (
            [[1, 2]],
            [[1], [2]],
            {"mode": "valid"},
            ShapeError,
            (
                "for 'valid' mode, one operand must be at least as large as the other along every"
                " axis\n  a: (1, 2)    v: (2, 1)"
            ),
        ),
        (
            [1],
            [1],
            {"mode": "whole"},
            ShapeError,
            "mode is 'whole'\n  hint: one of 'valid', 'same', 'full'",
        ),
        ([1], [1], {"mode": None}, DTypeError, "mode is None\n  hint: one of valid, same, full"),
        (
            [1],
            [1],
            {"method": "slow"},
            ShapeError,
            "method is 'slow'\n  hint: one of auto, direct, fft",
        ),
    ],
)
def test_wrong_calls(
    function: Callable[..., Any],
    a: Any,
    v: Any,
    options: dict[str, Any],
    error: type[MdtensorError],
    text: str,
) -> None:
    with pytest.raises(error) as caught:
        function(a, v, **options)
    assert str(caught.value) == text
