"""Compilers in processes of their own, and the ends of those that have them, and their forks."""

from __future__ import annotations

import os
import signal
import textwrap
from pathlib import Path

import pytest

from tests import children
from tests.ends import ends, is_running

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))


HEAD = """
    import os, signal, sys, threading, time
    import numpy as np
    import mdtensor as mdt
    import mdtensor.api.engine.compiler_process as compilers
    import mdtensor.api.engine.registry as pipeline
    from mdtensor.api.engine.compiler_process import CompilerApart, CompilerHere
    from mdtensor.lower.schedule.default_schedule import plain
    a = np.random.default_rng(0).random((24, 24), np.float32)
    engine = pipeline.engine_for()
    (md_hom,) = mdt.compile("ij,jk->ik", a, a).md_homs
    problem = engine.problem_of(md_hom)
    source = engine.source(problem, plain(problem))
    apart = CompilerApart(engine.device)
    here = CompilerHere(engine.device, apart)
    def is_right(program):
        program(a, a, result := np.empty_like(a))
        return np.allclose(result, a @ a, rtol=1e-4)
    def until_it_hangs(apart):
        worker = None
        while worker is None or worker._child is None or "hangs" not in worker._child.stderr:
            time.sleep(0.01)
            worker = apart._worker
"""


def words(program: str) -> tuple[str, ...]:
    return "-W", "ignore", "-c", textwrap.dedent(HEAD) + textwrap.dedent(program)


def shown(program: str, status: int = 0) -> str:
    end = children.run(*words(program), code=status)
    assert "Exception ignored" not in end.err
    return end.out


def test_a_process_that_ends_in_the_middle_is_the_last_one() -> None:
    """A call's own compilation: the next process has it tried apart, and then keeps it."""
    crash = """
        engine.device.compile = lambda *_: os.kill(os.getpid(), signal.SIGSEGV)
        here.compile(source)
    """
    survive = """
        engine.device.compile = lambda *_: sys.exit("here")
        print(is_right(here.compile(source)), apart._worker is None)
    """
    shown(crash, status=-signal.SIGSEGV)
    assert shown(survive) == "True False\n"
    assert shown(survive) == "True True\n"


def test_a_program_that_one_process_compiles_is_compiled_by_another_meanwhile() -> None:
    assert (
        shown("""
        whole = engine.device.compile
        def compile(source, sizes=()):
            if threading.current_thread() is threading.main_thread():
                other = threading.Thread(target=lambda: print(is_right(here.compile(source))))
                other.start()
                other.join()
            return whole(source, sizes)
        engine.device.compile = compile
        print(is_right(here.compile(source)), apart._worker)
        """)
        == "True\nTrue None\n"
    )


HANGING = """
    compilers.COMPILER = "tests.api.faulty_compiler:open_hanging"
    served = threading.Thread(target=lambda: apart.compile(source), daemon=True)
    served.start()
    until_it_hangs(apart)
    print(apart._worker.pid, flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_compiler_outlives_a_process_that_is_killed(number: signal.Signals) -> None:
    with children.started(*words(HANGING + "    served.join()\n")) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert is_running(pid)
        process.send_signal(number)
        assert children.finished(process).code == -number
        assert ends(pid)


def test_a_process_ends_while_something_compiles_without_an_end() -> None:
    out = shown("""
        compilers.COMPILER = "tests.api.faulty_compiler:open_hanging"
        import mdtensor.api.engine.cpu_tier as improvement
        improvement.WORTH_OWN_KERNEL = improvement.WORTH_COMPILING = 0.0
        engine.untuned(problem)
        apart = engine.tiers.apart
        until_it_hangs(apart)
        print(apart._worker.pid, flush=True)
    """)
    assert ends(int(out))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_has_a_process_of_its_own_and_leaves_its_parents_alone() -> None:
    out = shown("""
        from dataclasses import replace
        texts = [replace(source, text=source.text + "\\n" * (n + 1)) for n in range(4)]
        right = is_right(apart.compile(texts[0]))
        pid = apart._worker.pid
        child = os.fork()
        if child == 0:
            signal.alarm(200)
            is_other = is_right(apart.compile(texts[1])) and apart._worker.pid != pid
            sys.exit(0 if is_other else 1)  # by all that is done at the end
        _, status = os.waitpid(child, 0)
        right &= is_right(apart.compile(texts[2]))
        print(right, status, apart._worker.pid == pid)
    """)
    assert out == "True 0 True\n"
