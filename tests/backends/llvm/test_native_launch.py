"""Launches by the built-in function and its pool: threads, forks, exits, wrong arguments."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest

from mdtensor.backends.host import thread_count
from mdtensor.backends.llvm.jit_compiler import JitCompiler
from mdtensor.backends.llvm.native_launch import NAMES, NativeLaunch, runtime_ir
from mdtensor.backends.llvm.thread_pool import PARTS_PER_THREAD
from tests import children
from tests.hurried import at_once


def kernel(name: str, begin: str, work: str, declared: str = "") -> str:
    """A kernel that does `work` for each %group of a part, after what it does to `begin`."""
    return f"""
{declared}
define void @{name}(ptr %arguments, ptr %sizes, i64 %begin, i64 %end) {{
  %array = load ptr, ptr %arguments
  {begin}
  br label %next
next:
  %group = phi i64 [ %begin, %0 ], [ %following, %work ]
  %more = icmp ult i64 %group, %end
  br i1 %more, label %work, label %done
work:
  %place = getelementptr i64, ptr %array, i64 %group
  {work}
  %following = add i64 %group, 1
  br label %next
done:
  ret void
}}
"""


# Each group counts how often it ran, and a word of its own begins a part's.
COUNT = kernel(
    "count",
    """
  %parts_at = getelementptr ptr, ptr %arguments, i64 1
  %parts = load ptr, ptr %parts_at
  %before = atomicrmw add ptr %parts, i64 1 seq_cst
""",
    "%was = atomicrmw add ptr %place, i64 1 seq_cst",
)
# Each group writes the thread that it runs on.
WHOSE = kernel(
    "whose",
    "%own = call i64 @pthread_self()",
    "store i64 %own, ptr %place",
    "declare i64 @pthread_self()",
)


@pytest.fixture(scope="module")
def jit():
    return JitCompiler()


def made(jit, threads, groups, *, inline=False, team=None):
    runtime = NativeLaunch(*jit.addresses(jit.object_code(runtime_ir(threads)), NAMES))
    if team is not None:
        runtime.join_team(ctypes.cast(team, ctypes.c_void_p).value)
    (count,), library = jit.addresses(jit.object_code(COUNT), ["count"])
    kernels = [(count, groups), (count, groups)]
    return runtime.launcher(kernels, 2, (library,), inline=inline)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("groups", [1, 2, 3, 7, 1000])
def test_parts_are_all_groups_once(jit, threads, groups):
    launch = made(jit, threads, groups)
    for _ in range(50):
        seen, parts = np.zeros(groups, np.int64), np.zeros(1, np.int64)
        launch(seen, parts)
        assert (seen == 2).all()
        assert parts[0] == 2 * min(groups, threads * PARTS_PER_THREAD)


def test_inline_launches_are_one_part(jit):
    seen, parts = np.zeros(9, np.int64), np.zeros(1, np.int64)
    made(jit, 4, 9, inline=True)(seen, parts)
    assert (seen == 2).all()
    assert parts[0] == 2


REGION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@ctypes.CFUNCTYPE(None, REGION, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
def parallel(region, data, threads, flags):
    """GOMP_parallel by four threads of Python's, as many as are wanted where that is not said."""
    REGIONS.append((data, threads, flags))
    team = [threading.Thread(target=region, args=(data,)) for _ in range(3)]
    for each in team:
        each.start()
    region(data)
    for each in team:
        each.join()


REGIONS: list[tuple[object, int, int]] = []


@pytest.mark.parametrize("groups", [2, 3, 7, 1000])
def test_threads_of_a_team_take_the_parts(jit, groups):
    launch = made(jit, 2, groups, team=parallel)
    REGIONS.clear()
    for _ in range(20):
        seen, parts = np.zeros(groups, np.int64), np.zeros(1, np.int64)
        launch(seen, parts)
        assert (seen == 2).all()
        assert parts[0] == 2 * min(groups, 2 * PARTS_PER_THREAD)
    assert REGIONS == [(None, 0, 0)] * 40  # two kernels each, by as many threads as torch has


@pytest.mark.process
def test_a_team_is_left_in_the_child_of_a_fork():
    code = """
import ctypes
from mdtensor.backends.host import openmp_team
@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
def parallel(region, data, threads, flags):
    global regions
    regions += 1
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(region)(data)
regions = 0
address = ctypes.cast(parallel, ctypes.c_void_p).value
openmp_team.parallel_of_torch = lambda: address
openmp_team.share_threads_of_torch()
check()
assert regions >= 20
before = regions
child = os.fork()
if child == 0:
    openmp_team._found = 0
    openmp_team.share_threads_of_torch()  # as a first tensor does
    check()
    os._exit(regions - before)
assert os.waitpid(child, 0)[1] == 0
"""
    run(code)


class Derived(np.ndarray):
    """An array of another type."""


def test_arrays_of_derived_types_are_arrays(jit):
    seen, parts = np.zeros(9, np.int64), np.zeros(1, np.int64)
    made(jit, 2, 9)(seen.view(Derived), parts)
    assert (seen == 2).all()


@pytest.mark.parametrize("arguments", [(), (np.zeros(4, np.int64),), ([1], [2]), (None, None)])
def test_what_is_no_array_is_refused(jit, arguments):
    with pytest.raises(
        TypeError, match=r"^a kernel takes NumPy arrays, one for each of its operands and results$"
    ):
        made(jit, 2, 4)(*arguments)


PROGRAM = """
import os, threading
import numpy as np, mdtensor as mdt
mdt.device("llvm")
rng = np.random.default_rng(0)
a, b = rng.random((2, 300, 300))
expected = a @ b
def check(times=20):
    for _ in range(times):
        np.testing.assert_allclose(mdt.einsum("ij,jk->ik", a, b), expected, rtol=1e-12)
check()
"""


def run(code, **changed):
    end = children.run("-W", "ignore", "-c", PROGRAM + code, env=changed)
    assert end.err == ""
    return end.out


@pytest.mark.process
def test_children_of_forks_have_pools_of_their_own():
    run(
        """
busy = True
def work():
    while busy:
        check(1)
threads = [threading.Thread(target=work) for _ in range(3)]
for each in threads: each.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        check()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
busy = False
for each in threads: each.join()
check()
"""
    )


@pytest.mark.process
def test_threads_call_at_one_time():
    run(
        """
wrong = []
def work():
    try:
        check(100)
    except BaseException as error:
        wrong.append(error)
threads = [threading.Thread(target=work) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
assert not wrong, wrong
"""
    )


@pytest.mark.process
def test_processes_end_while_the_pool_is_busy():
    code = """
called = threading.Semaphore(0)
def work():
    while True:
        check(1)
        called.release()
for _ in range(3): threading.Thread(target=work, daemon=True).start()
for _ in range({calls}): called.acquire()
"""
    for calls in range(0, 20, 4):
        run(code.format(calls=calls))


# Each group says that it runs, and goes on when the second word is no longer 0.
WAIT = """
define void @wait(ptr %arguments, ptr %sizes, i64 %begin, i64 %end) {
  %words = load ptr, ptr %arguments
  %is_told = getelementptr i64, ptr %words, i64 1
  %before = atomicrmw add ptr %words, i64 1 seq_cst
  br label %look
look:
  %told = load atomic volatile i64, ptr %is_told seq_cst, align 8
  %waits = icmp eq i64 %told, 0
  br i1 %waits, label %look, label %done
done:
  ret void
}
"""


@pytest.mark.process
def test_a_signal_that_comes_during_a_kernel_is_handled_behind_its_launch(jit):
    runtime = NativeLaunch(*jit.addresses(jit.object_code(runtime_ir(2)), NAMES))
    (wait,), library = jit.addresses(jit.object_code(WAIT), ["wait"])
    launch = runtime.launcher([(wait, 2), (wait, 2)], 1, (library,), inline=False)
    main = threading.get_ident()

    def interrupts():
        while not words[0]:
            time.sleep(0.001)
        signal.pthread_kill(main, signal.SIGINT)
        words[1] = 1

    for _ in range(3):
        words = np.zeros(2, np.int64)
        thread = threading.Thread(target=interrupts)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            launch(words)
        thread.join()
        assert words[0] == 4  # parts: two of each kernel


@pytest.mark.process
def test_one_thread_where_openmp_has_one():
    assert run("print(mdt.device().cores)", OMP_NUM_THREADS="1") == "1\n"


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_more_threads_take_parts_than_may(jit, monkeypatch, most):
    monkeypatch.setattr(thread_count, "_listeners", [])
    runtime = NativeLaunch(*jit.addresses(jit.object_code(runtime_ir(5)), NAMES))
    (whose,), library = jit.addresses(jit.object_code(WHOSE), ["whose"])
    launch = runtime.launcher([(whose, 1000)], 1, (library,), inline=False)
    try:
        thread_count.set_limit(most)
        found = set()
        for _ in range(300):
            threads = np.zeros(1000, np.int64)
            launch(threads)
            assert (threads != 0).all()
            found.update(threads.tolist())
        assert len(found) <= most  # others may be so quick that the caller takes none
        assert most > 1 or found == {threading.get_ident()}
    finally:
        thread_count.set_limit(thread_count.ALL)
    launch(threads)


@pytest.mark.parametrize(("most", "told"), [(2, 2), (thread_count.ALL, 0)])
def test_a_team_is_told_how_many_may(jit, monkeypatch, most, told):
    monkeypatch.setattr(thread_count, "_listeners", [])
    numbers = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    def team(function, data, threads, flags):
        numbers.append(threads)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(data)

    launch = made(jit, 5, 7, team=team)
    try:
        thread_count.set_limit(most)
        launch(np.zeros(7, np.int64), np.zeros(1, np.int64))
    finally:
        thread_count.set_limit(thread_count.ALL)
    assert numbers == [told, told]


# Adds 1 to what the first array has, in the second one, and counts how often in the counters; the
# scratch memory is written to.
STEP = """
define void @step(ptr %arguments, ptr %sizes, i64 %begin, i64 %end) {
  %from = load ptr, ptr %arguments
  %to_at = getelementptr ptr, ptr %arguments, i64 1
  %to = load ptr, ptr %to_at
  %scratch_at = getelementptr ptr, ptr %arguments, i64 2
  %scratch = load ptr, ptr %scratch_at
  %counters_at = getelementptr ptr, ptr %arguments, i64 3
  %counters = load ptr, ptr %counters_at
  br label %next
next:
  %group = phi i64 [ %begin, %0 ], [ %following, %work ]
  %more = icmp ult i64 %group, %end
  br i1 %more, label %work, label %done
work:
  %before = atomicrmw add ptr %counters, i64 1 seq_cst
  %none_before = icmp ult i64 %before, GROUPS
  %one = zext i1 %none_before to i64
  %place = getelementptr i64, ptr %from, i64 %group
  %was = load i64, ptr %place
  %sum = add i64 %was, %one
  %own = getelementptr i64, ptr %scratch, i64 %group
  store i64 %sum, ptr %own
  %target = getelementptr i64, ptr %to, i64 %group
  store i64 %sum, ptr %target
  %following = add i64 %group, 1
  br label %next
done:
  ret void
}
"""


def stepping(jit, groups, *, inline=False):
    runtime = NativeLaunch(*jit.addresses(jit.object_code(runtime_ir(2)), NAMES))
    text = STEP.replace("GROUPS", str(groups))
    (step,), library = jit.addresses(jit.object_code(text), ["step"])
    memory = {"scratch": groups * 8, "counters": 8}
    return runtime, runtime.launcher([(step, groups)], 2, (library,), **memory, inline=inline)


@pytest.mark.parametrize("inline", [True, False])
def test_each_launch_has_scratch_memory_and_counters_of_0(jit, inline):
    _, launch = stepping(jit, 100, inline=inline)
    numbers, found = np.arange(100), np.zeros(100, np.int64)
    for _ in range(3):
        launch(numbers, found)
        assert (found == numbers + 1).all()


@pytest.mark.parametrize("inline", [True, False])
def test_a_sequence_has_temporaries(jit, inline):
    runtime, launch = stepping(jit, 100, inline=inline)

    def around(middle):
        steps = [(launch, (0, 2)), (middle, (2, 3)), (launch, (3, 1))]
        return runtime.sequence(steps, 2, [100 * 8] * 2)

    three = around(launch)
    five = around(three)
    for run, steps in ((three, 3), (five, 5), (three, 3)):
        numbers, found = np.arange(100), np.zeros(100, np.int64)
        run(numbers, found)
        assert (found == numbers + steps).all()


def test_launches_of_several_threads_have_memory_of_their_own(jit):
    runtime, launch = stepping(jit, 5000)
    two = runtime.sequence([(launch, (0, 2)), (launch, (2, 1))], 2, [5000 * 8])

    def calls(number):
        numbers, found = np.full(5000, number), np.zeros(5000, np.int64)
        for _ in range(200):
            two(numbers, found)
            assert (found == number + 2).all()

    at_once(*(partial(calls, n * 1000) for n in range(6)))


def test_no_memory_is_an_error_of_the_call(jit):
    runtime, launch = stepping(jit, 100)
    much = runtime.sequence([(launch, (0, 2)), (launch, (2, 1))], 2, [1 << 62])
    with pytest.raises(MemoryError):
        much(np.arange(100), np.zeros(100, np.int64))
