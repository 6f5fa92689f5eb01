"""Values of ours as text, for a child of this process or its parent, and nobody else."""

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
