"""The operands of a call: checked, converted to arrays of one library, and allocated."""

from __future__ import annotations

import functools
import math
import operator
import string
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.dlpack import cupy_for, is_on_gpu, not_taken, shared
from mdtensor.api.arrays.memory_overlap import check_distinct, is_apart
from mdtensor.api.arrays.sparse_arrays import check_dense
from mdtensor.api.arrays.torch_tensors import host_array, is_tensor
from mdtensor.api.arrays.unaligned_arrays import addressable, native_copy
from mdtensor.backends.host.aligned_memory import aligned_allocator
from mdtensor.errors import DTypeError, ShapeError, SubscriptError, is_ours, shown
from mdtensor.options import beginning
from mdtensor.specs import TensorSpec, is_computed
from mdtensor.stage_timer import stage

# Arrays of NumPy or CuPy, known by their attributes alone.
Array = Any

# Bytes from which the place of an array in memory matters more than the time to allocate it.
LARGE = 1 << 16
BYTE_ORDER = "byte order"
_MOST_INDICES = 64  # of one array, as NumPy has it
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def split(operands: Sequence[object]) -> tuple[str, tuple[Any, ...]]:
    """The einsum string and the arrays, also from the interleaved form.

    >>> split([[[1, 2]], [0, 1], [3, 4], [1], [0]])
    ('AB,B->A', ([[1, 2]], [3, 4]))
    """
    if operands and isinstance(operands[0], bytes):
        operands = (operands[0].decode("ascii", "replace"), *operands[1:])
    if len(operands) < 2:
        raise SubscriptError(
            "einsum needs an einsum string and at least one operand",
            hint="einsum('ij,jk->ik', a, b), or einsum(a, [0, 1], b, [1, 2], [0, 2])",
        )
    if isinstance(operands[0], str):
        return operands[0], tuple(operands[1:])
    pairs = len(operands) // 2
    text = ",".join(_term(operands[2 * n + 1]) for n in range(pairs))
    if len(operands) % 2:
        text += "->" + _term(operands[-1])
    return text, tuple(operands[2 * n] for n in range(pairs))


def _term(indices: object) -> str:
    if not isinstance(indices, Iterable):
        raise DTypeError(
            f"{shown(indices)} is no list of indices",
            hint="every array is followed by a list of ints and Ellipsis, or begin with a string",
        )
    listed: Iterable[object] = indices  # pyright: ignore[reportUnknownVariableType]
    try:
        letters = [_letter(index) for index in beginning(listed, _MOST_INDICES)]
    except NotImplementedError:  # of memory with several axes
        raise DTypeError(f"{shown(listed)} is no list of indices") from None
    if len(letters) > _MOST_INDICES:
        raise SubscriptError(
            f"{shown(listed)} has more than {_MOST_INDICES} indices",
            hint="begin with a string: 'ij,jk->ik', A, B",
        )
    return "".join(letters)


def _letter(index: Any) -> str:
    if index is Ellipsis:
        return "..."
    try:
        number = operator.index(index)
    except TypeError:
        raise DTypeError(
            f"index {shown(index)} is neither an int nor Ellipsis",
            hint="begin with a string: 'ij,jk->ik', A, B",
        ) from None
    if not 0 <= number < len(_LETTERS):
        raise SubscriptError(f"index {shown(number)} is not between 0 and {len(_LETTERS) - 1}")
    return _LETTERS[number]


def array_module(arrays: Iterable[object]) -> Any:
    """CuPy if any array is CuPy's or on a GPU, else NumPy."""
    for array in arrays:
        if type(array) is not np.ndarray and is_on_gpu(array):
            return cupy_for(array)
    return np


def as_arrays(operands: Sequence[object], xp: Any) -> list[Array]:
    """The operands as arrays of one library.

    Numbers and lists go wherever the arrays are; arrays of NumPy and CuPy do not mix.
    """
    if xp is not np and any(isinstance(o, np.ndarray) and o.ndim for o in operands):
        raise DTypeError(
            f"arrays of NumPy and of {xp.__name__} in one call",
            hint=f"copy with {xp.__name__}.asarray(…) or .get() first",
        )
    return [as_array(f"operand {n}", operand, xp) for n, operand in enumerate(operands)]


def as_array(name: str, operand: object, xp: Any, dtype: np.dtype | None = None) -> Array:
    """An operand as an array of NumPy or CuPy, without a copy if its memory can be read.

    `dtype` is for lists and numbers, which have no type of their own. Tensors of other libraries
    are read by `__array__`, or by `__dlpack__` where they have no other way.

    Raises DTypeError for what the library does not take and for sparse arrays, ShapeError for lists
    whose parts differ in length.
    """
    if type(operand) is xp.ndarray:
        return operand
    if operand is None:
        raise DTypeError(f"{name} is None", hint="pass an array, a list or a number")
    if isinstance(operand, TensorSpec):
        raise DTypeError(
            f"{name} is a spec, not an array", hint="mdtensor.compile makes plans of specs"
        )
    check_dense(name, operand)
    if xp is not np and is_on_gpu(operand):
        return shared(name, operand, xp)
    if xp is np and is_tensor(operand):
        return host_array(name, operand)
    try:
        if hasattr(operand, "__dlpack__") and not hasattr(operand, "__array__"):
            return xp.from_dlpack(operand)
        return xp.asarray(operand, dtype=dtype)
    except (BufferError, OverflowError, RuntimeError, TypeError) as error:
        raise not_taken(name, operand, xp, error) from error
    except ValueError as error:
        raise ShapeError(
            f"{name} is a {type(operand).__name__} that is no array: {error}",
            hint="nested lists have one length on each level",
        ) from error


def as_computed(operands: Sequence[object], xp: Any) -> list[Array]:
    """The operands as kernels read them: misaligned or byte-swapped arrays are copied.

    Raises DTypeError for types without kernels, and for masks, which no kernel sees.
    """
    for number, operand in enumerate(operands):
        check_mask(f"operand {number}", operand)
    arrays = as_arrays(operands, xp)
    check_types([array.dtype for array in arrays])
    return [a if addressable(a) and a.dtype.isnative else native_copy(a, xp) for a in arrays]


def check_types(types: Iterable[np.dtype]) -> None:
    """Raises DTypeError for element types without kernels; any byte order will do."""
    if reason := reason_of_types([dtype.newbyteorder("=") for dtype in types]):
        raise no_kernels(reason)


def _has_objects(array: Array) -> bool:
    return array.dtype.hasobject


def has_layout(operand: Any) -> bool:
    """Whether an operand has shape, strides and a NumPy dtype, as NumPy's and CuPy's arrays do."""
    if isinstance(operand, TensorSpec) or not hasattr(operand, "strides"):
        return False
    return isinstance(getattr(operand, "dtype", None), np.dtype)


def no_kernels(reason: str, more: str = "") -> DTypeError:
    """The error for a reason of `reason_of_types`."""
    hint = "convert the arrays to bool, integers, float16 to float64 or complex numbers"
    if reason == BYTE_ORDER:
        reason = "a foreign byte order"
        hint = "convert the arrays by a.astype(a.dtype.newbyteorder('='))"
    return DTypeError(f"no kernels compute with {reason}{more}", hint=hint)


# What NumPy raises where it refuses elements, or has no such function of them; a SystemError where
# it forgets to stop at an error, which is the cause then.
_NUMPYS = (
    *(AttributeError, IndexError, OverflowError, RuntimeError, TypeError, ValueError),
    *(SyntaxError, SystemError),
)


def computed_by_numpy(
    compute: Callable[[], Any], reason: str, operands: Sequence[object], whose: str = "NumPy"
) -> Any:
    """Fall back to NumPy or scipy for operands that have no kernels, with a reason.

    Raises DTypeError with their words. What elements that are objects raise is their own, and so is
    what arrays raise that answer NumPy's functions themselves.
    """
    try:
        with stage("run"):
            return compute()
    except _NUMPYS as error:
        are_objects = any(isinstance(each, np.ndarray) and _has_objects(each) for each in operands)
        is_an_elements = type(error) in (AttributeError, TypeError) and are_objects
        if is_an_elements or any(answers_itself(each) and not is_ours(each) for each in operands):
            raise
        said = error.__cause__ if type(error) is SystemError else error
        raise no_kernels(reason, f", and {whose} says: {said}") from error


def check_known(array: Any) -> None:
    """Raises ShapeError for a Dask array whose extents are unknown."""
    if any(map(math.isnan, array.shape)):
        raise ShapeError(
            f"a Dask array has chunks of unknown sizes: {array.chunks}",
            hint="x.compute_chunk_sizes() finds them",
        )


def check_native(types: Iterable[np.dtype]) -> None:
    """Raises DTypeError for a result in a foreign byte order."""
    for dtype in types:
        if not dtype.isnative:
            raise DTypeError(
                f"kernels write no elements of {dtype.str!r}",
                hint=f"compute {dtype.newbyteorder('=').name}; an out= may have any byte order",
            )


def no_array(name: str, given: object) -> DTypeError:
    """The error for an output that is no array of NumPy or CuPy."""
    check_dense(name, given)
    return DTypeError(
        f"{name} is {type(given).__name__}, not an array",
        hint="numpy.asarray of many other objects shares their memory",
    )


def as_output(name: str, given: object, xp: Any) -> Array:
    """The output array of a call, which may be over the memory of a torch tensor or a GPU tensor.

    Raises DTypeError for what is no array of NumPy or CuPy, and shares no memory with one, and
    ShapeError where elements share memory with each other.
    """
    array = given
    if not isinstance(given, xp.ndarray):
        if xp is np and is_tensor(given):
            array = host_array(name, given, written=True)
        elif xp is np or not is_on_gpu(given):
            raise no_array(name, given)
        else:
            array = shared(name, given, xp)
    check_distinct(name, array)
    return array


def read_only(name: str, text: str | None = None) -> ShapeError:
    """The error for an array that cannot be written to."""
    return ShapeError(f"{name} is read-only", text=text, hint=f"pass {name}.copy(), or none")


def check_mask(name: str, operand: object) -> None:
    """Raises DTypeError for a masked array, since kernels would read the masked elements."""
    if type(operand) is not np.ndarray and isinstance(operand, np.ma.MaskedArray):
        raise DTypeError(
            f"{name} is a masked array, and kernels see no masks",
            hint="fill it by a.filled(…) with what does not count, or compute with a.mask too",
        )


def reason_of_classes(operands: Iterable[object], *, optimized: bool) -> str:
    """The reason that operand classes need NumPy's own function, or an empty string."""
    for operand in operands:
        if type(operand) is np.ndarray:
            continue
        name = type(operand).__name__
        if answers_itself(operand):
            return f"{name} overrides NumPy's functions"
        if optimized and isinstance(operand, np.ndarray):
            return f"subclass {name} with optimize"
    return ""


def answers_itself(operand: object) -> bool:
    """Whether an operand's class overrides `__array_function__`; CuPy's does not count."""
    if type(operand).__module__.partition(".")[0] == "cupy":
        return False
    override = getattr(type(operand), "__array_function__", None)
    return override is not None and override is not np.ndarray.__array_function__


def reason_of_types(types: Iterable[np.dtype]) -> str:
    """The reason that element types need NumPy's own function, or an empty string."""
    for given in types:
        if not is_computed(given):
            return f"dtype {given.name}"
        if not given.isnative:
            return BYTE_ORDER
    return ""


def holds(array: Array, spec: TensorSpec, others: Iterable[Array], xp: Any) -> bool:
    """Whether a kernel can write a result straight to an array: same spec, apart from `others`."""
    return addressable(array) and spec_of(array) == spec and is_apart(array, others, xp)


def spec_of(array: Array) -> TensorSpec:
    """The spec of an addressable array."""
    size = array.dtype.itemsize or 1  # texts of no characters have no bytes
    return TensorSpec(array.dtype, tuple(array.shape), tuple(s // size for s in array.strides))


def allocator(spec: TensorSpec, xp: Any) -> Callable[[], Array]:
    """A factory of arrays with the shape and axis order of a spec, without gaps.

    Large NumPy arrays begin on a 64-byte boundary: on others every store of a whole vector
    touches two cache lines, which halved the speed of some kernels.
    """
    if not spec.is_contiguous:
        axes = sorted(range(len(spec.shape)), key=lambda axis: -abs(spec.strides[axis]))
        base = allocator(TensorSpec.of([spec.shape[axis] for axis in axes], spec.dtype), xp)
        order = tuple(np.argsort(axes).tolist())
        return lambda: base().transpose(order)
    if xp is np:
        return _numpy_allocator(spec.shape, spec.dtype)
    return _cupy_allocator(spec.shape, spec.dtype, xp.ndarray)


def _cupy_allocator(shape: tuple[int, ...], dtype: np.dtype, array_of: Any) -> Callable[[], Array]:
    """A factory of CuPy arrays in C order.

    It does what CuPy's class does, without the Python in that: a third of the time. CuPy knows its
    own types soonest by their letters.
    """
    if not hasattr(array_of.__base__, "_init"):
        return functools.partial(array_of, shape, dtype)
    anew = array_of.__base__.__new__
    of = dtype.char if dtype.isbuiltin == 1 and dtype.isnative else dtype

    def allocate() -> Array:
        array = anew(array_of)
        array._init(shape, of)
        return array

    return allocate


def _numpy_allocator(shape: tuple[int, ...], dtype: np.dtype) -> Callable[[], np.ndarray]:
    if math.prod(shape) * dtype.itemsize >= LARGE:
        return aligned_allocator(shape, dtype)
    return functools.partial(np.empty, shape, dtype)


def allocate(spec: TensorSpec, xp: Any) -> Array:
    """A new array with the layout of a spec."""
    return allocator(spec, xp)()
