"""Calls of front ends on xarray's DataArrays: values, dims, coordinates, names, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array
import numpy as np
import pytest
import xarray as xr

import mdtensor as mdt
from mdtensor.api.frameworks import xarray_calls
from mdtensor.errors import AlignmentError, ArgumentError, AxisError, DTypeError
from tests import children

RANDOM = np.random.default_rng(11)
DAYS = np.arange("2026-01-01", "2026-01-07", dtype="datetime64[D]").astype("datetime64[ns]")
Function = Callable[..., Any]


EXTENTS = {"time": 6, "lat": 4, "lon": 5}
COORDS = {
    "time": (("time",), DAYS),
    "lat": (("lat",), [10.0, 20.0, 30.0, 40.0]),
    "season": (("time",), list("aabbcc")),
    "area": (("lat", "lon"), np.arange(20.0).reshape(4, 5)),
    "height": ((), 2.0),
}


def field(*dims: str, name: str | None = "t", dtype: str = "f8") -> Any:
    """Random numbers on some of the dims, with all coordinates that these have."""
    data = RANDOM.standard_normal([EXTENTS[dim] for dim in dims]).astype(dtype)
    coords = {key: each for key, each in COORDS.items() if {*each[0]} <= {*dims}}
    return xr.DataArray(data, coords, dims, name, attrs={"units": "K"})


def check(found: Any, expected: Any) -> None:
    """Compares values, dims, coordinates, name and attributes."""
    xr.testing.assert_allclose(found, expected, rtol=1e-12)
    labels = xr.zeros_like(expected)
    xr.testing.assert_identical(found.copy(data=labels.data), labels)


@mdt.stencil(border="nearest")
def smoothed(u: Any) -> Any:
    return 0.25 * u[-1] + 0.5 * u[0] + 0.25 * u[1]


# A call, and what xarray's own functions make of the same DataArray of time, lat and lon.
OF_ONE: dict[str, tuple[Function, Function]] = {
    "einsum, transposed": (
        lambda x: mdt.einsum("tij->jti", x),
        lambda x: x.transpose("lon", "time", "lat", transpose_coords=False),
    ),
    "einsum, reduced": (lambda x: mdt.einsum("tij->t", x), lambda x: x.sum(("lat", "lon"))),
    "reduce": (
        lambda x: mdt.reduce("tij->ij", x, combine="max"),
        lambda x: x.max("time"),
    ),
    "reduce to a number": (lambda x: mdt.reduce("tij->", x), lambda x: x.sum()),
    "scan": (lambda x: mdt.scan("tij->tij", x, combine={"t": "add"}), lambda x: x.cumsum("time")),
    "mean": (lambda x: mdt.mean(x, axis=1), lambda x: x.mean("lat")),
    "mean of all": (mdt.mean, lambda x: x.mean()),
    "var by name": (lambda x: mdt.var(x, axis="time"), lambda x: x.var("time")),
    "sum by names": (
        lambda x: mdt.sum(x, axis=("lon", "time")),
        lambda x: x.sum(("lon", "time")),
    ),
    "std by position": (lambda x: mdt.std(x, "lat"), lambda x: x.std("lat")),
    "argmax": (lambda x: mdt.argmax(x, axis="lat"), lambda x: x.argmax("lat")),
    "softmax": (
        lambda x: mdt.softmax(x, axis="lon"),
        lambda x: np.exp(x) / np.exp(x).sum("lon"),
    ),
    "lazy": (lambda x: (mdt.lazy(x) * 2 + 1).evaluate(), lambda x: x * 2 + 1),
    "lazy, transposed": (
        lambda x: mdt.lazy(x).T.evaluate(),
        lambda x: x.transpose(transpose_coords=False),
    ),
    "sum of squares": (
        lambda x: (np.square(mdt.lazy(x)).sum(axis=0)).evaluate(),
        lambda x: (x**2).sum("time"),
    ),
    "shift": (
        lambda x: mdt.ndimage.correlate1d(x, [0, 0, 1], axis="time", mode="wrap"),
        lambda x: x.roll(time=-1),
    ),
    "minimum filter": (
        lambda x: mdt.ndimage.minimum_filter(x, (1, 1, 3), mode="nearest"),
        lambda x: x.rolling(lon=3, center=True, min_periods=1).min(),
    ),
}


@pytest.mark.parametrize("name", OF_ONE)
def test_one_array(name: str) -> None:
    call, of_xarray = OF_ONE[name]
    x = field("time", "lat", "lon")
    for _ in range(2):
        check(call(x), of_xarray(x))


OF_TWO: dict[str, tuple[str, Function]] = {
    "einsum": ("lat", lambda x, y: mdt.einsum("ti,ij->tj", x, y)),
    "matmul": ("lat", mdt.matmul),
    "dot": ("lat", mdt.dot),
    "tensordot": ("lat", lambda x, y: mdt.tensordot(x, y, 1)),
    "reduce": ("lat", lambda x, y: mdt.reduce("ti,ij->tj", x, y, f=lambda a, b: a * b)),
    "lazy": ("lat", lambda x, y: (mdt.lazy(x) @ y).evaluate()),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_two_arrays(name: str) -> None:
    dim, call = OF_TWO[name]
    x, y = field("time", "lat"), field("lat", "lon")
    check(call(x, y), xr.dot(x, y, dim=dim))


def test_three_arrays_and_a_batch() -> None:
    x, y, z = field("time", "lat"), field("lat", "lon", name="u"), field("time", "lon", name=None)
    check(mdt.einsum("ti,ij,tj->t", x, y, z), xr.dot(x, y, z, dim=("lat", "lon")))
    check(mdt.einsum("ti,tj->tij", x, z), xr.dot(x, z, dim=()))


def test_options_of_xarray_count() -> None:
    x, y = field("time", "lat"), field("lat", "lon", name="u")
    for keeps in (False, True):
        with xr.set_options(keep_attrs=keeps):
            check(mdt.einsum("ti,ij->tj", x, y), xr.dot(x, y, dim="lat"))
            check(mdt.max(x, axis="time"), x.max("time"))


def test_several_results() -> None:
    x = field("time", "lat")
    largest, place = mdt.reduce("ti->i", x, f=lambda x, *, t: (x, t), combine="argmax")
    check(largest, x.max("time"))
    check(place, x.argmax("time"))


def test_arrays_without_names_stand_beside() -> None:
    x, weights = field("time", "lat"), RANDOM.standard_normal((4, 3))
    found = mdt.einsum("ti,ij->tj", x, weights)
    assert found.dims == ("time", "dim_1")
    assert [*found.coords] == ["time", "season", "height"]
    np.testing.assert_allclose(found, x.data @ weights, rtol=1e-12)
    check(mdt.einsum("ti,i->t", x, weights[:, 0]), (x * weights[:, 0]).sum("lat"))


def test_axes_of_another_extent_keep_their_names_alone() -> None:
    x = field("time", "lat")
    for found in (
        (mdt.lazy(x)[1:] - mdt.lazy(x)[:-1]).evaluate(),
        mdt.stencil(lambda u: u[-1] + u[1], border="valid")(x["time"].astype("f8")),
        mdt.convolve(x[:, 0].drop_vars("lat"), [1.0, 2.0], mode="valid"),
        mdt.lazy(x)[::2].evaluate(),
    ):
        assert found.dims[0] == "time"
        assert not {"time", "season"} & {*found.coords}
        assert found.coords["height"] == 2.0


def test_reversed_axes_have_no_coordinates() -> None:
    found = mdt.lazy(field("time", "lat"))[::-1].evaluate()
    assert found.dims == ("time", "lat")
    assert {*found.coords} == {"lat", "height"}


@pytest.mark.parametrize("border", ["nearest", "wrap", "reflect", "fixed"])
def test_borders_keep_coordinates(border: Any) -> None:
    x = field("time")
    call = mdt.stencil(lambda u: (u[-1] + 2 * u[1]) / 3, border=border)
    check(call(x), x.copy(data=call(x.data)))
    check(call.steps(x, n=3), x.copy(data=call.steps(x.data, n=3)))


@pytest.mark.parametrize("mode", ["nearest", "wrap", "reflect", "mirror", "constant"])
def test_filters_keep_coordinates(mode: str) -> None:
    x = field("time", "lat")
    for function, more in [
        (mdt.ndimage.gaussian_filter, {"sigma": 0.7}),
        (mdt.ndimage.uniform_filter, {"size": 3}),
        (mdt.ndimage.median_filter, {"size": 3}),
        (mdt.ndimage.sobel, {"axis": 1}),
        (mdt.ndimage.correlate, {"weights": [[1.0, 0.0, 2.0]]}),
    ]:
        check(function(x, mode=mode, **more), x.copy(data=function(x.data, mode=mode, **more)))


def test_convolutions_keep_names() -> None:
    images = xr.DataArray(
        RANDOM.standard_normal((2, 8, 9, 3)), {"x": range(9)}, ("image", "y", "x", "rgb")
    )
    filters = RANDOM.standard_normal((4, 3, 3, 3))
    same = mdt.conv(images, filters, padding="same")
    assert same.dims == ("image", "y", "x", "dim_3")
    np.testing.assert_array_equal(same["x"], range(9))
    named = xr.DataArray(filters, dims=("feature", "r", "s", "rgb"))
    found = mdt.conv(images, named, stride=2)
    assert found.dims == ("image", "y", "x", "feature")
    assert not found.coords
    np.testing.assert_allclose(found, mdt.conv(images.data, filters, stride=2), rtol=1e-12)


def test_axes_without_one_origin() -> None:
    x = field("time", "lat")
    assert mdt.lazy(x).reshape(24).evaluate().dims == ("dim_0",)
    assert mdt.lazy(x).reshape(2, 3, 4).evaluate().dims == ("dim_0", "dim_1", "lat")
    assert np.stack([mdt.lazy(x), mdt.lazy(x)]).evaluate().dims == ("dim_0", "time", "lat")
    assert mdt.lazy(x.rename(time="dim_0"))[None].evaluate().dims == ("dim_1", "dim_0", "lat")


@pytest.mark.parametrize("extent", [0, 1])
def test_axes_of_few_elements(extent: int) -> None:
    x = field("time", "lat")[:extent]
    assert mdt.softmax(x).dims == (mdt.lazy(x) * 2).evaluate().dims == x.dims
    if extent:
        check((mdt.lazy(x) * 2).evaluate(), x * 2)
        check(mdt.mean(x, axis="lat", keepdims=True), x.mean("lat", keepdims=True))
        later = x.rename(time="day")
        with pytest.raises(AlignmentError, match=r"dim 'time' .* and dim 'day'"):
            (mdt.lazy(x) * mdt.lazy(later)).evaluate()


def test_expressions_beside_arrays() -> None:
    x, y = field("time", "lat"), field("lat", "lon")
    check(mdt.einsum("ti,ij->tj", mdt.lazy(x) + 1, y).evaluate(), xr.dot(x + 1, y, dim="lat"))


def test_options_of_runs() -> None:
    x, y = field("time", "lat"), field("lat", "lon")
    check(mdt.einsum("ti,ij->tj", x, y, memory_limit="1MB"), xr.dot(x, y, dim="lat"))


def test_misaligned_coordinates_are_an_error() -> None:
    x, y = field("time", "lat"), field("lat", "lon")
    later = x.assign_coords(lat=x["lat"] + 1)
    with pytest.raises(AlignmentError, match=r"not aligned: .*'lat'"):
        mdt.einsum("ti,ij->tj", later, y)
    with pytest.raises(AlignmentError, match=r"not aligned: .*'lat'"):
        mdt.einsum("ti,ij->tj", later, y)
    check(mdt.einsum("ti,ij->tj", x.drop_vars("lat"), y), xr.dot(x.drop_vars("lat"), y, dim="lat"))


def test_two_names_for_one_index_are_an_error() -> None:
    x, y = field("time", "lat"), field("lat", "lon")
    message = r"dim 'lat' of DataArray 0 and dim 'row' of DataArray 1 have one index"
    for _ in range(2):
        with pytest.raises(AlignmentError, match=message):
            mdt.einsum("ti,ij->tj", x, y.rename(lat="row"))
        check(mdt.einsum("ti,ij->tj", x, y), xr.dot(x, y, dim="lat"))
    with pytest.raises(AlignmentError, match=r"dim 'time' .* and dim 'lat'"):
        mdt.einsum("ii->i", x[:4])


def test_a_name_twice_in_a_result_is_an_error() -> None:
    x = field("time", "lat")
    with pytest.raises(AlignmentError, match="two axes of the result are dim 'lat'"):
        mdt.einsum("ti,tj->ij", x, x)
    other = x.rename(lat="lat2")  # of the same memory
    check(mdt.einsum("ti,tj->ij", x, other), xr.dot(x, other, dim="time"))


@pytest.mark.filterwarnings("ignore:Duplicate dimension names")
def test_a_name_twice_in_an_array_is_an_error() -> None:
    with pytest.raises(AlignmentError, match=r"has dims \('a', 'a'\), one of them twice"):
        mdt.einsum("ij->i", xr.DataArray(np.ones((2, 2)), dims=("a", "a")))


def test_what_is_refused() -> None:
    x = field("time", "lat")
    with pytest.raises(ArgumentError, match="out is not for xarray's arrays"):
        mdt.einsum("ti->t", x, out=np.zeros(6))
    with pytest.raises(DTypeError, match="xarray's Dataset, not a DataArray"):
        mdt.mean(xr.Dataset({"x": x}))
    with pytest.raises(DTypeError, match="xarray's Variable, not a DataArray"):
        mdt.lazy(x.variable)
    with pytest.raises(DTypeError, match="no kernels compute with that"):
        mdt.max(x["time"])
    with pytest.raises(
        AxisError, match=r"axis='tim', and the DataArray has dims \('time', 'lat'\)"
    ):
        mdt.mean(x, axis="tim")


def test_origins_are_found_once() -> None:
    x, y = field("time", "lat"), field("lat", "lon")
    mdt.einsum("ti,ij->tj", x, y)
    count = len(xarray_calls._known)
    mdt.einsum("ti,ij->tj", x * 2, y)
    mdt.einsum("ti,ij->tj", x.rename(time="day"), y)
    assert len(xarray_calls._known) == count


def test_multi_index() -> None:
    x = field("time", "lat").stack(place=("time", "lat"))
    check(mdt.softmax(x, axis=0), np.exp(x) / np.exp(x).sum())


def test_dask_in_dask_out() -> None:
    x, y = field("time", "lat"), field("lat", "lon")
    found = mdt.einsum("ti,ij->tj", x.chunk(time=2), y)
    assert found.chunks == ((2, 2, 2), (5,))
    check(found.compute(), xr.dot(x, y, dim="lat"))
    check((mdt.lazy(x.chunk(time=2)) + 1).evaluate(), x + 1)


def test_dask_and_jax_beside() -> None:
    jax = pytest.importorskip("jax")
    x, weights = field("time", "lat", dtype="f4"), np.ones((4, 3), "f4")

    def refused(block: Any) -> Any:
        raise AssertionError

    chunked = dask.array.from_array(weights).map_blocks(refused, dtype="f4", meta=np.ones(0))
    found = mdt.einsum("ti,ij->tj", x, chunked)
    assert (found.dims, found.chunks) == (("time", "dim_1"), ((6,), (3,)))
    found = mdt.einsum("ij,ti->tj", jax.numpy.asarray(weights), x)
    assert isinstance(found.data, jax.Array)
    assert found.dims == ("time", "dim_1")


def test_jax_in_jax_out() -> None:
    jax = pytest.importorskip("jax")
    x = field("time", "lat", dtype="f4")
    found = mdt.mean(x.copy(data=jax.numpy.asarray(x.data)), axis="time")
    assert isinstance(found.data, jax.Array)
    assert found.dims == ("lat",)
    np.testing.assert_allclose(found, x.astype("f8").mean("time"), rtol=1e-5)


def test_foreign_byte_order() -> None:
    x = field("time", "lat")
    check(mdt.softmax(x.astype(">f8")), mdt.softmax(x))


@pytest.mark.process
def test_xarray_is_not_imported() -> None:
    children.run(
        "-c",
        "import sys, numpy, mdtensor; mdtensor.einsum('i->', [1.0]);"
        "mdtensor.mean([1.0]); assert 'xarray' not in sys.modules",
    )
