"""Objects that are freed when a compiler asks for it, and not where their owners end."""

from __future__ import annotations

import itertools
import weakref

from mdtensor.backends.host import deferred_release
from mdtensor.backends.host.deferred_release import DeferredRelease
from tests.interrupts import comes_at, interrupt


class Held:
    pass


def test_an_object_outlives_its_owner_until_the_next_release() -> None:
    programs = DeferredRelease[Held]()
    owner = programs.owner(Held())
    held = weakref.ref(owner.held)
    programs.release()
    assert held() is not None
    del owner
    assert (held() is not None, len(programs)) == (True, 1)
    programs.release()
    assert (held(), len(programs)) == (None, 0)


def test_an_interrupt_loses_no_object_and_nothing_is_printed() -> None:
    """pytest fails a test of which a destructor prints an error."""
    for places in itertools.count():
        programs, made = DeferredRelease[Held](), list[weakref.ref[Held]]()

        def work(programs: DeferredRelease[Held] = programs, made: list = made) -> None:
            held = Held()
            made.append(weakref.ref(held))
            programs.owner(held)
            programs.release()

        is_over = not comes_at(places, interrupt, work, deferred_release.__file__)
        programs.release()
        assert [each() for each in made] == [None], places
        if is_over:
            break
    assert places > 4
