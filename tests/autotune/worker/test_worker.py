"""Workers that hang, crash, lie and raise, and what their parents notice."""

import gc
import os
import signal
import sys
import threading
import time

import pytest

from mdtensor.autotune.worker import worker as worker_module
from mdtensor.autotune.worker.worker import Worker, WorkerCrashed, WorkerRaised, WorkerTimeout
from mdtensor.errors import TuningError
from tests import children
from tests.ends import ends, is_running

pytestmark = pytest.mark.process

TARGETS = "tests.autotune.worker_targets"


@pytest.fixture
def worker():
    with Worker(f"{TARGETS}:evil") as opened:
        yield opened


def test_requests_are_served_by_one_process():
    with Worker(f"{TARGETS}:echo", {"n": [1, 2]}) as worker:
        first = worker.call({"tile": 8}, timeout_s=60)
        second = worker.call(None, timeout_s=60)
        assert first == {"payload": {"n": [1, 2]}, "request": {"tile": 8}, "pid": worker.pid}
        assert second["pid"] == first["pid"] != os.getpid()
        assert worker.starts == 1
    assert worker.pid is None
    assert ends(first["pid"])


@pytest.mark.parametrize("error", [MemoryError("no room"), ValueError("embedded null byte")])
def test_whoever_waits_for_a_process_learns_why_there_is_none(monkeypatch, error):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr("subprocess.Popen", fails)
    with pytest.raises(TuningError) as caught:
        Worker(f"{TARGETS}:echo").begin()
    assert str(caught.value) == f"cannot start a worker process: {error}"


@pytest.mark.parametrize("deed", ["hang", "hang_in_c"])
def test_a_hang_is_killed_in_time_and_the_next_call_restarts(worker, deed):
    pid = worker.call({"do": "signals"}, timeout_s=60)["pid"]
    with pytest.raises(WorkerTimeout, match="did not reply in time"):
        worker.call({"do": deed}, timeout_s=0.3)
    assert ends(pid)
    assert worker.call({"do": "signals"}, timeout_s=60)["pid"] != pid
    assert worker.starts == 2


def test_a_crash_tells_the_signal_and_the_last_words(worker):
    with pytest.raises(WorkerCrashed, match="ended by SIGSEGV") as caught:
        worker.call({"do": "fault"}, timeout_s=60)
    assert caught.value.signal == signal.SIGSEGV
    assert caught.value.exit_code is None
    assert any("Segmentation fault" in line for line in caught.value.stderr)
    assert "main" in str(caught.value)
    assert worker.call({"do": "large", "with": {"size": 3}}, timeout_s=60) == "xxx"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGTERM])
def test_a_death_by_signal_is_told(worker, number):
    with pytest.raises(WorkerCrashed) as caught:
        worker.call({"do": "die", "with": {"number": number}}, timeout_s=60)
    assert caught.value.signal == number


def test_an_exit_tells_its_status(worker):
    with pytest.raises(WorkerCrashed, match="ended with status 3") as caught:
        worker.call({"do": "leave", "with": {"status": 3}}, timeout_s=60)
    assert (caught.value.exit_code, caught.value.signal) == (3, None)
    assert caught.value.stderr[-1] == "leaving"


def test_only_the_last_lines_are_kept(worker):
    with pytest.raises(WorkerCrashed) as caught:
        worker.call({"do": "noisy", "with": {"lines": 10_000}}, timeout_s=60)
    assert caught.value.stderr == tuple(f"line {at}" for at in range(9_960, 10_000))


def test_an_exception_is_told_and_the_worker_lives_on(worker):
    pid = worker.call({"do": "signals"}, timeout_s=60)["pid"]
    with pytest.raises(WorkerRaised, match=r"ZeroDivisionError: .*by zero") as caught:
        worker.call({"do": "fail"}, timeout_s=60)
    assert any("in fail" in line for line in caught.value.stderr)
    with pytest.raises(WorkerRaised, match="set is not JSON serializable"):
        worker.call({"do": "not_json"}, timeout_s=60)
    assert worker.call({"do": "signals"}, timeout_s=60)["pid"] == pid


def test_a_wrong_reply_is_a_crash(worker):
    pid = worker.call({"do": "signals"}, timeout_s=60)["pid"]
    with pytest.raises(WorkerCrashed, match="not of the protocol: 'garbage'"):
        worker.call({"do": "scribble"}, timeout_s=60)
    assert ends(pid)
    assert worker.call({"do": "large", "with": {"size": 1}}, timeout_s=60) == "x"


def test_what_is_printed_does_not_disturb_the_protocol(worker):
    assert worker.call({"do": "chatter"}, timeout_s=60) == ""
    with pytest.raises(WorkerCrashed) as caught:
        worker.call({"do": "leave", "with": {"status": 1}}, timeout_s=60)
    assert {"printed", "written", "by a child", "leaving"} <= set(caught.value.stderr)


def test_large_requests_and_replies_pass(worker):
    assert len(worker.call({"do": "large", "with": {"size": 3_000_000}}, timeout_s=60)) == 3_000_000
    with Worker(f"{TARGETS}:echo") as echo:
        assert echo.call("y" * 3_000_000, timeout_s=60)["request"] == "y" * 3_000_000


def test_what_the_worker_started_is_killed_with_it(worker):
    grandchild = worker.call({"do": "spawn"}, timeout_s=60)
    with pytest.raises(WorkerTimeout):
        worker.call({"do": "hang"}, timeout_s=0.3)
    assert ends(grandchild)
    grandchild = worker.call({"do": "spawn"}, timeout_s=60)
    assert is_running(grandchild)
    worker.close()
    assert ends(grandchild)


def test_one_that_died_between_calls_is_replaced_unnoticed(worker):
    pid = worker.call({"do": "signals"}, timeout_s=60)["pid"]
    os.kill(pid, signal.SIGKILL)
    # A process has ended when its last thread has.
    assert any(worker.pid is None or time.sleep(0.01) for _ in range(6000))
    assert worker.call({"do": "signals"}, timeout_s=60)["pid"] != pid


def test_the_child_is_out_of_reach_of_ctrl_c(worker):
    facts = worker.call({"do": "signals"}, timeout_s=60)
    assert facts["ignores_sigint"]
    assert facts["group"] == facts["pid"] != os.getpgrp()


def test_the_environment_is_cleaned(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OPENBLAS_L2_SIZE", "1")
    monkeypatch.setenv("MDTENSOR_MARK", "kept")
    with Worker(f"{TARGETS}:evil", environment={"MDTENSOR_EXTRA": "added"}) as worker:
        found = worker.call({"do": "environment"}, timeout_s=60)
    assert found["MDTENSOR_MARK"] == "kept"
    assert found["MDTENSOR_EXTRA"] == "added"
    assert not {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"} & found.keys()


def test_an_interrupt_in_the_parent_kills_the_child(worker):
    pid = worker.call({"do": "signals"}, timeout_s=60)["pid"]
    with pytest.raises(KeyboardInterrupt):
        worker.call({"do": "interrupt_and_hang"}, timeout_s=60)
    assert ends(pid)
    assert worker.call({"do": "signals"}, timeout_s=60)["pid"] != pid


def test_a_worker_outlives_the_thread_that_first_called_it(worker):
    pids, threads = [], []

    def first_calls():
        threads.append(threading.get_native_id())
        pids.append(worker.call({"do": "signals"}, timeout_s=60)["pid"])

    thread = threading.Thread(target=first_calls)
    thread.start()
    thread.join()
    while os.path.exists(f"/proc/self/task/{threads[0]}"):  # it ends a moment after it is joined
        time.sleep(0.001)
    assert worker.call({"do": "signals"}, timeout_s=60)["pid"] == pids[0]
    assert worker.starts == 1


PARENT = """
import sys, threading, time
from mdtensor.autotune.worker.worker import Worker
worker = Worker("tests.autotune.worker_targets:evil")
print(worker.call({"do": "signals"}, timeout_s=60)["pid"], flush=True)
thread = threading.Thread(target=worker.call, args=({"do": sys.argv[1]}, 600), daemon=True)
thread.start()
while not worker._lock.locked() and thread.is_alive():
    time.sleep(0.001)
print("asked", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("deed", ["hang", "hang_in_c", "signals"])
def test_the_child_dies_with_its_parent(deed):
    with children.started("-c", PARENT, deed) as parent:
        pid = int(parent.stdout.readline())
        parent.stdout.readline()
        assert is_running(pid)
        parent.kill()
        assert ends(pid)


def test_a_handler_that_cannot_be_made_is_told():
    with Worker(f"{TARGETS}:fails_to_load") as worker:
        with pytest.raises(WorkerRaised, match="OSError: no such device"):
            worker.call(1, timeout_s=60)
        assert worker.pid is None
    worker = Worker("no_such_module:f")
    with pytest.raises(WorkerRaised, match="No module named 'no_such_module'"):
        worker.call(1, timeout_s=60)
    worker = Worker(f"{TARGETS}:hangs_at_start", start_timeout_s=0.5)
    with pytest.raises(WorkerTimeout):
        worker.call(1, timeout_s=60)
    assert worker.pid is None


def test_a_forgotten_worker_may_be_collected_by_the_thread_that_attends_its_child(monkeypatch):
    complaints, forgotten = [], threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)

    def collect(frame, event, argument):
        if forgotten.is_set():
            gc.collect()

    before = set(threading.enumerate())
    gc.freeze()  # what other tests left is neither collected nor looked through
    gc.disable()  # this thread is not to be the one that collects
    threading.setprofile(collect)  # called in threads that begin from now on
    try:
        worker = Worker(f"{TARGETS}:evil")
        pid = worker.call({"do": "signals"}, timeout_s=60)["pid"]
        worker.itself = worker
        [attending] = set(threading.enumerate()) - before
        stdin = worker._child._process.stdin
        del worker
        forgotten.set()
        os.kill(pid, signal.SIGKILL)
        attending.join(60)
    finally:
        threading.setprofile(None)
        gc.enable()
        gc.unfreeze()
    assert not attending.is_alive()
    assert stdin.closed
    assert complaints == []


def test_what_is_not_json_is_not_sent(worker):
    with pytest.raises(TuningError, match="sent JSON only"):
        worker.call({1, 2}, timeout_s=60)
    with pytest.raises(TuningError, match="not of the form"):
        Worker("no_function")


@pytest.mark.parametrize("where", ["waits", "exchange"])
def test_what_ends_a_process_leaves_the_pipes_to_the_thread_that_uses_them(
    worker, where, monkeypatch
):
    """As finalizers do when the interpreter exits beside a daemon thread."""
    caught, inside, ended = [], threading.Event(), threading.Event()
    child = worker_module._Child

    class Stopped(child):
        """A child that is ended between two steps of a call."""

        @property
        def waits(self):
            return self.stopped("waits") and super().waits

        def exchange(self, line, deadline):
            self.stopped("exchange")
            return super().exchange(line, deadline)

        def stopped(self, here):
            if here == where and threading.current_thread() is thread:
                inside.set()
                ended.wait(60)
            return True

    def calls():
        try:
            caught.append(worker.call({"do": "signals"}, timeout_s=60))
        except BaseException as error:
            caught.append(error)

    monkeypatch.setattr(worker_module, "_Child", Stopped)
    thread = threading.Thread(target=calls)
    worker.begin()
    thread.start()
    assert inside.wait(60)
    worker._finalizer()
    ended.set()
    thread.join(60)
    (found,) = caught  # a reply where the end was noticed in time, and another child begun
    assert isinstance(found, WorkerCrashed) or (where == "waits" and "pid" in found)
