"""The arrays that a plan takes, and what is said of others."""

from __future__ import annotations

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.plans.signature import PlanArrays
from mdtensor.errors import ShapeError, SubscriptError
from mdtensor.specs import TensorSpec

SPEC, RESULT = TensorSpec.of((2, 3), "f4"), TensorSpec.of((3,), "f4")
A, OUT = np.ones((2, 3), np.float32), np.empty(3, np.float32)
TAKES = PlanArrays("a plan", (SPEC,), (RESULT,), computes=True)


def test_arrays_like_the_plans_are_taken() -> None:
    TAKES.check((A,), None)
    TAKES.check((A,), (OUT,))


def test_strides_matter_to_what_is_computed() -> None:
    turned = np.asfortranarray(A)
    with pytest.raises(ShapeError, match=r"^an operand is not what the plan was made for"):
        TAKES.check((turned,), None)
    PlanArrays("a plan", (SPEC,), (RESULT,), computes=False).check((turned,), None)


def test_another_byte_order_is_named() -> None:
    with pytest.raises(
        ShapeError, match=r"\n  operand 0: >f4\[2, 3\], the plan has float32\[2, 3\]"
    ):
        TAKES.check((A.astype(">f4"),), None)


def test_other_arrays_are_refused() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((7, 9), np.float32), rng.random((9, 20), np.float32)
    plan = mdt.compile("ij,jk->ik", a, b)
    with pytest.raises(ShapeError, match=r"^1 operand for a plan of 2"):
        plan(a)
    with pytest.raises(ShapeError, match="out is float32\\[7, 21\\] but the result is"):
        plan(a, b, out=np.empty((7, 21), "f4"))
    with pytest.raises(ShapeError, match=r"^out is empty but the result is float32\[7, 20\]"):
        plan(a, b, out=())
    with pytest.raises(ShapeError, match="a plan takes arrays"):
        plan(a.tolist(), b)
    square = mdt.compile("ij,jk->ik", mdt.spec((8, 8)), mdt.spec((8, 8)))
    x, y = np.ones((8, 8), "f4"), np.ones((8, 8), "f4")
    for _ in range(2):
        with pytest.raises(ShapeError, match="out shares memory with operand 1"):
            square(x, y, out=y)
        square(x, y, out=np.empty((8, 8), "f4"))
    frozen = np.empty((8, 8), "f4")
    frozen.flags.writeable = False
    with pytest.raises(ShapeError, match="read-only"):
        square(x, y, out=frozen)
    with pytest.raises(SubscriptError, match="extent 9 in operand 0 but 8 in operand 1"):
        mdt.compile("ij,jk->ik", a, mdt.spec((8, 8)))


@pytest.mark.parametrize("text", ["ij,jk->ik", "ij->i", "ij,jk,kl->il"])
def test_an_array_that_is_made_read_only_later_is_not_written(text: str) -> None:
    terms = text.split("->", maxsplit=1)[0].split(",")
    operands = [np.ones((8, 8), np.float32) for _ in terms]
    plan = mdt.compile(text, *operands)
    out = plan(*operands)
    for _ in range(2):
        plan(*operands, out=out)
    before = out.copy()
    out.flags.writeable = False
    operands[0][...] = 2
    with pytest.raises(ShapeError, match=r"^out is read-only"):
        plan(*operands, out=out)
    np.testing.assert_array_equal(out, before)
