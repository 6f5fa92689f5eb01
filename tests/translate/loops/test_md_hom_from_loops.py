"""Loop nests as `md_hom`s: what is recognised, fused, masked and refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mdtensor.api.calls import program_calls
from mdtensor.api.frontends.loops.mdh import mdh
from mdtensor.errors import ProgramError
from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.combine import Operator
from mdtensor.translate.loop_nests.affine_from_expr import affine_from_expr
from mdtensor.translate.loop_nests.loop_arguments import program_of
from mdtensor.translate.loop_nests.source_loop_nest import SourceLoop
from mdtensor.translate.loop_nests.updates import update_of
from mdtensor.translate.loops.dependences import Touch, carried_backwards, repeated, stays_inside
from mdtensor.translate.loops.fusion import simplified
from mdtensor.translate.loops.integer_points import Linear, may_hold
from mdtensor.translate.loops.md_hom_from_loops import md_hom_from_loops
from mdtensor.translate.loops.md_homs_from_loops import md_homs_from_loops
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.operators.assigning_functions import operator_from_assigning
from mdtensor.translate.operators.combination import cc, ps, pw
from mdtensor.translate.scalar import apply, const, index_of, param, select
from mdtensor.translate.views import AffineIndex
from tests.translate.loops.random_loops import arrays, function_of, random_text

F8 = np.dtype("f8")
VECTOR, MATRIX = TensorSpec.of((5,), "f8"), TensorSpec.of((5, 5), "f8")


def _steps(function, **arguments: object) -> list[MDHom]:
    program = md_homs_from_loops(program_of(function), arguments)
    return [step.md_hom for step in program.program.steps]


# --- what nests become -----------------------------------------------------------------------


def matvec(w, M, v):
    for i in range(4):
        for k in range(5):
            w[i] = M[i, k] * v[k]


def test_a_nest_with_operators() -> None:
    md_hom, _ = md_hom_from_loops(
        program_of(matvec), {"M": MATRIX, "v": VECTOR}, {"w": F8}, (cc, pw("add"))
    )
    assert md_hom.describe() == (
        "out_view(w: float64[4] (i, k) -> (i))\n"
        "md_hom[i:4, k:5](mul, (cc, pw(add)))\n"
        "inp_view(M: float64[5, 5] (i, k) -> (i, k); v: float64[5] (i, k) -> (k))"
    )


@pytest.mark.parametrize("short", [np.dtype("f2"), np.dtype(ml_dtypes.bfloat16)], ids=str)
def test_floats_of_16_bits_are_combined_in_float32(short: np.dtype) -> None:
    def products_of_rows(w, M, v):
        for i in range(5):
            for k in range(5):
                w[i] += M[i, k] * v[k]

    row = TensorSpec.of((5,), short)
    matrix = TensorSpec.of((5, 5), short)
    md_hom, _ = md_hom_from_loops(
        program_of(matvec), {"M": matrix, "v": row}, {"w": short}, (ps("add"), pw("add"))
    )
    assert str(md_hom) == "md_hom[i:4, k:5](f, (ps(add), pw(add)))"
    assert md_hom.scalar.result_dtypes == (np.dtype("f4"),)
    (md_hom,) = _steps(products_of_rows, w=row, M=matrix, v=row)
    assert str(md_hom) == "md_hom[i:5, k:5](f, (cc, pw(add)), epilogue f)"
    assert md_hom.scalar.result_dtypes == (np.dtype("f4"),)
    assert md_hom.written_dtypes == (short,)


def test_initial_value_update_and_rest_are_one_md_hom() -> None:
    def scaled_product(alpha, w, M, v):
        for i in range(5):
            w[i] = 0.0
            for k in range(5):
                w[i] += M[i, k] * v[k]
            w[i] = alpha * w[i] + 1

    (md_hom,) = _steps(scaled_product, alpha=2.0, w=VECTOR, M=MATRIX, v=VECTOR)
    assert str(md_hom) == "md_hom[i:5, k:5](mul, (cc, pw(add)), epilogue f)"
    assert md_hom.epilogue is not None
    assert str(md_hom.epilogue.function.results[0]) == "((float64(p1) * p0) + 1)"


def test_the_order_of_loops_does_not_matter() -> None:
    def column_sums(w, M):
        for i in range(5):
            for k in range(5):
                w[k] += M[i, k]

    (md_hom,) = _steps(column_sums, w=VECTOR, M=MATRIX)
    assert str(md_hom) == "md_hom[k:5, i:5](id, (cc, pw(add)), epilogue add)"


def test_a_triangle_is_masked_by_the_identity() -> None:
    def row_maxima(w, M):
        for i in range(5):
            largest = -np.inf
            for k in range(i, 5):
                largest = max(largest, M[i, k])
            w[i] = largest

    (md_hom,) = _steps(row_maxima, w=VECTOR, M=MATRIX)
    assert str(md_hom.scalar.results[0]) == "select(((k - i) >= 0), p0, -inf)"


def test_nested_reductions_get_arrays_of_their_own() -> None:
    def variance(M, w):
        for i in range(5):
            mean = 0.0
            for k in range(5):
                mean += M[i, k] / 5
            total = 0.0
            for k in range(5):
                total += (M[i, k] - mean) ** 2
            w[i] = total / 5

    assert [str(s) for s in _steps(variance, M=MATRIX, w=VECTOR)] == [
        "md_hom[i:5, k:5](f, (cc, pw(add)))",
        "md_hom[i:5, k_2:5](f, (cc, pw(add)), epilogue f)",
    ]


def test_stencils_and_gathers_keep_their_accesses() -> None:
    def moved(x, y, idx):
        for i in range(1, 4):
            y[i] = x[i - 1] + x[idx[i]]

    *_, md_hom = _steps(moved, x=VECTOR, y=VECTOR, idx=TensorSpec.of((5,), "i8"))
    assert [repr(access) for access in md_hom.inp_view] == ["(i)", "(i+1)", "(p1)"]


def test_short_loops_that_no_operator_describes_are_written_out() -> None:
    def horner(x, y):
        for i in range(5):
            value = 0.0
            for c in range(3):
                value = value * x[i] + c
            y[i] = value

    (md_hom,) = _steps(horner, x=VECTOR, y=VECTOR)
    assert str(md_hom) == "md_hom[i:5](f, (cc))"


def test_arrays_of_the_function_itself() -> None:
    def twice(M, v, w):
        inner = np.zeros(5)
        for i in range(5):
            for k in range(5):
                inner[i] += M[i, k] * v[k]
        for i in range(5):
            for k in range(5):
                w[i] += M[i, k] * inner[k]

    program = md_homs_from_loops(program_of(twice), {"M": MATRIX, "v": VECTOR, "w": VECTOR})
    assert [str(step.md_hom) for step in program.program.steps] == [
        "md_hom[i:5, k:5](mul, (cc, pw(add)))",
        "md_hom[i_2:5, k_2:5](mul, (cc, pw(add)), epilogue add)",
    ]
    assert program.operands == ("M", "v", "w")
    assert program.results == ("w",)


def test_a_diagonal_is_not_fused_with_the_whole() -> None:
    def diagonal_twice(M):
        for i in range(5):
            for j in range(5):
                M[i, j] = 2 * M[i, j]
        for i in range(5):
            M[i, i] = 2 * M[i, i]

    assert [len(step.dims) for step in _steps(diagonal_twice, M=MATRIX)] == [2, 2, 1]


def test_what_is_overwritten_unread_is_not_computed() -> None:
    def twice(x, y):
        for i in range(5):
            y[i] = 3 * x[i]
        for i in range(5):
            y[i] = 2 * x[i]

    (md_hom,) = _steps(twice, x=VECTOR, y=VECTOR)
    assert str(md_hom.scalar.results[0]) == "(2 * p0)"


# --- updates ---------------------------------------------------------------------------------

S, X_, C = param(0, "f4"), param(1, "f4"), param(2, "?")


@pytest.mark.parametrize(
    ("value", "op", "term"),
    [
        (S + X_, "add", "p1"),
        (X_ + S, "add", "p1"),
        (S - X_, "add", "neg(p1)"),
        (S * X_ * X_, "mul", "(p1 * p1)"),
        (apply("min", X_, S), "min", "p1"),
        (select(X_ > S, X_, S), "max", "p1"),
        (select(S < X_, S, X_), "min", "p1"),
        (select(C, S + X_, S), "add", "select(p2, p1, 0.0)"),
        (select(C, S, S * X_), "mul", "select(p2, 1.0, p1)"),
        (S, None, "None"),
        (select(C, S, S), None, "None"),
    ],
)
def test_updates_are_recognised(value, op, term) -> None:
    update = update_of(value, 0)
    assert update is not None
    assert update.op == op
    assert str(update.term) in (term, term.replace(".0", ""))


@pytest.mark.parametrize(
    "value",
    [
        X_,
        X_ - S,
        S * X_ + X_,
        S + S,
        S / X_,
        select(S > 0, S + X_, S),
        select(C, S + X_, S * X_),
        apply("min", S + X_, X_),
        select(X_ > S, X_ + 1, S),
    ],
)
def test_other_values_are_no_updates(value) -> None:
    assert update_of(value, 0) is None


def test_simplification() -> None:
    inner = select(C, S, X_)
    assert simplified(select(apply("not", C), X_, inner)) == select(C, S, X_)
    assert simplified(const(0, "f4") + S) == S
    assert simplified(S * 1) == S


# --- dependences -----------------------------------------------------------------------------

OUTER, INNER = SourceLoop("i", 10), SourceLoop("j", 10)


def _touch(*index: AffineIndex | None, loops=(OUTER, INNER), conditions=()) -> Touch:
    return Touch("x", index, loops, conditions)


@pytest.mark.parametrize(
    ("first", "second", "carrier"),
    [
        # Read before write, in the same iteration or a later one.
        (_touch(AffineIndex.of("i")), _touch(AffineIndex.of("i")), INNER),
        (
            _touch(AffineIndex.of("i"), loops=(OUTER,)),
            _touch(AffineIndex.of("i"), loops=(OUTER,)),
            None,
        ),
        (
            _touch(AffineIndex.of("i", offset=1), loops=(OUTER,)),
            _touch(AffineIndex.of("i"), loops=(OUTER,)),
            None,
        ),
        (
            _touch(AffineIndex.of("i", offset=-1), loops=(OUTER,)),
            _touch(AffineIndex.of("i"), loops=(OUTER,)),
            OUTER,
        ),
        # Even and odd elements never meet; far ones do not either.
        (_touch(AffineIndex.of(i=2, offset=-1)), _touch(AffineIndex.of(i=2)), None),
        (_touch(AffineIndex.of("i", offset=-20)), _touch(AffineIndex.of("i")), None),
        # What is not affine may be anything.
        (_touch(None, loops=(OUTER,)), _touch(AffineIndex.of("i"), loops=(OUTER,)), OUTER),
        # Transposed elements meet below the diagonal only.
        (
            _touch(AffineIndex.of("j"), AffineIndex.of("i")),
            _touch(AffineIndex.of("i"), AffineIndex.of("j")),
            OUTER,
        ),
        (
            _touch(
                AffineIndex.of("j"),
                AffineIndex.of("i"),
                conditions=(AffineIndex.of("j", i=-1),),
            ),
            _touch(
                AffineIndex.of("i"),
                AffineIndex.of("j"),
                conditions=(AffineIndex.of("j", i=-1),),
            ),
            None,
        ),
    ],
)
def test_dependences(first: Touch, second: Touch, carrier: SourceLoop | None) -> None:
    assert carried_backwards(first, second) == carrier


def test_elements_written_twice() -> None:
    assert repeated(_touch(AffineIndex.of("i"), AffineIndex.of("j"))) is None
    assert repeated(_touch(AffineIndex.of("i", "j"))) == OUTER
    assert repeated(_touch(AffineIndex.of(i=10, j=1))) is None
    assert repeated(_touch(AffineIndex.of(i=9, j=1))) == OUTER


def test_indices_that_conditions_keep_inside() -> None:
    below = AffineIndex.of("i", j=-1)
    assert not stays_inside(below, 10, (OUTER, INNER), ())
    assert stays_inside(below, 10, (OUTER, INNER), (below,))


def test_systems_of_inequalities() -> None:
    a, b, one = Linear.of({"a": 1}), Linear.of({"b": 1}), Linear((), 1)
    assert may_hold([], [])
    assert not may_hold([one], [])
    assert not may_hold([a.times(3) + b.times(6) - one], [])
    assert not may_hold([], [a - b, b - a - one])
    assert may_hold([a.times(2) - b.times(3)], [a - one, Linear((), 3) - a])


def test_affine_expressions() -> None:
    i, j = index_of("i"), index_of("j")
    assert repr(affine_from_expr(3 * i - (j - 2) * 2)) == "3i-2j+4"
    assert affine_from_expr(i * j) is None
    assert affine_from_expr(i // 2) is None
    assert affine_from_expr(param(0, "i8") + i) is None


# --- operators that assign -------------------------------------------------------------------


def _operator(function, *names: str) -> Operator:
    return operator_from_assigning(function, names, [F8] * len(names))


def test_operators_that_assign_fields() -> None:
    def larger(res, lhs, rhs):
        if lhs["value"] >= rhs["value"]:
            res["value"] = lhs["value"]
            res["place"] = lhs["place"]
        else:
            res["value"] = rhs["value"]
            res["place"] = rhs["place"]

    found = _operator(larger, "value", "place")
    assert [float(v) for v in found([np.float64(1), 5], [np.float64(2), 6])] == [2, 6]

    def partly(res, lhs, rhs):
        if lhs["value"] >= rhs["value"]:
            res["value"] = lhs["value"]

    with pytest.raises(ProgramError) as error:
        _operator(partly, "value")
    assert str(error.value) == (
        "operator 'partly' does not set 'value' of res in every case\n"
        "  hint: assign res['value'] in all branches"
    )

    def elsewhere(res, lhs, rhs):
        res["other"] = lhs["value"]

    with pytest.raises(ProgramError, match="res has no 'other'"):
        _operator(elsewhere, "value")


# --- random nests ----------------------------------------------------------------------------


@pytest.mark.parametrize("block", range(4))
def test_random_nests_compute_what_python_does_or_are_refused(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_calls, "executor", reference.compute)
    accepted = 0
    for seed in range(40 * block, 40 * (block + 1)):
        text = random_text(seed)
        nest = function_of(text)
        expected, got = arrays(seed), arrays(seed)
        with np.errstate(all="ignore"):
            nest(*expected)
        try:
            mdh(nest)(*got)
        except ProgramError:
            for array, before in zip(got, arrays(seed), strict=True):
                np.testing.assert_array_equal(array, before, err_msg=text)
            continue
        accepted += 1
        for array, wanted in zip(got, expected, strict=True):
            np.testing.assert_allclose(array, wanted, rtol=1e-9, atol=1e-9, err_msg=text)
    assert accepted >= 20
