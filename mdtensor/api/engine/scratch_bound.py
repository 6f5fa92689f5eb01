"""The limit on the scratch memory of compiled kernels.

Here because a general kernel, which is chosen for one shape and run with others, takes what its
sizes make of it, and because what is read from disk was lowered elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mdtensor.backends.host.launch_expressions import evaluated
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.scratch_memory import ALLOWANCE, most_scratch


def takes_scratch(source: KernelSource) -> bool:
    """Whether a program's kernels use scratch memory."""
    return any(entry.scratch.terms for entry in source.entries)


def fits_scratch_limit(
    source: KernelSource, sizes: Sequence[int], problem: Callable[[], Problem]
) -> bool:
    """Whether a program's scratch memory at these sizes is within the limit of its problem."""
    needed = [entry.scratch for entry in source.entries if entry.scratch.terms]
    if not needed:
        return True
    values = dict(zip(source.sizes, sizes, strict=True))
    taken = max([evaluated(index, values) for index in needed])
    return taken <= ALLOWANCE or taken <= most_scratch(problem())
