"""What happens to a tile's results: combined, added to earlier ones, stored."""

from __future__ import annotations

import pytest

from mdtensor.lower.codegen.base.destinations import Destination
from mdtensor.lower.codegen.base.frame import tile_of
from mdtensor.lower.codegen.body.write_outputs import item_turns, shared_memory, write_tile
from mdtensor.lower.ir.group_statements import Barrier
from mdtensor.lower.ir.index import as_index, name
from mdtensor.lower.ir.statements import If, VectorStore, indented
from tests.lower.codegen.frames import frame_of

NAMES = (
    "matmul_remainder",
    "matmul_streaming",
    "matmul_complex",
    "matmul_half",
    "transposed_output",
    "transposed_rows",
    "transposed_rows_streaming",
    "matvec_reduced_lane",
    "gpu_dot_items",
)


def written(case: str, *, earlier: bool = False, count: int | None = None):
    frame = frame_of(case)
    counts = {d: frame.tilings[d].register for d in frame.problem.kept}
    if count is not None:
        counts[frame.schedule.lane] = count
    destinations = [
        Destination(
            f"o{n}",
            frame.problem.outputs[write.buffer],
            write.strides,
            as_index(write.offset),
            frame.schedule.streaming,
        )
        for n, write in enumerate(frame.problem.writes)
    ]
    before = name("t_j") - name("lo_j") if earlier else as_index(0)
    return write_tile(frame, tile_of(frame, counts), destinations, before)


@pytest.mark.parametrize("case", NAMES)
def test_whole_tile(case, golden):
    golden(f"passes/write_outputs/{case}.txt", "\n".join(indented(written(case))) + "\n")


@pytest.mark.parametrize("case", ["matmul_remainder", "matmul_complex"])
def test_later_tile_of_a_reduced_dim(case, golden):
    text = "\n".join(indented(written(case, earlier=True))) + "\n"
    golden(f"passes/write_outputs/{case}_earlier.txt", text)


@pytest.mark.parametrize("case", ["matmul_tail_pad", "matmul_tail_overlap"])
def test_rest_of_the_lane_dim(case, golden):
    text = "\n".join(indented(written(case, count=7, earlier=True))) + "\n"
    golden(f"passes/write_outputs/{case}.txt", text)


def test_results_of_work_items_meet_in_local_memory():
    frame = frame_of("gpu_dot_items")
    assert [repr(s.extent) for s in shared_memory(frame)] == ["8"]
    assert [s.name for s in item_turns(frame)] == ["turn1", "turn2", "turn4"]
    statements = written("gpu_dot_items")
    assert sum(isinstance(s, Barrier) for s in statements) == 5
    assert isinstance(statements[-1], If), "one work-item writes"
    assert not any(isinstance(s, VectorStore) and s.buffer == "o0" for s in statements)
