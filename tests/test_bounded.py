"""Tables of so many entries, and that there are no others."""

from __future__ import annotations

import gc
import itertools
from functools import partial

from mdtensor.bounded import Bounded, pairs_of
from tests.hurried import at_once


def test_the_oldest_quarter_leaves_a_full_table() -> None:
    table = Bounded[int, str](8)
    for n in range(8):
        table.keep(n, str(n))
    table.keep(3, "again")  # which is there, and takes no room
    assert [*table] == [*range(8)]
    table.keep(8, "8")
    assert [*table] == [*range(2, 9)]
    assert table[3] == "again"


def test_a_table_of_one_entry() -> None:
    table = Bounded[int, int](1)
    for n in range(3):
        table.keep(n, n)
    assert table == {2: 2}


def test_threads_that_fill_and_empty_a_table() -> None:
    table = Bounded[tuple[int, int], int](64)

    def fill(thread: int) -> None:
        for n in range(20_000):
            table.keep((thread, n), n)
            if n % 1000 == 0:
                table.clear()

    at_once(*(partial(fill, thread) for thread in range(8)))
    assert len(table) <= 64 + 8


def test_entries_are_listed_while_collections_of_garbage_add_others() -> None:
    """As other threads may, which run while the collector calls someone."""
    table = dict.fromkeys(range(3000), 0)
    added = itertools.count(10**6)

    def add(phase: str, _: object) -> None:
        table[next(added)] = 1

    before = gc.get_threshold()
    gc.callbacks.append(add)
    gc.set_threshold(1)
    try:
        found = pairs_of(table)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(add)
    assert set(range(3000)) <= {key for key, _ in found}
