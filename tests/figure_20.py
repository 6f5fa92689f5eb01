"""The computations of Figure 20 (002, section 4.2.4), in the words of every front end.

One table for the tests and for docs/computations.md, which shows this code.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import mdtensor as mdt
from mdtensor.directive import (
    Buffer,
    add,
    cc,
    combine_ops,
    f_mul,
    fp64,
    inp,
    inp_view,
    int64,
    md_hom,
    mdh,
    out,
    out_view,
    ps,
    pw,
)

Arrays = tuple[np.ndarray, ...]
SUB_FIGURES = (
    "Linear algebra routines",
    "Convolution stencils",
    "Quantum chemistry",
    "Jacobi stencils",
    "Probabilistic record linkage",
    "Histograms",
    "Map and reduce patterns",
    "Prefix sums",
)


@dataclass(frozen=True)
class Computation:
    """One row of the figure: operands of given sizes, what is right, and the ways to say it."""

    sub_figure: int
    name: str
    sizes: tuple[tuple[int, ...], ...]
    operands: Callable[..., Arrays]
    oracle: Callable[..., Any]
    # By front end; those whose function is one expression, and programs of several lines.
    expressions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    programs: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def expression(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Adds a function that returns an expression, under the name of the first call in it."""
        call = value_of(function)
        name = call.removeprefix("mdt.").partition("(")[0]
        self.expressions[name if call.startswith("mdt.") else "lazy"] = function
        return function

    def program(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Adds a program: loops, a stencil, or views and an `md_hom`."""
        kinds = {"StencilFunction": "stencil", "Dsl": "DSL", "Directive": "loops"}
        self.programs[kinds.get(type(function).__name__, "DSL")] = function
        return function

    def __str__(self) -> str:
        return self.name


FIGURE: list[Computation] = []
# Functions that expressions and programs use, by sub-figure.
PARTS: dict[int, list[Callable[..., Any]]] = {}


def computation(
    sub_figure: int,
    name: str,
    sizes: tuple[tuple[int, ...], ...],
    operands: Callable[..., Arrays],
    oracle: Callable[..., Any],
) -> Computation:
    """A new row of the table."""
    FIGURE.append(Computation(sub_figure, name, sizes, operands, oracle))
    return FIGURE[-1]


def part(sub_figure: int) -> Callable[[Any], Any]:
    """Marks a function to be shown with a sub-figure."""

    def marked(function: Any) -> Any:
        PARTS.setdefault(sub_figure, []).append(function)
        return function

    return marked


def source_of(function: Any) -> str:
    """The text of a function without the line that put it into the table."""
    text = textwrap.dedent(inspect.getsource(getattr(function, "function", function)))
    return re.sub("  # noqa.*", "", text.partition("\n")[2]).rstrip()


def value_of(function: Callable[..., Any]) -> str:
    """The text of the expression that a function returns, on one line."""
    source = textwrap.dedent(inspect.getsource(function))
    (returned,) = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    text = " ".join((ast.get_source_segment(source, returned.value) or "").split())
    return text.replace("( ", "(").replace(", )", ")").replace(" )", ")")


def real(*shape: int) -> np.ndarray:
    """Numbers that are the same in every run."""
    return np.random.default_rng(math.prod(shape)).standard_normal(shape)


D = Buffer[fp64]

# --- 1: linear algebra ------------------------------------------------------------------------

dot = computation(
    1, "Dot", ((1,), (31,), (4099,)), lambda k: (real(k), real(k + 1)[1:]), lambda a, b: a @ b
)


@dot.expression
def _(A, B):
    return mdt.einsum("k,k->", A, B)


@dot.expression
def _(A, B):
    return mdt.reduce("k,k->", A, B, combine="add")


@dot.program
@mdh(out(C=D), inp(A=D, B=D), combine_ops(pw(add)))
def dot_loops(C, A, B):
    for k in range(len(A)):
        C[()] = A[k] * B[k]


mat_vec = computation(
    1,
    "MatVec",
    ((7, 13), (1, 65), (127, 64)),
    lambda i, k: (real(i, k), real(k)),
    lambda A, B: A @ B,
)


@mat_vec.expression
def _(A, B):
    return mdt.einsum("ik,k->i", A, B)


@mat_vec.program
@mdh(out(C=D), inp(A=D, B=D), combine_ops(cc, pw(add)))
def mat_vec_loops(C, A, B):
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            C[i] = A[i, k] * B[k]


@mat_vec.program
def mat_vec_program(A, B):
    @mdh()
    def mat_vec():
        return (
            out_view[fp64](C=[lambda i, k: i]),
            md_hom[A.shape](f_mul, (cc, pw(add))),
            inp_view[fp64, fp64](A=[lambda i, k: (i, k)], B=[lambda i, k: k]),
        )

    return mat_vec(A, B)


mat_mul = computation(
    1,
    "MatMul",
    ((7, 5, 13), (1, 17, 33), (63, 65, 31)),
    lambda i, j, k: (real(i, k), real(k, j)),
    lambda A, B: A @ B,
)


@mat_mul.expression
def _(A, B):
    return mdt.einsum("ik,kj->ij", A, B)


@mat_mul.expression
def _(A, B):
    return mdt.tensordot(A, B, 1)


@mat_mul.program
@mdh(out(C=D), inp(A=D, B=D), combine_ops(cc, cc, pw(add)))
def mat_mul_loops(C, A, B):
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] = A[i, k] * B[k, j]


mat_mul_t = computation(
    1,
    "MatMulᵀ",
    ((7, 5, 13), (1, 17, 33), (63, 65, 31)),
    lambda i, j, k: (real(k, i), real(j, k)),
    lambda A, B: B @ A,
)


@mat_mul_t.expression
def _(A, B):
    return mdt.einsum("ki,jk->ji", A, B)


@mat_mul_t.program
@mdh(out(C=D), inp(A=D, B=D), combine_ops(cc, cc, pw(add)))
def mat_mul_t_loops(C, A, B):
    for i in range(A.shape[1]):
        for j in range(B.shape[0]):
            for k in range(A.shape[0]):
                C[j, i] = A[k, i] * B[j, k]


@mat_mul_t.program
def mat_mul_t_program(A, B):
    @mdh()
    def mat_mul_t():
        return (
            out_view[fp64](C=[lambda i, j, k: (j, i)]),
            md_hom[A.shape[1], B.shape[0], A.shape[0]](f_mul, (cc, cc, pw(add))),
            inp_view[fp64, fp64](A=[lambda i, j, k: (k, i)], B=[lambda i, j, k: (j, k)]),
        )

    return mat_mul_t(A, B)


b_mat_mul = computation(
    1,
    "bMatMul",
    ((3, 7, 5, 13), (16, 1, 17, 2), (5, 17, 15, 31)),
    lambda b, i, j, k: (real(b, i, k), real(b, k, j)),
    lambda A, B: A @ B,
)


@b_mat_mul.expression
def _(A, B):
    return mdt.einsum("bik,bkj->bij", A, B)


@b_mat_mul.program
@mdh(out(C=D), inp(A=D, B=D), combine_ops(cc, cc, cc, pw(add)))
def b_mat_mul_loops(C, A, B):
    for b in range(A.shape[0]):
        for i in range(A.shape[1]):
            for j in range(B.shape[2]):
                for k in range(A.shape[2]):
                    C[b, i, j] = A[b, i, k] * B[b, k, j]


# --- 2: convolutions --------------------------------------------------------------------------


def windows(image: np.ndarray, r: int, s: int, axes: tuple[int, int] = (0, 1)) -> np.ndarray:
    """All windows of an image, whose two axes are the last ones."""
    return np.lib.stride_tricks.sliding_window_view(image, (r, s), axes)


conv_2d = computation(
    2,
    "Conv2D",
    ((5, 7, 3, 3), (1, 31, 2, 5), (33, 63, 5, 5)),
    lambda p, q, r, s: (real(p + r - 1, q + s - 1), real(r, s)),
    lambda I, F: np.einsum("pqrs,rs->pq", windows(I, *F.shape), F),  # noqa: E741
)


@conv_2d.expression
def _(I, F):  # noqa: E741
    return mdt.einsum("p+r q+s, r s -> p q", I, F)


@conv_2d.expression
def _(I, F):  # noqa: E741
    return mdt.conv(I, F, layout="HW,RS->PQ")


@conv_2d.program
@mdh(out(O=D), inp(I=D, F=D), combine_ops(cc, cc, pw(add), pw(add)))
def conv_2d_loops(O, I, F):  # noqa: E741
    for p in range(I.shape[0] - F.shape[0] + 1):
        for q in range(I.shape[1] - F.shape[1] + 1):
            for r in range(F.shape[0]):
                for s in range(F.shape[1]):
                    O[p, q] = I[p + r, q + s] * F[r, s]


mcc = computation(
    2,
    "MCC",
    ((1, 5, 7, 2, 3, 3, 3), (2, 1, 13, 17, 3, 1, 5), (3, 8, 7, 5, 3, 3, 16)),
    lambda n, p, q, k, r, s, c: (real(n, p + r - 1, q + s - 1, c), real(k, r, s, c)),
    lambda I, F: np.einsum(  # noqa: E741
        "npqcrs,krsc->npqk", windows(I, *F.shape[1:3], (1, 2)), F
    ),
)


@mcc.expression
def _(I, F):  # noqa: E741
    return mdt.conv(I, F)


@mcc.expression
def _(I, F):  # noqa: E741
    return mdt.einsum("n p+r q+s c, k r s c -> n p q k", I, F)


@mcc.program
@mdh(out(O=D), inp(I=D, F=D), combine_ops(cc, cc, cc, cc, pw(add), pw(add), pw(add)))
def mcc_loops(O, I, F):  # noqa: E741
    for n in range(I.shape[0]):
        for p in range(I.shape[1] - F.shape[1] + 1):
            for q in range(I.shape[2] - F.shape[2] + 1):
                for k in range(F.shape[0]):
                    for r in range(F.shape[1]):
                        for s in range(F.shape[2]):
                            for c in range(F.shape[3]):
                                O[n, p, q, k] = I[n, p + r, q + s, c] * F[k, r, s, c]


mcc_capsule = computation(
    2,
    "MCC_Capsule",
    ((1, 3, 5, 2, 3, 3, 3, 2, 3, 5), (2, 1, 7, 3, 1, 3, 5, 4, 4, 4)),
    lambda n, p, q, k, r, s, c, mi, mj, mk: (
        real(n, p + r - 1, q + s - 1, c, mi, mk),
        real(k, r, s, c, mk, mj),
    ),
    lambda I, F: np.einsum(  # noqa: E741
        "npqcikrs,frsckj->npqfij", windows(I, *F.shape[1:3], (1, 2)), F
    ),
)


@mcc_capsule.expression
def _(I, F):  # noqa: E741
    return mdt.conv_capsule(I, F)


@mcc_capsule.expression
def _(I, F):  # noqa: E741
    return mdt.einsum("n p+r q+s c mi mk, k r s c mk mj -> n p q k mi mj", I, F)


@mcc_capsule.program
@mdh(out(O=D), inp(I=D, F=D), combine_ops(*[cc] * 6, *[pw(add)] * 4))
def mcc_capsule_loops(O, I, F):  # noqa: E741
    for n in range(I.shape[0]):
        for p in range(I.shape[1] - F.shape[1] + 1):
            for q in range(I.shape[2] - F.shape[2] + 1):
                for k in range(F.shape[0]):
                    for mi in range(I.shape[4]):
                        for mj in range(F.shape[5]):
                            for r in range(F.shape[1]):
                                for s in range(F.shape[2]):
                                    for c in range(F.shape[3]):
                                        for mk in range(F.shape[4]):
                                            here = I[n, p + r, q + s, c, mi, mk]
                                            O[n, p, q, k, mi, mj] = here * F[k, r, s, c, mk, mj]


# --- 3: quantum chemistry ---------------------------------------------------------------------

ccsd_t_1 = computation(
    3,
    "CCSD(T), I1",
    ((3, 2, 5, 3, 2, 4, 7), (1, 7, 2, 5, 3, 1, 17)),
    lambda a, b, c, d, e, f, g: (real(g, d, a, b), real(e, f, g, c)),
    lambda A, B: np.einsum("gdab,efgc->abcdef", A, B),
)


@ccsd_t_1.expression
def _(A, B):
    return mdt.einsum("gdab,efgc->abcdef", A, B)


@ccsd_t_1.program
@mdh(out(C=D), inp(A=D, B=D), combine_ops(cc, cc, cc, cc, cc, cc, pw(add)))
def ccsd_t_1_loops(C, A, B):
    for a in range(A.shape[2]):
        for b in range(A.shape[3]):
            for c in range(B.shape[3]):
                for d in range(A.shape[1]):
                    for e in range(B.shape[0]):
                        for f in range(B.shape[1]):
                            for g in range(A.shape[0]):
                                C[a, b, c, d, e, f] = A[g, d, a, b] * B[e, f, g, c]


ccsd_t_2 = computation(
    3,
    "CCSD(T), I2",
    ((3, 2, 5, 3, 2, 4, 7), (1, 7, 2, 5, 3, 1, 17)),
    lambda a, b, c, d, e, f, g: (real(g, d, a, c), real(e, f, g, b)),
    lambda A, B: np.einsum("gdac,efgb->abcdef", A, B),
)


@ccsd_t_2.expression
def _(A, B):
    return mdt.einsum("gdac,efgb->abcdef", A, B)


@ccsd_t_2.program
@mdh(out(C=D), inp(A=D, B=D), combine_ops(cc, cc, cc, cc, cc, cc, pw(add)))
def ccsd_t_2_loops(C, A, B):
    for a in range(A.shape[2]):
        for b in range(B.shape[3]):
            for c in range(A.shape[3]):
                for d in range(A.shape[1]):
                    for e in range(B.shape[0]):
                        for f in range(B.shape[1]):
                            for g in range(A.shape[0]):
                                C[a, b, c, d, e, f] = A[g, d, a, c] * B[e, f, g, b]


# --- 4: Jacobi stencils -----------------------------------------------------------------------

jacobi_1d = computation(
    4,
    "Jacobi1D",
    ((1,), (13,), (1021,)),
    lambda i: (real(i + 2),),
    lambda x: (x[:-2] + x[1:-1] + x[2:]) / 3,
)


@jacobi_1d.expression
def _(I):  # noqa: E741
    return np.asarray((mdt.lazy(I)[:-2] + mdt.lazy(I)[1:-1] + mdt.lazy(I)[2:]) / 3)


@jacobi_1d.program
@mdt.stencil
def jacobi_1d_stencil(u):
    return (u[-1] + u[0] + u[1]) / 3


@jacobi_1d.program
@mdh(out(O=D), inp(I=D), combine_ops(cc))
def jacobi_1d_loops(O, I):  # noqa: E741
    for i in range(len(I) - 2):
        O[i] = (I[i] + I[i + 1] + I[i + 2]) / 3


@jacobi_1d.program
def jacobi_1d_program(I):  # noqa: E741
    @mdh()
    def jacobi_1d():
        return (
            out_view[fp64](O=[lambda i: i]),
            md_hom[len(I) - 2](lambda x, y, z: (x + y + z) / 3, (cc,)),
            inp_view[fp64](I=[lambda i: i, lambda i: i + 1, lambda i: i + 2]),
        )

    return jacobi_1d(I)


@part(4)
def five_points(u):
    across = u[1:-1, :-2] + u[1:-1, 1:-1] + u[1:-1, 2:]
    return (across + u[:-2, 1:-1] + u[2:, 1:-1]) / 5


jacobi_2d = computation(
    4, "Jacobi2D", ((1, 7), (31, 33), (65, 127)), lambda i, j: (real(i + 2, j + 2),), five_points
)


@jacobi_2d.expression
def _(I):  # noqa: E741
    return np.asarray(five_points(mdt.lazy(I)))


@jacobi_2d.program
@mdt.stencil
def jacobi_2d_stencil(u):
    return (u[0, 0] + u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]) / 5


@jacobi_2d.program
@mdh(out(O=D), inp(I=D), combine_ops(cc, cc))
def jacobi_2d_loops(O, I):  # noqa: E741
    for i in range(I.shape[0] - 2):
        for j in range(I.shape[1] - 2):
            across = I[i + 1, j] + I[i + 1, j + 1] + I[i + 1, j + 2]
            O[i, j] = (across + I[i, j + 1] + I[i + 2, j + 1]) / 5


@part(4)
def seven_points(u):
    across = u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 1:-1] + u[1:-1, 1:-1, 2:]
    along = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1]
    return (across + along + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]) / 7


jacobi_3d = computation(
    4,
    "Jacobi3D",
    ((1, 5, 7), (13, 2, 17), (9, 15, 31)),
    lambda i, j, k: (real(i + 2, j + 2, k + 2),),
    seven_points,
)


@jacobi_3d.expression
def _(I):  # noqa: E741
    return np.asarray(seven_points(mdt.lazy(I)))


@jacobi_3d.program
@mdt.stencil
def jacobi_3d_stencil(u):
    across = u[0, 0, -1] + u[0, 0, 0] + u[0, 0, 1]
    return (across + u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0]) / 7


@jacobi_3d.program
@mdh(out(O=D), inp(I=D), combine_ops(cc, cc, cc))
def jacobi_3d_loops(O, I):  # noqa: E741
    for i in range(I.shape[0] - 2):
        for j in range(I.shape[1] - 2):
            for k in range(I.shape[2] - 2):
                across = I[i + 1, j + 1, k] + I[i + 1, j + 1, k + 1] + I[i + 1, j + 1, k + 2]
                along = I[i, j + 1, k + 1] + I[i + 2, j + 1, k + 1]
                O[i, j, k] = (across + along + I[i + 1, j, k + 1] + I[i + 1, j + 2, k + 1]) / 7


# --- 5: record linkage ------------------------------------------------------------------------

PERSON = np.dtype([("id", "i8"), ("last", "S8"), ("born", "i4"), ("postcode", "i4")])


def people(count: int, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    array = np.zeros(count, PERSON)
    array["id"] = draw.permutation(4 * count)[:count]
    array["last"] = draw.choice([b"Kuehn", b"Kuhn", b"Schmidt", b""], count)
    array["born"] = draw.integers(1950, 1954, count)
    array["postcode"] = draw.integers(48149, 48152, count)
    return array


def linked(N: np.ndarray, E: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best matches, by Python; the first of equally good ones."""
    found = [max((wght(n, e) for e in E), key=lambda pair: pair[0]) for n in N]
    weights, numbers = zip(*found, strict=True)
    return np.array(weights), np.array(numbers)


@part(5)
def wght(new, known):
    weight = 0.0
    weight += 6.5 if new["last"] == known["last"] else -3.5
    weight += 4.5 if new["born"] == known["born"] else -4.5
    weight += 7.75 if new["postcode"] == known["postcode"] else -1.25
    return weight, known["id"]


@part(5)
@mdt.operator()
def max_prl(lhs, rhs):
    return lhs if lhs[0] >= rhs[0] else rhs


prl = computation(
    5, "PRL", ((1, 1), (13, 101), (64, 257)), lambda i, j: (people(i, 1), people(j, 2)), linked
)


@prl.expression
def _(N, E):
    return mdt.reduce("i,j->i", N, E, f=wght, combine=max_prl)


@prl.program
@mdh(
    out(w=D, M=Buffer[int64]), inp(N=Buffer[PERSON], E=Buffer[PERSON]), combine_ops(cc, pw(max_prl))
)
def prl_loops(w, M, N, E):
    for i in range(len(N)):
        for j in range(len(E)):
            w[i], M[i] = wght(N[i], E[j])


# --- 6: histograms ----------------------------------------------------------------------------


def elements(e: int, b: int) -> Arrays:
    draw = np.random.default_rng(e)
    return draw.integers(0, b, e), np.arange(b)


histo = computation(
    6,
    "Histo",
    ((1, 1), (101, 7), (4099, 63)),
    elements,
    lambda E, B: np.bincount(E, minlength=len(B)),
)


@histo.expression
def _(E, B):
    return mdt.reduce("e,b->b", E, B, f=lambda e, b: 1 if e == b else 0, combine="add")


@histo.program
@mdh(out(O=Buffer[int64]), inp(E=Buffer[int64], B=Buffer[int64]), combine_ops(pw(add), cc))
def histo_loops(O, E, B):  # noqa: E741
    for e in range(len(E)):
        for b in range(len(B)):
            O[b] = 1 if E[e] == B[b] else 0


def largest_of_bins(E: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.array([max([-math.inf, *E[np.floor(E) == b]]) for b in B])


gen_histo = computation(
    6,
    "GenHisto",
    ((1, 1), (101, 7), (4099, 17)),
    lambda e, b: (b * np.random.default_rng(e).random(e), np.arange(float(b))),
    largest_of_bins,
)


@part(6)
def inside(e, b):
    return e if np.floor(e) == b else -np.inf


@gen_histo.expression
def _(E, B):
    return mdt.reduce("e,b->b", E, B, f=inside, combine="max")


@gen_histo.program
@mdh(out(O=D), inp(E=D, B=D), combine_ops(pw("max"), cc))
def gen_histo_loops(O, E, B):  # noqa: E741
    for e in range(len(E)):
        for b in range(len(B)):
            O[b] = inside(E[e], B[b])


# --- 7: map and reduce ------------------------------------------------------------------------

map_f = computation(
    7, "map(f)", ((1,), (31,), (4099,)), lambda i: (real(i),), lambda x: np.sqrt(x * x + 1)
)


@part(7)
def f(x):
    return np.sqrt(x * x + 1)


@map_f.expression
def _(I):  # noqa: E741
    return mdt.reduce("i->i", I, f=f)


@map_f.expression
def _(I):  # noqa: E741
    return np.asarray(f(mdt.lazy(I)))


@map_f.program
@mdh(out(O=D), inp(I=D), combine_ops(cc))
def map_f_loops(O, I):  # noqa: E741
    for i in range(len(I)):
        O[i] = f(I[i])


reduce_1 = computation(7, "reduce(⊕)", ((1,), (31,), (4099,)), lambda i: (real(i),), np.max)


@reduce_1.expression
def _(I):  # noqa: E741
    return mdt.reduce("i->", I, combine="max")


@reduce_1.expression
def _(I):  # noqa: E741
    return np.asarray(mdt.lazy(I).max())


@reduce_1.program
@mdh(out(O=D), inp(I=D), combine_ops(pw("max")))
def reduce_1_loops(O, I):  # noqa: E741
    for i in range(len(I)):
        O[()] = I[i]


reduce_2 = computation(
    7,
    "reduce(⊕, ⊗)",
    ((1,), (31,), (4099,)),
    lambda i: (real(i),),
    lambda x: (np.sum(x), np.max(x)),
)


@part(7)
@mdt.operator(identity=(0.0, -np.inf), commutative=True)
def sum_and_max(lhs, rhs):
    return lhs[0] + rhs[0], max(lhs[1], rhs[1])


@reduce_2.expression
def _(I):  # noqa: E741
    return mdt.reduce("i->", I, f=lambda x: (x, x), combine=sum_and_max)


@reduce_2.program
@mdh(out(O1=D, O2=D), inp(I=D), combine_ops(pw(sum_and_max)))
def reduce_2_loops(O1, O2, I):  # noqa: E741
    for i in range(len(I)):
        O1[()], O2[()] = I[i], I[i]


# --- 8: prefix sums ---------------------------------------------------------------------------

scan_1 = computation(
    8, "scan(⊕)", ((1,), (31,), (4099,)), lambda i: (real(i),), np.maximum.accumulate
)


@scan_1.expression
def _(A):
    return mdt.scan("i->i", A, combine="max")


@scan_1.program
@mdh(out(Out=D), inp(A=D), combine_ops(ps("max")))
def scan_1_loops(Out, A):
    for i in range(len(A)):
        Out[i] = A[i]


mbbs = computation(
    8,
    "MBBS",
    ((1, 7), (31, 1), (65, 127)),
    lambda i, j: (real(i, j),),
    lambda A: np.cumsum(A.sum(axis=1)),
)


@mbbs.expression
def _(A):
    return mdt.reduce("ij->i", A, combine={"i": mdt.ps("add"), "j": "add"})


@mbbs.expression
def _(A):
    return mdt.scan("ij->i", A, combine={"i": "add", "j": "add"})


@mbbs.program
@mdh(out(Out=D), inp(A=D), combine_ops(ps(add), pw(add)))
def mbbs_loops(Out, A):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            Out[i] = A[i, j]


@mbbs.program
def mbbs_program(A):
    @mdh()
    def mbbs():
        return (
            out_view[fp64](Out=[lambda i, j: i]),
            md_hom[A.shape](lambda a: a, (ps(add), pw(add))),
            inp_view[fp64](A=[lambda i, j: (i, j)]),
        )

    return mbbs(A)
