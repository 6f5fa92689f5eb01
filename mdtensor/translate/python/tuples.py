"""One value, or several in a tuple, as users write them."""

from __future__ import annotations

from typing import Any

from mdtensor.options import is_sequence


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A tuple or a list as a tuple, anything else as the tuple of it alone.

    >>> as_tuple([1, 2]), as_tuple("ab")
    ((1, 2), ('ab',))
    """
    return tuple(value) if is_sequence(value) else (value,)
