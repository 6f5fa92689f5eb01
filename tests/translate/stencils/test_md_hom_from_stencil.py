from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage
from hypothesis import given
from hypothesis import strategies as st

from mdtensor.errors import ShapeError
from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.combine import Pointwise, named
from mdtensor.translate.md_hom import Dim
from mdtensor.translate.scalar_function import product
from mdtensor.translate.stencils.borders import MODES, Border
from mdtensor.translate.stencils.md_hom_from_stencil import Stencil, md_homs_from_stencil
from mdtensor.translate.stencils.stencil_from_function import stencil_from_function
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex

SCIPY = [mode for mode in MODES if mode not in ("valid", "fixed")]


def run(stencil: Stencil, border: Border, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results by the reference interpreter; what no md_hom writes stays NaN."""
    md_homs = md_homs_from_stencil(stencil, border)
    outputs = [np.full(b.spec.shape, np.nan) for b in md_homs[0].outputs]
    for md_hom in md_homs:
        reference.compute(md_hom, arrays, outputs)
    return outputs


def traced(function: object, *arguments: object) -> Stencil:
    return stencil_from_function(
        function,  # type: ignore[arg-type]
        [TensorSpec.of(a.shape, a.dtype) if isinstance(a, np.ndarray) else a for a in arguments],
    )


def weighted(weights: np.ndarray, u: object) -> object:
    """The sum of weights times elements, the weight in the middle for the point itself."""
    terms = [
        float(weight) * u[tuple(p - n // 2 for p, n in zip(place, weights.shape, strict=True))]
        for place, weight in np.ndenumerate(weights)
        if weight
    ]
    return sum(terms[1:], start=terms[0])


@given(
    shape=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    sizes=st.lists(st.integers(1, 5), min_size=3, max_size=3),
    mode=st.sampled_from(SCIPY),
    seed=st.integers(0, 99),
)
def test_borders_are_those_of_scipy(
    shape: list[int], sizes: list[int], mode: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, shape)
    weights = rng.integers(-3, 4, sizes[: len(shape)])
    weights.flat[0] = 1
    (result,) = run(traced(lambda u: weighted(weights, u), u), Border(mode, 0.5), u)
    expected = scipy.ndimage.correlate(u, weights, mode=mode, cval=0.5)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("mode", SCIPY)
def test_large_arrays_have_an_affine_inside(mode: str) -> None:
    u = np.random.default_rng(0).uniform(-1, 1, (20, 30))
    weights = np.array([[0, 0, 0], [0, 0, 2], [3, 5, 0], [0, 7, 0], [1, 0, 0]])
    stencil = traced(lambda u: weighted(weights, u), u)
    inside, *border = md_homs_from_stencil(stencil, Border(mode))
    assert inside.extents == {"i0": 16, "i1": 28}
    assert all(access.is_affine for access in inside.inp_view)
    assert sum(md_hom.points for md_hom in (inside, *border)) == u.size
    expected = scipy.ndimage.correlate(u, weights, mode=mode)
    np.testing.assert_allclose(run(stencil, Border(mode), u)[0], expected, rtol=0, atol=1e-13)


@given(
    shape=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    sizes=st.lists(st.integers(1, 5), min_size=3, max_size=3),
    seed=st.integers(0, 99),
)
def test_a_fixed_border_keeps_what_is_there(shape: list[int], sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(-1, 1, (2, *shape))
    weights = rng.integers(-3, 4, sizes[: len(shape)])
    weights.flat[-1] = 1
    stencil = traced(lambda u, v: (weighted(weights, u), 2 * v[(0,) * v.ndim]), u, v)
    first, second = run(stencil, Border("fixed"), u, v)
    inner = tuple(
        slice(-low, n - high) for n, (low, high) in zip(shape, stencil.reach, strict=True)
    )
    expected = u.copy(), v.copy()
    expected[0][inner] = scipy.ndimage.correlate(u, weights)[inner] if u.size else 0
    expected[1][inner] *= 2
    np.testing.assert_allclose(first, expected[0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(second, expected[1], rtol=0, atol=1e-13)
    md_homs = md_homs_from_stencil(stencil, Border("fixed"))
    assert sum(md_hom.points for md_hom in md_homs) == u.size


def test_indices_of_borders_hold_no_extents() -> None:
    """So one kernel serves all shapes."""

    def expressions(shape: tuple[int, int]) -> list[ComputedIndex]:
        stencil = traced(lambda u: u[-1, 0] + u[0, 2], np.zeros(shape))
        _, *border = md_homs_from_stencil(stencil, Border("reflect"))
        axes = [axis for md_hom in border for access in md_hom.inp_view for axis in access.index]
        return [axis for axis in axes if isinstance(axis, ComputedIndex)]

    assert expressions((20, 30)) == expressions((31, 57))


@pytest.mark.parametrize("mode", SCIPY)
def test_windows_are_reduced(mode: str) -> None:
    u, weights = np.random.default_rng(0).uniform(-1, 1, (9, 20)), np.arange(1.0, 6.0)
    f8 = weights.dtype
    stencil = Stencil(
        u.shape,
        product(["f8", "f8"], "f8"),
        (BufferSpec("u", TensorSpec.of(u.shape, f8)), BufferSpec("w", TensorSpec.of((5,), f8))),
        frozenset([0]),
        (
            BufferAccess(0, (AffineIndex(), AffineIndex.of("r", offset=-2))),
            BufferAccess(1, (AffineIndex.of("r"),)),
        ),
        (Dim("r", 5, Pointwise(named("add", [f8]))),),
    )
    expected = scipy.ndimage.correlate1d(u, weights, mode=mode)
    (result,) = run(stencil, Border(mode), u, weights)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13)


def test_valid_keeps_what_exists() -> None:
    u, v = np.random.default_rng(0).uniform(-1, 1, (2, 8, 9))
    stencil = traced(lambda u, v, c: (c * u[-2, 0] - v[0, 1], u[0, 0]), u, v, 3)
    first, second = run(stencil, Border("valid"), u, v)
    np.testing.assert_array_equal(first, 3 * u[:-2, :-1] - v[2:, 1:])
    np.testing.assert_array_equal(second, u[2:, :-1])


def test_valid_needs_enough_elements() -> None:
    with pytest.raises(ShapeError) as caught:
        md_homs_from_stencil(traced(lambda u: u[-1] + u[2], np.zeros(3)), Border("valid"))
    assert str(caught.value) == (
        "the stencil spans 4 elements along axis 0, which has 3\n"
        "  hint: another border than 'valid' gives a result of the array's shape"
    )
