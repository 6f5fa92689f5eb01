"""Scattering in local memory by work-items together, against the oracle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.gpu.scatter.scatter_candidates import scatter_candidates
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from tests.kernels.kernel_cases import gpu
from tests.kernels.nvrtc_compiler import compiled
from tests.lower import fuzz
from tests.lower.md_hom_cases import MDHomCase, single_case
from tests.targets import H200


def counted(count: int, bins: int, dtype: str = "i4") -> MDHom:
    """How many elements are in each bin."""
    asked = Reduction("e->b", lambda e, *, b: 1 if e == b else 0, dtype=dtype, extents={"b": bins})
    return md_hom_from_reduction(asked, [TensorSpec.of((count,), "i4")])


def largest(rows: int, count: int, bins: int, combine: str = "max") -> MDHom:
    """The largest, or smallest, weight of each row's elements in each bin."""
    low = -(1 << 31) if combine == "max" else (1 << 31) - 1
    asked = Reduction(
        "re,re->rb",
        lambda e, w, *, b: w if e == b else low,
        combine=combine,
        extents={"b": bins},
    )
    return md_hom_from_reduction(asked, [TensorSpec.of((rows, count), "i4")] * 2)


def case(md_hom: MDHom, schedule: Schedule) -> MDHomCase:
    return single_case(md_hom, schedule, ((-3, 12),) * len(md_hom.inputs))


def schedule_of(md_hom: MDHom, **values: object) -> Schedule:
    """A schedule of 64 work-items that share the reduced dim."""
    problem = problem_from_md_hom(md_hom)
    (reduced,) = problem.contracted

    def along(count: int) -> tuple[int, ...]:
        return tuple(count if d == reduced else 1 for d in problem.dims)

    kept = problem.kept
    plain = {
        "threads": along(64),
        "registers": along(8),
        "chunks": along(4),
        "staged": ("",) * len(problem.streams),
        "parts": tuple(
            3 if d == reduced else problem.extent(d) if d != kept[-1] else 1 for d in problem.dims
        ),
        "group_order": (*kept, reduced),
        "scatter": True,
        "resident": True,
    }
    return gpu(len(problem.dims), (reduced,), **(plain | values))


MD_HOMS = {
    "a histogram": counted(5003, 9),
    "whole blocks": counted(3 * 2048, 9),
    "in eight bytes": counted(5003, 9, "i8"),
    "unsigned": counted(5003, 9, "u4"),
    "the largest of rows": largest(3, 1001, 7),
    "the smallest of rows": largest(2, 700, 10, "min"),
}
CASES = {name: case(md_hom, schedule_of(md_hom)) for name, md_hom in MD_HOMS.items()}
CASES["one group"] = case(counted(300, 5), schedule_of(counted(300, 5), parts=(1, 1)))


@pytest.mark.parametrize("name", CASES)
def test_named_cases(name):
    assert fuzz.check(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_compiles(name):
    found = CASES[name]
    text = program_of(found.problem(), found.schedule, CUDA).text
    ptx = compiled(text, "sm_90a")
    assert "atom.shared." in ptx or "red.shared." in ptx


def test_elements_are_read_in_wide_pieces():
    found = CASES["a histogram"]
    text = program_of(found.problem(), found.schedule, CUDA).text
    assert text.count("*(const int4*)(b0") == 2
    assert text.count("atomicAdd(H0 + ") == 2 * 8


def test_candidates_are_right():
    md_hom = counted(20011, 33)
    found = list(scatter_candidates(problem_from_md_hom(md_hom), H200))
    assert len(found) > 8
    for schedule in found[:: len(found) // 6]:
        assert fuzz.check(case(md_hom, schedule))


def test_histograms_are_scattered_by_default():
    _, best = ranked(problem_from_md_hom(counted(1 << 24, 256)), H200)[0]
    assert best.scatter
    assert best.resident


def test_sums_of_floats_depend_on_their_order():
    asked = Reduction("e,e->b", lambda e, w, *, b: w if e == b else 0.0, extents={"b": 9})
    specs = [TensorSpec.of((1 << 20,), "i4"), TensorSpec.of((1 << 20,), "f4")]
    problem = problem_from_md_hom(md_hom_from_reduction(asked, specs))
    assert not list(scatter_candidates(problem, H200))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resident": False, "chunks": ()}, "work-items that share what is scattered are resident"),
        ({"last_group": True}, "has fixed extents, no warps or lead"),
        ({"threads": (1, 64)}, "share out reduced dims where results are scattered"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    found = CASES["a histogram"]
    problem = found.problem()
    if problem.contracted == (1,) and "threads" in changes:
        changes = {"threads": (64, 1)}
    with pytest.raises(LoweringError, match=message):
        validate(problem, replace(found.schedule, **changes))
