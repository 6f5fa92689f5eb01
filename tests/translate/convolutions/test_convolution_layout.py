from __future__ import annotations

import pytest

from mdtensor.errors import ShapeError, SubscriptError
from mdtensor.specs import TensorSpec
from mdtensor.translate.convolutions.convolution_layout import (
    ConvolutionLayout,
    Geometry,
    convolution_from_layout,
    parse_layout,
)


@pytest.mark.parametrize(
    ("text", "image", "taps", "result"),
    [
        ("NCHW,KCRS->NKPQ", ("N", "C", 0, 1), ("K", "C", 0, 1), ("N", "K", 0, 1)),
        ("NHWC,HWIO->NHWC", ("N", 0, 1, "C"), (0, 1, "C", "K"), ("N", 0, 1, "K")),
        ("NWC,KRC->NPK", ("N", 0, "C"), ("K", 0, "C"), ("N", 0, "K")),
        ("NCDHW,KCTRS->NKZPQ", ("N", "C", 0, 1, 2), ("K", "C", 0, 1, 2), ("N", "K", 0, 1, 2)),
        ("WHCN, SRCK -> QPKN", (1, 0, "C", "N"), (1, 0, "C", "K"), (1, 0, "K", "N")),
        ("NHWC,RSC->NPQC", ("N", 0, 1, "C"), (0, 1, "C"), ("N", 0, 1, "C")),
        ("HW,RS->PQ", (0, 1), (0, 1), (0, 1)),
    ],
)
def test_layouts(
    text: str, image: tuple[str, ...], taps: tuple[str, ...], result: tuple[str, ...]
) -> None:
    assert parse_layout(text) == ConvolutionLayout(image, taps, result)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NHWC->NPQK", "a layout names image, filter and result by capital letters"),
        ("NHWC,KRC->NPQK", "image, filter and result have 2, 1 and 2 spatial axes"),
        ("NC,KC->NK", "image, filter and result have 0, 0 and 0 spatial axes"),
        ("NNHC,KRC->NPK", "'NNHC' repeats a letter"),
        ("NHWC,KRS->NPQK", "'C' occurs in the image only"),
        ("NHWC,CRS->NPQK", "'K' occurs in the result only"),
    ],
)
def test_wrong_layouts(text: str, message: str) -> None:
    with pytest.raises(SubscriptError) as caught:
        parse_layout(text)
    assert caught.value.message == message
    assert caught.value.text == text


def extents(
    image: tuple[int, ...], taps: tuple[int, ...], geometry: Geometry, layout: str
) -> tuple[int, ...]:
    specs = (TensorSpec.of(image), TensorSpec.of(taps))
    convolution = convolution_from_layout(parse_layout(layout), geometry, specs)
    return convolution.result.spec.shape


ONE = Geometry((1,), ((0, 0),), (1,), output_padding=(0,))


def geometry(**options: object) -> Geometry:
    from dataclasses import replace

    return replace(ONE, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "image", "taps", "result"),
    [
        ({}, 10, 3, 8),
        ({"padding": "valid"}, 10, 3, 8),
        ({"padding": "same"}, 10, 3, 10),
        ({"padding": "same", "stride": (3,)}, 10, 3, 4),
        ({"padding": "same", "stride": (5,)}, 10, 2, 2),
        ({"padding": ((2, 0),), "stride": (2,)}, 10, 3, 5),
        ({"dilation": (4,)}, 10, 3, 2),
        ({"stride": (20,)}, 10, 3, 1),
        ({"padding": ((1, 1),)}, 0, 2, 1),
        ({"transposed": True, "stride": (2,)}, 10, 3, 21),
        ({"transposed": True, "stride": (2,), "output_padding": (1,)}, 10, 3, 22),
        ({"transposed": True, "stride": (2,), "padding": "same"}, 10, 3, 20),
        ({"transposed": True, "stride": (3,), "padding": "same"}, 10, 2, 30),
        ({"transposed": True, "padding": ((1, 2),)}, 10, 5, 11),
    ],
)
def test_extents_of_results(options: dict[str, object], image: int, taps: int, result: int) -> None:
    layout = "NWC,RCK->NPK"
    assert extents((2, image, 3), (taps, 3, 4), geometry(**options), layout) == (2, result, 4)


@pytest.mark.parametrize(
    ("image", "taps", "options", "text"),
    [
        (
            (1, 3, 2),
            (4, 5, 2),
            {"padding": ((0, 1),)},
            (
                "along spatial axis 0 no window fits: the image has 3 elements and padding"
                " (0, 1), a window 5\n"
                "  image: (1, 3, 2)    filter: (4, 5, 2)    dilation: 1    stride: 1\n"
                "  hint: more padding, less dilation, or a smaller filter"
            ),
        ),
        (
            (1, 3, 2),
            (4, 0, 2),
            {},
            "spatial axis 0 of the filter is empty\n  filter: (4, 0, 2)",
        ),
        (
            (1, 3, 2),
            (4, 2, 3),
            {},
            (
                "axis C has extent 2 in the image but 3 in the filter\n"
                "  image: (1, 3, 2)    filter: (4, 2, 3)\n"
                "  hint: layout= says which axis is which: 'NHWC,KRSC->NPQK', 'NCHW,KCRS->NKPQ',"
                " 'NHWC,HWIO->NHWC', 'NCW,KCS->NKQ'"
            ),
        ),
        (
            (3, 2),
            (4, 2, 2),
            {},
            (
                "the image has 2 axes but the layout gives it 3\n  image: (3, 2)\n"
                "  hint: layout=, such as 'NHWC,KRSC->NPQK', 'NCHW,KCRS->NKPQ', 'NHWC,HWIO->NHWC',"
                " 'NCW,KCS->NKQ'"
            ),
        ),
        (
            (1, 3, 4),
            (3, 2, 2),
            {"groups": 2},
            (
                "groups=2 with 4 channels of the image, 2 channels and 3 results of the filter\n"
                "  hint: the filter has image channels / groups channels, and results divisible by"
                " groups"
            ),
        ),
        (
            (1, 3, 4),
            (3, 2, 2),
            {"groups": 2, "transposed": True},
            (
                "groups=2 with 4 channels of the image, 2 channels and 3 results of the filter\n"
                "  hint: the filter of a transposed convolution has all channels, and the results"
                " of one group"
            ),
        ),
        (
            (1, 3, 2),
            (4, 2, 2),
            {"transposed": True, "stride": (2,), "output_padding": (2,)},
            "output_padding 2 of spatial axis 0 is not smaller than its stride 2 or dilation 1",
        ),
    ],
)
def test_what_does_not_fit(
    image: tuple[int, ...], taps: tuple[int, ...], options: dict[str, object], text: str
) -> None:
    with pytest.raises(ShapeError) as caught:
        extents(image, taps, geometry(**options), "NWC,KRC->NPK")
    assert str(caught.value) == text


def test_groups_need_their_letters() -> None:
    with pytest.raises(ShapeError, match="groups=2 needs C in image and filter, and K"):
        extents((4, 4), (2, 2), geometry(groups=2), "CW,RC->PC")
