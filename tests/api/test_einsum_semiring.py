"""einsum over semirings, with functions and epilogues, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from mdtensor.api.frontends.einsum.einsum import einsum
from mdtensor.api.frontends.einsum.generalized_einsum import with_output
from mdtensor.api.frontends.einsum.semiring import SEMIRINGS, in_stages
from mdtensor.errors import DTypeError, TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.contraction import resolve
from mdtensor.translate.einsum.subscripts import parse
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction
from tests.api.executors import executions
from tests.cases import CASES, Case, close, values

pytestmark = pytest.mark.usefixtures("executed")
RNG = np.random.default_rng(3)


COMBINED = {
    "min_plus": lambda a, b: (a + b).min(axis=1),
    "max_plus": lambda a, b: (a + b).max(axis=1),
    "max_times": lambda a, b: (a * b).max(axis=1),
    "logsumexp": lambda a, b: np.logaddexp.reduce((a + b).astype("f8"), axis=1),
    "bool": lambda a, b: ((a != 0) & (b != 0)).any(axis=1),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("executed", "name", "dtype"),
    executions(SEMIRINGS, ["float32", "int32", "float16", "bool"], ["float32"]),
    indirect=["executed"],
)
@pytest.mark.parametrize("shape", [(7, 13, 5), (1, 1, 1), (33, 2, 16)])
def test_a_matrix_product(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    i, j, k = shape
    a, b = values(RNG, (i, j), dtype), values(RNG, (j, k), dtype)
    if dtype == "int32":
        a, b = a % 8, b % 8
    result = einsum("ij,jk->ik", a, b, semiring=name)
    left, right = a[:, :, None], b[None]
    if a.dtype == np.float16:
        left, right = left.astype("f8"), right.astype("f8")
    natural = {"bool": np.dtype(bool), "logsumexp": np.result_type(a.dtype, np.float16)}
    if name == "logsumexp" and dtype == "int32":
        natural[name] = np.dtype(np.float64)
    close(result, COMBINED[name](left, right).astype(natural.get(name, a.dtype)))


def test_one_operand_and_three() -> None:
    a = values(RNG, (5, 6), "float64")
    close(einsum("ij->i", a, semiring="max_plus"), a.max(axis=1))
    close(einsum("ij->ij", a, semiring="bool"), a != 0)
    close(einsum("ii", a[:5, :5], semiring="min_plus"), a[:5, :5].diagonal().min())
    b, c = values(RNG, (6, 4), "float64"), values(RNG, (4, 3), "float64")
    expected = (a[:, :, None, None] + b[None, :, :, None] + c).min(axis=(1, 2))
    close(einsum("ij,jk,kl", a, b, c, semiring="min_plus"), expected)


@pytest.mark.parametrize(
    ("executed", "name", "dtype"),
    executions(SEMIRINGS, ["float32", "int32", "float16"], ["float32"]),
    indirect=["executed"],
)
def test_a_chain(name: str, dtype: str) -> None:
    """Several operands in stages, which save work here; negative factors forbid it to max_times."""
    arrays = [values(RNG, shape, dtype) for shape in ((40, 40), (40, 40), (40, 40))]
    if dtype == "int32":
        arrays = [array % 8 for array in arrays]
    result = einsum("ij,jk,kl->il", *arrays, semiring=name)
    wide = [a.astype("f8") if a.dtype.kind == "f" else a for a in arrays]
    operation = {"max_times": np.multiply, "bool": np.logical_and}.get(name, np.add)
    combined = {"min_plus": np.min, "logsumexp": np.logaddexp.reduce, "bool": np.any}
    cube = operation(wide[0][:, :, None, None], wide[1][None, :, :, None])
    whole = operation(cube, wide[2][None, None])
    expected = (
        combined.get(name, np.max)(whole, axis=(1, 2))
        if name != "logsumexp"
        else (np.logaddexp.reduce(np.logaddexp.reduce(whole, axis=2), axis=1))
    )
    natural = {"bool": np.dtype(bool), "logsumexp": np.result_type(dtype, np.float16)}
    close(result, expected.astype(natural.get(name, np.dtype(dtype))))


def test_stages_are_chosen_by_their_work() -> None:
    reduction = Reduction("ij,jk,kl->il", SEMIRINGS["min_plus"].f, "min")
    assert len(in_stages(reduction, [TensorSpec.of((90, 90))] * 3, False).steps) == 2
    assert len(in_stages(reduction, [TensorSpec.of((4, 4))] * 3, False).steps) == 1
    mixed = [TensorSpec.of((90, 90)), TensorSpec.of((90, 90), "i1"), TensorSpec.of((90, 90))]
    assert len(in_stages(reduction, mixed, False).steps) == 1
    given = ("einsum_path", (1, 2), (0, 1))
    steps = in_stages(reduction, [TensorSpec.of((4, 4))] * 3, given).steps
    assert [step.operands for step in steps] == [(1, 2), (0, 4)]


def test_windows() -> None:
    line, taps = values(RNG, (20,), "float64"), values(RNG, (4,), "float64")
    window = np.lib.stride_tricks.sliding_window_view(line, 4)
    close(einsum("h+r, r -> h", line, taps, semiring="max_plus"), (window + taps).max(axis=1))
    sums = einsum("h+r -> h", line, extents={"r": 4})
    close(sums, window.sum(axis=1))


def test_free_functions() -> None:
    a, b = values(RNG, (5, 7), "float64"), values(RNG, (7, 4), "float64")
    distance = np.abs(a[:, :, None] - b[None])
    close(einsum("ij,jk->ik", a, b, f=lambda x, y: abs(x - y)), distance.sum(axis=1))
    largest = einsum("ij,jk->ik", a, b, f=lambda x, y: abs(x - y), combine="max")
    close(largest, distance.max(axis=1))
    close(einsum("ij,jk->ik", a, b, combine="max"), (a[:, :, None] * b).max(axis=1))
    equal = einsum("ij,jk->ik", a > 0, b > 0, f=lambda x, y: x == y)
    close(equal, ((a > 0)[:, :, None] == (b > 0)).sum(axis=1))


def test_epilogues() -> None:
    a, b, c = (values(RNG, shape, "float64") for shape in ((5, 7), (7, 4), (4,)))
    close(einsum("ij,jk->ik", a, b, epilogue="relu"), np.maximum(a @ b, 0))
    close(einsum("ij,jk; k", a, b, c, epilogue="bias_relu"), np.maximum(a @ b + c, 0))
    result = einsum("ij,jk->ik; k", a, b, c, epilogue=lambda t, v: 2 * t - v)
    close(result, 2 * (a @ b) - c)
    mask = a > 0
    close(einsum("ij->i", mask, epilogue=lambda t: t), mask.any(axis=1))


def test_options() -> None:
    a, b = values(RNG, (5, 7), "float32"), values(RNG, (7, 4), "float32")
    out = np.empty((5, 4), "f8")
    assert einsum("ij,jk->ik", a, b, semiring="max_plus", out=out) is out
    np.testing.assert_array_equal(out, (a[:, :, None] + b).max(axis=1))
    assert einsum("ij,jk->ik", a, b, semiring="max_plus", order="F").flags.f_contiguous
    assert einsum("ij,jk->ik", a, b, semiring="max_plus", dtype="f8").dtype == np.float64
    with pytest.raises(DTypeError, match="operand 0 cannot be cast from float32 to float16"):
        einsum("ij,jk->ik", a, b, semiring="max_plus", dtype="f2")
    index = np.array([2, 0])
    gathered = einsum("@1 j, i -> i", a, index, semiring="max_plus", dtype="f8")
    np.testing.assert_array_equal(gathered, a[index].max(axis=1))
    listed = einsum([[1, 2], [3, 4]], [0, 1], [0], semiring="max_plus")
    np.testing.assert_array_equal(listed, [2, 4])


@pytest.mark.sampled(24)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_implicit_output_is_einsums(case: Case) -> None:
    specs = [TensorSpec.of(shape) for shape in case.shapes]
    assert resolve(parse(with_output(case.text)), specs).output == (
        resolve(parse(case.text), specs).output
    )


def test_what_is_wrong_is_shown() -> None:
    a = np.ones((2, 3))
    with pytest.raises(TranslationError) as caught:
        einsum("ij->i", a, semiring="tropical")
    assert str(caught.value) == (
        "unknown semiring 'tropical'\n"
        "  hint: one of min_plus, max_plus, max_times, logsumexp, bool, or f=… and combine=…"
    )
    with pytest.raises(TranslationError, match="semiring is given, and f or combine too"):
        einsum("ij->i", a, semiring="bool", combine="max")
