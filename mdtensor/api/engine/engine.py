"""Engine: chooses a kernel for a problem on one device.

A computation that was tuned on this device runs a kernel with its own constants. Every other runs
a general kernel of its structure, compiled once for all shapes, until a better one is found in the
background. So no call on a known structure waits for a compiler.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial

from mdtensor.api.engine.compiler_process import CompilerApart, CompilerHere
from mdtensor.api.engine.cpu_tier import WORTH_OWN_KERNEL, Improvement, Served
from mdtensor.api.engine.fused_calls import Joined
from mdtensor.api.engine.generic_kernels import Decision, Structure
from mdtensor.api.engine.generic_selection import (
    block_by_block,
    decide,
    launch_sizes,
    parts_of,
    serves,
    spread,
    without_parts,
)
from mdtensor.api.engine.gpu_tier import GpuKernels
from mdtensor.api.engine.kernel_choice import (
    GENERAL,
    Choice,
    Structures,
    Unseen,
    add_general,
    compile_thoroughly,
    general_kernel,
    ranked,
    source_of,
    specialised,
)
from mdtensor.api.engine.program_cache import Winners
from mdtensor.api.engine.winner_index import SeenWinners
from mdtensor.autotune.store.rows import WinnerRow
from mdtensor.autotune.store.store import Store
from mdtensor.backends.protocol import Device, Program
from mdtensor.errors import CompileError, LoweringError
from mdtensor.forks import keep_over_forks
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.cpu.parallelism import WORTH_THREADS
from mdtensor.lower.problem.generic_problem import GENERALISE
from mdtensor.lower.problem.problem import Problem, points
from mdtensor.lower.problem.problem_key import CODE_GENERATION, problem_key
from mdtensor.lower.problem.problem_of_device import problem_of_device
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.md_hom import MDHom

# Points of a problem from which a kernel with constants is worth its compilation on a GPU, and such
# of one work-item, which takes some 27 ns for each.
WORTH_CONSTANTS, WORTH_SHARING = 1 << 17, 1 << 11
# Work-items that share a reduction to one result there, whatever the problem.
_SHARING = 256
# Seconds of a call, as is expected, from which a kernel that was compiled in haste, and takes
# five times as long, costs more than the haste saves.
WORTH_NO_HASTE = 10e-3
# Structures of which kernels are loaded, half a megabyte each and more. Where there are more, the
# quarter that was not used for longest goes; its kernels are on disk.
MOST_STRUCTURES = 512


class Engine:
    """Chooses and compiles kernels for one device. Safe for use by many threads."""

    def __init__(self, device: Device, store: Callable[[], Store]) -> None:
        self.device = device
        self.target = device.target
        self._open_store = store
        self.structures: dict[Problem, Structures] = {}
        self.changed: list[Callable[[], None]] = []
        self._winners = Winners(
            device,
            f"{self.environment} {self.target.vector_bytes} {self.target.dialect}",
            lambda: self.store,
        )
        self._seen_winners = SeenWinners(lambda: self.store, self.environment)
        self._lock = threading.RLock()
        keep_over_forks(self._lock)
        apart = CompilerApart(device)
        self._compiler = CompilerHere(device, apart)
        self.improvement = Improvement(apart, self._tell, self._seen_winners.look)
        self.joined = Joined(apart, self.problem_of, self._winning, self._tell)
        self.on_gpu = GpuKernels(device, self._winners, self.structure, self._tell)
        self._first = threading.RLock()  # for the first kernel of a structure
        keep_over_forks(self._first)

    @cached_property
    def environment(self) -> str:
        """The key of this device, driver and code generator in the store."""
        target = self.target
        return f"{target.name} x{target.cores} | {target.driver} | generator {CODE_GENERATION}"

    @property
    def store(self) -> Store:
        """The store of tuning results, opened when first needed."""
        return self._open_store()

    def choose(self, md_hom: MDHom, *, use_store: bool = True) -> Choice:
        """The kernel for an `md_hom`: tuned if the store has a winner, else a general one."""
        problem = self.problem_of(md_hom)
        if use_store and (tuned := self.tuned(problem)):
            return tuned
        now = self.on_gpu.now(problem) if self._is_apart_on_gpu(problem) else None
        return now or self.untuned(problem)

    def _is_apart_on_gpu(self, problem: Problem) -> bool:
        """Whether a problem is worth a kernel with constants, whose strides allow wide accesses."""
        return self.target.kind == "gpu" and _is_worth_constants(problem)

    def problem_of(self, md_hom: MDHom) -> Problem:
        """The problem of an `md_hom`, as the device computes it."""
        return problem_of_device(md_hom, self.target)

    def fills_with_zeros(self, md_hom: MDHom) -> bool:
        """Whether kernels for the device read zeros outside of arrays, where an `md_hom` guards."""
        problem = self.problem_of(md_hom)
        return self.target.kind == "gpu" and zero_filled(problem) != problem

    def tuned(self, problem: Problem) -> Choice | None:
        """The winner that the store knows for this problem and device, compiled; else None."""
        winner = self.winner(problem)
        if winner is None:
            return None
        row, schedule = winner
        try:
            make = partial(self.source, problem, schedule)
            source, program = self._winners.program(problem, schedule, make)
            return Choice(problem, schedule, "tuned", row.seconds, source, program)
        except LoweringError as error:
            self._drop(row, error.message)
        except CompileError:
            pass  # a winner that no longer compiles is no better than none
        return None

    def winner(self, problem: Problem) -> tuple[WinnerRow, Schedule] | None:
        """The winner that the store knows for this problem and device, and its schedule."""
        row = self._seen_winners.winner(problem_key(problem))
        if row is None:
            return None
        try:
            schedule = Schedule.from_json(row.schedule)
        except LoweringError as error:
            return self._drop(row, error.message)
        if schedule.asm != self.target.kind:
            return self._drop(row, f"it is for another kind of device, {schedule.asm!r}")
        return row, schedule

    def _drop(self, row: WinnerRow, reason: str) -> None:
        """Removes a winner that nobody can use, so that a search may find another."""
        import logging  # which calls do without

        logging.getLogger("mdtensor").info("dropped a winner of %s: %s", row.problem, reason)
        self.store.drop(row)

    def _winning(self, problem: Problem) -> Schedule | None:
        """The schedule that the store knows for this problem and device."""
        winner = self.winner(problem)
        return None if winner is None else winner[1]

    def specialised(
        self, problem: Problem, schedule: Schedule, origin: str, seconds: float
    ) -> Choice:
        """A kernel with the problem's own constants."""
        return specialised(problem, schedule, self.device, origin, seconds)

    def source(self, problem: Problem, schedule: Schedule) -> KernelSource:
        """The text of a problem's kernels by a schedule."""
        return source_of(problem, schedule, self.target)

    def source_again(self, md_hom: MDHom, choice: Choice) -> KernelSource:
        """The text of a chosen kernel, made once more, for who watches the passes."""
        problem = self.problem_of(md_hom)
        if choice.variant is None:
            return self.source(problem, choice.schedule)
        return self.source(GENERALISE(problem)[0], choice.variant)

    def untuned(self, problem: Problem) -> Choice:
        """The best general kernel that is compiled; for a new structure, the best there is.

        On GPUs larger problems have kernels of their own, and those whose work-items would have
        much to walk through: this waits for them, `choose` may not.
        """
        if self._is_apart_on_gpu(problem):
            own = self.on_gpu.own(problem)
            if own is not None:
                return own
        if (own := self.improvement.own.get(problem)) is not None:
            return own
        general, sizes = GENERALISE(problem)
        structure = self.structure(general)
        if not structure.variants:
            with self._first:
                if not structure.variants:
                    self._compile_first(structure, sizes, problem)
        served, seconds = None, 0.0
        if self.target.kind == "gpu":
            variant = next(iter(structure.variants))
            schedule = block_by_block(problem, variant)
        else:
            decision = self._decided(structure, sizes, lambda: problem)
            if decision is None:
                decision = self._decide(structure, sizes, problem)
            schedule = spread(structure, sizes, decision, self.target)
            variant, seconds = decision.variant, decision.seconds
            served = Served(structure, sizes, lambda: problem, decision)
            self.improvement.ask(served)
            if seconds >= WORTH_NO_HASTE:
                compile_thoroughly(structure, variant, self._compiler)
        source, program = structure.variants[variant]
        launch = launch_sizes(sizes, schedule, schedule.parts)
        bound = program.bound((*sizes, *launch), schedule.inline)
        if served is None:
            return Choice(problem, schedule, GENERAL, seconds, source, bound, variant=variant)
        bound = self.improvement.counted(served, bound)
        improves = partial(self.improvement.improves, served)
        return Choice(problem, schedule, GENERAL, seconds, source, bound, improves, variant)

    def structure(self, general: Problem) -> Structures:
        """The structure of that problem with names."""
        structure = self.structures.get(general)
        if structure is None:
            with self._lock:
                if len(self.structures) >= MOST_STRUCTURES and general not in self.structures:
                    self._let_go()
                structure = self.structures.setdefault(general, Structure(general))
        structure.touch()
        return structure

    def _let_go(self) -> None:
        """Drops the structures that were not used for longest, and all that calls keep.

        What calls keep has kernels in its hands, which stay as long as something runs them. Calls
        that go on ask for their structures again, so the next time others are the oldest.
        """
        oldest = sorted(self.structures.values(), key=lambda structure: structure.used)
        for structure in oldest[: -(-MOST_STRUCTURES // 4)]:
            del self.structures[structure.general]
        self._tell()

    def at_once(
        self,
        structure: Structures,
        sizes: tuple[int, ...],
        problem: Callable[[], Problem],
        *,
        use_store: bool,
    ) -> Unseen | None:
        """The program for a shape of a structure, where that takes no look at its problem.

        None where there is no general kernel for a shape near it, and where there is a kernel of
        its own; `choose` knows what to do then.
        """
        decision = self._decided(structure, sizes, problem)
        if decision is None or self._is_apart(structure, sizes, problem, use_store=use_store):
            return None
        parts = parts_of(structure, sizes, decision, self.target)
        served = Served(structure, sizes, problem, decision)
        self.improvement.ask(served)
        _, program = structure.variants[decision.variant]
        bound = program.bound(
            (*sizes, *launch_sizes(sizes, decision.variant, parts)), decision.groups == 1
        )
        counted = self.improvement.counted(served, bound)
        return Unseen(counted, partial(self._choice_of, served, counted))

    def _choice_of(self, served: Served, program: Program) -> Choice:
        """What was chosen for a shape whose problem was not looked at."""
        structure, decision = served.structure, served.decision
        schedule = spread(structure, served.sizes, decision, self.target)
        variant, seconds = decision.variant, decision.seconds
        source, _ = structure.variants[variant]
        improves = partial(self.improvement.improves, served)
        problem = served.problem()
        return Choice(problem, schedule, GENERAL, seconds, source, program, improves, variant)

    def _is_apart(
        self,
        structure: Structures,
        sizes: tuple[int, ...],
        problem: Callable[[], Problem],
        *,
        use_store: bool,
    ) -> bool:
        """Whether a shape has a winner, or a kernel of its own."""
        if structure.pattern is not None:
            key = structure.pattern.format(*sizes)
        elif self._may_be_apart(structure, use_store=use_store):
            key = problem_key(problem())
        else:
            return False
        if key in self.improvement.keys_of_own:
            return True
        return use_store and self._seen_winners.winner(key) is not None

    def _may_be_apart(self, structure: Structures, *, use_store: bool) -> bool:
        """Whether a shape of a structure has a kernel of its own, or may have a winner."""
        if use_store and self._seen_winners.may_have(structure.form):
            return True
        return any(structure.form.fullmatch(key) for key in (*self.improvement.keys_of_own,))

    def _decided(
        self, structure: Structures, sizes: tuple[int, ...], problem: Callable[[], Problem]
    ) -> Decision | None:
        """How a shape is computed, if that is known of it or of one near it."""
        decision = structure.decided(sizes, WORTH_THREADS, WORTH_OWN_KERNEL)
        if decision is None or sizes in structure.decisions:
            return decision
        parts = parts_of(structure, sizes, decision, self.target)
        return decision if serves(structure, sizes, decision.variant, parts, problem) else None

    def _decide(self, structure: Structures, sizes: tuple[int, ...], problem: Problem) -> Decision:
        """How a shape is computed; by one more kernel where all take too much scratch memory.

        The simplest kernel, which is the last one that is compiled, takes none.
        """
        while (decision := decide(structure, sizes, problem, self.target)) is None:
            with self._first:
                self._compile_first(structure, sizes, problem)
        return decision

    def _compile_first(
        self, structure: Structures, sizes: tuple[int, ...], problem: Problem
    ) -> None:
        """Compiles the candidate that suits a shape best; the simplest if that fails.

        In haste where the device knows how to, which the background makes up for.
        """
        ranking = ranked(problem, self.target, general=True, most=2)[:2]
        for place, (seconds, schedule) in enumerate(ranking):
            variant = without_parts(problem, schedule)
            if variant in structure.variants:
                continue
            try:
                source = self.source(structure.general, variant)
                if self.device.hurries and seconds < WORTH_NO_HASTE:
                    source = replace(source, hasty=not self._compiler.is_kept(source))
                structure.add(variant, general_kernel(source, self._compiler))
                if place == 0:  # the background would rank once more, and find the same
                    structure.keep_ranked(sizes)
                return
            except (CompileError, LoweringError):
                continue
        add_general(structure, without_parts(problem, plain(problem)), self._compiler)

    def _tell(self) -> None:
        for notify in self.changed:
            notify()

    def settle(self, timeout: float = 60.0) -> None:
        """Waits until the better kernels that calls asked for are compiled."""
        self.improvement.settle(timeout)
        self.joined.settle(timeout)
        self.on_gpu.settle(timeout)


def _is_worth_constants(problem: Problem) -> bool:
    """Whether a problem has many points, or many for each work-item of a general kernel on GPUs."""
    items = math.prod(problem.extent(d) for d in problem.kept)
    if items == 1 and problem.scanned < 0 and not problem.keeps_order:
        items = _SHARING
    count = points(problem)
    return count >= min(WORTH_CONSTANTS, WORTH_SHARING * items)
