"""The GPU policy: specialised kernels, with a general one as a fallback while they compile.

The first call of a structure waits for a kernel of its own, and has a general one of the structure
compiled in the background. Other shapes of it begin with that one at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from mdtensor.api.engine.generic_selection import block_by_block, launch_sizes, without_parts
from mdtensor.api.engine.kernel_choice import (
    GENERAL,
    KernelChoice,
    Structures,
    ranked,
    replaced,
    source_of,
)
from mdtensor.api.engine.launch_counter import StandIn
from mdtensor.api.engine.program_cache import Winners
from mdtensor.api.engine.scratch_bound import fits_scratch_limit
from mdtensor.api.engine.tiers import CompiledKernel, Tiers
from mdtensor.backends.protocol import CompiledProgram
from mdtensor.errors import CompileError, LoweringError
from mdtensor.lower.problem.generic_problem import GENERALISE
from mdtensor.lower.problem.problem import Problem, points
from mdtensor.lower.schedule.schedule import Schedule

# Points of a problem from which a kernel with constants is worth its compilation, and such of one
# work-item, which takes some 27 ns for each.
WORTH_CONSTANTS, WORTH_SHARING = 1 << 17, 1 << 11
# Work-items that share a reduction to one result, whatever the problem.
_SHARING = 256
# Seconds that compiling a kernel takes, about; and those of a launch up to which a general kernel
# serves a shape meanwhile.
COMPILING = 0.3
SHORT = COMPILING / 10
# A general kernel is compiled where others of the structure take so many times as long.
NEARLY = 3.0
_MOST_VARIANTS = 6


class GpuPolicy:
    """The compilation policy of GPUs: which kernels are compiled, and when.

    `structure_of` gives the structure of a general problem.

    Nothing is held while a compiler runs: two threads that want the same kernel at the same time
    compile it twice. The background compiles only; what touches the device is done by calls, whose
    streams somebody may be recording.
    """

    def __init__(
        self, tiers: Tiers, winners: Winners, structure_of: Callable[[Problem], Structures]
    ) -> None:
        self._tiers, self._winners, self._structure_of = tiers, winners, structure_of
        self._device, self._target = tiers.device, tiers.target

    def now(self, problem: Problem) -> KernelChoice | None:
        """A problem's specialised kernel, or a general one as its fallback.

        None where a call must wait, where nothing compiles, and where it is not worth constants.
        """
        if not _is_worth_constants(problem):
            return None
        reached = self._tiers.reached(problem)
        if isinstance(reached, KernelChoice):
            return reached
        if reached is not None or self._winners.choice(problem) is not None:  # with its program
            return self.own(problem)
        return self._stand_in(problem)

    def own(self, problem: Problem) -> KernelChoice | None:
        """A specialised kernel, by the schedule of the cost model or of an earlier process.

        None where the problem is not worth one, and where neither of the best two compiles.
        """
        if not _is_worth_constants(problem):
            return None
        reached = self._tiers.reached(problem)
        if isinstance(reached, KernelChoice) and not reached.is_general:
            return reached
        made = reached if isinstance(reached, CompiledKernel) else self._compiled(problem)
        if made is None:
            return None
        schedule, source = made.schedule, made.compiled.source
        try:
            program = self._device.load(made.compiled)
        except CompileError:  # kept by another driver of the same name and number
            try:
                source, program = self._winners.program(problem, schedule, lambda: source)
            except CompileError:
                return None
        choice = KernelChoice(problem, schedule, "cost model", made.seconds, source, program)
        self._tiers.rise(problem, choice)
        self._ask_for_general(problem)
        return choice

    def general(
        self, structure: Structures, sizes: tuple[int, ...], problem: Problem
    ) -> KernelChoice:
        """The first general kernel of a structure, with one part per block."""
        variant = structure.first_variant
        source, program = structure.variants[variant]
        schedule = block_by_block(problem, variant)
        launched = (*sizes, *launch_sizes(sizes, schedule, schedule.parts))
        bound = program.bound(launched, schedule.inline)
        return KernelChoice(problem, schedule, GENERAL, 0.0, source, bound, variant=variant)

    def at_once(self, *_: object, use_store: bool) -> None:
        """Returns None: the policy needs the problem itself."""

    def _compiled(self, problem: Problem) -> CompiledKernel | None:
        """The first to compile of the cost model's best two schedules, or of the cached choice."""
        known = self._winners.choice(problem)
        for seconds, schedule in [known] if known else ranked(problem, self._target, most=2)[:2]:
            made = self._made_as_chosen(problem, seconds, schedule)
            if made is not None:
                if known is None:
                    self._winners.keep_choice(problem, seconds, schedule)
                return made
        return None

    def _stand_in(self, problem: Problem) -> KernelChoice | None:
        """A general kernel as a fallback; None where none is compiled, or it would be slow."""
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
        if not fits_scratch_limit(source, launched, lambda: problem):
            return None
        general_program = program.bound(launched)
        stand_in = StandIn(
            general_program,
            math.ceil(COMPILING / seconds),
            lambda: self._tiers.background.ask(problem, partial(self._improve, problem)),
            lambda: self._waited_for(problem, general_program),
            self._device.is_captured,
        )
        improves = partial(self._tiers.background.has, problem)
        choice = KernelChoice(
            problem, schedule, GENERAL, seconds, source, stand_in, improves, variant
        )
        self._tiers.rise(problem, choice)
        return choice

    def _waited_for(self, problem: Problem, other: CompiledProgram) -> CompiledProgram:
        """A problem's specialised program, compiled now; `other` where none compiles."""
        own = self.own(problem)
        if own is None:
            return other
        self._tiers.tell(replaced(problem))
        return own.program

    def _improve(self, problem: Problem) -> None:
        """Compiles a problem's specialised kernel, for the next call to load."""
        reached = self._tiers.reached(problem)
        if reached is None or (isinstance(reached, KernelChoice) and reached.is_general):
            made = self._compiled(problem)
            if made is None:
                return
            self._tiers.rise(problem, made)
        self._tiers.tell(replaced(problem))

    def _ask_for_general(self, problem: Problem) -> None:
        general, _ = GENERALISE(problem)
        make = partial(self._make_general, general, problem)
        self._tiers.background.ask(general, make, must=True)

    def _make_general(self, general: Problem, problem: Problem) -> None:
        """Compiles the best general kernel for a problem, unless one is nearly as good."""
        structure = self._structure_of(general)
        ranking = self._best_of(problem, self._variants(problem))
        known = self._best_of(problem, structure.wanted)
        if len(structure.wanted) >= _MOST_VARIANTS or self._tiers.reached(general):
            return
        if known and known[0][0] <= NEARLY * ranking[0][0]:
            return
        for seconds, variant in ranking[:2]:
            structure.wanted.add(variant)
            made = self._made_as_chosen(general, seconds, variant)
            if made is not None:
                self._tiers.rise(general, made)
                self._winners.keep_choice(general, seconds, variant)
                return

    def _load_general(self, structure: Structures) -> None:
        """Loads the general kernel that the background or an earlier process compiled."""
        general = structure.general
        made = self._tiers.table.pop(general, None)
        if made is None and not structure.wanted and (kept := self._winners.choice(general)):
            structure.wanted.add(kept[1])
            made = self._made_as_chosen(general, *kept)
        if not isinstance(made, CompiledKernel):
            return
        source = made.compiled.source
        with suppress(CompileError):
            program = self._device.load(made.compiled, [1] * len(source.sizes))
            structure.add(made.schedule, (source, program))

    def _made_as_chosen(
        self, problem: Problem, seconds: float, schedule: Schedule
    ) -> CompiledKernel | None:
        make = partial(source_of, problem, schedule, self._target)
        try:
            return CompiledKernel(
                seconds, schedule, self._winners.compiled(problem, schedule, make)
            )
        except (CompileError, LoweringError):
            return None

    def _variants(self, problem: Problem) -> list[Schedule]:
        """The candidate schedules of a general kernel, for a structure's first problem."""
        from mdtensor.lower.gpu.space.generic_candidates import general_candidates
        from mdtensor.lower.gpu.space.gpu_ranking import gpu_schedule

        found = [gpu_schedule(problem, self._target), *general_candidates(problem, self._target)]
        return list(dict.fromkeys(without_parts(problem, schedule) for schedule in found))

    def _best_of(
        self, problem: Problem, variants: Iterable[Schedule]
    ) -> list[tuple[float, Schedule]]:
        """General schedules sorted by the cost model's seconds, each with them."""
        from mdtensor.lower.search.candidates import estimated

        found = [
            (estimated(problem, self._in_parts(problem, v), self._target), v) for v in variants
        ]
        return sorted(found, key=lambda pair: pair[0])

    def _in_parts(self, problem: Problem, variant: Schedule) -> Schedule:
        from mdtensor.lower.gpu.space.generic_candidates import in_parts

        return in_parts(problem, variant, self._target)


def _is_worth_constants(problem: Problem) -> bool:
    """Whether a problem is large enough for a specialised kernel."""
    items = math.prod(problem.extent(d) for d in problem.kept)
    if items == 1 and problem.scanned < 0 and not problem.keeps_order:
        items = _SHARING
    return points(problem) >= min(WORTH_CONSTANTS, WORTH_SHARING * items)
