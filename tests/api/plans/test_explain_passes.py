"""What `explain` says of passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.api.plans.explain_passes import passes_of, passes_text
from mdtensor.api.plans.plan import Plan
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.passes import PASSES
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.generic_problem import GENERALISE
from mdtensor.lower.problem.problem_of_device import problem_of_device
from mdtensor.translate.md_hom import MDHom
from tests.kernels.kernel_cases import cpu
from tests.targets import CPU

PLANS = {
    "einsum": lambda: mdt.compile("ij,jk->ik", mdt.spec((64, 128)), mdt.spec((128, 32))),
    "padded convolution": lambda: mdt.compile(
        mdt.conv, mdt.spec((1, 6, 6, 2)), mdt.spec((4, 3, 3, 2)), padding=1
    ),
    "scan": lambda: mdt.compile(mdt.scan, "i->i", mdt.spec((99,))),
}


def lower_complex_sums(md_hom: MDHom) -> None:
    problem = problem_of_device(md_hom, CPU)
    GENERALISE(problem)
    schedule = cpu(2, (1,), lane=0, width=2, registers=(2, 1), staged=("",))
    program_of(problem, schedule, OPENCL, "sums of rows")


def test_the_text_of_a_small_case(golden: Callable[[str, str], None]) -> None:
    (md_hom,) = mdt.compile("ij->i", mdt.spec((4, 6), "c8")).md_homs
    lines = passes_text(passes_of(lambda: lower_complex_sums(md_hom)), "opencl")
    golden("passes/explained/complex_sums.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("make", PLANS.values(), ids=PLANS)
def test_all_passes_of_a_plan_are_shown_in_order(make: Callable[[], Plan]) -> None:
    plan = make()
    text = plan.explain(passes=True)
    parts = text.split("\npasses\n")
    assert len(parts) == len(plan.md_homs) + 1
    names = [each.name for each in PASSES]
    for part in parts[1:]:
        headings = [line.strip() for line in part.split("\n\nmd_hom")[0].splitlines()]
        found = [line.partition(":")[0] for line in headings if line.partition(":")[0] in names]
        assert found == names
    assert "flatten: MDHom -> Problem\n    dims " in text
    assert "emit loops: Problem -> LoopNests\n    " in text
    assert "lift operators: changes nothing\n" in text
    assert "fuse kernels: not needed\n" in text


@pytest.mark.parametrize("make", PLANS.values(), ids=PLANS)
def test_the_last_pass_makes_the_source_that_runs(make: Callable[[], Plan]) -> None:
    plan, engine = make(), registry.engine_for()
    for md_hom, choice in zip(plan.md_homs, plan.choices(), strict=True):
        assert choice.variant is not None
        ran = passes_of(lambda m=md_hom, c=choice: engine.source_again(m, c))
        name, after = ran[-1][0].name, ran[-1][2]
        assert (name, after.text) == ("render", choice.source.text)


def test_a_kernel_with_constants_is_not_generalised() -> None:
    plan, engine = PLANS["einsum"](), registry.engine_for()
    (choice,) = plan.choices()
    own = replace(choice, variant=None)
    ran = passes_of(lambda: engine.source_again(plan.md_homs[0], own))
    assert GENERALISE not in [each for each, _, _ in ran]
    assert ran[-1][2].sizes == ()


def test_what_runs_twice_is_told_once() -> None:
    (md_hom,) = PLANS["einsum"]().md_homs

    def twice() -> None:
        problem_of_device(md_hom, CPU)
        problem_of_device(md_hom, CPU)

    ran = passes_of(twice)
    assert ran == passes_of(lambda: problem_of_device(md_hom, CPU))
