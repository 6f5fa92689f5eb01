import dask
import dask.array as da
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import ArgumentError, DTypeError, ShapeError
from tests import children
from tests.api.dask.random_calls import case, in_chunks


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(200))
def test_random_calls_in_random_chunks(seed: int) -> None:
    drawn = case(seed)
    rng = np.random.default_rng(seed)
    # Now and then one operand is NumPy's.
    whole = int(rng.integers(len(drawn.arrays) * 2)) if len(drawn.arrays) > 1 else -1
    given = [a if n == whole else in_chunks(rng, a) for n, a in enumerate(drawn.arrays)]
    result = drawn.call(*given)
    assert isinstance(result, da.Array)
    computed = result.compute(scheduler="sync" if seed % 2 else "threads")
    assert result.shape == computed.shape == np.shape(drawn.expected)
    assert result.dtype == computed.dtype == drawn.call(*drawn.arrays).dtype
    single = any(a.dtype == np.float32 for a in drawn.arrays)
    scale = 1 + np.abs(drawn.expected).max(initial=0)
    tolerance = (3e-5 if single else 1e-12) * scale
    np.testing.assert_allclose(computed, drawn.expected, atol=tolerance, rtol=0)


def test_chunks_follow_from_the_operands() -> None:
    a, b = da.ones((60, 40), chunks=(20, 10)), da.ones((40, 8), chunks=(40, 4))
    assert mdt.einsum("ij,jk->ik", a, b).chunks == ((20, 20, 20), (4, 4))
    blur = mdt.stencil(lambda u: u[-1, 0] + u[1, 0], border="nearest")
    assert blur(a).chunks == a.chunks


def test_parts_read_their_neighbours_alone() -> None:
    a = da.ones((1000,), chunks=100)
    total = mdt.stencil(lambda u: u[-1] + u[0] + u[1], border="constant")
    part = total(a).blocks[4]
    needed = part.__dask_graph__().cull({part.__dask_keys__()[0]})
    assert sorted(key[1] for key in needed if "ones" in key[0]) == [3, 4, 5]


def test_several_results_are_several_arrays() -> None:
    x = np.arange(12.0).reshape(3, 4)
    total, squares = mdt.reduce("ij->i", da.from_array(x, chunks=2), f=lambda v: (v, v * v))
    np.testing.assert_array_equal(total, x.sum(1))
    np.testing.assert_array_equal(squares, (x * x).sum(1))


def test_calls_that_run_several_computations() -> None:
    x = np.random.default_rng(0).random((30, 20))
    chunked = da.from_array(x, chunks=(11, 7))
    filtered = mdt.ndimage.uniform_filter(chunked, 3)
    padded = np.pad(x, 1, "symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    np.testing.assert_allclose(filtered, windows.mean((2, 3)))


def test_chunks_of_equal_shapes_share_their_kernel() -> None:
    from mdtensor.api.parts.cuts import cuts_from_grids
    from mdtensor.specs import TensorSpec
    from mdtensor.translate.reductions.md_hom_from_reduction import (
        Reduction,
        md_hom_from_reduction,
    )
    from mdtensor.translate.rewrites.parts import part_of

    weighted = Reduction("ij->j", lambda v, *, i: v * i)
    md_hom = md_hom_from_reduction(weighted, (TensorSpec.of((40, 6)),))
    cuts = cuts_from_grids(md_hom, [((0, 20, 40), (0, 6))])
    first, second = (part_of(md_hom, {"i": (low, low + 20), "j": (0, 6)}) for low in cuts["i"][:-1])
    assert first.md_hom == second.md_hom
    assert (first.begins, second.begins) == ((0,), (20,))
    assert part_of(md_hom, {"i": (0, 20), "j": (0, 6)}) is first  # as each step of a stencil asks


def test_arrays_larger_than_memory_are_described_alone() -> None:
    huge = da.zeros((1 << 22, 1 << 22), chunks=1 << 18, dtype="f4")
    assert mdt.reduce("ij->i", huge, combine="max").shape == (1 << 22,)


def test_names_are_the_same_for_the_same_call() -> None:
    x = da.ones((4, 4), chunks=2)
    assert mdt.einsum("ij->i", x).name == mdt.einsum("ij->i", x).name
    assert mdt.einsum("ij->i", x).name != mdt.einsum("ij->j", x).name


def test_out_is_refused() -> None:
    with pytest.raises(ArgumentError, match="out is not for Dask arrays"):
        mdt.einsum("i->", da.ones(3), out=np.zeros(()))
    same = mdt.stencil(lambda u: u[0])
    for n in (0, 3):
        with pytest.raises(ArgumentError, match="out is not for Dask arrays"):
            same.steps(da.ones(3), n=n, out=np.zeros(3))


def test_unknown_chunks_are_refused() -> None:
    x = da.ones(6, chunks=2)
    same = mdt.stencil(lambda u: u[0])
    for call in (
        lambda: mdt.einsum("i->", x[x > 0]),
        *(lambda n=n: same.steps(x[x > 0], n=n) for n in (0, 3)),
    ):
        with pytest.raises(ShapeError, match=r"chunks of unknown sizes.*\n.*compute_chunk_sizes"):
            call()


def test_types_without_kernels_are_refused() -> None:
    x = da.from_array(np.array([1, "a"], object), chunks=1)
    with pytest.raises(DTypeError, match="no kernels compute with object"):
        mdt.einsum("i->", x)


def test_errors_are_those_of_the_call() -> None:
    with pytest.raises(mdt.errors.SubscriptError, match="index 'j' has extent 3"):
        mdt.einsum("ij,jk->ik", da.ones((2, 3)), da.ones((4, 3)))


@pytest.mark.process
def test_dask_is_imported_for_dask_arrays_alone() -> None:
    code = (
        "import sys, numpy, mdtensor; mdtensor.einsum('i->', numpy.ones(3));"
        "assert 'dask' not in sys.modules"
    )
    children.run("-c", code)


def test_graphs_are_lazy() -> None:
    def refused(block: np.ndarray) -> np.ndarray:
        raise AssertionError

    x = da.ones(6, chunks=2).map_blocks(refused, dtype="f8", meta=np.ones(0))
    mean = mdt.stencil(lambda u: (u[-1] + u[1]) / 2, border="fixed")
    with dask.config.set(scheduler="sync"):
        assert mdt.scan("i->i", x).shape == (6,)
        for n in range(5):
            assert mean.steps(x, n=n).chunks == x.chunks


@pytest.mark.parametrize("border", ["valid", "fixed", "nearest", "wrap"])
def test_steps_of_stencils(border: str) -> None:
    wave = mdt.stencil(
        lambda u, before, c: (
            2 * u[0, 0] - before[0, 0] + c * (u[-1, 0] + u[2, -1] - 2 * u[0, 0]),
            u[0, 0],
        ),
        border=border,
    )
    rng = np.random.default_rng(0)
    u, before = rng.random((2, 20, 13))
    for n in (1, 2, 3, 6):
        chunked = wave.steps(u, da.from_array(before, chunks=(6, 5)), 0.25, n=n)
        for found, expected in zip(chunked, wave.steps(u, before, 0.25, n=n), strict=True):
            assert isinstance(found, da.Array)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_each_step_reads_one_chunk_further() -> None:
    x = da.ones((1000,), chunks=100)
    total = mdt.stencil(lambda u: u[-1] + u[0] + u[1], border="constant")
    part = total.steps(x, n=3).blocks[4]
    needed = part.__dask_graph__().cull({part.__dask_keys__()[0]})
    assert sorted(key[1] for key in needed if "ones" in key[0]) == [1, 2, 3, 4, 5, 6, 7]


def test_parts_of_placeholders_are_no_operands() -> None:
    x = da.ones((4, 6), chunks=2)
    with pytest.raises(DTypeError, match="is more than kernels on them"):
        mdt.outer(x, x)  # which flattens its operands
