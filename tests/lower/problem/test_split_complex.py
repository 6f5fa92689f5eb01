"""Complex computations on real buffers give what the complex ones give."""

from __future__ import annotations

import numpy as np
import pytest

from mdtensor.lower.problem.split_complex import real_from_complex
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Operator, Pointwise
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.reference import run
from mdtensor.translate.scalar import Expr, apply, cast, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec

Z = param(0, "c16")


def as_real(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], axis=-1)


def random_array(shape, dtype):
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.uniform(-1, 1, shape)
    return (9 * values).astype(dtype)


@pytest.mark.parametrize(
    ("dtypes", "computed", "stored"),
    [
        (("c8", "c8"), None, "c8"),
        (("c16", "f4"), None, "c16"),
        (("f4", "c8"), None, "c16"),
        (("f4", "f8"), None, "c16"),
        (("i4", "i4"), "i4", "c16"),
        (("i8", "c8"), None, "c16"),
    ],
)
def test_matrix_product(dtypes, computed, stored):
    arrays = [random_array((3, 4), dtypes[0]), random_array((4, 5), dtypes[1])]
    specs = [TensorSpec.of(array.shape, array.dtype) for array in arrays]
    out = TensorSpec.of((3, 5), stored)
    md_hom = md_hom_from_einsum("ij,jk->ik", specs, dtype=computed, out=out)
    real = real_from_complex(md_hom)
    assert not any(b.spec.dtype.kind == "c" for b in (*real.inputs, *real.outputs))
    (expected,) = run(md_hom, arrays)
    (result,) = run(real, [as_real(array) for array in arrays])
    np.testing.assert_allclose(result, as_real(expected), rtol=1e-12)


def test_without_complex_buffers_nothing_changes():
    md_hom = md_hom_from_einsum("i->", [TensorSpec.of((3,), "f4")])
    assert real_from_complex(md_hom) is md_hom


def test_operator_on_a_tuple_of_a_complex_and_a_real_element():
    lhs, count, rhs, more = param(0, "c8"), param(1, "i4"), param(2, "c8"), param(3, "i4")
    op = Operator(
        (lhs.dtype, count.dtype), (lhs * rhs - lhs, count + more), (1 + 0j, 0), name="odd"
    )
    md_hom = MDHom(
        (Dim("i", 4, Pointwise(op)),),
        ScalarFunction((lhs.dtype, count.dtype), (param(0, "c8"), param(1, "i4"))),
        (BufferSpec("x", TensorSpec.of((4,), "c8")), BufferSpec("n", TensorSpec.of((4,), "i4"))),
        (BufferSpec("y", TensorSpec.of((), "c8")), BufferSpec("m", TensorSpec.of((), "c8"))),
        (BufferAccess(0, (AffineIndex.of("i"),)), BufferAccess(1, (AffineIndex.of("i"),))),
        (BufferAccess(0, ()), BufferAccess(1, ())),
    )
    arrays = [random_array((4,), "c8"), np.arange(4, dtype="i4")]
    expected = run(md_hom, arrays)
    real = real_from_complex(md_hom)
    assert real.operators[0].identity == (1, 0, 0, 0)
    product, counts = run(real, [as_real(array) for array in arrays])
    np.testing.assert_allclose(product, as_real(expected[0]), rtol=1e-12)
    np.testing.assert_array_equal(counts, [6, 0])


def element_wise(inner: Expr, given: np.ndarray, stored: str) -> MDHom:
    """The md_hom that applies an expression of one element to all of them."""
    return MDHom(
        (Dim("i", len(given), CC),),
        ScalarFunction((given.dtype,), (inner,)),
        (BufferSpec("x", TensorSpec.of(given.shape, given.dtype)),),
        (BufferSpec("y", TensorSpec.of(given.shape, stored)),),
        (BufferAccess(0, (AffineIndex.of("i"),)),),
        (BufferAccess(0, (AffineIndex.of("i"),)),),
    )


def test_complex_numbers_inside_a_function_on_real_buffers():
    x = param(0, "f4")
    square = apply("mul", cast(x, "c8") + 2j, cast(x, "c8") - 1j)
    given = np.arange(-2, 3, dtype="f4")
    md_hom = element_wise(apply("imag", square), given, "f4")
    real = real_from_complex(md_hom)
    assert real is not md_hom
    assert {arg.dtype.kind for arg in real.scalar.results[0].args} == {"f"}
    np.testing.assert_array_equal(run(real, [given])[0], ((given + 2j) * (given - 1j)).imag)


def test_a_complex_number_is_true_where_either_part_is():
    given = np.array([0, 1, 1j, 1 + 1j, -0.0], "c8")
    md_hom = element_wise(cast(param(0, "c8"), "?"), given, "?")
    np.testing.assert_array_equal(run(md_hom, [given])[0], given.astype(bool))
    np.testing.assert_array_equal(
        run(real_from_complex(md_hom), [as_real(given)])[0], given.astype(bool)
    )


@pytest.mark.parametrize(
    "result",
    [
        Z / 2,
        1 / Z,
        (Z + 1) / (Z * 1j + 3),
        np.conj(Z) * Z,
        Z.conjugate() - 2j,
        np.exp(Z / 9),
    ],
)
def test_quotients_conjugates_and_exponentials(result):
    given = random_array((7,), "c16")
    md_hom = element_wise(result, given, "c16")
    (expected,) = run(md_hom, [given])
    (halves,) = run(real_from_complex(md_hom), [as_real(given)])
    np.testing.assert_allclose(halves, as_real(expected), rtol=1e-12, atol=1e-12)
