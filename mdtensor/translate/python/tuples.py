"""Normalisation of single values and sequences to tuples."""

from __future__ import annotations

from typing import Any

from mdtensor.options import is_sequence


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A tuple or list as a tuple, anything else as a 1-tuple.

    >>> as_tuple([1, 2]), as_tuple("ab")
    ((1, 2), ('ab',))
    """
    return tuple(value) if is_sequence(value) else (value,)
