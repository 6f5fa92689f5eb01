"""What random calls are made of: arrays in any layout, and the comparison with a reference."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.workers import MismatchError

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FLOATS = ("f2", "f4", "f8")
COMPLEX = ("c8", "c16")
DTYPES = ("?", *INTEGERS, *FLOATS, *COMPLEX)
COMMON = ("f4", "f4", "f8", "i4", "i8")
EXTENTS = (1, 2, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64)
POISON = 0xA5
_STEPS = (1, 1, 1, 1, 2, 3, -1, -1, -2)


@dataclass
class Memory:
    """Bytes in which arrays lie, as they were."""

    data: np.ndarray
    before: np.ndarray
    written: np.ndarray

    def may_change(self, array: np.ndarray) -> None:
        """Lets a call write to the elements of an array that lies here."""
        first = array.__array_interface__["data"][0] - self.data.__array_interface__["data"][0]
        size = array.dtype.itemsize
        places = as_strided(self.written[first:], (*array.shape, size), (*array.strides, 1))
        places[...] = True

    def check(self) -> None:
        """Raises MismatchError where bytes have changed that should not."""
        strays = (self.data != self.before) & ~self.written
        if strays.any():
            places = np.flatnonzero(strays)
            raise MismatchError(f"{places.size} bytes were overwritten, the first at {places[0]}")


@dataclass
class Draw:
    """What decides a case, and what the case says of itself."""

    rng: random.Random
    said: list[str] = field(default_factory=list[str])
    memories: list[Memory] = field(default_factory=list[Memory])

    def say(self, text: str) -> None:
        """Notes a step of the case, for the message of its failure."""
        self.said.append(text)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def extents(self, count: int, most: int, zero: float = 0.0) -> list[int]:
        """So many extents with a product of at most `most`."""
        while True:
            drawn = [self.rng.choice(EXTENTS) for _ in range(count)]
            if np.prod([1, *drawn]) <= most:
                break
        return [0 if self.chance(zero) else extent for extent in drawn]

    def dtypes(self, count: int) -> list[str]:
        """Types of operands: mostly one of the common ones for all, else any mixture."""
        if self.chance(0.6):
            return [self.rng.choice(COMMON)] * count
        if self.chance(0.5):
            return [self.rng.choice(DTYPES)] * count
        return [self.rng.choice(DTYPES) for _ in range(count)]

    def values(self, shape: Sequence[int], dtype: Any, *, small: bool = True) -> np.ndarray:
        """Random elements; small ones are whole numbers near 0, of which sums are exact."""
        given = np.dtype(dtype)
        rng = np.random.default_rng(self.rng.getrandbits(32))
        if given.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        if given.kind in "iu" and not small:
            info = np.iinfo(given)
            return rng.integers(info.min, info.max, shape, given, endpoint=True)
        low = 0 if given.kind == "u" else -2
        if given.kind == "c":
            return (rng.integers(low, 3, shape) + 1j * rng.integers(low, 3, shape)).astype(given)
        return rng.integers(low, 4, shape).astype(given)

    def array(
        self,
        shape: Sequence[int],
        dtype: Any,
        *,
        small: bool = True,
        odd: float = 0.4,
        target: bool = False,
    ) -> np.ndarray:
        """An array of random elements, with the chance `odd` in an odd layout.

        A `target` is written to: its elements have places of their own.
        """
        values = self.values(shape, dtype, small=small)
        array = self.placed(values) if not self.chance(odd) else self.laid_out(values, target)
        self.say(f"{'target' if target else 'array'} {array.dtype}{array.shape} {array.strides}")
        if not target and self.chance(0.1):
            array.flags.writeable = False
        return array

    def placed(self, values: np.ndarray) -> np.ndarray:
        """The values in C order, in memory of their own."""
        return self._in_memory(values, 0, np.empty(values.shape, values.dtype).strides, 0)

    def laid_out(self, values: np.ndarray, target: bool) -> np.ndarray:
        """The values in memory of any strides: negative, 0, with gaps, or not aligned."""
        size, shape, rng = values.itemsize, values.shape, self.rng
        order = list(range(values.ndim))
        if self.chance(0.6):
            rng.shuffle(order)
        strides, place = [0] * values.ndim, size
        plain = self.chance(0.4)
        for axis in reversed(order):
            step = 1 if plain else rng.choice(_STEPS)
            if not target and not plain and self.chance(0.08):
                step = 0
            strides[axis] = step * place
            if step:
                pad = 0 if plain else rng.choice((0, 0, 1, 3))
                place *= max(0, shape[axis] - 1) * abs(step) + 1 + pad
        offset = rng.choice((0, 0, 1, 3)) * size
        if self.chance(0.15):
            offset += 1  # not aligned
        if self.chance(0.03) and size > 1 and values.ndim:
            strides[order[0]] += size // 2 if strides[order[0]] > 0 else 0
        return self._in_memory(values, offset, strides, rng.choice((0, 0, size, 5 * size)))

    def _in_memory(
        self, values: np.ndarray, offset: int, strides: Sequence[int], after: int
    ) -> np.ndarray:
        pairs = list(zip(strides, values.shape, strict=True))
        first = offset + sum(-s * (n - 1) for s, n in pairs if s < 0 and n)
        span = sum(abs(s) * (n - 1) for s, n in pairs if n) + values.itemsize
        # Whole items, so that an offset of 0 is an aligned one.
        data = np.full(offset + span + after + 16, POISON, np.uint8)
        typed = data[first : first + values.itemsize].view(values.dtype)
        array = as_strided(typed, values.shape, strides)
        array[...] = values
        self.memories.append(Memory(data, data.copy(), np.zeros(len(data), bool)))
        return array

    def memory_of(self, array: np.ndarray) -> Memory:
        """The memory that an array lies in."""
        return next(m for m in self.memories if np.may_share_memory(m.data, array))

    def may_change(self, array: np.ndarray) -> None:
        """Lets a call write to an array."""
        if array.size:
            self.memory_of(array).may_change(array)

    def finished(self) -> None:
        """Checks all memory, and forgets it."""
        for memory in self.memories:
            memory.check()
        self.memories.clear()


@dataclass(frozen=True)
class Outcome:
    """What a call gave: a value, or an error."""

    value: Any = None
    error: Exception | None = None


def outcome_of(call: Callable[[], Any]) -> Outcome:
    """What comes of a call; NumPy's warnings are no concern of the comparison."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return Outcome(call())
        except (MismatchError, MemoryError):
            raise
        except Exception as error:
            return Outcome(None, error)


def same_outcome(ours: Outcome, theirs: Outcome) -> bool:
    """Whether both gave a value. Raises MismatchError where only one did, or errors differ."""
    if theirs.error is None and ours.error is None:
        return True
    if theirs.error is None:
        raise MismatchError(f"refused: {ours.error!r}") from ours.error
    if ours.error is None:
        raise MismatchError(f"a value where there should be {theirs.error!r}")
    kinds = ((ValueError, OverflowError), TypeError, IndexError, RuntimeError)
    if not type(ours.error).__module__.startswith("mdtensor"):
        raise MismatchError(f"an error of no class of ours: {ours.error!r}") from ours.error
    if not any(isinstance(ours.error, k) and isinstance(theirs.error, k) for k in kinds):
        raise MismatchError(f"{ours.error!r} where the reference raises {theirs.error!r}")
    return False


def same_values(found: Any, expected: Any, bound: Any = None, *, exact_type: bool = True) -> None:
    """Raises MismatchError where arrays differ in type, shape or elements.

    `bound` is how far elements may be apart, a number or an array; None for not at all.
    """
    if isinstance(expected, tuple):
        if not isinstance(found, tuple) or len(found) != len(expected):
            raise MismatchError(f"{type(found)} where {len(expected)} results are expected")
        for one, other in zip(found, expected, strict=True):
            same_values(one, other, bound, exact_type=exact_type)
        return
    if exact_type and isinstance(found, np.ndarray) != isinstance(expected, np.ndarray):
        raise MismatchError(f"{type(found)} where {type(expected)} is expected")
    got, want = np.asarray(found), np.asarray(expected)
    if got.shape != want.shape:
        raise MismatchError(f"shape {got.shape} where {want.shape} is expected")
    if exact_type and got.dtype != want.dtype:
        raise MismatchError(f"type {got.dtype} where {want.dtype} is expected")
    if got.dtype.kind in "fc" or want.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            wide = np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.float64
            far = np.abs(got.astype(wide) - want.astype(wide))
            wrong = (far > (0 if bound is None else bound)) | np.isnan(far)
        wrong &= ~((got == want) | (np.isnan(got) & np.isnan(want)))
        if wide is np.complex128:  # products that overflow go on with infinity times nothing
            wrong &= ~(np.isinf(want) & ~np.isfinite(got))
    else:
        wrong = got != want
    if wrong.any():
        place = tuple(int(n) for n in np.argwhere(wrong)[0])
        raise MismatchError(
            f"{int(wrong.sum())} of {got.size} elements differ, first {got[place]!r} at {place}"
            f" where {want[place]!r} is expected"
        )
