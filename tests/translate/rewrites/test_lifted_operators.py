"""Reductions by logaddexp on pairs of a maximum and a sum, against the definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Pointwise, PrefixSum, named
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.reference import run
from mdtensor.translate.rewrites.lifted_operators import with_lifted_operators
from mdtensor.translate.scalar import param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec

INF = float("inf")
ROWS = [
    [0.0, 1.0, 2.0],
    [-INF, -INF, -INF],
    [-INF, 3.0, -INF],
    [INF, 3.0, INF],
    [1e30, -1e30, 1e30],
    [np.nan, 1.0, 2.0],
    [1.0, np.nan, -INF],
    [-800.0, -801.0, -802.0],
]


def _rows(extent: int, *, scanned: bool = False, epilogue: bool = False) -> MDHom:
    op = named("logaddexp", ["f8"])
    combine = PrefixSum(op) if scanned else Pointwise(op)
    place = (AffineIndex.of("i"), AffineIndex.of("j")) if scanned else (AffineIndex.of("i"),)
    shape = (len(ROWS), extent) if scanned else (len(ROWS),)
    doubled = ScalarFunction(op.dtypes, (param(0, "f8") * 2,), "double")
    return MDHom(
        (Dim("i", len(ROWS), CC), Dim("j", extent, combine)),
        ScalarFunction(op.dtypes, (param(0, "f8"),), "id"),
        (BufferSpec("x", TensorSpec.of((len(ROWS), extent), "f8")),),
        (BufferSpec("y", TensorSpec.of(shape, "f8")),),
        (BufferAccess(0, (AffineIndex.of("i"), AffineIndex.of("j"))),),
        (BufferAccess(0, place),),
        Epilogue(doubled) if epilogue else None,
    )


@pytest.mark.parametrize("epilogue", [False, True])
def test_pairs_give_what_logarithms_give(epilogue: bool) -> None:
    x = np.array(ROWS)
    md_hom = with_lifted_operators(_rows(3, epilogue=epilogue))
    assert len(md_hom.scalar.results) == 2
    with np.errstate(all="ignore"):
        expected = logsumexp(x, axis=1) * (2 if epilogue else 1)
    np.testing.assert_allclose(run(md_hom, [x])[0], expected, rtol=1e-14)


def test_scans_stay_as_they_are() -> None:
    scan = _rows(3, scanned=True)
    assert with_lifted_operators(scan) is scan
