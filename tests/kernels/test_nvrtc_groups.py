"""NVRTC on kernels whose points share reads, and whose warps and groups tell each other values."""

from __future__ import annotations

import pytest

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from tests.kernels.nvrtc_compiler import compiled
from tests.lower.codegen.groups import test_last_block_reduction
from tests.lower.codegen.register_blocking import test_warp_shuffle_reduction
from tests.lower.codegen.scan import test_cooperative_scan
from tests.lower.codegen.streaming import test_pointwise

CASES = {
    f"{label}: {name}": case
    for label, part in {
        "pointwise": test_pointwise,
        "together": test_cooperative_scan,
        "items": test_warp_shuffle_reduction,
        "group": test_last_block_reduction,
    }.items()
    for name, case in part.CASES.items()
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", CASES)
def test_compiles(name):
    case = CASES[name]
    source = program_of(case.problem(), case.schedule, CUDA)
    ptx = compiled(source.text, "sm_90a" if case.schedule.results else "sm_80")
    for entry in source.entries:
        assert f".entry {entry.name}(" in ptx


def test_a_scan_reads_and_writes_every_element_once():
    case = test_cooperative_scan.CASES["groups tell each other"]
    whole = program_of(case.problem(), case.schedule, CUDA).text
    ptx = compiled(whole, "sm_90a")
    assert ptx.count("shfl.sync.up") == 2 * (5 + 1)
    assert "ld.volatile.global" in ptx
    assert ptx.count("atom.global.add") == 2


def test_the_last_group_is_found_by_one_atomic_addition():
    case = test_last_block_reduction.CASES["one result"]
    ptx = compiled(program_of(case.problem(), case.schedule, CUDA).text, "sm_90a")
    assert ptx.count("atom.") == ptx.count("atom.add.acq_rel.gpu.u32") == 1
