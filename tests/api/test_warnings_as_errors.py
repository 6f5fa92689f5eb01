"""Where warnings are errors, no first call fails: neither our warnings nor PyOpenCL's come."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import children

pytestmark = pytest.mark.process

CALLS = """
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.directive import Buffer, add, cc, combine_ops, fp64, inp, mdh, out, pw
from mdtensor.tuner import evaluations

A, B = np.ones((5, 7)), np.ones((7, 6))


@mdt.mdh
def doubled(y, x):
    for i in range(len(x)):
        y[i] = 2 * x[i]


@mdt.mdh
def summed(x):
    for i in range(1, len(x)):
        x[i] = x[i - 1] + x[i]


@mdh(out(w=Buffer[fp64]), inp(M=Buffer[fp64], v=Buffer[fp64]), combine_ops(cc, pw(add)))
def matvec(w, M, v):
    for i in range(M.shape[0]):
        for k in range(len(v)):
            w[i] = M[i, k] * v[k]


@mdh()
def formula():
    return (
        mdt.out_view[fp64](y=[lambda i: (i,)]),
        mdt.md_hom[3](lambda x: x + 1, (cc,)),
        mdt.inp_view[fp64](x=[lambda i: (i,)]),
    )


@mdt.stencil
def laplace(u):
    return u[-1] - 2 * u[0] + u[1]


def tuned():
    mdt.compile("ij,kj->ik", A, A).tune("1h", abort=evaluations(1))


CALLS = {
    "einsum": lambda: mdt.einsum("ij,jk->ik", A, B),
    "einsum of complex numbers": lambda: mdt.einsum("ij,jk->ik", A + 1j, B),
    "einsum of half floats": lambda: mdt.einsum("ij,jk->ik", A.astype("f2"), B.astype("f2")),
    "tensordot": lambda: mdt.tensordot(A, B, 1),
    "softmax": lambda: mdt.softmax(A, axis=1),
    "reduce": lambda: mdt.reduce("ij->i", A, combine="max"),
    "a constant": lambda: mdt.reduce("i,j->i", A[0], A[1], f=lambda a, b: 1.0),
    "scan": lambda: mdt.scan("i->i", A[0]),
    "conv": lambda: mdt.conv(np.ones((1, 8, 8, 3)), np.ones((4, 3, 3, 3)), padding=1),
    "convolve": lambda: mdt.convolve(A[0], A[1, :3]),
    "loops": lambda: doubled(np.zeros(3), np.ones(3)),
    "loops in order": lambda: summed(np.ones(70)),
    "directive": lambda: matvec(A, A[0]),
    "formula": lambda: formula(np.ones(3)),
    "stencil": lambda: laplace(A[0]),
    "ndimage": lambda: mdt.ndimage.gaussian_filter(A, 1.0),
    "lazy": lambda: np.asarray(mdt.lazy(A) * 2 + 1),
    "plan": lambda: mdt.compile("ij,jk->ki", A, B)(A, B),
    "grad": lambda: mdt.grad(lambda a: mdt.einsum("ij,jk->", a, B))(A),
    "tune": tuned,
}


@pytest.mark.parametrize("name", CALLS)
def test_first_call(name):
    CALLS[name]()
"""


def test_no_first_call_fails_where_warnings_are_errors(tmp_path: Path) -> None:
    (tmp_path / "test_calls.py").write_text(CALLS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    places = {"MDTENSOR_CACHE_DIR": tmp_path / "cache", "PYTHONPATH": children.ROOT}
    words = "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "."
    end = children.run(*words, cwd=tmp_path, env=places)
    assert "20 passed" in end.out
    assert "warning" not in end.out
