"""Prefix sums: what is carried from step to step, inside vectors, and from group to group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import tile_of
from mdtensor.lower.codegen.scan.scan_tile import scan_of_partials, scan_tile
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.ir.statements import If, Let, Loop, Set, Statement, VectorStore, indented
from mdtensor.lower.ir.values import Calc, Ref, Shift, Slice
from tests.lower.codegen.frames import frame_of

NAMES = ("scan_lanes", "scan_columns", "scan_in_order", "gpu_scan_columns", "gpu_scan_split")


def scanned(name: str, *, carried: bool = False) -> list[Statement]:
    frame = frame_of(name)
    counts = {d: frame.tilings[d].register for d in frame.problem.kept}
    outputs = [
        Destination(f"o{n}", frame.problem.outputs[w.buffer], w.strides, as_index(0), False)
        for n, w in enumerate(frame.problem.writes)
    ]
    strides = tuple(as_index(0) for _ in frame.problem.extents)
    carries = [
        Destination(f"carry{n}", dtype, strides, as_index(0), False)
        for n, dtype in enumerate(frame.problem.scalar.result_dtypes)
    ]
    return scan_tile(frame, tile_of(frame, counts), outputs, carries if carried else ())


def flat(statements: Sequence[Statement]) -> Iterator[Statement]:
    for statement in statements:
        yield statement
        if isinstance(statement, Loop | If):
            yield from flat(statement.body)


@pytest.mark.parametrize("name", NAMES)
def test_whole_tile(name, golden):
    golden(f"passes/scan_tile/{name}.txt", "\n".join(indented(scanned(name))) + "\n")


@pytest.mark.parametrize("name", ["scan_lanes", "gpu_scan_split"])
def test_tile_that_continues_what_groups_before_it_computed(name, golden):
    text = "\n".join(indented(scanned(name, carried=True))) + "\n"
    golden(f"passes/scan_tile/{name}_carried.txt", text)


def test_totals_of_groups(golden):
    frame = frame_of("gpu_scan_split")
    statements = scan_of_partials(frame, as_index(3), as_index(5))
    golden("passes/scan_tile/totals.txt", "\n".join(indented(statements)) + "\n")


def test_every_point_is_written_where_it_is_scanned():
    frame = frame_of("scan_columns")
    rows, columns = (tiling.register for tiling in frame.tilings)
    main = next(s for s in scanned("scan_columns") if isinstance(s, Loop))
    stores = [s for s in main.body if isinstance(s, VectorStore)]
    assert sum(store.value.lanes for store in stores) == rows * columns


def test_a_vector_is_scanned_in_as_many_steps_as_its_length_has_digits():
    main = next(s for s in scanned("scan_lanes") if isinstance(s, Loop))
    shifts = [text for text in indented(main.body) if Shift.__name__ + "(" in text]
    vectors = frame_of("scan_lanes").tilings[1].register // 4
    assert len(shifts) == 2 * vectors


def test_only_the_last_lane_is_carried_on():
    main = next(s for s in scanned("scan_lanes") if isinstance(s, Loop))
    held = {s.ref: s.value for s in main.body if isinstance(s, Let)}
    carried = [held[s.value] for s in main.body if isinstance(s, Set) and isinstance(s.value, Ref)]
    assert carried
    for total in carried:
        assert isinstance(total, Calc)
        assert total.lanes == 1, "the next vector waits for a scalar operation"
        (last,) = (arg for arg in total.args if isinstance(arg, Slice))
        assert (last.start, last.lanes) == (3, 1)
