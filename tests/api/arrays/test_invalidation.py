"""Who is told of launches that are out of date, whatever other threads do meanwhile."""

from __future__ import annotations

import gc
import threading

import numpy as np

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from mdtensor.api.engine import registry
from tests.hurried import at_once


class Keeper:
    def __init__(self) -> None:
        self.told = 0

    def drop(self, is_stale: object) -> None:
        self.told += 1


def test_keepers_are_told_as_long_as_they_live() -> None:
    keeper, gone = Keeper(), Keeper()
    invalidation.register(keeper)
    invalidation.register(gone)
    kept = len(invalidation._keepers)
    del gone
    gc.collect()
    assert len(invalidation._keepers) < kept
    generation = invalidation.generation()
    invalidation.clear()
    assert keeper.told == 2, "before calls see the new generation, and what was kept until then"
    assert invalidation.generation() != generation


def test_threads_make_keepers_while_others_clear() -> None:
    is_over = threading.Event()

    def make() -> None:
        kept: list[Keeper] = []
        for _ in range(20000):
            kept.append(Keeper())
            invalidation.register(kept[-1])
            del kept[:-200]
        is_over.set()

    def clear() -> None:
        while not is_over.is_set():
            invalidation.clear()

    at_once(make, clear, clear)


def test_a_choice_made_while_a_better_one_was_found_is_made_again(monkeypatch) -> None:
    engine, asked = registry.engine_for(), []
    (md_hom,) = mdt.compile("ij->i", np.ones((5, 6))).md_homs
    choose = engine.choose

    def overtaken(md_hom, *, use_store=True):
        asked.append(md_hom)
        choice = choose(md_hom, use_store=use_store)
        if len(asked) == 1:
            registry.forget()  # a thread in the background has found something
        return choice

    monkeypatch.setattr(engine, "choose", overtaken)
    registry.forget()
    for _ in range(3):
        registry.choice_for(md_hom)
    assert len(asked) == 2
