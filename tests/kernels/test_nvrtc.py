"""CUDA text compiled by NVRTC, which needs no GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cstyle import render
from mdtensor.kernels.cuda import CUDA
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.ir.statements import VectorStore
from mdtensor.lower.ir.values import Calc, FromIndex, Gather, Iota, Load, Shift
from mdtensor.lower.lowering import lowered
from tests.kernels.kernel_cases import GPU_CASES, source
from tests.kernels.nvrtc_compiler import ARCHITECTURES, RefusedError, compiled
from tests.lower import fuzz
from tests.lower.fuzz_cuda import alone


@pytest.mark.sampled(24)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", GPU_CASES)
def test_compiles(name, architecture):
    program = source(name, CUDA)
    ptx = compiled(program.text, architecture)
    for entry in program.entries:
        assert f".entry {entry.name}(" in ptx


def test_what_is_no_cuda_is_refused():
    text = source("gpu_outer", CUDA).text.replace("const int group", "const vector group")
    with pytest.raises(RefusedError, match=r'identifier "vector" is undefined'):
        compiled(text, "sm_80")


def random_nests(kind: str) -> Iterator[tuple[LoopNest, ...]]:
    """The kernels of random cases of the GPU family."""
    for name in fuzz.names_of(4, ("gpu",), 40, kind=kind):
        case = fuzz.random_case(name)
        for problem, schedule in zip(case.problems(), case.schedules, strict=True):
            with contextlib.suppress(LoweringError):
                yield lowered(problem, schedule)


@pytest.mark.parametrize("kind", ["", fuzz.MD_HOM])
def test_random_kernels_compile(kind):
    count = 0
    for nests in random_nests(kind):
        compiled(render(nests, CUDA).text, "sm_80")
        count += 1
    assert count > 30


@pytest.mark.parametrize(
    "name", ["51/gpu/583" + fuzz.MD_HOM, "62/gpu/272", "612/gpu/1174" + fuzz.MD_HOM]
)
def test_what_the_compiler_did_not_end_well_on_compiles(name):
    """In a process of its own, which the compiler ended or never left (docs/adr/0004)."""
    assert alone(compiled_case, name, 60) == "compiled"


def compiled_case(name: str) -> tuple[str, str]:
    """The name of a random case, and that its kernels compile."""
    case = fuzz.random_case(name)
    for problem, schedule in zip(case.problems(), case.schedules, strict=True):
        compiled(render(lowered(problem, schedule), CUDA).text, "sm_80")
    return name, "compiled"


def test_no_kernel_for_gpus_has_vectors():
    """CUDA spells no Iota, Gather or Shift: what they need is lanes."""
    kinds = set[type]()
    for nests in random_nests(fuzz.MD_HOM):
        for node in (node for nest in nests for node in nodes_of(nest)):
            assert getattr(node, "lanes", 1) == 1
            kinds.add(type(node))
    assert {FromIndex, Calc, Load, VectorStore} <= kinds
    assert not kinds & {Iota, Gather, Shift}


def nodes_of(value: object) -> Iterator[object]:
    """A nest with all statements and values in it."""
    if isinstance(value, tuple):
        for part in value:
            yield from nodes_of(part)
    elif is_dataclass(value):
        yield value
        for part in fields(value):
            yield from nodes_of(getattr(value, part.name))
