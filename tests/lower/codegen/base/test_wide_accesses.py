"""Neighbours are stored together only where each is stored once."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.codegen.base.wide_accesses import wide_stores
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.ir.register_types import F32
from mdtensor.lower.ir.statements import Let, Statement, VectorStore
from mdtensor.lower.ir.values import Literal, Pack, Ref
from tests.kernels.kernel_cases import dense_layer, gpu
from tests.kernels.nvrtc_compiler import compiled
from tests.lower import fuzz
from tests.lower.md_hom_cases import single_case


def stored(places: Sequence[int]) -> list[Statement]:
    """Values, each declared right before it is stored at its place."""
    statements: list[Statement] = []
    for n, place in enumerate(places):
        ref = Ref(f"v{n}", F32)
        statements += [Let(ref, Literal(n, F32)), VectorStore("o", F32, as_index(place), ref)]
    return statements


def test_neighbours_are_stored_where_the_last_of_them_was():
    before = stored((1, 0, 3, 2))
    *values, last = wide_stores(before, {"o": 4})
    assert values == before[::2]
    packed = Pack(tuple(Ref(f"v{n}", F32) for n in (1, 0, 3, 2)))
    assert last == VectorStore("o", F32, as_index(0), packed)


def test_places_that_are_stored_to_twice_are_no_neighbours():
    before = stored((0, 1, 2, 2, 3))
    assert wide_stores(before, {"o": 4}) == before
    first, second, pair, *rest = wide_stores(before, {"o": 2})
    assert [first, second, *rest] == [before[0], before[2], *before[4:]]
    packed = Pack((Ref("v0", F32), Ref("v1", F32)))
    assert pair == VectorStore("o", F32, as_index(0), packed)


def test_rows_that_are_shorter_than_a_tile_compile():
    rows = {"threads": (2, 1, 2), "registers": (4, 8, 4), "chunks": (4, 8, 2), "resident": True}
    schedule = gpu(3, (1,), tiles=(0, 8, 0), staged=("",) * 4, **rows)
    case = single_case(dense_layer(9, 4, 8), schedule, ((-9, 9),) * 4)
    (problem,) = case.problems()
    assert ".entry kernel_0(" in compiled(program_of(problem, schedule, CUDA).text, "sm_80")
    assert fuzz.check(case)
