from __future__ import annotations

import numpy as np
import pytest

from mdtensor.specs import TensorSpec
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_filter import (
    Filter,
    md_homs_from_filter,
    weights_dtype,
)


def spec(dtype: str, *shape: int) -> TensorSpec:
    return TensorSpec.of(shape, dtype)


def test_weights_are_a_second_input() -> None:
    given = Filter("add", (3, 1), (-1, 0), Border("constant"), weighted=True)
    inside, border = md_homs_from_filter(
        given, spec("f4", 9, 8), spec("f4", 9, 8), spec("f4", 3, 1)
    )
    assert inside.describe() == (
        "out_view(v0: float32[9, 8] (i0, i1, r0) -> (i0+1, i1))\n"
        "md_hom[i0:7, i1:8, r0:3](f, (cc, cc, pw(add)))\n"
        "inp_view(u: float32[9, 8] (i0, i1, r0) -> (i0+r0, i1);"
        " w: float32[3, 1] (i0, i1, r0) -> (r0, 0))"
    )
    assert repr(border) == "md_hom[s0:2, i0:1, i1:8, r0:3](f, (cc, cc, cc, pw(add)))"


def test_footprints_select() -> None:
    given = Filter("min", (2,), (0,), Border("wrap"), weighted=True)
    inside, _ = md_homs_from_filter(given, spec("i4", 9), spec("i4", 9), spec("?", 2))
    assert repr(inside.scalar.results) == "(select(p1, p0, 2147483647),)"


def test_means_are_divided_once() -> None:
    given = Filter("add", (3,), (-1,), Border("wrap"), divisor=3)
    inside, _ = md_homs_from_filter(given, spec("u1", 9), spec("i2", 9))
    assert inside.epilogue is not None
    assert repr(inside.epilogue.function.results) == "(int16(int64((p0 / 3))),)"


@pytest.mark.parametrize(
    ("dtype", "cval", "expected"),
    [("i4", 2.0, "i4"), ("i4", 0.5, "f8"), ("f4", 0.1, "f4"), ("?", 1.0, "?")],
)
def test_extremes_are_computed_in_the_type_of_the_array(
    dtype: str, cval: float, expected: str
) -> None:
    given = Filter("max", (3,), (-1,), Border("constant", cval))
    inside, _ = md_homs_from_filter(given, spec(dtype, 9), spec(dtype, 9))
    assert inside.scalar.result_dtypes == (np.dtype(expected),)


@pytest.mark.parametrize(
    ("field", "out", "is_complex", "expected"),
    [
        ("f4", "f4", False, "f4"),
        ("f2", "f4", False, "f4"),
        ("f4", "f8", False, "f8"),
        ("u1", "f4", False, "f8"),
        ("f4", "c8", True, "c8"),
        ("f8", "c8", True, "c16"),
    ],
)
def test_weights_are_double_unless_all_is_single(
    field: str, out: str, is_complex: bool, expected: str
) -> None:
    assert weights_dtype(np.dtype(field), np.dtype(out), is_complex=is_complex) == expected


@pytest.mark.parametrize(("dtype", "expected"), [("f4", "f8"), ("i2", "f8"), ("c8", "c16")])
def test_means_are_computed_in_double(dtype: str, expected: str) -> None:
    given = Filter("add", (3,), (-1,), Border("wrap"), divisor=3)
    inside, _ = md_homs_from_filter(given, spec(dtype, 9), spec(dtype, 9))
    assert inside.scalar.result_dtypes == (np.dtype(expected),)
