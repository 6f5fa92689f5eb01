"""Sparse arrays of scipy where dense ones are due: refused, with a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import mdtensor as mdt
from mdtensor.api.arrays.sparse_arrays import check_dense, is_sparse
from mdtensor.directive import Buffer, cc, combine_ops, fp64, inp, mdh, out
from mdtensor.errors import DTypeError

A = np.arange(6.0).reshape(2, 3)
X = np.ones(3)
FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")


@mdt.mdh
def copied(x: Any, y: Any) -> None:
    for i in range(len(x)):
        y[i] = x[i]


D: Any = Buffer[fp64]


def summed(a: Any) -> Any:
    return mdt.einsum("ij->", a)


@mdt.stencil
def neighbours(u: Any) -> Any:
    return u[0, 0] + u[0, 1]


@mdh(out(y=D), inp(x=D), combine_ops(cc))
def doubled(y: Any, x: Any) -> None:
    for i in range(len(x)):
        y[i] = 2 * x[i]


def planned(a: Any, *what: Any) -> Any:
    return mdt.compile(*what, A)(a)


CALLS: dict[str, Callable[[Any], Any]] = {
    "out": lambda a: mdt.einsum("ij,j->i", A, X, out=a),
    "path": lambda a: mdt.einsum_path("ij,j->i", a, X),
    "matmul": lambda a: mdt.matmul(a, X),
    "dot": lambda a: mdt.dot(a, X),
    "tensordot": lambda a: mdt.tensordot(a, X, 1),
    "scan": lambda a: mdt.scan("ij->ij", a, combine={"j": "add"}),
    "sum": lambda a: mdt.sum(a, axis=1),
    "softmax": mdt.softmax,
    "max_pool": lambda a: mdt.max_pool(a, 2),
    "conv": lambda a: mdt.conv(a, A[:1, :2], layout="HW,RS->PQ"),
    "convolve": lambda a: mdt.convolve(a, X),
    "stencil": neighbours,
    "filter": lambda a: mdt.ndimage.uniform_filter(a, 2),
    "lazy": mdt.lazy,
    "lazy product": lambda a: mdt.lazy(A) @ a,
    "loops": lambda a: copied(a, np.ones(2)),
    "loops that write": lambda a: copied(X, a),
    "loops with operators": doubled,
    "plan": lambda a: planned(a, "ij->i"),
    "plan of a call": lambda a: planned(a, mdt.reduce, "ij->i"),
    "what a plan is made of": lambda a: mdt.compile("ij->i", a),
    "stream": lambda a: mdt.reduce("ij->i", a, memory_limit="1MB"),
    "gradient": mdt.grad(summed),
}


@pytest.mark.parametrize("name", CALLS)
def test_sparse_arrays_are_refused_where_dense_ones_are_due(name: str) -> None:
    with pytest.raises(DTypeError, match="is a sparse csr_array where a dense array is due") as no:
        CALLS[name](scipy.sparse.csr_array(A))
    assert "a.toarray() stores all elements" in (no.value.hint or "")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_every_format_is_known(form: str, kind: str) -> None:
    given = getattr(scipy.sparse, f"{form}_{kind}")(A)
    assert is_sparse(given)
    with pytest.raises(DTypeError, match=f"a is a sparse {form}_{kind} where a dense"):
        check_dense("a", given)


def test_the_error_says_what_to_do() -> None:
    with pytest.raises(DTypeError) as no:
        mdt.matmul(scipy.sparse.csr_matrix(A), X)
    assert str(no.value) == (
        "operand 0 is a sparse csr_matrix where a dense array is due\n"
        "  hint: a.toarray() stores all elements of a; mdtensor.einsum and mdtensor.reduce take"
        " sparse arrays, see sparse operands in docs/reductions.md"
    )


@pytest.mark.parametrize("given", [A, A.tolist(), 3.0, np.ma.masked_array(A), None])
def test_dense_arrays_are_not_sparse(given: Any) -> None:
    assert not is_sparse(given)
