"""The spelling of vector slices and concatenations, in dialects with vectors."""

from __future__ import annotations

from mdtensor.kernels.dialect import Dialect

LANES = "0123456789abcdef"


def lanes_text(text: str, count: int, start: int, lanes: int, dialect: Dialect) -> str:
    """The text of `lanes` lanes, from `start` on, of a vector of `count` lanes."""
    half = count // 2
    if lanes == half and start in (0, half) and lanes > 1:
        return f"{text}.{'hi' if start else 'lo'}"
    if count > len(dialect.lanes):
        part, first = ("hi", half) if start >= half else ("lo", 0)
        return lanes_text(f"{text}.{part}", half, start - first, lanes, dialect)
    if lanes == 1:
        return f"{text}.{dialect.lane_prefix}{dialect.lanes[start]}"
    return f"{text}.s{LANES[start : start + lanes]}"


def shifted_parts(text: str, lanes: int, by: int) -> list[str]:
    """The first `lanes - by` lanes of a vector, as slices of power-of-two length."""
    parts: list[str] = []
    start = 0
    while start < lanes - by:
        length = 1 << ((lanes - by - start).bit_length() - 1)
        parts.append(f"{text}.s{LANES[start : start + length]}")
        start += length
    return parts
