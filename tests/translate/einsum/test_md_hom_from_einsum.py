from __future__ import annotations

import numpy as np
import pytest

from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.einsum.md_hom_from_einsum import accumulation_dtype, md_hom_from_einsum
from tests.cases import CASES, DTYPES, Case

F4 = TensorSpec.of


@pytest.mark.parametrize(
    ("text", "shapes", "expected"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], "md_hom[i:2, j:3, k:4](mul, (cc, pw(add), cc))"),
        ("ii->i", [(3, 3)], "md_hom[i:3](id, (cc))"),
        ("i,i,i->", [(3,)] * 3, "md_hom[i:3](mul, (pw(add)))"),
        (",->", [(), ()], "md_hom[](mul, ())"),
        ("...i->...", [(2, 3)], "md_hom[e0:2, i:3](id, (cc, pw(add)))"),
    ],
)
def test_dims_of_the_output_concatenate_and_all_others_add_up(
    text: str, shapes: list[tuple[int, ...]], expected: str
) -> None:
    assert repr(md_hom_from_einsum(text, [F4(shape) for shape in shapes])) == expected


def test_views_are_described() -> None:
    md_hom = md_hom_from_einsum("iij,j->ji", [F4((3, 3, 4)), F4((1,))])
    assert md_hom.describe() == (
        "out_view(out: float32[4, 3] (i, j) -> (j, i))\n"
        "md_hom[i:3, j:4](mul, (cc, cc))\n"
        "inp_view(A: float32[3, 3, 4] (i, j) -> (i, i, j); B: float32[1] (i, j) -> (0))"
    )


def test_names_do_not_matter_to_the_canonical_form() -> None:
    specs = [F4((2, 3)), F4((3, 4))]
    forms = {
        md_hom_from_einsum(t, specs).canonical() for t in ("ij,jk->ik", "ab,bc->ac", "zy,yx->zx")
    }
    assert len(forms) == 1
    assert md_hom_from_einsum("ij,jk->ki", specs).canonical() not in forms


def test_strides_of_operands_and_output_are_those_of_the_buffers() -> None:
    a, out = TensorSpec.of((2, 3), "f4", (-1, 2)), TensorSpec.of((2,), "f4", (5,))
    md_hom = md_hom_from_einsum("ij->i", [a], out=out)
    assert md_hom.inputs[0].spec is a
    assert md_hom.outputs[0].spec is out


@pytest.mark.parametrize("dtype", DTYPES)
def test_types_of_result_and_accumulation(dtype: str) -> None:
    md_hom = md_hom_from_einsum("i,i->", [TensorSpec.of((2,), dtype)] * 2)
    assert md_hom.outputs[0].spec.dtype == dtype
    assert md_hom.scalar.result_dtypes == (accumulation_dtype(np.dtype(dtype)),)
    wider = {"float16": "float32", "int8": "int16", "uint8": "uint16"}
    assert accumulation_dtype(np.dtype(dtype)) == wider.get(dtype, dtype)


def test_mixed_types_have_their_common_type() -> None:
    specs = [TensorSpec.of((2,), "i4"), TensorSpec.of((2,), "f4")]
    assert md_hom_from_einsum("i,i->", specs).outputs[0].spec.dtype == np.float64


def test_bool_is_or_of_ands() -> None:
    md_hom = md_hom_from_einsum("i,i->", [TensorSpec.of((2,), "?")] * 2)
    assert repr(md_hom.scalar.results[0]) == "(p0 & p1)"
    assert repr(md_hom.operators[0].results[0]) == "(p0 | p1)"


def test_dtype_is_applied_before_the_product() -> None:
    specs = [TensorSpec.of((1,), "f8")] * 2
    md_hom = md_hom_from_einsum("i,i->", specs, dtype="i4", acc_dtype="i8")
    assert repr(md_hom.scalar.results[0]) == "(int64(int32(p0)) * int64(int32(p1)))"
    (result,) = reference.run(md_hom, [np.array([2.9]), np.array([3.9])])
    assert result == 6


def test_acc_dtype_is_the_type_of_products_and_sums() -> None:
    md_hom = md_hom_from_einsum("i,i->", [TensorSpec.of((2,), "f4")] * 2, acc_dtype="f8")
    assert md_hom.scalar.result_dtypes == (np.float64,)
    assert md_hom.outputs[0].spec.dtype == np.float32


@pytest.mark.sampled(24)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_is_well_formed(case: Case) -> None:
    md_hom = md_hom_from_einsum(case.text, [F4(shape) for shape in case.shapes])
    assert md_hom.canonical().points == md_hom.points
