"""Lazy arrays: NumPy's expressions, computed as one kernel when the result is asked for."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.lib.mixins import NDArrayOperatorsMixin

from mdtensor.api.arrays.device_scope import at, elsewhere
from mdtensor.api.arrays.jax_arrays import is_jax_array, spec_of_jax
from mdtensor.api.arrays.operands import (
    Array,
    array_module,
    as_array,
    as_arrays,
    check_mask,
    check_types,
)
from mdtensor.api.arrays.torch_tensors import is_tensor, spec_of_tensor
from mdtensor.api.arrays.xarray_arrays import is_of_xarray, spec_of_xarray
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.calls.program_calls import call
from mdtensor.api.calls.shape_families import Skeleton
from mdtensor.api.frontends.lazy import interning
from mdtensor.api.frontends.lazy.interning import FUNCTIONS, Converted, Divided, OfUfunc
from mdtensor.errors import AxisError, DTypeError, LazyError, ShapeError, shown
from mdtensor.options import MOST_AXES, beginning, is_iterable
from mdtensor.originals import original
from mdtensor.specs import TensorSpec, as_dtype, is_computed
from mdtensor.translate.einsum.md_hom_from_einsum import accumulation_dtype
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.scalar import Expr, as_expr, is_number, truth
from mdtensor.translate.stencils.program_from_slices import program_from_slices
from mdtensor.translate.stencils.slice_numbers import with_numbers, without_numbers
from mdtensor.translate.stencils.slices import FusedValue

# Functions that are remembered by their identity.
_REAL_PART, _IMAGINARY_PART = attrgetter("real"), attrgetter("imag")
_REAL = {"F": np.dtype("f4"), "D": np.dtype("f8")}  # of complex numbers
_OF_PRODUCTS = frozenset(("casting", "dtype", "order"))  # options of ufuncs that are products
_EVALUATE = "np.asarray(y) evaluates a lazy array y first"
Axis = int | str | Sequence[int | str] | None  # by name in calls on DataArrays of xarray


class LazyArray(NDArrayOperatorsMixin):
    """An array expression that is not computed yet; made by `mdtensor.lazy`.

    It takes NumPy's arithmetic, comparisons and ufuncs, `np.where`, basic slices, and reductions;
    the types are NumPy's. Numbers become constants of the kernel, scalars of NumPy and arrays
    operands. `np.asarray(y)` and `y.evaluate()` compute it: one kernel for each fused expression,
    however many slices of however many arrays it has. Later changes of the arrays are seen.
    """

    __slots__ = ("_arrays", "_value")

    def __init__(self, value: FusedValue, arrays: tuple[Array, ...]) -> None:
        self._value = value
        self._arrays = arrays

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return self._value.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of an element."""
        return self._value.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def array(self) -> Array | None:
        """The underlying array, if there is nothing left to compute; else None."""
        is_plain = self._value == interning.of_array(self.shape, self.dtype)
        return self._arrays[0] if is_plain and self._arrays[0].dtype == self.dtype else None

    @property
    def T(self) -> LazyArray:  # noqa: N802
        """The array with its axes reversed."""
        return self.transpose()

    @property
    def real(self) -> LazyArray:
        """The real parts."""
        return elementwise(_REAL_PART, self)

    @property
    def imag(self) -> LazyArray:
        """The imaginary parts."""
        return elementwise(_IMAGINARY_PART, self)

    def evaluate(self, out: Array | None = None) -> Any:
        """Compute the expression into a new array in C order, or into `out`.

        Raises ShapeError or DTypeError for an `out` that does not fit, DeviceError for arrays of
        several devices.
        """
        value, numbers = interning.in_order(self._value)
        arrays = [self._arrays[number] for number in numbers]
        if any(map(_spec_maker_of, arrays)):
            return _of_others(value, *arrays, out=out)

        def build(specs: tuple[TensorSpec, ...]) -> Program:
            return program_from_slices(value, specs)

        def skeleton() -> Skeleton | None:
            return _skeleton(value)

        with at(elsewhere(arrays, {"out": out})):
            key = "slices", value
            return call(key, arrays, build, out, skeleton=skeleton, front_end="lazy")

    def transpose(self, *axes: Any) -> LazyArray:
        """The axes in another order, by default the reverse one."""
        listed: Any = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        is_reversed = listed is None or (isinstance(listed, tuple) and not listed)
        order = range(self.ndim)[::-1] if is_reversed else axes_of(listed, self.ndim)
        if len(order) != self.ndim:
            raise ShapeError(f"{len(order)} axes to order {self.ndim} by")
        return self._like(interning.transposed(self._value, tuple(order)))

    def astype(self, dtype: object) -> LazyArray:
        """The elements converted."""
        return elementwise(Converted((as_dtype(dtype),)), self)

    def sum(
        self, axis: Axis = None, dtype: object = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        """The sum over axes, by default all; small integers are added up as NumPy does it."""
        return self._reduced("add", axis, out, keepdims, _summed(np.add, self.dtype, dtype))

    def prod(
        self, axis: Axis = None, dtype: object = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        """The product over axes, by default all."""
        return self._reduced("mul", axis, out, keepdims, _summed(np.multiply, self.dtype, dtype))

    def max(self, axis: Axis = None, out: Any = None, keepdims: bool = False) -> Any:
        """The largest element along axes, by default all; NaN where there is one."""
        return self._reduced("max", axis, out, keepdims, self.dtype)

    def min(self, axis: Axis = None, out: Any = None, keepdims: bool = False) -> Any:
        """The smallest element along axes, by default all; NaN where there is one."""
        return self._reduced("min", axis, out, keepdims, self.dtype)

    def any(self, axis: Axis = None, out: Any = None, keepdims: bool = False) -> Any:
        """Whether any element along axes counts as true."""
        return elementwise(truth, self)._reduced("or", axis, out, keepdims, np.dtype(bool))

    def all(self, axis: Axis = None, out: Any = None, keepdims: bool = False) -> Any:
        """Whether all elements along axes count as true."""
        return elementwise(truth, self)._reduced("and", axis, out, keepdims, np.dtype(bool))

    def mean(
        self, axis: Axis = None, dtype: object = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        """The mean over axes, by default all; that of integers is float64."""
        whole = self.dtype.kind in "biu" and dtype is None
        result = as_dtype(np.float64 if whole else self.dtype if dtype is None else dtype)
        axes = axes_of(axis, self.ndim)
        count = int(np.prod([self.shape[n] for n in axes], dtype=np.int64))
        total = self._total("add", axes, keepdims, result)
        return into(elementwise(Divided(count, result), total), out)

    def var(
        self,
        axis: Axis = None,
        dtype: object = None,
        out: Any = None,
        ddof: int = 0,
        keepdims: bool = False,
    ) -> Any:
        """The variance over axes, by default all: the sum of squared distances from the mean.

        It is divided by the number of elements less `ddof`.
        """
        return into(self._variance(axis, dtype, ddof, keepdims, _itself), out)

    def std(
        self,
        axis: Axis = None,
        dtype: object = None,
        out: Any = None,
        ddof: int = 0,
        keepdims: bool = False,
    ) -> Any:
        """The standard deviation over axes, by default all: the root of the variance."""
        return into(self._variance(axis, dtype, ddof, keepdims, _deviation), out)

    def _variance(
        self, axis: Axis, dtype: object, ddof: int, keepdims: bool, finish: Any
    ) -> LazyArray:
        whole = self.dtype.kind in "biu" and dtype is None
        made = as_dtype(np.float64 if whole else self.dtype if dtype is None else dtype)
        elements = self.astype(accumulation_dtype(made))
        axes = axes_of(axis, self.ndim)
        distances = elements - elements.mean(axes, keepdims=True)
        squares = np.square(distances.real)
        if made.kind == "c":
            squares = squares + np.square(distances.imag)
        if not isinstance(ddof, numbers.Real):
            raise DTypeError(f"ddof is {shown(ddof)}, not a number")
        count = int(np.prod([self.shape[n] for n in axes], dtype=np.int64))
        total = squares._total("add", axes, keepdims, squares.dtype)
        result = _REAL.get(made.char, made)
        variance = elementwise(Divided(max(count - ddof, 0), squares.dtype), total)
        return finish(variance).astype(result)

    def dot(self, b: Any, out: Any = None) -> Any:
        """The dot product with another array."""
        return FUNCTIONS[original("numpy.dot")](self, b, out)

    def reshape(self, *shape: Any, order: Any = "C") -> LazyArray:
        """The elements in another shape, in C or Fortran order."""
        listed: Any = shape[0] if len(shape) == 1 else shape
        return FUNCTIONS[np.reshape](self, listed, order)

    def ravel(self, order: Any = "C") -> LazyArray:
        """The elements along one axis."""
        return FUNCTIONS[np.ravel](self, order)

    def take(
        self, indices: Any, axis: int | None = None, out: Any = None, mode: Any = "raise"
    ) -> Any:
        """The elements at positions along an axis."""
        return FUNCTIONS[np.take](self, indices, axis, out, mode)

    def cumsum(self, axis: int | None = None, dtype: object = None, out: Any = None) -> Any:
        """The sums of each element and all before it along an axis."""
        return FUNCTIONS[np.cumsum](self, axis, dtype, out)

    def cumprod(self, axis: int | None = None, dtype: object = None, out: Any = None) -> Any:
        """The products of each element and all before it along an axis."""
        return FUNCTIONS[np.cumprod](self, axis, dtype, out)

    def argmax(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
        """The position of the first largest element along an axis."""
        return FUNCTIONS[np.argmax](self, axis, out, keepdims=keepdims)

    def argmin(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
        """The position of the first smallest element along an axis."""
        return FUNCTIONS[np.argmin](self, axis, out, keepdims=keepdims)

    def _reduced(self, op: str, axis: Axis, out: Any, keepdims: bool, dtype: np.dtype) -> Any:
        total = self._total(op, axes_of(axis, self.ndim), keepdims, dtype)
        return into(elementwise(Converted((dtype,)), total), out)

    def _total(self, op: str, axes: Sequence[int], keepdims: bool, dtype: np.dtype) -> LazyArray:
        """The reduction of elements converted to `dtype`, in that reduction's accumulator type."""
        wide = accumulation_dtype(dtype) if op in ("add", "mul") else dtype
        elements = interning.combined(Converted((dtype, wide)), self._value)
        return self._like(interning.reduced(elements, op, tuple(axes), bool(keepdims)))

    def _like(self, value: FusedValue) -> LazyArray:
        return LazyArray(value, self._arrays)

    def __getitem__(self, key: object) -> LazyArray:
        return self._like(interning.sliced(self._value, key))

    def __len__(self) -> int:
        if not self.shape:
            raise DTypeError("a lazy array without axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[LazyArray]:
        return (self[n] for n in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.evaluate(), dtype)

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ShapeError(
                f"a lazy array of shape {self.shape} is neither true nor false",
                hint="y.any() or y.all()",
            )
        return bool(self.evaluate())

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def _number(self) -> Any:
        if self.size != 1:
            raise DTypeError(f"a lazy array of shape {self.shape} is no number", hint=_EVALUATE)
        return self.evaluate()

    __hash__ = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        if method == "reduce" and ufunc in _REDUCTIONS:
            axis = options.pop("axis", 0)
            target = None if out is None else out[0]
            return getattr(as_lazy(inputs[0]), _REDUCTIONS[ufunc])(axis, out=target, **options)
        if method == "__call__" and ufunc in FUNCTIONS and options.keys() <= _OF_PRODUCTS:
            return FUNCTIONS[ufunc](*inputs, out=None if out is None else out[0], **options)
        if method != "__call__" or options or ufunc.signature is not None:
            what = f".{method}" if method != "__call__" else "".join(f" with {o}=" for o in options)
            raise DTypeError(f"np.{ufunc.__name__}{what} takes no lazy arrays", hint=_EVALUATE)
        results = _applied(ufunc, inputs)
        if out is not None:
            results = tuple(map(into, results, out))
        return results[0] if ufunc.nout == 1 else results

    def __array_function__(
        self, func: Any, types: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if func not in FUNCTIONS:
            raise DTypeError(f"np.{func.__name__} takes no lazy arrays", hint=_EVALUATE)
        try:
            return FUNCTIONS[func](*args, **kwargs)
        except DTypeError:
            raise
        except TypeError as error:  # arguments that it does not take, or lacks
            _, _, wrong = str(error).rpartition("() ")
            raise DTypeError(
                f"np.{func.__name__} of lazy arrays: {wrong}", hint=_EVALUATE
            ) from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise LazyError(f"lazy arrays have no attribute {name!r}")
        raise LazyError(f"lazy arrays have no {name!r}, which arrays have", hint=_EVALUATE)

    def __repr__(self) -> str:
        return f"<lazy {TensorSpec.of(self.shape, self.dtype)!r}: {self._value.expr!r}>"


def as_lazy(array: Any) -> LazyArray:
    """An array as a lazy expression; a lazy array unchanged."""
    if isinstance(array, LazyArray):
        return array
    if type(array) is np.ndarray and is_computed(array.dtype):
        return LazyArray(interning.of_array(array.shape, array.dtype), (array,))
    check_mask("the array", array)
    if (spec_of := _spec_maker_of(array)) is not None:
        made = spec_of("the array", array)
        check_types([made.dtype])
        return LazyArray(interning.of_array(made.shape, made.dtype), (array,))
    with at(elsewhere([array], {})):
        held = as_array("the array", array, array_module([array]))
    check_types([held.dtype])
    return LazyArray(interning.of_array(tuple(held.shape), held.dtype), (held,))


def _spec_maker_of(array: Any) -> Callable[[str, Any], TensorSpec] | None:
    """The spec function for an array of torch, JAX or xarray; None for other arrays."""
    if type(array) is np.ndarray:
        return None
    if is_tensor(array):
        return spec_of_tensor
    if is_jax_array(array):
        return spec_of_jax
    return spec_of_xarray if is_of_xarray(array) else None


def _deviation(variance: LazyArray) -> Any:
    """The root of a variance; its gradient is 0 where that is, as torch's."""
    varies = variance > 0
    return np.where(varies, np.sqrt(np.where(varies, variance, 1)), variance)


def _evaluated(value: FusedValue, *arrays: Any, out: Any = None) -> Any:
    given = tuple(as_arrays(arrays, array_module(arrays)))
    return LazyArray(value, given).evaluate(out)


# The same for arrays of torch, JAX and xarray, in a call as others are.
_of_others = with_call_cache(_evaluated, lambda value: value, front_end="lazy")


def _skeleton(value: FusedValue) -> Skeleton | None:
    """The value abstracted from its numbers, which differ between shapes; None if that fails."""
    found = without_numbers(value)
    if found is None:
        return None
    skeleton, numbers = found

    def build(specs: tuple[TensorSpec, ...], *numbers: int) -> Program:
        return program_from_slices(with_numbers(skeleton, numbers), specs)

    return Skeleton(("slices", skeleton), build, numbers)


def elementwise(build: Callable[..., Expr], *operands: Any) -> LazyArray:
    """An elementwise expression; numbers stay numbers, other operands become lazy arrays."""
    values, arrays = merged(operands)
    return LazyArray(interning.combined(build, *values), arrays)


def merged(operands: Sequence[Any]) -> tuple[list[FusedValue | Expr], tuple[Array, ...]]:
    """The operands' values, renumbered for one list of arrays; numbers are expressions."""
    values: list[FusedValue | Expr] = []
    arrays: list[Array] = []
    places: dict[int, int] = {}
    for operand in operands:
        if type(operand) is not LazyArray and (is_number(operand) or isinstance(operand, Expr)):
            values.append(interning.of_scalar(operand))
            continue
        made = as_lazy(operand)
        held = made._arrays  # pyright: ignore[reportPrivateUsage]
        for array in held:
            if places.setdefault(id(array), len(arrays)) == len(arrays):
                arrays.append(array)
        numbers = tuple([places[id(array)] for array in held])
        values.append(interning.renumbered(made._value, numbers))  # pyright: ignore[reportPrivateUsage]
    return values, tuple(arrays)


def _applied(ufunc: np.ufunc, inputs: Sequence[Any]) -> tuple[LazyArray, ...]:
    """The results of a ufunc, with the types of NumPy's loop for these operands."""
    operands: list[Any] = [
        x if type(x) is LazyArray or is_number(x) else as_lazy(x) for x in inputs
    ]
    if ufunc is np.power and isinstance(inputs[1], np.integer | np.bool_):
        operands[1] = as_expr(inputs[1])  # integers have no negative powers, so its sign matters
    weak = tuple([type(x) is not LazyArray and is_number(x) for x in operands])
    given = tuple(
        [_type_of(x) if is_weak else x.dtype for x, is_weak in zip(operands, weak, strict=True)]
    )
    try:
        results: Sequence[OfUfunc] = interning.of_ufunc(ufunc, given, weak)
    except TypeError as error:
        raise DTypeError(f"np.{ufunc.__name__}: {error}") from None
    return tuple([elementwise(result, *operands) for result in results])


def _type_of(number: bool | int | float | complex) -> Any:
    """The type of a Python number for NumPy's ufunc resolution."""
    return np.dtype(bool) if isinstance(number, bool) else type(number)


def _itself(value: LazyArray) -> LazyArray:
    return value


def into(value: LazyArray, out: Any) -> Any:
    """The value, evaluated into `out` if there is one; a lazy `out` gets the value itself."""
    if out is None:
        return value
    if not isinstance(out, LazyArray):
        return value.evaluate(out)
    if value.shape != out.shape or not np.can_cast(value.dtype, out.dtype, "same_kind"):
        raise ShapeError(f"{value.dtype}{value.shape} does not go into {out.dtype}{out.shape}")
    return value.astype(out.dtype)


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes of an `axis` argument, as non-negative numbers."""
    try:
        if axis is None:
            return tuple(range(ndim))
        listed = beginning(axis, MOST_AXES) if is_iterable(axis) else axis
        return normalize_axis_tuple(listed, ndim)
    except np.exceptions.AxisError as error:
        raise AxisError(str(error)) from None
    except OverflowError:
        raise AxisError(f"axis={shown(axis)}, where there are {ndim}") from None
    except ValueError as error:
        raise ShapeError(str(error)) from None
    except (TypeError, NotImplementedError) as error:  # of a view of memory with several axes
        raise DTypeError(
            f"axis={shown(axis)}: {error}", hint="an axis, or a tuple of them"
        ) from None


def _summed(ufunc: np.ufunc, dtype: np.dtype, asked: object) -> np.dtype:
    """The type of NumPy's sum or product over elements of a type."""
    if asked is not None:
        return as_dtype(asked)
    return ufunc.reduce(np.ones(1, dtype)).dtype


_REDUCTIONS: Mapping[np.ufunc, str] = {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "max",
    np.minimum: "min",
    np.logical_or: "any",
    np.logical_and: "all",
}
