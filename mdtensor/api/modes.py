"""Tuning modes: whether calls use what the store knows, are recorded, or are tuned."""

from __future__ import annotations

_mode = "cached"


def current_mode() -> str:
    """One of "off", "cached", "record" and "tune"."""
    return _mode
