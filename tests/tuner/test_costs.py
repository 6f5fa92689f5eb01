"""Costs that are commands, or functions in other processes: measured, printed, killed."""

import os
import sys
import textwrap
import threading
import time
from types import SimpleNamespace

import pytest

from mdtensor.autotune.worker.worker import WorkerRaised
from mdtensor.errors import StoreError, TuningError
from mdtensor.tuner import (
    Command,
    Isolated,
    Parameter,
    Space,
    command_cost,
    evaluations,
    invalid,
    search,
)
from tests.ends import ends
from tests.tuner import isolated_targets


def script(folder, text):
    path = folder / "program.py"
    path.write_text(textwrap.dedent(text))
    return [sys.executable, str(path)]


@pytest.mark.process
def test_what_a_command_prints_is_its_cost(tmp_path):
    program = script(
        tmp_path,
        """
        import sys
        tile, order = sys.argv[1:]
        print("1000 elements")
        print(f"took {abs(int(tile) - 8) + (order == 'ij')}.5e-3 ms")
        """,
    )
    space = Space([Parameter("tile", (4, 8, 16)), Parameter("order", ("ij", "ji"))])
    for cost in ("printed", r"took (.*) ms"):
        command = Command([*program, "{tile}", "{order}"], cost=cost)
        found = search(space, command)
        assert found.best.configuration == {"tile": 8, "order": "ji"}
        assert found.best.trial.cost == 0.5e-3


@pytest.mark.process
def test_the_least_time_of_a_command_is_its_cost(monkeypatch):
    readings = iter([10.0, 13.0, 20.0, 22.0, 30.0, 35.0])
    clock = SimpleNamespace(perf_counter=lambda: next(readings))
    monkeypatch.setattr(command_cost, "time", clock)
    trial = Command("true", repeats=3)({})
    assert (trial.status, trial.seconds, trial.spread) == ("ok", 2.0, 3.0)


@pytest.mark.process
def test_a_command_that_takes_too_long_is_killed_with_what_it_started(tmp_path, monkeypatch):
    pid = tmp_path / "pid"

    class OnceStarted(threading.Thread):
        """A timer that goes off once the command has started another one."""

        def __init__(self, seconds, function, arguments):
            super().__init__(target=function, args=arguments)
            assert seconds == 30

        def run(self):
            any(
                (pid.exists() and pid.read_text().strip()) or time.sleep(0.01) for _ in range(25000)
            )
            super().run()

        def cancel(self):
            self.join()

    monkeypatch.setattr(command_cost.threading, "Timer", OnceStarted)
    trial = Command(["sh", "-c", f"sleep 600 & echo $! > {pid}; wait"], timeout_s=30)({})
    assert trial.status == "timeout"
    assert trial.detail == "killed after 30 s"
    assert ends(int(pid.read_text()))


@pytest.mark.process
def test_a_command_that_fails_has_no_cost(tmp_path):
    program = script(
        tmp_path,
        """
        import os, sys
        if sys.argv[1] == "fail":
            sys.exit("no memory left")
        if sys.argv[1] == "crash":
            os.kill(os.getpid(), 11)
        print(sys.argv[1])
        """,
    )
    command = Command([*program, "{mode}"], cost="printed")
    failed = command({"mode": "fail"})
    assert failed.status == "crashed"
    assert failed.detail == "exit status 1\nno memory left\n"
    assert command({"mode": "crash"}).detail.startswith("Segmentation fault")
    assert command({"mode": "nothing"}).status == "wrong"
    assert command({"mode": "7 8"}).cost == 8
    built = Command(["true"], build=[*program, "{mode}"])
    assert built({"mode": "fail"}).status == "compile_error"
    assert built({"mode": "fine"}).status == "ok"


@pytest.mark.process
def test_commands_that_cannot_be_are_named():
    with pytest.raises(TuningError, match=r"'width'.* is no parameter"):
        Command("echo {width}")({"tile": 4})
    with pytest.raises(TuningError, match="cannot run not-there 4: "):
        Command("not-there {tile}")({"tile": 4})
    with pytest.raises(TuningError, match="has 0 groups"):
        Command("true", cost="took")
    with pytest.raises(TuningError, match="is no regular expression"):
        Command("true", cost="(")


@pytest.mark.process
def test_a_command_has_its_folder_and_variables(tmp_path):
    command = Command(
        ["sh", "-c", 'test "$PWD" = "$WHERE" && echo {tile}'],
        cost="printed",
        folder=tmp_path,
        environment={"WHERE": os.path.realpath(tmp_path)},
    )
    assert command({"tile": 4}).cost == 4


@pytest.mark.process
def test_a_function_in_another_process_may_crash_and_hang():
    with Isolated(isolated_targets.cost, timeout_s=250) as cost:
        status = {}
        for mode in ("fine", "crash", "invalid", "hang", "fine again"):
            cost.timeout_s = 0.5 if mode == "hang" else 250
            status[mode] = cost({"mode": mode, "order": (0, 1)}).status
        assert status == {
            "fine": "ok",
            "crash": "crashed",
            "invalid": "compile_error",
            "hang": "timeout",
            "fine again": "ok",
        }
        with pytest.raises(WorkerRaised, match="ValueError: a bug"):
            cost({"mode": "raise", "order": (0, 1)})


def test_a_function_that_has_no_name_elsewhere_is_refused():
    with pytest.raises(TuningError, match="cannot be imported in another process"):
        Isolated(lambda c: 1)


def small():
    return Space([Parameter("n", range(40)), Parameter("order", ((0, 1), (1, 0)))])


def counted(asked):
    def cost(c):
        asked.append((c["n"], c["order"]))
        if c["n"] % 7 == 3:
            return invalid("a seventh")
        return abs(c["n"] - 30) + c["order"][0]

    return cost


def test_a_search_goes_on_from_its_file(tmp_path):
    file, asked = tmp_path / "trials.jsonl", []
    first = search(small(), counted(asked), abort=evaluations(30), file=file)
    assert len(asked) == len(first.trials) == 30
    again = search(small(), counted(asked), abort=evaluations(30), file=file)
    assert len(asked) == 30
    assert [each.configuration for each in again.trials] == [
        each.configuration for each in first.trials
    ]
    assert [each.trial for each in again.trials] == [each.trial for each in first.trials]
    last = search(small(), counted(asked), file=file)
    assert len(asked) == len(set(asked)) == len(last.trials) == 80
    assert last.best.configuration == {"n": 30, "order": (0, 1)}
    other = search(small(), counted(asked), abort=evaluations(5), file=file, name="other")
    assert [each.proposer == "known" for each in other.trials] == [False] * 5


def test_a_line_that_was_cut_off_costs_that_trial_only(tmp_path):
    file, asked = tmp_path / "trials.jsonl", []
    search(small(), counted(asked), abort=evaluations(10), file=file)
    file.write_bytes(file.read_bytes()[:-20])
    search(small(), counted(asked), abort=evaluations(10), file=file)
    assert len(asked) == 11
    search(small(), counted(asked), abort=evaluations(10), file=file)
    assert len(asked) == 11


def test_another_file_is_left_alone(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("my notes\n")
    with pytest.raises(StoreError, match="is no file of trials"):
        search(small(), lambda _: 1, file=file)
    assert file.read_text() == "my notes\n"
    with pytest.raises(StoreError, match="cannot write"):
        search(small(), lambda _: 1, file=tmp_path / "nowhere" / "trials.jsonl")
