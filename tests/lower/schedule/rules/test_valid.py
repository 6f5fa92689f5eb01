"""Every rule by which a schedule is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mdtensor.errors import LoweringError
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Computed, problem_from_md_hom
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.scalar import cast, const, index_of, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec
from tests.kernels.kernel_cases import CASES, cpu, gpu, matmul

MATMUL = problem_from_md_hom(matmul(5, 9, 32).md_hom())
PLAIN = cpu(3, (1,), lane=2, width=4, registers=(2, 1, 8))
GPU = gpu(3, (1,), threads=(4, 1, 4))


def test_what_the_rules_are_tried_on_is_valid():
    validate(MATMUL, PLAIN)
    validate(MATMUL, GPU)


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"asm": "abacus"}, r"no abstract system model 'abacus'; there are \['cpu', 'gpu'\]"),
        ({"parts": (1, 1)}, "schedule.parts needs one entry for each of 3 dims"),
        ({"registers": (1,)}, "schedule.registers needs one entry for each of 3 dims"),
        ({"group_order": (0, 1, 1)}, "schedule.group_order is no permutation of the dims"),
        ({"loop_order": (0, 1)}, "schedule.loop_order is no permutation of the kept dims"),
        ({"reduce_order": (2,)}, "schedule.reduce_order is no permutation of the reduced dims"),
        ({"staged": ("",)}, "schedule.staged needs one entry per stream"),
        ({"tail": "cut"}, "schedule.tail is none of"),
        ({"registers": (0, 1, 8)}, "registers, threads and width are at least 1"),
        ({"tiles": (0, -1, 0)}, "parts and tiles are at least 0"),
        ({"swath": -1}, "schedule.swath is at least 0"),
        ({"parts": (-2, 1, 1)}, "parts and tiles are at least 0"),
        ({"lane": 3}, "schedule.lane is 3, which is no dim"),
        ({"lane": -2}, "schedule.lane is -2, which is no dim"),
        ({"lane": -1}, "a width without a lane dim"),
        ({"width": 3}, "no vectors of 3 lanes"),
        ({"registers": (2, 1, 6)}, "the lane dim's register tile is no multiple of the width"),
        ({"staged": ("local", "")}, "cpu has no memory region 'local' to stage in"),
        ({"threads": (2, 1, 1)}, "groups of cpu have one work-item"),
        (
            {"streaming": True, "lane": 1, "registers": (1, 4, 1)},
            "need lanes along a dim of the result",
        ),
        ({"streaming": True, "lane": 0, "registers": (4, 1, 1)}, "next to each other along"),
        ({"ahead": 65}, "schedule.ahead is between 0 and 64"),
        (
            {"peel": True, "lane": 1, "registers": (1, 4, 1)},
            "rows are peeled along lanes of a kept dim, and not in scans",
        ),
        ({"peel": True, "loop_order": (2, 0)}, "rows are peeled by the innermost loop"),
        ({"peel": True, "tail": "pad"}, "rows are peeled by the innermost loop, and their tails"),
        (
            {"peel": True, "lane": 0, "registers": (4, 1, 1), "loop_order": (2, 0)},
            "one result is written to neighbouring places",
        ),
        (
            {"transposed": True, "lane": 1, "registers": (1, 4, 1)},
            "tiles are transposed along lanes of a kept dim, and not in scans",
        ),
        ({"transposed": True}, "tiles are transposed whose rows are neighbours, but no lanes are"),
        ({"transposed": True, "lane": 0, "registers": (4, 1, 1)}, "whose rows are neighbours"),
        (
            {"transposed": True, "lane": 0, "registers": (4, 1, 2), "tail": "overlap"}
            | {"streaming": True},
            "streaming stores cannot overlap",
        ),
        ({"peel": True, "parts": (1, 3, 1)}, "rows of partial results are not peeled"),
        ({"peel": True, "staged": ("", "scratch")}, "staged along the lanes have no peeled rows"),
    ],
)
def test_refused(changes, message):
    with pytest.raises(LoweringError, match=message):
        validate(MATMUL, replace(PLAIN, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lane": 2, "width": 4, "registers": (1, 1, 4)}, "gpu has no lanes"),
        ({"threads": (4, 2, 1)}, "work-items share out either kept dims or reduced dims"),
        ({"staged": ("private", "")}, "gpu has no memory region 'private' to stage in"),
        ({"streaming": True}, "streaming stores need lanes along a dim of the result"),
        ({"ahead": 1}, "gpu has no schedule.ahead"),
    ],
)
def test_refused_on_gpus(changes, message):
    with pytest.raises(LoweringError, match=message):
        validate(MATMUL, replace(GPU, **changes))


def test_streaming_needs_rows_that_start_at_multiples_of_the_width():
    streaming = replace(PLAIN, streaming=True)
    validate(MATMUL, streaming)
    ragged = problem_from_md_hom(matmul(5, 9, 30).md_hom())
    with pytest.raises(LoweringError, match="strides and offsets of results in multiples of 4"):
        validate(ragged, streaming)
    general, _ = generalised(MATMUL)
    with pytest.raises(LoweringError, match="strides and offsets of results in multiples of 4"):
        validate(general, streaming)
    validate(problem_from_md_hom(matmul(5, 9, 28).md_hom()), streaming)


def test_peeled_rows_are_streamed_from_anywhere():
    ragged = problem_from_md_hom(matmul(5, 9, 30).md_hom())
    general, _ = generalised(MATMUL)
    single = replace(PLAIN, streaming=True, peel=True, registers=(1, 1, 8))
    for problem in (MATMUL, ragged, general):
        validate(problem, single)
    validate(MATMUL, replace(single, registers=(2, 1, 8)))
    unlike = replace(single, registers=(2, 1, 8))
    validate(ragged, unlike)
    for problem, schedule in ((general, unlike), (ragged, replace(unlike, streaming=False))):
        with pytest.raises(LoweringError, match="rows of a register tile lie a multiple of 4"):
            validate(problem, schedule)


def test_transposed_rows_may_be_streamed_where_lanes_lie_a_multiple_apart():
    schedule = replace(PLAIN, transposed=True, streaming=True, lane=0, registers=(4, 1, 4))
    validate(MATMUL, schedule)
    ragged = problem_from_md_hom(matmul(5, 9, 30).md_hom())
    general, _ = generalised(MATMUL)
    for problem in (ragged, general):
        validate(problem, replace(schedule, streaming=False))
        with pytest.raises(LoweringError, match="next to each other along the lanes"):
            validate(problem, schedule)


@pytest.mark.parametrize("varies", [False, True])
def test_what_is_the_same_in_all_lanes_is_not_transposed(varies):
    rows, lanes = (Dim(name, 16, CC) for name in "ij")
    index = tuple(map(AffineIndex.of, "ij"))
    x, y = (BufferSpec(name, TensorSpec.of((16,) * n, "i1")) for name, n in (("x", 1), ("y", 2)))
    value = param(0, "i1")
    if varies:
        value = value + cast(index_of("j"), "i1")
    function = ScalarFunction((np.dtype("i1"),), (value,), "f")
    reads, writes = BufferAccess(0, index[:1]), BufferAccess(0, index[::-1])
    problem = problem_from_md_hom(MDHom((rows, lanes), function, (x,), (y,), (reads,), (writes,)))
    schedule = cpu(2, (), lane=1, width=4, registers=(4, 4), staged=("",), transposed=True)
    if varies:
        validate(problem, schedule)
        return
    with pytest.raises(LoweringError, match="tiles are transposed whose rows are neighbours"):
        validate(problem, schedule)


class TestAccumulation:
    """Tiles of reduced dims accumulate in the output; groups in memory of the results' type."""

    half = problem_from_md_hom(matmul(5, 40, 32, "f2").md_hom())

    def test_in_an_output_of_another_type_is_refused(self):
        with pytest.raises(LoweringError, match=r"outputs, which need the types of \['float32'\]"):
            validate(self.half, replace(PLAIN, tiles=(0, 8, 0)))

    def test_by_groups_is_fine(self):
        validate(self.half, replace(PLAIN, tiles=(0, 8, 0), parts=(1, 2, 1)))

    def test_by_parts_that_make_one_group_is_refused(self):
        schedule = replace(PLAIN, tiles=(0, 8, 0), parts=(1, 2, 1), registers=(2, 40, 8))
        with pytest.raises(LoweringError, match=r"outputs, which need the types of \['float32'\]"):
            validate(self.half, schedule)


def test_a_stream_read_at_several_offsets_is_staged_by_processors_alone():
    problem = CASES["matmul_complex"].problem()
    validate(problem, replace(PLAIN, staged=("", "scratch")))
    with pytest.raises(
        LoweringError, match="only streams that are read once a point can be staged"
    ):
        validate(problem, replace(GPU, staged=("", "local")))


def test_a_stream_read_at_computed_places_is_not_staged():
    problem = CASES["matmul_complex"].problem()
    place = Computed(const(0, np.dtype("i8")), as_index(1), as_index(1))
    computed = replace(problem.reads[-1], computed=(place,))
    with pytest.raises(LoweringError, match="streams whose places are not computed can be staged"):
        validate(
            replace(problem, reads=(*problem.reads[:-1], computed)),
            replace(PLAIN, staged=("", "scratch")),
        )
