"""Stores of rows that become stores of columns, run on an array."""

from __future__ import annotations

import numpy as np
import pytest

from mdtensor.lower.codegen.memory.transpose_rows import picks, transposed_rows
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.statements import Let, Statement, VectorStore
from mdtensor.lower.ir.values import Ref, Shuffle, Slice, Value

F32, START = np.dtype("f4"), name("start")
AT = {"start": 5, "far": 37}


def rows(
    count: int, lanes: int, dtype: np.dtype = F32, *, first: int = 0, stride: Index | int = 20
) -> list[Statement]:
    """Stores of vectors that are neighbours, lane for lane."""
    return [
        VectorStore(
            "o0", dtype, START + first + n, Ref(f"a{n}", dtype, lanes), stride, streaming=True
        )
        for n in range(count)
    ]


def run(statements: list[Statement]) -> np.ndarray:
    """What an array holds after the statements: 1 + row * 100 + lane of each vector `a`."""
    memory = np.zeros(4096)
    values: dict[str, np.ndarray] = {}

    def value_of(value: Value) -> np.ndarray:
        match value:
            case Ref(label, _, lanes):
                row = values.get(label)
                return 1 + int(label[1:]) * 100 + np.arange(lanes) if row is None else row
            case Shuffle(one, other, chosen):
                return np.concatenate([value_of(one), value_of(other)])[list(chosen)]
            case Slice(inner, start, lanes):
                return value_of(inner)[start : start + lanes]
        raise AssertionError(value)

    for statement in statements:
        if isinstance(statement, Let):
            assert statement.ref.name not in values, "declared twice"
            values[statement.ref.name] = value_of(statement.value)
            continue
        assert isinstance(statement, VectorStore)
        along = place(as_index(statement.stride)) * np.arange(statement.value.lanes)
        where = place(statement.index) + along
        assert not np.any(memory[where]), "written twice"
        memory[where] = value_of(statement.value)
    return memory


def place(index: Index) -> int:
    return sum(factor * int(np.prod([AT[n] for n in names])) for names, factor in index.terms)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", ["i1", "f4", "f8"])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 12, 16])
def test_columns_are_written_that_rows_would_have_been(count, lanes, dtype):
    before = rows(count, lanes, np.dtype(dtype))
    after = transposed_rows(before, {"o0": True})
    np.testing.assert_array_equal(run(after), run(before))
    widest = max(
        (s.value.lanes for s in after if isinstance(s, VectorStore) and s.stride == 1), default=0
    )
    assert widest == (0 if count == 1 else min(lanes, 1 << (count.bit_length() - 1)))


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_every_doubling_of_rows_shuffles_each_once(count):
    shuffles = [s for s in transposed_rows(rows(count, 16), {}) if isinstance(s, Let)]
    assert len(shuffles) == count * (count.bit_length() - 1)


def test_distances_between_lanes_may_be_names():
    before = rows(4, 8, stride=name("far"))
    after = transposed_rows(before, {})
    np.testing.assert_array_equal(run(after), run(before))
    assert len([s for s in after if isinstance(s, VectorStore)]) == 8


def test_rows_that_are_no_neighbours_are_written_lane_by_lane():
    before = [*rows(1, 8), *rows(1, 8, first=2)]
    assert transposed_rows(before, {}) == before


def test_rows_are_not_transposed_whose_lanes_are_neighbours():
    before = rows(4, 8, stride=1)
    assert transposed_rows(before, {}) == before


def test_parts_of_vectors_are_transposed():
    stores = [
        VectorStore("o0", F32, START + n, Slice(Ref(f"a{n}", F32, 8), 4, 4), 20) for n in range(4)
    ]
    after = transposed_rows(stores, {})
    np.testing.assert_array_equal(run(after), run(list(stores)))
    assert [s.value.lanes for s in after if isinstance(s, VectorStore)] == [4] * 4


def test_a_column_is_written_after_all_that_its_rows_need():
    first, second = rows(2, 2)
    later = Let(Ref("f1", F32, 2), Ref("a1", F32, 2))
    after = transposed_rows([first, later, second], {})
    assert after[0] == later
    assert all(s is not later for s in after[1:])


@pytest.mark.parametrize(
    ("count", "first", "aligned", "streaming"),
    [
        (4, 0, True, {True}),
        (4, 4, True, {True}),
        (4, 2, True, {False}),
        (4, 0, False, {False}),
        (2, 0, True, {False}),
    ],
)
def test_whole_vectors_bypass_the_caches_where_they_are_aligned(count, first, aligned, streaming):
    after = transposed_rows(rows(count, 4, first=first), {"o0": aligned})
    assert {s.streaming for s in after if isinstance(s, VectorStore)} == streaming


def test_elements_are_picked_within_blocks_of_16_bytes_as_long_as_that_goes():
    low, high = picks(8, 2, 4)
    assert (low, high) == ((0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))
    assert sorted((*low, *high)) == list(range(16))
    assert picks(8, 4, 4) == ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
