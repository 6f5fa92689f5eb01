"""The kernel table of a device: each problem's best kernel so far, tier by tier.

A problem runs by a general kernel of its structure until one with its own constants is compiled,
and by that one until somebody tunes it. When kernels are compiled, and what runs meanwhile, is up
to the policies of processors (`cpu_tier`) and of GPUs (`gpu_tier`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.invalidation import IsStale, all_launches
from mdtensor.api.engine.background_worker import Background
from mdtensor.api.engine.compiler_process import CompilerApart, CompilerHere
from mdtensor.api.engine.generic_selection import without_parts
from mdtensor.api.engine.kernel_choice import (
    KEPT,
    KernelChoice,
    Structures,
    add_general,
    compile_thoroughly,
    general_kernel,
    ranking_in,
    replaced,
    source_in,
)
from mdtensor.api.engine.program_cache import Winners
from mdtensor.backends.host.binary_cache import Compiled
from mdtensor.backends.protocol import ComputeDevice
from mdtensor.bounded import Bounded, pairs_of
from mdtensor.dataclass import dataclass
from mdtensor.errors import CompileError, LoweringError
from mdtensor.forks import keep_over_forks
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.problem.work import instructions_of_point
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.stage_timer import stage
from mdtensor.translate.md_hom import MDHom

MOST_CHOICES = 4096
# Seconds that a call is expected to take, for each character of a kernel's text and instruction of
# a point, from which haste costs more than it saves: compiled with optimisation, a text takes three
# times as long, and the kernel a fifth to a thirtieth, until the background has compiled it again.
# Values go by the stack from one step of a loop to the next, which long steps feel less.
WORTH_NO_HASTE = 5e-9


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel as machine code that is not loaded yet, and its expected seconds."""

    seconds: float
    schedule: Schedule
    compiled: Compiled


class Tiers:
    """The kernels chosen on one device, and the worker that compiles better ones.

    `choices` for `md_hom`s, by whether the store counts, are dropped when there are new kernels;
    problems keep in `table` what they reached. `texts` are the keys of problems that a processor
    has compiled kernels for. `tell` is given the launches that a kernel replaces, for each that
    later calls can take. First general kernels, and problems' own, are kept by `programs`.
    """

    def __init__(
        self, device: ComputeDevice, programs: Winners, tell: Callable[[IsStale], None]
    ) -> None:
        self.device, self.target, self.tell = device, device.target, tell
        self._programs = programs
        self.choices: dict[tuple[bool, MDHom], KernelChoice] = {}
        self.table = Bounded[Problem, KernelChoice | CompiledKernel](MOST_CHOICES)
        self.texts: set[str] = set()
        self.apart = CompilerApart(device)
        self._here = CompilerHere(device, self.apart)
        self.background = Background[Callable[[], None]](
            lambda work: work(), rest=self.apart.rest, stop=self.apart.close
        )
        # For what is compared and kept in one step, and for the first kernel of a structure.
        self._lock, self._first = threading.RLock(), threading.RLock()
        keep_over_forks(self._lock)
        keep_over_forks(self._first)
        invalidation.register(self)

    def known(self, md_hom: MDHom, *, use_store: bool) -> KernelChoice | None:
        """The cached choice for an `md_hom`, dropped when a better kernel replaces it."""
        return self.choices.get((use_store, md_hom))

    def keep(
        self, md_hom: MDHom, choice: KernelChoice, generation: int, *, use_store: bool
    ) -> None:
        """Caches a choice, unless kernels have changed since `generation`."""
        if len(self.choices) >= MOST_CHOICES:
            self.tell(all_launches)  # and so no call keeps the programs of the others
        elif generation == invalidation.generation():
            self.choices[use_store, md_hom] = choice

    def drop(self, is_stale: IsStale) -> None:
        """Drops the choices for `md_hom`s that are out of date; problems keep their kernels."""
        for key, choice in pairs_of(self.choices):
            if is_stale((choice,)):
                self.choices.pop(key, None)

    def reached(self, problem: Problem) -> KernelChoice | CompiledKernel | None:
        """The best kernel of a problem so far: general, specialised machine code, or loaded."""
        return self.table.get(problem)

    def own(self, problem: Problem) -> KernelChoice | None:
        """The loaded specialised kernel of a problem; None where there is none."""
        found = self.reached(problem)
        return found if isinstance(found, KernelChoice) and not found.is_general else None

    def rise(self, problem: Problem, reached: KernelChoice | CompiledKernel) -> None:
        """Records the kernel of a problem, unless it has one of a higher tier."""
        with self._lock:
            if _height(reached) < _height(self.table.get(problem)):
                return
            if len(self.table) >= MOST_CHOICES and problem not in self.table:
                self.choices.clear()  # and so no choice keeps the programs of those that go
            self.table.keep(problem, reached)

    def begin(self, structure: Structures, sizes: tuple[int, ...], problem: Problem) -> None:
        """Compiles the first general kernel of a structure, if it has none."""
        if not structure.variants:
            with self._first:
                if not structure.variants:
                    self.add(structure, sizes, problem)

    def add(
        self,
        structure: Structures,
        sizes: tuple[int, ...],
        problem: Problem,
        *,
        waits: bool = True,
    ) -> None:
        """Compiles the best general candidate for a shape, or the simplest if that fails.

        A first one is that of an earlier process, where one kept it. For a call that `waits`, it is
        compiled in haste where the device knows how to, which the background makes up for.
        """
        compiler = self._here if waits else self.apart
        with self._first if waits else nullcontext():
            if not structure.variants and self.load(structure):
                return
            ranking = ranking_in(compiler, problem, general=True)
            for place, (seconds, schedule) in enumerate(ranking[:2]):
                variant = without_parts(problem, schedule)
                if variant in structure.variants:
                    continue
                try:
                    source = source_in(compiler, structure.general, variant)
                    if waits and self.device.hurries and _saves_by_haste(source, problem, seconds):
                        source = replace(source, hasty=not self._here.is_kept(source))
                    structure.add(variant, general_kernel(source, compiler))
                    self._keep(structure, variant, seconds)
                    if place == 0:  # the background would rank once more, and find the same
                        structure.alike(sizes).is_ranked = True
                    return
                except (CompileError, LoweringError):
                    continue
            add_general(structure, without_parts(problem, plain(problem)), compiler)

    def load(self, structure: Structures) -> bool:
        """Loads a structure's cached kernel, if it has none in memory; whether it has one now."""
        if structure.variants:
            return True
        with stage("choose"):
            kept = self._programs.choice(structure.general)
            variant = None if kept is None else kept[1]
            if variant and (kernel := self._programs.kept_program(structure.general, variant)):
                structure.add(variant, kernel)
        return bool(structure.variants)

    def _keep(self, structure: Structures, variant: Schedule, seconds: float) -> None:
        """Caches a structure's first kernel for later processes, unless compiled in haste."""
        source, _ = structure.variants[variant]
        if variant == structure.first_variant and not source.hasty:
            self._programs.keep_code(structure.general, variant, source)
            self._programs.keep_choice(structure.general, seconds, variant)

    def kept_own(self, problem: Problem) -> tuple[float, Schedule] | None:
        """The cached choice for a specialised kernel: expected seconds and schedule."""
        return self._programs.choice(problem)

    def load_own(self, problem: Problem, seconds: float, schedule: Schedule) -> bool:
        """Whether a cached specialised kernel was found, and so loaded.

        Calls that run another one for the problem are yet to be told.
        """
        kernel = self._programs.kept_program(problem, schedule)
        if kernel is not None:
            self._add_own(KernelChoice(problem, schedule, KEPT, seconds, *kernel))
        return kernel is not None

    def _add_own(self, own: KernelChoice) -> None:
        self.rise(own.problem, own)
        self.texts.add(problem_key(own.problem))

    def add_own(self, own: KernelChoice) -> None:
        """Publishes a specialised kernel to calls, and caches it on disk."""
        self._add_own(own)
        self.tell(replaced(own.problem))
        self._programs.keep_code(own.problem, own.schedule, own.source)
        self._programs.keep_choice(own.problem, own.seconds, own.schedule)

    def without_haste(self, structure: Structures, variant: Schedule, seconds: float) -> None:
        """Recompiles a hasty kernel with optimisation if the call is expected to take long."""
        source, _ = structure.variants[variant]
        if _saves_by_haste(source, structure.general, seconds):
            return
        if compile_thoroughly(structure, variant, self._here):
            self._keep(structure, variant, seconds)

    def make_up_for_haste(self, structure: Structures, seconds: float) -> None:
        """Recompiles with optimisation all kernels of a structure compiled in haste."""
        for variant in tuple(structure.variants):
            if compile_thoroughly(structure, variant, self.apart):
                self._keep(structure, variant, seconds)
                self.tell(replaced(structure=structure.general))


def _saves_by_haste(source: KernelSource, problem: Problem, seconds: float) -> bool:
    """Whether a kernel compiled in haste finishes a call of some seconds sooner."""
    instructions = instructions_of_point(problem.scalar, problem.operator)
    return seconds < WORTH_NO_HASTE * len(source.text) * instructions


def _height(reached: KernelChoice | CompiledKernel | None) -> int:
    """The rank of a tier: 0 for none, 3 for a specialised kernel."""
    if isinstance(reached, KernelChoice):
        return 1 if reached.is_general else 3
    return 0 if reached is None else 2
