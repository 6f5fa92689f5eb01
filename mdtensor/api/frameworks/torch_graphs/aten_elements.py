"""Elementwise ATen functions by name, as functions of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.translate.scalar import Expr, apply, as_expr, cast, equal, not_equal, select, truth

Element = Any
"""An element: an expression, or a number."""


@dataclass(frozen=True, slots=True)
class OperandPosition:
    """The position of an operand among a function's arguments."""

    number: int


@dataclass(frozen=True, slots=True)
class Elementwise:
    """An ATen function with its constants bound, as a function of elements of type `dtype`.

    `arguments` and `named` are torch's, with a `OperandPosition` for each tensor.
    """

    name: str
    arguments: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]
    dtype: np.dtype

    def __call__(self, *elements: Expr) -> Expr:
        """The result element as an expression of the operands' elements."""

        def filled(value: Any) -> Any:
            return elements[value.number] if isinstance(value, OperandPosition) else value

        named = {name: filled(value) for name, value in self.named}
        found = ELEMENTWISE[self.name](*map(filled, self.arguments), **named)
        return cast(as_expr(found), self.dtype)


def _add(x: Element, y: Element, *, alpha: Element = 1) -> Element:
    return x + (y if alpha == 1 else y * alpha)


def _sub(x: Element, y: Element, *, alpha: Element = 1) -> Element:
    return x - (y if alpha == 1 else y * alpha)


def _rsub(x: Element, y: Element, alpha: Element = 1) -> Element:
    return _sub(y, x, alpha=alpha)


def _addcmul(x: Element, a: Element, b: Element, *, value: Element = 1) -> Element:
    return _add(x, a * b, alpha=value)


def _addcdiv(x: Element, a: Element, b: Element, *, value: Element = 1) -> Element:
    return x + (a if value == 1 else a * value) / b


_ROOT_OF_HALF, _OF_NORMAL = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)
_CUBIC, _OF_TANH = 0.044715, math.sqrt(2 / math.pi)


def _gelu(x: Element, *, approximate: str = "none") -> Element:
    if approximate == "tanh":
        return x * 0.5 * (np.tanh((x + x * x * x * _CUBIC) * _OF_TANH) + 1)
    return x * 0.5 * (apply("erf", x * _ROOT_OF_HALF) + 1)


def _gelu_backward(grad: Element, x: Element, *, approximate: str = "none") -> Element:
    if approximate == "tanh":
        inner = np.tanh((x + x * x * x * _CUBIC) * _OF_TANH)
        slope = (1 - inner * inner) * (x * x * (3 * _CUBIC) + 1) * _OF_TANH
        return grad * ((inner + 1) * 0.5 + x * 0.5 * slope)
    below = (apply("erf", x * _ROOT_OF_HALF) + 1) * 0.5
    return grad * (below + x * np.exp(x * x * -0.5) * _OF_NORMAL)


def _silu_backward(grad: Element, x: Element) -> Element:
    weight = 1 / (1 + np.exp(-x))
    return grad * weight * (x * (1 - weight) + 1)


def _leaky_relu(x: Element, slope: Element = 0.01) -> Element:
    return select(apply("gt", x, 0), x, x * slope)


def _clamp(x: Element, least: Element = None, most: Element = None) -> Element:
    raised = x if least is None else apply("max", x, least)
    return raised if most is None else apply("min", raised, most)


def _batch_norm(
    x: Element,
    weight: Element,
    bias: Element,
    mean: Element,
    variance: Element,
    momentum: float,
    eps: float,
) -> Element:
    scale = 1 / apply("sqrt", variance + eps)
    value = (x - mean) * (scale if weight is None else scale * weight)
    return value if bias is None else value + bias


def _itself(x: Element, **_: Any) -> Element:
    return x


def _unary(op: str) -> Callable[..., Element]:
    def applied(x: Element) -> Element:
        return apply(op, x)

    return applied


def _binary(op: str) -> Callable[..., Element]:
    def applied(x: Element, y: Element) -> Element:
        return apply(op, x, y)

    return applied


CONVERSION = "_to_copy"
"""To another type; elements are of the result's type in any case."""
BATCH_NORM = "_native_batch_norm_legit_no_training"
"""By statistics that were kept: but these, its operands have an element for each channel."""

_OF_ONE: Mapping[str, Callable[[Element], Element]] = {
    **{op: _unary(op) for op in ("neg", "abs", "sqrt", "expm1", "log", "log1p")},
    **{op: _unary(op) for op in ("sin", "cos", "tanh", "erf")},
    "exp": np.exp,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / apply("sqrt", x),
    "square": lambda x: x * x,
    "relu": lambda x: apply("max", x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "logical_not": lambda x: apply("not", truth(x)),
}
_OF_TWO: Mapping[str, Callable[[Element, Element], Element]] = {
    **{op: _binary(op) for op in ("mul", "div", "pow", "lt", "le", "gt", "ge")},
    **dict.fromkeys(("maximum", "clamp_min"), _binary("max")),
    **dict.fromkeys(("minimum", "clamp_max"), _binary("min")),
    "eq": equal,
    "ne": not_equal,
    "sigmoid_backward": lambda grad, y: grad * (1 - y) * y,
    "tanh_backward": lambda grad, y: grad * (1 - y * y),
    "silu_backward": _silu_backward,
}
_OF_THREE: Mapping[str, Callable[[Element, Element, Element], Element]] = {
    "where": lambda holds, x, y: select(truth(holds), x, y),
    "masked_fill": lambda x, mask, value: select(truth(mask), value, x),
    "threshold_backward": lambda grad, x, least: select(apply("le", x, least), 0, grad),
}
# Without the words of ATen's overloads: a tensor or a number may stand for each operand.
ELEMENTWISE: Mapping[str, Callable[..., Element]] = {
    **_OF_ONE,
    **_OF_TWO,
    **_OF_THREE,
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "gelu": _gelu,
    "leaky_relu": _leaky_relu,
    "clamp": _clamp,
    "clone": _itself,
    CONVERSION: _itself,
    BATCH_NORM: _batch_norm,
    "gelu_backward": _gelu_backward,
}
