"""What was seen of winners: the store is asked for those that it may have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mdtensor.api.engine.winner_index import WinnerIndex
from mdtensor.autotune.store.store import Store

ENVIRONMENT = "a device"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path)


def test_a_problem_without_a_winner_is_asked_for_until_somebody_looks(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_winner("known 1", ENVIRONMENT, "{}", seconds=1.0, trials=1)
    seen, asked = WinnerIndex(lambda: store, ENVIRONMENT), list[str]()
    winner = store.winner

    def noted(key: str, environment: str) -> object:
        asked.append(key)
        return winner(key, environment)

    monkeypatch.setattr(store, "winner", noted)
    assert seen.winner("unknown 1") is None
    seen.look()
    assert seen.winner("unknown 1") is None
    found = seen.winner("known 1")
    assert found is not None
    assert asked == ["unknown 1", "known 1"]
    store.set_winner("unknown 1", ENVIRONMENT, "{}", seconds=1.0, trials=1)
    assert seen.winner("unknown 1") is not None, "the store has changed since"


def test_a_form_may_have_winners_unless_none_was_seen(store: Store) -> None:
    store.set_winner("known 1", ENVIRONMENT, "{}", seconds=1.0, trials=1)
    store.set_winner("of others 1", "another device", "{}", seconds=1.0, trials=1)
    seen = WinnerIndex(lambda: store, ENVIRONMENT)
    forms = [re.compile(rf"{name} \d+") for name in ("known", "of others")]
    assert [seen.may_have(form) for form in forms] == [True, True]
    seen.look()
    assert [seen.may_have(form) for form in forms] == [True, False]


def test_winners_of_a_structure_are_read_once_until_the_store_changes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_winner("known 4,5", ENVIRONMENT, "{}", seconds=1.0, trials=1)
    store.set_winner("known 4,6", "another device", "{}", seconds=1.0, trials=1)
    seen, asked = WinnerIndex(lambda: store, ENVIRONMENT), list[str]()
    winners = store.winners

    def noted(environment: str) -> object:
        asked.append(environment)
        return winners(environment)

    monkeypatch.setattr(store, "winners", noted)
    form = re.compile(r"known (-?\d+),(-?\d+)")
    for _ in range(3):
        assert [extents for _, extents in seen.alike(form, 1)] == [(4,)]
    assert asked == [ENVIRONMENT]
    store.set_winner("known 7,5", ENVIRONMENT, "{}", seconds=1.0, trials=1)
    assert [extents for _, extents in seen.alike(form, 2)] == [(4, 5), (7, 5)]
    assert seen.alike(re.compile("other"), 0) == []
