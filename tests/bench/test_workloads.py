"""The cases fit together, their reference is right, and what counts as an error is one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bench.engines import NumPy, OptEinsum, matrix_factors
from bench.families import ALL, selected
from bench.limits import bound
from bench.workloads import CCSDT, TABLE_6, WORKLOADS, Contraction

CONTRACTIONS = [case for case in ALL if isinstance(case, Contraction)]


def shrunk(workload: Contraction) -> Contraction:
    """The case with extents that a test can afford."""
    extents = {index: min(extent, 7) for index, extent in workload.extents.items()}
    shapes = tuple(tuple(extents[index] for index in term) for term in workload.terms)
    return dataclasses.replace(workload, shapes=shapes)


def test_names_are_distinct() -> None:
    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS)


def test_numbers_of_cases() -> None:
    assert (len(CCSDT), len(TABLE_6)) == (9, 25)


def test_indices_fit_shapes() -> None:
    for workload in WORKLOADS:
        assert set(workload.output) <= set(workload.extents)
        assert workload.flops > 0


def test_index_with_two_extents_is_refused() -> None:
    with pytest.raises(ValueError, match="wrong: index 'k' has two extents"):
        _ = Contraction("wrong", "ik,kj->ij", ((2, 3), (4, 5))).extents


def test_sizes_of_a_coupled_cluster_case() -> None:
    case = CCSDT[0]
    assert case.shapes == ((24, 24, 24, 16), (16, 16, 24, 16))
    assert case.outputs[0].shape == (24, 16, 16, 24, 16, 16)
    assert (case.reduction, case.flops) == (24, 2 * 24 * 24 * 16 * 16 * 24 * 16 * 16)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("workload", CONTRACTIONS, ids=lambda workload: workload.name)
def test_peers_agree_with_the_reference(workload: Contraction) -> None:
    small = shrunk(workload)
    operands = small.operands()
    references = small.reference(operands)
    assert references[0].shape == small.outputs[0].shape
    for engine in (NumPy(), OptEinsum()):
        for outs in (small.empty_outputs(), small.no_outputs()):
            for call in engine.calls(small, operands, outs).values():
                assert small.error(call(), references) <= small.tolerance


@pytest.mark.parametrize(
    "subscripts", ["ik,kj->ij", "ki,jk->ji", "ik,kj->ji", "ik,k->i", "k,k->", "bik,bkj->bij"]
)
def test_matrix_factors(subscripts: str) -> None:
    extents = {"b": 2, "i": 3, "j": 4, "k": 5}
    left, right = subscripts.partition("->")[0].split(",")
    shapes = tuple(tuple(extents[index] for index in term) for term in (left, right))
    case = Contraction("case", subscripts, shapes, "float64")
    operands = case.operands()
    factors = matrix_factors(case, operands)
    assert factors is not None
    np.testing.assert_allclose(np.matmul(*factors), case.reference(operands)[0], rtol=1e-12)


def test_no_matrix_factors_of_a_coupled_cluster_case() -> None:
    assert matrix_factors(shrunk(CCSDT[0]), shrunk(CCSDT[0]).operands()) is None


def test_error_finds_what_is_wrong() -> None:
    case = Contraction("case", "ik,kj->ij", ((4, 5), (5, 6)))
    references = case.reference(case.operands())
    right = references[0].astype("f4")
    assert case.error(right, references) <= case.tolerance
    assert case.error(case.empty_outputs(), references) == np.inf
    right[3, 5] += 0.01
    assert case.error(right, references) > case.tolerance


def test_integers_wrap_around() -> None:
    case = Contraction("case", "ik,kj->ij", ((3, 50), (50, 3)), "int8")
    a, b = case.operands()
    np.testing.assert_array_equal(case.reference([a, b])[0], np.einsum("ik,kj->ij", a, b))


def test_selection_by_part_and_pattern() -> None:
    assert [w.name for w in selected("dot-10,matvec-4*")] == ["dot-10^7", "matvec-4096"]
    assert selected(None) == list(WORKLOADS)


def test_bound_is_the_slower_of_arithmetic_and_memory() -> None:
    (matmul,) = selected("matmul-2048x2048x2048")
    assert bound(matmul, 500e9, 50e9, 30e9) == (matmul.flops / 500e9, "arithmetic")
    assert bound(CCSDT[0], 500e9, None, 30e9) == (CCSDT[0].bytes_written / 30e9, "memory")
    assert bound(matmul, None, None, None) is None
