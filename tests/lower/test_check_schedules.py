"""The interpreter of LoopNests: random pairs are right, and faults that are put in are found."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import pytest

from mdtensor.errors import LoweringError
from mdtensor.lower.ir.group_statements import (
    AwaitCopies,
    Barrier,
    MatrixProduct,
    WarpShuffle,
)
from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.ir.statements import If, Loop, Set, VectorStore
from mdtensor.lower.ir.values import Load
from mdtensor.lower.lowering import lowered
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule
from tests.lower.check_schedules import run
from tests.lower.checker.memory import FaultError
from tests.lower.checker.pairs import (
    FAMILIES,
    NO_SCHEDULE,
    OF_A_PROBLEM,
    interpreted,
    outcome,
    pair_of,
    subject_of,
    without_schedule,
)
from tests.lower.checker.recipe import Recipe, shrunk
from tests.lower.fuzz import random_case
from tests.lower.random_problems import Einsum, Operand
from tests.lower.replay import recipes_of, replayed
from tests.workers import REFUSED, RIGHT, MismatchError

PAIRS = int(os.environ.get("MDTENSOR_TEST_PAIRS", "100"))
MUTANTS = 20
Change = Callable[[Any], Any]


@pytest.mark.parametrize("family", FAMILIES)
def test_random_schedules_are_right(family: str) -> None:
    report = run(0, [family], PAIRS, workers=1)
    assert not report.failures, str(report)
    assert report.total >= PAIRS
    assert report.counts[family][RIGHT] > 0.6 * PAIRS, str(report)


def test_what_is_read_beside_a_copy_may_be_dropped() -> None:
    """Work-items beyond the end read what is being copied for a later block, and store nothing."""
    array = Operand("f4", (4, 2), (1, 0), (1, 1), (0, 0))
    planes = Schedule(
        asm="gpu",
        lane=-1,
        width=1,
        reduce_order=(),
        group_order=(1, 0),
        loop_order=(1, 0),
        march=True,
        parts=(1, 1),
        registers=(4, 1),
        resident=True,
        staged=("local",),
        stages=4,
        threads=(16, 1),
        tiles=(0, 0),
    )
    einsum = Einsum("ns->ns", (array,), replace(array, dtype="f2", order=(0, 1)))
    for seed in range(4):
        assert outcome(Recipe(planes, seed, seed, einsum)) == RIGHT


@pytest.mark.parametrize("extent", [9, 11, 23])
def test_padded_vectors_do_not_leave_a_staged_tile(extent: int) -> None:
    array = Operand("f8", (extent,), (0,), (1,), (0,))
    einsum = Einsum("i,i->i", (array, array), array)
    recipe = Recipe(NO_SCHEDULE, 0, 0, einsum, general=True)
    schedule = replace(
        plain(recipe.fixed()),
        registers=(8,),
        lane=0,
        width=8,
        tail="pad",
        parts=(0,),
        staged=("scratch", ""),
    )
    interpreted(replace(recipe, schedule=schedule))


@pytest.mark.parametrize(
    "name",
    [
        "11/cpu/records/533",
        "11/cpu/selection/6166",
        "11/cpu/stencil/6954",
        "0/cpu/einsum/1698",
    ],
)
def test_staged_tiles_begin_at_whole_lines_within_the_scratch_memory(name: str) -> None:
    assert outcome(pair_of(name)) == RIGHT


@pytest.mark.parametrize("name", ["11/gpu/scan/11434", "11/gpu/scan/14487"])
def test_offsets_that_are_names_do_not_begin_wide_accesses(name: str) -> None:
    assert outcome(pair_of(name)) == RIGHT


# ---- faults that are put in -------------------------------------------------------------------


def _places(node: Any, kind: type) -> Iterator[Any]:
    """All parts of a kernel that are of a kind."""
    if isinstance(node, kind):
        yield node
    if isinstance(node, tuple):
        for part in cast("tuple[Any, ...]", node):
            yield from _places(part, kind)
    elif is_dataclass(node) and not isinstance(node, Index | type):
        for each in fields(node):
            yield from _places(getattr(node, each.name), kind)


def _changed(node: Any, target: Any, change: Change) -> Any:
    """A kernel with one part changed, or left out where the change is None."""
    if node is target:
        return change(node)
    if isinstance(node, tuple):
        parts = [(part, _changed(part, target, change)) for part in cast("tuple[Any, ...]", node)]
        if all(new is part for part, new in parts):
            return cast(Any, node)
        return tuple(new for _, new in parts if new is not None)
    if is_dataclass(node) and not isinstance(node, Index | type):
        for each in fields(node):
            value = getattr(node, each.name)
            new = _changed(value, target, change)
            if new is not value:
                return replace(node, **{each.name: new})
    return node


def _further(node: Any) -> Any:
    return replace(node, index=node.index + 1)


def _far(node: Any) -> Any:
    return replace(node, index=node.index + 10**9)


def _longer(loop: Loop) -> Loop:
    return replace(loop, stop=loop.stop + 1)


def _shorter(loop: Loop) -> Loop:
    return replace(loop, stop=loop.stop - 1)


def _without_guard(guard: If) -> If:
    return replace(guard, lhs=as_index(0), op="<", rhs=as_index(1))


def _never(guard: If) -> If:
    return replace(guard, lhs=as_index(1), op="<", rhs=as_index(0))


def _from_another(exchange: WarpShuffle) -> WarpShuffle:
    return replace(exchange, lane=exchange.lane + 1)


def _dropped(_: Any) -> None:
    return None


# Each with the least share of such changes that must be found. The others change no result: most
# are in what follows whole vectors or tiles, which few points come to, or in what a random function
# of comparisons and extremes makes nothing of.
CHANGES: tuple[tuple[str, str, type, Change, float], ...] = (
    ("a barrier is dropped", "gpu/reduction", Barrier, _dropped, 0.3),
    ("a loop is one step longer", "cpu/einsum", Loop, _longer, 0.3),
    ("a loop is one step shorter", "cpu/einsum", Loop, _shorter, 0.4),
    ("a load is one element further", "cpu/stencil", Load, _further, 0.6),
    ("a load is one element further", "gpu/stencil", Load, _further, 0.3),
    ("a store is one element further", "cpu/scan", VectorStore, _further, 0.8),
    ("a store is one element further", "gpu/einsum", VectorStore, _further, 0.7),
    ("a store is dropped", "cpu/records", VectorStore, _dropped, 0.8),
    ("a guard is dropped", "gpu/einsum", If, _without_guard, 0.3),
    ("what is guarded is dropped", "gpu/scan", If, _never, 0.2),
    ("an assignment is dropped", "cpu/reduction", Set, _dropped, 0.2),
    ("copies are not awaited", "gpu/matrices", AwaitCopies, _dropped, 0.6),
    ("a product of matrices is dropped", "gpu/matrices", MatrixProduct, _dropped, 0.6),
    ("another work-item is asked", "gpu/scan", WarpShuffle, _from_another, 0.2),
)


def _mutants(nests: Sequence[LoopNest], target: Any, change: Change) -> list[LoopNest]:
    return [replace(nest, body=_changed(nest.body, target, change)) for nest in nests]


def _is_found(subject: Any, nests: Sequence[LoopNest]) -> bool:
    try:
        subject.check_nests(nests, (), 0)
    except (FaultError, MismatchError):
        return True
    return False


@pytest.mark.parametrize(("what", "family", "kind", "change", "share"), CHANGES)
def test_faults_that_are_put_in_are_found(
    what: str, family: str, kind: type, change: Change, share: float
) -> None:
    rng = random.Random(what)
    found = tried = number = 0
    while tried < MUTANTS:
        number += 1
        recipe = pair_of(f"0/{family}/{number * (OF_A_PROBLEM + 1)}")
        subject = subject_of(without_schedule(recipe))
        try:
            nests = () if recipe.general else lowered(subject.problem, recipe.schedule)
        except LoweringError:
            continue
        targets = list(_places(tuple(nest.body for nest in nests), kind))
        if not targets:
            continue
        target = rng.choice(targets)
        if kind in (Load, VectorStore) and not _is_found(subject, _mutants(nests, target, _far)):
            continue  # no point comes there
        tried += 1
        found += _is_found(subject, _mutants(nests, target, change))
    assert found >= share * tried, (found, tried)


# ---- one line that replays a failure -----------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_a_line_replays_a_pair(family: str) -> None:
    recipe = pair_of(f"0/{family}/20")
    again = Recipe.from_json(recipe.to_json())
    assert again == recipe
    assert outcome(again) == outcome(recipe)


def test_a_failure_shrinks_to_what_it_needs() -> None:
    """The fault asks for an extent above 3 and for more than one point in a register tile."""
    array = Operand("f8", (9, 8), (0, 1), (1, 1), (0, 0))
    recipe = Recipe(NO_SCHEDULE, 0, 0, Einsum("ij,ij->ij", (array, array), array))
    simplest = plain(recipe.fixed())
    given = replace(recipe, schedule=replace(simplest, registers=(4,), tiles=(8,), tail="pad"))

    def fails(smaller: Recipe) -> bool:
        return smaller.known_extents()["i"] > 3 and max(smaller.schedule.registers) > 1

    found = shrunk(given, fails)
    assert found.known_extents() == {"i": 4, "j": 1}
    assert found.schedule == replace(simplest, registers=(4,))


@pytest.mark.parametrize("name", ["0/cpu/3", "0/gpu/4", "0/cpu/5/md_hom", "0/gpu/8/md_hom"])
def test_a_line_replays_a_compiled_case(name: str) -> None:
    for recipe in recipes_of(random_case(name)):
        interpreted_as, compiled_as = replayed(recipe.to_json()).splitlines()
        assert interpreted_as.removeprefix("interpreted: ") in (RIGHT, REFUSED)
        assert compiled_as.removeprefix("compiled: ") in (RIGHT, REFUSED)
