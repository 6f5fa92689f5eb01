"""Parsing and formatting of byte counts, such as "1.5 GB"."""

from __future__ import annotations

import re

from mdtensor.errors import MemoryLimitError, shown

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_MOST = 2.0**63


def bytes_of(given: int | str, name: str = "memory_limit", least: int = 1) -> int:
    """Parse a number of bytes: an int, or a text with a unit such as "512MiB".

    Raises MemoryLimitError for what is none, or less than the least.

    >>> bytes_of("1.5 GB"), bytes_of("64MiB"), bytes_of(4096)
    (1500000000, 67108864, 4096)
    """
    count = given if type(given) is int else -1
    pattern = r"\s*(\d+\.?\d*)\s*([kmgt]i|[kmgt]?)b?\s*"
    if isinstance(given, str) and (found := re.fullmatch(pattern, given.lower())):
        count = int(min(float(found[1]), _MOST) * {**_UNITS, **_BINARY}[found[2]])
    if count < least:
        raise MemoryLimitError(
            f"{name} is {shown(given)}, which is no number of bytes",
            hint=f"{name}='1GB', '512MiB', or a whole number",
        )
    return count


def in_words(count: int) -> str:
    """Format a number of bytes with a decimal unit.

    >>> in_words(1_234_567), in_words(12)
    ('1.23 MB', '12 B')
    """
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"
