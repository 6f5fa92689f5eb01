from __future__ import annotations

import numpy as np
import pytest

from mdtensor.errors import IndexingError
from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.scalar import Expr, cast
from mdtensor.translate.stencils.program_from_slices import program_from_slices
from mdtensor.translate.stencils.slices import (
    FusedValue,
    Leaf,
    broadcast,
    combined,
    fused_from_source,
    reduced,
    renumbered,
    sliced,
    transposed,
)

A = np.random.default_rng(0).uniform(-1, 1, (6, 7))
B = np.random.default_rng(1).uniform(-1, 1, (7,))


def leaf(array: np.ndarray, number: int) -> FusedValue:
    return fused_from_source(Leaf(number, array.shape, array.dtype))


def run(fused: FusedValue, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of all steps by the reference interpreter."""
    slots = dict(enumerate(arrays))
    program = program_from_slices(fused, [TensorSpec.of(a.shape, a.dtype) for a in arrays])
    for step in program.steps:
        (slots[step.results[0]],) = reference.run(step.md_hom, [slots[n] for n in step.operands])
    return [slots[step.results[0]] for step in program.steps]


def test_views_compose() -> None:
    value = sliced(transposed(leaf(A, 0), (1, 0)), (slice(None, None, -2), None, slice(1, 5)))
    value = sliced(value, (slice(1, None), 0, slice(None, None, 3)))
    assert value.reads[0].index[0].bounds({"i0": 3, "i1": 2}) == (1, 4)
    assert list(map(repr, value.reads[0].index)) == ["3i1+1", "-2i0+4"]
    np.testing.assert_array_equal(run(value, A)[-1], A.T[::-2, None, 1:5][1:, 0, ::3])


def test_slices_of_one_array_are_accesses_of_one_buffer() -> None:
    a = leaf(A, 0)
    value = combined(
        [sliced(a, (slice(1, None), ...)), sliced(a, (slice(None, -1), ...)), leaf(B, 1), 2.0],
        lambda x, y, b, two: x * y - two * b + x,
    )
    specs = [TensorSpec.of(A.shape, "f8"), TensorSpec.of((7,), "f8")]
    [step] = program_from_slices(value, specs).steps
    assert step.md_hom.describe() == (
        "out_view(out: float64[5, 7] (i0, i1) -> (i0, i1))\n"
        "md_hom[i0:5, i1:7](f, (cc, cc))\n"
        "inp_view(a0: float64[6, 7] (i0, i1) -> (i0+1, i1), (i0, i1);"
        " a1: float64[7] (i0, i1) -> (i1))"
    )
    np.testing.assert_allclose(run(value, A, B)[-1], A[1:] * A[:-1] - 2 * B + A[1:], rtol=1e-15)


def test_an_epilogue_takes_each_element_once() -> None:
    total = reduced(leaf(A, 0), "add", [0])
    value = combined([total, leaf(B, 1)], lambda s, b: s * b)
    specs = [TensorSpec.of(A.shape, "f8"), TensorSpec.of((7,), "f8")]
    [step] = program_from_slices(value, specs).steps
    assert repr(step.md_hom) == "md_hom[i0:6, i1:7](f, (pw(add), cc), epilogue g)"
    assert step.md_hom.epilogue is not None
    assert repr(step.md_hom.epilogue.view) == "((i1),)"
    assert repr(step.md_hom.out_view) == "((i1),)"
    np.testing.assert_allclose(run(value, A, B)[-1], A.sum(axis=0) * B, rtol=1e-14)


def test_storing_rounds_without_an_epilogue() -> None:
    total = reduced(leaf(A, 0), "add", [1], keepdims=True)
    value = combined([total], lambda s: cast(s, "f4"))
    [step] = program_from_slices(value, [TensorSpec.of(A.shape, "f8")]).steps
    assert step.md_hom.epilogue is None
    assert repr(step.md_hom.outputs[0].spec) == "float32[6, 1]"


def test_repeated_reductions_are_computed_once() -> None:
    a = leaf(A, 0)
    mean = combined([reduced(a, "add", [1], keepdims=True)], lambda s: s / 7)
    centred = combined([a, mean], lambda x, m: x - m)
    squares = combined([centred, centred], lambda x, y: x * y)
    value = combined([centred, reduced(squares, "add", [1], keepdims=True)], lambda x, v: x / v)
    results = run(value, A)
    assert len(results) == 3
    exact = A - A.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(
        results[-1], exact / (exact**2).sum(axis=1, keepdims=True), rtol=1e-12
    )


def test_a_part_of_a_reduction_is_no_epilogue() -> None:
    """Both have 12 elements, yet only half of the sums are taken, each twice."""
    a = np.arange(24.0).reshape(4, 3, 2)
    total = sliced(reduced(leaf(a, 0), "add", [2]), (slice(2), ...))
    value = combined([broadcast(total, (2, 2, 3)), 1.0], lambda s, one: s + one)
    results = run(value, a)
    assert len(results) == 2
    np.testing.assert_array_equal(results[-1], np.broadcast_to(a.sum(2)[:2], (2, 2, 3)) + 1)


def test_elements_that_fall_away_are_not_read() -> None:
    def first(x: Expr, y: Expr) -> Expr:
        return x

    value = combined([leaf(A, 0), leaf(B, 1)], first)
    assert [leaf.number for leaf in value.leaves] == [0]
    value = combined([leaf(A, 0), leaf(B, 1)], lambda x, y: y)
    assert [leaf.number for leaf in value.leaves] == [1]
    assert value.shape == (6, 7)


def test_leaves_are_renumbered_below_reductions() -> None:
    value = combined([reduced(leaf(A, 5), "max", [0]), leaf(B, 3)], lambda x, y: x + y)
    assert [leaf.number for leaf in value.leaves] == [5, 3]
    assert [leaf.number for leaf in renumbered(value, {5: 0, 3: 1}).leaves] == [0, 1]


@pytest.mark.parametrize("key", [(0, 0, 0), (slice(None), 7), (..., ...), [0], (0, 1.0)])
def test_wrong_indices(key: object) -> None:
    with pytest.raises(IndexingError):
        sliced(leaf(A, 0), key)
