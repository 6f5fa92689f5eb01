"""Sums of products of bfloat16 by twos: which problems become such, and what they compute."""

from __future__ import annotations

import itertools

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

from mdtensor.kernels.llvm.language import LLVM_IR_AVX512
from mdtensor.kernels.program import program_of
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.problem.pair_products import with_pairs
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.scalar import Expr
from tests.targets import CPU

BF16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(3)


def einsum(text: str, *arrays: np.ndarray) -> MDHom:
    steps = [tuple(step // 2 for step in array.strides) for array in arrays]
    pairs = zip(arrays, steps, strict=True)
    return md_hom_from_einsum(text, [TensorSpec(BF16, a.shape, strides) for a, strides in pairs])


def drawn(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(BF16)


def halves(word: np.ndarray) -> np.ndarray:
    return np.array([word]).view(BF16).astype(float)


def value(expr: Expr, params: list[np.generic]) -> np.generic:
    """A number or a word, as the two operations of pairs say it."""
    if expr.op == "param":
        return params[expr.number]
    args = [value(each, params) for each in expr.args]
    if expr.op == "pack":
        return np.array(args, np.uint16).view(np.uint32)[0]
    assert expr.op == "dot2"
    return np.float64((halves(args[0]) * halves(args[1])).sum())


def computed(problem: Problem, arrays: list[np.ndarray], results: int) -> np.ndarray:
    """The sums of a problem's products, point by point."""
    found = np.zeros(results)
    [write] = problem.writes
    buffers = [a.base if a.base is not None else a for a in arrays]
    pairs = zip(buffers, problem.inputs, strict=True)
    flat = [buffer.reshape(-1).view("u2").view(dtype) for buffer, dtype in pairs]
    for point in itertools.product(*[range(problem.extent(d)) for d in problem.dims]):
        params = []
        for read in problem.reads:
            stream = problem.streams[read.stream]
            steps = [s.constant * n for s, n in zip(stream.strides, point, strict=True)]
            params.append(flat[stream.buffer][sum(steps) + as_index(read.offset).constant])
        place = sum(s.constant * n for s, n in zip(write.strides, point, strict=True))
        found[place] += value(problem.scalar.results[0], params)
    return found


A, B, SQUARE = drawn(3, 8), drawn(8, 5), drawn(6, 6)
PAIRED = {
    "rows by columns": ("ij,jk->ik", (A, B), "dot2(p0, pack(p1, p2))"),
    "rows by rows": ("ij,kj->ik", (A, A.copy()), "dot2(p0, p1)"),
    "columns": ("ji,jk->ik", (B, B.copy()), "dot2(pack(p0, p1), pack(p2, p3))"),
    "rows of one array": ("ij,kj->ik", (SQUARE, SQUARE), "dot2(p0, p1)"),
    "two dims": ("ijk,jk->i", (drawn(2, 3, 4), drawn(4, 3).T), "dot2(p0, pack(p1, p2))"),
}


@pytest.mark.parametrize("name", PAIRED)
def test_two_steps_become_one(name: str) -> None:
    text, arrays, function = PAIRED[name]
    problem = problem_from_md_hom(einsum(text, *arrays))
    paired = with_pairs(problem)
    assert repr(paired.scalar.results[0]) == function
    points = [np.prod([p.extent(d) for d in p.dims]) for p in (problem, paired)]
    assert points[0] == 2 * points[1]
    due = np.einsum(text, *(array.astype(float) for array in arrays)).reshape(-1)
    np.testing.assert_allclose(computed(paired, list(arrays), due.size), due, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "arrays"),
    [
        ("ij,jk->ik", (drawn(3, 7), drawn(7, 5))),  # an odd number of steps
        ("ij->i", (A,)),
        ("ij,ij->ij", (A, A.copy())),
    ],
)
def test_others_stay(text: str, arrays: tuple[np.ndarray, ...]) -> None:
    problem = problem_from_md_hom(einsum(text, *arrays))
    assert with_pairs(problem) is problem


def test_floats_stay() -> None:
    for dtype in ("f2", "f4", "f8"):
        specs = TensorSpec.of((4, 8), dtype), TensorSpec.of((8, 4), dtype)
        problem = problem_from_md_hom(md_hom_from_einsum("ij,jk->ik", specs))
        assert with_pairs(problem) is problem


@pytest.mark.parametrize("name", ["rows by columns", "rows by rows", "columns"])
def test_vectors_have_an_instruction_for_it(name: str) -> None:
    text, *_ = PAIRED[name]
    arrays = [drawn(32, 32), drawn(32, 32)]
    problem = with_pairs(problem_from_md_hom(einsum(text, *arrays)))
    (_, schedule), *_ = ranked(problem, CPU)
    source = program_of(problem, schedule, LLVM_IR_AVX512)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu="cooperlake", opt=2)
    assert "vdpbf16ps" in machine.emit_assembly(llvm.parse_assembly(source.text))
