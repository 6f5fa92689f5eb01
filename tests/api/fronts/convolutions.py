"""Random calls of conv, compared with its definition: a sum over the elements of a filter."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import mdtensor as mdt
from tests.api.fronts.drawing import Draw, outcome_of, same_outcome, same_values
from tests.workers import MismatchError

_MULTIPLIES = 60000
_EPILOGUES: Mapping[str, Any] = {
    "relu": "relu",
    "twice, plus one": lambda x: 2 * x + 1,
    "clipped": lambda x: np.clip(x, 1, 3),
}
_FINISHED: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "twice, plus one": lambda x: 2 * x + 1,
    "clipped": lambda x: np.clip(x, 1, 3),
}
_LETTERS = ("DHW", "TRS", "ZPQ")


@dataclass(frozen=True)
class Geometry:
    """What the call says besides its arrays; the axes are N, C, spatial ones; K, C, …; N, K, …"""

    has: frozenset[str]
    rank: int
    stride: tuple[int, ...]
    padding: Any
    dilation: tuple[int, ...]
    groups: int
    transposed: bool
    more: tuple[int, ...]


def check(draw: Draw) -> None:
    """One geometry, on several shapes, in several layouts of memory each."""
    rng = draw.rng
    geometry = _geometry(draw)
    orders = [rng.sample(axes, len(axes)) for axes in _axes(geometry)]
    plain = draw.chance(0.5)
    layout = [
        _spelt(axes if plain else order)
        for axes, order in zip(_axes(geometry), orders, strict=True)
    ]
    if plain:
        orders = _axes(geometry)
    text = f"{layout[0]},{layout[1]}->{layout[2]}"
    draw.say(f"{text} {geometry}")
    dtypes = draw.dtypes(3)
    bias = "K" in geometry.has and draw.chance(0.2)
    epilogue = rng.choice(list(_EPILOGUES)) if draw.chance(0.2) else None
    dtype = rng.choice(("f4", "f8", "i4", "c16")) if draw.chance(0.1) else None
    common = np.result_type(*dtypes[: 3 if bias else 2], *([dtype] if dtype else []))
    if common.kind in "bc":
        epilogue = None
    small = common.kind in "fc" or dtype is not None or epilogue is not None
    for _ in range(rng.choice((1, 2, 3))):
        extents = _extents(draw, geometry)
        if extents is None:
            return
        for _ in range(rng.choice((1, 1, 2))):
            odd = rng.choice((0, 0, 0.5))
            arrays = [
                draw.array([extents[axis] for axis in order], given, small=small, odd=odd)
                for order, given in zip(
                    (
                        orders[0],
                        [
                            axis.lower() if len(axis) == 1 and axis in "CK" else axis
                            for axis in orders[1]
                        ],
                    ),
                    dtypes,
                    strict=False,
                )
            ]
            if bias:
                arrays.append(draw.array([extents["K"]], dtypes[2], small=small, odd=odd))
            _check_call(draw, geometry, text, orders, arrays, epilogue, dtype)


def _axes(geometry: Geometry) -> list[list[str]]:
    rank = geometry.rank
    return [
        [*(c for c in present if c in geometry.has), *(f"{of}{n}" for n in range(rank))]
        for present, of in zip(("NC", "KC", "NK"), "xry", strict=True)
    ]


def _spelt(axes: Sequence[str]) -> str:
    """A term of the layout; spatial letters are paired in their order, whatever the axes'."""
    named = {"x": _LETTERS[0], "r": _LETTERS[1], "y": _LETTERS[2]}
    rank = sum(len(axis) > 1 for axis in axes)
    return "".join(
        axis if len(axis) == 1 else named[axis[0]][int(axis[1]) + 3 - rank] for axis in axes
    )


def _geometry(draw: Draw) -> Geometry:
    rng = draw.rng
    rank = rng.choice((1, 2, 2, 2, 3))
    has = frozenset(letter for letter in "NCK" if not draw.chance(0.1))
    transposed = draw.chance(0.3)
    many = lambda values: tuple(rng.choice(values) for _ in range(rank))  # noqa: E731
    stride, dilation = many((1, 1, 1, 2, 3)), many((1, 1, 1, 2, 3))
    padding: Any = rng.choice((0, 1, "same", "valid"))
    if draw.chance(0.5):
        padding = tuple(
            (rng.choice((0, 0, 1, 2, 5)), rng.choice((0, 0, 1, 2, 5))) for _ in range(rank)
        )
    more = (0,) * rank
    if transposed and draw.chance(0.3):
        more = tuple(rng.randrange(max(s, d)) for s, d in zip(stride, dilation, strict=True))
    groups = rng.choice((1, 1, 1, 2, 3, 8)) if has >= {"C", "K"} else 1
    return Geometry(has, rank, stride, padding, dilation, groups, transposed, more)


def _extents(draw: Draw, geometry: Geometry) -> dict[str, int] | None:
    """Extents by axis; `c` and `k` are those of the filter."""
    rng, groups = draw.rng, geometry.groups
    for _ in range(50):
        inner = {name: rng.choice((1, 1, 2, 3, 4, 8, 16, 17)) for name in "CK"}
        if groups > 1 and draw.chance(0.4):
            inner["C"] = 1
        extents = {"N": rng.choice((1, 1, 2, 3)), **{n: groups * e for n, e in inner.items()}}
        extents["c"] = extents["C"] if geometry.transposed else inner["C"]
        extents["k"] = inner["K"] if geometry.transposed else extents["K"]
        for n in range(geometry.rank):
            extents[f"x{n}"] = rng.choice((1, 2, 3, 5, 6, 7, 8, 14, 17, 33))
            extents[f"r{n}"] = rng.choice((1, 1, 2, 3, 3, 4, 5, 7))
        kept = [
            e
            for name, e in extents.items()
            if name not in "CK" and (len(name) > 1 or name.upper() in geometry.has)
        ]
        if np.prod(kept) <= _MULTIPLIES:
            return extents
    return None


def _check_call(
    draw: Draw,
    geometry: Geometry,
    text: str,
    orders: Sequence[Sequence[str]],
    arrays: list[np.ndarray],
    epilogue: str | None,
    dtype: str | None,
) -> None:
    options: dict[str, Any] = {
        "stride": geometry.stride,
        "padding": geometry.padding,
        "dilation": geometry.dilation,
        "groups": geometry.groups,
        "layout": text,
        "transposed": geometry.transposed,
        "output_padding": geometry.more,
    }
    if epilogue:
        options["epilogue"] = _EPILOGUES[epilogue]
    if dtype:
        options["dtype"] = dtype
    if len(arrays) > 2:
        options["bias"] = arrays[2]
    draw.say(f"conv(… bias={len(arrays) > 2}, epilogue={epilogue}, dtype={dtype})")
    copies = [array.copy() for array in arrays]
    theirs = outcome_of(lambda: _reference(geometry, orders, copies, epilogue, dtype))
    if theirs.error is None and draw.chance(0.3):
        fitting = [
            a for a in arrays if a.shape == theirs.value.shape and a.dtype == theirs.value.dtype
        ]
        fitting = [a for a in fitting if a.flags.writeable and 0 not in a.strides]
        out = (
            fitting[0]
            if fitting and draw.chance(0.8)
            else draw.array(theirs.value.shape, theirs.value.dtype, target=True)
        )
        options["out"] = out
        draw.may_change(out)
    ours = outcome_of(lambda: mdt.conv(arrays[0], arrays[1], **options))
    if same_outcome(ours, theirs):
        same_values(ours.value, theirs.value)
        if "out" in options and ours.value is not options["out"]:
            raise MismatchError("the result is not the array that was given")
    draw.finished()


def _reference(
    geometry: Geometry,
    orders: Sequence[Sequence[str]],
    arrays: Sequence[np.ndarray],
    epilogue: str | None,
    dtype: str | None,
) -> np.ndarray:
    common = np.result_type(*arrays) if dtype is None else np.dtype(dtype)
    wide = {"f": np.float64, "c": np.complex128}.get(common.kind, np.int64)
    image, taps = (
        _canonical(array.astype(common).astype(wide), order, axes, geometry.has, part)
        for array, order, axes, part in zip(
            arrays, orders, _axes(geometry), ("NC", "KC"), strict=False
        )
    )
    define = _transposed if geometry.transposed else _strided
    result = define(geometry, image, taps)
    if len(arrays) > 2:
        bias = arrays[2].astype(common).astype(wide)
        result = result + bias.reshape(1, -1, *[1] * geometry.rank)
    if epilogue:
        result = _FINISHED[epilogue](result.astype(common))
    result = result.astype(common)
    has = [n for n, letter in enumerate("NK") if letter in geometry.has]
    gone = tuple({0, 1} - set(has))
    axes = _axes(geometry)[2]
    return result.squeeze(gone).transpose([axes.index(axis) for axis in orders[2]])


def _canonical(
    array: np.ndarray, order: Sequence[str], axes: Sequence[str], has: frozenset[str], part: str
) -> np.ndarray:
    array = array.transpose([list(order).index(axis) for axis in axes])
    for n, letter in enumerate(part):
        if letter not in has:
            array = np.expand_dims(array, n)
    return array


def _paddings(
    geometry: Geometry, extents: Sequence[int], windows: Sequence[int]
) -> list[tuple[int, int]]:
    rank = geometry.rank
    if geometry.padding == "same":
        pairs = []
        for extent, window, stride in zip(extents, windows, geometry.stride, strict=True):
            count = -(-extent // stride)
            whole = max(0, (count - 1) * stride + window - extent)
            pairs.append((whole // 2, whole - whole // 2))
        return pairs
    if geometry.padding == "valid":
        return [(0, 0)] * rank
    if isinstance(geometry.padding, int):
        return [(geometry.padding,) * 2] * rank
    return list(geometry.padding)


def _strided(geometry: Geometry, image: np.ndarray, taps: np.ndarray) -> np.ndarray:
    extents, lengths = image.shape[2:], taps.shape[2:]
    windows = [d * (r - 1) + 1 for d, r in zip(geometry.dilation, lengths, strict=True)]
    pads = _paddings(geometry, extents, windows)
    padded = np.pad(image, [(0, 0), (0, 0), *pads])
    counts = [
        (e - w) // s + 1 for e, w, s in zip(padded.shape[2:], windows, geometry.stride, strict=True)
    ]
    if min(counts) <= 0:
        raise ValueError("no window fits")
    groups, filters = geometry.groups, taps.shape[0] // geometry.groups
    channels = image.shape[1] // groups
    result = np.zeros((image.shape[0], taps.shape[0], *counts), image.dtype)
    for place in itertools.product(*map(range, lengths)):
        window = padded[
            (
                ...,
                *(
                    slice(r * d, r * d + (n - 1) * s + 1, s)
                    for r, d, n, s in zip(
                        place, geometry.dilation, counts, geometry.stride, strict=True
                    )
                ),
            )
        ]
        for g in range(groups):
            of = slice(g * filters, (g + 1) * filters)
            part = window[:, g * channels : (g + 1) * channels]
            result[:, of] += np.einsum("nc...,kc->nk...", part, taps[(of, slice(None), *place)])
    return result


def _transposed(geometry: Geometry, image: np.ndarray, taps: np.ndarray) -> np.ndarray:
    extents, lengths = image.shape[2:], taps.shape[2:]
    windows = [d * (r - 1) + 1 for d, r in zip(geometry.dilation, lengths, strict=True)]
    groups = geometry.groups
    channels, filters = image.shape[1] // groups, taps.shape[0]
    if geometry.padding == "same":
        counts = [e * s for e, s in zip(extents, geometry.stride, strict=True)]
        # The image of the convolution that this is the adjoint of has that many elements.
        before = [pair[0] for pair in _paddings(geometry, counts, windows)]
    else:
        pads = _paddings(geometry, extents, windows)
        before = [pair[0] for pair in pads]
        counts = [
            (e - 1) * s + w - sum(pair)
            for e, s, w, pair in zip(extents, geometry.stride, windows, pads, strict=True)
        ]
    counts = [n + m for n, m in zip(counts, geometry.more, strict=True)]
    if min(counts) <= 0:
        raise ValueError("no window fits")
    room = [
        max((e - 1) * s + w, b + n)
        for e, s, w, b, n in zip(extents, geometry.stride, windows, before, counts, strict=True)
    ]
    whole = np.zeros((image.shape[0], groups * filters, *room), image.dtype)
    for place in itertools.product(*map(range, lengths)):
        window = tuple(
            slice(r * d, r * d + (e - 1) * s + 1, s)
            for r, d, e, s in zip(place, geometry.dilation, extents, geometry.stride, strict=True)
        )
        for g in range(groups):
            of = slice(g * channels, (g + 1) * channels)
            whole[(slice(None), slice(g * filters, (g + 1) * filters), *window)] += np.einsum(
                "nc...,kc->nk...", image[:, of], taps[(slice(None), of, *place)]
            )
    return whole[(..., *(slice(b, b + n) for b, n in zip(before, counts, strict=True)))]
