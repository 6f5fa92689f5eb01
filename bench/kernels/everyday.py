"""Everyday calls of data analysis and of layers of networks, on shapes of no particular fit."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.kernels.convolutions import Convolution, convolution
from bench.kernels.kernel import Kernel, normal, tensor_of, whole, xla
from bench.kernels.reductions import histogram
from bench.workload import CALL, Call, Outs, Workload
from bench.workloads import Contraction
from mdtensor.specs import TensorSpec

# A way to compute a case: a function of a library and of the operands, which gets `out` if it has
# a parameter of that name.
Function = Callable[..., Any]
Shape = tuple[int, ...]


def _everyday(
    name: str,
    formula: str,
    shapes: tuple[Shape, ...],
    result: Shape,
    reduction: int,
    functions: Mapping[str, Function],
    *,
    dtype: str = "float32",
    draw: Callable[..., np.ndarray] = normal,
) -> Kernel:
    """A case by functions of libraries, of whose names the first word is the library's.

    That for NumPy is the reference too, and is JAX's where there is none for it.
    """
    functions = {"jax": functions["numpy"], **functions}
    words = dict.fromkeys(key.split()[0] for key in functions)
    return Kernel(
        name=name,
        formula=formula,
        inputs=tuple(TensorSpec.of(shape) for shape in shapes),
        outputs=(TensorSpec.of(result, dtype),),
        reduction=reduction,
        flops=2 * math.prod(result) * reduction,
        exact=functools.partial(functions["numpy"], np),
        says={word: functools.partial(_calls, word, functions) for word in words},
        draw=(draw,) * len(shapes),
    )


def _calls(
    word: str, functions: Mapping[str, Function], operands: list[np.ndarray], outs: Outs
) -> Mapping[str, Call]:
    library = importlib.import_module("jax.numpy" if word == "jax" else word)
    given, out = operands, outs[0]
    if word == "torch":
        given, out = [tensor_of(operand) for operand in operands], tensor_of(out)
    calls: dict[str, Call] = {}
    for name, function in functions.items():
        first, _, way = name.partition(" ")
        if first != word:
            continue
        if word == "jax":
            call = xla(functools.partial(function, library), operands)
        else:
            into = {"out": out} if "out" in inspect.signature(function).parameters else {}
            call = functools.partial(function, library, *given, **into)
        calls[way or CALL] = call
    return calls


def _softmax(np: Any, x: Any) -> Any:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _squared_distances(np: Any, a: Any, b: Any) -> Any:
    return ((a[:, None] - b[None]) ** 2).sum(2)


def _squared_distances_by_a_product(np: Any, a: Any, b: Any) -> Any:
    return (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T


def _squared_distance(a: Any, b: Any) -> Any:
    return (a - b) ** 2


def _box(np: Any, x: Any) -> Any:
    n, m = x.shape
    wide = np.pad(x, 1, mode="symmetric")
    return sum(wide[r : r + n, s : s + m] for r in range(3) for s in range(3)) / 9


def _smooth(np: Any, x: Any) -> Any:
    weights = np.asarray(_WEIGHTS, x.dtype)
    return np.correlate(np.pad(x, len(weights) // 2, mode="symmetric"), weights, mode="valid")


def _conv_nchw(np: Any, img: Any, flt: Any) -> Any:
    pads = ((0, 0), (0, 0), (1, 1), (1, 1))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(img, pads), (3, 3), axis=(2, 3))
    return np.tensordot(windows, flt, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)


def _conv_nchw_by_xla(np: Any, img: Any, flt: Any) -> Any:
    return importlib.import_module("jax.lax").conv(img, flt, (1, 1), "SAME")


_WEIGHTS = np.hanning(33)[1:-1].astype("f4")

EVERYDAY: tuple[Workload, ...] = (
    Contraction("attention-scores-2x8x128x64", "bhqd,bhkd->bhqk", ((2, 8, 128, 64),) * 2),
    Contraction(
        "attention-values-2x8x128x64", "bhqk,bhkd->bhqd", ((2, 8, 128, 128), (2, 8, 128, 64))
    ),
    Contraction("heads-4x64x256-256x4x64", "btd,dhk->bthk", ((4, 64, 256), (256, 4, 64))),
    Contraction("bmatmul-1000x4x4x4", "bij,bjk->bik", ((1000, 4, 4),) * 2),
    Contraction("bmatmul-64x31x17x23", "bij,bjk->bik", ((64, 31, 23), (64, 23, 17))),
    Contraction("covariance-5000x60x40", "ki,kj->ij", ((5000, 60), (5000, 40))),
    _everyday(
        "bilinear-64x32x48x16",
        "out[b, o] = Σ x[b, i] w[o, i, j] y[b, j]",
        ((64, 32), (16, 32, 48), (64, 48)),
        (64, 16),
        32 * 48,
        {
            "mdtensor": lambda mdt, *xwy, **out: mdt.einsum("bi,oij,bj->bo", *xwy, **out),
            "numpy": lambda np, *xwy, **out: np.einsum("bi,oij,bj->bo", *xwy, optimize=True, **out),
            "opt_einsum": lambda oe, *xwy, **out: oe.contract("bi,oij,bj->bo", *xwy, **out),
            "torch": lambda torch, x, w, y: torch.nn.functional.bilinear(x, y, w),
        },
    ),
    _everyday(
        "softmax-rows-1000x1000",
        "out[i, j] = exp x[i, j] / Σ exp x[i, k]",
        ((1000, 1000),),
        (1000, 1000),
        1000,
        {
            "mdtensor": lambda mdt, x, **out: mdt.softmax(x, axis=1, **out),
            "numpy": _softmax,
            "scipy": lambda scipy, x: scipy.special.softmax(x, axis=1),
            "torch": lambda torch, x, **out: torch.softmax(x, 1, **out),
        },
    ),
    _everyday(
        "mean-columns-2000x500",
        "out[j] = mean over i of x[i, j]",
        ((2000, 500),),
        (500,),
        2000,
        {
            "mdtensor": lambda mdt, x, **out: mdt.mean(x, axis=0, **out),
            "numpy": lambda np, x, **out: np.mean(x, axis=0, **out),
            "torch": lambda torch, x, **out: torch.mean(x, 0, **out),
        },
    ),
    _everyday(
        "mean-of-every-second-2000x2000",
        "out[i] = mean over j of x[i, 2j]",
        ((2000, 2000),),
        (2000,),
        1000,
        {
            "mdtensor": lambda mdt, x, **out: mdt.mean(x[:, ::2], axis=1, **out),
            "numpy": lambda np, x, **out: np.mean(x[:, ::2], axis=1, **out),
            "torch": lambda torch, x, **out: torch.mean(x[:, ::2], 1, **out),
        },
    ),
    _everyday(
        "var-channels-16x32x32x64",
        "out[c] = variance over n, h, w of x[n, h, w, c]",
        ((16, 32, 32, 64),),
        (64,),
        16 * 32 * 32,
        {
            "mdtensor": lambda mdt, x, **out: mdt.var(x, axis=(0, 1, 2), **out),
            "numpy": lambda np, x, **out: np.var(x, axis=(0, 1, 2), **out),
            "torch": lambda torch, x, **out: torch.var(x, (0, 1, 2), correction=0, **out),
        },
    ),
    _everyday(
        "norm-rows-10000x100",
        "out[i] = √ Σ x[i, j]²",
        ((10_000, 100),),
        (10_000,),
        100,
        {
            "mdtensor": lambda mdt, x, **out: mdt.einsum("ij,ij->i", x, x, epilogue=np.sqrt, **out),
            "numpy": lambda np, x: np.linalg.norm(x, axis=1),
            "torch": lambda torch, x, **out: torch.linalg.vector_norm(x, dim=1, **out),
        },
    ),
    _everyday(
        "cumsum-rows-512x2048",
        "out[i, j] = Σ x[i, k] for k ≤ j",
        ((512, 2048),),
        (512, 2048),
        1,  # exact, since operands are whole numbers
        {
            "mdtensor": lambda mdt, x, **out: mdt.scan("ij->ij", x, combine={"j": "add"}, **out),
            "numpy": lambda np, x, **out: np.cumsum(x, axis=1, **out),
            "torch": lambda torch, x, **out: torch.cumsum(x, 1, **out),
        },
        draw=whole,
    ),
    histogram(10**6, 1000, "int64", "10^6"),
    _everyday(
        "distances-500x400x64",
        "out[i, j] = Σ (a[i, k] - b[j, k])²",
        ((500, 64), (400, 64)),
        (500, 400),
        64,
        {
            "mdtensor": lambda mdt, a, b, **out: mdt.einsum(
                "ik,jk->ij", a, b, f=_squared_distance, **out
            ),
            "numpy": _squared_distances,
            "numpy by a product": _squared_distances_by_a_product,
            "scipy": lambda scipy, a, b: scipy.spatial.distance.cdist(a, b, "sqeuclidean"),
            "torch": lambda torch, a, b: torch.cdist(a, b) ** 2,
            "torch by a product": _squared_distances_by_a_product,
            "jax": _squared_distances_by_a_product,
        },
    ),
    _everyday(
        "argmax-rows-128x1000",
        "out[i] = the least j with x[i, j] = max over j of x[i, j]",
        ((128, 1000),),
        (128,),
        1000,
        {
            "mdtensor": lambda mdt, x, **out: mdt.argmax(x, axis=1, **out),
            "numpy": lambda np, x, **out: np.argmax(x, axis=1, **out),
            "torch": lambda torch, x, **out: torch.argmax(x, 1, **out),
        },
        dtype="int64",
    ),
    _everyday(
        "smooth-100000x31",
        "out[i] = Σ w[r] x[i + r - 15], mirrored at its ends",
        ((100_000,),),
        (100_000,),
        31,
        {
            "mdtensor": lambda mdt, x, out: mdt.ndimage.correlate1d(x, _WEIGHTS, output=out),
            "numpy": _smooth,
            "scipy": lambda scipy, x, out: scipy.ndimage.correlate1d(x, _WEIGHTS, output=out),
        },
    ),
    _everyday(
        "box-filter-512x512",
        "out[i, j] = mean of the 3×3 elements around x[i, j], mirrored at its ends",
        ((512, 512),),
        (512, 512),
        9,
        {
            "mdtensor": lambda mdt, x, out: mdt.ndimage.uniform_filter(x, 3, output=out),
            "numpy": _box,
            "scipy": lambda scipy, x, out: scipy.ndimage.uniform_filter(x, 3, output=out),
        },
    ),
    convolution("conv-same", Convolution(4, 28, 28, 32, 64, 3, 3, padding=1)),
    _everyday(
        "conv-nchw-8x16x32x32-32x16x3x3",
        "img NCHW, flt KCRS -> NKPQ, stride 1, padding 1",
        ((8, 16, 32, 32), (32, 16, 3, 3)),
        (8, 32, 32, 32),
        16 * 9,
        {
            "mdtensor": lambda mdt, img, flt, **out: mdt.conv(
                img, flt, padding=1, layout="NCHW,KCRS->NKPQ", **out
            ),
            "numpy": _conv_nchw,
            "torch": lambda torch, img, flt: torch.nn.functional.conv2d(img, flt, padding=1),
            "jax": _conv_nchw_by_xla,
        },
    ),
)
