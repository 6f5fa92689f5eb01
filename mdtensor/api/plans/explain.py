"""Explanations of a kernel as text: why it was chosen, its estimated cost, its source."""

from __future__ import annotations

from functools import partial

from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import KernelChoice
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.problem.work import bytes_moved, flops
from mdtensor.translate.md_hom import MDHom


def explained(md_hom: MDHom, choice: KernelChoice, watched: Engine | None = None) -> str:
    """Describe an `md_hom` and the kernel that was chosen for it.

    With the engine that chose it, to be `watched`, all passes that made it.
    """
    problem = choice.problem
    return "\n".join(
        (
            "md_hom",
            *_indented(md_hom.describe()),
            "problem",
            *_indented(problem_key(problem)),
            f"schedule (from the {'store: ' if choice.origin == 'tuned' else ''}{choice.origin})",
            *_indented(choice.schedule.describe(problem)),
            "cost",
            *_cost(choice),
            *(_source(choice) if watched is None else _passes(md_hom, choice, watched)),
        )
    )


def _cost(choice: KernelChoice) -> list[str]:
    """The time and rates of a kernel; a GPU's first general kernel has no estimate."""
    problem, seconds = choice.problem, choice.seconds
    if not seconds:
        return ["  not estimated"]
    kind = "measured" if choice.origin == "tuned" else "estimated"
    return [
        f"  {kind} {seconds * 1e6:.1f} µs: {flops(problem) / seconds / 1e9:.1f} GFLOP/s",
        f"  {bytes_moved(problem) / seconds / 1e9:.1f} GB/s of the fewest bytes",
    ]


def _source(choice: KernelChoice) -> list[str]:
    return ["source", *_indented(choice.source.text)]


def _passes(md_hom: MDHom, choice: KernelChoice, engine: Engine) -> list[str]:
    from mdtensor.api.plans.explain_passes import passes_of, passes_text

    ran = passes_of(partial(engine.source_again, md_hom, choice))
    lines = passes_text(ran, engine.target.dialect)
    return ["passes", *_indented("\n".join(lines))]


def _indented(text: str) -> list[str]:
    return ["  " + line for line in text.splitlines()]
