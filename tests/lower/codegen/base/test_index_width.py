"""Indices of 32 bits: which programs have them, and that no index of theirs is larger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mdtensor.kernels import program
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.codegen.base import index_width
from mdtensor.lower.codegen.base.index_width import have_narrow_indices
from mdtensor.lower.lowering import lowered
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from tests.lower import fuzz
from tests.lower.gpu.candidates.test_gpu_candidates import H200

CASES = 20


def einsum(text: str, *shapes: tuple[int, ...]) -> Problem:
    specs = tuple(TensorSpec.of(shape, "f4") for shape in shapes)
    return problem_from_md_hom(md_hom_from_einsum(text, specs))


def are_narrow(problem: Problem) -> bool:
    schedule = ranked(problem, H200, most=1)[0][1]
    return have_narrow_indices(problem, schedule, lowered(problem, schedule))


@pytest.mark.parametrize(
    ("text", "shapes", "narrow"),
    [
        ("ik,kj->ij", ((10, 64), (64, 500)), True),
        ("ik,kj->ij", ((8192, 8192), (8192, 8192)), True),
        ("i,i->", ((1 << 27,), (1 << 27,)), True),
        ("i,i->", ((1 << 30,), (1 << 30,)), False),
        ("ik,kj->ij", ((1 << 15, 64), (64, 1 << 15)), False),
        ("ik,kj->ij", ((1 << 25, 32), (32, 32)), False),
    ],
)
def test_indices_are_narrow_where_arrays_are_small(
    text: str, shapes: tuple[tuple[int, ...], ...], narrow: bool
):
    problem = einsum(text, *shapes)
    schedule = ranked(problem, H200, most=1)[0][1]
    assert have_narrow_indices(problem, schedule, lowered(problem, schedule)) is narrow
    kernel = program_of(problem, schedule, CUDA).text.split('extern "C"', maxsplit=1)[1]
    assert ("const int group = blockIdx.x;" in kernel) is narrow
    assert ("const long long group = blockIdx.x;" in kernel) is not narrow
    asked = program_of(problem, replace(schedule, long_indices=True), CUDA).text
    assert "const long long group = blockIdx.x;" in asked


def test_strides_count_and_not_extents():
    dense = TensorSpec.of((64, 64), "f4")
    apart = replace(dense, strides=(4 << 24, 4))
    for specs, narrow in (((dense, dense), True), ((apart, dense), False)):
        assert are_narrow(problem_from_md_hom(md_hom_from_einsum("ik,kj->ij", specs))) is narrow


def test_extents_that_are_names_may_be_anything():
    problem, _ = generalised(einsum("ik,kj->ij", (10, 64), (64, 500)))
    schedule = ranked(problem, H200, general=True)[0][1]
    assert not have_narrow_indices(problem, schedule, lowered(problem, schedule))


def test_no_index_is_larger(monkeypatch: pytest.MonkeyPatch):
    """With a quarter of 16 bits as the bound, all that is declared fits in 16 bits."""
    seen: list[bool] = []

    def noted(*arguments: object) -> bool:
        seen.append(have_narrow_indices(*arguments))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(index_width, "_MOST", 1 << 14)
    monkeypatch.setattr(program, "have_narrow_indices", noted)
    dialect = replace(
        OPENCL,
        narrow_index="short",
        narrow_division="(ushort)({lhs}) {op} (ushort)({rhs})",
        exchange={what: text.replace("L)", ")") for what, text in OPENCL.exchange.items()},
    )
    for number in range(CASES):
        for kind in ("", fuzz.MD_HOM):
            fuzz.check(fuzz.random_case(f"16 bits/gpu/{number}{kind}"), dialect=dialect)
    assert seen.count(True) > CASES
    assert seen.count(False) > CASES // 4
