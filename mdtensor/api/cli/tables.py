"""Tables on standard output, with formatted units."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

# Where nobody looks at a terminal, lines are as long as they need to be.
_FILE_WIDTH = 240


def show(table: Table) -> None:
    """Print a table; outside of a terminal, without colours and at full width."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=_FILE_WIDTH)
    console.print(table)


def size(nbytes: int) -> str:
    """A byte count as text, in the largest unit that keeps it whole, or with one decimal.

    >>> size(49152), size(33554432), size(1500), size(300)
    ('48 KiB', '32 MiB', '1.5 KiB', '300 B')
    """
    value, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"


def ago(seconds: float, now: float | None = None) -> str:
    """The time since a moment, as text; moments are in seconds since 1970.

    >>> ago(0, 5), ago(0, 130), ago(0, 7200), ago(0, 200_000)
    ('5 s ago', '2 min ago', '2 h ago', '2 days ago')
    """
    passed = max(0.0, (time.time() if now is None else now) - seconds)
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if passed >= length * (2 if unit == "days" else 1):
            return f"{passed // length:.0f} {unit} ago"
    return f"{passed:.0f} s ago"
