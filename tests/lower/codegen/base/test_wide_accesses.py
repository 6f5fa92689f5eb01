"""Neighbours are loaded together, and stored together only where each is stored once."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.program import program_of
from mdtensor.lower.codegen.base.wide_accesses import wide_loads, wide_stores
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.ir.register_types import F32, U8
from mdtensor.lower.ir.statements import Let, Set, Statement, VectorStore, When
from mdtensor.lower.ir.values import Calc, Literal, Load, Pack, Ref, Slice
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


def test_loads_with_one_condition_are_one_load():
    first, second = Ref("inside", U8), Ref("other", U8)

    def loaded(place: int, inside: Ref) -> Let:
        load = Load("p", F32, as_index(place))
        value = Calc("select", (inside, load, Literal(0, F32)), F32)
        return Let(Ref(f"x{place}", F32), value)

    alone = loaded(4, first)
    before = [loaded(0, first), loaded(2, first), loaded(1, second), loaded(3, first), alone]
    zeros, guarded, *rest = wide_loads(before, {"p": 4})
    wide = Ref("w_x0", F32, 4)
    assert zeros == Let(wide, Pack((Literal(0, F32),) * 4), mutable=True)
    assert guarded == When(first, (Set(wide, Load("p", F32, as_index(0), 4)),))
    parts = [Let(Ref(f"x{n}", F32), Slice(wide, n)) for n in (0, 2, 3)]
    assert rest == [*parts[:2], before[2], parts[2], alone]


def test_rows_that_are_shorter_than_a_tile_compile():
    rows = {"threads": (2, 1, 2), "registers": (4, 8, 4), "chunks": (4, 8, 2), "resident": True}
    schedule = gpu(3, (1,), tiles=(0, 8, 0), staged=("",) * 4, **rows)
    case = single_case(dense_layer(9, 4, 8), schedule, ((-9, 9),) * 4)
    (problem,) = case.problems()
    assert ".entry kernel_0(" in compiled(program_of(problem, schedule, CUDA).text, "sm_80")
    assert fuzz.check(case)
