"""Values that a kernel computes: variables, constants, loads, operations, lanes of vectors.

They are typed by element type and number of lanes.
"""

from __future__ import annotations

import math
from dataclasses import field

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.register_types import register_dtype


@dataclass(frozen=True, slots=True)
class Ref:
    """A variable."""

    name: str
    dtype: np.dtype
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; 0.0 and -0.0 compare equal, and differ in `sign`."""

    value: bool | int | float
    dtype: np.dtype
    lanes: int = 1
    sign: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sign", math.copysign(1, self.value))


@dataclass(frozen=True, slots=True)
class Load:
    """`lanes` elements of a buffer, `stride` apart, from `index` on; lanes beyond `valid` are 0.

    The value has the register type of the buffer's elements (see `register_dtype`).
    """

    buffer: str
    memory: np.dtype
    index: Index
    lanes: int = 1
    stride: Index | int = 1
    valid: int = 0

    @property
    def dtype(self) -> np.dtype:
        """Type of the loaded value."""
        return register_dtype(self.memory)


@dataclass(frozen=True, slots=True)
class Calc:
    """An operation of `translate.scalar` on values; scalar operands are splat to all lanes."""

    op: str
    args: tuple[Value, ...]
    dtype: np.dtype
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Slice:
    """Lanes `start` to `start + lanes` of a vector."""

    value: Value
    start: int
    lanes: int = 1

    @property
    def dtype(self) -> np.dtype:
        """Type of an element."""
        return self.value.dtype


@dataclass(frozen=True, slots=True)
class FromIndex:
    """The value of an index expression as a number."""

    index: Index
    dtype: np.dtype
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Iota:
    """The vector 0, 1, 2, … of `lanes` numbers."""

    dtype: np.dtype
    lanes: int


@dataclass(frozen=True, slots=True)
class Gather:
    """Elements of a buffer at `index` plus the lanes of `places`.

    Only the first `valid` lanes are read where it is not 0; the others are zero.
    """

    buffer: str
    memory: np.dtype
    index: Index
    places: Ref
    valid: int = 0

    @property
    def lanes(self) -> int:
        """Number of elements."""
        return self.places.lanes

    @property
    def dtype(self) -> np.dtype:
        """Type of the loaded values."""
        return register_dtype(self.memory)


@dataclass(frozen=True, slots=True)
class Shift:
    """A vector shifted up by `by` lanes; the first lanes of `fill` move in."""

    value: Value
    by: int
    fill: Value

    @property
    def lanes(self) -> int:
        """Number of lanes, as the shifted value has."""
        return self.value.lanes

    @property
    def dtype(self) -> np.dtype:
        """Type of an element."""
        return self.value.dtype


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A shuffle of two vectors of equal length; `picks` count on into the second one."""

    first: Ref
    second: Ref
    picks: tuple[int, ...]

    @property
    def lanes(self) -> int:
        """Number of lanes of the result."""
        return len(self.picks)

    @property
    def dtype(self) -> np.dtype:
        """Type of an element."""
        return self.first.dtype


@dataclass(frozen=True, slots=True)
class Pack:
    """Scalars of one type packed as memory holds them, for stores only."""

    values: tuple[Value, ...]

    @property
    def lanes(self) -> int:
        """Number of scalars."""
        return len(self.values)

    @property
    def dtype(self) -> np.dtype:
        """Type of a scalar."""
        return self.values[0].dtype


Value = Ref | Literal | Load | Calc | Slice | FromIndex | Iota | Gather | Shift | Shuffle | Pack
