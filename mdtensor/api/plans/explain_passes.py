"""Explanations of a lowering as text: each compiler pass, and the diff that it made."""

from __future__ import annotations

from collections.abc import Callable
from difflib import unified_diff
from typing import Any, cast

from mdtensor.api.engine.kernel_choice import DIALECTS
from mdtensor.api.plans.problem_text import problem_text
from mdtensor.kernels.cstyle import kernel_text
from mdtensor.kernels.dialect import Dialect
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.opencl import OPENCL
from mdtensor.kernels.passes import PASSES
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.pass_runner import Pass, watched
from mdtensor.lower.problem.problem import Problem
from mdtensor.translate.md_hom import MDHom

AnyPass = Pass[Any, ..., Any]
_AT_THE_BEGINNING = ("@@ -0,", "@@ -1,", "@@ -1 ")  # what differences have before line 1
Ran = tuple[AnyPass, Any, Any]


def passes_of(lower: Callable[[], object]) -> list[Ran]:
    """The passes that `lower` runs, each with its input and output; repeated runs count once."""
    found: list[Ran] = []

    def note(each: AnyPass, before: Any, after: Any) -> None:
        if (each, before, after) not in found:
            found.append((each, before, after))

    watched(note, lower)
    return found


def passes_text(ran: list[Ran], dialect: str) -> list[str]:
    """One line per pass in pipeline order, followed by the changes that it made.

    What is of the same kind before and after is shown as a difference of lines, and so are loops
    and their text in a dialect of C.
    """
    lines: list[str] = []
    done = 0
    for each, before, after in ran:
        number = PASSES.index(each)
        lines += [f"{skipped.name}: not needed" for skipped in PASSES[done:number]]
        done = max(done, number + 1)
        lines += _lines(each, before, after, dialect)
    return lines + [f"{skipped.name}: not needed" for skipped in PASSES[done:]]


def _lines(each: AnyPass, before: Any, after: Any, dialect: str) -> list[str]:
    if before == after:
        return [f"{each.name}: changes nothing"]
    (kind, old), (new_kind, new) = _shown(before, dialect), _shown(after, dialect)
    is_text = new_kind == "KernelSource" and isinstance(DIALECTS[dialect], Dialect)
    if kind != new_kind and not is_text:
        return [f"{each.name}: {kind} -> {new_kind}", *(f"  {line}" for line in new.splitlines())]
    _, _, *changes = unified_diff(old.splitlines(), new.splitlines(), lineterm="")
    changes = [line for line in changes if not line.startswith(_AT_THE_BEGINNING)]
    shown = ("  …" if line.startswith("@@") else f"  {line}" for line in changes)
    what = f"{kind} -> {new_kind}" if is_text else f"changes the {kind}"
    return [f"{each.name}: {what}", *shown]


def _shown(value: Any, dialect: str) -> tuple[str, str]:
    """The kind of a pass's input or output, and its text."""
    match value:
        case MDHom():
            return "MDHom", value.describe()
        case Problem():
            return "Problem", problem_text(value)
        case (Problem() as general, sizes):
            named = zip(general.sizes, cast("tuple[int, ...]", sizes), strict=True)
            shape = " ".join(f"{name}={size}" for name, size in named)
            return "Problem of all shapes", f"{problem_text(general)}\nsizes {shape}"
        case KernelSource():
            return "KernelSource", value.text
        case Dialect():
            return "Dialect", f"{value.name}, with indices as {value.index}"
        case _:
            language = DIALECTS[dialect]
            c = language if isinstance(language, Dialect) else OPENCL
            nests = cast("tuple[LoopNest, ...]", value)
            return "LoopNests", "\n".join(kernel_text(nest, c) for nest in nests)
