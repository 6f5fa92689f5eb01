"""Searches that end by what they found and not by the clock, on machines of any speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mdtensor.api.tuning import schedule_search
from mdtensor.autotune.search.abort_conditions import Condition, evaluations
from mdtensor.autotune.trial import Measured


def search_trials(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Ends searches after so many trials."""
    search = schedule_search.search

    def short(*arguments: Any, abort: Condition, **options: Any) -> Any:
        return search(*arguments, abort=abort | evaluations(count), **options)

    monkeypatch.setattr(schedule_search, "search", short)


def search_until(monkeypatch: pytest.MonkeyPatch, enough: Callable[[Counter[str]], bool]) -> None:
    """Ends searches, as Ctrl-C does, once enough trials had each status."""
    search = schedule_search.search

    def ended(*arguments: Any, on_trial: Callable[[Measured], None], **options: Any) -> Any:
        statuses: Counter[str] = Counter()

        def counted(measured: Measured) -> None:
            on_trial(measured)
            statuses[measured.trial.status] += 1
            if enough(statuses):
                raise KeyboardInterrupt

        return search(*arguments, on_trial=counted, **options)

    monkeypatch.setattr(schedule_search, "search", ended)
