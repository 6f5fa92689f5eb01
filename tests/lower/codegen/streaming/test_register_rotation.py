"""Which loads of a block the one before it has made."""

from __future__ import annotations

import numpy as np

from mdtensor.lower.gpu.streaming.register_rotation import handed_on, of_first_block
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.statements import Let, Set
from mdtensor.lower.ir.values import Load, Ref

F4 = np.dtype("f4")


def load(ref: str, place: Index | int, buffer: str = "b0") -> Let:
    return Let(Ref(ref, F4), Load(buffer, F4, as_index(place)))


def test_an_element_is_handed_on_as_often_as_blocks_need_it() -> None:
    below, here, above = (load(ref, place) for ref, place in (("x", 0), ("y", 10), ("z", 20)))
    handed = handed_on([below, here, above], {"b0": 10})
    first, second = (Ref("h_x", F4), Ref("h_y", F4))
    assert [(let.ref, let.value, let.mutable) for let in handed.before] == [
        (first, below.value, True),
        (second, here.value, True),
    ]
    assert handed.inside == (Let(below.ref, first), Let(here.ref, second), above)
    assert handed.after == (Set(first, here.ref), Set(second, above.ref))


def test_blocks_may_be_walked_towards_lower_addresses() -> None:
    handed = handed_on([load("x", 0), load("y", 10)], {"b0": -10})
    assert handed.after == (Set(Ref("h_y", F4), Ref("x", F4)),)


def test_what_no_other_block_reads_is_loaded_where_it_is_needed() -> None:
    statements = [
        load("x", 0),
        load("y", 9),
        load("z", 10, "b1"),
        load("w", name("n") + 10),
    ]
    assert handed_on(statements, {"b0": 10, "b1": 0}).inside == tuple(statements)


def test_what_lies_at_places_that_each_block_computes_is_loaded_by_each() -> None:
    gathered = [load("x", name("g")), load("y", name("g") + 10)]
    statements = [Let(Ref("g", np.dtype("i8")), Ref("x0", F4)), *gathered]
    assert handed_on(statements, {"b0": 10}).inside == tuple(statements)
    assert len(handed_on(gathered, {"b0": 10}).before) == 1


def test_the_first_block_has_pointers_of_its_own() -> None:
    (found,) = of_first_block([load("x", 3)])
    assert found == load("x", 3, "m0")
