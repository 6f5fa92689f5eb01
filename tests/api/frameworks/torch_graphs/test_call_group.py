"""Functions of torch's graphs, beside the formulas of their documentation in float64.

What they mean is computed by the reference interpreter; some are computed by kernels, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mdtensor.api.calls import program_calls
from mdtensor.api.frameworks.call_text import held_by_name, run
from mdtensor.api.frameworks.torch_graphs.aten_elements import OperandPosition
from mdtensor.api.frameworks.torch_graphs.call_group import (
    AtenCall,
    CallGroup,
    GroupValue,
    OperandView,
)
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.python.tuples import as_tuple

RANDOM = np.random.default_rng(27)
F32 = np.dtype("f4")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "by_kernels" not in request.fixturenames:
        monkeypatch.setattr(program_calls, "executor", reference.compute)


@pytest.fixture
def by_kernels() -> None:
    """For tests that run kernels."""


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("f4")


def group(operands: int, *calls: Any, results: Any = None) -> CallGroup:
    """Calls as tuples of a name, arguments and perhaps named ones."""
    made = tuple(
        AtenCall(name, args, tuple(named[0].items()) if named else (), F32)
        for name, args, *named in calls
    )
    every = (GroupValue(len(made) - 1),) if results is None else results
    return CallGroup(tuple(map(OperandView, range(operands))), made, every)


def computed(of: CallGroup, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The results, after a look at the one computation that they are."""
    program = of.program([TensorSpec.of(a.shape, a.dtype) for a in arrays])
    found = of(*arrays)
    assert [spec.shape for spec in program.results] == [each.shape for each in found]
    return found


def assert_close(found: np.ndarray, due: Any) -> None:
    scale = np.abs(due).max() or 1
    np.testing.assert_allclose(found, due, rtol=3e-5, atol=3e-6 * scale)


a, b, c, d = map(OperandPosition, range(4))
ERF = np.vectorize(math.erf)
X = normal(5, 7)


def slope(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """The derivative by a difference in float64."""
    return (function(x + 1e-6) - function(x - 1e-6)) / 2e-6


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + ERF(x / math.sqrt(2)))


def gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


UNARY: dict[str, tuple[Any, Callable[[np.ndarray], Any]]] = {
    "neg": ((a,), np.negative),
    "abs": ((a,), np.abs),
    "square": ((a,), np.square),
    "exp": ((a,), np.exp),
    "expm1": ((a,), np.expm1),
    "sin": ((a,), np.sin),
    "cos": ((a,), np.cos),
    "tanh": ((a,), np.tanh),
    "erf": ((a,), ERF),
    "relu": ((a,), lambda x: np.maximum(x, 0)),
    "sigmoid": ((a,), lambda x: 1 / (1 + np.exp(-x))),
    "silu": ((a,), silu),
    "gelu": ((a,), gelu),
    "leaky_relu": ((a, 0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
    "clamp": ((a, -0.5, 0.25), lambda x: np.clip(x, -0.5, 0.25)),
    "clamp_min": ((a, 0.1), lambda x: np.maximum(x, 0.1)),
    "clamp_max": ((a, 0.1), lambda x: np.minimum(x, 0.1)),
    "pow": ((a, 3), lambda x: x**3),
    "add": ((a, 2.5), lambda x: x + 2.5),
    "rsub": ((a, 2.5), lambda x: 2.5 - x),
    "clone": ((a,), lambda x: x),
}
OF_POSITIVE: dict[str, Callable[[np.ndarray], Any]] = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "log": np.log,
    "log1p": np.log1p,
    "reciprocal": lambda x: 1 / x,
}


def test_elementwise_functions_of_one_tensor() -> None:
    wide = X.astype("f8")
    for name, (arguments, due) in UNARY.items():
        (found,) = computed(group(1, (name, arguments)), X)
        assert_close(found, due(wide))
    for name, function in OF_POSITIVE.items():
        (found,) = computed(group(1, (name, (a,))), np.abs(X) + 0.1)
        assert_close(found, function(np.abs(wide) + np.float32(0.1)))
    (found,) = computed(group(1, ("gelu", (a,), {"approximate": "tanh"})), X)
    assert_close(found, gelu_by_tanh(wide))


def test_elementwise_functions_of_several_tensors() -> None:
    y, z, mask = normal(7), normal(5, 1), X > 0
    x, v, w = X.astype("f8"), y.astype("f8"), z.astype("f8")
    cases: list[tuple[Any, Any, Any]] = [
        (("add", (a, b), {"alpha": 2}), (X, y), x + 2 * v),
        (("sub", (a, b), {"alpha": 0.5}), (X, z), x - w / 2),
        (("mul", (a, b)), (X, y), x * v),
        (("div", (a, b)), (X, z), x / w),
        (("maximum", (a, b)), (X, y), np.maximum(x, v)),
        (("minimum", (a, b)), (X, y), np.minimum(x, v)),
        (("addcmul", (a, b, c), {"value": 3}), (X, y, z), x + 3 * v * w),
        (("addcdiv", (a, b, c), {"value": 3}), (X, y, z), x + 3 * v / w),
        (("where", (a, b, c)), (mask, X, z), np.where(mask, x, w)),
        (("masked_fill", (a, b, -2.0)), (X, mask), np.where(mask, -2.0, x)),
    ]
    for call, operands, due in cases:
        (found,) = computed(group(len(operands), call), *operands)
        assert_close(found, due)
    compared = AtenCall("gt", (a, b), (), np.dtype(bool))
    (found,) = CallGroup((OperandView(0), OperandView(1)), (compared,), (GroupValue(0),))(X, z)
    np.testing.assert_array_equal(found, z < X)


def test_gradients_of_elementwise_functions() -> None:
    grad = normal(5, 7)
    x, g = X.astype("f8"), grad.astype("f8")
    for name, named, function in (
        ("gelu_backward", {}, gelu),
        ("gelu_backward", {"approximate": "tanh"}, gelu_by_tanh),
        ("silu_backward", {}, silu),
    ):
        (found,) = computed(group(2, (name, (a, b), named)), grad, X)
        assert_close(found, g * slope(function, x))
    (found,) = computed(group(2, ("threshold_backward", (a, b, 0))), grad, X)
    assert_close(found, g * (x > 0))
    for name, function in (
        ("tanh_backward", np.tanh),
        ("sigmoid_backward", lambda v: 1 / (1 + np.exp(-v))),
    ):
        (found,) = computed(group(2, (name, (a, b))), grad, function(x).astype("f4"))
        assert_close(found, g * slope(function, x))


def test_products_with_what_stands_behind_them_are_one_step() -> None:
    m, w, bias, rest = normal(6, 8), normal(8, 5), normal(5), normal(6, 5)
    of = group(4, ("addmm", (c, a, b)), ("gelu", (GroupValue(0),)), ("add", (GroupValue(1), d)))
    (found,) = computed(of, m, w, bias, rest)
    due = gelu(m.astype("f8") @ w + bias) + rest
    assert_close(found, due)
    assert len(of.program([TensorSpec.of(x.shape) for x in (m, w, bias, rest)]).steps) == 1
    (found,) = computed(group(3, ("addmm", (c, a, b), {"beta": 2, "alpha": 0.5})), m, w, bias)
    assert_close(found, 2 * bias + m.astype("f8") @ w / 2)
    q, k = normal(2, 3, 4, 5), normal(2, 3, 5, 6)
    (found,) = computed(group(2, ("bmm", (a, b)), ("div", (GroupValue(0), 2.0))), q, k)
    assert_close(found, q.astype("f8") @ k / 2)
    (found,) = computed(group(2, ("dot", (a, b))), m[0], m[1])
    assert_close(found, m[0].astype("f8") @ m[1])


def convolved(x: np.ndarray, w: np.ndarray, pad: int) -> np.ndarray:
    x = np.pad(x.astype("f8"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("nchwrs,kcrs->nkhw", windows, w)


@pytest.mark.usefixtures("by_kernels")
def test_a_convolution_takes_a_normalisation_and_a_residual_into_its_kernels() -> None:
    x, w, bias, rest = normal(2, 3, 6, 6), normal(4, 3, 3, 3), normal(4), normal(2, 4, 6, 6)
    scale, shift, mean = (normal(4, 1, 1) for _ in range(3))
    variance = np.abs(normal(4, 1, 1)) + 0.5
    numbers = ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    of = group(
        8,
        ("convolution", (a, b, c, *numbers)),
        (
            "_native_batch_norm_legit_no_training",
            (GroupValue(0), *map(OperandPosition, range(4, 8)), 0.1, 1e-5),
        ),
        ("add", (GroupValue(1), d)),
        ("relu", (GroupValue(2),)),
    )
    (found,) = computed(of, x, w, bias, rest, scale, shift, mean, variance)
    due = convolved(x, w, 1) + bias[:, None, None]
    due = (due - mean) / np.sqrt(variance.astype("f8") + 1e-5) * scale + shift
    assert_close(found, np.maximum(due + rest, 0))


def test_gradients_of_a_convolution() -> None:
    x, w, grad = normal(1, 2, 5, 4), normal(3, 2, 3, 3), normal(1, 3, 5, 4)
    numbers = ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    call = ("convolution_backward", (a, b, c, (3,), *numbers, (True, True, True)))
    of = group(3, call, results=tuple(GroupValue(0, n) for n in range(3)))
    by_image, by_filter, by_bias = computed(of, grad, x, w)
    turned = w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    assert_close(by_image, convolved(grad, turned, 1))
    padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    assert_close(by_filter, np.einsum("nkhw,nchwrs->kcrs", grad, windows))
    assert_close(by_bias, grad.astype("f8").sum((0, 2, 3)))
    one = group(3, (call[0], (*call[1][:-1], (False, True, False))), results=(GroupValue(0, 0),))
    with pytest.raises(TranslationError, match="not asked for"):
        one.program([TensorSpec.of(each.shape) for each in (grad, x, w)])


def test_reductions() -> None:
    x = X.astype("f8")
    shifted = np.exp(x)
    cases: list[tuple[Any, Any]] = [
        (("sum", (a,)), x.sum()),
        (("sum", (a, (0,), True)), x.sum(0, keepdims=True)),
        (("mean", (a, (-1,))), x.mean(-1)),
        (("amax", (a, (1,))), x.max(1)),
        (("amin", (a,)), x.min()),
        (("cumsum", (a, 1)), x.cumsum(1)),
        (("logsumexp", (a, (1,))), np.log(shifted.sum(1))),
        (("_softmax", (a, 1, False)), shifted / shifted.sum(1, keepdims=True)),
        (("_log_softmax", (a, 0, False)), x - np.log(shifted.sum(0))),
    ]
    for call, due in cases:
        (found,) = computed(group(1, call), X)
        assert_close(found, due)
    with pytest.raises(TranslationError, match="another type"):
        group(1, ("sum", (a,), {"dtype": 7})).program([TensorSpec.of((3,))])


def test_gradients_of_softmax() -> None:
    grad = normal(5, 7)
    x, g = X.astype("f8"), grad.astype("f8")
    y = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    (found,) = computed(group(2, ("_softmax_backward_data", (a, b, 1, None))), grad, y.astype("f4"))
    assert_close(found, y * (g - (g * y).sum(1, keepdims=True)))
    (found,) = computed(
        group(2, ("_log_softmax_backward_data", (a, b, 1, None))), grad, np.log(y).astype("f4")
    )
    assert_close(found, g - y * g.sum(1, keepdims=True))


def test_layer_normalisation_and_its_gradient() -> None:
    w, bias, grad = normal(7), normal(7), normal(5, 7)
    x, g = X.astype("f8"), grad.astype("f8")
    of = group(
        3,
        ("native_layer_norm", (a, (7,), b, c, 1e-5)),
        results=tuple(GroupValue(0, n) for n in range(3)),
    )
    value, mean, scale = computed(of, X, w, bias)
    center, spread = x.mean(1, keepdims=True), 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    unit = (x - center) * spread
    assert_close(value, unit * w + bias)
    assert_close(mean, center)
    assert_close(scale, spread)
    of = group(
        5,
        (
            "native_layer_norm_backward",
            (a, b, (7,), c, d, OperandPosition(4), None, (True, True, True)),
        ),
        results=tuple(GroupValue(0, n) for n in range(3)),
    )
    by_x, by_w, by_bias = computed(of, grad, X, mean, scale, w)
    inner = g * w
    along = inner - inner.mean(1, keepdims=True) - unit * (inner * unit).mean(1, keepdims=True)
    assert_close(by_x, spread * along)
    assert_close(by_w, (g * unit).sum(0))
    assert_close(by_bias, g.sum(0))


def test_batch_normalisation_in_training_and_its_gradient() -> None:
    images, w, bias, grad = normal(3, 2, 4, 5), normal(2), normal(2), normal(3, 2, 4, 5)
    old_mean, old_variance = normal(2), np.abs(normal(2))
    x, g = images.astype("f8"), grad.astype("f8")
    of = group(
        5,
        ("_native_batch_norm_legit_functional", (a, b, c, d, OperandPosition(4), True, 0.1, 1e-5)),
        results=tuple(GroupValue(0, n) for n in range(5)),
    )
    value, mean, scale, new_mean, new_variance = computed(
        of, images, w, bias, old_mean, old_variance
    )
    axes, over = (0, 2, 3), np.s_[:, None, None]
    center, variance = x.mean(axes), x.var(axes)
    spread = 1 / np.sqrt(variance + 1e-5)
    unit = (x - center[over]) * spread[over]
    assert_close(value, unit * w[over] + bias[over])
    assert_close(mean, center)
    assert_close(scale, spread)
    assert_close(new_mean, 0.9 * old_mean + 0.1 * center)
    assert_close(new_variance, 0.9 * old_variance + 0.1 * x.var(axes, ddof=1))
    wanted = (True, True, True)
    of = group(
        5,
        (
            "native_batch_norm_backward",
            (a, b, c, None, None, d, OperandPosition(4), True, 1e-5, wanted),
        ),
        results=tuple(GroupValue(0, n) for n in range(3)),
    )
    by_x, by_w, by_bias = computed(of, grad, images, w, mean, scale)
    along = g - g.mean(axes)[over] - unit * (g * unit).mean(axes)[over]
    assert_close(by_x, along * (spread * w)[over])
    assert_close(by_w, (g * unit).sum(axes))
    assert_close(by_bias, g.sum(axes))


def test_group_normalisation_and_its_gradient() -> None:
    images, w, bias, grad = normal(3, 6, 4, 5), normal(6), normal(6), normal(3, 6, 4, 5)
    sizes = 3, 6, 20, 2
    of = group(
        3,
        ("native_group_norm", (a, b, c, *sizes, 1e-5)),
        results=tuple(GroupValue(0, n) for n in (0, 1, 2)),
    )
    value, mean, scale = computed(of, images, w, bias)
    grouped = images.astype("f8").reshape(3, 2, 60)
    center, spread = grouped.mean(2), 1 / np.sqrt(grouped.var(2) + 1e-5)
    unit = (grouped - center[..., None]) * spread[..., None]
    over = np.s_[:, None, None]
    assert_close(value, unit.reshape(images.shape) * w[over] + bias[over])
    assert_close(mean, center)
    assert_close(scale, spread)
    wanted = (True, True, True)
    of = group(
        5,
        ("native_group_norm_backward", (a, b, c, d, OperandPosition(4), *sizes, wanted)),
        results=tuple(GroupValue(0, n) for n in range(3)),
    )
    by_x, by_w, by_bias = computed(of, grad, images, mean, scale, w)
    g = grad.astype("f8")
    inner = (g * w[over]).reshape(3, 2, 60)
    along = inner - inner.mean(2, keepdims=True) - unit * (inner * unit).mean(2, keepdims=True)
    assert_close(by_x, (spread[..., None] * along).reshape(images.shape))
    assert_close(by_w, (g * unit.reshape(images.shape)).sum((0, 2, 3)))
    assert_close(by_bias, g.sum((0, 2, 3)))


def test_poolings() -> None:
    images = normal(2, 3, 6, 4)
    windows = images.reshape(2, 3, 3, 2, 2, 2)
    of = group(1, ("max_pool2d_with_indices", (a, (2, 2))), results=(GroupValue(0, 0),))
    assert_close(computed(of, images)[0], windows.max((3, 5)))
    (found,) = computed(group(1, ("avg_pool2d", (a, (2,), (2, 2)))), images)
    assert_close(found, windows.astype("f8").mean((3, 5)))
    around = ((0, 0), (0, 0), (1, 1), (1, 1))
    low, zero = (np.pad(images, around, constant_values=n) for n in (-np.inf, 0))
    shape = 2, 3, 4, 2, 3, 2
    padded = (a, (2, 2), (2, 2), (1, 1))
    of = group(1, ("max_pool2d_with_indices", padded), results=(GroupValue(0, 0),))
    assert_close(computed(of, images)[0], low.reshape(shape).max((3, 5)))
    (found,) = computed(group(1, ("avg_pool2d", padded)), images)
    assert_close(found, zero.astype("f8").reshape(shape).mean((3, 5)))
    for name, arguments in (
        ("max_pool2d_with_indices", (*padded, (1, 1), True)),
        ("avg_pool2d", (*padded, False, False)),
    ):
        with pytest.raises(TranslationError, match="end outside"):
            group(1, (name, arguments)).program([TensorSpec.of((1, 1, 4, 4))])


LAST = (0, 2, 3, 1)  # channels, of images
ARGUMENTS = ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)  # of a convolution
ORDERED = {
    "convolution": (
        group(3, ("convolution", (a, b, None, *ARGUMENTS)), ("add", (GroupValue(0), c))),
        [(2, 8, 9, 7), (6, 8, 3, 3), (2, 6, 9, 7)],
        (LAST,),
    ),
    "gradients of a convolution": (
        group(
            3,
            ("convolution_backward", (a, b, c, None, *ARGUMENTS, (True, True, True))),
            results=tuple(GroupValue(0, n) for n in range(3)),
        ),
        [(2, 6, 9, 7), (2, 8, 9, 7), (6, 8, 3, 3)],
        (LAST, LAST, (0,)),
    ),
    "pooling": (
        group(
            1,
            ("max_pool2d_with_indices", (a, (3, 3), (2, 2), (1, 1))),
            results=(GroupValue(0, 0),),
        ),
        [(2, 8, 9, 7)],
        (LAST,),
    ),
    "batch normalisation": (
        group(
            5,
            ("_native_batch_norm_legit_functional", (a, b, c, d, OperandPosition(4), True, 0, 1)),
            results=tuple(GroupValue(0, n) for n in range(3)),
        ),
        [(3, 2, 4, 5), (2,), (2,), (2,), (2,)],
        (LAST, (0,), (0,)),
    ),
}


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.usefixtures("by_kernels")
def test_results_lie_in_the_order_that_is_due(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of, shapes, orders = ORDERED[name]
    arrays = [laid_out(normal(*shape)) for shape in shapes]
    held = held_by_name(of, replace(of, orders=orders).program)
    found = as_tuple(run(held.text, *arrays))
    lying = [TensorSpec.of(r.shape, r.dtype, [s // r.itemsize for s in r.strides]) for r in found]
    assert [spec.axis_order for spec in lying] == list(orders)
    monkeypatch.setattr(program_calls, "executor", reference.compute)
    for result, due in zip(found, of(*arrays), strict=True):
        assert_close(result, due)


def laid_out(array: np.ndarray) -> np.ndarray:
    """A copy of an image whose channels are innermost; others as they are."""
    if array.ndim < 4:
        return array
    return np.ascontiguousarray(array.transpose(LAST)).transpose(np.argsort(LAST))


def test_operands_are_views() -> None:
    array = normal(4, 6)
    view = OperandView(0, (("narrow", (1, 2, 6)), ("reshape", (4, 2, 2)), ("transpose", (1, 0, 2))))
    np.testing.assert_array_equal(view.of(array), array[:, 2:].reshape(4, 2, 2).transpose(1, 0, 2))
    assert np.shares_memory(view.of(array), array)
