"""What every operator has to fulfil: right ones pass, wrong ones come with a counter-example."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from mdtensor.errors import OperatorError
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import (
    CC,
    NAMES,
    Operator,
    Pointwise,
    PrefixSum,
    named,
    operator_from_function,
)
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.operators.associativity import check, check_interchange, check_md_hom
from mdtensor.translate.rewrites.total_operators import total
from mdtensor.translate.scalar import const, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec
from tests.cases import COMPLEXES, DTYPES, FLOATS, INTS


def pairs() -> list[tuple[str, str]]:
    return [
        (name, dtype)
        for name in NAMES
        for dtype in DTYPES
        if dtype not in COMPLEXES or name in ("add", "mul")
        if dtype in (*INTS, "bool") or name not in ("and", "or", "xor")
        if dtype in FLOATS or name != "logaddexp"
    ]


def first(lhs, rhs):
    return rhs if rhs[0] > lhs[0] else lhs


def composed(lhs, rhs):
    """Affine maps, the left one first."""
    return lhs[0] * rhs[0], lhs[1] * rhs[0] + rhs[1]


def segmented(lhs, rhs):
    """A sum that begins anew where the flag is set."""
    return (rhs[0] if rhs[1] else lhs[0] + rhs[0]), lhs[1] or rhs[1]


def moments(lhs, rhs):
    """Count, mean and sum of squared differences from it."""
    count = lhs[0] + rhs[0]
    if count == 0:
        return 0.0, 0.0, 0.0
    delta = rhs[1] - lhs[1]
    mean = lhs[1] + delta * rhs[0] / count
    return count, mean, lhs[2] + rhs[2] + delta * delta * lhs[0] * rhs[0] / count


def largest_sum(lhs, rhs):
    """Of a segment: total, best prefix, best suffix, best run."""
    total = lhs[0] + rhs[0]
    prefix = max(lhs[1], lhs[0] + rhs[1])
    suffix = max(rhs[2], rhs[0] + lhs[2])
    return total, prefix, suffix, max(lhs[3], rhs[3], lhs[2] + rhs[1])


RIGHT = [
    *(named(name, [dtype]) for name, dtype in pairs()),
    *(named(name, ["f4", "i8"]) for name in ("argmin", "argmax")),
    operator_from_function(first, ["f4", "i8"], (float("-inf"), -1)),
    operator_from_function(composed, ["i4", "i4"], (1, 0)),
    operator_from_function(composed, ["f4", "f4"], (1.0, 0.0)),
    operator_from_function(segmented, ["f8", "?"], (0.0, False)),
    operator_from_function(lambda a, b: a + b - a * b, ["f8"], 0.0, True),
    *(operator_from_function(largest_sum, [dtype] * 4) for dtype in ("i1", "i4", "f8")),
]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("operator", RIGHT, ids=lambda op: f"{op}-{op.dtypes[0]}")
def test_right_operators_pass(operator: Operator) -> None:
    check(operator)


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (
            operator_from_function(lambda a, b: a - b, ["i4"], name="minus"),
            """\
            operator 'minus' is not associative
              a = 0, b = 0, c = 1
              (a ∘ b) ∘ c = -1
              a ∘ (b ∘ c) = 1
              hint: results of parts must be enough to go on with: for a mean, combine\
 (sum, count)""",
        ),
        (
            operator_from_function(lambda a, b: (a[0] - b[0], a[1]), ["f8", "?"], name="f"),
            """\
            operator 'f' is not associative
              a = (0.5, False), b = (0.0, False), c = (0.5, False)
              (a ∘ b) ∘ c = (0.0, False)
              a ∘ (b ∘ c) = (1.0, False)
              hint: results of parts must be enough to go on with: for a mean, combine\
 (sum, count)""",
        ),
        (
            operator_from_function(lambda a, b: a + b, ["u1"], 1, True, "plus"),
            """\
            the identity of operator 'plus' changes a value
              e = 1, a = 0
              e ∘ a = 1
              hint: declare a neutral tuple, or identity=None: a flag then says what counts""",
        ),
        (
            operator_from_function(lambda a, b: a, ["u1"], 0, True, "left"),
            """\
            the identity of operator 'left' changes a value
              e = 0, a = 1
              e ∘ a = 0
              hint: declare a neutral tuple, or identity=None: a flag then says what counts""",
        ),
        (
            operator_from_function(lambda a, b: a, ["u1"], None, True, "left"),
            """\
            operator 'left' is declared commutative, but is not
              a = 0, b = 1
              a ∘ b = 0
              b ∘ a = 1
              hint: leave out commutative=True: the order of elements is then kept""",
        ),
        (
            operator_from_function(first, ["f4", "i8"], (float("-inf"), -1), True),
            """\
            operator 'first' is declared commutative, but is not
              a = (0.0, 1), b = (0.0, 0)
              a ∘ b = (0.0, 1)
              b ∘ a = (0.0, 0)
              hint: leave out commutative=True: the order of elements is then kept""",
        ),
    ],
)
def test_wrong_operators_are_shown(operator: Operator, message: str) -> None:
    shown(lambda: check(operator), message)


def shown(call: Callable[[], None], message: str) -> None:
    with pytest.raises(OperatorError) as caught:
        call()
    assert str(caught.value) == textwrap.dedent(message)


def test_operators_whose_dims_have_any_order() -> None:
    for name in ("add", "max", "xor"):
        check_interchange(named(name, ["i4"]), named(name, ["i4"]))
    check_interchange(named("max", ["f4"]), named("max", ["f4"]))
    shown(
        lambda: check_interchange(named("max", ["i4"]), named("add", ["i4"])),
        """\
        operators 'add' (∘) and 'max' (⊕) on different dims do not interchange
          a = 1, b = 0, c = 0, d = 1
          (a ∘ b) ⊕ (c ∘ d) = 1
          (a ⊕ c) ∘ (b ⊕ d) = 2
          hint: say by a dict which dim is combined first, or take two computations""",
    )
    then = operator_from_function(composed, ["i4", "i4"], (1, 0))
    with pytest.raises(OperatorError, match=r"^operators 'composed' \(∘\) and 'composed' \(⊕\)"):
        check_interchange(then, then)


def md_hom(*combines) -> MDHom:
    names = "ijk"[: len(combines)]
    dims = tuple(Dim(n, 3, combine) for n, combine in zip(names, combines, strict=True))
    kept = [dim.name for dim in dims if not isinstance(dim.combine, Pointwise)]
    return MDHom(
        dims,
        ScalarFunction((np.dtype("i4"),), (param(0, "i4"),), "id"),
        (BufferSpec("x", TensorSpec.of((3,) * len(dims), "i4")),),
        (BufferSpec("y", TensorSpec.of((3,) * len(kept), "i4")),),
        (BufferAccess(0, tuple(map(AffineIndex.of, names))),),
        (BufferAccess(0, tuple(map(AffineIndex.of, kept))),),
    )


def test_all_operators_of_an_md_hom() -> None:
    add, largest = named("add", ["i4"]), named("max", ["i4"])
    check_md_hom(md_hom(CC, Pointwise(add), PrefixSum(add)))
    with pytest.raises(OperatorError, match="do not interchange"):
        check_md_hom(md_hom(PrefixSum(largest), Pointwise(add)))
    check_md_hom(md_hom(PrefixSum(largest), Pointwise(add)), is_ordered=True)
    minus = operator_from_function(lambda a, b: a - b, ["i4"])
    with pytest.raises(OperatorError, match="operator 'op' is not associative"):
        check_md_hom(md_hom(CC, PrefixSum(minus)))


def test_samples_leave_out_what_never_occurs() -> None:
    op = operator_from_function(moments, ["f8"] * 3, (0.0, 0.0, 0.0), name="moments")
    with pytest.raises(OperatorError, match="operator 'moments' is not associative"):
        check(op)
    x = np.random.default_rng(0).normal(size=4096)
    samples = (np.ones(4096), x, np.zeros(4096))
    check(op, samples)
    flagged = total(replace(op, identity=None))
    check(flagged, (*samples, np.ones(4096, bool)))
    with pytest.raises(
        OperatorError, match=r"of operator 'moments' changes a value\n  e = \(1.0, 0.0"
    ):
        check(replace(op, identity=(1, 0, 0)), samples)


def test_an_md_hom_is_checked_on_what_its_function_gives() -> None:
    op = operator_from_function(moments, ["f8"] * 3, (0.0, 0.0, 0.0), name="moments")
    element, count = param(0, "f8"), const(1.0, "f8")
    whole = md_hom(Pointwise(named("add", ["i4"])))
    results = (count, element, const(0.0, "f8"))
    scalar = ScalarFunction((np.dtype("f8"),), results, "f")
    outputs = tuple(BufferSpec(f"y{n}", TensorSpec.of((), "f8")) for n in range(3))
    check_md_hom(
        replace(
            whole,
            dims=(Dim("i", 3, Pointwise(op)),),
            scalar=scalar,
            inputs=(BufferSpec("x", TensorSpec.of((3,), "f8")),),
            outputs=outputs,
            out_view=tuple(BufferAccess(n, ()) for n in range(3)),
        )
    )
