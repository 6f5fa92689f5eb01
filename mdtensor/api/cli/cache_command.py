"""`mdtensor cache`: what the store of tuning results holds, and moving it about."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mdtensor.autotune.store.rows import ListedProblem
from mdtensor.errors import LoweringError, StoreError, count_of

if TYPE_CHECKING:
    from mdtensor.autotune.store.store import Store

_MOST_SHOWN = 10  # of lines that are refused

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, move and prune what tuning found.",
)


@app.command("ls")
def ls() -> None:
    """List every tuned problem with its best time, the last updated last."""
    from rich.markup import escape
    from rich.table import Table

    from mdtensor.api.cli.tables import ago, show
    from mdtensor.api.engine.registry import store
    from mdtensor.autotune.progress import format_time

    table = Table("problem", "environment", box=None, header_style="bold")
    for heading in ("best", "trials", "failed", "updated"):
        table.add_column(heading, justify="right", no_wrap=True)
    opened = store()
    entries = opened.ls()
    for entry in entries:
        best = format_time(entry.winner.seconds) if entry.winner else "-"
        counts = str(entry.trials), str(entry.trials - entry.ok)
        names = escape(entry.problem), escape(entry.environment)
        table.add_row(*names, best, *counts, ago(entry.updated))
    if entries:
        show(table)
    else:
        typer.echo("nothing is tuned yet: see mdtensor tune --help", err=True)
    if unusable := opened.dropped + sum(not _is_usable(entry) for entry in entries):
        typer.echo(f"{count_of(unusable, 'row is', 'rows are')} damaged and not used", err=True)


def _is_usable(entry: ListedProblem) -> bool:
    """Whether an entry's winner, if it has one, holds a schedule."""
    from mdtensor.lower.schedule.schedule import Schedule

    try:
        return entry.winner is None or bool(Schedule.from_json(entry.winner.schedule))
    except LoweringError:
        return False


@app.command("path")
def path() -> None:
    """Print where the store is."""
    typer.echo(_store_on_disk().path)


def _store_on_disk() -> Store:
    """The user's store; StoreError where it is in memory, and ends with the command."""
    from mdtensor.api.engine.registry import store

    opened = store()
    if opened.path is None:
        raise opened.trouble or StoreError("the store is in memory")
    return opened


@app.command("export")
def export(file: Annotated[Path, typer.Argument(help="File to write.")]) -> None:
    """Write all trials and winners to FILE, as lines of JSON."""
    from mdtensor.api.engine.registry import store

    typer.echo(f"{store().export(file)} rows written to {file}")


@app.command("import")
def import_(file: Annotated[Path, typer.Argument(help="File that export wrote.")]) -> None:
    """Add the trials and winners of FILE; of two winners, the better tuned one stays."""
    from mdtensor.lower.schedule.schedule import Schedule

    found = _store_on_disk().import_(file, Schedule.from_json)
    typer.echo(f"{found.rows} rows read from {file}")
    if found.refused:
        count = count_of(len(found.refused), "line is no row and was", "lines are no rows and were")
        typer.echo(f"{count} left out:", err=True)
        for each in found.refused[:_MOST_SHOWN]:
            typer.echo(f"  line {each.line}: {each.reason}", err=True)
        if not found.rows:
            raise typer.Exit(1)


@app.command("learn")
def learn(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write.")] = Path(
        "mdtensor-defaults.json"
    ),
) -> None:
    """Make a file of defaults of the winners that were confirmed on this device.

    A copy of the package that has the file in its folder mdtensor/autotune/defaults begins with
    them on devices that are alike.
    """
    from mdtensor.api.engine.registry import engine_for
    from mdtensor.autotune.defaults.defaults_file import defaults_of, write

    engine = engine_for()
    made = defaults_of(engine.store.winners(engine.environment), engine.target)
    write(out, made)
    count = sum(len(each.winners) for each in made.structures)
    structures = count_of(len(made.structures), "structure", "structures")
    typer.echo(f"{count_of(count, 'winner', 'winners')} of {structures} written to {out}")


@app.command("prune")
def prune(
    older_than: Annotated[
        float | None, typer.Option(metavar="DAYS", min=0, help="Remove what was measured before.")
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="Remove all there is.")] = False,
) -> None:
    """Remove trials and winners from the store; with --everything, kept programs too.

    Without either, what the cache does by itself: the files that were not used for longest go,
    until it is within its limit.
    """
    from mdtensor import cache_eviction
    from mdtensor.api.engine.registry import store
    from mdtensor.backends.host.binary_cache import remove_kept

    if older_than is not None and everything:
        raise typer.BadParameter("say either --older-than DAYS or --everything")
    if older_than is None and not everything:
        store().make_room()
        typer.echo(f"{cache_eviction.prune()} files removed")
        return
    age = None if older_than is None else older_than * 86_400
    removed = store().prune(older_than_s=age, everything=everything)
    if everything:
        remove_kept()
    typer.echo(f"{removed} rows removed")
