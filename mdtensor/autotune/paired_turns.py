"""Paired comparison of alternately timed runs: a rival wins only with statistical certainty.

Nothing is decided by single times or by medians, which noise puts in any order: a rival wins once
the logarithms of its times over those of the incumbent's, turn by turn, have a sum that is
`CERTAIN` times the root of the sum of their squares. Where both are as fast, each has either sign
with equal chance, however wide its distribution is: so sixteen turns suffice of which all are
faster, and in fewer nothing is certain by signs. Four suffice where the difference is larger than
the noise that they show: a square counts as that of what turns differ by, of twice that where there
are four, or of `NOISE`, at most.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
# Times of each, turn by turn; None of what cannot run.
Turns = Sequence[Sequence[float] | None]

CERTAIN = 4.0
# What turns of one program differ by at least, as a logarithm, even where few show less.
NOISE = 0.03
_LEAST, _MOST = 4, 64  # turns
_FEW = 8  # turns, of which fewer may differ by more than they show
_OUTLIER = 3.0  # times the middle difference: the most that one turn counts
_SHORTEST = 1e-9  # seconds


def is_faster(times: Sequence[float], others: Sequence[float]) -> bool:
    """Whether paired times are shorter than others with statistical certainty.

    >>> is_faster([0.9, 0.91, 0.9, 0.9], [1.0] * 4), is_faster([0.9, 1.0, 0.9, 0.9], [1.0] * 4)
    (True, False)
    >>> is_faster([0.99] * 16, [1.0] * 16), is_faster([0.99] * 8 + [1.01] * 8, [1.0] * 16)
    (True, False)
    """
    pairs = zip(times, others, strict=False)
    ratios = [math.log(max(one, _SHORTEST) / max(other, _SHORTEST)) for one, other in pairs]
    if len(ratios) < _LEAST:
        return False
    most = _OUTLIER * statistics.median(map(abs, ratios))
    ratios = [max(-most, min(most, ratio)) for ratio in ratios]
    spread = max(1.0, _FEW / len(ratios)) * (max(ratios) - min(ratios))
    counted = max(NOISE, spread)
    error = math.sqrt(math.fsum(min(abs(ratio), counted) ** 2 for ratio in ratios))
    return -math.fsum(ratios) > CERTAIN * error * (1 - 1e-9)


def fastest_by_turns(
    incumbents: Sequence[T],
    rivals: Sequence[T],
    by_turns: Callable[[Sequence[T]], Turns],
    *,
    is_over: Callable[[], bool],
    cost: Callable[[T, float], float] = lambda _, seconds: seconds,
) -> tuple[T, dict[T, list[float]]]:
    """The best rival certainly faster than all incumbents, else the best incumbent; and all times.

    `by_turns` times all that it is given, the incumbents first, so that each has the same turns as
    these. The worse half of the rivals is left out each time; it ends once the best one left is
    certainly faster, when it `is_over`, or after `_MOST` turns. The best have the least `cost` of
    their median seconds. Where no incumbent runs, any rival is faster.
    """
    times: dict[T, list[float]] = {each: [] for each in (*incumbents, *rivals)}
    left = [each for each in times if each not in incumbents]
    faster: list[T] = []

    def rank(one: T) -> float:
        return cost(one, statistics.median(times[one]))

    while len(times) > 1:
        asked = (*incumbents, *left)
        for each, new in zip(asked, by_turns(asked), strict=True):
            times[each] += new or ()
        before = [times[each] for each in incumbents if times[each]]
        run = [each for each in times if times[each] and each not in incumbents]
        faster = [each for each in run if all(is_faster(times[each], other) for other in before)]
        left = sorted((each for each in run if each in left), key=rank)
        is_decided = not left or left[0] in faster
        left = [each for each in left if not any(is_faster(one, times[each]) for one in before)]
        left = left[: math.ceil(len(left) / 2)]
        if is_decided or not left or len(before[0]) >= _MOST or is_over():
            break
    usual = [each for each in incumbents if times[each]]
    return min(faster or usual, key=rank, default=incumbents[0]), times
