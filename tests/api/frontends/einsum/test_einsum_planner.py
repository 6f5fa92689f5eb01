from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mdtensor.api.frontends.einsum.contraction_path import contraction_path, prefers_fused
from mdtensor.api.frontends.einsum.einsum_planner import prepare, result_strides
from mdtensor.errors import DTypeError
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.contraction import resolve
from mdtensor.translate.einsum.subscripts import parse

SPECS = [TensorSpec.of((8, 500)), TensorSpec.of((500, 600)), TensorSpec.of((600, 8))]


def test_a_plan_is_a_value() -> None:
    plan = prepare("ij,jk,kl", SPECS)
    assert plan == prepare("ij,jk,kl", SPECS)
    assert len({plan, prepare("ij,jk,kl", SPECS)}) == 1


def test_every_slot_is_read_once_and_written_before() -> None:
    plan = prepare("ab,bc,cd,da,ab->ac", [TensorSpec.of((30, 30))] * 5, optimize="greedy")
    read = [slot for step in plan.steps for slot in step.operands]
    between = list(range(6, 5 + len(plan.steps)))
    assert sorted(read) == [*range(5), *between]
    assert [slot for step in plan.steps for slot in step.results] == [*between, 5]
    written = set(range(5))
    for step in plan.steps:
        assert written.issuperset(step.operands)
        written |= {*step.results}
    made = [step.md_hom.outputs[0].spec for step in plan.steps]
    assert made == [*plan.temporaries, *plan.results]


def test_intermediates_have_the_accumulation_type() -> None:
    specs = [TensorSpec.of(spec.shape, "f2") for spec in SPECS]
    planned = prepare("ij,jk,kl", specs)
    assert [spec.dtype for spec in planned.specs] == [np.float16, np.float32]


def test_out_takes_the_last_step_where_a_kernel_can_write_there() -> None:
    a = TensorSpec.of((4, 4), "f4")
    strided = TensorSpec.of((4, 4), "f8", (8, -2))
    plan = prepare("ij,jk->ik", [a, a], dtype="f4", casting="same_kind", out_spec=strided)
    assert plan.results == (strided,)
    assert plan.steps[-1].md_hom.outputs[0].spec is strided
    ints = TensorSpec.of((4, 4), "i4")
    plan = prepare("ij,jk->ik", [a, a], casting="unsafe", out_spec=ints, dtype="f4")
    assert plan.results[0].dtype == np.float32
    repeated = TensorSpec.of((4, 4), "f4", (0, 1))
    assert prepare("ij,jk->ik", [a, a], out_spec=repeated).results == (a,)


def test_casts_that_kernels_do_not_do_as_numpy_are_copies() -> None:
    f8, f4 = TensorSpec.of((4,), "f8"), TensorSpec.of((4,), "f4")
    assert prepare("i,i", [f8, f4], dtype="f4", casting="same_kind").converted == ()
    f2 = np.dtype("f2")
    assert prepare("i,i", [f8, f4], dtype="f2", casting="same_kind").converted == ((0, f2), (1, f2))
    i1 = np.dtype("i1")
    assert prepare("i,i", [f8, f4], dtype="i1", casting="unsafe").converted == ((0, i1), (1, i1))


@pytest.mark.parametrize(
    ("text", "shape"), [("ij->i", (3, 0)), ("ij->i", (0, 3)), ("ij->", (0, 0))]
)
def test_nothing_to_compute(text: str, shape: tuple[int, ...]) -> None:
    assert prepare(text, [TensorSpec.of(shape)]).steps == ()


def test_chains_go_by_a_path_and_small_products_in_one() -> None:
    def path(text: str, *shapes: tuple[int, ...]) -> int:
        return len(prepare(text, [TensorSpec.of(shape) for shape in shapes]).steps)

    assert path("ij,jk,kl", (300, 300), (300, 300), (300, 300)) == 2
    assert path("i,i,i->", (10**6,), (10**6,), (10**6,)) == 1
    assert path("ij,jk,kl", (2, 3), (3, 4), (4, 5)) == 1


def test_fusing_weighs_operations_against_launches() -> None:
    contraction = resolve(parse("ij,jk,kl"), [TensorSpec.of((40, 40))] * 3)
    path = contraction_path(contraction, [(40, 40)] * 3, "greedy")
    assert len(path) == 2
    assert not prefers_fused(contraction, path)
    small = resolve(parse("ij,jk,kl"), [TensorSpec.of((8, 8))] * 3)
    assert prefers_fused(small, path)


@pytest.mark.parametrize(
    ("order", "expected"),
    [("C", (12, 4, 1)), ("F", (1, 2, 6)), ("K", (1, 8, 2)), ("A", (12, 4, 1))],
)
def test_orders_of_the_result(order: str, expected: tuple[int, ...]) -> None:
    a = TensorSpec.of((2, 3, 4), "f4", (1, 8, 2))
    contraction = resolve(parse("ijk,->ijk"), [a, TensorSpec.of(())])
    assert result_strides(contraction, [a, TensorSpec.of(())], order) == expected


BFLOAT = np.dtype(ml_dtypes.bfloat16)


def test_products_of_bfloat16_are_added_up_in_float32() -> None:
    (step,) = prepare("ij,jk->ik", [TensorSpec.of((4, 4), BFLOAT)] * 2).steps
    assert step.md_hom.outputs[0].spec.dtype == BFLOAT
    assert step.md_hom.scalar.result_dtypes == (np.float32,)


def test_other_floats_are_rounded_to_16_bits_before_they_are_read() -> None:
    plan = prepare("ij,jk->ik", [TensorSpec.of((4, 4))] * 2, dtype=BFLOAT, casting="same_kind")
    assert plan.converted == ((0, BFLOAT), (1, BFLOAT))


def test_types_without_a_common_one_are_refused() -> None:
    specs = [TensorSpec.of((4, 4), BFLOAT), TensorSpec.of((4, 4), "i4")]
    with pytest.raises(DTypeError, match="bfloat16 and int32 have no common type"):
        prepare("ij,jk->ik", specs)
