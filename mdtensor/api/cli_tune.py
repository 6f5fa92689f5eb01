"""`mdtensor tune`: expressions that people type, tuned like those that a program calls."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from mdtensor.api.cli_arguments import Expression
from mdtensor.api.compile import compile  # noqa: A004
from mdtensor.api.modes import Recorded
from mdtensor.api.tune import TuningReport, tune
from mdtensor.translate.md_hom import MDHom


def tune_expressions(expressions: Sequence[Expression], budget_s: float, *, quiet: bool) -> None:
    """Tune all that the expressions need within one budget, and say what came of it."""
    reports = tune(recorded(expressions), budget_s, quiet=quiet)
    for report in reports:
        typer.echo(report)
    typer.echo(summary(reports))


def recorded(expressions: Sequence[Expression]) -> list[Recorded]:
    """Every `md_hom` that `einsum` and plans would run for these expressions, each once.

    Both are wanted: like NumPy's, the result of `einsum` may have its axes in memory in another
    order than a plan's.
    """
    labels: dict[MDHom, str] = {}
    for expression in expressions:
        for order in ("K", "C"):
            options = {**expression.options, "order": order}
            plan = compile(expression.subscripts, *expression.specs, **options)
            for md_hom in plan.md_homs:
                labels.setdefault(md_hom, str(expression))
    return [Recorded(md_hom, label) for md_hom, label in labels.items()]


def summary(reports: Sequence[TuningReport]) -> str:
    """One line on all reports; it says so where nothing had to be measured."""
    trials = sum(report.trials for report in reports)
    known = sum(report.cached for report in reports)
    if known == len(reports):
        return f"everything came from the cache: {_computations(known)}, 0 trials"
    seconds = sum(report.elapsed for report in reports)
    tuned = _computations(len(reports) - known)
    return f"{tuned} tuned, {known} from the cache: {trials} trials in {seconds:.0f} s"


def _computations(count: int) -> str:
    return f"{count} computation{'' if count == 1 else 's'}"
