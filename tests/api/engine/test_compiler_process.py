"""Compilers in processes of their own: what they make, and what becomes of those that fail."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import compiler_process, cpu_tier, registry
from mdtensor.api.engine.compiler_process import CompilerApart, CompilerHere
from mdtensor.api.engine.engine import Engine
from mdtensor.autotune.store.store import Store
from mdtensor.backends.select import open_device
from mdtensor.errors import CompileError, CompilerFailedError, ShapeError
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.specs import TensorSpec
from tests.api.faulty_compiler import crashed_unless_in
from tests.hurried import at_once
from tests.problems import einsum_problem

process = pytest.mark.process
FAULTY = "tests.api.faulty_compiler"
# A product of complex64 by loops that Intel's compiler may make vectors of, and crashes (ADR 4).
CRASHES = """
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1,
              BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  for (long i = 0; i < 40; i++) {
    for (long k = 0; k < 50; k++) {
      __global float* o = O0 + 2*k + 100*i;
      float re = 0.0f;
      float im = 0.0f;
      for (long j = 0; j < 101; j++) {
        __global const float* p0 = I0 + 202*i + 2*j;
        __global const float* p1 = I1 + 2*k + 100*j;
        re = re + fma(-p0[1], p1[1], p0[0]*p1[0]);
        im = im + fma(p0[1], p1[0], p0[0]*p1[1]);
      }
      o[0] = re;
      o[1] = im;
    }
  }
}
"""
ROOT = Path(__file__).parents[3]
A, B = np.random.default_rng(0).standard_normal((2, 24, 24), np.float32)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def opened() -> Iterator[Callable[[], CompilerApart]]:
    """Makes compilers, as processes that come one after the other do."""
    made: list[CompilerApart] = []

    def make() -> CompilerApart:
        made.append(CompilerApart(registry.engine_for().device))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def source() -> KernelSource:
    return product(registry.engine_for())


def product(engine: Engine) -> KernelSource:
    (md_hom,) = mdt.compile("ij,jk->ik", A, B).md_homs
    problem = engine.problem_of(md_hom)
    return engine.source(problem, plain(problem))


def starts(compiler: CompilerApart) -> int:
    return 0 if compiler._worker is None else compiler._worker.starts


def computed(program: Any) -> bytes:
    result = np.full_like(A, np.nan)
    program(A, B, result)
    np.testing.assert_allclose(result, A @ B, rtol=1e-4, atol=1e-5)
    return result.tobytes()


@process
def test_a_program_is_the_same_as_one_compiled_here_and_is_kept(
    opened: Callable[[], CompilerApart], source: KernelSource
) -> None:
    first, second = opened(), opened()
    device = registry.engine_for().device
    here = computed(device.load(device.compiled(source)))
    assert computed(first.compile(source)) == here
    assert starts(first) == 1
    assert computed(second.compile(source)) == here
    assert computed(CompilerHere(second._device, second).compile(source)) == here
    assert starts(second) == 0, "it was kept"


@process
def test_functions_are_called_in_the_process_and_raise_here(
    opened: Callable[[], CompilerApart],
) -> None:
    compiler = opened()
    assert compiler.call(os.getpid) != os.getpid()
    assert compiler.call(TensorSpec.of, (2, 3), "f4") == TensorSpec.of((2, 3), "f4")
    with pytest.raises(ShapeError, match="negative") as here:
        TensorSpec.of((-1,))
    with pytest.raises(ShapeError) as there:
        compiler.call(TensorSpec.of, (-1,))
    assert str(there.value) == str(here.value)
    assert starts(compiler) == 1


@process
def test_a_function_is_called_here_where_the_process_ends(
    opened: Callable[[], CompilerApart],
) -> None:
    assert opened().call(crashed_unless_in, os.getpid()) == os.getpid()


@process
def test_what_is_kept_and_refused_is_compiled_again(
    opened: Callable[[], CompilerApart], source: KernelSource
) -> None:
    compiler = opened()
    machine = compiler._machine_code(compiler._opened(), "key", source)  # pyright: ignore
    compiler._device.binaries.put(
        compiler._device.machine_code_key(source), replace(machine, code=b"no code")
    )
    computed(compiler.compile(source))
    assert starts(compiler) == 1


@process
def test_a_crash_costs_the_kernel_and_is_not_met_again(
    opened: Callable[[], CompilerApart],
    source: KernelSource,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(compiler_process, "COMPILER", f"{FAULTY}:open_crashing")
    caplog.set_level(logging.INFO, "mdtensor")
    first, later = opened(), opened()
    said = "a compiler crashed on a generated kernel: the worker was ended by SIGSEGV"
    for compiler, began in ((first, 1), (first, 1), (later, 0)):
        with pytest.raises(CompilerFailedError, match=said) as caught:
            compiler.compile(source)
        assert caught.value.failure == "crashed"
        assert starts(compiler) == began
    with pytest.raises(CompilerFailedError, match=said):
        CompilerHere(later._device, later).compile(source)
    (line,) = caplog.messages
    comment = source.text.partition(" ")[0]
    assert line.startswith(f"{said}\n{comment} mul/add 24,24+,24 ")


@process
def test_a_text_that_crashes_intels_compiler_costs_no_process_of_the_users() -> None:
    """Where it crashes depends on the processor; this process goes on in any case."""
    store = Store.in_memory()
    engine = Engine(open_device("opencl"), lambda: store)
    source, compiler = product(engine), CompilerApart(engine.device)
    with closing(compiler):
        with contextlib.suppress(CompilerFailedError):
            compiler.compile(replace(source, text=CRASHES))
        computed(compiler.compile(source))


@process
def test_one_that_somebody_killed_is_begun_again(
    opened: Callable[[], CompilerApart],
    source: KernelSource,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler_process, "COMPILER", f"{FAULTY}:open_killed_once")
    monkeypatch.setenv("WAS_KILLED", str(tmp_path / "killed"))
    compiler = opened()
    computed(compiler.compile(source))
    assert starts(compiler) == 2


@process
def test_one_that_is_killed_every_time_is_given_up_by_this_process_alone(
    opened: Callable[[], CompilerApart], source: KernelSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler_process, "COMPILER", f"{FAULTY}:open_killed")
    compiler, later = opened(), opened()
    for _ in range(2):
        with pytest.raises(CompilerFailedError, match=r"was cut off .* ended by SIGKILL"):
            compiler.compile(source)
    assert starts(compiler) == 2
    monkeypatch.setattr(
        compiler_process, "COMPILER", "mdtensor.api.engine.compiler_process:open_compiler"
    )
    computed(later.compile(source))


@process
@pytest.mark.parametrize(
    ("entry", "said"),
    [("open_hanging", "hung .* for 1 seconds"), ("open_working", "hung .* of processor time")],
)
def test_one_that_hangs_is_killed_and_not_met_again(
    opened: Callable[[], CompilerApart],
    source: KernelSource,
    monkeypatch: pytest.MonkeyPatch,
    entry: str,
    said: str,
) -> None:
    monkeypatch.setattr(compiler_process, "COMPILER", f"{FAULTY}:{entry}")
    first, later = opened(), opened()
    assert first._opened(), "the process begins, which takes a while beside others"
    monkeypatch.setattr(
        compiler_process, "_MOST_WAITING", 1.0 if entry == "open_hanging" else 250.0
    )
    for compiler, began in ((first, 1), (later, 0)):
        with pytest.raises(CompilerFailedError, match=said) as caught:
            compiler.compile(source)
        assert caught.value.failure == "hung"
        assert starts(compiler) == began


@process
def test_what_the_compiler_refuses_is_refused(
    opened: Callable[[], CompilerApart], source: KernelSource
) -> None:
    compiler = opened()
    for _ in range(2):
        with pytest.raises(CompileError, match="refused a kernel") as caught:
            compiler.compile(replace(source, text=source.text + "nonsense"))
        assert type(caught.value) is CompileError
    assert starts(compiler) == 1


@pytest.mark.parametrize(
    "why",
    [
        *("variable", "frozen", "embedded"),
        *(pytest.param(why, marks=process) for why in ("no program", "fails", "no more")),
    ],
)
def test_where_there_can_be_no_process_this_one_compiles(
    opened: Callable[[], CompilerApart],
    source: KernelSource,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:
    def no_more(self: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.delenv(compiler_process.VARIABLE, raising=False)
    match why:
        case "variable":
            monkeypatch.setenv(compiler_process.VARIABLE, "0")
        case "frozen":
            monkeypatch.setattr(sys, "frozen", True, raising=False)
        case "embedded":
            monkeypatch.setattr(sys, "executable", "/usr/bin/an-editor")
        case "no program":
            monkeypatch.setattr(sys, "executable", "/nowhere/python3")
        case "fails":
            monkeypatch.setattr(
                compiler_process, "COMPILER", "tests.autotune.worker_targets:fails_to_load"
            )
        case _:
            monkeypatch.setattr("threading.Thread.start", no_more)
    compiler = opened()
    computed(compiler.compile(source))
    computed(compiler.compile(source))
    assert starts(compiler) == (why in ("no program", "fails", "no more"))


@process
def test_where_nothing_can_be_kept_everything_goes_on(
    source: KernelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = CompilerApart(registry.engine_for().device)
    shutil.rmtree(tmp_path / "programs", ignore_errors=True)  # what opening the device kept
    (tmp_path / "programs").write_text("in the way")
    computed(compiler.compile(source))
    computed(CompilerHere(compiler._device, compiler).compile(source))
    compiler.close()
    monkeypatch.setattr(compiler_process, "COMPILER", f"{FAULTY}:open_crashing")
    other = CompilerApart(compiler._device)
    for _ in range(2):
        with pytest.raises(CompilerFailedError, match="crashed"):
            other.compile(source)
    assert starts(other) == 1
    other.close()


@process
def test_a_call_goes_on_with_its_kernel_where_the_compiler_crashes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler_process, "COMPILER", f"{FAULTY}:open_crashing")
    monkeypatch.setattr(cpu_tier, "WORTH_OWN_KERNEL", 0.0)
    monkeypatch.setattr(cpu_tier, "WORTH_COMPILING", 0.0)
    engine = Engine(registry.engine_for().device, Store.in_memory)
    problem = einsum_problem("ij,jk->ik", (13, 14), (14, 15))
    a, b = (np.ones(shape, np.float32) for shape in ((13, 14), (14, 15)))
    for _ in range(3):
        choice = engine.untuned(problem)
        assert "general" in choice.origin
        choice.program(a, b, result := np.empty((13, 15), np.float32))
        assert (result == 14).all()
        engine.settle(timeout=600)
    compiler = engine.tiers.apart
    assert 1 <= starts(compiler) <= 3, "its own kernel crashes it, and perhaps a general one"
    engine.tiers.background.finish()


@process
def test_two_processes_at_once_make_the_same(
    opened: Callable[[], CompilerApart], source: KernelSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both begin since nothing is kept yet, and both keep theirs when both have it."""
    meeting, found = threading.Barrier(2, timeout=250), list[bytes]()
    compilers = opened(), opened()
    binaries = compilers[0]._device.binaries
    put = binaries.put

    def put_together(*given: Any) -> None:
        meeting.wait()
        put(*given)

    monkeypatch.setattr(binaries, "put", put_together)
    at_once(
        *[partial(lambda each: found.append(computed(each.compile(source))), c) for c in compilers]
    )
    assert [starts(each) for each in compilers] == [1, 1]
    assert len(found) == 2
    assert len({*found}) == 1


@process
def test_after_a_rest_the_next_program_begins_another_process(
    opened: Callable[[], CompilerApart], source: KernelSource
) -> None:
    compiler = opened()
    computed(compiler.compile(source))
    first = compiler._worker
    assert compiler.is_ready
    compiler.rest()
    assert not compiler.is_ready
    assert first is not None
    assert first.pid is None
    computed(compiler.compile(replace(source, text=source.text + "\n")))
    assert compiler.is_ready
    assert compiler._worker is not first
