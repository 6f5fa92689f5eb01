"""Loads and stores of elements a few apart, by whole vectors and shuffles, run on an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtensor.lower.codegen.cpu.interleaved_vectors import interleaved
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.register_types import F32
from mdtensor.lower.ir.statements import Let, Loop, Pointer, Set, Statement, VectorStore
from mdtensor.lower.ir.values import Calc, Load, Ref, Shuffle, Value
from mdtensor.lower.problem.simd_lanes import MOST_APART

START, FAR = name("start"), name("far")
AT = {"start": 100, "far": 37}


class Machine:
    """Memory, in which every element is its own place, and what statements touch of it."""

    def __init__(self) -> None:
        self.memory = np.arange(1000.0)
        self.values: dict[str, np.ndarray] = {}
        self.bases = {"b0": 0}
        self.read: set[int] = set()
        self.accesses = 0

    def run(self, statements: Sequence[Statement]) -> Machine:
        for statement in statements:
            match statement:
                case Let(ref, value) | Set(ref, value):
                    self.values[ref.name] = self.value(value)
                case Pointer(label, buffer, _, _, offset):
                    self.bases[label] = self.bases[buffer] + place(offset)
                case VectorStore(buffer, _, index, value, stride):
                    lanes = self.value(value)
                    along = place(as_index(stride)) * np.arange(len(lanes))
                    self.memory[self.bases[buffer] + place(index) + along] = lanes
                    self.accesses += 1 if along[-1] == len(lanes) - 1 else len(lanes)
                case _:
                    raise AssertionError(statement)
        return self

    def value(self, value: Value) -> np.ndarray:
        match value:
            case Ref(label, _, lanes):
                return self.values.get(label, np.arange(lanes) + 2000.0 * int(label[1:] or 0))
            case Load(buffer, _, index, lanes, stride):
                along = place(as_index(stride)) * np.arange(lanes)
                where = self.bases[buffer] + place(index) + along
                self.read |= set(where.tolist())
                self.accesses += 1 if along[-1] == lanes - 1 else lanes
                return self.memory[where]
            case Shuffle(one, other, picks):
                return np.concatenate([self.value(one), self.value(other)])[list(picks)]
            case Calc("add", (lhs, rhs)):
                return self.value(lhs) + self.value(rhs)
        raise AssertionError(value)


def place(index: Index) -> int:
    return sum(factor * int(np.prod([AT[n] for n in names])) for names, factor in index.terms)


def loads(places: Sequence[int], stride: int, lanes: int) -> list[Statement]:
    return [
        Let(Ref(f"x{n}", F32, lanes), Load("b0", F32, START + at, lanes, stride))
        for n, at in enumerate(places)
    ]


def stores(places: Sequence[int], stride: int, lanes: int) -> list[Statement]:
    return [
        VectorStore("b0", F32, START + at, Ref(f"a{n}", F32, lanes), stride)
        for n, at in enumerate(places)
    ]


STRIDES = st.integers(-MOST_APART, MOST_APART).filter(lambda stride: abs(stride) > 1)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=6), STRIDES, st.sampled_from((2, 4, 16)))
def test_loads_give_what_they_gave_and_touch_nothing_behind_their_ends(
    places: list[int], stride: int, lanes: int
):
    before = loads(places, stride, lanes)
    one, other = Machine().run(before), Machine().run(interleaved(before))
    for ref in (f"x{n}" for n in range(len(places))):
        np.testing.assert_array_equal(one.values[ref], other.values[ref])
    assert one.read <= other.read
    assert (min(one.read), max(one.read)) == (min(other.read), max(other.read))
    assert not any(isinstance(s, Let) and _is_apart(s.value) for s in interleaved(before))


def _is_apart(value: Value) -> bool:
    return isinstance(value, Load) and value.stride != 1


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, unique=True),
    st.integers(-9, 9),
    STRIDES,
    st.sampled_from((2, 4, 16)),
)
def test_stores_write_what_they_wrote(
    among: list[tuple[int, int]], first: int, stride: int, lanes: int
):
    apart = abs(stride)
    places = [first + run * apart * lanes + n for run, n in among if n < apart]
    before = stores(places, stride, lanes)
    one, other = Machine().run(before), Machine().run(interleaved(before))
    np.testing.assert_array_equal(one.memory, other.memory)
    assert other.accesses <= one.accesses


def test_both_halves_of_complex_numbers_take_two_loads():
    found = Machine().run(interleaved(loads((0, 1), 2, 16)))
    assert found.accesses == 2
    assert Machine().run(loads((0, 1), 2, 16)).accesses == 32


@pytest.mark.parametrize("stride", [2, 3, 4, -2, -3, -4])
def test_results_that_fill_a_run_are_stored_as_whole_vectors(stride: int):
    before = stores(range(abs(stride)), stride, 8)
    found = Machine().run(interleaved(before))
    assert found.accesses == abs(stride)
    np.testing.assert_array_equal(found.memory, Machine().run(before).memory)


def test_results_between_which_others_lie_are_stored_one_by_one():
    before = stores((0, 2), 3, 8)
    assert list(interleaved(before)) == before


def test_results_of_several_types_are_stored_one_by_one():
    first, second = stores((0, 1), 2, 8)
    assert isinstance(second, VectorStore)
    before = [first, replace(second, value=Ref("a1", np.dtype("f8"), 8))]
    assert list(interleaved(before)) == before


def test_halves_that_are_met_through_two_pointers_are_written_together():
    pointers = [Pointer(f"o{n}", "b0", F32, "global", START + FAR + n) for n in range(2)]
    parts = [VectorStore(f"o{n}", F32, 3 * FAR, Ref(f"a{n}", F32, 8), 2) for n in range(2)]
    found = Machine().run(interleaved([*pointers, *parts]))
    assert found.accesses == 2
    np.testing.assert_array_equal(found.memory, Machine().run([*pointers, *parts]).memory)


def test_loads_inside_of_sums_are_shared_too():
    total = Ref("x9", F32, 8)
    before: list[Statement] = [Let(total, Load("b0", F32, START, 8, 2), mutable=True)]
    half = Load("b0", F32, START + 1, 8, 2)
    before.append(Set(total, Calc("add", (total, half), F32, 8)))
    found = Machine().run(interleaved(before))
    assert found.accesses == 2
    np.testing.assert_array_equal(found.values["x9"], Machine().run(before).values["x9"])


def test_what_is_loaded_behind_a_store_is_loaded_again():
    written = VectorStore("b0", F32, START, Ref("a1", F32, 8), 2)
    before = [*loads((0,), 2, 8), written, *loads((0, 1), 2, 8)]
    found = Machine().run(interleaved(before))
    np.testing.assert_array_equal(found.values["x0"], Machine().run(before).values["x0"])


def test_bodies_of_loops_are_changed_and_names_differ():
    inside = Loop("i", as_index(0), as_index(4), as_index(1), tuple(loads((0,), 2, 8)))
    first, second = interleaved([inside, inside])
    assert isinstance(first, Loop)
    assert isinstance(second, Loop)
    names = [s.ref.name for loop in (first, second) for s in loop.body if isinstance(s, Let)]
    assert names == ["y0", "y1", "x0", "y2", "y3", "x0"]


@pytest.mark.parametrize("load", [Load("b0", F32, START, 8, FAR), Load("b0", F32, START, 8, 2, 5)])
def test_distances_that_are_names_and_vectors_that_end_early_stay(load: Load):
    before = Let(Ref("x0", F32, 8), load)
    assert interleaved([before]) == (before,)
