"""Programs are plain data: compared by value, hashed, pickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import mdtensor as mdt
from mdtensor.api.plans.bound_arguments import stand_ins_of
from mdtensor.api.plans.call_plan import planned
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom_program import Program

X, IMG, FLT = mdt.spec((6, 5)), mdt.spec((1, 8, 8, 4)), mdt.spec((4, 3, 3, 4))
CALLS: dict[str, tuple[Callable[..., Any], tuple[TensorSpec, ...]]] = {
    "einsum": (lambda x, y: mdt.einsum("ij,kj->ik", x, y), (X, X)),
    "softmax": (mdt.softmax, (X,)),
    "padded convolution": (lambda img, flt: mdt.conv(img, flt, padding=1), (IMG, FLT)),
    "filter": (lambda x: mdt.ndimage.gaussian_filter(x, 1.0), (X,)),
    "lazy": (lambda x: (mdt.lazy(x) - mdt.lazy(x).mean(0)).evaluate(), (X,)),
}


def program_of_call(name: str) -> Program:
    function, specs = CALLS[name]
    seen, _ = planned(function, *stand_ins_of(specs))
    return seen[0].request.program


@pytest.mark.parametrize("name", CALLS)
def test_programs_are_plain_data(name: str) -> None:
    program = program_of_call(name)
    copy = pickle.loads(pickle.dumps(program))
    assert copy == program
    assert hash(copy) == hash(program)
    assert copy != replace(program, fills=(1.0,))


def test_alternatives_are_no_part_of_what_is_compared() -> None:
    program = program_of_call("padded convolution")
    assert program.alternatives is not None
    assert replace(program, alternatives=None) == program
    whole, affine = program.alternatives.whole(), program.alternatives.affine()
    assert whole is not None
    assert Program.of(whole).results == affine.results == program.results
    copy = pickle.loads(pickle.dumps(program))
    assert copy.alternatives == program.alternatives


def test_a_program_of_one_md_hom() -> None:
    program = Program.of(md_hom_from_einsum("ij->i", (mdt.spec((3, 4)),)))
    assert program.is_one_kernel
    assert (program.operands, list(program.result_slots), program.between) == (1, [1], {})
    assert program.lifetimes == {0: (0, 0), 1: (0, 0)}
