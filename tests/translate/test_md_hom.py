from __future__ import annotations

from dataclasses import replace

import pytest

from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Pointwise, PrefixSum, named
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import Dim
from mdtensor.translate.scalar import index_of
from mdtensor.translate.scalar_function import ScalarFunction, product
from mdtensor.translate.views import AffineIndex, BufferAccess

MATMUL = md_hom_from_einsum("ij,jk->ik", [TensorSpec.of((2, 3)), TensorSpec.of((3, 4))])
DIM_I, DIM_J, DIM_K = MATMUL.dims


def test_values_are_hashable_and_comparable() -> None:
    again = md_hom_from_einsum("ij,jk->ik", [TensorSpec.of((2, 3)), TensorSpec.of((3, 4))])
    assert again == MATMUL
    assert len({again, MATMUL}) == 1


def test_kept_and_reduced_dims() -> None:
    assert (MATMUL.kept, MATMUL.reduced) == ((DIM_I, DIM_K), (DIM_J,))
    assert MATMUL.points == 24


def test_canonical_form_renames_dims_inside_scalar_functions() -> None:
    scalar = ScalarFunction(MATMUL.scalar.params, (index_of("k") * 1.0,), "f")
    types = [result.dtype for result in scalar.results]
    dims = (DIM_I, replace(DIM_J, combine=Pointwise(named("add", types))), DIM_K)
    md_hom = replace(MATMUL, scalar=scalar, dims=dims)
    assert repr(md_hom.canonical().scalar.results[0]) == "(float64(d2) * 1.0)"


WRONG = {
    r"^dims \['i', 'i', 'k'\] repeat a name$": {"dims": (DIM_I, replace(DIM_J, name="i"), DIM_K)},
    r"^dim 'k' has extent -1$": {"dims": (DIM_I, DIM_J, replace(DIM_K, extent=-1))},
    r"^a view uses dim 'k', which is none of i, j$": {"dims": (DIM_I, DIM_J)},
    r"^the scalar function takes \(float64\) but is given \(float32, float32\)$": {
        "scalar": product(["f8"], "f8")
    },
    r"^0 values are computed but the output view writes 1$": {
        "scalar": ScalarFunction(MATMUL.scalar.params, ())
    },
    r"^operator add combines \(int32\) but the scalar function returns \(float32\)$": {
        "dims": (DIM_I, replace(DIM_J, combine=Pointwise(named("add", ["i4"]))), DIM_K)
    },
    r"^access \(i\) has 1 indices for buffer out: float32\[2, 4\]$": {
        "out_view": (BufferAccess(0, (AffineIndex.of("i"),)),)
    },
    r"^index k\+1 of buffer 'out' runs from 1 to 4, but axis 1 has extent 4": {
        "out_view": (BufferAccess(0, (AffineIndex.of("i"), AffineIndex.of("k", offset=1))),)
    },
    r"^the output view \(i, j\) uses \['j'\]": {
        "out_view": (BufferAccess(0, (AffineIndex.of("i"), AffineIndex.of("j"))),)
    },
    r"^the output view \(i, 0\) lacks \['k'\]": {
        "out_view": (BufferAccess(0, (AffineIndex.of("i"), AffineIndex())),)
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_ill_formed_instances_say_what_is_wrong(message: str) -> None:
    with pytest.raises(TranslationError, match=message):
        replace(MATMUL, **WRONG[message])


def test_a_prefix_sum_stays_in_the_result() -> None:
    dim = Dim("j", 3, PrefixSum(named("add", ["f4"])))
    with pytest.raises(TranslationError, match=r"lacks \['j'\]"):
        replace(MATMUL, dims=(DIM_I, dim, DIM_K))


def test_printed_forms() -> None:
    assert repr(MATMUL) == "md_hom[i:2, j:3, k:4](mul, (cc, pw(add), cc))"
    assert [repr(c) for c in (CC, PrefixSum(named("max", ["f4"])))] == ["cc", "ps(max)"]
