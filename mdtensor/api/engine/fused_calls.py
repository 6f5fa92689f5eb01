"""Fused calls: frequent steps of a call, compiled into one kernel.

A launch takes longer than a small kernel runs. Where the calling thread runs all steps of a call,
one kernel with their constants is compiled in the background, which later calls take. So is one
for steps that share rows, of which what lies between stays in a core's caches, or in the local
memory of a GPU's groups.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mdtensor.api.engine.cpu_tier import WORTH_OFTEN
from mdtensor.api.engine.kernel_choice import DIALECTS, ranking_in, replaced
from mdtensor.api.engine.launch_counter import LaunchNumbers, counting
from mdtensor.api.engine.tiers import Tiers
from mdtensor.backends import protocol
from mdtensor.dataclass import dataclass
from mdtensor.errors import CompileError, LoweringError
from mdtensor.forks import cached_property
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.cpu.cost.cpu_cost import INLINE_LAUNCH
from mdtensor.lower.problem.generic_problem import GENERALISE, Shape
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.chain_schedule import ChainSchedule
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import FusedStep, Program, Step
from mdtensor.translate.rewrites.fused_steps import fused_runs, with_runs

if TYPE_CHECKING:
    from mdtensor.lower.search.chain_candidates import OnBlocks, RowChain

# What a small step takes, in launches.
_LAUNCHES_OF_STEP = 2
_MOST_JOINED = 64  # calls that have programs of their own, or cannot have them


class FusedKernel:
    """A kernel fused from several steps, and their problems and schedules.

    Its program is loaded by who launches it first.
    """

    def __init__(
        self,
        load: Callable[[], protocol.CompiledProgram],
        steps: Sequence[tuple[Problem, Schedule]],
        by_rows: ChainSchedule | None = None,
    ) -> None:
        self._load, self.steps, self.by_rows = load, tuple(steps), by_rows

    is_general = False

    @property
    def shapes(self) -> list[Shape]:
        """The structures and sizes of its steps."""
        return [GENERALISE(problem) for problem, _ in self.steps]

    @cached_property
    def program(self) -> protocol.CompiledProgram:
        """The loaded program, on the operands and results of the steps."""
        return self._load()


# The share of a program's time that blocks of rows save at most, from which they are looked for:
# that takes seconds. Padded copies of images that are convolved are below.
WORTH_ROWS = 0.1


@dataclass(frozen=True, slots=True)
class Fusion:
    """A program's steps after fusion, with its remaining temporaries and its fused kernels.

    `winners` are those of the store that it was made under.
    """

    winners: tuple[Schedule | None, ...]
    steps: tuple[Step | FusedStep, ...]
    temporaries: tuple[TensorSpec, ...]
    kernels: Mapping[Program, FusedKernel]


def is_worth_joining(seconds: float, apart: float) -> bool:
    """Whether fusion by rows is expected to take no longer than the separate steps."""
    return seconds <= apart


class FusionPolicy(Protocol):
    """A device kind's policy of fusion: candidates, profitability, and compilation."""

    most: int
    joins_all: bool

    def runs(self, program: Program) -> dict[int, FusedStep]:
        """The runs of steps that can be fused, by the index of each run's first step."""
        ...

    def worth_launches(self, program: Program, *, alone: bool) -> int | None:
        """The number of launches after which fusion pays; None for never."""
        ...

    def best_on_rows(self, chain: RowChain) -> tuple[float, OnBlocks, ChainSchedule] | None:
        """The best schedule of a chain by the cost model, and its seconds."""
        ...

    def seconds_apart(self, problem: Problem) -> float:
        """The expected seconds of a step as a separate kernel."""
        ...

    def loading(self, source: KernelSource) -> Callable[[], protocol.CompiledProgram]:
        """Compiles a source; returns a function that loads the program."""
        ...


class OnProcessor:
    """Fusion on CPUs: of small steps, and of runs by rows that save enough time."""

    most, joins_all = _MOST_JOINED, True

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers

    def runs(self, program: Program) -> dict[int, FusedStep]:
        """The runs of steps that share rows."""
        return fused_runs(program)

    def worth_launches(self, program: Program, *, alone: bool) -> int | None:
        """The launches that fill a tenth of a second; None where rows save too little."""
        seconds = _LAUNCHES_OF_STEP * INLINE_LAUNCH * len(program.steps)
        if not alone:
            seconds += sum(self._least_seconds(step.md_hom) for step in program.steps)
            if self._most_saved(program) < WORTH_ROWS * seconds or not self.runs(program):
                return None
        return math.ceil(WORTH_OFTEN / seconds)

    def best_on_rows(self, chain: RowChain) -> tuple[float, OnBlocks, ChainSchedule] | None:
        """The best schedule by the cost model, ranked in the compiler's process."""
        from mdtensor.lower.search.chain_candidates import best_on_rows

        return self._tiers.apart.call(best_on_rows, chain, self._tiers.target)

    def seconds_apart(self, problem: Problem) -> float:
        """The best candidate's estimated seconds."""
        return ranking_in(self._tiers.apart, problem)[0][0]

    def loading(self, source: KernelSource) -> Callable[[], protocol.CompiledProgram]:
        """Compiles and loads a source at once."""
        program = self._tiers.apart.compile(source)
        return lambda: program

    def _most_saved(self, program: Program) -> float:
        """An upper bound on the seconds that row blocks save: launches, temporaries, rereads."""
        reads = Counter(slot for step in program.steps for slot in step.operands)
        moved = 2 * sum(spec.nbytes for spec in program.between.values())
        specs = {
            slot: buffer.spec
            for step in program.steps
            for slot, buffer in zip(step.operands, step.md_hom.inputs, strict=True)
        }
        moved += sum((reads[slot] - 1) * spec.nbytes for slot, spec in specs.items())
        launches = _LAUNCHES_OF_STEP * INLINE_LAUNCH * (len(program.steps) - 1)
        return launches + moved / self._tiers.target.bandwidth

    def _least_seconds(self, md_hom: MDHom) -> float:
        """A lower bound on a step's seconds: its arithmetic on all cores, or its stores."""
        target = self._tiers.target
        moved = sum(buffer.spec.nbytes for buffer in md_hom.outputs)
        return max(md_hom.points / (target.rate * target.cores), moved / target.bandwidth)


class FusedPrograms:
    """The fused kernels of programs on one device.

    `problem_of` gives the problem of a step, `winner` the schedule that was found for it, if any.
    `made` has what became of programs, by whether winners in the store count.
    """

    def __init__(
        self,
        tiers: Tiers,
        problem_of: Callable[[MDHom], Problem],
        winner: Callable[[Problem], Schedule | None],
    ) -> None:
        self._tiers, self._problem_of, self._winner = tiers, problem_of, winner
        self.kind: FusionPolicy = OnProcessor(tiers)
        if tiers.target.kind == "gpu":
            from mdtensor.api.engine.fused_on_gpu import OnGpu

            self.kind = OnGpu(tiers, problem_of)
        self.made: dict[tuple[Program, bool], Fusion] = {}

    def fused(self, program: Program, *, use_store: bool) -> Fusion | None:
        """The fusion of a program, if some of its steps are compiled into one kernel."""
        made = self._known(program, use_store=use_store)
        if made is None or not made.kernels:
            return None
        try:
            tuple(kernel.program for kernel in made.kernels.values())  # which loads them
        except CompileError:  # kept by another driver of the same name and number
            self.made[program, use_store] = Fusion(
                made.winners, program.steps, program.temporaries, {}
            )
            return None
        return made

    def counted(
        self, program: Program, run: Callable[..., None], *, use_store: bool, alone: bool
    ) -> Callable[..., None]:
        """A launch of a program step by step that requests fusion once it has run long enough.

        Where the calling thread does not run it `alone`, only runs by rows are fused.
        """
        if self._known(program, use_store=use_store) is not None:
            return run
        if len(self.made) >= self.kind.most:
            return run
        last = self.kind.worth_launches(program, alone=alone)
        if last is None:
            return run
        key = program, use_store
        ask = partial(self._tiers.background.ask, key, partial(self._make, key, alone), must=True)
        return counting(run, LaunchNumbers(last, ask))

    def _known(self, program: Program, *, use_store: bool) -> Fusion | None:
        made = self.made.get((program, use_store))
        if made is None or made.winners != self._winners(program, use_store=use_store):
            return None
        return made

    def _winners(self, program: Program, *, use_store: bool) -> tuple[Schedule | None, ...]:
        if not use_store:
            return (None,) * len(program.steps)
        return tuple([self._winner(self._problem_of(step.md_hom)) for step in program.steps])

    def _make(self, key: tuple[Program, bool], alone: bool) -> None:
        program, use_store = key
        winners = self._winners(program, use_store=use_store)
        found: dict[int, tuple[FusedStep, FusedKernel]] = {}
        if alone and self.kind.joins_all:
            with contextlib.suppress(CompileError, LoweringError):
                found[0] = FusedStep.of(program), self._compiled(program, winners)
        for number, run in self.kind.runs(program).items() if not found else ():
            with contextlib.suppress(CompileError, LoweringError):  # then steps run one by one
                fused = self._by_rows(run.program)
                if fused is not None:
                    found[number] = run, fused
        steps, temporaries = with_runs(program, {n: run for n, (run, _) in found.items()})
        kernels = {run.program: fused for run, fused in found.values()}
        self.made[key] = Fusion(winners, steps, temporaries, kernels)
        if found:
            problems = [self._problem_of(step.md_hom) for step in program.steps]
            self._tiers.tell(replaced(*problems))

    def _by_rows(self, program: Program) -> FusedKernel | None:
        """The kernel of a program by blocks of rows; None where that is not faster."""
        from mdtensor.kernels.chain_program import chain_program_of
        from mdtensor.lower.search.chain_candidates import row_chain

        found = self.kind.best_on_rows(row_chain(program.steps, program.between))
        if found is None:
            return None
        seconds, made, schedule = found
        apart = sum(
            self.kind.seconds_apart(self._problem_of(step.md_hom)) for step in program.steps
        )
        if not is_worth_joining(seconds, apart):
            return None
        source = chain_program_of(
            made.steps,
            made.rest,
            schedule,
            made.blocks.extents,
            range(program.result_slots.stop),
            made.between,
            DIALECTS[self._tiers.target.dialect],
        )
        scheduled = zip(made.steps, schedule.steps, strict=True)
        steps = [(problem, how) for (problem, _), how in scheduled]
        return FusedKernel(self.kind.loading(source), steps, schedule)

    def _compiled(self, program: Program, winners: tuple[Schedule | None, ...]) -> FusedKernel:
        from mdtensor.kernels.program import joined_program_of

        steps: list[tuple[Problem, Schedule, tuple[int, ...]]] = []
        for step, found in zip(program.steps, winners, strict=True):
            problem = self._problem_of(step.md_hom)
            schedule = found or self._best(problem)
            steps.append((problem, schedule, (*step.operands, *step.results)))
        source = joined_program_of(
            steps,
            range(program.operands),
            program.result_slots,
            {slot: spec.nbytes for slot, spec in program.between.items()},
            DIALECTS[self._tiers.target.dialect],
            [problem_key(problem) for problem, _, _ in steps],
        )
        scheduled = [(problem, schedule) for problem, schedule, _ in steps]
        return FusedKernel(self.kind.loading(source), scheduled)

    def _best(self, problem: Problem) -> Schedule:
        return ranking_in(self._tiers.apart, problem)[0][1]
