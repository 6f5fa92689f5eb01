"""Evaluations: what NumPy's functions make of an `md_hom` is what the oracle says."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mdtensor import forks, precedence
from mdtensor.api.arrays.operands import spec_of
from mdtensor.api.engine import evaluated
from mdtensor.evaluator import batched_matmul, blas_threads, evaluation
from mdtensor.evaluator.batched_matmul import BatchedMatmul
from mdtensor.evaluator.evaluation import Evaluation
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import Combine, Pointwise, PrefixSum, named
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import Dim
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.reference import run
from tests.interrupts import is_free
from tests.lower.fuzz import check_program, random_einsum_case
from tests.lower.md_hom_cases import StagedRun
from tests.lower.random_md_homs import random_md_hom

CASES = int(os.environ.get("MDTENSOR_TEST_KERNELS", "60"))


@pytest.mark.parametrize("seed", range(CASES))
def test_random_md_homs_are_what_the_oracle_says(seed: int) -> None:
    given = random_md_hom(random.Random(f"evaluated {seed}"))
    StagedRun(given, Program.of(given.md_hom).steps, seed).check(0, Evaluation(given.md_hom))


@pytest.mark.parametrize("seed", range(CASES))
def test_random_einsums_are_what_the_oracle_says(seed: int) -> None:
    einsum = random_einsum_case(f"{seed}/cpu/{seed}").einsum
    check_program(Evaluation(einsum.md_hom()), einsum, seed)


@pytest.mark.parametrize("seed", range(CASES))
def test_parts_are_what_the_whole_is(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "BYTES", 200)
    monkeypatch.setattr(evaluation, "ELEMENTS", 50)
    given = random_md_hom(random.Random(f"in parts {seed}"))
    StagedRun(given, Program.of(given.md_hom).steps, seed).check(0, Evaluation(given.md_hom))
    einsum = random_einsum_case(f"{seed}/cpu/{seed}").einsum
    check_program(Evaluation(einsum.md_hom()), einsum, seed)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ij,jk->ik", ((300, 200), (200, 100))),
        ("bhqd,bhkd->bhqk", ((2, 3, 50, 16), (2, 3, 60, 16))),
        ("n h+r w+s c, k r s c -> n h w k", ((2, 20, 20, 8), (16, 3, 3, 8))),
        ("ij,jk,kl->il", ((30, 20), (20, 40), (40, 5))),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "f2", "i4"])
def test_sums_of_products_are_right(
    text: str, shapes: tuple[tuple[int, ...], ...], dtype: str
) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    md_hom = md_hom_from_einsum(text, tuple(map(spec_of, arrays)))
    [expected] = run(md_hom, arrays)
    found = np.full(expected.shape, 7, md_hom.outputs[0].spec.dtype)
    Evaluation(md_hom)(*arrays, found)
    np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == "f2" else 1e-6)


def test_products_of_matrices_are_blas_and_many_points_are_expected_to_take_long() -> None:
    def seconds(text: str, *shapes: tuple[int, ...]) -> float:
        return Evaluation(md_hom_from_einsum(text, tuple(map(TensorSpec.of, shapes)))).seconds

    assert seconds("ij,jk->ik", (64, 64), (64, 64)) < 1e-3
    assert seconds("ij,jk->ik", (4096, 4096), (4096, 4096)) > 1
    assert seconds("ij->ij", (10000, 10000)) > 0.04
    # Long sums of products are cut, sums of elements are not.
    assert seconds("i,i->", (60_000_000,), (60_000_000,)) > evaluated.COMPILING
    assert seconds("ij->i", (1000, 50_000)) < evaluated.COMPILING


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("n i+r c, k r c -> n i k", ((2, 66, 8), (9, 3, 8))),
        ("n c i+r, k c r -> n k i", ((2, 8, 66), (9, 8, 3))),
        ("n i+r c, n i k -> k r c", ((2, 66, 8), (2, 64, 9))),  # the gradient of the filters
        ("n c i+r, n k i -> k c r", ((2, 8, 66), (2, 9, 64))),
    ],
)
def test_windows_are_copied_once(
    text: str, shapes: tuple[tuple[int, ...], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts are cut where the window moves, be its dims kept or combined."""
    monkeypatch.setattr(evaluation, "ELEMENTS", 100)
    copied: list[int] = []
    product = BatchedMatmul.__call__

    def counted(self: BatchedMatmul, operands: Sequence[np.ndarray]) -> np.ndarray:
        copied.extend([e.size for e in operands if np.may_share_memory(e, arrays[0])])
        return product(self, operands)

    monkeypatch.setattr(BatchedMatmul, "__call__", counted)
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape) for shape in shapes]
    md_hom = md_hom_from_einsum(text, tuple(map(spec_of, arrays)))
    [expected] = run(md_hom, arrays)
    found = np.empty_like(expected)
    Evaluation(md_hom)(*arrays, found)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert len(copied) > 10
    assert max(copied) <= 100
    assert sum(copied) == 2 * 64 * 3 * 8


def test_parts_keep_the_innermost_dim_whole() -> None:
    """NumPy's loops run along it."""
    md_hom = md_hom_from_einsum("ijk,ijk->ijk", (TensorSpec.of((40, 50, 700)),) * 2)
    parts = Evaluation(md_hom)._parts
    assert len(parts) > 20
    assert {part[-1] for part in parts} == {(0, 700)}


def test_parts_keep_rows_of_memory_together() -> None:
    """Where they can be cut along what is combined instead, which lies further apart."""
    md_hom = md_hom_from_einsum("ij,ij->j", (TensorSpec.of((20_000, 550)),) * 2)
    parts = Evaluation(md_hom)._parts
    assert tuple(parts) == (((0, 20_000), (0, 275)), ((0, 20_000), (275, 550)))


@pytest.mark.parametrize("name", ["add", "max", "mul"])
def test_short_lines_are_combined_place_after_place(name: str) -> None:
    md_hom = md_hom_from_einsum("kij->k", (TensorSpec.of((3000, 3, 5)),))
    operator = Pointwise(named(name, ["f4"]))
    dims = [replace(dim, combine=operator) for dim in md_hom.dims[1:]]
    x = np.random.default_rng(3).random((3000, 3, 5), np.float32) + np.float32(0.5)
    found = np.empty(3000, np.float32)
    Evaluation(replace(md_hom, dims=(md_hom.dims[0], *dims)))(x, found)
    wanted = {"add": np.sum, "max": np.max, "mul": np.prod}[name](x.astype(np.float64), (1, 2))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


ADD, LOG_ADD = (named(name, ["f4"]) for name in ("add", "logaddexp"))


@pytest.mark.parametrize(
    ("text", "shape", "combine"),
    [
        ("ij->ij", (1 << 10, 1 << 13), PrefixSum(ADD)),
        ("ij->i", (1 << 10, 1 << 12), Pointwise(LOG_ADD)),
        ("ij->i", (1 << 21, 20), Pointwise(ADD)),
    ],
    ids=["elements in turn", "long functions", "short lines"],
)
def test_combinations_are_expected_to_take_longer_than_sums(
    text: str, shape: tuple[int, int], combine: Combine
) -> None:
    """Each takes longer than compiling a kernel, where a sum of as many elements does not."""
    md_hom = md_hom_from_einsum(text, (TensorSpec.of(shape),))
    i, j = md_hom.dims
    combined = replace(md_hom, dims=(i, Dim(j.name, j.extent, combine)))
    assert Evaluation(combined).seconds > evaluated.COMPILING
    whole = md_hom_from_einsum("ij->", (TensorSpec.of(shape),))
    assert Evaluation(whole).seconds < evaluated.COMPILING


def test_no_fork_comes_within_a_product_of_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS would wait for its threads, and these for it."""
    seen: list[bool] = []
    lock = batched_matmul._in_blas
    assert lock in forks._kept

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        seen.append(is_free(lock, within_s=0))
        return a @ b

    monkeypatch.setattr(batched_matmul, "_matmul", product)
    a, found = np.ones((3, 3), np.float32), np.empty((3, 3), np.float32)
    Evaluation(md_hom_from_einsum("ij,jk->ik", (spec_of(a), spec_of(a))))(a, a, found)
    assert seen == [False]
    assert is_free(lock, within_s=60)


@pytest.mark.parametrize(
    ("extent", "expected"), [(256, [3, 2, 1, 1]), (128, [1, 1, 1, 1])], ids=["large", "small"]
)
def test_products_have_threads_where_these_serve_them(
    extent: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large one leaves a core to a compiler."""
    library = blas_threads._library()
    assert library is not None, "NumPy's wheel has an OpenBLAS"
    get, put = library
    seen: list[int] = []

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        seen.append(get())
        return a @ b

    monkeypatch.setattr(batched_matmul, "_matmul", product)
    a, found = np.ones((2, extent, extent), np.float32)
    evaluate = Evaluation(md_hom_from_einsum("ij,jk->ik", (spec_of(a), spec_of(a))))
    before = get()
    try:
        for threads in (3, 1):
            put(threads)
            evaluate(a, a, found)
            with precedence.compiling():
                evaluate(a, a, found)
            assert get() == threads
    finally:
        put(before)
    assert seen == expected


@pytest.mark.parametrize("text", ["i,i->", "ij,ij->", "ij,kj->ik"])
def test_long_sums_of_products_are_as_exact_as_pairwise_ones(text: str) -> None:
    shape = (1 << 20,) if text == "i,i->" else (2, 1 << 19)
    rng = np.random.default_rng(0)
    a, b = (1000 + rng.random(shape, np.float32) for _ in range(2))
    md_hom = md_hom_from_einsum(text, (spec_of(a), spec_of(b)))
    expected = np.einsum(text, a.astype(np.float64), b.astype(np.float64))
    found = np.empty(expected.shape, np.float32)
    Evaluation(md_hom)(a, b, found)
    np.testing.assert_allclose(found, expected, rtol=3e-7)
