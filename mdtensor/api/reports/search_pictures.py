"""Pictures of measurements: a search's trials over time, and the device's roofline."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from mdtensor.api.reports.svg_writer import NARROW, LogScale, Picture, spread
from mdtensor.autotune.progress import format_time
from mdtensor.autotune.store.rows import TrialRow
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.work import bytes_moved, flops
from mdtensor.specs import Target

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = NARROW, 240, 50, 10, 14, 32
_MOST_DOTS = 1000
# Seconds between trials that are none of a search: somebody went on later.
_PAUSE = 10.0


def search_seconds(trials: Sequence[TrialRow]) -> list[float]:
    """The start of each trial, in seconds since the first, without pauses between searches.

    Rows are in the order of making.
    """
    passed, found = 0.0, [0.0] if trials else []
    for before, row in pairwise(trials):
        gap = row.created - before.created
        passed += gap if 0 <= gap <= _PAUSE else 0.0
        found.append(passed)
    return found


def trials_picture(trials: Sequence[TrialRow], winner: float | None) -> Picture | None:
    """A scatter plot of all trials over time, with the best so far; None if none succeeded.

    Of very many trials, those that became the best and a part of the others are drawn.
    """
    ok = [row.seconds for row in trials if row.status == "ok" and row.seconds]
    if not ok:
        return None
    picture = Picture(_WIDTH, _HEIGHT, "Trials of the search over time, and the best so far")
    shown = [*ok, *([winner] if winner else [])]
    right, floor = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    y = LogScale(min(shown) / 1.15, max(shown) * 1.15, floor, _TOP + 12)
    when = search_seconds(trials)
    unit = (right - _LEFT) / (when[-1] or 1.0)
    for tick in y.ticks():
        picture.path([(_LEFT, y.at(tick)), (right, y.at(tick))], "line")
        picture.text(_LEFT - 4, y.at(tick) + 4, _short_time(tick), "soft small", "end")
    for second in sorted({0.0, when[-1] / 2, when[-1]}):
        x, anchor = _LEFT + second * unit, "middle" if 0 < second < when[-1] else "start"
        anchor = "end" if second and second == when[-1] else anchor
        picture.text(x, floor + 13, f"{second:.3g} s", "soft small", anchor)
    best, steps = math.inf, list[tuple[float, float]]()
    every = -(-len(trials) // _MOST_DOTS)
    for n, (row, second) in enumerate(zip(trials, when, strict=True)):
        x = _LEFT + second * unit
        if row.status != "ok" or not row.seconds:
            if n % every == 0:
                picture.cross(x, _TOP, f"{row.status}: {row.detail[:80]}")
            continue
        improves = row.seconds < best
        if improves:
            steps += [(x, y.at(best))] if steps else []
            best = row.seconds
            steps.append((x, y.at(best)))
        if improves or n % every == 0:
            title = f"trial {n + 1}: {format_time(row.seconds)}"
            picture.dot(x, y.at(row.seconds), "ours" if improves else "trial", title, 2.4)
    picture.path([*steps, (right, y.at(best))], "best")
    if winner:
        picture.path([(_LEFT, y.at(winner)), (right, y.at(winner))], "dashed")
        said = f"winner {format_time(winner)}"
        picture.text(right, min(y.at(winner) + 12, floor - 3), said, "small", "end")
    failed = len(trials) - len(ok)
    text = f"{len(trials)} trials" + (f", {failed} × failed" if failed else "")
    picture.text(_LEFT, _HEIGHT - 5, f"{text}; line: best so far", "soft small")
    return picture


def _short_time(seconds: float) -> str:
    """A time as text without trailing zeros.

    >>> _short_time(1e-2), _short_time(5e-5)
    ('10 ms', '50 µs')
    """
    return re.sub(r"\.0+ ", " ", format_time(seconds))


def peak_of(problem: Problem, target: Target) -> tuple[float, str]:
    """The peak operations per second of the device's multiply-adds, and their type.

    They are those of the cost model: estimates. Processors do half as many of twice the size.
    """
    dtype = problem.scalar.result_dtypes[0]
    halves = target.kind == "cpu" and dtype.kind == "f" and dtype.itemsize == 8
    return 2 * target.rate * target.cores / (2 if halves else 1), (
        "float64" if halves else "float32"
    )


def roofline_picture(
    problem: Problem, target: Target, times: Mapping[str, float], peers: Mapping[str, float]
) -> Picture | None:
    """The device's roofline, with the measured times under it.

    `times` are our seconds by what they are, the last of which counts, `peers` those of others.
    None where nothing is computed, or nothing was measured.
    """
    work, moved = flops(problem), bytes_moved(problem)
    measured = {**times, **peers}
    if not work or not moved or not measured:
        return None
    peak, dtype = peak_of(problem, target)
    intensity, ridge = work / moved, peak / target.bandwidth
    rates = {name: work / seconds for name, seconds in measured.items()}
    picture = Picture(_WIDTH, _HEIGHT, f"Roofline of {target.name}")
    right, floor = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    x = LogScale(min(intensity, ridge) / 8, max(intensity, ridge) * 8, _LEFT, right)
    lowest = min(*rates.values(), target.bandwidth * min(intensity, ridge))
    y = LogScale(lowest / 4, max(peak, *rates.values()) * 2, floor, _TOP)
    for tick in y.ticks():
        picture.path([(_LEFT, y.at(tick)), (right, y.at(tick))], "line")
        picture.text(_LEFT - 4, y.at(tick) + 4, _rate(tick), "soft small", "end")
    for tick in x.ticks():
        picture.path([(x.at(tick), _TOP), (x.at(tick), floor)], "line")
        picture.text(x.at(tick), floor + 13, f"{tick:g}", "soft small", "middle")
    # The slope may leave the picture at the bottom before it does so on the left.
    start = max(min(intensity, ridge) / 8, lowest / 4 / target.bandwidth)
    roof = [(start, start * target.bandwidth), (ridge, peak), (max(intensity, ridge) * 8, peak)]
    picture.path([(x.at(at), y.at(rate)) for at, rate in roof], "roof")
    picture.path([(x.at(intensity), _TOP), (x.at(intensity), floor)], "dotted")
    names = list(rates)
    places = [y.at(rate) for rate in rates.values()]
    at_right = x.at(intensity) < (_LEFT + right) / 2
    shift, anchor = (7, "start") if at_right else (-7, "end")
    last = list(times)[-1] if times else ""
    for name, place, label in zip(names, places, spread(places), strict=True):
        kind = "peer" if name in peers else "ours" if name == last else "before"
        said = f"{name} {format_time(measured[name])}"
        picture.dot(x.at(intensity), place, kind, f"{said}: {_rate(rates[name])}FLOP/s")
        picture.text(x.at(intensity) + shift, label + 4, said, "small", anchor, most=34)
    axes = f"FLOP/s over FLOP/byte; {_rate(peak)}FLOP/s {dtype}, {target.bandwidth / 1e9:.4g} GB/s"
    picture.text(_LEFT, _HEIGHT - 5, axes, "soft small", most=64)
    return picture


def _rate(value: float) -> str:
    """Operations per second as short text.

    >>> _rate(1.5e12), _rate(2e9)
    ('1.5 T', '2 G')
    """
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} "
