"""Random einsums on arrays of random layouts, and the memory that they lie in."""

from __future__ import annotations

import ctypes
import math
import mmap
import random
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from mdtensor.specs import TensorSpec, kind_of
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import MDHom

POISON = 0xA5
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 64, 65, 97, 257)
INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FLOATS = ("f2", "f4", "f8")
BFLOAT = np.dtype(ml_dtypes.bfloat16).name
_BESIDE = (BFLOAT, "float32", "float64")
DTYPES = ("?", *INTEGERS, *FLOATS, "c8", "c16")
POINTS = 60000


@dataclass(frozen=True)
class Operand:
    """An array: its shape and type, and how it lies in memory.

    `order` lists the axes, outermost in memory first; along axis n neighbours are `steps[n]`
    places apart (0: the axis is broadcast) and `pads[n]` places follow. `at_end` puts it at the end
    of the accessible memory, else it is at its start, `offset` elements on.
    """

    dtype: str
    shape: tuple[int, ...]
    order: tuple[int, ...]
    steps: tuple[int, ...]
    pads: tuple[int, ...]
    at_end: bool = False
    offset: int = 0
    readonly: bool = False

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        return self._laid_out()[0]

    @property
    def first(self) -> int:
        """Position of the element at index 0 among the elements of the span."""
        return sum(-s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True) if s < 0)

    @property
    def span(self) -> int:
        """Elements from the lowest to the highest address, inclusive."""
        pairs = zip(self.strides, self.shape, strict=True)
        return 1 + sum(abs(s) * (n - 1) for s, n in pairs)

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec.of(self.shape, self.dtype, self.strides)

    def _laid_out(self) -> tuple[tuple[int, ...], int]:
        strides, place = [0] * len(self.shape), 1
        for axis in reversed(self.order):
            strides[axis] = self.steps[axis] * place
            if self.steps[axis]:
                place *= (self.shape[axis] - 1) * abs(self.steps[axis]) + 1 + self.pads[axis]
        return tuple(strides), place


@dataclass(frozen=True)
class Einsum:
    """An einsum on operands, into an output; `dtype` and `precision` are options or None."""

    text: str
    operands: tuple[Operand, ...]
    out: Operand
    dtype: str | None = None
    precision: str | None = None

    def md_hom(self) -> MDHom:
        specs = [operand.spec for operand in self.operands]
        return md_hom_from_einsum(
            self.text, specs, dtype=self.dtype, precision=self.precision, out=self.out.spec
        )


def random_einsum(
    rng: random.Random, choices: Sequence[int] = EXTENTS, most: int = POINTS
) -> Einsum:
    """One to three operands of at most four axes each, zero to five dims.

    Extents are among `choices`, and their product is no more than `most`.
    """
    dtypes = random_dtypes(rng)
    rank = rng.choices(range(6), weights=(1, 3, 6, 8, 4, 2))[0]
    letters = rng.sample(string.ascii_letters, rank)
    extents = random_extents(rng, letters, choices, most)
    terms: list[list[str]] = []
    for _ in dtypes:
        fewest = min(len(letters), rng.choice((0, 1, 1, 2, 2, 2)))
        term = rng.sample(letters, rng.randint(fewest, min(4, len(letters))))
        if term and rng.random() < 0.1:
            term.insert(rng.randint(0, len(term)), rng.choice(term))
        terms.append(term)
    used = list(dict.fromkeys(letter for term in terms for letter in term))
    kept = rng.sample(used, rng.randint(0, len(used)))
    shapes = [_shape(rng, term, extents) for term in terms]
    known: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, extent in zip(term, shape, strict=True):
            known[letter] = max(extent, known.get(letter, 1))
    computed, dtype = np.result_type(*dtypes), None
    if rng.random() < 0.1:
        candidates = [d for d in DTYPES if np.can_cast(computed, d, "same_kind") and d != "f2"]
        dtype = rng.choice(candidates)
        computed = np.dtype(dtype)
    stored = computed.str[1:] if computed.kind != "b" else "?"
    if rng.random() < 0.15:
        stored = rng.choice([d for d in DTYPES if np.can_cast(computed, d, "same_kind")])
    return Einsum(
        ",".join("".join(term) for term in terms) + "->" + "".join(kept),
        tuple(
            random_layout(rng, given, shape, broadcast=True)
            for given, shape in zip(dtypes, shapes, strict=True)
        ),
        random_layout(rng, stored, tuple(known[letter] for letter in kept), broadcast=False),
        dtype,
    )


def of_bfloats(rng: random.Random, einsum: Einsum) -> Einsum:
    """An einsum with bfloat16 for its types: all of them, or some beside float32 and float64."""
    count = len(einsum.operands)
    given = [BFLOAT] * count if rng.random() < 0.7 else rng.choices(_BESIDE, k=count)
    computed = np.result_type(*map(np.dtype, given)).name
    stored = computed if rng.random() < 0.7 else rng.choice(_BESIDE)
    operands = zip(einsum.operands, given, strict=True)
    return replace(
        einsum,
        operands=tuple(replace(operand, dtype=dtype) for operand, dtype in operands),
        out=replace(einsum.out, dtype=stored),
        dtype=None,
    )


def random_dtypes(rng: random.Random) -> list[str]:
    """The types of the operands: mostly one type, sometimes a mixture."""
    count = rng.choice((1, 2, 2, 2, 3))
    if rng.random() < 0.2:
        return [rng.choice(DTYPES) for _ in range(count)]
    favourite = rng.choice(("f4", "f4", "f4", "f8", *DTYPES))
    return [favourite] * count


def random_extents(
    rng: random.Random,
    letters: list[str],
    choices: Sequence[int] = EXTENTS,
    most: int = POINTS,
) -> dict[str, int]:
    """Extents whose product stays small enough for an oracle in NumPy."""
    while True:
        extents = {letter: rng.choice(choices) for letter in letters}
        if math.prod(extents.values()) <= most:
            return extents


def _shape(rng: random.Random, term: list[str], extents: dict[str, int]) -> tuple[int, ...]:
    """The extents of a term's axes, some of them 1 to broadcast."""
    own = {letter: 1 if rng.random() < 0.08 else extents[letter] for letter in term}
    return tuple(own[letter] for letter in term)


def random_layout(
    rng: random.Random, dtype: str, shape: tuple[int, ...], *, broadcast: bool
) -> Operand:
    """C order half of the time; else permuted, sliced, reversed, padded or broadcast."""
    rank = len(shape)
    kind = rng.choice(("C", "C", "C", "F", "permuted", "strange"))
    order = list(range(rank))
    if kind == "F":
        order.reverse()
    elif kind != "C":
        rng.shuffle(order)
    steps, pads = [1] * rank, [0] * rank
    if kind == "strange":
        choices = (1, 1, 2, 3, -1, -1, -2, *((0,) if broadcast else ()))
        steps = [rng.choice(choices) for _ in range(rank)]
        pads = [rng.choice((0, 0, 1, 3)) for _ in range(rank)]
    return Operand(
        dtype,
        shape,
        tuple(order),
        tuple(steps),
        tuple(pads),
        at_end=rng.random() < 0.5,
        offset=rng.choice((0, 0, 1, 3)),
        readonly=broadcast and rng.random() < 0.2,
    )


def element_values(operand: Operand, rng: np.random.Generator, *, small: bool) -> np.ndarray:
    """Random elements: integers of the full range unless `small`, floats between -1 and 1."""
    dtype = np.dtype(operand.dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, operand.shape).astype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low, high = (max(info.min, -9), 9) if small else (info.min, info.max)
        return rng.integers(low, high, operand.shape, dtype, endpoint=True)
    values = rng.uniform(-1, 1, operand.shape)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(-1, 1, operand.shape)
    return np.asarray(values).astype(dtype)


class Placed:
    """An operand in memory of its own, between pages that nobody may touch.

    All bytes that are not elements are poison; `strays` lists those that changed.
    """

    def __init__(self, operand: Operand, values: np.ndarray | None) -> None:
        dtype = np.dtype(operand.dtype)
        start = 0 if operand.at_end else operand.offset * dtype.itemsize
        nbytes = operand.span * dtype.itemsize
        self.memory = guarded(start + nbytes)
        self.memory[:] = POISON
        start = self.memory.size - nbytes if operand.at_end else start
        strides = tuple(stride * dtype.itemsize for stride in operand.strides)
        first = start + operand.first * dtype.itemsize
        self.array = np.ndarray(operand.shape, dtype, self.memory.data, first, strides)
        self._poison(dtype, start, nbytes)
        if values is None:
            self.array[...] = np.nan if kind_of(dtype) in "fc" else _poisoned(dtype)
        else:
            self._write(values)
        self.before = self.memory.copy()
        self.array.flags.writeable = not operand.readonly
        self._span = (operand, start)

    def _poison(self, dtype: np.dtype, start: int, nbytes: int) -> None:
        """Gaps between elements hold NaN, so that a float read from them shows."""
        if kind_of(dtype) in "fc":
            self.memory[start : start + nbytes].view(dtype)[:] = np.nan

    def _write(self, values: np.ndarray) -> None:
        # A broadcast axis has one element: the last value written there is the one that counts.
        steps = self.array.strides
        once = tuple(slice(0, 1) if not step else slice(None) for step in steps)
        self.array[once] = values[once]

    def strays(self) -> int:
        """Number of bytes outside of the elements that have changed."""
        operand, start = self._span
        dtype = np.dtype(operand.dtype)
        elements = np.ndarray(
            operand.shape,
            dtype,
            memory := self.before.copy(),
            start + operand.first * dtype.itemsize,
            self.array.strides,
        )
        elements[...] = self.array
        return int(np.count_nonzero(memory != self.memory))

    def changed(self) -> int:
        """Number of bytes that have changed, elements or not."""
        return int(np.count_nonzero(self.before != self.memory))

    def restore(self) -> None:
        """Brings back the bytes as they were at first."""
        self.memory[:] = self.before


def _poisoned(dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "b":
        return np.ones((), dtype)
    return np.full(dtype.itemsize, POISON, np.uint8).view(dtype)[0]


def guarded(nbytes: int) -> np.ndarray:
    """Whole pages of at least `nbytes` bytes, between two pages that nobody may touch."""
    page = mmap.PAGESIZE
    room = math.ceil(max(1, nbytes) / page) * page
    whole = np.frombuffer(mmap.mmap(-1, room + 2 * page), np.uint8)
    _protect(whole, 0, page)
    _protect(whole, page + room, page)
    return whole[page : page + room]


def _protect(whole: np.ndarray, offset: int, nbytes: int) -> None:
    """Takes all rights from some pages, where the system can."""
    protect = getattr(ctypes.CDLL(None), "mprotect", None)
    if protect is not None:
        address = ctypes.c_void_p(whole.ctypes.data + offset)
        if protect(address, ctypes.c_size_t(nbytes), 0):
            raise OSError("mprotect failed")
