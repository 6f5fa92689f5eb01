"""Which way is taken at the borders; what the blocks compute is tested in tests/api."""

from __future__ import annotations

import pytest

from mdtensor.specs import TensorSpec
from mdtensor.translate.convolutions.convolution_layout import (
    Geometry,
    convolution_from_layout,
    parse_layout,
)
from mdtensor.translate.convolutions.md_hom_from_convolution import (
    ConvolutionParts,
    md_homs_from_convolution,
)
from mdtensor.translate.md_hom import MDHom


def blocks(
    image: tuple[int, ...],
    taps: tuple[int, ...],
    padding: int,
    *,
    stride: int = 1,
    layout: str = "NHWC,KRSC->NPQK",
    transposed: bool = False,
) -> ConvolutionParts:
    parsed = parse_layout(layout)
    rank = parsed.rank
    geometry = Geometry(
        (stride,) * rank,
        ((padding, padding),) * rank,
        (1,) * rank,
        transposed=transposed,
        output_padding=(0,) * rank,
    )
    specs = (TensorSpec.of(image), TensorSpec.of(taps))
    return md_homs_from_convolution(convolution_from_layout(parsed, geometry, specs))


def affine(md_hom: MDHom) -> bool:
    return all(access.is_affine for access in md_hom.inp_view)


def test_without_padding_there_is_one_block() -> None:
    (block,) = blocks((16, 230, 230, 3), (64, 7, 7, 3), 0, stride=2).md_homs
    assert block.describe() == (
        "out_view(out: float32[16, 112, 112, 64] (N, K, p0, p1, C, r0, r1) -> (N, p0, p1, K))\n"
        "md_hom[N:16, K:64, p0:112, p1:112, C:3, r0:7, r1:7]"
        "(mul, (cc, cc, cc, cc, pw(add), pw(add), pw(add)))\n"
        "inp_view(image: float32[16, 230, 230, 3] (N, K, p0, p1, C, r0, r1) ->"
        " (N, 2p0+r0, 2p1+r1, C); filter: float32[64, 7, 7, 3] (N, K, p0, p1, C, r0, r1) ->"
        " (K, r0, r1, C))"
    )


def test_a_capsule_convolution_is_figure_20s() -> None:
    layout = "NHWCAB,KRSCBE->NPQKAE"
    (block,) = blocks((1, 9, 9, 8, 4, 4), (16, 3, 3, 8, 4, 4), 0, stride=2, layout=layout).md_homs
    assert repr(block.inp_view) == "((N, 2p0+r0, 2p1+r1, C, A, B), (K, r0, r1, C, B, E))"
    assert repr(block.out_view) == "((N, p0, p1, K, A, E),)"
    assert len(block.dims) == 10


@pytest.mark.parametrize(
    ("image", "filters", "copied"),
    [
        ((32, 112, 112, 64), 64, True),
        ((1, 7, 7, 512), 512, True),
        ((1, 900, 900, 1), 23, True),  # each element of the copy of 902 x 902 is in 206 products
        ((1, 900, 900, 1), 22, False),  # in 197, those at borders in 0.9
        ((1, 900, 900, 1), 20, False),
        ((1, 30, 30, 1), 1, True),  # border windows have 1044 products, the copy 1024 elements
        ((1, 31, 31, 1), 1, False),  # 1080 and 1089
    ],
)
def test_an_image_is_copied_whose_elements_or_borders_are_in_many_products(
    image: tuple[int, ...], filters: int, copied: bool
) -> None:
    found = blocks(image, (filters, 3, 3, image[3]), 1)
    assert len(found.md_homs) == (1 if copied else 4)
    assert bool(found.copied) == copied
    if found.copied:
        count, height, width, channels = image
        padded = TensorSpec.of((count, height + 2, width + 2, channels))
        assert all(
            md_hom.outputs[0].spec == padded
            for md_hom in [step.md_hom for step in found.copied.steps[:2]]
        )


@pytest.mark.parametrize(
    ("image", "taps", "layout", "count"),
    [
        ((8, 100, 4), (4, 3, 4), "NWC,KRC->NPK", 2),
        ((8, 56, 56, 1), (1, 3, 3, 1), "NHWC,KRSC->NPQK", 4),
        ((1, 160, 160, 160, 1), (1, 3, 3, 3, 1), "NDHWC,KTRSC->NZPQK", 8),
    ],
)
def test_borders_of_one_element_are_affine(
    image: tuple[int, ...], taps: tuple[int, ...], layout: str, count: int
) -> None:
    found = blocks(image, taps, 1, layout=layout).md_homs
    assert len(found) == count
    assert all(map(affine, found))


def test_wide_borders_are_guarded() -> None:
    found = blocks((8, 224, 224, 3), (1, 7, 7, 3), 3, stride=2).md_homs
    assert [affine(md_hom) for md_hom in found] == [True, False, False]
    interior, above, left = found
    assert [interior.extents[name] for name in ("p0", "p1")] == [108, 108]
    assert [above.extents[name] for name in ("p0_0", "p0", "p1")] == [2, 2, 112]
    assert [left.extents[name] for name in ("p0", "p1_0", "p1")] == [108, 2, 2]


def test_where_most_windows_leave_the_image_one_block_is_guarded() -> None:
    (block,) = blocks((64, 13, 13, 1), (1, 5, 5, 1), 2, stride=6).md_homs
    assert not affine(block)


def test_transposed_convolutions_have_a_block_for_each_remainder() -> None:
    layout = "NHWC,RSCK->NPQK"
    found = blocks((1, 80, 80, 1), (3, 3, 1, 1), 0, stride=2, layout=layout, transposed=True)
    assert sum(md_hom.points for md_hom in found.md_homs) == 80 * 80 * 9
    assert all(map(affine, found.md_homs))
