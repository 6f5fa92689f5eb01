"""The DSL: views, scalar functions, operators, and programs that it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.directive import Buffer, add, cc, f_mul, fp32, fp64, int64, mdh, pw
from mdtensor.errors import TranslationError

pytestmark = pytest.mark.usefixtures("by_reference")
X, M = np.arange(6.0), np.arange(30.0).reshape(5, 6)


def test_public_names() -> None:
    @mdt.mdh()
    def matvec():
        return (
            mdt.out_view[fp64](w=[lambda i, k: i]),
            mdt.md_hom[5, 6](f_mul, (mdt.cc, mdt.pw("add"))),
            mdt.inp_view[fp64, fp64](M=[lambda i, k: (i, k)], v=[lambda i, k: k]),
        )

    np.testing.assert_allclose(matvec(M, X), M @ X)
    w = np.zeros(5)
    assert matvec(w, M, X) is w
    np.testing.assert_allclose(w, M @ X)
    assert matvec.steps(M, X)[0].describe() == (
        "out_view(w: float64[5] (i, k) -> (i))\n"
        "md_hom[i:5, k:6](mul, (cc, pw(add)))\n"
        "inp_view(M: float64[5, 6] (i, k) -> (i, k); v: float64[6] (i, k) -> (k))"
    )


def test_a_stencil_of_several_accesses() -> None:
    def weighted(out, inp):
        left, middle, right = inp["x"]
        out["y"] = 0.25 * left + 0.5 * middle + 0.25 * right

    for function in (weighted, lambda a, b, c: 0.25 * a + 0.5 * b + 0.25 * c):

        @mdh()
        def smooth():
            return (
                mdt.out_view[fp64](y=[lambda i: i]),
                mdt.md_hom[4](function, cc),  # noqa: B023
                mdt.inp_view[fp64](x=[lambda i: i, lambda i: i + 1, lambda i: i + 2]),
            )

        np.testing.assert_allclose(smooth(X), X[1:-1])


def test_gathers() -> None:
    @mdh()
    def rows():
        return (
            mdt.out_view[fp64](y=[lambda i, j: i]),
            mdt.md_hom[3, 6](lambda row: row, (cc, pw(add))),
            mdt.inp_view[int64, fp64](idx=[lambda i, j: i], M=[lambda i, j, *, idx: (idx[i], j)]),
        )

    with pytest.raises(TranslationError, match="the views read 2 elements, which the scalar"):
        rows(np.array([4, 0, -1]), M)

    @mdh()
    def gathered():
        return (
            mdt.out_view[fp64](y=[lambda i, j: i]),
            mdt.md_hom[3, 6](lambda _, row: row, (cc, pw(add))),
            mdt.inp_view[int64, fp64](idx=[lambda i, j: i], M=[lambda i, j, *, idx: (idx[i], j)]),
        )

    np.testing.assert_allclose(gathered(np.array([4, 0, -1]), M), M[[4, 0, -1]].sum(axis=1))


def _program(**changed):
    parts = {
        "out": mdt.out_view[fp64](w=[lambda i, k: i]),
        "middle": mdt.md_hom[5, 6](f_mul, (cc, pw(add))),
        "inp": mdt.inp_view[fp64, fp64](M=[lambda i, k: (i, k)], v=[lambda i, k: k]),
    } | changed

    @mdh()
    def program():
        return tuple(part for part in parts.values() if part is not None)

    return program


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"middle": None}, "program returns no program"),
        (
            {"middle": mdt.md_hom[5](f_mul, (cc,))},
            "an index function takes 2 indices, but md_hom has 1 size",
        ),
        (
            {"middle": mdt.md_hom[5, 7](f_mul, (cc, pw(add)))},
            "index k of M is out of reach: it runs from 0 to 6, but axis 1 has extent 6",
        ),
        (
            {"out": mdt.out_view[fp64](w=[lambda i, k: k])},
            "w is written at an index of loop 'k', which pw(add) reduces to one element",
        ),
        (
            {"inp": mdt.inp_view[fp64](M=[lambda i: (i, i)])},
            "an index function takes 1 index, another one 2",
        ),
        (
            {"inp": mdt.inp_view(M=[lambda i, k: (i, k)], v=[lambda i, k: k])},
            "the type of M is not declared",
        ),
    ],
)
def test_a_wrong_program_says_why(changed, message: str) -> None:
    with pytest.raises(TranslationError) as error:
        _program(**changed)(M, X)
    assert error.value.message == message


def test_wrong_types_and_counts() -> None:
    with pytest.raises(TypeError, match="takes 2 inputs, or 1 outputs and 2 inputs, not 4"):
        _program()(M, M, M, X)
    assert repr(Buffer[fp32, 2]) == "Buffer[float32, 2]"
