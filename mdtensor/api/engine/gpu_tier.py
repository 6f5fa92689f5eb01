"""The tier of GPUs: specialized kernels, and general ones that run until these are compiled.

The first call of a structure waits for a kernel of its own, and has a general one of the structure
compiled in the background. Other shapes of it begin with that one at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from mdtensor.api.engine.background_worker import Background
from mdtensor.api.engine.fallback_program import StandIn
from mdtensor.api.engine.generic_selection import launch_sizes, without_parts
from mdtensor.api.engine.kernel_choice import GENERAL, Choice, Structures, ranked, source_of
from mdtensor.api.engine.program_cache import Winners
from mdtensor.api.engine.scratch_bound import has_scratch
from mdtensor.backends.host.binary_cache import Compiled
from mdtensor.backends.protocol import Device, Program
from mdtensor.bounded import Bounded
from mdtensor.errors import CompileError, LoweringError
from mdtensor.lower.problem.generic_problem import GENERALISE
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule

# Seconds that compiling a kernel takes, about; and those of a launch up to which a general kernel
# serves a shape meanwhile.
COMPILING = 0.3
SHORT = COMPILING / 10
# A general kernel is compiled where others of the structure take so many times as long.
NEARLY = 3.0
_MOST_VARIANTS = 6
_MOST_KEPT = 1024  # of kernels of either kind; the folder of programs has them too

Made = tuple[float, Schedule, Compiled]


class GpuKernels:
    """The kernels of one GPU, for problems that are worth their constants.

    `tell` is called for each that later calls can take. Nothing is held while a compiler runs: two
    threads that want the same kernel at the same time compile it twice. The background compiles
    only; what touches the device is done by calls, whose streams somebody may be recording.
    """

    def __init__(
        self,
        device: Device,
        winners: Winners,
        structure_of: Callable[[Problem], Structures],
        tell: Callable[[], None],
    ) -> None:
        self.device, self.target = device, device.target
        self._winners, self._structure_of, self._tell = winners, structure_of, tell
        self._own = Bounded[Problem, Choice](_MOST_KEPT)
        self.standing = Bounded[Problem, Choice](_MOST_KEPT)
        # What the background compiled, until a call loads it.
        self._made = Bounded[Problem, Made](_MOST_KEPT)
        self._background = Background[Callable[[], None]](lambda work: work())

    def now(self, problem: Problem) -> Choice | None:
        """What runs a problem now: its own kernel, or one that stands in for it.

        None where a call must wait, and where nothing compiles.
        """
        if problem in self._own or problem in self._made:
            return self.own(problem)
        if (standing := self.standing.get(problem)) is not None:
            return standing
        if self._winners.choice(problem) is not None:  # whose program was kept as well
            return self.own(problem)
        return self._stand_in(problem)

    def own(self, problem: Problem) -> Choice | None:
        """A kernel with the problem's own constants, as the cost model or a process before chose.

        None where neither of the best two compiles.
        """
        found = self._own.get(problem)
        if found is not None:
            return found
        made = self._made.get(problem) or self._compiled(problem)
        if made is None:
            return None
        seconds, schedule, compiled = made
        source = compiled.source
        try:
            program = self.device.load(compiled)
        except CompileError:  # kept by another driver of the same name and number
            source, program = self._winners.program(problem, schedule, lambda: source)
        choice = Choice(problem, schedule, "cost model", seconds, source, program)
        self._own.keep(problem, choice)
        self._made.pop(problem, None)
        self.standing.pop(problem, None)
        self._ask_for_general(problem)
        return choice

    def settle(self, timeout: float) -> None:
        """Waits until the kernels that were asked for are compiled."""
        self._background.settle(timeout)

    def _compiled(self, problem: Problem) -> Made | None:
        """The best kernel of the two that the cost model ranks first that compiles."""
        known = self._winners.choice(problem)
        for seconds, schedule in [known] if known else ranked(problem, self.target, most=2)[:2]:
            made = self._made_as_chosen(problem, seconds, schedule)
            if made is not None:
                if known is None:
                    self._winners.keep_choice(problem, seconds, schedule)
                return made
        return None

    def _stand_in(self, problem: Problem) -> Choice | None:
        """A general kernel for a problem; None where none is compiled, or it would take long."""
        general, sizes = GENERALISE(problem)
        structure = self._structure_of(general)
        self._load_general(structure)
        variants = self._best_of(problem, (*structure.variants,))
        if not variants or variants[0][0] > SHORT:
            return None
        seconds, variant = variants[0]
        source, program = structure.variants[variant]
        schedule = self._in_parts(problem, variant)
        launched = (*sizes, *launch_sizes(sizes, schedule, schedule.parts))
        if not has_scratch(source, launched, lambda: problem):
            return None
        general_program = program.bound(launched)
        stand_in = StandIn(
            general_program,
            math.ceil(COMPILING / seconds),
            lambda: self._background.ask(problem, partial(self._improve, problem)),
            lambda: self._waited_for(problem, general_program),
            self.device.is_captured,
        )
        improves = partial(self._background.has, problem)
        choice = Choice(problem, schedule, GENERAL, seconds, source, stand_in, improves, variant)
        self.standing.keep(problem, choice)
        return choice

    def _waited_for(self, problem: Problem, other: Program) -> Program:
        """The problem's own program, which later calls take; the other where none compiles."""
        own = self.own(problem)
        if own is None:
            return other
        self._tell()
        return own.program

    def _improve(self, problem: Problem) -> None:
        """Compiles a problem's own kernel, for the next call to load."""
        if problem not in self._own and problem not in self._made:
            made = self._compiled(problem)
            if made is None:
                return
            self._made.keep(problem, made)
        self._tell()

    def _ask_for_general(self, problem: Problem) -> None:
        general, _ = GENERALISE(problem)
        self._background.ask(general, partial(self._make_general, general, problem), must=True)

    def _make_general(self, general: Problem, problem: Problem) -> None:
        """Compiles the general kernel that suits a problem best, where none does nearly as well."""
        structure = self._structure_of(general)
        ranking = self._best_of(problem, self._variants(problem))
        known = self._best_of(problem, structure.wanted)
        if len(structure.wanted) >= _MOST_VARIANTS or general in self._made:
            return
        if known and known[0][0] <= NEARLY * ranking[0][0]:
            return
        for seconds, variant in ranking[:2]:
            structure.wanted.add(variant)
            made = self._made_as_chosen(general, seconds, variant)
            if made is not None:
                self._made.keep(general, made)
                self._winners.keep_choice(general, seconds, variant)
                return

    def _load_general(self, structure: Structures) -> None:
        """Loads what the background compiled for a structure, or a process before."""
        general = structure.general
        made = self._made.pop(general, None)
        if made is None and not structure.wanted and (kept := self._winners.choice(general)):
            structure.wanted.add(kept[1])
            made = self._made_as_chosen(general, *kept)
        if made is None:
            return
        _, variant, compiled = made
        sizes = [1] * len(compiled.source.sizes)
        with suppress(CompileError):
            structure.add(variant, (compiled.source, self.device.load(compiled, sizes)))

    def _made_as_chosen(self, problem: Problem, seconds: float, schedule: Schedule) -> Made | None:
        make = partial(source_of, problem, schedule, self.target)
        try:
            return seconds, schedule, self._winners.compiled(problem, schedule, make)
        except (CompileError, LoweringError):
            return None

    def _variants(self, problem: Problem) -> list[Schedule]:
        """Schedules that a general kernel may have, which is compiled for this problem first."""
        from mdtensor.lower.gpu.candidates.generic_candidates import general_candidates
        from mdtensor.lower.gpu.space.gpu_ranking import gpu_schedule

        found = [gpu_schedule(problem, self.target), *general_candidates(problem, self.target)]
        return list(dict.fromkeys(without_parts(problem, schedule) for schedule in found))

    def _best_of(
        self, problem: Problem, variants: Iterable[Schedule]
    ) -> list[tuple[float, Schedule]]:
        """General schedules with the seconds that they are expected to take, the best first."""
        found = [(self._expected(problem, variant), variant) for variant in variants]
        return sorted(found, key=lambda pair: pair[0])

    def _in_parts(self, problem: Problem, variant: Schedule) -> Schedule:
        from mdtensor.lower.gpu.candidates.generic_candidates import in_parts

        return in_parts(problem, variant, self.target)

    def _expected(self, problem: Problem, variant: Schedule) -> float:
        """Seconds that a general kernel takes for a problem, by the cost model."""
        from mdtensor.lower.search.candidates import estimated

        return estimated(problem, self._in_parts(problem, variant), self.target)
