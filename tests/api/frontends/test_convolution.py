"""`conv` against its definition in NumPy."""

from __future__ import annotations

import sys
import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.frontends.convolution import conv_capsule
from mdtensor.errors import DTypeError, MdtensorError, ShapeError

Pairs = tuple[tuple[int, int], ...]

LAYOUTS = {1: "NCW,KCS->NKQ", 2: "NCHW,KCRS->NKPQ", 3: "NCDHW,KCTRS->NKZPQ"}
TRANSPOSED = {1: "NCW,CKS->NKQ", 2: "NCHW,CKRS->NKPQ", 3: "NCDHW,CKTRS->NKZPQ"}


def windows(
    img: np.ndarray,
    flt: np.ndarray,
    *,
    stride: tuple[int, ...],
    padding: Pairs,
    dilation: tuple[int, ...],
    groups: int = 1,
) -> np.ndarray:
    """The convolution of NC… images and KC… filters: a sum over taps of whole arrays."""
    padded = np.pad(img, ((0, 0), (0, 0), *padding))
    taps = flt.shape[2:]
    window = [d * (r - 1) + 1 for d, r in zip(dilation, taps, strict=True)]
    sizes = zip(padded.shape[2:], window, stride, strict=True)
    shape = [max(0, (n - w) // s + 1) for n, w, s in sizes]
    split = flt.reshape(groups, -1, *flt.shape[1:])
    result = np.zeros((img.shape[0], groups, split.shape[1], *shape), np.result_type(img, flt))
    for tap in product(*map(range, taps)) if result.size else ():
        cut = tuple(
            slice(d * r, d * r + s * (p - 1) + 1, s)
            for d, r, s, p in zip(dilation, tap, stride, shape, strict=True)
        )
        part = padded[(slice(None), slice(None), *cut)]
        part = part.reshape(img.shape[0], groups, -1, *shape)
        result += np.einsum("ngc...,gkc->ngk...", part, split[(..., *tap)])
    return result.reshape(len(img), len(flt), *shape)


def scattered(
    img: np.ndarray,
    flt: np.ndarray,
    *,
    stride: tuple[int, ...],
    padding: Pairs,
    dilation: tuple[int, ...],
    groups: int = 1,
    output_padding: tuple[int, ...],
) -> np.ndarray:
    """The transposed convolution of NC… images and CK… filters: each element goes to a window."""
    taps = flt.shape[2:]
    steps = list(zip(img.shape[2:], taps, stride, dilation, output_padding, strict=True))
    whole = [s * (n - 1) + d * (r - 1) + 1 + more for n, r, s, d, more in steps]
    result = np.zeros((img.shape[0], groups, flt.shape[1], *whole), np.result_type(img, flt))
    parts = img.reshape(img.shape[0], groups, -1, *img.shape[2:])
    split = flt.reshape(groups, -1, *flt.shape[1:])
    for tap in product(*map(range, taps)):
        cut = tuple(
            slice(d * t, d * t + s * (n - 1) + 1, s)
            for t, (n, _, s, d, _) in zip(tap, steps, strict=True)
        )
        result[(..., *cut)] += np.einsum("ngc...,gck->ngk...", parts, split[(..., *tap)])
    kept = tuple(slice(a, n - b) for (a, b), n in zip(padding, whole, strict=True))
    return result.reshape(img.shape[0], -1, *whole)[(..., *kept)]


# Image, filter (spatial extents), and options of one case.
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((9,), (3,), {}),
    ((9,), (3,), {"padding": 1}),
    ((9,), (4,), {"padding": 3, "stride": 2, "dilation": 2}),
    ((2,), (5,), {"padding": 4}),
    ((17,), (1,), {"stride": 5}),
    ((7, 9), (3, 3), {"padding": 1}),
    ((7, 9), (3, 3), {"padding": 1, "stride": 2}),
    ((8, 6), (2, 3), {"padding": (1, 0), "stride": (1, 3)}),
    ((13, 11), (5, 5), {"padding": 2}),
    ((23, 20), (7, 7), {"padding": 3, "stride": 2}),
    ((5, 5), (5, 5), {"padding": 4}),
    ((11, 12), (3, 3), {"padding": 2, "dilation": 2}),
    ((11, 12), (3, 2), {"padding": 5, "dilation": (3, 4), "stride": (2, 3)}),
    ((6, 7), (3, 3), {"padding": 1, "groups": 3}),
    ((6, 7), (3, 3), {"padding": 1, "groups": 6, "stride": 2}),
    ((3, 4), (1, 1), {"padding": 2}),
    ((4, 5, 6), (3, 3, 3), {"padding": 1}),
    ((4, 5, 6), (2, 1, 3), {"padding": (0, 1, 2), "stride": (1, 2, 3), "groups": 2}),
]
MORE: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((6,), (3,), {"stride": 2, "output_padding": 1}),
    ((5, 6), (3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((5, 4), (4, 4), {"stride": 4}),
    ((5, 4), (2, 2), {"stride": 3, "output_padding": (1, 2)}),
    ((5, 4), (3, 2), {"stride": (2, 4), "dilation": (4, 2), "output_padding": 1}),
    ((3, 3), (7, 7), {"stride": 2, "padding": 3, "groups": 2}),
    ((2, 3, 4), (3, 2, 3), {"stride": (1, 2, 3), "padding": (2, 0, 1)}),
]


def filled(shape: tuple[int, ...], dtype: str = "f8") -> np.ndarray:
    generator = np.random.default_rng(len(shape) + sum(shape))
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return generator.standard_normal(shape).astype(dtype)


def operands(
    image: tuple[int, ...], taps: tuple[int, ...], options: dict[str, Any], dtype: str = "f8"
) -> tuple[np.ndarray, np.ndarray]:
    return (
        filled((2, 6, *image), dtype),
        filled((6, 6 // options.get("groups", 1), *taps), dtype),
    )


def spelled(options: dict[str, Any], rank: int) -> dict[str, Any]:
    """The options with one value per axis, paddings as pairs."""

    def each(name: str, default: int) -> tuple[int, ...]:
        value = options.get(name, default)
        return value if isinstance(value, tuple) else (value,) * rank

    return {
        "stride": each("stride", 1),
        "padding": tuple((p, p) for p in each("padding", 0)),
        "dilation": each("dilation", 1),
        "groups": options.get("groups", 1),
    }


@pytest.mark.sampled(24)
@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("image", "taps", "options"), [*CASES, *MORE])
def test_convolutions(
    image: tuple[int, ...], taps: tuple[int, ...], options: dict[str, Any], biased: bool
) -> None:
    options = {name: value for name, value in options.items() if name != "output_padding"}
    img, flt = operands(image, taps, options)
    wanted = windows(img, flt, **spelled(options, len(image)))
    check({"layout": LAYOUTS[len(image)], **options}, img, flt, wanted, biased=biased)


@pytest.mark.sampled(24)
@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("image", "taps", "options"), [*CASES, *MORE])
def test_transposed_convolutions(
    image: tuple[int, ...], taps: tuple[int, ...], options: dict[str, Any], biased: bool
) -> None:
    rank = len(image)
    more = options.get("output_padding", 0)
    more = more if isinstance(more, tuple) else (more,) * rank
    img, flt = operands(image, taps, options)
    wanted = scattered(img, flt, **spelled(options, rank), output_padding=more)
    options = {"layout": TRANSPOSED[rank], "transposed": True, **options}
    check(options, img, flt, wanted, biased=biased)


def check(
    options: dict[str, Any], img: np.ndarray, flt: np.ndarray, wanted: np.ndarray, *, biased: bool
) -> None:
    """A convolution without bias, or with one, against what is wanted without; no results fail."""
    if biased:
        options["bias"] = filled((wanted.shape[1],))
        wanted = wanted + options["bias"].reshape(-1, *(1,) * (wanted.ndim - 2))
    if 0 in wanted.shape:
        with pytest.raises(ShapeError, match="no window fits"):
            mdt.conv(img, flt, **options)
        return
    np.testing.assert_allclose(mdt.conv(img, flt, **options), wanted, atol=1e-11)


# One case for each of the four ways at the borders, and what only kernels can get wrong.
KERNELS = [CASES[0], CASES[5], CASES[9], CASES[10], CASES[14]]


@pytest.mark.parametrize(("image", "taps", "options"), KERNELS)
def test_kernels(image: tuple[int, ...], taps: tuple[int, ...], options: dict[str, Any]) -> None:
    img, flt = operands(image, taps, options, "f4")
    wanted = windows(img.astype("f8"), flt.astype("f8"), **spelled(options, len(image)))
    result = mdt.conv(img, flt, layout=LAYOUTS[len(image)], **options)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, wanted, atol=1e-4)


def test_kernels_of_a_padded_copy() -> None:
    img, flt = filled((1, 64, 3, 3)), filled((64, 64, 3, 3))
    wanted = windows(img, flt, stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1))
    result = mdt.conv(img, flt, padding=1, layout=LAYOUTS[2])
    np.testing.assert_allclose(result, wanted, atol=1e-10)


def test_kernels_of_a_transposed_convolution() -> None:
    image, taps, options = MORE[1]
    img, flt = operands(image, taps, options)
    wanted = scattered(img, flt, **spelled(options, 2), output_padding=(1, 1))
    result = mdt.conv(img, flt, layout=TRANSPOSED[2], transposed=True, **options)
    np.testing.assert_allclose(result, wanted, atol=1e-11)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8"])
def test_integers_wrap_around(dtype: str) -> None:
    img, flt = operands((9,), (3,), {}, dtype)
    wanted = windows(img, flt, stride=(1,), padding=((0, 0),), dilation=(1,))
    result = mdt.conv(img, flt, layout=LAYOUTS[1])
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(result, wanted)


def test_halves_are_added_in_floats() -> None:
    img, flt = np.full((1, 1, 4096), 1, "f2"), np.full((1, 1, 4096), 1, "f2")
    img[..., 1:] /= 4096
    result = mdt.conv(img, flt, layout=LAYOUTS[1])
    assert (result.dtype, result.item()) == (np.float16, 2.0)


@pytest.mark.usefixtures("by_reference")
def test_types_mix_as_in_numpy() -> None:
    img, flt = filled((1, 1, 5), "i4"), filled((1, 1, 2), "f4")
    assert mdt.conv(img, flt, layout=LAYOUTS[1]).dtype == np.float64
    assert mdt.conv(img, flt, layout=LAYOUTS[1], dtype="f4").dtype == np.float32
    bias = np.ones(1, "c8")
    assert mdt.conv(img, flt, layout=LAYOUTS[1], bias=bias).dtype == np.complex128


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize(
    "layout",
    ["NHWC,KRSC->NPQK", "NHWC,RSCK->NKPQ", "HWNC,CRKS->QNPK", "NCHW,OIHW->NCHW", "NHWC,HWIO->NHWC"],
)
def test_layouts(layout: str) -> None:
    image, taps, result = layout.replace("->", ",").split(",")
    img, flt = filled((2, 3, 6, 7)), filled((4, 3, 3, 2))
    plain = windows(img, flt, stride=(1, 1), padding=((1, 1),) * 2, dilation=(1, 1))
    of_taps = "OIHW" if "O" in taps else "KCRS"
    of_result = "NKPQ" if "K" in result else "NCHW"
    given = [
        np.einsum(f"NCHW->{image}", img),
        np.einsum(f"{of_taps}->{taps}", flt),
    ]
    np.testing.assert_allclose(
        mdt.conv(*given, padding=1, layout=layout),
        np.einsum(f"{of_result}->{result}", plain),
        atol=1e-12,
    )


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("taps", [1, 2, 3, 4])
def test_same_is_tensorflows(stride: int, taps: int) -> None:
    img, flt = filled((1, 1, 8)), filled((1, 1, taps))
    total = max(0, (-(-8 // stride) - 1) * stride + taps - 8)
    pair = (total // 2, total - total // 2)
    wanted = windows(img, flt, stride=(stride,), padding=(pair,), dilation=(1,))
    result = mdt.conv(img, flt, stride=stride, padding="same", layout=LAYOUTS[1])
    np.testing.assert_allclose(result, wanted, atol=1e-12)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("padding", [0, 1])
def test_a_result_lies_as_its_image(padding: int) -> None:
    img, flt = filled((2, 7, 5, 6)), filled((4, 7, 3, 3))
    due = windows(img, flt, stride=(1, 1), padding=((padding,) * 2,) * 2, dilation=(1, 1))
    last = np.ascontiguousarray(img.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    options: Any = {"padding": padding, "layout": LAYOUTS[2]}
    found = mdt.conv(last, flt, **options)
    assert found.transpose(0, 2, 3, 1).flags.c_contiguous
    np.testing.assert_allclose(found, due, atol=1e-12)
    out = np.empty(due.shape)
    assert mdt.conv(last, flt, **options, out=out) is out
    np.testing.assert_allclose(out, due, atol=1e-12)


def test_transposed_same_is_the_adjoint_of_same() -> None:
    x, y, flt = filled((1, 1, 12)), filled((1, 1, 6)), filled((1, 1, 5))
    forward = mdt.conv(x, flt, stride=2, padding="same", layout=LAYOUTS[1])
    back = mdt.conv(y, flt, stride=2, padding="same", layout=TRANSPOSED[1], transposed=True)
    assert back.shape == x.shape
    np.testing.assert_allclose((forward * y).sum(), (x * back).sum())


@pytest.mark.usefixtures("by_reference")
def test_bias_and_epilogue() -> None:
    img, flt = operands((6, 5), (3, 3), {})
    bias = filled((6,), "f4")
    plain = mdt.conv(img, flt, padding=1, layout=LAYOUTS[2])
    added = mdt.conv(img, flt, padding=1, layout=LAYOUTS[2], bias=bias)
    np.testing.assert_allclose(added, plain + bias[:, None, None], atol=1e-12)
    scaled = mdt.conv(
        img, flt, padding=1, layout=LAYOUTS[2], bias=bias, epilogue=lambda x: x if x > 1 else -x
    )
    np.testing.assert_allclose(scaled, np.where(added > 1, added, -added), atol=1e-12)
    positive = mdt.conv(img, flt, padding=1, layout=LAYOUTS[2], bias=bias, epilogue="relu")
    np.testing.assert_allclose(positive, added.clip(0), atol=1e-12)


@pytest.mark.usefixtures("by_reference")
def test_types_of_epilogues() -> None:
    img, flt = np.full((1, 1, 3), 100, "i1"), np.full((1, 1, 2), 1, "i1")
    wrapped = mdt.conv(img, flt, layout=LAYOUTS[1], epilogue="relu")
    assert (wrapped.dtype, wrapped.tolist()) == (np.int8, [[[0, 0]]])
    halved = mdt.conv(img, flt, layout=LAYOUTS[1], epilogue=lambda x: x / 2, dtype="f4")
    assert (halved.dtype, halved.tolist()) == (np.float32, [[[100, 100]]])
    halved = mdt.conv(img, flt, layout=LAYOUTS[1], epilogue=lambda x: x / 2)
    assert (halved.dtype, halved.tolist()) == (np.float64, [[[-28, -28]]])


def test_epilogues_return_one_value() -> None:
    img, flt = np.ones((1, 1, 3)), np.ones((1, 1, 2))
    with pytest.raises(MdtensorError) as caught:
        mdt.conv(img, flt, layout=LAYOUTS[1], epilogue=lambda x: (x, x))
    assert str(caught.value) == (
        "the epilogue of a convolution returns 2 values\n"
        "  hint: return one, or call `reduce`, which has several results"
    )


def test_kernels_with_bias_and_epilogue() -> None:
    img, flt = operands((6, 5), (5, 5), {})
    bias = filled((6,), "f4")
    options: dict[str, Any] = {"stride": (1, 1), "padding": ((2, 2),) * 2, "dilation": (1, 1)}
    wanted = windows(img, flt, **options) + bias[:, None, None]
    result = mdt.conv(img, flt, padding=2, layout=LAYOUTS[2], bias=bias, epilogue="relu")
    np.testing.assert_allclose(result, wanted.clip(0), atol=1e-11)


RESIDUALS = ((2, 6, 6, 5), (6, 1, 1), (6, 6, 1), (5,), ())


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("shape", RESIDUALS)
@pytest.mark.parametrize(("padding", "groups"), [(1, 1), (1, 2), ("same", 3)])
def test_operands_of_the_epilogue(
    shape: tuple[int, ...], padding: Any, groups: int, biased: bool
) -> None:
    """As after it, broadcast against the result; the borders are computed with them too."""
    img, flt = filled((2, 6, 6, 5)), filled((6, 6 // groups, 3, 3))
    options: dict[str, Any] = {"padding": padding, "groups": groups, "layout": LAYOUTS[2]}
    if biased:
        options["bias"] = filled((6,), "f4")
    residual, scale = filled(shape), filled((6, 1, 1), "f4")
    expected = (mdt.conv(img, flt, **options) * scale + residual).clip(0)
    found = mdt.conv(
        img, flt, residual, scale, epilogue=lambda y, r, s: max(y * s + r, 0), **options
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_kernels_with_a_residual() -> None:
    img, flt = filled((2, 6, 6, 5)), filled((6, 6, 3, 3))
    wanted = windows(img, flt, stride=(1, 1), padding=((1, 1),) * 2, dilation=(1, 1))
    wanted = (wanted + img).clip(0)
    out = img.copy()
    options: dict[str, Any] = {"padding": 1, "layout": LAYOUTS[2]}
    found = mdt.conv(
        img, flt, img, epilogue=lambda y, residual: max(y + residual, 0), out=out, **options
    )
    assert found is out
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11)
    mdt.conv(img, flt, img, epilogue=lambda y, residual: max(y + residual, 0), out=img, **options)
    np.testing.assert_allclose(img, wanted, rtol=0, atol=1e-11)


@pytest.mark.usefixtures("by_reference")
def test_types_with_operands() -> None:
    """The operands of the epilogue take part in its type, not in that of the sums."""
    img, flt = np.full((1, 1, 3), 100, "i1"), np.full((1, 1, 2), 1, "i1")
    added = mdt.conv(img, flt, np.float32(0.5), layout=LAYOUTS[1], epilogue=lambda y, r: y + r)
    assert (added.dtype, added.tolist()) == (np.float32, [[[-55.5, -55.5]]])


def test_wrong_operands() -> None:
    img, flt = np.ones((1, 1, 3)), np.ones((1, 1, 2))
    options: dict[str, Any] = {"layout": LAYOUTS[1], "epilogue": lambda y, r: y + r}
    with pytest.raises(ShapeError) as caught:
        mdt.conv(img, flt, np.ones(3), **options)
    assert str(caught.value) == (
        "operand 2 of the epilogue has shape (3,) but the result (1, 1, 2)\n"
        "  hint: its axes are those of the result, or of extent 1"
    )
    with pytest.raises(ShapeError, match=r"^1 operand more than an image and a filter, and no"):
        mdt.conv(img, flt, np.ones(2), layout=LAYOUTS[1])
    with pytest.raises(MdtensorError, match="relu"):
        mdt.conv(img, flt, np.ones(2), layout=LAYOUTS[1], epilogue="relu")


def test_kernels_of_positions_without_taps() -> None:
    img, flt, bias = filled((1, 2, 4)), filled((2, 3, 1)), filled((3,))
    wanted = scattered(img, flt, stride=(3,), padding=((0, 0),), dilation=(1,), output_padding=(0,))
    options: dict[str, Any] = {"stride": 3, "layout": TRANSPOSED[1], "transposed": True}
    np.testing.assert_allclose(mdt.conv(img, flt, **options), wanted, atol=1e-12)
    result = mdt.conv(img, flt, bias=bias, **options)
    np.testing.assert_allclose(result, wanted + bias[:, None], atol=1e-12)


@pytest.mark.usefixtures("by_reference")
def test_positions_without_taps_get_the_bias() -> None:
    img, flt = filled((1, 2, 4)), filled((2, 3, 1))
    result = mdt.conv(
        img, flt, stride=3, layout=TRANSPOSED[1], transposed=True, bias=[1.0, 2.0, 3.0]
    )
    assert result.shape == (1, 3, 10)
    np.testing.assert_array_equal(result[0, :, 1], [1, 2, 3])


@pytest.mark.usefixtures("by_reference")
def test_out() -> None:
    img, flt = operands((6, 5), (3, 3), {})
    wanted = mdt.conv(img, flt, padding=1, layout=LAYOUTS[2])
    out = np.full((2, 6, 6, 5), np.nan)
    assert mdt.conv(img, flt, padding=1, layout=LAYOUTS[2], out=out) is out
    np.testing.assert_array_equal(out, wanted)
    inside = np.zeros((2, 6, 6, 5))
    inside[:] = img
    assert mdt.conv(inside, flt, padding=1, layout=LAYOUTS[2], out=inside) is inside
    np.testing.assert_array_equal(inside, wanted)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize(
    ("img", "flt"),
    [
        ((0, 2, 5), (3, 2, 3)),
        ((2, 0, 5), (3, 0, 3)),
        ((2, 2, 5), (0, 2, 3)),
        ((2, 2, 0), (3, 2, 2)),
    ],
)
def test_empty_operands(img: tuple[int, ...], flt: tuple[int, ...]) -> None:
    result = mdt.conv(np.zeros(img), np.zeros(flt), padding=1, layout=LAYOUTS[1])
    assert result.shape == (img[0], flt[0], img[2] + 3 - flt[2])
    assert not result.any()


def test_capsules() -> None:
    img, flt = filled((2, 7, 5, 2, 3, 4)), filled((3, 3, 2, 2, 4, 5))
    windows_of = np.lib.stride_tricks.sliding_window_view(img, (3, 2), (1, 2))[:, ::2, ::2]
    wanted = np.einsum("npqcikrs,Krsckj->npqKij", windows_of, flt)
    np.testing.assert_allclose(conv_capsule(img, flt, stride=2), wanted, atol=1e-11)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"stride": 0}, ShapeError, "stride is 0, which is less than 1"),
        ({"stride": 1.5}, DTypeError, "stride is 1.5, not a whole number"),
        ({"dilation": (1, 2, 3)}, ShapeError, "dilation has 3 values for 2 spatial axes"),
        ({"padding": -1}, ShapeError, "padding is -1, which is less than 0"),
        (
            {"padding": "full"},
            ShapeError,
            "padding is 'full'\n  hint: 'valid', 'same', or numbers",
        ),
        (
            {"padding": (1,)},
            ShapeError,
            (
                "padding has 1 values for 2 spatial axes\n"
                "  hint: a number, one for each axis, or a pair (before, after) for each"
            ),
        ),
        ({"groups": 0}, ShapeError, "groups is 0, which is less than 1"),
        (
            {"output_padding": 1},
            ShapeError,
            "output_padding belongs to transposed convolutions\n  hint: padding=…",
        ),
        (
            {"bias": [1.0]},
            ShapeError,
            "the bias has shape (1,) but the result 3 in K",
        ),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[MdtensorError], text: str) -> None:
    with pytest.raises(error) as caught:
        mdt.conv(np.zeros((1, 5, 5, 2)), np.zeros((3, 2, 2, 2)), **options)
    assert str(caught.value) == text


def bytes_of_arrays() -> int:
    """What NumPy and the pool of results have, of what was made since `tracemalloc` began."""
    numpys = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    traces = tracemalloc.take_snapshot().filter_traces([numpys]).traces
    return sum(trace.size for trace in traces)


@pytest.mark.parametrize("images", [2, 8], ids=["of NumPy's memory", "of the pool's"])
def test_peak_memory_is_that_of_operands_result_and_padded_copy(images: int) -> None:
    img, flt = np.ones((images, 28, 28, 64), "f4"), np.ones((64, 3, 3, 64), "f4")
    mdt.conv(img, flt, padding=1)
    sizes: list[int] = []
    tracemalloc.start()
    sys.setprofile(lambda *_: sizes.append(bytes_of_arrays()))
    try:
        result = mdt.conv(img, flt, padding=1)
    finally:
        sys.setprofile(None)
        tracemalloc.stop()
    copy = images * 30 * 30 * 64 * 4
    # It is an array, or lies in the memory of a launch.
    assert result.nbytes <= max(sizes) < result.nbytes + copy + 4096
    program: Any = mdt.compile(mdt.conv, img, flt, padding=1).program  # type: ignore[attr-defined]
    assert [spec.nbytes for spec in program.temporaries] == [copy]
