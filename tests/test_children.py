"""Children of tests end with all that they began, and say where they stood."""

from __future__ import annotations

import os
import time

import pytest

from tests.children import ChildError, finished, run, started

pytestmark = pytest.mark.process

ENDLESS = """
import subprocess, sys, threading
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
threading.Event().wait()
"""


def runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_child_that_waits_for_ever_is_shown_and_killed_with_what_it_began() -> None:
    with pytest.raises(ChildError, match=r"(?s)no end within 2 s\n(\d+)\n.*threading.py") as raised:
        run("-c", ENDLESS, limit_s=2)
    grandchild = int(str(raised.value).splitlines()[1])
    while runs(grandchild):  # until init has waited for it; the limit of the test is faulthandler's
        time.sleep(0.01)


def test_what_a_child_says_and_its_code_come_back() -> None:
    program = "import sys; print(input()); print('no', file=sys.stderr); sys.exit(3)"
    end = run("-c", program, said="yes", code=3)
    assert (end.code, end.out, end.err) == (3, "yes\n", "no\n")
    with pytest.raises(ChildError, match=r"^ended with 3, not 0\nyes\n\nno\n$"):
        run("-c", program, said="yes")
    assert run("-c", program, said="yes", code=None).code == 3


def test_a_variable_that_is_empty_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIVEN", "1")
    program = "import os; print(os.environ.get('GIVEN'), os.environ.get('OTHER'))"
    assert run("-c", program, env={"OTHER": "2"}).out == "1 2\n"
    assert run("-c", program, env={"GIVEN": ""}).out == "None None\n"


def test_a_child_that_is_left_is_killed() -> None:
    with started("-c", "import time; time.sleep(600)") as child:
        assert child.poll() is None
    assert child.returncode == -9
    with started("-c", "pass") as child:
        assert finished(child).code == 0


def test_interrupts_are_heeded_in_what_began_without_them() -> None:
    ignores = "import signal, subprocess, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    inner = "import signal; signal.raise_signal(signal.SIGINT)"
    runs = f"sys.exit(subprocess.run([sys.executable, '-c', {inner!r}]).returncode != 0)"
    assert run("-c", f"{ignores}{runs}", code=0).err == ""
    heeds = "from tests.conftest import heed_interrupts; heed_interrupts()\n"
    assert "KeyboardInterrupt" in run("-c", f"{ignores}{heeds}{runs}", code=1).err
