"""`mdtensor report`: a page on expressions, on what a program computes, or on the whole store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from mdtensor.api.cli.expression_arguments import Expression
from mdtensor.api.cli.trace_command import check_program, run_program
from mdtensor.api.cli.tune_command import recorded
from mdtensor.api.plans.compile import compile  # noqa: A004
from mdtensor.api.reports.report import report
from mdtensor.api.tuning.tuning_context import tuning
from mdtensor.errors import count_of


def report_on(
    page: Path,
    expressions: Sequence[Expression] | None,
    pictures: Path | None,
    *,
    with_peers: bool = False,
) -> None:
    """Writes a report on some expressions, or on the whole store for None, and prints its path.

    Each picture is saved in the folder `pictures`, if that is given. With peers, the times of NumPy
    and opt_einsum on the one expression are in its roofline.
    """
    if expressions is None:
        report(page, pictures=pictures)
    elif len(expressions) == 1:
        (only,) = expressions
        plan = compile(only.subscripts, *only.specs, **only.options)
        peers = _seconds_of_peers(only) if with_peers else None
        plan.report(page, peers=peers, pictures=pictures)
    else:
        report(page, recorded(expressions), pictures=pictures)
    typer.echo(f"report written to {page}")


def report_on_program(page: Path, arguments: Sequence[str], pictures: Path | None) -> None:
    """Runs a program of Python, and writes the page on what its calls computed.

    Raises BadParameter for a script that is not there, and what the program ends with: without a
    page where that is an error.
    """
    check_program(arguments[0], is_module=False)
    with tuning("record") as seen:
        try:
            run_program(arguments, is_module=False)
        except SystemExit as ending:
            if ending.code not in (None, 0):
                raise
    report(page, seen, pictures=pictures)
    typer.echo(f"report on {count_of(len(seen), 'computation', 'computations')} written to {page}")


def _seconds_of_peers(expression: Expression) -> dict[str, float]:
    """The seconds of each peer that can compute the expression, measured now."""
    from mdtensor.api.cli.compare import PEERS, compare

    found = compare(expression).seconds
    return {name: seconds for name, seconds in found.items() if name in PEERS}
