"""Arrays to be written whose elements share memory: every front end refuses them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import mdtensor as mdt
from mdtensor import ndimage
from mdtensor.api.arrays.memory_overlap import overlaps_itself
from mdtensor.errors import ShapeError

A, B, X = np.ones((4, 5)), np.ones((5, 4)), np.ones(6)
U = np.ones((4, 4))
R = np.zeros(4, [("id", "i8"), ("x", "f8")])


@mdt.stencil(border="nearest")
def smooth(u: Any) -> Any:
    return 0.5 * (u[-1, 0] + u[1, 0])


@mdt.stencil(border="nearest")
def both(u: Any, v: Any) -> Any:
    return u[0, 0] + v[0, 0], u[0, 1]


@mdt.mdh
def doubled(y: Any, x: Any) -> None:
    for i in range(4):
        for j in range(4):
            y[i, j] = 2 * x[i, j]


# What is written has 4 rows of 4 elements.
CALLS: dict[str, Callable[[np.ndarray], Any]] = {
    "einsum": lambda out: mdt.einsum("ij,jk->ik", A, B, out=out),
    "einsum of one operand": lambda out: mdt.einsum("ij->ji", U, out=out),
    "einsum over nothing": lambda out: mdt.einsum("ij,jk->ik", A[:, :0], B[:0], out=out),
    "einsum in an order": lambda out: mdt.einsum("ij,jk->ik", A, B, out=out, order="F"),
    "einsum of types without kernels": lambda out: mdt.einsum(
        "ij,jk->ik", A.astype(object), B, out=out, casting="unsafe"
    ),
    "einsum with an operator": lambda out: mdt.einsum("ij,jk->ik", A, B, combine="max", out=out),
    "reduce": lambda out: mdt.reduce("ij,jk->ik", A, B, out=out),
    "reduce, two results": lambda out: mdt.reduce(
        "ij,jk->ik", A, B, f=lambda a, b: (a, b), out=(np.empty((4, 4)), out)
    ),
    "scan": lambda out: mdt.scan("ij->ij", U, combine={"j": "add"}, out=out),
    "conv": lambda out: mdt.conv(
        np.ones((1, 4, 4, 1)), np.ones((1, 1, 1, 1)), out=out[None, ..., None]
    ),
    "stencil": lambda out: smooth(U, out=out),
    "stencil, two results": lambda out: both(U, U, out=(np.empty((4, 4)), out)),
    "steps of a stencil": lambda out: smooth.steps(U, n=3, out=out),
    "no step of a stencil": lambda out: smooth.steps(U, n=0, out=out),
    "lazy": lambda out: (mdt.lazy(U) + 1).evaluate(out=out),
    "ufunc of lazy": lambda out: np.add(mdt.lazy(U), 1, out=out),
    "sum of lazy": lambda out: np.sum(mdt.lazy(np.ones((2, 4, 4))), axis=0, out=out),
    "loops": lambda out: doubled(out, U),
    "plan": lambda out: mdt.compile("ij,jk->ik", A, B)(A, B, out=out),
    "plan of a call": lambda out: mdt.compile(smooth, U)(U, out=out),
}
OVERLAPPING = {
    "stride of zero": lambda: as_strided(np.zeros(4), (4, 4), (0, 8)),
    "windows": lambda: as_strided(np.zeros(7), (4, 4), (8, 8)),
    "half an element apart": lambda: as_strided(np.zeros(20), (4, 4), (36, 4)),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("layout", OVERLAPPING)
@pytest.mark.parametrize("name", CALLS)
def test_no_front_end_writes_to_what_overlaps_itself(name: str, layout: str) -> None:
    out = OVERLAPPING[layout]()
    before = out.copy()
    said = "elements of (out|y) share memory"
    if name.startswith("plan"):  # whose results have one layout
        said = "out is float64.4, 4.:.* but the result is float64.4, 4"
    for _ in range(3):
        with pytest.raises(ShapeError, match=said):
            CALLS[name](out)
    np.testing.assert_array_equal(out, before)


def test_what_is_said_of_them() -> None:
    with pytest.raises(ShapeError) as caught:
        mdt.reduce("ij->i", A, out=np.broadcast_to(np.zeros(1), 4))
    assert str(caught.value) == (
        "elements of out share memory: shape (4,), strides (0,) bytes\n"
        "  hint: pass out.copy(), or none"
    )


FILTERS = {
    name: getattr(ndimage, name)
    for name in ndimage.__all__
    if "output" in inspect.signature(getattr(ndimage, name)).parameters
}
ARGUMENTS = {
    "convolve": (np.ones((3, 3)),),
    "correlate": (np.ones((3, 3)),),
    "convolve1d": (np.ones(3),),
    "correlate1d": (np.ones(3),),
    "gaussian_filter": (1,),
    "gaussian_filter1d": (1,),
    "laplace": (),
    "percentile_filter": (30, 3),
    "prewitt": (0,),
    "rank_filter": (1, 3),
    "sobel": (0,),
}


@pytest.mark.parametrize("name", FILTERS)
def test_no_filter_writes_to_what_overlaps_itself(name: str) -> None:
    arguments = ARGUMENTS.get(name, (3,))
    output = as_strided(np.zeros(4), (4, 4), (0, 8))
    with pytest.raises(ShapeError, match=r"^elements of output share memory: shape \(4, 4\)"):
        FILTERS[name](U, *arguments, output=output)


def test_records_whose_elements_share_memory() -> None:
    out = as_strided(R, (4,), (8,))
    with pytest.raises(ShapeError, match="elements of out share memory"):
        mdt.reduce("i->i", X[:4], f=lambda x: (1, x), out=out)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-30, 30)), min_size=1, max_size=3),
    st.sampled_from(["u1", "i2", "f4", "f8"]),
)
def test_any_layout(axes: list[tuple[int, int]], dtype: str) -> None:
    memory = np.zeros(1000, "u1")
    shape, strides = zip(*axes, strict=True)
    base = memory[400:].view(np.ndarray)
    array = as_strided(base[:200].view(dtype), shape, strides)
    starts = [sum(map(int, np.multiply(place, strides))) for place in np.ndindex(*shape)]
    taken = [start + n for start in starts for n in range(array.itemsize)]
    assert overlaps_itself(array) == (len(set(taken)) < len(taken))
