"""Pickling of values as text, for the child or the parent of this process only."""

from __future__ import annotations

import base64
import pickle
from typing import Any


def packed(value: object) -> str:
    """The text of a value."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpacked(text: str) -> Any:
    """The value of a text."""
    return pickle.loads(base64.b64decode(text))
