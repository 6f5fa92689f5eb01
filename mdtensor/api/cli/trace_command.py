"""`mdtensor trace`: runs a program of Python under a trace."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import typer

_OWN_FILES = (__file__, runpy.__file__, "<frozen runpy>")


def run_traced(arguments: Sequence[str], *, is_module: bool, save: Path | None) -> None:
    """Runs a script or a module as Python does, and prints or saves the trace when it ends.

    `arguments` are its name and what it finds in `sys.argv`. Raises BadParameter for a script
    that is not there and for a file that cannot be saved or is no JSON, SystemExit as the program
    does.
    """
    from mdtensor.api.calls.call_trace import trace_everywhere

    if save is not None and save.suffix != ".json":
        raise typer.BadParameter(f"--save {save} is no FILE.json")
    if save is not None and not os.access(save if save.exists() else save.parent, os.W_OK):
        raise typer.BadParameter(f"--save {save} cannot be written")
    check_program(arguments[0], is_module=is_module)
    seen = trace_everywhere("1" if save is None else str(save.absolute()))
    try:
        run_program(arguments, is_module=is_module)
    finally:
        if seen is not None and not seen.calls:
            typer.echo("mdtensor computed nothing", err=True)


def check_program(program: str, *, is_module: bool) -> None:
    """Raises BadParameter for a script that is not there."""
    if not is_module and not Path(program).is_file():
        raise typer.BadParameter(f"there is no file {program}; -m NAME runs a module")


def run_program(arguments: Sequence[str], *, is_module: bool) -> None:
    """Runs a script or a module as Python does; one that raises an error ends with exit code 1."""
    program = arguments[0]
    sys.argv[:] = arguments
    sys.path.insert(0, os.getcwd() if is_module else str(Path(program).resolve().parent))
    try:
        if is_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(os.path.abspath(program), run_name="__main__")  # as tracebacks have it
    except Exception as error:
        traceback.print_exception(error.with_traceback(_of_program(error.__traceback__)))
        raise typer.Exit(1) from None


def _of_program(whole: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of the command itself."""
    while whole is not None and whole.tb_frame.f_code.co_filename in _OWN_FILES:
        whole = whole.tb_next
    return whole
