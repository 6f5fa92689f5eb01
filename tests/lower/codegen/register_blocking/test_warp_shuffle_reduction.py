"""Work-items that share points: what warps exchange, what goes through local memory."""

from __future__ import annotations

import numpy as np
import pytest

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.codegen.register_blocking.warp_shuffle_reduction import Sharing
from mdtensor.lower.ir.group_statements import WarpShuffle
from mdtensor.lower.ir.statements import indented
from mdtensor.lower.ir.values import Ref
from mdtensor.translate.combine import named
from tests.kernels.kernel_cases import Case, einsum, gpu, largest
from tests.lower import fuzz
from tests.lower.md_hom_cases import MDHomCase, single_case

F4 = np.dtype("f4")


def dot(items: int, **values: object) -> Case:
    plain = {"threads": (items,), "registers": (4,), "chunks": (4,), "resident": True}
    return Case(einsum("i,i->", {"i": 1003}), gpu(1, (0,), **(plain | values)))


def rows(**values: object) -> Case:
    plain = {"threads": (2, 32), "registers": (2, 4), "resident": True}
    return Case(einsum("ij,j->i", {"i": 13, "j": 203}), gpu(2, (1,), **(plain | values)))


def best(items: int, rows: int = 2) -> MDHomCase:
    schedule = gpu(2, (1,), threads=(1, items), registers=(rows, 2), staged=("",), resident=True)
    return single_case(largest(5, 301), schedule, ((-9, 9),))


CASES = {
    "a warp": dot(32),
    "several warps": dot(128),
    "less than a warp": dot(8),
    "three times a warp": dot(96),
    "in groups": dot(64, parts=(3,)),
    "rows by warps": rows(),
    "rows by half warps": rows(threads=(4, 16)),
    "rows by two warps each": rows(threads=(2, 64), parts=(3, 2)),
    "rows that are neighbours": rows(group_order=(1, 0)),
    "each combines some of its neighbours' rows": rows(registers=(5, 4), threads=(2, 3)),
    "each combines some of the rows": rows(
        registers=(4, 4), threads=(2, 8), group_order=(1, 0), parts=(2, 3)
    ),
    "each combines several of the rows": rows(
        registers=(8, 2), threads=(1, 3), group_order=(1, 0), parts=(2, 1)
    ),
    "pairs of several rows": best(3, rows=5),
    "pairs": best(64),
    "pairs, less than a warp": best(16),
}


@pytest.mark.parametrize("name", CASES)
def test_named_cases(name):
    assert fuzz.check(CASES[name])


def text_of(name: str) -> str:
    case = CASES[name]
    return program_of(case.problem(), case.schedule, CUDA).text


def test_a_warp_meets_no_barrier():
    text = text_of("a warp")
    assert "__syncthreads" not in text
    assert text.count("__shfl_down_sync") == 5


def test_warps_meet_twice():
    text = text_of("several warps")
    assert text.count("__syncthreads") == 2
    assert text.count("__shfl_down_sync") == 5 + 2


def test_no_tree_where_each_combines_some():
    text = text_of("each combines some of the rows")
    assert "long long turn" not in text
    # Before all points are stored, after that, and when they are combined.
    assert text.count("__syncthreads") == 3


def test_all_points_are_exchanged_together():
    accumulators = tuple((Ref(f"a{n}", F4),) for n in range(3))
    sharing = Sharing(named("add", ["f4"]), 64, 128, True, accumulators)
    exchanges = [s for s in sharing.statements() if isinstance(s, WarpShuffle)]
    assert [e.lane for e in exchanges] == [1, 2, 4, 8, 16, 1]
    assert all(len(e.refs) == 3 for e in exchanges)
    assert [(a.name, a.extent) for a in sharing.memory()] == [("L0", 12), ("X0", 384)]


@pytest.mark.parametrize("neighbours", [True, False])
def test_statements(golden, neighbours):
    sharing = Sharing(named("add", ["f4"]), 64, 128, neighbours, ((Ref("a", F4),),))
    lines = indented([*sharing.memory(), *sharing.statements()])
    name = "neighbours" if neighbours else "apart"
    golden(f"passes/across_items/{name}.txt", "\n".join(lines) + "\n")
