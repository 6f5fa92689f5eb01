"""Fusion on GPUs: steps that share rows run within work-groups, small ones in a single group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mdtensor.api.engine.launch_counter import AGAIN
from mdtensor.api.engine.tiers import Tiers
from mdtensor.backends import protocol
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.chain_schedule import ChainSchedule
from mdtensor.lower.search.gpu_chain_candidates import (
    best_on_gpu_rows,
    is_small,
    least_apart,
    may_be_on_rows,
)
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import FusedStep, Program, Step
from mdtensor.translate.rewrites.fused_steps import fused_runs
from mdtensor.translate.rewrites.shared_rows import rows_within

if TYPE_CHECKING:
    from mdtensor.lower.search.chain_candidates import OnBlocks, RowChain


class OnGpu:
    """Fusion on GPUs, see `fused_calls.FusionPolicy`."""

    most, joins_all = 512, False

    def __init__(self, tiers: Tiers, problem_of: Callable[[MDHom], Problem]) -> None:
        self._tiers, self._problem_of = tiers, problem_of

    def runs(self, program: Program) -> dict[int, FusedStep]:
        """The runs of steps that share rows or are small, and read each element a few times."""
        return fused_runs(program, self._may_be_one)

    def _may_be_one(self, steps: Sequence[Step], own: Sequence[int]) -> bool:
        problems = [self._problem_of(step.md_hom) for step in steps]
        if not all(map(may_be_on_rows, problems)):
            return False
        return bool(rows_within(steps, own)) or all(map(is_small, problems))

    def worth_launches(self, program: Program, *, alone: bool) -> int | None:
        """Two launches for a call with such runs; None for other calls."""
        return AGAIN if self.runs(program) else None

    def best_on_rows(self, chain: RowChain) -> tuple[float, OnBlocks, ChainSchedule] | None:
        """The best of the few schedules by the cost model."""
        return best_on_gpu_rows(chain, self._tiers.target)

    def seconds_apart(self, problem: Problem) -> float:
        """A lower bound on the seconds of a step as a separate kernel."""
        return least_apart(problem, self._tiers.target)

    def loading(self, source: KernelSource) -> Callable[[], protocol.CompiledProgram]:
        """Compiles a source; the load is left to calls, which own the device (see `gpu_tier`)."""
        compiled = self._tiers.device.compiled(source)
        return lambda: self._tiers.device.load(compiled)
