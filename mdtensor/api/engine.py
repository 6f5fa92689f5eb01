"""Engine: one device, its kernels for structures and for tuned shapes, and what the store knows.

A computation that was tuned on this device runs a kernel with its own constants. Every other runs
a general kernel of its structure, compiled once for all shapes; where the cost model finds that a
different general schedule would suit a shape better, or for long or frequent work one with the
shape's own constants, that one is compiled in the background, and later calls take it. So no call
on a known structure waits for a compiler.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from queue import SimpleQueue
from typing import Any

from mdtensor.api.counted import Counted
from mdtensor.api.structure import Decision, Structure
from mdtensor.api.winners import Winners
from mdtensor.autotune.rows import WinnerRow
from mdtensor.autotune.store import Store
from mdtensor.backends.forks import keep_over_forks
from mdtensor.backends.protocol import Device, Program
from mdtensor.errors import CompileError, LoweringError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.dialect import Dialect
from mdtensor.kernels.opencl import OPENCL, OPENCL_FMA
from mdtensor.kernels.source import KernelSource
from mdtensor.lower.asm import asm_of
from mdtensor.lower.compared_words import with_compared_words
from mdtensor.lower.cost import estimate
from mdtensor.lower.divisions import WORTH_THREADS, best_division, parts_among
from mdtensor.lower.generalised import generalised
from mdtensor.lower.key import CODE_GENERATION, problem_key
from mdtensor.lower.narrow_places import with_narrow_places
from mdtensor.lower.plain import plain, scattering
from mdtensor.lower.problem import Problem, points, problem_from_md_hom
from mdtensor.lower.schedule import Schedule
from mdtensor.lower.zero_filled import zero_filled
from mdtensor.translate.md_hom import MDHom

DIALECTS: dict[str, Dialect] = {"opencl": OPENCL, "opencl-fma": OPENCL_FMA, "cuda": CUDA}
# A better general schedule is worth compiling when it promises this much.
WORTH_COMPILING = 1.15
# Points of a problem from which a kernel with constants is worth its compilation on a GPU, and such
# of one work-item, which takes some 27 ns for each.
WORTH_CONSTANTS, WORTH_SHARING = 1 << 17, 1 << 11
# Work-items that share a reduction to one result there, whatever the problem.
_SHARING = 256
# Seconds that a problem takes, as is expected, for which it gets such a kernel on a CPU; and what a
# general kernel takes longer than the same one with constants.
WORTH_OWN_KERNEL, GENERAL = 0.2e-3, 1.2
# Seconds that the launches for a shape take together, as is expected, until it gets one as well:
# about what compiling takes.
WORTH_OFTEN = 0.1
_MAX_STRUCTURES = 4096
_MAX_VARIANTS = 6
_MAX_OWN = 64  # problems with kernels of their own that nobody tuned
_MOST_WAITING = (
    256  # shapes that better kernels are looked for; others have what shapes near them have
)
# Seconds before background work begins, and between its steps: other threads come first.
_PAUSE = 0.05
_BREATH = 0.0005


@dataclass(frozen=True, slots=True)
class Choice:
    """What runs for a problem: its schedule, program and source, and where the schedule is from."""

    problem: Problem
    schedule: Schedule
    origin: str
    seconds: float
    source: KernelSource
    program: Program


Structures = Structure[tuple[KernelSource, Program]]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A shape for which a general kernel was chosen, and may be chosen better.

    It is launched `often` enough to be worth a kernel of its own, however short it is.
    """

    structure: Structures
    sizes: tuple[int, ...]
    problem: Callable[[], Problem]
    decision: Decision
    often: bool = False


_Key = tuple[int, tuple[int, ...], bool]


class Engine:
    """Chooses and compiles kernels for one device. Safe for use by many threads."""

    def __init__(self, device: Device, store: Callable[[], Store]) -> None:
        self.device = device
        self.target = device.target
        self.dialect = DIALECTS[self.target.dialect]
        self._open_store = store
        self.structures: dict[Problem, Structures] = {}
        self.own: dict[Problem, Choice] = {}
        self._winners = Winners(
            device, f"{self.environment} {self.target.vector_bytes} {self.target.dialect}"
        )
        self._with_own: set[str] = set()  # by their keys
        # The problems that had winners when the store was in some state.
        self._winners_seen: tuple[object, frozenset[str]] = None, frozenset()
        self.lock = threading.RLock()
        self.changed: list[Callable[[], None]] = []
        self._background: threading.Thread | None = None
        self._process = 0  # the one whose thread that is
        self._waiting: dict[_Key, _Chosen] = {}
        self._to_improve: SimpleQueue[_Key | None] = SimpleQueue()
        self._work = threading.Condition(self.lock)
        self._closing = threading.Event()
        atexit.register(self.finish)
        keep_over_forks(self.lock)
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
        return self.untuned(problem)

    def problem_of(self, md_hom: MDHom) -> Problem:
        """The problem of an `md_hom`; a device that rounds no factors has that of exact ones.

        Places of tuples are as narrow as they can be; what has no vectors compares words.
        """
        problem = problem_from_md_hom(md_hom)
        if not self.target.matrices:
            scalar = problem.scalar.exact()
            problem = problem if scalar is problem.scalar else replace(problem, scalar=scalar)
        narrow = with_narrow_places(problem)
        return narrow if asm_of(self.target.kind).vectors else with_compared_words(narrow)

    def fills_with_zeros(self, md_hom: MDHom) -> bool:
        """Whether kernels for the device read zeros outside of arrays, where an `md_hom` guards."""
        problem = self.problem_of(md_hom)
        return self.target.kind == "gpu" and zero_filled(problem) != problem

    def tuned(self, problem: Problem) -> Choice | None:
        """The winner that the store knows for this problem and device, compiled; else None."""
        row = self._winner(problem_key(problem))
        if row is None:
            return None
        try:
            schedule = Schedule.from_json(row.schedule)
            make = lambda: self.source(problem, schedule)  # noqa: E731
            source, program = self._winners.program(problem, schedule, make)
            return Choice(problem, schedule, "tuned", row.seconds, source, program)
        except (LoweringError, CompileError):
            return None  # a winner that no longer compiles is no better than none

    def specialised(
        self, problem: Problem, schedule: Schedule, origin: str, seconds: float
    ) -> Choice:
        """A kernel with the problem's own constants."""
        source = self.source(problem, schedule)
        return Choice(problem, schedule, origin, seconds, source, self.device.compile(source))

    def source(self, problem: Problem, schedule: Schedule) -> KernelSource:
        """The text of a problem's kernels by a schedule."""
        from mdtensor.kernels.program import program_of

        head = f"{problem_key(problem)}\n{schedule.describe(problem)}"
        return program_of(problem, schedule, self.dialect, head)

    def untuned(self, problem: Problem) -> Choice:
        """The best general kernel that is compiled; for a new structure, the best there is.

        On GPUs, whose wide accesses need strides that are numbers, larger problems get a kernel of
        their own, and those whose work-items would have much to walk through.
        """
        if self.target.kind == "gpu" and _is_worth_constants(problem):
            alone = self._alone(problem)
            if alone is not None:
                return alone
        if (own := self.own.get(problem)) is not None:
            return own
        general, sizes = generalised(problem)
        structure = self.structure(general)
        if not structure.variants:
            with self._first:
                if not structure.variants:
                    self._compile_first(structure, problem)
        chosen, seconds = None, 0.0
        if self.target.kind == "gpu":
            variant = next(iter(structure.variants))
            spread = _block_by_block(problem, variant)
        else:
            decision = self._decided(structure, sizes) or self._decide(structure, sizes, problem)
            spread, seconds = self._spread(structure, sizes, decision), decision.seconds
            variant = decision.variant
            chosen = _Chosen(structure, sizes, lambda: problem, decision)
            self._improve_later(chosen)
        source, program = structure.variants[variant]
        launch = _launch_sizes(sizes, spread, spread.parts)
        bound = program.bound((*sizes, *launch), spread.inline)
        bound = bound if chosen is None else self._counted(chosen, bound)
        return Choice(problem, spread, "cost model, general kernel", seconds, source, bound)

    def _alone(self, problem: Problem) -> Choice | None:
        """A kernel with the problem's own constants, as the cost model or a process before chose.

        None where neither of the best two compiles.
        """
        known = self._winners.choice(problem)
        ranking = [known] if known else self._ranked(problem, most=2)[:2]
        for seconds, schedule in ranking:
            make = partial(self.source, problem, schedule)
            try:
                source, program = self._winners.program(problem, schedule, make)
            except (CompileError, LoweringError):
                continue
            if known is None:
                self._winners.keep_choice(problem, seconds, schedule)
            return Choice(problem, schedule, "cost model", seconds, source, program)
        return None

    def structure(self, general: Problem) -> Structures:
        """The structure of that problem with names."""
        structure = self.structures.get(general)
        if structure is None:
            with self.lock:
                if len(self.structures) >= _MAX_STRUCTURES:
                    self.structures.clear()  # PyOpenCL has the programs, on disk
                structure = self.structures.setdefault(general, Structure(general))
        return structure

    def at_once(
        self,
        structure: Structures,
        sizes: tuple[int, ...],
        problem: Callable[[], Problem],
        *,
        use_store: bool,
    ) -> Program | None:
        """The program for a shape of a structure, where that takes no look at its problem.

        None where there is no general kernel for a shape near it, and where there is a kernel of
        its own; `choose` knows what to do then.
        """
        decision = self._decided(structure, sizes)
        if decision is None or self._is_apart(structure, sizes, problem, use_store=use_store):
            return None
        parts = self._parts(structure, sizes, decision)
        chosen = _Chosen(structure, sizes, problem, decision)
        self._improve_later(chosen)
        _, program = structure.variants[decision.variant]
        launch = _launch_sizes(sizes, decision.variant, parts)
        return self._counted(chosen, program.bound((*sizes, *launch), decision.groups == 1))

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
            key = structure.pattern % sizes
        elif self._may_be_apart(structure, use_store=use_store):
            key = problem_key(problem())
        else:
            return False
        return key in self._with_own or (use_store and self._winner(key) is not None)

    def _may_be_apart(self, structure: Structures, *, use_store: bool) -> bool:
        """Whether a shape of a structure has a kernel of its own, or may have a winner."""
        state, keys = self._winners_seen
        if use_store and (state is None or state != self.store.state()):
            return True
        known = (*self._with_own, *(keys if use_store else ()))
        return any(structure.form.fullmatch(key) for key in known)

    def _winner(self, key: str) -> WinnerRow | None:
        """The winner of a problem; the store is not asked for those it was seen not to have."""
        state, keys = self._winners_seen
        if state is not None and state == self.store.state() and key not in keys:
            return None
        return self.store.winner(key, self.environment)

    def _look_for_winners(self) -> None:
        """Sees which problems have winners, so that calls need not ask."""
        state = self.store.state()
        if state is not None and state != self._winners_seen[0]:
            self._winners_seen = state, self.store.problems(self.environment)

    def _decided(self, structure: Structures, sizes: tuple[int, ...]) -> Decision | None:
        return structure.decided(sizes, WORTH_THREADS, WORTH_OWN_KERNEL)

    def _decide(self, structure: Structures, sizes: tuple[int, ...], problem: Problem) -> Decision:
        """What the cost model says of a shape: which kernel is best, and how many groups pay."""
        wholes = [(v, _in_one_part(v)) for v in tuple(structure.variants)]
        estimates = [estimate(problem, w, self.target, general=True) for _, w in wholes]
        serial = min(estimates)
        variant, whole = wholes[estimates.index(serial)]
        seconds, groups, _ = best_division(
            problem,
            whole,
            self.target,
            split_reductions=_splits_reductions(problem, variant),
            general=True,
            serial=serial,
        )
        decision = Decision(variant, groups, seconds)
        structure.decide(sizes, decision)
        return decision

    def _parts(
        self, structure: Structures, sizes: tuple[int, ...], decision: Decision
    ) -> tuple[int, ...]:
        """The parts that suit a shape, by what was decided of it."""
        variant, general = decision.variant, structure.general
        if decision.groups == 1:
            return (1,) * len(variant.parts)
        return parts_among(
            general,
            variant,
            self.target,
            decision.groups,
            sizes[: len(variant.parts)],
            split_reductions=_splits_reductions(general, variant),
        )

    def _spread(
        self, structure: Structures, sizes: tuple[int, ...], decision: Decision
    ) -> Schedule:
        """The general schedule of a decision with the parts that suit a shape."""
        if decision.groups == 1:
            return _in_one_part(decision.variant)
        parts = self._parts(structure, sizes, decision)
        return replace(decision.variant, parts=parts, inline=False)

    def _compile_first(self, structure: Structures, problem: Problem) -> None:
        """Compiles the candidate that suits the first shape best; the simplest if that fails."""
        for _, schedule in self._ranked(problem, general=True)[:2]:
            try:
                self._compile(structure, _without_parts(problem, schedule))
                return
            except (CompileError, LoweringError):
                continue
        self._compile(structure, _without_parts(problem, plain(problem)))

    def _compile(self, structure: Structures, variant: Schedule) -> None:
        source = self.source(structure.general, variant)
        sizes = [1] * len(source.sizes)
        structure.add(variant, (source, self.device.compile(source, sizes)))

    def _improve_later(self, chosen: _Chosen) -> None:
        """Has a clearly better kernel found or compiled by a thread of its own."""
        if self._background is None or self._process != os.getpid():
            self._begin_improving()
        key = id(chosen.structure), chosen.sizes, chosen.often
        if len(self._waiting) >= _MOST_WAITING and not chosen.often:  # which asks but once
            return
        # In one step: of threads that meet a shape together, one asks.
        if self._waiting.setdefault(key, chosen) is chosen:
            self._to_improve.put(key)

    def _begin_improving(self) -> None:
        """Starts the thread; a process that was forked has none."""
        with self._work:
            is_known = self._background is not None and self._process == os.getpid()
            if not is_known and not self._closing.is_set():
                self._waiting, self._to_improve, self._process = {}, SimpleQueue(), os.getpid()
                self._background = threading.Thread(target=self._improve_all, daemon=True)
                self._background.start()

    def _improve_all(self) -> None:
        """Works off what waits, after a pause in which the calls that caused it can finish."""
        try:
            while (key := self._to_improve.get()) is not None:
                if self._closing.wait(_PAUSE):
                    return
                try:
                    self._improve_one(self._waiting[key])
                    self._look_for_winners()
                finally:
                    with self._work:
                        del self._waiting[key]
                        self._work.notify_all()
        finally:
            self._background = None

    def _counted(self, chosen: _Chosen, program: Program) -> Program:
        """A program that asks for a kernel of the shape's own once its launches took long."""
        seconds = chosen.decision.seconds
        if seconds >= WORTH_OWN_KERNEL or len(self.own) >= _MAX_OWN:
            return program
        often = replace(chosen, often=True)
        launches = math.ceil(WORTH_OFTEN / seconds)
        return Counted(program, launches, lambda: self._improve_later(often))

    def _improve_one(self, chosen: _Chosen) -> None:
        problem = chosen.problem()
        decision = self._confirmed(chosen, problem)
        least, worth = (0.0, 1.0) if chosen.often else (WORTH_OWN_KERNEL, WORTH_COMPILING)
        if decision.seconds >= least and self._improve_alone(problem, decision, worth):
            return
        if chosen.often:
            return
        structure = chosen.structure
        has_room = len(structure.wanted) < _MAX_VARIANTS
        if has_room and structure.is_unlike_others(chosen.sizes):
            self._improve(structure, problem, decision)

    def _confirmed(self, chosen: _Chosen, problem: Problem) -> Decision:
        """What the cost model says of a shape; later calls do that where it is clearly better."""
        structure, sizes, made = chosen.structure, chosen.sizes, chosen.decision
        if sizes in structure.decisions:
            return structure.decisions[sizes]
        spread = self._spread(structure, sizes, made)
        seconds = estimate(problem, spread, self.target, general=True)
        decision = self._decide(structure, sizes, problem)
        if decision.seconds * WORTH_COMPILING <= seconds:
            self._tell()
        return decision

    def _improve_alone(self, problem: Problem, decision: Decision, worth: float) -> bool:
        """Compiles a kernel for this problem alone, if it is better by `worth`; whether it did."""
        if problem in self.own or len(self.own) >= _MAX_OWN:
            return False
        seconds, schedule = self._best(problem)
        if seconds * worth > decision.seconds * GENERAL:
            return False
        try:
            own = self.specialised(problem, schedule, "cost model", seconds)
        except (CompileError, LoweringError):
            return False
        self.own[problem] = own
        self._with_own.add(problem_key(problem))
        self._tell()
        return True

    def _best(self, problem: Problem, *, general: bool = False) -> tuple[float, Schedule]:
        """The schedule that the cost model ranks first, for a thread that nobody waits for."""
        pause = lambda: time.sleep(_BREATH)  # noqa: E731
        return self._ranked(problem, general=general, pause=pause)[0]

    def _ranked(self, problem: Problem, **options: Any) -> list[tuple[float, Schedule]]:
        """Schedules by the cost model; it and the lowering are loaded where nobody tuned."""
        from mdtensor.lower.candidates import ranked

        return ranked(problem, self.target, **options)

    def _tell(self) -> None:
        for notify in self.changed:
            notify()

    def _improve(self, structure: Structures, problem: Problem, decision: Decision) -> None:
        seconds, schedule = self._best(problem, general=True)
        variant = _without_parts(problem, schedule)
        if seconds * WORTH_COMPILING > decision.seconds or variant in structure.wanted:
            return
        structure.wanted.add(variant)
        try:
            self._compile(structure, variant)
        except (CompileError, LoweringError):
            return
        self._tell()

    def settle(self, timeout: float = 60.0) -> None:
        """Waits until the better kernels that calls asked for are compiled."""
        with self._work:
            self._work.wait_for(self._is_settled, timeout)

    def _is_settled(self) -> bool:
        return not self._waiting or self._background is None or self._process != os.getpid()

    def finish(self) -> None:
        """Ends background work, so that no thread outlives what it uses."""
        self._closing.set()
        self._to_improve.put(None)
        thread = self._background
        if thread is not None and self._process == os.getpid():
            thread.join(timeout=10)


def _is_worth_constants(problem: Problem) -> bool:
    """Whether a problem has many points, or many for each work-item of a general kernel on GPUs."""
    items = math.prod(problem.extent(d) for d in problem.kept)
    if items == 1 and problem.scanned < 0 and not problem.keeps_order:
        items = _SHARING
    count = points(problem)
    return count >= min(WORTH_CONSTANTS, WORTH_SHARING * items)


def _without_parts(problem: Problem, schedule: Schedule) -> Schedule:
    """The general schedule: parts decided at launch, reductions split only where they were."""
    parts = tuple(0 if not problem.reduced[d] or schedule.parts[d] > 1 else 1 for d in problem.dims)
    general = replace(schedule, parts=parts, inline=False)
    return scattering(problem, general) if schedule.scatter else general


@lru_cache(1024)
def _in_one_part(schedule: Schedule) -> Schedule:
    """The same as one group that the calling thread runs."""
    return replace(schedule, parts=(1,) * len(schedule.parts), inline=True)


def _splits_reductions(problem: Problem, variant: Schedule) -> bool:
    """Whether a general schedule lets groups share a reduction."""
    return any(variant.parts[d] == 0 for d in problem.contracted)


def _block_by_block(problem: Problem, variant: Schedule) -> Schedule:
    """A general schedule for a GPU: kept dims divided as far as there are blocks."""
    parts = tuple(
        1
        if problem.reduced[d]
        else -(-problem.extent(d) // (variant.registers[d] * variant.threads[d]))
        for d in problem.dims
    )
    return replace(variant, parts=parts)


def _launch_sizes(sizes: Sequence[int], schedule: Schedule, wanted: Sequence[int]) -> list[int]:
    """The blocks of a part and the number of parts, of every dim, for a general kernel.

    They are those of `lower.tiling` for a dim of this extent, which the first sizes are.
    """
    lengths: list[int] = []
    parts: list[int] = []
    for d, count in enumerate(wanted):
        blocks = -(-sizes[d] // (schedule.registers[d] * schedule.threads[d]))
        lengths.append(-(-blocks // max(1, count)))
        parts.append(-(-blocks // lengths[d]))
    return [*lengths, *parts]
