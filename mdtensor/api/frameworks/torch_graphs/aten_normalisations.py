"""ATen's normalisations and their gradients: along axes, by channel, by group.

Statistics are computed once, in float32 for short floats; names and arguments are those of ATen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.api.frameworks.torch_graphs.aten_values import (
    Value,
    computed,
    like,
    of_channels,
    wide,
)
from mdtensor.api.frontends.lazy.lazy import lazy
from mdtensor.api.frontends.lazy.lazy_array import LazyArray
from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError


def layer_norm(
    x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[LazyArray, ...]:
    """`native_layer_norm`: the normalised elements, the mean, and the reciprocal deviation."""
    elements, axes = wide(x), tuple(range(-len(shape), 0))
    mean = computed(elements.mean(axes, keepdims=True))
    distances = elements - mean
    scale = computed(1 / np.sqrt(np.square(distances).mean(axes, keepdims=True) + eps))
    value = distances * scale
    value = value if weight is None else value * lazy(weight)
    value = value if bias is None else value + lazy(bias)
    return like(value, x), mean, scale


def layer_norm_backward(
    grad: Value,
    x: Value,
    shape: Sequence[int],
    mean: Value,
    scale: Value,
    weight: Value | None,
    bias: Value | None,
    wanted: Sequence[bool],
) -> tuple[LazyArray | None, ...]:
    """The gradients with respect to elements, weight and bias."""
    elements, cotangent = (wide(x) - wide(mean)) * wide(scale), wide(grad)
    axes = tuple(range(-len(shape), 0))
    rows = tuple(range(elements.ndim - len(shape)))
    inner = cotangent if weight is None else cotangent * lazy(weight)
    along = inner - inner.mean(axes, keepdims=True)
    along = along - elements * (inner * elements).mean(axes, keepdims=True)
    parameter = grad if weight is None else weight
    return (
        like(wide(scale) * along, grad) if wanted[0] else None,
        like((cotangent * elements).sum(rows), parameter) if wanted[1] else None,
        like(cotangent.sum(rows), parameter) if wanted[2] else None,
    )


def _normalised(
    x: Value, weight: Value | None, bias: Value | None, mean: Value, scale: Any
) -> LazyArray:
    elements = wide(x)
    value = (elements - of_channels(elements, mean)) * of_channels(elements, scale)
    value = value if weight is None else value * of_channels(elements, weight)
    return like(value if bias is None else value + of_channels(elements, bias), x)


def batch_norm(
    x: Value,
    weight: Value | None,
    bias: Value | None,
    old_mean: Value,
    old_variance: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[LazyArray, ...]:
    """Batch norm in training: the result, its statistics, and the updated running statistics."""
    if not training:
        raise TranslationError("statistics that were kept are the other function's")
    elements = wide(x)
    axes = (0, *range(2, elements.ndim))
    count = elements.size // elements.shape[1]
    mean = computed(elements.mean(axes))
    distances = elements - of_channels(elements, mean)
    variance = computed(np.square(distances).mean(axes))
    scale = computed(1 / np.sqrt(variance + eps))
    unbiased = variance * (count / max(count - 1, 1))
    return (
        _normalised(x, weight, bias, mean, scale),
        mean,
        scale,
        lazy(old_mean) * (1 - momentum) + mean * momentum,
        lazy(old_variance) * (1 - momentum) + unbiased * momentum,
    )


def batch_norm_backward(
    grad: Value,
    x: Value,
    weight: Value | None,
    old_mean: Value,
    old_variance: Value,
    mean: Value,
    scale: Value,
    training: bool,
    eps: float,
    wanted: Sequence[bool],
) -> tuple[LazyArray | None, ...]:
    """The gradients with respect to images, weight and bias."""
    if not training:
        raise TranslationError("gradients by statistics that were kept are torch's")
    elements, cotangent = wide(x), wide(grad)
    axes = (0, *range(2, elements.ndim))
    each = elements.shape[1] / elements.size
    distances = (elements - of_channels(elements, mean)) * of_channels(elements, scale)
    for_bias = computed(cotangent.sum(axes))
    for_weight = computed((cotangent * distances).sum(axes))
    along = cotangent - of_channels(elements, for_bias * each)
    along = along - distances * of_channels(elements, for_weight * each)
    factor = lazy(scale) if weight is None else lazy(scale) * lazy(weight)
    parameter = x if weight is None else weight
    return (
        like(along * of_channels(elements, factor), x) if wanted[0] else None,
        like(for_weight, parameter) if wanted[1] else None,
        like(for_bias, parameter) if wanted[2] else None,
    )


@dataclass(frozen=True, slots=True)
class _Groups:
    """Groups of an image's channels, with reductions over a group and broadcasts from it.

    The mean of a group is that of its channels' means, since all have as many elements.
    """

    images: int
    channels: int
    groups: int
    axes: tuple[int, ...]

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.images, self.groups, self.channels // self.groups

    def means(self, elements: LazyArray, factor: LazyArray | None = None) -> LazyArray:
        """The mean of each group; `factor` scales the channels, if given."""
        found: Any = elements.mean(self.axes)
        found = found if factor is None else found * factor
        return computed(found.reshape(self._shape).mean(2))

    def spread(self, value: Value) -> LazyArray:
        """A value per group, broadcast over the group's elements."""
        of_channels = np.broadcast_to(lazy(value)[:, :, None], self._shape)
        every: Any = of_channels.reshape(self.images, self.channels)
        return every[(..., *[None] * len(self.axes))]


def group_norm(
    x: Value,
    weight: Value | None,
    bias: Value | None,
    images: int,
    channels: int,
    _: int,
    groups: int,
    eps: float,
) -> tuple[LazyArray, ...]:
    """`native_group_norm`: the normalised elements, the mean, and the reciprocal deviation."""
    elements = wide(x)
    of = _Groups(images, channels, groups, tuple(range(2, x.ndim)))
    mean = of.means(elements)
    distances = elements - of.spread(mean)
    scale = computed(1 / np.sqrt(of.means(np.square(distances)) + eps))
    value = distances * of.spread(scale)
    value = value if weight is None else value * of_channels(value, weight)
    return like(value if bias is None else value + of_channels(value, bias), x), mean, scale


def group_norm_backward(
    grad: Value,
    x: Value,
    mean: Value,
    scale: Value,
    weight: Value | None,
    images: int,
    channels: int,
    _: int,
    groups: int,
    wanted: Sequence[bool],
) -> tuple[LazyArray | None, ...]:
    """The gradients with respect to images, weight and bias."""
    cotangent = wide(grad)
    of = _Groups(images, channels, groups, tuple(range(2, x.ndim)))
    spread = of.spread(scale)
    unit = (wide(x) - of.spread(mean)) * spread
    factor = None if weight is None else wide(weight)
    inner = cotangent if factor is None else cotangent * of_channels(cotangent, factor)
    along = inner - of.spread(of.means(cotangent, factor))
    along = along - unit * of.spread(of.means(cotangent * unit, factor))
    axes = (0, *of.axes)
    return (
        like(spread * along, x) if wanted[0] else None,
        like((cotangent * unit).sum(axes), grad) if wanted[1] else None,
        like(cotangent.sum(axes), grad) if wanted[2] else None,
    )
