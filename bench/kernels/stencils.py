"""Stencils on the inside of an array: Gaussian blur and Jacobi's means in one to three dims."""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.kernels.kernel import Kernel, compiled_by_torch, library_for, like, tensor_of, xla
from bench.workload import CALL, Arrays, Call, Outs
from mdtensor.specs import TensorSpec

# Part of the least time for reading once and writing once.
STREAMING = 0.8
IN_MEMORY = 1 << 22

BINOMIAL = np.array([1, 4, 6, 4, 1]) / 16
GAUSSIAN = np.outer(BINOMIAL, BINOMIAL)


def gaussian(n: int, floor: float | None = None) -> Kernel:
    """A blur with a window of 5×5 weights."""
    taps = GAUSSIAN.size
    return Kernel(
        name=f"gaussian-{n}x{n}",
        formula="out[i, j] = Σ w[r, s] u[i + r, j + s], 5×5 constant weights",
        inputs=(TensorSpec.of((n, n)),),
        outputs=(TensorSpec.of((n - 4, n - 4)),),
        reduction=taps,
        flops=2 * taps * (n - 4) ** 2,
        exact=functools.partial(_weighted, GAUSSIAN),
        says={
            "mdtensor": _gaussian_mdtensor,
            "numpy": _gaussian_numpy,
            "scipy": _gaussian_scipy,
            "numba": _gaussian_numba,
            "torch": _gaussian_torch,
            "jax": _gaussian_jax,
        },
        floor=floor,
        limit_floor=STREAMING if n * n >= IN_MEMORY else None,
        shared=n * n >= IN_MEMORY,
    )


def jacobi(ndim: int, n: int, floor: float | None = None) -> Kernel:
    """The mean of a point and its neighbours along the axes."""
    taps, size = 2 * ndim + 1, n**ndim
    return Kernel(
        name=f"jacobi{ndim}d-{_power(n)}" + (f"^{ndim}" if ndim > 1 else ""),
        formula=f"out[i] = mean of u[i] and its {2 * ndim} neighbours",
        inputs=(TensorSpec.of((n,) * ndim),),
        outputs=(TensorSpec.of((n - 2,) * ndim),),
        reduction=taps,
        flops=taps * (n - 2) ** ndim,
        exact=lambda u: functools.reduce(operator.add, points(u)) / taps,
        says={
            "mdtensor": _jacobi_mdtensor,
            "numpy": _jacobi_numpy,
            "scipy": _jacobi_scipy,
            "numba": _jacobi_numba,
            "torch": _jacobi_torch,
            "jax": _jacobi_jax,
        },
        floor=floor,
        limit_floor=STREAMING if size >= IN_MEMORY else None,
        shared=size >= IN_MEMORY,
    )


def _power(n: int) -> str:
    exponent = n.bit_length() - 1
    return f"2^{exponent}" if n == 1 << exponent and exponent > 12 else str(n)


def points(u: Any) -> list[Any]:
    """The inside of an array, and the same shifted by one along each axis."""
    inside = (slice(1, -1),) * u.ndim
    sides = (slice(0, -2), slice(2, None))
    places = [(*inside[:n], side, *inside[n + 1 :]) for n in range(u.ndim) for side in sides]
    return [u[place] for place in (inside, *places)]


def star(ndim: int) -> np.ndarray:
    """The weights of Jacobi's mean as a window."""
    window = np.zeros((3,) * ndim, np.float32)
    for point in points(np.arange(3**ndim).reshape(window.shape)):
        window.flat[point.item()] = 1 / (2 * ndim + 1)
    return window


def _window(u: Any, weights: np.ndarray, place: tuple[int, ...]) -> Any:
    """What the weight of a place meets."""
    ends = zip(place, u.shape, weights.shape, strict=True)
    return u[tuple(slice(p, extent - side + 1 + p) for p, extent, side in ends)]


def _weighted(weights: np.ndarray, u: Any) -> Any:
    terms = (float(weights[place]) * _window(u, weights, place) for place in _places(weights))
    return functools.reduce(operator.add, terms)


def _places(weights: np.ndarray) -> Sequence[tuple[int, ...]]:
    return list(np.ndindex(weights.shape))


@functools.cache
def _gaussian_stencil() -> Any:
    import mdtensor as mdt

    weights = GAUSSIAN.tolist()

    @mdt.stencil
    def blurred(u: Any) -> Any:
        return sum(weights[r][s] * u[r - 2, s - 2] for r in range(5) for s in range(5))

    return blurred


@functools.cache
def _jacobi_stencil(ndim: int) -> Any:
    import mdtensor as mdt

    taps = 2 * ndim + 1

    @mdt.stencil
    def mean1(u: Any) -> Any:
        return (u[0] + u[-1] + u[1]) * (1 / taps)

    @mdt.stencil
    def mean2(u: Any) -> Any:
        return (u[0, 0] + u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]) * (1 / taps)

    @mdt.stencil
    def mean3(u: Any) -> Any:
        along = u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] + u[0, 0, -1] + u[0, 0, 1]
        return (u[0, 0, 0] + along) * (1 / taps)

    return (mean1, mean2, mean3)[ndim - 1]


def _gaussian_mdtensor(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    (u,), (out,), blurred = operands, outs, _gaussian_stencil()
    return {CALL: lambda: blurred(u, out=out)}


def _jacobi_mdtensor(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    (u,), (out,) = operands, outs
    mean = _jacobi_stencil(u.ndim)
    return {CALL: lambda: mean(u, out=out)}


def _weighted_into(
    u: np.ndarray, weights: np.ndarray, out: np.ndarray | None, term: np.ndarray | None
) -> np.ndarray:
    first, *others = _places(weights)
    total = np.multiply(_window(u, weights, first), weights[first], out=out)
    for place in others:
        term = np.multiply(_window(u, weights, place), weights[place], out=term)
        np.add(total, term, out=total)
    return total


def _gaussian_numpy(operands: list[np.ndarray], outs: Outs) -> Mapping[str, Call]:
    (u,), (out,) = operands, outs
    weights, row = GAUSSIAN.astype(np.float32), BINOMIAL.astype(np.float32)[None]
    term = rows = row_term = None
    if out is not None:
        term = np.empty_like(out)
        rows = np.empty_like(u, shape=(u.shape[0], out.shape[1]))
        row_term = np.empty_like(rows)

    def separable() -> np.ndarray:
        between = _weighted_into(u, row, rows, row_term)
        return _weighted_into(between, row.T, out, term)

    return {"slices": lambda: _weighted_into(u, weights, out, term), "separable": separable}


def _gaussian_scipy(operands: list[np.ndarray], outs: Outs) -> Mapping[str, Call]:
    (u,) = operands
    ndimage, signal = library_for(u, "scipy.ndimage"), library_for(u, "scipy.signal")
    weights, row = like(GAUSSIAN.astype(np.float32), u), like(BINOMIAL.astype(np.float32), u)
    full, first = (None, None) if outs[0] is None else (np.empty_like(u), np.empty_like(u))

    def correlate1d() -> np.ndarray:
        between = ndimage.correlate1d(u, row, axis=0, output=first)
        return ndimage.correlate1d(between, row, axis=1, output=full)[2:-2, 2:-2]

    return {
        "ndimage correlate": lambda: ndimage.correlate(u, weights, output=full)[2:-2, 2:-2],
        "ndimage correlate1d": correlate1d,
        "signal convolve2d": lambda: signal.convolve2d(u, weights, mode="valid"),
        "signal oaconvolve": lambda: signal.oaconvolve(u, weights, mode="valid"),
    }


def _gaussian_numba(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    from bench.kernels import loops

    return {"prange": lambda: loops.gaussian(*operands, *outs)}


def _gaussian_torch(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    torch: Any = importlib.import_module("torch")
    u = torch.from_dlpack(operands[0])[None, None]
    weights = torch.from_numpy(GAUSSIAN.astype(np.float32)).to(u.device)[None, None]
    row = torch.from_numpy(BINOMIAL.astype(np.float32)).to(u.device)[None, None, None]
    column = row.transpose(2, 3)
    conv2d = torch.nn.functional.conv2d
    return {
        **compiled_by_torch(_unrolled(GAUSSIAN), u[0, 0]),
        "conv2d": lambda: conv2d(u, weights)[0, 0],
        "conv2d separable": lambda: conv2d(conv2d(u, row), column)[0, 0],
    }


def _unrolled(weights: np.ndarray) -> Callable[[Any], Any]:
    """`_weighted` as torch compiles it in one piece: weights and places are plain numbers."""
    height, width = weights.shape
    taps = [(float(weights[place]), *place) for place in _places(weights)]

    def blurred(u: Any) -> Any:
        rows, columns = u.shape[0] - height + 1, u.shape[1] - width + 1
        total = 0.0
        for weight, r, s in taps:
            total = total + weight * u[r : r + rows, s : s + columns]
        return total

    return blurred


def _gaussian_jax(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    row = BINOMIAL[None]

    def separable(u: Any) -> Any:
        return _weighted(row.T, _weighted(row, u))

    return {
        "slices": xla(functools.partial(_weighted, GAUSSIAN), operands),
        "separable": xla(separable, operands),
        "convolve": xla(functools.partial(_convolved, GAUSSIAN), operands),
    }


def _convolved(weights: np.ndarray, u: Any) -> Any:
    signal: Any = importlib.import_module("jax.scipy.signal")
    return signal.convolve(u, weights.astype(np.float32), mode="valid", method="direct")


def _jacobi_numpy(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    (out,) = outs
    return {"slices": lambda: _mean_into(np, points(operands[0]), out)}


def _mean_into(module: Any, terms: Sequence[Any], out: Any) -> Any:
    """The mean by functions of NumPy or torch that write into `out`."""
    total = module.add(terms[0], terms[1], out=out)
    for term in terms[2:]:
        module.add(total, term, out=total)
    return module.multiply(total, 1 / len(terms), out=total)


def _jacobi_scipy(operands: list[np.ndarray], outs: Outs) -> Mapping[str, Call]:
    (u,) = operands
    ndimage = library_for(u, "scipy.ndimage")
    full, weights = None if outs[0] is None else np.empty_like(u), like(star(u.ndim), u)
    inside = (slice(1, -1),) * u.ndim
    return {"ndimage correlate": lambda: ndimage.correlate(u, weights, output=full)[inside]}


def _jacobi_numba(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    from bench.kernels import loops

    (u,) = operands
    function = (loops.jacobi1d, loops.jacobi2d, loops.jacobi3d)[u.ndim - 1]
    return {"prange": lambda: function(u, *outs)}


def _jacobi_torch(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    torch: Any = importlib.import_module("torch")
    u, out = torch.from_dlpack(operands[0]), tensor_of(outs[0])
    terms = points(u)
    calls: dict[str, Call] = {"slices": lambda: _mean_into(torch, terms, out)}
    calls |= compiled_by_torch(_mean, u)
    if u.ndim < 3:  # a convolution in three dims takes many times the memory of its result
        weights = torch.from_numpy(star(u.ndim)).to(u.device)[None, None]
        conv = getattr(torch.nn.functional, f"conv{u.ndim}d")
        calls["conv"] = lambda: conv(u[None, None], weights)[0, 0]
    return calls


def _jacobi_jax(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    return {"slices": xla(_mean, operands)}


def _mean(u: Any) -> Any:
    terms = points(u)
    return functools.reduce(operator.add, terms) / len(terms)


STENCILS = (
    gaussian(224, floor=1.0),
    gaussian(4096, floor=1.8),
    jacobi(1, 2**24),
    jacobi(2, 4096),
    jacobi(3, 256, floor=1.4),
    jacobi(3, 512),
)
