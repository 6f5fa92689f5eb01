"""Pickling of values as text, for the child or the parent of this process only."""

from __future__ import annotations

import base64
import pickle
from typing import Any


def packed(value: object) -> str:
    """Pickles a value as text."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpacked(text: str) -> Any:
    """Unpickles a value from its text."""
    return pickle.loads(base64.b64decode(text))
