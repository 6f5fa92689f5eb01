"""Random calls on arrays in random chunks, and what NumPy makes of them in float64."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

import mdtensor as mdt

Array = Any
Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A function of arrays, the arrays, and the result that it should have."""

    name: str
    call: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    expected: Any


def in_chunks(rng: Rng, array: np.ndarray) -> Any:
    """The array in chunks of random sizes."""
    chunks: list[tuple[int, ...]] = []
    for extent in array.shape:
        cuts = rng.choice(extent, min(extent, int(rng.integers(0, 4))), replace=False)
        edges = [0, *sorted(int(c) for c in cuts if c), extent]
        chunks.append(tuple(np.diff(edges).tolist()))
    return da.from_array(array, chunks=tuple(chunks))


def numbers(rng: Rng, *shape: int) -> np.ndarray:
    """Random numbers, of float64 or float32."""
    return rng.standard_normal(shape).astype(rng.choice(["f8", "f4"]))


def extents(rng: Rng, count: int, most: int = 24) -> list[int]:
    return [int(n) for n in rng.integers(1, most, count)]


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype("f8")


def einsum(rng: Rng) -> Case:
    text = str(
        rng.choice(["ij,jk->ik", "ij->ji", "ij,j->i", "bij,bjk->bik", "ij,jk,kl->il", "ii->i",
                    "ij,ij->", "i,j->ij", "ijk->j", "...j,j->..."])
    )  # fmt: skip
    sizes = dict(zip("bijkl", extents(rng, 5), strict=True))
    terms = text.split("->", maxsplit=1)[0].replace("...", "bi").split(",")
    arrays = tuple(numbers(rng, *(sizes[name] for name in term)) for term in terms)
    expected = np.einsum(text, *map(wide, arrays))
    return Case(f"einsum {text}", lambda *given: mdt.einsum(text, *given), arrays, expected)


def tensordot(rng: Rng) -> Case:
    i, j, k, m = extents(rng, 4, 16)
    a, b = numbers(rng, i, j, k), numbers(rng, k, j, m)
    axes = 1 if rng.integers(2) else ([1, 2], [1, 0])
    b = b[:, 0] if axes == 1 else b
    expected = np.tensordot(wide(a), wide(b), axes)
    return Case("tensordot", lambda a, b: mdt.tensordot(a, b, axes), (a, b), expected)


def reduce(rng: Rng) -> Case:
    a = numbers(rng, *extents(rng, 2, 40))
    x = wide(a)
    cases: list[tuple[str, dict[str, Any], Any]] = [
        ("ij->i", {"combine": "max"}, x.max(1)),
        ("ij->j", {"combine": "min"}, x.min(0)),
        ("ij->", {"combine": "argmax"}, x.argmax()),
        ("ij->j", {"combine": "argmin"}, x.argmin(0)),
        ("ij->i", {"f": lambda v: v * v, "epilogue": lambda t: t + 1}, (x * x).sum(1) + 1),
        ("ij->j", {"combine": "logaddexp"}, np.log(np.exp(x).sum(0))),
        ("ij->i", {"combine": lambda _, after: after}, x[:, -1]),
        ("ij->", {"combine": lambda before, _: before, "identity": None}, x[0, 0]),
        ("ij->j", {"f": lambda v, *, i: v * i}, (x * np.arange(len(x))[:, None]).sum(0)),
        ("ij->i", {"combine": {"j": "max", "i": mdt.ps("add")}}, x.max(1).cumsum()),
        ("ij->", {"combine": {"j": "add", "i": "max"}}, x.sum(1).max()),
        ("ij->ij", {"f": lambda v: 2 * v}, 2 * x),
    ]
    text, options, expected = cases[int(rng.integers(len(cases)))]
    said = f"reduce {text} {sorted(options)}"
    return Case(said, lambda a: mdt.reduce(text, a, **options), (a,), expected)


def scan(rng: Rng) -> Case:
    a = numbers(rng, *extents(rng, 2, 40))
    x = wide(a)
    axis = int(rng.integers(2))
    name = "ij"[axis]
    keep = np.arange(x.shape[axis]) > 0
    shifted = np.roll(x.cumsum(axis), 1, axis) * (keep[:, None] if axis == 0 else keep)
    mirrored = np.flip(np.flip(x, axis).cumsum(axis), axis)
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"combine": {name: "add"}}, x.cumsum(axis)),
        ({"combine": {name: "max"}}, np.maximum.accumulate(x, axis)),
        ({"combine": {name: lambda before, _: before}}, np.repeat(
            x.take([0], axis), x.shape[axis], axis)),
        ({"combine": {name: "add"}, "exclusive": True}, shifted),
        ({"combine": {name: "add"}, "reverse": True}, mirrored),
        ({"combine": {name: lambda _, after: after}, "reverse": True}, np.repeat(
            x.take([-1], axis), x.shape[axis], axis)),
    ]  # fmt: skip
    options, expected = cases[int(rng.integers(len(cases)))]
    said = f"scan along {name} {sorted(options)}"
    return Case(said, lambda a: mdt.scan("ij->ij", a, **options), (a,), expected)


def conv(rng: Rng) -> Case:
    n, h, w, c, k = int(rng.integers(1, 3)), *extents(rng, 2, 20), *extents(rng, 2, 4)
    stride, pad = int(rng.integers(1, 3)), int(rng.integers(0, 3))
    h, w = h + 3, w + 3
    img, flt = numbers(rng, n, h, w, c), numbers(rng, k, 3, 3, c)
    padded = np.pad(wide(img), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    expected = np.einsum("npqcrs,krsc->npqk", windows[:, ::stride, ::stride], wide(flt))

    def call(img: Array, flt: Array) -> Array:
        return mdt.conv(img, flt, stride=stride, padding=pad)

    return Case(f"conv stride {stride} padding {pad}", call, (img, flt), expected)


_MODES = {"constant": "constant", "nearest": "edge", "reflect": "symmetric", "mirror": "reflect",
          "wrap": "wrap"}  # fmt: skip


def stencil(rng: Rng) -> Case:
    border = str(rng.choice(["valid", "fixed", *_MODES]))
    a = numbers(rng, *(n + 6 for n in extents(rng, 2, 30)))
    x = wide(a) if border in ("valid", "fixed") else np.pad(wide(a), 2, _MODES[border])  # type: ignore[call-overload]
    inner = x[:-4, 2:-2] + 2 * x[2:-2, 4:] - x[3:-1, 1:-3]
    expected = inner
    if border == "fixed":
        expected = wide(a).copy()
        expected[2:-1, 1:-2] = x[:-3, 1:-2] + 2 * x[2:-1, 3:] - x[3:, :-3]
    if border == "valid":
        expected = x[:-3, 1:-2] + 2 * x[2:-1, 3:] - x[3:, :-3]

    @mdt.stencil(border=border)
    def near(u: Any) -> Any:
        return u[-2, 0] + 2 * u[0, 2] - u[1, -1]

    return Case(f"stencil {border}", near, (a,), expected)


KINDS = (einsum, tensordot, reduce, scan, conv, stencil)


def case(seed: int) -> Case:
    """A random call."""
    rng = np.random.default_rng(seed)
    return KINDS[seed % len(KINDS)](rng)
