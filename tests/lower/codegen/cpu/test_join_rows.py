"""Rows of a register tile that begin differently: streamed from anywhere, nothing else touched."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.program import program_of
from mdtensor.lower.codegen.cpu.join_rows import begun_rows, ended_rows, joined_rows, kept_rows
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.ir.register_types import F32
from mdtensor.lower.ir.statements import Let, Pointer, VectorStore, indented
from mdtensor.lower.ir.values import Literal, Ref, Shuffle
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_stencil import md_homs_from_stencil
from mdtensor.translate.stencils.stencil_from_function import stencil_from_function
from tests.kernels.kernel_cases import CASES, cpu, source
from tests.lower.running import compute_from_byte

ROWS = (1, 2, 3, 4, 6, 8)


def blur(u):
    """A window of 3×3 with other weights everywhere, so that no place can be taken for another."""
    return sum((1 + 3 * r + s) * u[r - 1, s - 1] for r in range(3) for s in range(3))


def star(u):
    around = u[-1, 0, 0] + 2 * u[1, 0, 0] + 3 * u[0, -1, 0] + 4 * u[0, 1, 0]
    return 6 * u[0, 0, 0] - around - 5 * u[0, 0, -1] - 7 * u[0, 0, 1]


def inside(function, shape, dtype):
    """The inside of a stencil: results are shorter than arrays by two along every axis."""
    specs = [TensorSpec.of(shape, dtype)]
    return md_homs_from_stencil(stencil_from_function(function, specs), Border("valid"))[0]


def check(md_hom, schedule: Schedule, byte: int) -> None:
    """Runs a schedule on results that begin so many bytes behind a cache line."""
    (spec,) = (buffer.spec for buffer in md_hom.inputs)
    x = np.random.default_rng(byte).integers(-9, 9, spec.shape).astype(spec.dtype)
    program = program_of(problem_from_md_hom(md_hom), schedule, OPENCL)
    compute_from_byte(md_hom, program, (x,), byte)


def joined(rows: int, vectors: int, width: int, **values: object) -> Schedule:
    plain = {"staged": ("",), "lane": 1, "width": width, "streaming": True, "peel": True}
    return cpu(2, (), registers=(rows, vectors * width), **(plain | values))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("columns", [3, 15, 16, 17, 31, 33, 64, 81, 1021, 4092])
@pytest.mark.parametrize(("rows", "vectors"), [(2, 1), (4, 2), (3, 3)])
def test_rows_of_any_length(columns, rows, vectors):
    md_hom = inside(blur, (13, columns + 2), "f4")
    for byte in (0, 4, 28, 60):
        check(md_hom, joined(rows, vectors, 16), byte)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("dtype", "width"), [("f8", 8), ("f8", 4), ("i2", 32), ("i2", 16)])
@pytest.mark.parametrize("columns", [17, 67, 1021])
def test_other_types_and_widths(dtype, width, columns):
    md_hom = inside(blur, (11, columns + 2), dtype)
    size = np.dtype(dtype).itemsize
    for byte in (0, size, 64 - 3 * size):
        check(md_hom, joined(4, 2, width, ahead=4), byte)


@pytest.mark.parametrize("parts", [(1, 1), (3, 1), (2, 2)])
@pytest.mark.parametrize("tiles", [(0, 0), (4, 48), (8, 0)])
def test_parts_and_cache_tiles(parts, tiles):
    check(inside(blur, (27, 135), "f4"), joined(4, 1, 16, parts=parts, tiles=tiles), 12)


@pytest.mark.parametrize("order", list(itertools.permutations((0, 1))))
@pytest.mark.parametrize("registers", [(1, 4, 16), (4, 1, 32), (2, 2, 16), (3, 2, 48)])
def test_rows_along_several_dims(registers, order):
    schedule = cpu(
        3,
        (),
        registers=registers,
        lane=2,
        width=16,
        staged=("",),
        streaming=True,
        peel=True,
        loop_order=(*order, 2),
        parts=(2, 3, 1),
    )
    check(inside(star, (9, 12, 97), "f4"), schedule, 20)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", ["joined_stencil", "joined_product"])
@pytest.mark.parametrize("byte", range(0, 64, 4))
def test_wherever_the_results_lie(name, byte):
    md_hom = CASES[name].stages[0].md_hom
    rng = np.random.default_rng(byte)
    inputs = [rng.integers(-4, 4, i.spec.shape).astype("f4") for i in md_hom.inputs]
    compute_from_byte(md_hom, source(name, OPENCL), inputs, byte)


def test_whole_lines_bypass_the_caches():
    """One store for each vector of each row, in tiles of three rows and in what is left of seven.

    A tile has a loop over two vectors and one over single ones; its first row begins with a line.
    """
    text = source("joined_stencil", OPENCL).text
    assert text.count("nontemporal_store") == (1 + 3 * 2 + 3) + (2 + 1)
    assert "aligned_" not in text


def row(index: int, name: str) -> VectorStore:
    return VectorStore("o0", F32, as_index(index), Ref(name, F32, 4), 1, True, True)


def test_a_row_that_begins_elsewhere_is_joined_with_what_it_keeps():
    """Two rows of two vectors, the second one 7 elements behind: three of them before a line."""
    tile = [row(0, "a"), row(4, "b"), row(7, "c"), row(11, "d")]
    kept = Ref("last1", F32, 4)
    assert kept_rows(tile[::2]) == [kept]
    *same, second, third, keeps = joined_rows(tile, 2)
    assert same == tile[:2]
    picks = (1, 2, 3, 4)
    assert (second.index, second.value) == (as_index(4), Shuffle(kept, Ref("c", F32, 4), picks))
    expected = Shuffle(Ref("c", F32, 4), Ref("d", F32, 4), picks)
    assert (third.index, third.value) == (as_index(8), expected)
    assert (keeps.ref, keeps.value) == (kept, Ref("d", F32, 4))


def test_ends_of_rows_are_cut_out_of_their_first_and_last_vectors():
    """Seven elements on, a line begins behind one more; three are left of the last vector."""
    pointer = Pointer("o0", "O0", F32, "global", as_index(0), False)
    first = [pointer, row(0, "a"), row(7, "c")]
    lines = indented(begun_rows(first))
    assert len(lines) == 4
    assert "streaming=False" in lines[2]
    assert begun_rows(first)[2].value.lanes == 1
    (ended,) = ended_rows(first)
    declared, *cut = ended.body
    assert declared == pointer
    assert [(store.index.constant, store.value.lanes) for store in cut] == [(4, 1), (5, 2)]


def test_rows_that_begin_alike_keep_nothing():
    tile = [Let(Ref("a", F32, 4), Literal(0.0, F32, 4)), row(0, "a"), row(8, "a")]
    assert kept_rows(tile) == []
    assert joined_rows(tile, 1) == tile
