"""Ragged batches: arrays of different lengths along one axis, stored back to back."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from mdtensor.errors import DTypeError, IndexingError, ShapeError, shown
from mdtensor.forks import cached_property

_HOW = "ragged([a, b, …]) or ragged(values, offsets)"
_WITHIN = np.iinfo(np.int32).max  # numbers of sequences are stored in int32 up to there


class Offsets:
    """The offsets of a batch's sequences among its values, and their lengths and rows, cached.

    Batches that share one such object need not be compared.
    """

    def __init__(self, offsets: np.ndarray) -> None:
        self.array = offsets
        self.array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.array) - 1

    def equals(self, other: Offsets) -> bool:
        """Whether two objects hold the same offsets."""
        return self is other or np.array_equal(self.array, other.array)

    @cached_property
    def lengths(self) -> np.ndarray:
        """The length of each sequence; read-only."""
        lengths = np.diff(self.array)
        lengths.flags.writeable = False
        return lengths

    @cached_property
    def longest(self) -> int:
        """The greatest length, 0 where there are no sequences."""
        return int(self.lengths.max(initial=0))

    @cached_property
    def rows(self) -> np.ndarray:
        """The sequence number of each value."""
        numbers = np.arange(len(self), dtype=np.int32 if len(self) <= _WITHIN else np.int64)
        return np.repeat(numbers, self.lengths)


class Ragged:
    """A ragged batch: the values of all sequences back to back, with each sequence's offset.

    Sequence n is `values[offsets[n] : offsets[n + 1]]`. Its axes are the batch, the axis along
    which sequences differ, and the further axes of the values. `ragged` makes such batches.
    """

    # Operators of NumPy's arrays leave it alone instead of taking it for an array of objects.
    __array_ufunc__ = None

    def __init__(self, values: np.ndarray, offsets: Offsets) -> None:
        self._values = values
        self.shared_offsets = offsets

    @property
    def values(self) -> np.ndarray:
        """The values of all sequences, back to back."""
        return self._values

    @property
    def offsets(self) -> np.ndarray:
        """The offset of each sequence, and the end of the last one: int64, read-only."""
        return self.shared_offsets.array

    @property
    def lengths(self) -> np.ndarray:
        """The length of each sequence: int64, read-only."""
        return self.shared_offsets.lengths

    @property
    def dtype(self) -> np.dtype:
        """The type of the values."""
        return self._values.dtype

    @property
    def ndim(self) -> int:
        """The number of axes: batch, sequence, and those of a value."""
        return self._values.ndim + 1

    def with_values(self, values: Any) -> Ragged:
        """A batch of the same lengths with other values, which may have other further axes.

        Raises ShapeError where there are not as many.
        """
        given = _as_values(values)
        if len(given) != len(self._values):
            raise ShapeError(
                f"{len(given)} values for sequences of {len(self._values)} in all",
                hint="values are those of all sequences, one behind the other",
            )
        return Ragged(given, self.shared_offsets)

    def padded(self, fill: Any = 0) -> np.ndarray:
        """A dense array of all sequences, the shorter ones padded with `fill`.

        Its shape is (sequences, longest length, further axes).
        """
        offsets = self.shared_offsets
        dense = np.full((len(offsets), offsets.longest, *self._values.shape[1:]), fill, self.dtype)
        within = np.arange(len(self._values)) - self.offsets[offsets.rows]
        dense[offsets.rows, within] = self._values
        return dense

    def __len__(self) -> int:
        return len(self.shared_offsets)

    def __getitem__(self, index: Any) -> Any:
        """Sequence number `index`, a view; for a slice without step, the batch of those sequences.

        Raises IndexingError (an IndexError) where there is no such sequence.
        """
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            if step != 1:
                raise IndexingError(
                    f"step {shown(step)} of a slice of sequences",
                    hint="ragged([r[n] for n in …]) copies chosen sequences",
                )
            offsets = self.offsets[first : max(first, last) + 1]
            values = self._values[offsets[0] : offsets[-1]]
            return Ragged(values, Offsets(offsets - offsets[0]))
        try:
            number = operator.index(index)
        except TypeError:
            raise IndexingError(
                f"{shown(index)} is no number of a sequence",
                hint="r[n][…] indexes the array of sequence n",
            ) from None
        if not -len(self) <= number < len(self):
            raise IndexingError(f"there is no sequence {number} among {len(self)}")
        number %= len(self)
        return self._values[self.offsets[number] : self.offsets[number + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[n] for n in range(len(self)))

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise DTypeError(
            "a ragged batch is no array",
            hint="r.values has its elements, r.padded(fill) is dense, r[n] is sequence n",
        )

    def __repr__(self) -> str:
        count, longest = len(self), self.shared_offsets.longest
        shortest = int(self.lengths.min(initial=longest))
        lengths = str(longest) if shortest == longest else f"{shortest}..{longest}"
        axes = ", ".join(map(str, (count, lengths, *self._values.shape[1:])))
        return f"Ragged({axes}; {self.dtype.name})"


def ragged(values: Any, offsets: Any = None) -> Ragged:
    """A ragged batch of arrays that differ in length along their first axis.

    `values` is a list of arrays, which are copied; or, with `offsets`, an array that has them one
    behind the other: sequence n is `values[offsets[n] : offsets[n + 1]]`. Offsets are integers that
    begin with 0, do not fall, and end with the number of values.

    Raises ShapeError for arrays that differ in further axes and for offsets that do not fit,
    DTypeError for what is no array or has offsets that are no integers.

    >>> r = ragged([[1.0, 2.0], [], [3.0]])
    >>> r.values, r.offsets, r.lengths
    (array([1., 2., 3.]), array([0, 2, 2, 3]), array([2, 0, 1]))
    >>> r, r[0], ragged(np.ones((5, 2)), [0, 1, 5])
    (Ragged(3, 0..2; float64), array([1., 2.]), Ragged(2, 1..4, 2; float64))
    """
    if isinstance(values, Ragged):
        raise DTypeError("a ragged batch is given to ragged", hint="r.with_values(values)")
    if offsets is not None:
        given = _as_values(values)
        return Ragged(given, Offsets(_as_offsets(offsets, len(given))))
    if not isinstance(values, Sequence):
        raise DTypeError(f"{type(values).__name__} without offsets is no list of arrays", hint=_HOW)
    listed = cast("Sequence[Any]", values)
    arrays = [_as_values(each, f"array {n}") for n, each in enumerate(listed)]
    # An empty list has neither a type nor further axes of its own.
    known = [a for a, each in zip(arrays, listed, strict=True) if a.size or hasattr(each, "dtype")]
    known = known or arrays
    for array in known:
        if array.shape[1:] != known[0].shape[1:]:
            raise ShapeError(
                f"arrays of shapes {known[0].shape} and {array.shape} in one batch",
                hint="arrays of a batch differ in length along the first axis alone",
            )
    ends = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
    try:
        joined = np.concatenate(known) if known else np.empty(0)
    except TypeError as error:
        types = ", ".join(dict.fromkeys(str(array.dtype) for array in known))
        raise DTypeError(
            f"arrays of {types} in one batch", hint="convert them to one type"
        ) from error
    return Ragged(joined, Offsets(ends))


def _as_values(given: Any, name: str = "values") -> np.ndarray:
    """An array with one axis at least.

    Raises DTypeError for what NumPy does not take, and for masked arrays, ShapeError for numbers
    and for lists whose parts differ in length.
    """
    if isinstance(given, np.ma.MaskedArray):
        raise DTypeError(f"{name} is a masked array", hint="fill it by a.filled(…)")
    try:
        array = np.asarray(given)
    except (BufferError, OverflowError, RuntimeError, TypeError) as error:
        raise DTypeError(
            f"{name} is a {type(given).__name__} that numpy does not take: {error}",
            hint="ragged batches hold arrays of NumPy",
        ) from error
    except ValueError as error:
        raise ShapeError(
            f"{name} is a {type(given).__name__} that is no array: {error}", hint=_HOW
        ) from error
    if array.ndim == 0:
        raise ShapeError(f"{name} has no axis: {shown(given)}", hint=_HOW)
    return array


def _as_offsets(given: Any, count: int) -> np.ndarray:
    """A copy of offsets as int64, checked against the number of values."""
    array = _as_values(given, "offsets")
    if array.dtype.kind not in "iu" and array.size:
        raise DTypeError(f"offsets are {array.dtype.name}, not integers", hint=_HOW)
    if array.ndim != 1 or not array.size:
        raise ShapeError(
            f"offsets have shape {array.shape}",
            hint="one number for each sequence, and the number of values at the end",
        )
    offsets = array.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != count:
        raise ShapeError(
            f"offsets run from {offsets[0]} to {offsets[-1]} for {count} values",
            hint="they begin with 0 and end with the number of values",
        )
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])
    if falls.size:
        n = int(falls[0])
        raise ShapeError(
            f"offsets fall from {offsets[n]} to {offsets[n + 1]} at {n + 1}",
            hint="each sequence begins where the one before it ends",
        )
    return offsets
