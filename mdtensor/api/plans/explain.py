"""What people are told of a kernel: why it was chosen, what it costs, its source."""

from __future__ import annotations

from mdtensor.api.engine.kernel_choice import Choice
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.problem.work import bytes_moved, flops
from mdtensor.translate.md_hom import MDHom


def explained(md_hom: MDHom, choice: Choice) -> str:
    """One `md_hom` and the kernel that was chosen for it, for people."""
    problem, seconds = choice.problem, choice.seconds
    kind = "measured" if choice.origin == "tuned" else "estimated"
    work, moved = flops(problem), bytes_moved(problem)
    return "\n".join(
        (
            "md_hom",
            *_indented(md_hom.describe()),
            "problem",
            *_indented(problem_key(problem)),
            f"schedule (from the {'store: ' if choice.origin == 'tuned' else ''}{choice.origin})",
            *_indented(choice.schedule.describe(problem)),
            "cost",
            f"  {kind} {seconds * 1e6:.1f} µs: {work / seconds / 1e9:.1f} GFLOP/s",
            f"  {moved / seconds / 1e9:.1f} GB/s of the fewest bytes",
            "source",
            *_indented(choice.source.text),
        )
    )


def _indented(text: str) -> list[str]:
    return ["  " + line for line in text.splitlines()]
