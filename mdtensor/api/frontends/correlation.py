"""`convolve` and `correlate`: NumPy's on one axis, scipy.signal's on several."""

from __future__ import annotations

import functools
from functools import cache
from typing import Any, Literal

import numpy as np

from mdtensor.api.arrays.operands import (
    Array,
    array_module,
    as_arrays,
    computed_by_numpy,
    reason_of_classes,
    reason_of_types,
)
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.calls.program_calls import call
from mdtensor.api.frontends.einsum.einsum import count_for_numpy
from mdtensor.errors import DTypeError, ShapeError, shown
from mdtensor.options import is_one_of, one_of
from mdtensor.originals import original
from mdtensor.specs import TensorSpec, common_dtype, computed_dtype, is_short_float
from mdtensor.translate.convolutions.convolution_axes import SpatialAxis, strided
from mdtensor.translate.convolutions.md_hom_from_convolution import (
    Convolution,
    ConvolutionOperand,
    program_from_convolution,
)
from mdtensor.translate.einsum.md_hom_from_einsum import accumulation_dtype
from mdtensor.translate.md_hom_program import Program

Mode = Literal["full", "valid", "same"]
Method = Literal["auto", "direct", "fft"]

# NumPy's numbers for its modes are their positions.
_MODES = ("valid", "same", "full")
_METHODS = ("auto", "direct", "fft")

_NAMES = ("convolve", "correlate")
_numpy = {name: original(f"numpy.{name}") for name in _NAMES}


@with_call_cache
def convolve(a: Any, v: Any, mode: Mode | int = "full", method: Method | None = None) -> Array:
    """The convolution of two arrays, as `numpy.convolve` and `scipy.signal.convolve` define it.

    `mode` is "full" (every overlap), "valid" (whole overlaps only) or "same". Arrays of one axis
    follow NumPy, whose "same" has the longer operand's length; arrays of more axes follow scipy,
    whose "same" has the shape of `a`. `method` is scipy's: naming one asks for scipy's rules on
    one axis too. "auto" and "direct" compute by definition; "fft" is handed to scipy, as types
    without kernels are to NumPy or scipy; `stats()` counts them.

    Raises ShapeError (a ValueError) for empty operands, different numbers of axes, "valid" where
    neither operand holds the other, unknown modes and methods.

    >>> convolve([1, 2, 3], [0, 1, 0.5])
    array([0. , 1. , 2.5, 4. , 1.5])
    >>> convolve([[1, 2], [3, 4]], [[1, 1]], mode="same")
    array([[1, 3],
           [3, 7]])
    """
    return _call("convolve", a, v, mode, method)


@with_call_cache
def correlate(a: Any, v: Any, mode: Mode | int = "valid", method: Method | None = None) -> Array:
    """The cross-correlation, as `numpy.correlate` and `scipy.signal.correlate` define it.

    `c[k] = sum over n of a[n + k] · conj(v[n])`. Options and errors are those of `convolve`.

    >>> correlate([1, 2, 3], [0, 1, 0.5])
    array([3.5])
    >>> correlate([1, 2, 3], [0, 1, 0.5], "full")
    array([0.5, 2. , 3.5, 3. , 0. ])
    """
    return _call("correlate", a, v, mode, method)


def _call(name: str, a: Any, v: Any, mode: str | int, method: str | None) -> Array:
    mode = _mode(mode)
    if method is not None and not is_one_of(method, _METHODS):
        raise ShapeError(f"method is {shown(method)}", hint=f"one of {', '.join(_METHODS)}")
    xp = array_module((a, v))
    overriding = reason_of_classes((a, v), optimized=False)
    arrays = as_arrays((a, v), np if overriding else xp)
    is_numpys = method is None and max(array.ndim for array in arrays) < 2
    if is_numpys and name == "convolve":
        arrays = [xp.atleast_1d(array) for array in arrays]
    _check(arrays[0].shape, arrays[1].shape, mode)
    types = [array.dtype for array in arrays]
    reason = overriding or reason_of_types(types)
    if method == "fft" and not reason and any(map(is_short_float, types)):
        a, v = (array.astype(computed_dtype(array.dtype)) for array in arrays)
        return _call(name, a, v, mode, method).astype(common_dtype(types))
    if reason or method == "fft":
        count_for_numpy(types, reason or "method fft")
        theirs = functools.partial(_numpy[name], a, v, mode)
        if not is_numpys:
            theirs = functools.partial(scipy_signal()[name], a, v, mode, method or "direct")
        return computed_by_numpy(theirs, reason or "method fft", (a, v, *arrays), "NumPy or scipy")
    if name == "correlate" and arrays[1].dtype.kind == "c":
        arrays[1] = arrays[1].conj()
    if not arrays[0].ndim:
        return (arrays[0] * arrays[1])[()]
    return _direct(name, arrays, mode, by_numpy=is_numpys)


def _mode(mode: Any) -> str:
    if isinstance(mode, int) and 0 <= mode < len(_MODES):
        return _MODES[mode]
    if not isinstance(mode, str | int):
        raise DTypeError(f"mode is {shown(mode)}", hint=f"one of {', '.join(_MODES)}")
    return one_of("mode", mode, _MODES)


def _check(a: tuple[int, ...], v: tuple[int, ...], mode: str) -> None:
    shapes = [f"a: {a}    v: {v}"]
    if len(a) != len(v):
        raise ShapeError(
            "a and v should have the same dimensionality",
            notes=shapes,
            hint="give the smaller one axes of extent 1",
        )
    if 0 in a or 0 in v:
        raise ShapeError(f"{'a' if 0 in a else 'v'} cannot be empty", notes=shapes)
    pairs = list(zip(a, v, strict=True))
    holds = all(n >= m for n, m in pairs) or all(n <= m for n, m in pairs)
    if mode == "valid" and not holds:
        raise ShapeError(
            "for 'valid' mode, one operand must be at least as large as the other along every axis",
            notes=shapes,
        )


@cache
def scipy_signal() -> dict[str, Any]:
    """Scipy's original functions; DTypeError where it is not installed."""
    try:
        return {name: original(f"scipy.signal.{name}") for name in _NAMES}
    except ImportError:
        raise DTypeError(
            "scipy computes convolutions by FFT and of types without kernels; it is not installed",
            hint="pip install scipy, or method='direct' on numbers of NumPy's usual types",
        ) from None


def _direct(name: str, arrays: list[Array], mode: str, *, by_numpy: bool) -> Array:
    """Convolve by definition: the larger operand is the image, the smaller one the filter."""
    swapped = arrays[1].size > arrays[0].size

    def build(specs: tuple[TensorSpec, ...]) -> Program:
        return program_from_convolution(_convolution(name, specs, mode, swapped, by_numpy))

    return call((name, mode, swapped, by_numpy), arrays[::-1] if swapped else arrays, build)


def _convolution(
    name: str, specs: tuple[TensorSpec, ...], mode: str, swapped: bool, by_numpy: bool
) -> Convolution:
    image, taps = specs
    pairs = list(zip(image.shape, taps.shape, strict=True))
    axes = tuple(_axis(name, *pair, mode, swapped, by_numpy) for pair in pairs)
    dtype = common_dtype([image.dtype, taps.dtype])
    index = tuple(range(len(axes)))
    result = TensorSpec.of([axis.result for axis in axes], dtype)
    return Convolution(
        axes,
        (),
        (),
        ConvolutionOperand(image, index),
        ConvolutionOperand(taps, index),
        ConvolutionOperand(result, index),
        accumulation_dtype(dtype),
    )


def _axis(
    name: str, image: int, taps: int, mode: str, swapped: bool, by_numpy: bool
) -> SpatialAxis:
    """The geometry of one axis: the elements of the full result from `start` on.

    Swapping the operands of a correlation turns its full result around.
    """
    backwards = swapped and name == "correlate"
    first = taps if swapped else image
    whole = image + taps - 1
    result = {
        "full": whole,
        "valid": abs(image - taps) + 1,
        "same": max(image, taps) if by_numpy else first,
    }[mode]
    start = (whole - result) // 2
    if backwards and not by_numpy:
        start = whole - result - start
    return strided(
        image,
        taps,
        result,
        before=taps - 1 - start,
        flipped=name == "convolve",
        backwards=backwards,
    )
