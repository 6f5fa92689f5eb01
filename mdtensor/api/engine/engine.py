"""The engine of a device, which chooses a kernel for each problem.

A computation that was tuned on this device runs a kernel with its own constants. Every other runs
a general kernel of its structure, compiled once for all shapes, until a better one is found in the
background. So no call on a known structure waits for a compiler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.invalidation import IsStale, all_launches
from mdtensor.api.engine.cpu_tier import CpuPolicy
from mdtensor.api.engine.evaluated import Evaluated, evaluated, is_on
from mdtensor.api.engine.fused_calls import FusedPrograms
from mdtensor.api.engine.generic_kernels import Structure
from mdtensor.api.engine.gpu_tier import GpuPolicy
from mdtensor.api.engine.kernel_choice import (
    KernelChoice,
    Structures,
    source_of,
    specialised,
)
from mdtensor.api.engine.program_cache import Winners
from mdtensor.api.engine.stored_schedules import Neighbour
from mdtensor.api.engine.tiers import MOST_CHOICES, Tiers
from mdtensor.api.engine.winner_index import WinnerIndex
from mdtensor.autotune.store.rows import WinnerRow
from mdtensor.autotune.store.store import Store
from mdtensor.backends.protocol import CompiledProgram, ComputeDevice
from mdtensor.bounded import Bounded
from mdtensor.errors import CompileError, LoweringError
from mdtensor.forks import cached_property, keep_over_forks
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.problem.generic_problem import GENERALISE
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import CODE_GENERATION, key_form, problem_key
from mdtensor.lower.problem.problem_of_device import problem_of_device
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.translate.md_hom import MDHom

# Structures of which kernels are loaded, half a megabyte each and more. Where there are more, the
# quarter that was not used for longest goes; its kernels are on disk.
MOST_STRUCTURES = 512


class Engine:
    """The engine of one device, which chooses and compiles its kernels."""

    def __init__(self, device: ComputeDevice, store: Callable[[], Store]) -> None:
        self.device = device
        self.target = device.target
        self._open_store = store
        self.structures: dict[Problem, Structures] = {}
        self.changed: list[Callable[[IsStale], None]] = [invalidation.drop]
        self._winners = Winners(
            device,
            f"{self.environment} {self.target.vector_bytes} {self.target.dialect}",
            lambda: self.store,
        )
        self._seen_winners = WinnerIndex(
            lambda: self.store, self.environment, self._default_winners
        )
        self._lock = threading.RLock()
        keep_over_forks(self._lock)
        self.tiers = Tiers(device, self._winners, self._tell)
        self.policy = (
            GpuPolicy(self.tiers, self._winners, self.structure)
            if self.target.kind == "gpu"
            else CpuPolicy(self.tiers, self._seen_winners)
        )
        self._problems = Bounded[MDHom, Problem](MOST_CHOICES)
        self._evaluates = is_on() and device.arrays == "numpy"
        self.joined = FusedPrograms(self.tiers, self.problem_of, self._winning)

    @cached_property
    def environment(self) -> str:
        """The store's key for this device, driver and code generator."""
        target = self.target
        return f"{target.name} x{target.cores} | {target.driver} | generator {CODE_GENERATION}"

    @property
    def store(self) -> Store:
        """The store of tuning results, opened when first needed."""
        return self._open_store()

    def choose(self, md_hom: MDHom, *, use_store: bool = True) -> KernelChoice:
        """The kernel for an `md_hom`: the store's winner if there is one, else the usual one."""
        problem = self.problem_of(md_hom)
        if use_store and (tuned := self.tuned(problem)):
            return tuned
        return self.usual(problem)

    def chosen(self, md_hom: MDHom, *, use_store: bool = True) -> KernelChoice:
        """`choose`, memoised until a better kernel replaces it."""
        choice = self.tiers.known(md_hom, use_store=use_store)
        if choice is None:
            generation = invalidation.generation()
            choice = self.choose(md_hom, use_store=use_store)
            self.tiers.keep(md_hom, choice, generation, use_store=use_store)
        return choice

    def serving(self, md_hom: MDHom, *, use_store: bool = True) -> KernelChoice | Evaluated:
        """The kernel of an `md_hom`, or NumPy's evaluation of it until a kernel is compiled.

        It is evaluated where that is done before a kernel is compiled. The background compiles the
        structure's first kernel once it comes again.
        """
        choice = self.tiers.known(md_hom, use_store=use_store)
        found = self._evaluated(md_hom, use_store=use_store) if choice is None else choice
        return found or self.chosen(md_hom, use_store=use_store)

    def _evaluated(self, md_hom: MDHom, *, use_store: bool) -> Evaluated | None:
        """NumPy's evaluation of an `md_hom`; None where a kernel exists, or is compiled sooner."""
        policy = self.policy
        if not self._evaluates or not isinstance(policy, CpuPolicy):
            return None
        problem = self.problem_of(md_hom)
        general, sizes = GENERALISE(problem)
        structure = self.structure(general)
        if structure.variants or self.tiers.own(problem) is not None:
            return None
        if use_store and self.winner(problem) is not None:
            return None
        ask = partial(policy.ask_for_first, structure, sizes, problem)

        def is_kept() -> bool:
            return policy.own(problem) is not None or self.tiers.load(structure)

        account_of = partial(policy.account_of, structure, sizes)
        return evaluated(md_hom, ask, is_kept, account_of, shape=(general, sizes))

    def problem_of(self, md_hom: MDHom) -> Problem:
        """The problem of an `md_hom`, as lowered for the device."""
        return self._problems.made(md_hom, lambda: problem_of_device(md_hom, self.target))

    def fills_with_zeros(self, md_hom: MDHom) -> bool:
        """Whether the device's kernels can read zeros out of bounds, in place of guards."""
        problem = self.problem_of(md_hom)
        return self.target.kind == "gpu" and zero_filled(problem) != problem

    def tuned(self, problem: Problem) -> KernelChoice | None:
        """The store's winner for a problem on this device, compiled; None where there is none."""
        winner = self.winner(problem)
        if winner is None:
            return None
        row, schedule = winner
        try:
            make = partial(self.source, problem, schedule)
            source, program = self._winners.program(problem, schedule, make)
            return KernelChoice(problem, schedule, "tuned", row.seconds, source, program)
        except LoweringError as error:
            self._drop(row, error.message)
        except CompileError:
            pass  # a winner that no longer compiles is no better than none
        return None

    def winner(self, problem: Problem) -> tuple[WinnerRow, Schedule] | None:
        """The store's winner for a problem on this device, with its schedule; None without one."""
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

    def neighbours(self, problem: Problem) -> list[Neighbour]:
        """The winners of other shapes of a problem's structure, the nearest first."""
        return self._seen_winners.neighbours(key_form(GENERALISE(problem)[0]), problem)

    def _default_winners(self) -> list[WinnerRow]:
        """The winners shipped with the package for devices like this one."""
        from mdtensor.autotune.defaults.defaults_file import default_winners

        return default_winners(self.target)

    def keep_winner(
        self, problem: Problem, schedule: Schedule, source: KernelSource, program: CompiledProgram
    ) -> None:
        """Caches the program of a schedule that is about to become a problem's winner."""
        self._winners.keep_program(problem, schedule, source, program)

    def _drop(self, row: WinnerRow, reason: str) -> None:
        """Removes an unusable winner from the store, so that a search may find another."""
        import logging  # which calls do without

        logging.getLogger("mdtensor").info("dropped a winner of %s: %s", row.problem, reason)
        self.store.drop(row)

    def _winning(self, problem: Problem) -> Schedule | None:
        """The schedule of the store's winner for a problem on this device."""
        winner = self.winner(problem)
        return None if winner is None else winner[1]

    def specialised(
        self, problem: Problem, schedule: Schedule, origin: str, seconds: float
    ) -> KernelChoice:
        """A kernel with the problem's sizes as constants."""
        return specialised(problem, schedule, self.device, origin, seconds)

    def source(self, problem: Problem, schedule: Schedule) -> KernelSource:
        """The source of a problem's kernels by a schedule."""
        return source_of(problem, schedule, self.target)

    def source_again(self, md_hom: MDHom, choice: KernelChoice) -> KernelSource:
        """The source of a chosen kernel, lowered again so that its passes can be observed."""
        problem = problem_of_device(md_hom, self.target)
        if choice.variant is None:
            return self.source(problem, choice.schedule)
        return self.source(GENERALISE(problem)[0], choice.variant)

    def usual(self, problem: Problem) -> KernelChoice:
        """The kernel that untuned calls run now."""
        return self.policy.now(problem) or self.untuned(problem)

    def untuned(self, problem: Problem) -> KernelChoice:
        """A specialised kernel, where there is one, else the best general one.

        This waits for a compiler where a GPU's policy finds the former worth it, `choose` may not.
        """
        own = self.policy.own(problem)
        if own is not None:
            return own
        general, sizes = GENERALISE(problem)
        structure = self.structure(general)
        self.tiers.begin(structure, sizes, problem)
        return self.policy.general(structure, sizes, problem)

    def structure(self, general: Problem) -> Structures:
        """The table of general kernels of a problem with symbolic sizes."""
        structure = self.structures.get(general)
        if structure is None:
            with self._lock:
                if len(self.structures) >= MOST_STRUCTURES and general not in self.structures:
                    self._let_go()
                structure = self.structures.setdefault(general, Structure(general))
        structure.touch()
        return structure

    def _let_go(self) -> None:
        """Evicts the least recently used structures, and clears the call caches.

        What calls keep has kernels in its hands, which stay as long as something runs them. Calls
        that go on ask for their structures again, so the next time others are the oldest.
        """
        oldest = sorted(self.structures.values(), key=lambda structure: structure.used)
        for structure in oldest[: -(-MOST_STRUCTURES // 4)]:
            del self.structures[structure.general]
        self._tell(all_launches)

    def _tell(self, is_stale: IsStale) -> None:
        for notify in self.changed:
            notify(is_stale)

    def settle(self, timeout: float = 60.0) -> None:
        """Waits until all requested better kernels are compiled."""
        self.tiers.background.settle(timeout)
