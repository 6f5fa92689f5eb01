"""Descriptions of arrays (TensorSpec) and devices (Target), without the objects themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, ShapeError, shown

_MOST_BYTES = 2**63 - 1
# What NumPy raises for what is no type: texts are read as Python, dicts as fields.
_NO_DTYPE = (
    AttributeError,
    KeyError,
    OverflowError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a C-ordered array, in elements.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def strides_in_order(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of an array without gaps, whose `axes` are said from the outermost.

    >>> strides_in_order((2, 3, 4), (0, 2, 1))
    (12, 1, 3)
    """
    steps = dict(zip(axes, contiguous_strides([shape[axis] for axis in axes]), strict=True))
    return tuple([steps[axis] for axis in range(len(shape))])


def as_dtype(given: Any) -> np.dtype:
    """Convert a name, a class or a NumPy type to `numpy.dtype`.

    Raises DTypeError (a TypeError) where NumPy knows none.

    >>> as_dtype("f4"), as_dtype(int)
    (dtype('float32'), dtype('int64'))
    """
    try:
        return np.dtype(given)
    except _NO_DTYPE as error:
        raise DTypeError(
            f"{shown(given)} is no element type", hint="such as f4, float64, i1"
        ) from error


# By NumPy's numbers: letters are not unique, ml_dtypes has an int1 with that of float16.
_COMPUTED = frozenset(np.dtype(letter).num for letter in "?bBhHiIlLqQefdFD")


def is_computed(dtype: np.dtype) -> bool:
    """Whether kernels support an element type, in native byte order.

    They do with bool, integers, float16 to float64, pairs of these, and ml_dtypes' bfloat16.

    >>> [is_computed(np.dtype(letter)) for letter in "?fO"]
    [True, True, False]
    """
    return dtype.num in _COMPUTED or is_short_float(dtype)


def kind_of(dtype: np.dtype) -> str:
    """NumPy's kind letter of a type, with "f" for bfloat16.

    >>> kind_of(np.dtype("f2")), kind_of(np.dtype("i1"))
    ('f', 'i')
    """
    # NumPy makes a type's name anew each time, which takes microseconds.
    return "f" if dtype.kind == "V" and dtype.name in _SHORT else dtype.kind


# Floats of 16 bits, and the distance from 1 to the next larger number.
_SHORT = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def is_short_float(dtype: np.dtype) -> bool:
    """Whether a type is a 16-bit float, used for storage and not for arithmetic."""
    return dtype.kind in "fV" and dtype.itemsize == 2 and dtype.name in _SHORT


def epsilon(dtype: np.dtype) -> float:
    """The machine epsilon of a float or complex type.

    >>> epsilon(np.dtype("f2")) == 2.0**-10
    True
    """
    return _SHORT.get(dtype.name) or float(np.finfo(dtype).eps)


def computed_dtype(dtype: np.dtype) -> np.dtype:
    """The type of arithmetic on a type: float32 for 16-bit floats, else itself.

    >>> computed_dtype(np.dtype("f2")), computed_dtype(np.dtype("f8"))
    (dtype('float32'), dtype('float64'))
    """
    return np.dtype(np.float32) if is_short_float(dtype) else dtype


def common_dtype(dtypes: Sequence[np.dtype], numbers: Sequence[complex] = ()) -> np.dtype:
    """NumPy's promotion of several types, and of Python numbers beside them.

    Raises DTypeError where there is none, as for bfloat16 and float16.

    >>> common_dtype([np.dtype("f4"), np.dtype("i4")]), common_dtype([np.dtype("f4")], [1j])
    (dtype('float64'), dtype('complex64'))
    """
    try:
        common = np.result_type(*dtypes)
    except np.exceptions.DTypePromotionError as error:
        names = " and ".join(dict.fromkeys(map(str, dtypes)))
        raise DTypeError(
            f"{names} have no common type", hint="convert the arrays, to float32 for instance"
        ) from error
    if kind_of(common) == common.kind:  # and so not bfloat16
        return np.result_type(common, *numbers)
    # Beside types that are not its own, NumPy takes numbers for float64 or complex128.
    is_complex = any(isinstance(number, complex) for number in numbers)
    return np.dtype(np.complex64) if is_complex else common


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Element type, shape and strides (in elements) of an array.

    >>> TensorSpec.of((64, 128), "f4")
    float32[64, 128]
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides):
            raise ShapeError(f"shape {self.shape} and strides {self.strides} differ in length")
        if any(extent < 0 for extent in self.shape):
            raise ShapeError(f"shape {self.shape} has a negative extent")
        if self.nbytes > _MOST_BYTES:
            extents = ", ".join(map(shown, self.shape))
            raise ShapeError(f"{self.dtype.name}[{extents}] is larger than any memory")

    @classmethod
    def of(
        cls, shape: Sequence[int], dtype: object = "f4", strides: Sequence[int] | None = None
    ) -> TensorSpec:
        """A spec from a shape and anything that `numpy.dtype` takes; C order by default."""
        shape = tuple(map(_whole, shape))
        steps = contiguous_strides(shape) if strides is None else tuple(map(_whole, strides))
        return cls(as_dtype(dtype), shape, steps)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes that the elements take."""
        return self.size * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps."""
        pairs = zip(self.shape, self.strides, contiguous_strides(self.shape), strict=True)
        return self.size == 0 or all(n == 1 or s == c for n, s, c in pairs)

    @property
    def axis_order(self) -> tuple[int, ...] | None:
        """The axes from the outermost, as they lie in memory; None where there are gaps.

        >>> TensorSpec.of((2, 3, 4), "f4", (12, 1, 3)).axis_order
        (0, 2, 1)
        """
        if self.is_contiguous:
            return tuple(range(len(self.shape)))
        axes = sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])
        steps = strides_in_order(self.shape, axes)
        triples = zip(self.shape, self.strides, steps, strict=True)
        return tuple(axes) if all(n == 1 or s == c for n, s, c in triples) else None

    def packed(self, shape: Sequence[int] | None = None) -> TensorSpec:
        """The spec without gaps, its axes in the same order; of another `shape`, if one is given.

        Where this one has gaps, it is in C order.

        >>> TensorSpec.of((2, 3, 4), "f4", (12, 1, 3)).packed((2, 5, 4))
        float32[2, 5, 4]:20,1,5
        """
        shape = self.shape if shape is None else shape
        order = self.axis_order or range(len(shape))
        return TensorSpec.of(shape, self.dtype, strides_in_order(shape, order))

    def __repr__(self) -> str:
        name = self.dtype.name if self.dtype.isnative else self.dtype.str
        text = f"{name}[{', '.join(map(str, self.shape))}]"
        return text if self.is_contiguous else f"{text}:{','.join(map(str, self.strides))}"


def _whole(number: Any) -> int:
    """Convert a NumPy integer to an int."""
    return number if number.__class__ is int else int(number)


@dataclass(frozen=True, slots=True)
class CoreLimits:
    """Resource limits of a GPU core (SM), for occupancy; the defaults are NVIDIA's since the A100.

    A core has so many `registers` of 32 bits, `threads` (work-items) and `groups` at one time; each
    of its `schedulers` begins one instruction of a warp in a cycle. The system takes
    `reserved_bytes` of local memory for each group. Under load it runs at `sustained` of its clock.
    """

    registers: int = 65536
    threads: int = 2048
    groups: int = 32
    schedulers: int = 4
    reserved_bytes: int = 1024
    sustained: float = 0.86


@dataclass(frozen=True, slots=True)
class Target:
    """The device facts that constraints and the cost model read.

    Sizes are bytes, rates per second. `name`, `driver` and `dialect` identify the environment;
    `rate` is the number of float32 multiply-adds of one core, `bandwidth` the bytes of the whole
    device's main memory, both estimates that rank schedules and promise nothing. `counts_groups`
    tells whether groups of one kernel can count themselves, and see what those before them wrote,
    `clusters` whether some that run at one time reach each other's local memory.
    `matrices` tells whether warps multiply matrices of half floats, `bulk_copies` whether four
    warps do so together, and boxes of arrays copy themselves to local memory. `pairs` tells whether
    an instruction adds the products of two pairs of bfloat16 to a float32. `units` is the number
    of vectors whose products and sums a core computes in one cycle; on GPUs, where vectors have one
    element, that of work-items. `core` is what groups share on GPUs.
    """

    kind: str
    name: str
    dialect: str
    driver: str
    cores: int
    vector_bytes: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    local_bytes: int
    max_threads: int
    warp: int
    rate: float
    bandwidth: float
    launch_seconds: float
    has_fp64: bool = True
    counts_groups: bool = False
    clusters: bool = False
    matrices: bool = False
    bulk_copies: bool = False
    pairs: bool = False
    units: int = 1
    core: CoreLimits = CoreLimits()

    def __hash__(self) -> int:
        # What the cost model keeps is looked up many thousand times in a first call.
        return hash((self.name, self.dialect, self.cores, self.vector_bytes))

    @property
    def clock(self) -> float:
        """Cycles of a core per second, from `rate`: each unit does one multiply-add a cycle."""
        return self.rate * 4 / self.vector_bytes / self.units

    @property
    def sustained_clock(self) -> float:
        """Cycles of a GPU's core per second, under load."""
        return self.clock * self.core.sustained

    def lanes(self, dtype: np.dtype) -> int:
        """Elements of `dtype` in one vector register; 1 on a device without vectors."""
        return max(1, self.vector_bytes // max(1, dtype.itemsize))
