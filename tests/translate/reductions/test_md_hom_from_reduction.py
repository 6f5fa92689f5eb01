"""Reductions as `md_hom`s: dims, views, types; what they compute is tested with their front end."""

from __future__ import annotations

import numpy as np
import pytest

from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.operators.combination import ps, pw
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction

F4 = TensorSpec.of


@pytest.mark.parametrize(
    ("reduction", "shapes", "expected"),
    [
        (Reduction("ij->i"), [(4, 3)], "md_hom[i:4, j:3](id, (cc, pw(add)))"),
        (
            Reduction("ij,jk->ik", combine="max"),
            [(2, 3), (3, 4)],
            "md_hom[i:2, j:3, k:4](mul, (cc, pw(max), cc))",
        ),
        (
            Reduction("ij->", combine={"i": "max", "j": "add"}),
            [(4, 3)],
            "md_hom[j:3, i:4](id, (pw(add), pw(max)))",
        ),
        (
            Reduction("ijkl->k", combine={"j": "add", "l": np.min, "i": np.sum}),
            [(2, 3, 4, 5)],
            "md_hom[i:2, l:5, k:4, j:3](id, (pw(add), pw(min), cc, pw(add)))",
        ),
        (
            Reduction("ijk->", combine={"k": "add", "i": np.add, "j": "min"}),
            [(2, 3, 4)],
            "md_hom[j:3, i:2, k:4](id, (pw(min), pw(add), pw(add)))",
        ),
        (
            Reduction("ij->i", combine={"i": ps("add"), "j": pw("add")}),
            [(4, 3)],
            "md_hom[i:4, j:3](id, (ps(add), pw(add)))",
        ),
        (
            Reduction("n h+r, r -> n h", lambda x, w: x - w, combine="min"),
            [(2, 9), (3,)],
            "md_hom[n:2, h:7, r:3](f, (cc, cc, pw(min)))",
        ),
        (Reduction("i->i", scans=True), [(5,)], "md_hom[i:5](id, (ps(add)))"),
        (Reduction("->i", lambda *, i: i, extents={"i": 3}), [], "md_hom[i:3](f, (cc))"),
    ],
)
def test_dims_and_operators(
    reduction: Reduction, shapes: list[tuple[int, ...]], expected: str
) -> None:
    assert repr(md_hom_from_reduction(reduction, [F4(shape) for shape in shapes])) == expected


def test_views_and_epilogue() -> None:
    reduction = Reduction("2h+r c, r c k -> h k; k", epilogue="bias_relu")
    specs = [F4((9, 3)), F4((3, 3, 4)), F4((4,))]
    assert md_hom_from_reduction(reduction, specs).describe() == (
        "out_view(out: float32[4, 4] (h, r, c, k) -> (h, k))\n"
        "epilogue(bias_relu)(A: float32[9, 3] (h, r, c, k) -> ; B: float32[3, 3, 4] (h, r, c, k)"
        " -> ; C: float32[4] (h, r, c, k) -> (k))\n"
        "md_hom[h:4, r:3, c:3, k:4](mul, (cc, pw(add), pw(add), cc), epilogue bias_relu)\n"
        "inp_view(A: float32[9, 3] (h, r, c, k) -> (2h+r, c); B: float32[3, 3, 4] (h, r, c, k)"
        " -> (r, c, k); C: float32[4] (h, r, c, k) -> )"
    )


def test_operands_that_are_indices_are_read_first_and_are_no_elements() -> None:
    reduction = Reduction("@1+r d, b -> b d", extents={"r": 2})
    md_hom = md_hom_from_reduction(reduction, [F4((9, 4)), TensorSpec.of((5,), "i4")])
    assert repr(md_hom.inp_view) == "((b), ((int64(p0) + r), d))"
    assert repr(md_hom.scalar.results) == "(p1,)"


def test_argmax_adds_the_flat_index_and_drops_the_value() -> None:
    md_hom = md_hom_from_reduction(Reduction("ijk->j", combine="argmax"), [F4((2, 3, 4))])
    assert repr(md_hom.scalar.results) == "(p0, ((i * 4) + k))"
    assert md_hom.epilogue is not None
    nowhere = np.iinfo("i8").max
    assert repr(md_hom.epilogue.function.results) == f"(select((p1 == {nowhere}), 0, p1),)"
    assert [buffer.spec.dtype for buffer in md_hom.outputs] == [np.int64]


@pytest.mark.parametrize(
    ("dtype", "options", "held", "stored"),
    [
        ("f2", {}, "f4", "f2"),
        ("f4", {}, "f4", "f4"),
        ("f4", {"acc_dtype": "f8"}, "f8", "f4"),
        ("f4", {"dtype": "f8"}, "f8", "f8"),
        ("i1", {}, "i2", "i1"),
        ("i1", {"combine": "max"}, "i1", "i1"),
        ("i1", {"epilogue": "relu"}, "i1", "i1"),
        ("i1", {"function": lambda x: x / 2}, "f8", "f8"),
        ("f2", {"function": lambda x: x / 2}, "f4", "f2"),
        ("f2", {"function": lambda x: x > 0}, "i8", "i8"),
        ("?", {}, "i8", "i8"),
        ("?", {"counts": False}, "?", "?"),
        ("?", {"combine": "max"}, "?", "?"),
        ("i4", {"combine": "logaddexp"}, "f8", "f8"),
        ("c8", {}, "c8", "c8"),
    ],
)
def test_types(dtype: str, options: dict[str, object], held: str, stored: str) -> None:
    reduction = Reduction("i->", **options)  # type: ignore[arg-type]
    md_hom = md_hom_from_reduction(reduction, [TensorSpec.of((3,), dtype)])
    assert md_hom.scalar.result_dtypes == (np.dtype(held),)
    assert md_hom.outputs[0].spec.dtype == np.dtype(stored)


def test_floats_are_widened_before_the_function_and_integers_are_not() -> None:
    function = lambda x: x * x  # noqa: E731
    half = md_hom_from_reduction(Reduction("i->", function), [TensorSpec.of((3,), "f2")])
    assert repr(half.scalar.results) == "((float32(p0) * float32(p0)),)"
    byte = md_hom_from_reduction(Reduction("i->", function), [TensorSpec.of((3,), "i1")])
    assert repr(byte.scalar.results) == "(int16((p0 * p0)),)"


def test_the_last_dim_is_combined_first() -> None:
    a = np.array([[1.0, -5.0], [2.0, 3.0]])
    combine = {"i": "max", "j": "add"}
    md_hom = md_hom_from_reduction(Reduction("ij->", combine=combine), [F4((2, 2), "f8")])
    assert reference.run(md_hom, [a])[0] == a.sum(axis=1).max()
    turned = md_hom_from_reduction(Reduction("ji->", combine=combine), [F4((2, 2), "f8")])
    assert reference.run(turned, [a])[0] == a.max(axis=1).sum()


def test_no_elements_are_no_product() -> None:
    with pytest.raises(TranslationError, match="there are no elements to multiply"):
        md_hom_from_reduction(Reduction("->i", extents={"i": 3}), [])
