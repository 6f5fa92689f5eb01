"""The points of a tile along the lanes, as vectors."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mdtensor.lower.codegen.base.frame import LaneVector, pieces_of, powers_of_two
from tests.lower.codegen.frames import frame_of


@pytest.mark.sampled(24)
@pytest.mark.parametrize("count", range(1, 40))
@pytest.mark.parametrize("tail", ["split", "pad", "overlap"])
def test_pieces_cover_every_point_of_the_lane_dim(count, tail):
    frame = frame_of("matmul_remainder")
    frame = replace(frame, schedule=replace(frame.schedule, tail=tail))
    pieces = pieces_of(frame, count)
    covered = [p.offset + n for p in pieces for n in range(p.valid)]
    assert set(covered) == set(range(count))
    assert len(covered) == count or (tail == "overlap" and count > frame.schedule.width)
    assert all(p.lanes in (1, 2, 4) and p.valid <= p.lanes for p in pieces)


def test_tails():
    def pieces(tail: str) -> tuple[LaneVector, ...]:
        frame = frame_of("matmul_remainder")
        return pieces_of(replace(frame, schedule=replace(frame.schedule, tail=tail)), 7)

    assert pieces("split") == (LaneVector(0, 4, 4), LaneVector(4, 2, 2), LaneVector(6, 1, 1))
    assert pieces("pad") == (LaneVector(0, 4, 4), LaneVector(4, 4, 3))
    assert pieces("overlap") == (LaneVector(0, 4, 4), LaneVector(3, 4, 4))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("count", range(65))
@pytest.mark.parametrize("largest", [1, 2, 16])
def test_powers_of_two_cover_a_count(count, largest):
    parts = powers_of_two(count, largest)
    assert [n for start, length in parts for n in range(start, start + length)] == [*range(count)]
    assert all(length <= largest and math.log2(length).is_integer() for _, length in parts)
