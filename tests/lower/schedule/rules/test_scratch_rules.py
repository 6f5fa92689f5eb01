"""Scratch memory: what the rule counts is what kernels ask for, and nothing takes more."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from mdtensor.autotune.space.space import Space
from mdtensor.errors import LoweringError
from mdtensor.lower.cpu.cpu_configurations import schedule_on_cpu
from mdtensor.lower.lowering import lowered
from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scratch_memory import operand_bytes
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.rules.scratch_rules import scratch_bytes, within_scratch
from mdtensor.lower.schedule.rules.valid import validate
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.search.candidates import ranked
from mdtensor.lower.search.schedule_space import configuration_from, parameters_of
from tests.lower.fuzz import random_case
from tests.problems import einsum_problem as problem_of
from tests.targets import CPU, H200

ALLOWED = 64 << 20


def network(seed: int) -> tuple[Problem, int]:
    """Two tensors with many dims of 2 or 3 that share some, and the bytes of all three."""
    rng = Random(seed)
    extent = rng.choice((2, 3))
    first, second = rng.randint(10, 18 if extent == 2 else 12), rng.randint(8, 12)
    shared = rng.randint(max(4, (first + second - 16) // 2), min(first, second) - 2)
    letters = [chr(ord("a") + n) if n < 26 else chr(ord("A") + n - 26) for n in range(38)]
    lhs, own = letters[:first], letters[first : first + second - shared]
    common = rng.sample(lhs, shared)
    rhs = rng.sample([*common, *own], second)
    result = [c for c in lhs if c not in common] + [c for c in rhs if c not in common]
    text = f"{''.join(lhs)},{''.join(rhs)}->{''.join(result)}"
    nbytes = 4 * sum(extent ** len(dims) for dims in (lhs, rhs, result))
    return problem_of(text, (extent,) * first, (extent,) * second), nbytes


def taken(problem: Problem, schedule: Schedule) -> int:
    """What the lowered kernels ask for."""
    return max(kernel.scratch.constant or 0 for kernel in lowered(problem, schedule, aligned=True))


def taken_generally(problem: Problem, schedule: Schedule) -> int:
    """What the kernels with run-time sizes ask for when they are launched with the problem's."""
    structure, sizes = generalised(problem)
    values = dict(zip(structure.sizes, sizes, strict=True))
    for d, extent in enumerate(problem.extent(d) for d in problem.dims):
        blocks = -(-extent // schedule.block(d))
        length = -(-blocks // max(1, schedule.parts[d]))
        values |= {f"B_d{d}": length, f"P_d{d}": -(-blocks // length)}
    parts = tuple(0 if not problem.reduced[d] or p > 1 else 1 for d, p in enumerate(schedule.parts))
    kernels = lowered(structure, replace(schedule, parts=parts, inline=False))
    return max(
        sum(factor * math.prod(values[name] for name in names) for names, factor in terms)
        for terms in (kernel.scratch.terms for kernel in kernels)
    )


def random_pairs(family: str, kind: str, count: int) -> Iterator[tuple[Problem, Schedule]]:
    for number in range(count):
        case = random_case(f"20/{family}/{number}{kind}")
        if not case.general:
            yield from zip(case.problems(), case.schedules, strict=True)


@pytest.mark.parametrize("kind", ["", "/md_hom"])
@pytest.mark.parametrize("family", ["cpu", "gpu"])
def test_the_rule_counts_what_kernels_ask_for(family: str, kind: str) -> None:
    some = 0
    for problem, schedule in random_pairs(family, kind, 150):
        try:
            asked = taken(problem, schedule)
        except LoweringError:
            continue
        assert scratch_bytes(schedule.computed(problem), schedule) == asked
        some += asked > 0
    assert some >= 10


@pytest.mark.parametrize("seed", range(4))
def test_candidates_for_many_short_dims_are_bounded(seed: int) -> None:
    problem, nbytes = network(seed)
    for _, schedule in ranked(problem, CPU):
        validate(problem, schedule)
        assert scratch_bytes(problem, schedule) <= ALLOWED + 2 * nbytes
    best = ranked(problem, CPU)[0][1]
    assert taken(problem, best) == scratch_bytes(problem, best)


@pytest.mark.parametrize("seed", range(4))
def test_candidates_for_general_kernels_are_bounded_by_what_they_take_there(seed: int) -> None:
    problem, nbytes = network(seed)
    staged = [s for _, s in ranked(problem, CPU, general=True) if any(s.staged)]
    for schedule in staged[:6]:
        asked = taken_generally(problem, schedule)
        assert asked <= scratch_bytes(problem, schedule, general=True)
        assert asked <= ALLOWED + 2 * nbytes


@pytest.mark.parametrize("seed", range(2))
def test_what_a_space_draws_is_bounded(seed: int) -> None:
    shapes = ((2,) * 9, (2,) * 8)
    problem = problem_of("abcdefghi,cdefijkl->abghjkl", *shapes)
    space, rng = Space(parameters_of(problem, CPU)), Random(seed)
    for _ in range(25):
        drawn = schedule_on_cpu(problem, space.sample(rng))
        validate(problem, drawn)
        assert taken(problem, drawn) <= ALLOWED + 2 * 4 * (2**9 + 2**8 + 2**7)


def in_groups(problem: Problem, groups: int) -> Schedule:
    """The simplest schedule, whose only reduction so many groups share."""
    (reduced,) = problem.contracted
    return replace(plain(problem), parts=tuple(groups if d == reduced else 1 for d in problem.dims))


def test_the_allowance_does_not_grow_with_the_groups() -> None:
    problem = problem_of("ki,kj->ij", (1 << 16, 512), (1 << 16, 512))
    message = (
        "137438953472 bytes of scratch memory for a problem that may have 606076928:"
        " fewer groups share a reduction, or fewer inputs are staged in smaller tiles"
    )
    with pytest.raises(LoweringError, match=f"^{re.escape(message)}$"):
        validate(problem, in_groups(problem, 1 << 16))
    validate(problem, in_groups(problem, 64))


def test_every_group_has_staged_tiles_of_its_own() -> None:
    problem = problem_of("ij,jk->ik", (4096, 1024), (1024, 64))
    whole = replace(plain(problem), staged=("scratch", ""))
    validate(problem, whole)
    columns = replace(whole, parts=(1, 1, 16))
    message = "268435456 bytes of scratch memory for a problem that may have 103284736:"
    with pytest.raises(LoweringError, match=f"^{message}"):
        validate(problem, columns)
    validate(problem, replace(whole, parts=(16, 1, 1)))


def test_a_configuration_that_takes_too_much_stages_nothing_and_shares_no_reduction() -> None:
    problem = problem_of("ki,kj->ij", (1 << 16, 512), (1 << 16, 512))
    drawn = configuration_from(problem, in_groups(problem, 1 << 16))
    assert schedule_on_cpu(problem, drawn) == plain(problem)
    little = in_groups(problem, 64)
    assert schedule_on_cpu(problem, configuration_from(problem, little)) == little


@pytest.mark.parametrize(
    ("text", "shapes", "dtype"),
    [
        ("ij,jk->ik", ((30, 40), (40, 50)), "f4"),
        ("ij,jk->ik", ((30, 40), (40, 50)), "c16"),
        ("h+r c,r c->h c", ((114, 32), (3, 32)), "f4"),
        ("3h+2r,r->h", ((300,), (7,)), "f8"),
    ],
)
def test_operands_count_once_however_often_their_elements_are_read(
    text: str, shapes: tuple[tuple[int, ...], ...], dtype: str
) -> None:
    whole = sum(math.prod(shape) for shape in shapes) * np.dtype(dtype).itemsize
    problem = problem_of(text, *shapes, dtype=dtype)
    assert 0.9 * whole < operand_bytes(problem) <= whole


def test_one_cell_for_each_result_is_allowed_however_small_results_are() -> None:
    problem = problem_of("ki,kj->ij", (2, 1 << 13), (2, 1 << 13), dtype="u1")
    scattered = replace(in_groups(problem, 1), scatter=True)
    assert scratch_bytes(problem, scattered) == 8 << 26
    assert within_scratch(problem, scattered) == scattered


def test_groups_of_a_gpu_are_bounded_too() -> None:
    problem = problem_of("ki,kj->ij", (1 << 14, 2048), (1 << 14, 2048))
    for _, schedule in ranked(problem, H200, most=20):
        validate(schedule.computed(problem), schedule)
