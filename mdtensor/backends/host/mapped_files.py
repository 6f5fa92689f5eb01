"""Arrays in shared maps of files, read and written by `pread` and `pwrite` instead of the map.

A copy from a map takes a page fault for every few pages, and the disk gets requests as small. A
file's own reads and writes (POSIX `pread`, `pwrite`) have neither, and where the disk is full, or
the file was cut, they raise an error, while a map ends the process. Both see the same pages.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from mdtensor.dataclass import dataclass

_MAPS = Path("/proc/self/maps")  # Linux alone has it
_LEAST = 1 << 16  # bytes in a row for which a call of the system pays


@dataclass(frozen=True, slots=True)
class MappedFile:
    """An open file mapped at addresses `place`, from byte `offset` on."""

    descriptor: int
    place: range
    offset: int

    def close(self) -> None:
        """Close the descriptor; the map stays."""
        os.close(self.descriptor)

    def read(self, source: np.ndarray, target: np.ndarray) -> bool:
        """Copy a mapped array to a contiguous one in memory; False if unsupported."""
        return self._moves(source, target, os.preadv)

    def write(self, source: np.ndarray, target: np.ndarray) -> bool:
        """Copy a contiguous array in memory to a mapped one; False if unsupported."""
        return self._moves(target, source, os.pwritev)

    def _moves(self, mapped: np.ndarray, array: np.ndarray, move: Callable[..., int]) -> bool:
        is_alike = mapped.dtype == array.dtype and mapped.shape == array.shape
        if not is_alike or not array.flags.c_contiguous or not mapped.size:
            return False
        rows = _rows(mapped)
        length = mapped.nbytes // math.prod(mapped.shape[:rows])
        is_worth = length >= _LEAST or length == mapped.nbytes
        low, high = np.lib.array_utils.byte_bounds(mapped)
        if not is_worth or low < self.place.start or high > self.place.stop:
            return False
        memory = memoryview(array.reshape(-1).view(np.uint8).data)
        start = self.offset + mapped.__array_interface__["data"][0] - self.place.start
        for number, skipped in enumerate(_skipped(mapped, rows)):
            part = memory[number * length : (number + 1) * length]
            _whole(move, self.descriptor, part, start + skipped)
        return True


def mapped_file(array: np.ndarray) -> MappedFile | None:
    """Open the file behind an array in a shared map, writable if the map is.

    The caller closes it. None where there is none, or where it can't be told for sure.
    """
    low, high = np.lib.array_utils.byte_bounds(array)
    try:
        lines = _MAPS.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for line in lines:
        words = line.split(maxsplit=5)
        first, last = (int(word, 16) for word in words[0].split("-"))
        if first <= low and high <= last:
            if len(words) < 6 or not words[1].endswith("s"):
                return None
            opened = _opened(words[5], words[4], can_write="w" in words[1])
            if opened is None:
                return None
            return MappedFile(opened, range(first, last), int(words[2], 16))
    return None


def _opened(name: str, inode: str, *, can_write: bool) -> int | None:
    """A descriptor of the file `name`; None if its inode is another one."""
    try:
        descriptor = os.open(name, os.O_RDWR if can_write else os.O_RDONLY)
    except OSError:
        return None
    if os.fstat(descriptor).st_ino == int(inode):
        return descriptor
    os.close(descriptor)
    return None


def _rows(array: np.ndarray) -> int:
    """The number of leading axes with gaps; all others are contiguous."""
    step = array.itemsize
    for axis in reversed(range(array.ndim)):
        if array.shape[axis] > 1 and array.strides[axis] != step:
            return axis + 1
        step *= array.shape[axis]
    return 0


def _skipped(array: np.ndarray, rows: int) -> Iterator[int]:
    """Byte offsets of an array's rows along its first `rows` axes."""
    for index in np.ndindex(array.shape[:rows]):
        yield sum(n * stride for n, stride in zip(index, array.strides, strict=False))


def _whole(move: Callable[..., int], descriptor: int, memory: memoryview, offset: int) -> None:
    """Read or write all of a buffer; OSError if the file ends before."""
    while memory:
        moved = move(descriptor, [memory], offset)
        if moved == 0:
            raise OSError(f"the mapped file has no byte {offset}: it was cut after it was mapped")
        memory, offset = memory[moved:], offset + moved
