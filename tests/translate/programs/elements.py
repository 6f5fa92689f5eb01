"""What plain Python computes with in the place of arrays: NumPy's scalars, tuples and strings.

Records and sub-arrays of NumPy compare element by element; here they compare as the documentation
says, whole. Strings keep the length of their type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def element(value: Any, dtype: np.dtype) -> Any:
    """An element of an array of a type, as a program holds it."""
    if dtype.names is not None:
        return Record({name: element(value[name], dtype[name]) for name in dtype.names})
    if dtype.subdtype is not None:
        inner = np.dtype((dtype.base, dtype.shape[1:]))
        return SubArray([element(one, inner) for one in value])
    if dtype.kind == "S":
        return Text(bytes(value).ljust(dtype.itemsize, b"\0"))
    return value


class Record:
    """Fields by name, attribute and position."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def __getitem__(self, key: Any) -> Any:
        return self.fields[list(self.fields)[key] if isinstance(key, int) else key]

    def __getattr__(self, name: str) -> Any:
        return self.fields[name]

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fields.values())

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Record)
        return all(bool(a == b) for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class SubArray(list[Any]):
    """An array in a record."""

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, SubArray)
        return all(bool(a == b) for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class Text(bytes):
    """A string of fixed length, whose zeros at the end do not count."""

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return found if isinstance(found, int) else Text(found)

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, bytes)
        return self.rstrip(b"\0") == other.rstrip(b"\0")

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]
