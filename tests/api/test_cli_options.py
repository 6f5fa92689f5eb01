"""Options that are wrong: what is said, and by which program."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from mdtensor.api.cli import main
from mdtensor.api.cli.main import app

PRODUCT = ("ij,jk->ik", "8,8", "8,8")


def run(*arguments: str) -> str:
    """What a command that must fail says."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 2, result.output
    return result.stderr


@pytest.mark.parametrize("command", [("tune", *PRODUCT), ("demo",)], ids=["tune", "demo"])
@pytest.mark.parametrize("budget", ["soon", "-3", "nan", "5 weeks"])
def test_a_budget_that_is_no_time_is_told_the_forms(command: tuple[str, ...], budget: str) -> None:
    assert run(*command, "--budget", budget).endswith(
        f"Error: Invalid value for '--budget': budget '{budget}' is no time: "
        "seconds, or a text such as '30s', '5min' or '1h'\n"
    )


def test_budgets_have_the_forms_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[float] = []
    monkeypatch.setattr("mdtensor.api.cli.demo.run", lambda budget_s, **_: budgets.append(budget_s))
    for words in ([], ["--budget", "90"], ["--budget", "1.5min"]):
        assert CliRunner().invoke(app, ["demo", *words]).exit_code == 0
    assert budgets == [60, 90, 90]


@pytest.mark.parametrize("words", [(), PRODUCT], ids=["alone", "with an expression"])
def test_bench_refuses_an_unknown_option_itself(words: tuple[str, ...]) -> None:
    said = run("bench", *words, "--frobnicate")
    assert said.splitlines()[0].startswith("Usage: ")
    assert said.endswith("Error: No such option: --frobnicate\n")


def test_the_benchmarks_take_what_follows_two_dashes(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    monkeypatch.setattr(main, "_run_benchmarks", lambda words: given.append(words) or 0)
    for words in ([], ["--", "--family", "kernels"]):
        assert CliRunner().invoke(app, ["bench", *words]).exit_code == 0
    assert given == [[], ["--family", "kernels"]]


def test_a_word_is_an_expression() -> None:
    assert run("bench", "frob").startswith("SubscriptError: the string has 1 term for 0 operands\n")
