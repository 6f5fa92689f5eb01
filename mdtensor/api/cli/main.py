"""The command line: `mdtensor devices | tune | cache | explain | report | trace | bench | demo`.

Nothing heavy is imported before a command needs it, so that `mdtensor --help` is there at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from mdtensor.api.cli import cache_command
from mdtensor.errors import (
    DTypeError,
    MdtensorError,
    PathError,
    ShapeError,
    SubscriptError,
    TranslationError,
    TuningError,
)

if TYPE_CHECKING:
    from mdtensor.api.cli.expression_arguments import Expression

_WRONG_USE = (SubscriptError, ShapeError, DTypeError, PathError, TranslationError)
_SHAPES = (
    "A shape per operand: 64,128 or 64,128:f8; () for a scalar."
    " Extents that shapes leave open: r=3."
)
_SEMIRING = "min_plus, max_plus, max_times, logsumexp or bool, instead of sums of products."


class _Commands(TyperGroup):
    """Commands whose errors are shown to people: exit code 2 for a wrong call, 1 for the rest."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except MdtensorError as error:
            name = "error" if type(error) is MdtensorError else type(error).__name__
            typer.secho(f"{name}: {error}", fg=typer.colors.RED, err=True)
            raise typer.Exit(2 if isinstance(error, _WRONG_USE) else 1) from None
        except MemoryError as error:
            typer.secho(f"MemoryError: {error}", fg=typer.colors.RED, err=True)
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(cache_command.app, name="cache")

Subscripts = Annotated[str, typer.Argument(metavar="EXPR", help="An einsum string: ij,jk->ik")]
Shapes = Annotated[list[str], typer.Argument(metavar="SHAPE...", help=_SHAPES)]
DType = Annotated[str, typer.Option(help="Element type of operands that name none.")]
Semiring = Annotated[str | None, typer.Option(metavar="NAME", help=_SEMIRING)]


def _seconds(budget: float | str) -> float:
    from mdtensor.api.engine.budget import seconds_of

    try:
        return seconds_of(budget)
    except TuningError as error:
        raise typer.BadParameter(f"{error.message}: {error.hint}") from None


Budget = Annotated[
    float, typer.Option(metavar="TIME", parser=_seconds, help="For tuning: 90, 30s, 5min or 1h.")
]


def _show_version(asked: bool) -> None:
    if asked:
        import mdtensor

        typer.echo(f"mdtensor {mdtensor.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Tensor expressions, compiled and tuned for the shape and the device that you have."""


def main() -> None:
    """The program `mdtensor`; consoles get escapes of characters that they cannot show."""
    out: Any = sys.stdout
    if hasattr(out, "reconfigure"):  # it may be closed
        out.reconfigure(errors="backslashreplace")  # as standard error does
    app(prog_name="mdtensor")


@app.command()
def devices() -> None:
    """List the devices, and which one is the default."""
    from mdtensor.api.cli.devices_command import table_of_devices
    from mdtensor.api.cli.tables import show

    show(table_of_devices())


@app.command()
def tune(
    subscripts: Annotated[
        str | None, typer.Argument(metavar="EXPR", help="An einsum string: ij,jk->ik")
    ] = None,
    shapes: Annotated[list[str] | None, typer.Argument(metavar="SHAPE...", help=_SHAPES)] = None,
    file: Annotated[
        Path | None, typer.Option(help="Tune what this file says: EXPR SHAPE... on each line.")
    ] = None,
    dtype: DType = "f4",
    semiring: Semiring = None,
    budget: Budget = 60,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="Part of a device's name, such as cuda.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Find and keep the fastest kernel for EXPR on these shapes."""
    from mdtensor.api.cli.expression_arguments import expression_from_words, expressions_from_file
    from mdtensor.api.cli.tune_command import tune_expressions

    if (subscripts is None) is (file is None):
        raise typer.BadParameter("say either EXPR SHAPE... or --file FILE")
    expressions: list[Expression]
    if file is not None:
        expressions = expressions_from_file(file, dtype, semiring)
    else:
        words = [subscripts or "", *(shapes or [])]
        expressions = [expression_from_words(words, dtype, semiring)]
    tune_expressions(expressions, budget, quiet=quiet, device=device)


@app.command()
def explain(
    subscripts: Subscripts,
    shapes: Shapes,
    dtype: DType = "f4",
    semiring: Semiring = None,
    passes: Annotated[
        bool, typer.Option("--passes", help="Show what every pass of the lowering changes.")
    ] = False,
) -> None:
    """Show what EXPR becomes on these shapes.

    Its md_hom, the schedule and where it came from, the estimated time, the generated source.
    """
    import mdtensor
    from mdtensor.api.cli.expression_arguments import expression_from_words

    expression = expression_from_words([subscripts, *shapes], dtype, semiring)
    plan = mdtensor.compile(expression.subscripts, *expression.specs, **expression.options)
    typer.echo(plan.explain(passes=passes))


@app.command()
def report(
    page: Annotated[Path, typer.Argument(metavar="PAGE.html", help="File to write.")],
    expression: Annotated[
        list[str] | None,
        typer.Argument(metavar="EXPR SHAPE...", help="On what: ij,jk->ik 64,128 128,32"),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="On what this file says: EXPR SHAPE... on each line.")
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="EXPR is a program of Python, with its arguments behind.")
    ] = False,
    dtype: DType = "f4",
    semiring: Semiring = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="Time NumPy and opt_einsum on EXPR beside it.")
    ] = False,
    pictures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Save each picture there, as SVG.")
    ] = None,
) -> None:
    """Write a page with pictures: what was tuned, how, and what it gained.

    On all that the store has, or on EXPR, the lines of a file, or what a program computes: then
    also the decomposition, the roofline, the md_hom and the source.
    """
    from mdtensor.api.cli.expression_arguments import expression_from_words, expressions_from_file
    from mdtensor.api.cli.report_command import report_on, report_on_program

    if expression and file is not None:
        raise typer.BadParameter("say either EXPR SHAPE... or --file FILE")
    if peers and (run or not expression):
        raise typer.BadParameter("--peers needs EXPR SHAPE...")
    if run and not expression:
        raise typer.BadParameter("--run needs a program")
    if run and expression:
        report_on_program(page, expression, pictures)
    elif file is not None:
        report_on(page, expressions_from_file(file, dtype, semiring), pictures)
    elif expression:
        given = expression_from_words(expression, dtype, semiring)
        report_on(page, [given], pictures, with_peers=peers)
    else:
        report_on(page, None, pictures)


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def trace(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A program of Python.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARG...", help="What the program is given.")
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is the name of a module.")] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Save events for ui.perfetto.dev.")
    ] = None,
) -> None:
    """Run a program of Python, and tell why its calls are slow.

    When it ends, a table of all calls goes to standard error: which cache, tier, kernel and
    schedule served each, and its milliseconds in all stages.
    """
    from mdtensor.api.cli.trace_command import run_traced

    run_traced([script, *(arguments or [])], is_module=module, save=save)


@app.command()
def bench(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="EXPR SHAPE...", help="What to time: ij,jk->ik 64,128 128,32"),
    ] = None,
    dtype: DType = "f4",
    semiring: Semiring = None,
) -> None:
    """Time EXPR against NumPy, or run all benchmarks.

    EXPR runs untuned and tuned, by numpy.einsum, numpy.matmul and opt_einsum. With a semiring
    there is nothing to compare with. Without EXPR, the benchmarks in the repository's folder
    bench/ run, with what follows a -- as their arguments.
    """
    words = arguments or []
    if words and not words[0].startswith("-"):
        from mdtensor.api.cli.compare import compare, load_note, table_of
        from mdtensor.api.cli.expression_arguments import expression_from_words
        from mdtensor.api.cli.tables import show

        expression = expression_from_words(words, dtype, semiring)
        note = load_note()
        show(table_of([compare(expression)]))
        if note:
            typer.echo(note, err=True)
        return
    raise typer.Exit(_run_benchmarks(words))


def _run_benchmarks(arguments: list[str]) -> int:
    """Run the folder bench/ beside this package; it is part of the repository, not of the wheel."""
    import subprocess

    root = Path(__file__).parents[3]
    if not (root / "bench" / "run.py").exists():
        raise MdtensorError(
            "the benchmarks are not installed",
            hint="they are in the folder bench/ of the repository; to time one expression here:"
            ' mdtensor bench "ij,jk->ik" 64,128 128,32',
        )
    command = [sys.executable, "-m", "bench.run", *arguments]
    return subprocess.run(command, cwd=root, check=False).returncode


@app.command()
def demo(
    budget: Budget = 60,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training images.")] = 30,
    quick: Annotated[bool, typer.Option("--quick", help="Little of everything.")] = False,
) -> None:
    """Tune and train a network that reads handwritten digits."""
    from mdtensor.api.cli.demo import run

    run(budget_s=2 if quick else budget, epochs=2 if quick else epochs, rounds=1 if quick else 5)
