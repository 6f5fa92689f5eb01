"""`conv`: the convolutions of deep learning, in one to three dimensions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mdtensor.api.arrays.operands import Array, check_types
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.calls.function_fingerprint import function_key
from mdtensor.api.calls.program_calls import call
from mdtensor.api.devices import Devices
from mdtensor.api.frontends.einsum.einsum_options import checked_precision
from mdtensor.api.frontends.parted import in_parts
from mdtensor.errors import ShapeError, count_of, shown
from mdtensor.options import MOST_AXES, beginning, flag, is_iterable, whole_numbers
from mdtensor.specs import TensorSpec, as_dtype
from mdtensor.translate.convolutions.convolution_epilogue import Added, finished
from mdtensor.translate.convolutions.convolution_layout import (
    ConvolutionLayout,
    Geometry,
    convolution_from_layout,
    parse_layout,
)
from mdtensor.translate.convolutions.md_hom_from_convolution import program_from_convolution
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.programs.other_operands import with_result_orders
from mdtensor.translate.reductions.epilogues import epilogue_named

# A number for all spatial axes, or one for each.
PerAxis = int | Sequence[int]
Padding = str | int | Sequence[int] | Sequence[tuple[int, int]]

_CAPSULES = "NHWCAB,KRSCBE->NPQKAE"
_spatial = functools.partial(whole_numbers, of="spatial axes")


@with_call_cache
def conv(
    img: Any,
    flt: Any,
    *operands: Any,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    layout: str = "NHWC,KRSC->NPQK",
    transposed: bool = False,
    output_padding: PerAxis = 0,
    bias: Any = None,
    epilogue: Callable[..., Any] | str | None = None,
    out: Array | None = None,
    dtype: object = None,
    acc_dtype: object = None,
    precision: str | None = None,
    devices: Devices | None = None,
) -> Array:
    """Convolve images with filters as deep learning does: windows are weighted, not flipped.

    `layout` names the axes of image, filter and result: N images, C channels, K filters; D, H, W
    the spatial axes of the image, T, R, S those of the filter, Z, P, Q those of the result, which
    all may be written D, H, W too. Other letters mean what they mean to `einsum`.

    `stride`, `dilation` and `output_padding` are numbers, or one for each spatial axis. `padding`
    counts the zeros on both sides of the image: a number, one for each spatial axis, a pair
    (before, after) for each, "valid" (none), or "same": the result has ceil(extent / stride)
    elements, and the padding that takes is halved, the odd element going after the image
    (TensorFlow's rule, and torch's where the stride is 1).

    `groups` splits channels: each group of K / groups filters sees C / groups channels, which is
    the extent of C in the filter. As many groups as channels are a depthwise convolution.

    `transposed` is torch's conv_transpose: the adjoint of the convolution with the same options.
    The filter's C are all channels of the image and its K the results of one group, `padding`
    takes elements away from the result, `output_padding` adds some at its end. "same" gives
    extent · stride elements.

    `bias` holds one number for each K. `epilogue` is a function of Python applied once to each
    finished element, bias included, or one of the names "relu", "gelu", "silu" and "tanh". Further
    `operands`, such as a residual, are its other parameters: their elements at the place of the
    result, which they broadcast against. `dtype` is the type of the result, by default the common
    type of img, flt and bias, and what the epilogue makes of it and the operands; `acc_dtype` that
    of products and sums, by default float32 for float16 and bfloat16 (which CuPy's arrays may
    have), else `dtype`. `precision="tf32"` lets a GPU's tensor cores round factors in float32 to
    the ten bits after the point, as for `einsum`. `devices`, a list of names as `mdtensor.devices`
    has them or "all", has the parts of the convolution computed by several devices
    (docs/devices.md).
    A new result's axes lie in memory as the image's do, as with channels last in torch.
    No window is materialised. The image is copied with its padding where each of its elements is in
    so many products that the copy takes little beside them; otherwise borders are computed apart.

    Raises ShapeError, SubscriptError, DeviceError (all ValueErrors) and DTypeError (a TypeError).

    >>> import numpy as np
    >>> img = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> flt = np.ones((1, 3, 3, 1))
    >>> conv(img, flt)[0, :, :, 0]
    array([[45., 54.],
           [81., 90.]])
    >>> conv(img, flt, stride=2, padding=1, layout="NHWC,KRSC->NKPQ").shape
    (1, 1, 2, 2)
    >>> conv(img, flt, img, padding=1, epilogue=lambda y, residual: y - 9 * residual)[0, :, :, 0]
    array([[ 10.,   9.,   6.,  -9.],
           [ -9.,   0.,   0., -24.],
           [-21.,   0.,   0., -36.],
           [-66., -51., -54., -85.]])
    """
    if devices is not None:
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        options |= {"layout": layout, "transposed": transposed, "output_padding": output_padding}
        options |= {"bias": bias, "epilogue": epilogue, "out": out, "dtype": dtype}
        options |= {"acc_dtype": acc_dtype, "precision": precision}
        return in_parts(conv, (img, flt, *operands), options, devices)
    if operands and epilogue is None:
        raise ShapeError(
            f"{count_of(len(operands), 'operand', 'operands')} more than an image and a filter,"
            " and no epilogue that takes them",
            hint="epilogue=lambda y, residual: y + residual, for instance",
        )
    given = (img, flt, *(() if bias is None else (bias,)), *operands)
    weighted = len(given) - len(operands)
    parsed = parse_layout(layout)
    geometry = _geometry(parsed, stride, padding, dilation, groups, transposed, output_padding)
    wanted = None if dtype is None else as_dtype(dtype)
    accumulated = None if acc_dtype is None else as_dtype(acc_dtype)
    asked = [given for given in (wanted, accumulated) if given is not None]
    check_types(asked)
    checked_precision(precision)
    finish = epilogue_named(epilogue)
    follows = out is None
    key = ("conv", parsed, geometry, wanted, accumulated, precision, weighted, follows)
    key = (*key, function_key(finish))

    def build(specs: tuple[TensorSpec, ...]) -> Program:
        convolution = convolution_from_layout(
            parsed, geometry, specs[:weighted], dtype=wanted, acc_dtype=accumulated
        )
        convolution = replace(convolution, precision=precision)
        added = Added(specs[2:weighted], specs[weighted:], finish, wanted, accumulated)
        program = program_from_convolution(finished(parsed, convolution, added))
        order = parsed.result_order(specs[0]) if follows else None
        return program if order is None else with_result_orders(program, (order,))

    return call(key, given, build, out)


@with_call_cache
def conv_capsule(
    img: Any,
    flt: Any,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    out: Array | None = None,
    dtype: object = None,
    acc_dtype: object = None,
    precision: str | None = None,
) -> Array:
    """Convolve images of capsules: channels are matrices, and a matrix product joins them.

    `img[n, h, w, c, i, k]` and `flt[k', r, s, c, k, j]` give `out[n, p, q, k', i, j]` (MCC_Capsule
    of 002, section 4.2.4, Figure 20). The options are those of `conv`.

    >>> import numpy as np
    >>> img, flt = np.ones((1, 5, 5, 2, 4, 4)), np.ones((3, 3, 3, 2, 4, 4))
    >>> capsules = conv_capsule(img, flt, stride=2)
    >>> capsules.shape, float(capsules[0, 0, 0, 0, 0, 0])
    ((1, 2, 2, 3, 4, 4), 72.0)
    """
    return conv(
        img,
        flt,
        stride=stride,
        padding=padding,
        dilation=dilation,
        layout=_CAPSULES,
        out=out,
        dtype=dtype,
        acc_dtype=acc_dtype,
        precision=precision,
    )


def _geometry(
    layout: ConvolutionLayout,
    stride: PerAxis,
    padding: Padding,
    dilation: PerAxis,
    groups: int,
    transposed: bool,
    output_padding: PerAxis,
) -> Geometry:
    """The checked options of a convolution, one number per spatial axis.

    Raises ShapeError for the wrong number of numbers and for numbers out of range.
    """
    rank, turned = layout.rank, flag("transposed", transposed)
    outside = _spatial("output_padding", output_padding, rank, least=0)
    if any(outside) and not turned:
        raise ShapeError("output_padding belongs to transposed convolutions", hint="padding=…")
    return Geometry(
        _spatial("stride", stride, rank),
        _padding(padding, rank),
        _spatial("dilation", dilation, rank),
        _spatial("groups", groups, 1)[0],
        turned,
        outside,
    )


def _padding(given: Any, rank: int) -> tuple[tuple[int, int], ...] | str:
    if isinstance(given, str):
        if given.lower() not in ("valid", "same"):
            raise ShapeError(f"padding is {shown(given)}", hint="'valid', 'same', or numbers")
        return given.lower()
    sides = tuple(beginning(given, MOST_AXES)) if is_iterable(given) else (given,) * rank
    if len(sides) != rank:
        raise ShapeError(
            f"padding has {len(sides)} values for {rank} spatial axes",
            hint="a number, one for each axis, or a pair (before, after) for each",
        )
    pairs: list[tuple[int, int]] = []
    for side in sides:
        before, after = _spatial("padding", side, 2, least=0)
        pairs.append((before, after))
    return tuple(pairs)
