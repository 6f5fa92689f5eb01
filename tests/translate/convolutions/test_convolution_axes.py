"""Runs of an axis, point by point: each position once, with the taps of its definition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from mdtensor.translate.convolutions.convolution_axes import (
    AxisPart,
    SpatialAxis,
    exact_runs,
    guarded_runs,
    strided,
    transposed,
)

Meetings = dict[int, set[tuple[int, int]]]

EXTENTS = st.integers(0, 9)
TAPS = st.integers(1, 6)
STEPS = st.integers(1, 4)


def at(numbers: Sequence[int], indices: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(numbers, indices, strict=False)) + numbers[-1]


def meetings(axis: SpatialAxis, runs: Sequence[AxisPart], taps: int) -> Meetings:
    """For each position of the result, the pairs of image element and tap that the runs visit."""
    found: Meetings = {}
    for run in runs:
        for indices in product(*map(range, run.extents[:-1])):
            position = at(run.result, (*indices, 0))
            assert position not in found
            pairs = {
                (at(run.image, (*indices, r)), at(run.filter, (*indices, r)))
                for r in range(run.taps)
            }
            assert all(0 <= tap < taps for _, tap in pairs)
            assert run.guarded or all(0 <= element < axis.image for element, _ in pairs)
            found[position] = {pair for pair in pairs if 0 <= pair[0] < axis.image}
    return found


def check(axis: SpatialAxis, taps: int, wanted: Meetings) -> None:
    exact = exact_runs(axis, 1000)
    assert exact is not None
    assert not any(run.guarded for run in exact)
    assert meetings(axis, exact, taps) == wanted
    guarded = guarded_runs(axis)
    assert meetings(axis, guarded.whole, taps) == wanted
    assert meetings(axis, [*guarded.interior, *guarded.border], taps) == wanted
    assert not any(run.guarded for run in guarded.interior)
    padded = axis.padded()
    whole = guarded_runs(padded).whole
    assert not any(run.guarded for run in whole)
    before, after = axis.margins
    assert padded.image == before + axis.image + after
    inside = range(before, before + axis.image)
    assert wanted == {
        position: {(element - before, tap) for element, tap in pairs if element in inside}
        for position, pairs in meetings(padded, whole, taps).items()
    }


@given(
    EXTENTS,
    TAPS,
    st.integers(0, 12),
    STEPS,
    STEPS,
    st.integers(-2, 6),
    st.booleans(),
    st.booleans(),
)
def test_strided_axes(
    image: int,
    taps: int,
    result: int,
    stride: int,
    dilation: int,
    before: int,
    flipped: bool,
    backwards: bool,
) -> None:
    axis = strided(
        image,
        taps,
        result,
        stride=stride,
        dilation=dilation,
        before=before,
        flipped=flipped,
        backwards=backwards,
    )
    wanted: Meetings = {}
    for p in range(result):
        elements = [(stride * p + dilation * r - before, r) for r in range(taps)]
        wanted[result - 1 - p if backwards else p] = {
            (element, taps - 1 - r if flipped else r)
            for element, r in elements
            if 0 <= element < image
        }
    check(axis, taps, wanted)


@given(EXTENTS, TAPS, st.integers(0, 20), STEPS, STEPS, st.integers(0, 6))
def test_transposed_axes(
    image: int, taps: int, result: int, stride: int, dilation: int, before: int
) -> None:
    axis = transposed(image, taps, result, stride=stride, dilation=dilation, before=before)
    wanted: Meetings = {p: set() for p in range(result)}
    for element, r in product(range(image), range(taps)):
        position = stride * element + dilation * r - before
        if position in wanted:
            wanted[position].add((element, r))
    check(axis, taps, wanted)


def test_borders_of_both_sides_are_one_run() -> None:
    border, interior = exact_runs(strided(100, 3, 100, before=1), 8) or ()
    assert (border.extents, border.result) == ((2, 1, 2), (99, 1, 0, 0))
    assert interior.extents == (98, 3)


def test_remainders_by_a_stride_are_one_run() -> None:
    (whole,) = exact_runs(transposed(50, 4, 200, stride=4), 8) or ()
    assert whole.extents == (4, 50, 1)


def test_long_borders_are_not_cut_into_runs() -> None:
    assert exact_runs(strided(1000, 1000, 1999, before=999), 8) is None


def test_guarded_borders_have_one_extent() -> None:
    guarded = guarded_runs(strided(224, 7, 112, stride=2, before=3))
    assert [run.extents for run in guarded.border] == [(2, 2, 7)]
    assert [run.extents for run in guarded.interior] == [(108, 7)]
