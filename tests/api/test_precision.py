"""Factors that tensor cores may round: who asks for it, where it means nothing, how far it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.tuning.flat_buffer import Flat
from mdtensor.api.tuning.harness import TrialBuffers
from mdtensor.backends.select import open_device
from mdtensor.errors import ShapeError, TranslationError
from mdtensor.lower.gpu.register_blocking.gpu_candidates import ranked_on_gpu
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.problem.problem_of_device import problem_of_device
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.specs import TensorSpec
from mdtensor.translate.convolutions.convolution_layout import (
    Geometry,
    convolution_from_layout,
    parse_layout,
)
from mdtensor.translate.convolutions.md_hom_from_convolution import md_homs_from_convolution
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from tests.lower.gpu.candidates.test_tma_candidates import HOPPER

RNG = np.random.default_rng(11)
A = RNG.random((40, 60), np.float32) - np.float32(0.5)
B = RNG.random((60, 24), np.float32) - np.float32(0.5)


def problem_of(precision: str | None, dtype: str = "f4", text: str = "ij,jk->ik") -> Problem:
    specs = [TensorSpec.of((64, 512), dtype), TensorSpec.of((512, 48), dtype)]
    return problem_from_md_hom(md_hom_from_einsum(text, specs, precision=precision))


def test_a_processor_computes_exactly() -> None:
    expected = mdt.einsum("ij,jk->ik", A, B)
    for _ in range(2):  # the second time from the table of the hot path
        assert np.array_equal(mdt.einsum("ij,jk->ik", A, B, precision="tf32"), expected)
    out = np.empty_like(expected)
    mdt.einsum("ij,jk->ik", A, B, precision="tf32", out=out)
    np.testing.assert_array_equal(out, expected)
    plan = mdt.compile("ij,jk->ik", A, B, precision="tf32")
    np.testing.assert_array_equal(plan(A, B), expected)
    assert repr(plan).endswith("precision='tf32')")
    relu = mdt.einsum("ij,jk->ik", A, B, precision="tf32", epilogue=lambda x: np.maximum(x, 0))
    np.testing.assert_allclose(relu, np.maximum(expected, 0), rtol=1e-5, atol=1e-6)


def test_it_is_part_of_the_problem() -> None:
    rounded, exact = problem_of("tf32"), problem_of(None)
    assert problem_key(rounded).startswith("mul_tf32/add 64,512+,48 float32")
    assert problem_key(exact).startswith("mul/add 64,512+,48 float32")
    assert replace(rounded, scalar=rounded.scalar.exact()) == exact


def test_only_devices_that_round_have_problems_of_their_own() -> None:
    target = open_device().target
    plan = mdt.compile("ij,jk->ik", A, B, precision="tf32")
    exact = mdt.compile("ij,jk->ik", A, B)
    assert plan.md_homs != exact.md_homs
    for matrices in (False, True):
        rounds = replace(target, matrices=matrices)
        problems = {problem_of_device(p.md_homs[0], rounds) for p in (plan, exact)}
        assert len(problems) == 1 + matrices


@pytest.mark.parametrize("dtype", ["f2", "f8", "c8", "i4"])
def test_other_types_are_as_they_are(dtype: str) -> None:
    assert problem_of("tf32", dtype) == problem_of(None, dtype)


def test_elements_that_are_only_summed_up_are_no_factors() -> None:
    specs = [TensorSpec.of((64, 512), "f4")]
    md_homs = [md_hom_from_einsum("ij->i", specs, precision=p) for p in ("tf32", None)]
    assert md_homs[0] == md_homs[1]


@pytest.mark.parametrize("word", ["fp8", "TF32", "", 1, ["tf32"]])
@pytest.mark.parametrize("more", [{}, {"epilogue": "relu"}])
def test_unknown_words_are_refused(word: Any, more: dict[str, str]) -> None:
    for call in (mdt.einsum, mdt.compile):
        with pytest.raises(ShapeError, match=r"precision is .*\n  hint: one of 'tf32', or None"):
            call("ij,jk->ik", A, B, precision=word, **more)


@pytest.mark.parametrize(
    "more", [{"semiring": "min_plus"}, {"combine": "max"}, {"f": lambda a, b: a * b}]
)
def test_other_operations_have_no_precision(more: dict[str, Any]) -> None:
    with pytest.raises(TranslationError, match="precision='tf32' is for sums of products"):
        mdt.einsum("ij,jk->ik", A, B, precision="tf32", **more)


def to_ten_bits(values: np.ndarray) -> np.ndarray:
    """Rounded to the nearest number of ten bits after the point."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def to_seven_bits(values: np.ndarray) -> np.ndarray:
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


def as_is(values: np.ndarray) -> np.ndarray:
    return values


@pytest.mark.parametrize(
    ("precision", "taken", "passes"),
    [
        (None, as_is, True),
        (None, to_ten_bits, False),
        ("tf32", as_is, True),
        ("tf32", to_ten_bits, True),
        ("tf32", to_seven_bits, False),
    ],
)
def test_candidates_may_be_as_wrong_as_ten_bits_make_them(
    precision: str | None, taken: Callable[[np.ndarray], np.ndarray], passes: bool
) -> None:
    arena = TrialBuffers(problem_of(precision))
    a, b = (taken(flat.memory) for flat in arena.inputs)
    arena.poison()
    _fill(arena.outputs[0], a.reshape(64, 512) @ b.reshape(512, 48))
    assert (arena.wrong() == "") == passes


def test_a_candidate_that_lacks_a_tile_of_the_reduction_is_wrong() -> None:
    arena = TrialBuffers(problem_of("tf32"))
    a, b = (to_ten_bits(flat.memory) for flat in arena.inputs)
    arena.poison()
    _fill(arena.outputs[0], a.reshape(64, 512)[:, :480] @ b.reshape(512, 48)[:480])
    assert "exceeds" in arena.wrong()


def test_exact_candidates_and_rounded_ones_are_the_same_to_each_other() -> None:
    arena = TrialBuffers(problem_of("tf32"))
    for taken in (as_is, to_ten_bits, as_is):
        a, b = (taken(flat.memory) for flat in arena.inputs)
        arena.poison()
        _fill(arena.outputs[0], a.reshape(64, 512) @ b.reshape(512, 48))
        assert arena.wrong() == ""


def _fill(flat: Flat, results: np.ndarray) -> None:
    flat.memory[flat.origin : flat.origin + results.size] = results.ravel()


def test_convolutions_take_a_precision_too() -> None:
    img, flt = RNG.random((2, 9, 8, 4), np.float32), RNG.random((3, 3, 3, 4), np.float32)
    for options in ({}, {"padding": 1}, {"stride": 2, "epilogue": "relu"}, {"groups": 1}):
        expected = mdt.conv(img, flt, **options)
        np.testing.assert_array_equal(mdt.conv(img, flt, precision="tf32", **options), expected)
    plan = mdt.compile(mdt.conv, img, flt, padding=1, precision="tf32")
    assert repr(plan).endswith("padding=1, precision='tf32')")
    assert [str(md_hom.scalar) for md_hom in plan.md_homs] == ["constant", "copy", "mul_tf32"]
    capsules = RNG.random((1, 5, 5, 2, 4, 4)), RNG.random((3, 3, 3, 2, 4, 4))  # in float64
    np.testing.assert_array_equal(
        mdt.conv_capsule(*capsules, precision="tf32"), mdt.conv_capsule(*capsules)
    )
    with pytest.raises(ShapeError, match=r"precision is 'f4'.*\n  hint: one of 'tf32', or None"):
        mdt.conv(img, flt, precision="f4")


def test_padded_convolutions_have_products_of_matrices() -> None:
    """The guards of a padded one are zeros that bulk copies fill in."""
    geometry = Geometry(stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1))
    specs = TensorSpec.of((4, 28, 28, 64)), TensorSpec.of((128, 3, 3, 64))
    layout = parse_layout("NHWC,KRSC->NPQK")
    found = replace(convolution_from_layout(layout, geometry, specs), precision="tf32")
    whole = md_homs_from_convolution(found).whole
    assert whole is not None
    problem = problem_from_md_hom(whole)
    assert zero_filled(problem).scalar.precision == "tf32"
    assert ranked_on_gpu(problem, HOPPER)[0][1].bulk
