from __future__ import annotations

import pickle

import numpy as np
import pytest

from mdtensor.api.calls import statistics
from mdtensor.api.calls.statistics import (
    FILLED,
    GENERATED,
    NUMPY,
    VIEW,
    Stats,
    kind_of,
    stats,
    tally,
)


@pytest.fixture(autouse=True)
def _counters_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_tallies", {})


def test_calls_are_counted_by_engine_and_kind() -> None:
    hot = tally(GENERATED, np.dtype("f4"))
    hot.calls += 1
    hot.calls += 1
    tally(GENERATED, np.dtype("f8")).calls += 1
    tally(GENERATED, np.dtype("?")).calls += 1
    tally(VIEW, np.dtype("u1")).calls += 1
    tally(FILLED, np.dtype("c8")).calls += 1
    tally(NUMPY, np.dtype(object), "dtype object").calls += 1
    assert stats() == Stats(
        {"float": 3, "bool": 1}, {"int": 1}, {"complex": 1}, {("object", "dtype object"): 1}
    )


def test_reset_returns_what_was_counted_and_keeps_counters_alive() -> None:
    hot = tally(GENERATED, np.dtype("f4"))
    hot.calls += 1
    assert stats(reset=True).generated == {"float": 1}
    assert stats().generated == {}
    hot.calls += 1
    assert stats().generated == {"float": 1}


def test_a_reset_loses_no_calls_of_other_threads() -> None:
    class Kind(str):
        """A kind that another thread counts whenever somebody looks it up."""

        def __hash__(self) -> int:
            hot.calls += 1
            return super().__hash__()

    hot = statistics.Tally(GENERATED, Kind("float"), "")
    statistics._tallies["hot",] = hot
    hot.calls += 1
    counted = [sum(stats(reset=True).generated.values()) for _ in range(5)]
    hot.kind = "float"
    assert sum(counted) + sum(stats().generated.values()) == hot.calls > 5


def test_counts_travel_to_other_processes() -> None:
    tally(GENERATED, np.dtype("f4")).calls += 2
    tally(NUMPY, np.dtype(object), "dtype object").calls += 1
    assert pickle.loads(pickle.dumps(stats())) == stats()


def test_a_counter_that_travels_goes_on_where_it_arrives() -> None:
    hot = tally(GENERATED, np.dtype("f4"))
    assert pickle.loads(pickle.dumps(hot)) is hot
    unread = pickle.loads(pickle.dumps(statistics.uncounted()))
    unread.calls += 1
    assert stats() == Stats({}, {}, {}, {})


def test_the_share_leaves_out_views_fills_and_kinds_without_kernels() -> None:
    views, filled = {"int": 50}, {"int": 50}
    numpy = {("float", "byte order"): 1, ("longdouble", "dtype float128"): 9}
    assert Stats({"float": 3}, views, filled, numpy).share == 0.75
    assert Stats({}, {}, {}, {}).share == 1.0


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("?", "bool"),
        ("u8", "int"),
        ("f2", "float"),
        ("c8", "complex"),
        ("g", "longdouble"),
        ("G", "longdouble"),
        ("O", "object"),
        ("M8[s]", "datetime64"),
        ("U1", "str"),
    ],
)
def test_kinds(dtype: str, kind: str) -> None:
    assert kind_of(np.dtype(dtype)) == kind
