"""What searches of two budgets found, as a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

NEAR = 1.05


def table_of(
    out: Path, cases: Sequence[str], short: str, long: str, stem: Callable[[str, str], str]
) -> str:
    """A row for each case of which both searches are there, or one of them."""

    def read(case: str, what: str) -> Any:
        path = out / f"{stem(case, what)}.json"
        return json.loads(path.read_text()) if path.exists() else None

    head = (
        f"| case | {short} s, µs | {long} s, µs | ratio | trials | | near after, s | | start, s"
        " | waiting | measuring | other | commits |"
    )
    rows = [head, "|---|" + "--:|" * 11 + "---|"]
    for case in cases:
        found = [read(case, short), read(case, long)]
        if any(found):
            rows.append(_row(case, found, read(case, "compared")))
    return "\n".join(rows)


def _row(case: str, found: Sequence[Any], compared: Any) -> str:
    seconds = compared["seconds"] if compared else [_best(one) for one in found]
    ratio = f"{seconds[0] / seconds[1]:.3f}" if None not in seconds else ""
    if not compared:
        ratio = f"({ratio})" if ratio else ""
    known = [each for each in map(_best, found) if each is not None]
    cells = [
        *("" if each is None else f"{each * 1e6:.2f}" for each in seconds),
        ratio,
        *("" if one is None else str(_count(one)) for one in found),
        *("" if one is None else _after(one, NEAR * min(known)) for one in found),
    ]
    first = found[0] or found[1]
    for part in (("start", "opening"), ("compiling",), ("measuring", "confirming"), ("other",)):
        total = sum(p["spent"].get(name, 0.0) for p in first["programs"] for name in part)
        cells.append(f"{total:.1f}")
    commits = [one.get("commit", "") for one in found if one is not None]
    cells.append(", ".join(dict.fromkeys(filter(None, commits))))
    return f"| {case} | " + " | ".join(cells) + " |"


def _best(one: Any) -> float | None:
    """The seconds of a search's winners by its own clock."""
    return None if one is None else sum(program["best"] for program in one["programs"])


def _count(one: Any) -> int:
    return sum(len(program["trials"]) for program in one["programs"])


def _after(one: Any, seconds: float) -> str:
    """When a search of one program had found something as fast as that."""
    (program, *others) = one["programs"]
    if others:
        return ""
    times = [at for at, status, each, *_ in program["trials"] if status == "ok" and each <= seconds]
    return f"{times[0]:.1f}" if times else "never"
