"""Where mdtensor keeps files."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """`MDTENSOR_CACHE_DIR`, else `mdtensor` in the user's cache directory; it may not exist yet.

    Users of containers may have no home: theirs is a place where nothing can be.
    """
    if chosen := os.environ.get("MDTENSOR_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    return (Path(base) if Path(base).is_absolute() else _home() / ".cache") / "mdtensor"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)
