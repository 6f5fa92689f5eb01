"""The importance of each tuning parameter, estimated from the trials of a search."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from mdtensor.api.reports.svg_writer import NARROW, Picture
from mdtensor.autotune.store.rows import TrialRow

LEAST_TRIALS = 8
_MOST_SHOWN = 12
_LEFT, _RIGHT, _BAR, _TOP = 118, 40, 17, 8


def importance(trials: Iterable[TrialRow], labels: Sequence[str] = ()) -> dict[str, float]:
    """The share of the variance of log time that each parameter's value explains by itself.

    The shares are those of an analysis of variance with one factor: how far the means of the
    trials that have a value in common lie apart, over how far all trials do. As many random groups
    would explain a part of it too, which is taken off (epsilon squared: Kelley 1935), down to 0.
    Parameters that a search changes together share what they explain, so that shares need not add
    up to 1. Only trials that ran count; with fewer than `LEAST_TRIALS` of them there are no shares,
    and parameters with one value in all trials have none. Entries of dims are told by `labels`,
    others by numbers. The largest share comes first.
    """
    rows = [row for row in trials if row.status == "ok" and row.seconds]
    if len(rows) < LEAST_TRIALS:
        return {}
    values = [_values(row.schedule, labels) for row in rows]
    times = [math.log(row.seconds or 1.0) for row in rows]
    names = dict.fromkeys(name for found in values for name in found)
    shares = {name: explained([f.get(name) for f in values], times) for name in names}
    found = {name: share for name, share in shares.items() if share is not None}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def explained(groups: Sequence[object], values: Sequence[float]) -> float | None:
    """The share of the variance of `values` between groups (epsilon squared); None for one group.

    >>> explained(["a", "a", "b", "b"], [1.0, 1.0, 2.0, 2.0])
    1.0
    """
    members: dict[object, list[float]] = defaultdict(list)
    for group, value in zip(groups, values, strict=True):
        members[group].append(value)
    count, kinds = len(values), len(members)
    if kinds == 1:
        return None
    mean = math.fsum(values) / count
    total = math.fsum((value - mean) ** 2 for value in values)
    if kinds == count or total == 0:  # each trial is a group, which explains all and nothing
        return 0.0
    means = {group: math.fsum(found) / len(found) for group, found in members.items()}
    within = math.fsum((v - means[group]) ** 2 for group, own in members.items() for v in own)
    noise = within / (count - kinds)
    return max(0.0, (total - within - (kinds - 1) * noise) / total)


def _values(schedule: str, labels: Sequence[str]) -> dict[str, object]:
    """A stored schedule's values by parameter; lists by entry, orders as a whole."""
    read = cast("Mapping[str, Any]", json.loads(schedule))
    found: dict[str, object] = {}
    for field, value in read.items():
        if not isinstance(value, list) or field.endswith("_order"):
            found[field] = json.dumps(value)
            continue
        entries = cast("list[object]", value)
        of_streams = field in ("staged", "padding", "as_source")
        for n, entry in enumerate(entries):
            named = not of_streams and len(entries) == len(labels)
            found[f"{field} {labels[n] if named else n}"] = json.dumps(entry)
    return found


def importance_picture(shares: Mapping[str, float]) -> Picture:
    """A bar for each of the parameters that explain most."""
    shown = list(shares.items())[:_MOST_SHOWN]
    height = _TOP + _BAR * len(shown) + 6
    picture = Picture(NARROW, height, "Share of the variance of log time that parameters explain")
    room = picture.width - _LEFT - _RIGHT
    for place, (name, share) in enumerate(shown):
        y = _TOP + _BAR * place
        picture.text(_LEFT - 6, y + 11, name, "", "end", most=20)
        picture.box(_LEFT, y + 2, room, _BAR - 5, "cell")
        picture.box(_LEFT, y + 2, room * share, _BAR - 5, "bar")
        picture.text(picture.width - 2, y + 11, f"{100 * share:.0f} %", "", "end")
    return picture
