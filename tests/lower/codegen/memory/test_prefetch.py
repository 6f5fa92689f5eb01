"""What is asked for ahead: one place a line, of what no other loop has read before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mdtensor.lower.codegen.base.frame import Frame, tile_of
from mdtensor.lower.codegen.base.staged_layouts import layouts_of
from mdtensor.lower.codegen.body.micro_kernel import compute_tile
from mdtensor.lower.codegen.memory.prefetch import asked_ahead, innermost
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.ir.statements import Prefetch
from mdtensor.lower.ir.values import Load
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.specs import TensorSpec
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_stencil import md_homs_from_stencil
from mdtensor.translate.stencils.stencil_from_function import stencil_from_function
from tests.kernels.kernel_cases import CASES, cpu
from tests.lower.codegen.frames import frame_of
from tests.problems import einsum_problem


def stencil(function, *shape: int) -> Problem:
    made = stencil_from_function(function, [TensorSpec.of(shape)])
    return problem_from_md_hom(md_homs_from_stencil(made, Border("valid"))[0])


def box(u):
    return sum(u[r, s] for r in range(-2, 3) for s in range(-2, 3))


def star(u):
    return u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] + u[0, 0, -1] + u[0, 0, 1]


def places(problem: Problem, schedule: Schedule) -> list[str]:
    """The places asked for in a whole register tile."""
    validate(problem, schedule)
    tilings = tilings_of(problem, schedule)
    frame = Frame(problem, schedule, tilings, layouts_of(problem, schedule, tilings))
    tile = tile_of(frame, {d: tilings[d].register for d in problem.kept})
    return [repr(s.index) for s in _flat(compute_tile(frame, tile)) if isinstance(s, Prefetch)]


def _flat(statements):
    for statement in statements:
        yield statement
        yield from _flat(getattr(statement, "body", ()))


def test_new_rows_of_a_box():
    problem = stencil(box, 100, 256)
    schedule = cpu(2, (), registers=(4, 32), lane=1, width=16, staged=("",), ahead=2)
    # Four new rows of two lines each, 2 · 32 elements ahead of the last column.
    rows = [256 * row + 64 + column for row in (7, 6, 5, 4) for column in (20, 4)]
    assert places(problem, schedule) == [str(place) for place in rows]


def test_only_the_farthest_row_of_a_star_is_new():
    problem = stencil(star, 20, 30, 64)
    schedule = cpu(3, (), registers=(1, 1, 16), lane=2, width=16, staged=("",), ahead=1)
    assert places(problem, schedule) == [str(2 * 30 * 64 + 64 + 1 + 16)]


def test_rows_whose_distance_is_a_name_are_all_asked_for():
    general, _ = generalised(stencil(box, 100, 256))
    schedule = cpu(2, (), registers=(1, 16), lane=1, width=16, staged=("",), ahead=1)
    rows = ["20", "stride0_0 + 20", *(f"{row}*stride0_0 + 20" for row in (2, 3, 4))]
    assert places(general, schedule) == rows


def test_along_the_reduced_dim():
    problem = einsum_problem("ij,j->i", (64, 512), (512,))
    schedule = cpu(2, (1,), registers=(2, 32), lane=1, width=16, staged=("", ""), ahead=4)
    assert places(problem, schedule) == ["656", "640", "144", "128", "144", "128"]


def test_staged_and_computed_places_are_not():
    staged = frame_of("matmul_staged")
    assert places(staged.problem, replace(staged.schedule, ahead=3)) == []
    gather = CASES["gather_lanes"]
    problem = problem_from_md_hom(gather.stages[0].md_hom)
    found = places(problem, replace(gather.schedules[0], ahead=3))
    assert not any("g" in place for place in found)


def test_nothing_without_loops_or_where_the_innermost_leaves_a_stream_alone():
    problem = einsum_problem("ij,i->ij", (6, 8), (6,))
    schedule = cpu(2, (), registers=(1, 4), lane=1, width=4, staged=("", ""), ahead=1)
    assert innermost(schedule) == 1
    load = Load("b1", problem.inputs[1], as_index(0))
    assert asked_ahead(problem, schedule, {1: [load]}) == []
    assert len(asked_ahead(problem, schedule, {0: [replace(load, buffer="b0")]})) == 1
    assert asked_ahead(problem, replace(schedule, ahead=0), {0: [load]}) == []


@pytest.mark.parametrize("lanes", [8, 4, 1])
def test_narrower_vectors_ask_for_nothing(lanes):
    problem = stencil(box, 20, 64)
    schedule = cpu(2, (), registers=(1, 16), lane=1, width=16, staged=("",), ahead=1)
    tilings = tilings_of(problem, schedule)
    frame = Frame(problem, schedule, tilings, {})
    statements = compute_tile(frame, tile_of(frame, {0: 1, 1: lanes}))
    assert not any(isinstance(statement, Prefetch) for statement in statements)
