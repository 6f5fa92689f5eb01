"""What a search shows while it runs."""

import io

import pytest

from mdtensor.autotune.progress import ProgressLine, format_duration, format_time
from mdtensor.autotune.search.search import search
from mdtensor.autotune.space.space import Space
from mdtensor.autotune.trial import Measured, Trial
from mdtensor.lower.schedule.parameter import SpaceParameter
from tests import children


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.now = 50.0

    def __call__(self):
        return self.now


def measured(seconds):
    trial = Trial("wrong") if seconds is None else Trial("ok", seconds)
    return Measured({"tile": 8}, trial, "seed", 0.0)


def test_lines_are_written_now_and_then_where_there_is_no_terminal():
    clock, stream = Clock(), io.StringIO()
    with ProgressLine(budget_s=60, title="dot", stream=stream, clock=clock) as progress:
        for seconds in (None, 4e-6, 8e-6, None, 2e-6, 3e-6):
            clock.now += 2
            progress(measured(seconds))
    assert stream.getvalue().splitlines() == [
        "best 4.00 µs | 3 trials, 1 failed | 30/min | 54 s left | dot",
        "best 2.00 µs, 2.00x the first | 6 trials, 2 failed | 30/min | 48 s left | dot",
        "best 2.00 µs, 2.00x the first | 6 trials, 2 failed | 30/min | 48 s left | dot",
    ]


def test_what_is_rejected_unmeasured_is_no_failed_trial():
    clock = Clock()
    with ProgressLine(budget_s=10, quiet=True, clock=clock) as progress:
        for trial in (Trial("rejected"), Trial("ok", 2e-6), Trial("timeout"), Trial("rejected")):
            progress(Measured({"tile": 8}, trial, "seed", 0.0))
        assert progress.line() == "best 2.00 µs | 2 trials, 1 failed, 2 rejected | 10 s left"


def test_the_number_of_trials_aimed_at_is_shown():
    clock = Clock()
    with ProgressLine(budget_s=10, max_trials=40, quiet=True, clock=clock) as progress:
        progress(measured(None))
        assert progress.line() == "no result yet | 1 of 40 trials, 1 failed | 10 s left"
        clock.now += 11
        assert progress.line().endswith("5/min | 0 s left")


def test_quiet_writes_nothing():
    clock = Clock()
    for stream in (io.StringIO(), Terminal()):
        with ProgressLine(budget_s=60, quiet=True, stream=stream, clock=clock) as progress:
            clock.now += 100
            progress(measured(1e-6))
        assert stream.getvalue() == ""


def test_a_terminal_gets_one_line_kept_up_to_date(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    clock, stream = Clock(), Terminal()
    with ProgressLine(budget_s=60, stream=stream, clock=clock) as progress:
        progress(measured(4e-6))
        progress._live.refresh()  # as a thread does four times a second
        clock.now += 6
        progress(measured(2e-6))
    shown = stream.getvalue()
    assert "best 4.00 µs | 1 trial" in shown
    assert "best 2.00 µs, 2.00x the first | 2 trials | 20/min | 54 s left" in shown
    assert "\x1b[2K" in shown
    assert shown.count("\n") == 1


def test_a_narrow_terminal_gets_what_matters_and_the_ends_of_the_title():
    title = "md_hom[i:64, j:32, k:128](mul, (cc, cc, pw(add)), epilogue relu)"
    clock = Clock()
    with ProgressLine(budget_s=60, title=title, place=(3, 12), quiet=True, clock=clock) as progress:
        progress(measured(4e-6))
        clock.now += 6
        progress(measured(2e-6))
        said = "3 of 12 | best 2.00 µs, 2.00x the first | 2 trials | 20/min | 54 s left"
        assert progress.line() == f"{said} | {title}"
        assert progress.line(200) == f"{said} | {title}"
        assert progress.line(100) == f"{said} | md_hom[i:64, …ilogue relu)"
        assert len(progress.line(100)) == 100
        assert progress.line(80) == said


def test_it_is_given_to_a_search():
    stream = io.StringIO()
    space = Space([SpaceParameter("tile", range(1, 9))])
    with ProgressLine(budget_s=90, stream=stream) as progress:
        search(space, lambda c: Trial("ok", 1e-3 / c["tile"]), budget_s=90, on_trial=progress)
    assert "best 125 µs" in stream.getvalue()
    assert "8 trials" in stream.getvalue()


@pytest.mark.process
def test_rich_is_imported_only_for_a_terminal():
    code = (
        "import sys, io\n"
        "from mdtensor.autotune.progress import ProgressLine\n"
        "with ProgressLine(budget_s=1, stream=io.StringIO()): pass\n"
        "assert not any(name.split('.')[0] == 'rich' for name in sys.modules)\n"
    )
    children.run("-c", code)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (9.994e-6, "9.99 µs"),
        (9.996e-6, "10.0 µs"),
        (99.96e-6, "100 µs"),
        (999.4e-6, "999 µs"),
        (999.6e-6, "1.00 ms"),
        (1234.0, "1234 s"),
        (0.0, "0.00 ns"),
    ],
)
def test_times_have_three_digits(seconds, text):
    assert format_time(seconds) == text


def test_durations_are_carried_over():
    assert [format_duration(each) for each in (59.4, 59.6, 3599.7)] == [
        "59 s",
        "1:00 min",
        "1:00 h",
    ]
