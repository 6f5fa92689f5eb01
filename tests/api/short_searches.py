"""Searches that end by what they found and not by the clock, on machines of any speed."""

from __future__ import annotations

from typing import Any

import pytest

from mdtensor.api.tuning import schedule_search
from mdtensor.autotune.search.abort_conditions import Condition, evaluations


def search_trials(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Ends searches after so many trials."""
    search = schedule_search.search

    def short(*arguments: Any, abort: Condition, **options: Any) -> Any:
        return search(*arguments, abort=abort | evaluations(count), **options)

    monkeypatch.setattr(schedule_search, "search", short)
