"""The cost model's favourites: the best schedules by estimate, one of each kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

from mdtensor.lower.schedule.schedule import Schedule

# One of each kind is among them, if its estimate is at most this many times the best.
_NEAR = 2.0


def favourites(ranking: Sequence[tuple[float, Schedule]], count: int) -> list[Schedule]:
    """The cost model's best schedules, the best of each kind before further ones.

    What the model thinks of kinds, such as stores that bypass the caches, may be wrong by a
    constant; a search that met none of a kind among its first schedules seldom came to it later.
    """
    kinds: dict[tuple[object, ...], Schedule] = {}
    for seconds, schedule in ranking:
        if seconds <= _NEAR * ranking[0][0]:
            rows = (
                schedule.peel and math.prod(schedule.registers) > schedule.registers[schedule.lane]
            )
            past = schedule.streaming, schedule.peel, rows, schedule.ahead > 0, schedule.results
            shared = any(schedule.threads[d] > 1 for d in schedule.reduce_order)
            kinds.setdefault((schedule.lane, *past, any(schedule.staged), shared), schedule)
    first = list(kinds.values())[: count // 2]
    others = (schedule for _, schedule in ranking if schedule not in first)
    return [*first, *islice(others, count - len(first))]
