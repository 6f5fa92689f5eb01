"""ATen functions that combine elements: products, convolutions, reductions.

Each is said by front ends, of lazy arrays: what they become, and how they join what stands around
them, follows from there. Names are those of ATen without the words of its overloads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.api.frameworks.call_text import held_call, pullback_text, run
from mdtensor.api.frameworks.image_layouts import layout_of
from mdtensor.api.frameworks.torch_graphs.aten_normalisations import (
    batch_norm,
    batch_norm_backward,
    group_norm,
    group_norm_backward,
    layer_norm,
    layer_norm_backward,
)
from mdtensor.api.frameworks.torch_graphs.aten_values import Value, like, wide
from mdtensor.api.frontends.axes.normalisation import (
    log_softmax_of,
    logsumexp_of,
    softmax_of,
)
from mdtensor.api.frontends.axes.pooling import avg_pool, max_pool
from mdtensor.api.frontends.convolution import conv
from mdtensor.api.frontends.lazy.lazy import lazy
from mdtensor.api.frontends.lazy.lazy_array import LazyArray
from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError


@dataclass(frozen=True, slots=True)
class Meaning:
    """An implementation of an ATen function, and the elementwise functions that it can fuse.

    `before` are those of its operands, `behind` those of its one result.
    """

    function: Callable[..., Any]
    before: bool = False
    behind: bool = True


def _mm(a: Value, b: Value) -> LazyArray:
    return lazy(a) @ lazy(b)


def _addmm(added: Value, a: Value, b: Value, *, beta: float = 1, alpha: float = 1) -> LazyArray:
    product = lazy(a) @ lazy(b)
    if beta == 0:
        return product * alpha
    return product * alpha + lazy(added) * beta if (alpha, beta) != (1, 1) else product + added


def _dot(a: Value, b: Value) -> LazyArray:
    return (lazy(a) * lazy(b)).sum()


def _of_conv(img: Value, *said: Any) -> dict[str, Any]:
    """The options of `conv` from torch's: stride, padding, dilation, transposed and so on."""
    stride, padding, dilation, transposed, output_padding, groups = said
    return {
        "stride": tuple(stride),
        "padding": tuple(padding),
        "dilation": tuple(dilation),
        "groups": groups,
        "layout": layout_of(img.ndim, transposed),
        "transposed": transposed,
        "output_padding": tuple(output_padding),
    }


def _convolution(
    img: Value,
    flt: Value,
    bias: Value | None,
    *said: Any,
    epilogue: Callable[..., Any] | None = None,
) -> Array:
    options, others = _of_conv(img, *said[:6]), said[6:]
    return conv(img, flt, *others, bias=bias, epilogue=epilogue, **options)


def _convolution_backward(
    grad: Value, img: Value, flt: Value, _: Sequence[int] | None, *said: Any
) -> tuple[Value | None, ...]:
    *options, wanted = said
    held = held_call(conv, img, flt, **_of_conv(img, *options))
    found: list[Value | None] = [None, None, None]
    for n in range(2):
        if wanted[n]:
            back = pullback_text(held.text, 2, [n], [0], results=False)
            found[n] = run(back, img, flt, grad)
    if wanted[2]:
        found[2] = lazy(grad).sum((0, *range(2, grad.ndim)))
    return tuple(found)


def _axes(dims: Any) -> Any:
    """NumPy's axes for torch's dims; empty dims mean all."""
    if dims is None or isinstance(dims, int):
        return dims
    return tuple(dims) or None


def _reduction(name: str) -> Callable[..., LazyArray]:
    """A lazy array's reduction along torch's dims, by default all."""

    def reduced(x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        _check_no_dtype(dtype)
        return getattr(lazy(x), name)(_axes(dim), keepdims=keepdim)

    return reduced


def _check_no_dtype(dtype: Any) -> None:
    if dtype is not None:
        raise TranslationError("a reduction in another type is torch's")


def _cumsum(x: Value, dim: int, *, dtype: Any = None) -> LazyArray:
    _check_no_dtype(dtype)
    return lazy(x).cumsum(dim)


def _softmax(x: Value, dim: int, half_to_float: bool = False) -> LazyArray:
    found = softmax_of(wide(x), dim)
    return found if half_to_float else like(found, x)


def _log_softmax(x: Value, dim: int, half_to_float: bool = False) -> LazyArray:
    found = log_softmax_of(wide(x), dim)
    return found if half_to_float else like(found, x)


def _logsumexp(x: Value, dim: Any, keepdim: bool = False) -> LazyArray:
    axes, elements = _axes(dim), wide(x)
    found: Any = like(logsumexp_of(elements, axes), x)
    every = tuple(range(elements.ndim)) if axes is None else axes
    return found if keepdim else np.squeeze(found, every)


def _softmax_backward(grad: Value, y: Value, dim: int, dtype: Any) -> LazyArray:
    weighted = wide(grad) * wide(y)
    return like(weighted - wide(y) * weighted.sum(dim, keepdims=True), grad)


def _log_softmax_backward(grad: Value, y: Value, dim: int, dtype: Any) -> LazyArray:
    cotangent = wide(grad)
    return like(cotangent - np.exp(wide(y)) * cotangent.sum(dim, keepdims=True), grad)


def _max_pool(
    x: Value,
    window: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> tuple[Array, None]:
    if ceil_mode or any(step != 1 for step in _pair(dilation)):
        raise TranslationError("windows that end outside, or have gaps, are torch's")
    found = max_pool(x, _pair(window), stride=_pair(stride) or None, padding=_pair(padding))
    return found, None


def _avg_pool(
    x: Value,
    window: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    if ceil_mode or divisor_override or (any(_pair(padding)) and not count_include_pad):
        raise TranslationError("windows that end outside, or have a divisor, are torch's")
    return avg_pool(x, _pair(window), stride=_pair(stride) or None, padding=_pair(padding))


def _pair(given: Any) -> tuple[int, ...]:
    """Two numbers, one for each spatial axis, from one or two."""
    listed = (given,) if isinstance(given, int) else tuple(given)
    return listed * 2 if len(listed) == 1 else listed


PRODUCTS: Mapping[str, Meaning] = {
    "mm": Meaning(_mm),
    "bmm": Meaning(_mm),
    "mv": Meaning(_mm),
    "dot": Meaning(_dot),
    "addmm": Meaning(_addmm),
    "addmv": Meaning(_addmm),
    "baddbmm": Meaning(_addmm),
}
CONVOLUTION = "convolution"
FUNCTIONS: Mapping[str, Meaning] = {
    **PRODUCTS,
    CONVOLUTION: Meaning(_convolution),
    "convolution_backward": Meaning(_convolution_backward, behind=False),
    "sum": Meaning(_reduction("sum"), before=True),
    "mean": Meaning(_reduction("mean"), before=True),
    "amax": Meaning(_reduction("max"), before=True),
    "amin": Meaning(_reduction("min"), before=True),
    "cumsum": Meaning(_cumsum, behind=False),
    "logsumexp": Meaning(_logsumexp, before=True),
    "_softmax": Meaning(_softmax, before=True),
    "_log_softmax": Meaning(_log_softmax, before=True),
    "_softmax_backward_data": Meaning(_softmax_backward, before=True),
    "_log_softmax_backward_data": Meaning(_log_softmax_backward, before=True),
    "native_layer_norm": Meaning(layer_norm, behind=False),
    "native_layer_norm_backward": Meaning(layer_norm_backward, behind=False),
    "_native_batch_norm_legit_functional": Meaning(batch_norm, behind=False),
    "native_batch_norm_backward": Meaning(batch_norm_backward, behind=False),
    "native_group_norm": Meaning(group_norm, behind=False),
    "native_group_norm_backward": Meaning(group_norm_backward, behind=False),
    "max_pool2d_with_indices": Meaning(_max_pool, behind=False),
    "avg_pool2d": Meaning(_avg_pool, behind=False),
}
