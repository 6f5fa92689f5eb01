"""Groups that share a reduction: the last one combines what all left in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.ir.group_statements import Arrive
from mdtensor.lower.ir.statements import Allocate
from mdtensor.lower.lowering import lowered
from tests.kernels.kernel_cases import Case, dense_layer, einsum, gpu, largest, matmul
from tests.lower import fuzz
from tests.lower.md_hom_cases import MDHomCase, single_case
from tests.lower.running import device


def product(**values: object) -> Case:
    plain = {"parts": (2, 3, 2), "threads": (4, 1, 8), "registers": (4, 8, 4), "chunks": (4, 8, 4)}
    sizes = matmul(21, 90, 45)
    return Case(sizes, gpu(3, (1,), **(plain | {"resident": True, "last_group": True} | values)))


def dot(**values: object) -> Case:
    plain = {"parts": (7,), "threads": (64,), "registers": (4,), "chunks": (4,)}
    schedule = gpu(1, (0,), **(plain | {"resident": True, "last_group": True} | values))
    return Case(einsum("i,i->", {"i": 9003}), schedule)


def finished(**values: object) -> MDHomCase:
    plain = {"parts": (2, 2, 1), "threads": (1, 4, 8), "staged": ("",) * 4}
    schedule = gpu(3, (1,), **(plain | {"resident": True, "last_group": True} | values))
    return single_case(dense_layer(5, 9, 61), schedule, ((-9, 9),) * 4)


def best(**values: object) -> MDHomCase:
    plain = {"parts": (2, 5), "threads": (2, 16), "registers": (1, 2), "staged": ("",)}
    schedule = gpu(2, (1,), **(plain | {"resident": True, "last_group": True} | values))
    return single_case(largest(5, 301), schedule, ((-9, 9),))


CASES = {
    "one result": dot(),
    "one result of many groups": dot(parts=(100,), threads=(32,), registers=(1,), chunks=()),
    "one work-item": dot(threads=(1,)),
    "blocks of results": product(),
    "several blocks of a group": product(parts=(1, 3, 1)),
    "staged": product(tiles=(0, 8, 0), staged=("local", "local"), prefetch=True),
    "a reduction of one part": product(parts=(2, 1, 2)),
    "finished": finished(),
    "finished by neighbours": finished(threads=(1, 64, 1)),
    "pairs": best(),
    "half floats": Case(
        matmul(24, 61, 36, "f2"),
        gpu(3, (1,), parts=(1, 4, 1), threads=(4, 1, 4), resident=True, last_group=True),
    ),
    "general": replace(product(parts=(0, 0, 0), registers=(2, 8, 4), chunks=()), general=True),
}


@pytest.mark.parametrize("name", CASES)
def test_named_cases(name):
    assert fuzz.check(CASES[name])


def test_results_are_the_same_every_time():
    case = CASES["one result of many groups"]
    program = device().compile(program_of(case.problem(), case.schedule, OPENCL))
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(9003, np.float32) for _ in range(2))
    results = set[float]()
    for _ in range(50):
        out = np.zeros((), np.float32)
        program(x, y, out)
        results.add(float(out))
    assert len(results) == 1


def test_there_is_one_kernel_and_a_counter_for_each_set_of_groups():
    case = CASES["blocks of results"]
    (nest,) = lowered(case.problem(), case.schedule)
    assert nest.counters.constant == 2 * 2
    assert [argument.role for argument in nest.arguments][-2:] == ["scratch", "counters"]
    assert len([s for s in nest.body if isinstance(s, Arrive)]) == 1
    text = program_of(case.problem(), case.schedule, CUDA).text
    assert text.count("__global__") == 1
    assert text.count("count_one(counters + ") == 1


def test_local_memory_is_used_for_both():
    case = CASES["pairs"]
    (nest,) = lowered(case.problem(), case.schedule)
    names = [s.name for s in nest.body if isinstance(s, Allocate)]
    assert len(names) == len(set(names)) == 4


def test_text(golden):
    case = CASES["pairs"]
    for suffix, dialect in (("cl", OPENCL), ("cu", CUDA)):
        text = program_of(case.problem(), case.schedule, dialect).text
        golden(f"passes/last_group/pairs.{suffix}", text)


def test_it_goes_with_resident_accumulators():
    case = dot(resident=False, chunks=())
    with pytest.raises(LoweringError, match=r"schedule\.last_group goes with resident"):
        lowered(case.problem(), case.schedule)
