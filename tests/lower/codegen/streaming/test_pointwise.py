"""Kernels without a reduction whose points share what they read, against the oracle."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_stencil import md_homs_from_stencil
from mdtensor.translate.stencils.stencil_from_function import stencil_from_function
from tests.kernels.kernel_cases import Case, einsum, gpu
from tests.lower import fuzz
from tests.lower.md_hom_cases import MDHomCase, single_case
from tests.lower.random_resident import random_pointwise_schedule


def star(u):
    around = u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] + u[0, 0, -1] + u[0, 0, 1]
    return 6 * u[0, 0, 0] - around


def inside(shape: tuple[int, ...], border: str, schedule: Schedule) -> MDHomCase:
    """The inside of a 7-point stencil; with a border, in a result as large as the array."""
    stencil = stencil_from_function(star, [TensorSpec.of(shape)])
    return single_case(md_homs_from_stencil(stencil, Border(border))[0], schedule, ((-9, 9),))


def tiles(**values: object) -> Schedule:
    plain = {
        "threads": (1, 2, 4),
        "registers": (2, 2, 8),
        "chunks": (2, 2, 4),
        "staged": ("",),
        "resident": True,
    }
    return gpu(3, (), **(plain | values))


def ahead(**values: object) -> Schedule:
    return tiles(march=True, staged=("local",), **values)


def flat(**values: object) -> Schedule:
    plain = {"threads": (4, 8), "registers": (2, 4), "staged": ("", ""), "resident": True}
    return gpu(2, (), **(plain | values))


def line(**values: object) -> Schedule:
    plain = {"threads": (8,), "registers": (8,), "chunks": (4,), "parts": (3,), "resident": True}
    return gpu(1, (), **(plain | values))


CASES = {
    "whole blocks": inside((6, 10, 34), "valid", tiles(parts=(2, 2, 1))),
    "what remains of every dim": inside((7, 9, 43), "valid", tiles(parts=(3, 2, 2))),
    "blocks begin where wide accesses do": inside(
        (6, 10, 64), "constant", tiles(parts=(2, 2, 2), lead=(0, 0, 1))
    ),
    "several blocks of a group begin before their dims": inside(
        (9, 11, 72), "constant", tiles(lead=(1, 0, 3))
    ),
    "neighbours by different work-items": inside(
        (7, 9, 43), "valid", tiles(chunks=(1, 1, 1), parts=(1, 2, 1))
    ),
    "groups march by single planes": inside(
        (9, 10, 34),
        "valid",
        tiles(registers=(1, 2, 4), chunks=(1, 2, 4), parts=(1, 2, 2), march=True),
    ),
    "groups march by two planes and begin before another dim": inside(
        (10, 9, 72),
        "constant",
        tiles(threads=(1, 4, 8), chunks=(1, 1, 4), parts=(2, 2, 3), lead=(0, 0, 1), march=True),
    ),
    "groups march by three planes, and one is left": inside(
        (9, 6, 50),
        "valid",
        tiles(registers=(3, 1, 4), parts=(1, 2, 3), chunks=(1, 1, 4), march=True),
    ),
    "groups march along rows of columns": inside(
        (5, 10, 39), "valid", tiles(threads=(2, 1, 4), group_order=(2, 0, 1), march=True)
    ),
    "planes are on their way to local memory": inside(
        (9, 10, 34),
        "valid",
        ahead(
            registers=(1, 2, 2),
            chunks=(1, 2, 1),
            threads=(1, 2, 16),
            parts=(2, 2, 1),
            stages=3,
        ),
    ),
    "planes of whole rows in wide pieces": inside(
        (8, 10, 16),
        "valid",
        ahead(
            registers=(1, 3, 2),
            chunks=(1, 3, 2),
            threads=(1, 1, 8),
            parts=(1, 3, 1),
            stages=2,
        ),
    ),
    "planes of rows that are cut": inside(
        (7, 9, 43),
        "valid",
        ahead(
            registers=(1, 1, 4),
            chunks=(1, 1, 4),
            threads=(1, 4, 4),
            parts=(1, 2, 3),
            stages=4,
        ),
    ),
    "results of planes leave in runs": inside(
        (9, 14, 18),
        "valid",
        ahead(
            registers=(1, 2, 2),
            chunks=(1, 2, 1),
            threads=(1, 1, 8),
            parts=(2, 6, 1),
            stages=3,
            results="local",
            tail="overlap",
        ),
    ),
    "planes of a group that marches again": inside(
        (7, 13, 40),
        "constant",
        ahead(
            registers=(1, 2, 4),
            chunks=(1, 2, 4),
            threads=(1, 2, 4),
            parts=(2, 1, 1),
            group_order=(1, 2, 0),
            stages=2,
        ),
    ),
    "a transposition by local memory": Case(
        einsum("ij->ji", {"i": 37, "j": 29}),
        flat(parts=(3, 2), staged=("local",), padding=(1,), loop_order=(1, 0)),
    ),
    "an outer product": Case(einsum("i,j->ij", {"i": 21, "j": 44}), flat(parts=(3, 2))),
    "doubles": Case(einsum("i,i->i", {"i": 515}, "f8"), line(chunks=(2,))),
    "half floats": Case(einsum("i,i->i", {"i": 515}, "f2"), line()),
    "bytes": Case(einsum("i,i->i", {"i": 515}, "i1"), line(parts=(100,))),
    "complex numbers": Case(einsum("i,i->i", {"i": 131}, "c8"), line()),
    "general": Case(einsum("i,j->ij", {"i": 21, "j": 44}), flat(parts=(0, 0)), general=True),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_named_cases(name):
    assert fuzz.check(CASES[name])


@pytest.mark.parametrize("kind", ["", fuzz.MD_HOM])
def test_random_schedules(kind):
    checked = 0
    for number, name in enumerate(fuzz.names_of(12, ("gpu",), 60, kind=kind)):
        case = fuzz.random_case(name)
        problems = case.problems()
        if len(problems) > 1 or problems[0].contracted:
            continue
        schedule = random_pointwise_schedule(random.Random(number), problems[0])
        if isinstance(case, MDHomCase):
            checked += fuzz.check(replace(case, schedules=(schedule,)))
        else:
            checked += fuzz.check(replace(case, schedule=schedule))
    assert checked > 5


def text_of(name: str) -> str:
    case = CASES[name]
    text = program_of(case.problem(), case.schedule, CUDA).text
    return text[text.index("void kernel_0") :]


def test_points_share_what_they_read_in_wide_accesses():
    text = text_of("blocks begin where wide accesses do")
    whole, _ = text.split("} else {", 1)
    # 2 × 2 × 2 chunks of 4 points, whose neighbours along the first two dims are 2 more each
    assert whole.count("*(const float4*)(b0 + ") == 2 * (2 * 2 + 2 * 2 + 2 * 2)
    assert whole.count("= b0[") == 2 * 2 * 2 * 2
    assert whole.count("*(float4*)(o0") == 2 * 2 * 2


def test_a_group_that_marches_loads_each_element_of_a_column_once():
    text = text_of("groups march by two planes and begin before another dim")
    before, whole = text.split("for (", 1)
    whole, _ = whole.split("} else {", 1)
    # 2 × 2 chunks of 4 points in 2 planes: 2 of the 4 planes that they need are new to a block
    assert before.count("*(const float4*)(m0 + ") == 2 * (2 * 2)
    assert whole.count("*(const float4*)(b0 + ") == (2 + 2 * 2) * (2 * 2)
    assert whole.count("= h_x") == before.count("float h_x")


def test_results_that_begin_anywhere_are_written_one_by_one():
    assert "float4*)(o0" not in text_of("what remains of every dim")


def test_buffers_that_begin_anywhere_have_a_program_of_their_own():
    case = CASES["blocks begin where wide accesses do"]
    source = program_of(case.problem(), case.schedule, CUDA)
    assert source.unaligned is not None
    assert "float4" not in source.unaligned.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lead": (0, 1)}, "schedule.lead needs 3 entries or none"),
        ({"lead": (0, 0, -1)}, "schedule.lead is at least 0"),
        (
            {"march": True, "registers": (2, 2, 4), "parts": (9, 9, 1)},
            "by blocks of one work-item",
        ),
        ({"march": True, "lead": (1, 0, 0), "parts": (1, 9, 9)}, "where its dim begins"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    problem = CASES["whole blocks"].problem()
    with pytest.raises(LoweringError, match=message):
        validate(problem, tiles(**changes))


def test_what_is_staged_begins_with_its_dim():
    case = CASES["a transposition by local memory"]
    with pytest.raises(LoweringError, match="lead needs fixed extents, no reduction, and stages"):
        validate(case.problem(), replace(case.schedule, lead=(0, 1)))
    with pytest.raises(LoweringError, match="by blocks of one work-item"):
        validate(case.problem(), replace(case.schedule, march=True))
