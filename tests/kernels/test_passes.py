"""The list of passes: what runs is listed, in that order, and what is listed runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.llvm.language import LLVM_IR_AVX512
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.passes import PASSES
from mdtensor.kernels.program import program_of
from mdtensor.lower.pass_runner import Pass, run, watched
from mdtensor.lower.problem.generic_problem import GENERALISE
from mdtensor.lower.problem.problem_of_device import problem_of_device
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import Target, TensorSpec
from mdtensor.translate.md_hom import MDHom
from tests.lower.codegen.test_fuse_kernels import STAGED, chain
from tests.lower.codegen.test_fuse_rows import by_rows
from tests.targets import CPU, H200

PAIRS = replace(CPU, dialect="llvm-avx512", pairs=True)
LANGUAGES = {CPU: OPENCL, H200: CUDA, PAIRS: LLVM_IR_AVX512}
BF16 = np.dtype(ml_dtypes.bfloat16)
F2 = TensorSpec.of((8, 32, 32, 64), "f2"), TensorSpec.of((64, 3, 3, 64), "f2")


def md_hom_of(*call: Any, **options: Any) -> MDHom:
    return mdt.compile(*call, **options).md_homs[-1]


CALLS: dict[str, Callable[[], MDHom]] = {
    "einsum": partial(md_hom_of, "ij,jk->ik", mdt.spec((64, 128)), mdt.spec((128, 32))),
    "shorts": partial(md_hom_of, "ij,jk->ik", mdt.spec((64, 8), BF16), mdt.spec((8, 32), BF16)),
    "complex": partial(md_hom_of, "ij,jk->ik", mdt.spec((8, 8), "c8"), mdt.spec((8, 8), "c8")),
    "logsumexp": partial(md_hom_of, "ij->i", mdt.spec((512, 64)), semiring="logsumexp"),
    "argmax": partial(md_hom_of, mdt.reduce, "ij->i", mdt.spec((512, 64)), combine="argmax"),
    "greatest": partial(md_hom_of, mdt.reduce, "ij->i", mdt.spec((512, 64)), combine="greater"),
    "scan": partial(md_hom_of, mdt.scan, "ij->ij", mdt.spec((9, 64)), combine={"j": "add"}),
    "padded convolution": partial(md_hom_of, mdt.conv, *F2, padding=1),
    "least of bytes": partial(
        md_hom_of, mdt.reduce, "ij,ij->i", *[mdt.spec((64, 64), "i1")] * 2, f=lambda a, b: a < b
    ),
}


def lowered(md_hom: MDHom, target: Target) -> None:
    """The way of every call: a program with constants, and one for all shapes."""
    problem = problem_of_device(md_hom, target)
    dialect = LANGUAGES[target]
    program_of(problem, ranked(problem, target)[0][1], dialect)
    general, _ = GENERALISE(problem)
    (_, schedule), *_ = ranked(problem, target, general=True)
    program_of(general, schedule, dialect)


def names_run_by(function: Callable[[], object]) -> list[str]:
    """The names of the passes that run, in order; each of them is one of the list."""
    found: list[str] = []

    def note(each: Pass[Any, ..., Any], _before: object, _after: object) -> None:
        assert any(each is listed for listed in PASSES)
        found.append(each.name)

    watched(note, function)
    return found


def test_what_is_listed_runs_and_what_runs_is_listed() -> None:
    ran = {
        name
        for call in CALLS.values()
        for target in LANGUAGES
        for name in names_run_by(partial(lowered, call(), target))
    }
    ran |= set(names_run_by(lambda: chain(STAGED, STAGED)))
    ran |= set(names_run_by(lambda: by_rows((1, 4))))
    assert ran == {each.name for each in PASSES}
    assert len(ran) == len(PASSES)


@pytest.mark.parametrize("target", [CPU, H200], ids=lambda target: target.kind)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_they_run_in_the_order_of_the_list(call: Callable[[], MDHom], target: Target) -> None:
    md_hom = call()
    ran = names_run_by(lambda: problem_of_device(md_hom, target))
    problem = problem_of_device(md_hom, target)
    schedule = ranked(problem, target)[-1][1]  # one program for all arrays
    assert not schedule.resident
    ran += names_run_by(lambda: program_of(problem, schedule, OPENCL))
    listed = [each.name for each in PASSES]
    assert [name for name in listed if name in ran] == ran


def test_each_pass_begins_with_what_the_one_before_made() -> None:
    ran: list[tuple[object, object]] = []

    def note(_: object, before: object, after: object) -> None:
        ran.append((before, after))

    watched(note, problem_of_device, CALLS["complex"](), CPU)
    assert len(ran) > 4
    assert all(after is before for (_, after), (before, _) in itertools.pairwise(ran))


def test_who_does_not_watch_any_longer_is_told_nothing() -> None:
    told: list[object] = []
    double: Pass[int, [], int] = Pass("double", lambda number: 2 * number)
    assert watched(lambda *event: told.append(event), run, (double, double), 3) == 12
    assert run((double,), 3) == 6
    assert told == [(double, 3, 6), (double, 6, 12)]
