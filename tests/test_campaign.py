"""The campaign's log says what ran, and counts what failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign import COMMANDS, ROOT, Command, main
from tests.mutations import MUTATIONS

PACKAGE = ROOT / "mdtensor"

SHORT = (
    Command("right", ("-c", "print('3 cases, none wrong')")),
    Command("wrong", ("-c", "print('why'); raise SystemExit(3)")),
    Command("endless", ("-c", "import time; time.sleep(600)"), hours=1e-4),
)


@pytest.mark.process
def test_what_fails_is_counted_and_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert main(["--log", str(log)], SHORT) == 1
    text = log.read_text(encoding="utf-8")
    assert "right: passed in 0.0 min: 3 cases, none wrong\n" in text
    assert "wrong: FAILED (3) in 0.0 min: why\nwhy\n" in text
    assert "endless: FAILED (None) in 0.0 min" in text
    assert text.endswith("1 passed, 2 failed\n")
    assert main(["--log", str(log), "--only", "right"], SHORT) == 0


def test_a_command_is_known_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])
    assert "no command is called nothing" in capsys.readouterr().err
    assert main(["--list"]) == 0
    names = capsys.readouterr().out.splitlines()
    assert names == [command.name for command in COMMANDS]
    assert len(set(names)) == len(names)


def test_each_fault_has_its_one_place() -> None:
    for mutation in MUTATIONS:
        text = (PACKAGE / mutation.file).read_text(encoding="utf-8")
        assert text.count(mutation.right) == 1, mutation.name
