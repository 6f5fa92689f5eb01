"""Groups that share a reduction as a cluster: the first one combines what all left with it.

Only GPUs have clusters: `tests.lower.named_cuda` and `tests.lower.fuzz_cuda` compute with them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.ir.group_statements import AwaitCluster, BeginCluster, ClusterArrive
from mdtensor.lower.ir.statements import Allocate
from mdtensor.lower.lowering import lowered
from tests.kernels.nvrtc_compiler import compiled
from tests.lower.codegen.groups import test_last_block_reduction as last

MET = {"last_group": False, "cluster": True}

CASES = {
    "one result": last.dot(**MET),
    "one result of eight groups": last.dot(
        **MET, parts=(8,), threads=(32,), registers=(1,), chunks=()
    ),
    "one work-item": last.dot(**MET, threads=(1,)),
    "blocks of results": last.product(**MET),
    "groups in another order": last.product(**MET, group_order=(2, 1, 0), swath=2),
    "staged": last.product(**MET, tiles=(0, 8, 0), staged=("local", "local"), prefetch=True),
    "in stages": last.product(**MET, tiles=(0, 8, 0), staged=("local", "local"), stages=3),
    "work-items share points": last.product(
        **MET, parts=(3, 3, 2), threads=(2, 4, 8), registers=(4, 2, 4), chunks=(4, 2, 4)
    ),
    "a reduction of one part": last.product(**MET, parts=(2, 1, 2)),
    "finished": last.finished(**MET, parts=(100, 2, 100)),
    "finished by neighbours": last.finished(**MET, threads=(1, 4, 1), parts=(100, 2, 100)),
    "pairs": last.best(**MET, parts=(100, 5), registers=(2, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_compiles(name):
    case = CASES[name]
    (problem,), (schedule,) = case.problems(), case.schedules
    (nest,) = lowered(problem, schedule)
    shared = name != "a reduction of one part"
    assert (nest.cluster > 1) == shared
    assert not shared or nest.scratch.constant == 0
    ptx = compiled(program_of(problem, schedule, CUDA).text, "sm_90a")
    assert ptx.count("barrier.cluster.arrive") == 2 * shared
    assert (f".reqnctapercluster {nest.cluster}" in ptx) == shared


def test_groups_that_share_a_reduction_are_neighbours():
    case = CASES["groups in another order"]
    text = program_of(case.problem(), case.schedule, CUDA).text
    assert "__cluster_dims__(3, 1, 1)" in text
    assert "z_j = (unsigned)(group) % (unsigned)(3);" in text


def test_a_group_waits_for_others_before_it_writes_and_the_first_one_before_it_reads():
    case = CASES["blocks of results"]
    (nest,) = lowered(case.problem(), case.schedule)
    kinds = (BeginCluster, AwaitCluster, ClusterArrive)
    found = [type(s) for s in nest.body if isinstance(s, kinds)]
    assert found == list(kinds)
    (held,) = [s for s in nest.body if isinstance(s, Allocate)]
    assert held.extent == 3 * 16 * 32


def test_only_what_goes_to_memory_bypasses_the_caches():
    case = last.product(**MET, streaming=True)
    text = program_of(case.problem(), case.schedule, CUDA).text
    assert "*(float4*)(o0) = make_float4(a0_0" in text
    assert "__stcs" not in text


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (last.dot(**MET, parts=(9,)), "a cluster has 8 groups at most"),
        (last.product(**MET, parts=(1, 3, 2)), "has one block of the kept dims"),
        (last.dot(cluster=True), "no scan, no bulk copies and no last group"),
        (last.dot(**MET, resident=False, chunks=()), "goes with resident"),
        (
            replace(last.product(**MET, parts=(0, 0, 0), chunks=()), general=True),
            "clusters need fixed extents",
        ),
    ],
)
def test_rules(case, message):
    with pytest.raises(LoweringError, match=message):
        lowered(case.problem(), case.schedule)


def test_opencl_has_none():
    case = CASES["one result"]
    with pytest.raises(LoweringError, match="opencl has no clusters of groups"):
        program_of(case.problem(), case.schedule, OPENCL)


def test_text(golden):
    case = CASES["pairs"]
    (problem,), (schedule,) = case.problems(), case.schedules
    golden("passes/cluster/pairs.cu", program_of(problem, schedule, CUDA).text)
