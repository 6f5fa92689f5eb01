"""The CPU policy: a general kernel at once, better ones compiled in the background.

Where the cost model finds that a different general schedule would suit a shape better, or for long
or frequent work one with the shape's own constants, that one is compiled, and later calls take it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from mdtensor.api.engine.generic_kernels import Decision
from mdtensor.api.engine.generic_selection import (
    decide,
    launch_sizes,
    parts_of,
    serves,
    spread,
    without_parts,
)
from mdtensor.api.engine.kernel_choice import (
    GENERAL,
    NEAR_WINNER,
    DeferredChoice,
    KernelChoice,
    Structures,
    add_general,
    ranking_in,
    replaced,
    specialised,
)
from mdtensor.api.engine.launch_counter import Counted, TimeSpent
from mdtensor.api.engine.scratch_bound import takes_scratch
from mdtensor.api.engine.tiers import MOST_CHOICES, Tiers
from mdtensor.api.engine.winner_index import WinnerIndex
from mdtensor.backends.protocol import CompiledProgram
from mdtensor.bounded import Bounded
from mdtensor.dataclass import dataclass
from mdtensor.errors import CompileError, LoweringError
from mdtensor.lower.cpu.cost.cpu_cost import estimate
from mdtensor.lower.cpu.parallelism import WORTH_THREADS
from mdtensor.lower.problem.generic_problem import GENERALISE
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import key_form, problem_key
from mdtensor.lower.schedule.schedule import Schedule

# A better general schedule is worth compiling when it promises this much.
WORTH_COMPILING = 1.15
# Seconds that a problem takes, as is expected, for which it gets a kernel of its own; and what a
# general kernel takes longer than the same one with constants.
WORTH_OWN_KERNEL, SLOWER = 0.2e-3, 1.2
# Seconds that the launches for a shape take together, as is expected, until it gets one as well:
# about what compiling takes.
WORTH_OFTEN = 0.1
# Times as long as optimised ones kernels take that were compiled in haste.
HASTY = 5.0
_MAX_VARIANTS = 6
_MAX_OWN = 64  # problems with kernels of their own that nobody tuned
# Shapes of a structure without a general kernel that get one of their own: about those of a network
# and of its batches.
_MAX_ALONE = 8


@dataclass(frozen=True, slots=True)
class Served:
    """A shape run by a general kernel, which may be replaced by a better one.

    It is launched `often` enough to be worth a kernel of its own, however short it is.
    """

    structure: Structures
    sizes: tuple[int, ...]
    problem: Callable[[], Problem]
    decision: Decision
    often: bool = False


class CpuPolicy:
    """The compilation policy of CPUs: which kernels are compiled, and when.

    `seen` are the winners that the store had at the last look.
    """

    def __init__(self, tiers: Tiers, seen: WinnerIndex) -> None:
        self._tiers, self._seen = tiers, seen
        self._target = tiers.target
        self._looked = Bounded[Problem, None](MOST_CHOICES)

    def now(self, problem: Problem) -> KernelChoice | None:
        """Returns None: on CPUs no call waits for a specialised kernel."""

    def own(self, problem: Problem) -> KernelChoice | None:
        """A problem's specialised kernel, compiled in the background of this or another process."""
        if problem not in self._looked and len(self._tiers.texts) < _MAX_OWN:
            self._looked.keep(problem, None)
            self._load_own(problem)
        return self._tiers.own(problem)

    def _load_own(self, problem: Problem) -> bool:
        """Whether a cached specialised kernel was loaded; not tried if near shapes have winners."""
        kept = self._tiers.kept_own(problem)
        if kept is None or self._seen.neighbours(key_form(GENERALISE(problem)[0]), problem):
            return False
        return self._tiers.load_own(problem, *kept)

    def account_of(
        self, structure: Structures, sizes: tuple[int, ...], seconds: float
    ) -> TimeSpent:
        """The account of a problem that is evaluated in `seconds`.

        One that gets a kernel of its own first has its own account, others have their structure's.
        """
        accounts = structure.evaluations
        if seconds < WORTH_OWN_KERNEL:
            return accounts.made(None, TimeSpent)
        is_alone = sizes in accounts or len(accounts) - (None in accounts) < _MAX_ALONE
        return accounts.made(sizes if is_alone else None, TimeSpent)

    def ask_for_first(
        self,
        structure: Structures,
        sizes: tuple[int, ...],
        problem: Problem,
        *,
        worth: float,
        often: bool,
    ) -> None:
        """Enqueues the first kernel of a problem that NumPy evaluates in `worth` seconds.

        It is compiled where launches came `often`: one of its own for a shape with an account of
        its own, else a general one.
        """
        alone = sizes in structure.evaluations

        def work() -> None:
            if not structure.variants and self._tiers.own(problem) is None:
                if not often:
                    if not self._load_own(problem) and not self._tiers.load(structure):
                        return
                else:
                    if alone and self._improve_alone(structure, problem, math.inf):
                        return
                    self._tiers.add(structure, sizes, problem, waits=False)
            self._tiers.tell(replaced(structure=structure.general))

        key = (id(structure), often, sizes if alone else None)
        self._tiers.background.ask(key, work, must=True, worth=worth)

    def general(
        self, structure: Structures, sizes: tuple[int, ...], problem: Problem
    ) -> KernelChoice:
        """The general kernel that suits a problem best; the search for better ones is enqueued."""
        decision = self._decided(structure, sizes, lambda: problem)
        while decision is None:
            decision = decide(structure, sizes, problem, self._target)
            if decision is None:  # all kernels take too much scratch memory; the simplest none
                self._tiers.add(structure, sizes, problem)
        self._tiers.without_haste(structure, decision.variant, decision.seconds)
        served = Served(structure, sizes, lambda: problem, decision)
        return self._choice_of(served, self._program(served))

    def at_once(
        self,
        structure: Structures,
        sizes: tuple[int, ...],
        problem: Callable[[], Problem],
        *,
        use_store: bool,
    ) -> DeferredChoice | None:
        """The program for a shape of a structure, without a look at its problem.

        None where there is no general kernel for a shape near it, and where there is a kernel of
        its own.
        """
        decision = self._decided(structure, sizes, problem)
        if decision is None:
            return None
        served = Served(structure, sizes, problem, decision)
        if self._is_apart(served, use_store=use_store):
            return None
        program = self._program(served)
        shape = structure.general, sizes
        return DeferredChoice(program, shape, partial(self._choice_of, served, program))

    def _program(self, served: Served) -> CompiledProgram:
        """The general kernel bound to a shape; the search for a better one is enqueued."""
        structure, sizes, decision = served.structure, served.sizes, served.decision
        self._ask(served)
        parts = parts_of(structure, sizes, decision, self._target)
        _, program = structure.variants[decision.variant]
        launch = launch_sizes(sizes, decision.variant, parts)
        return self._counted(served, program.bound((*sizes, *launch), decision.groups == 1))

    def _choice_of(self, served: Served, program: CompiledProgram) -> KernelChoice:
        """The kernel choice for a shape that a general kernel serves."""
        structure, decision = served.structure, served.decision
        schedule = spread(structure, served.sizes, decision, self._target)
        source, _ = structure.variants[decision.variant]
        improves = partial(self._improves, served)
        problem, seconds = served.problem(), decision.seconds
        variant = decision.variant
        return KernelChoice(problem, schedule, GENERAL, seconds, source, program, improves, variant)

    def _decided(
        self, structure: Structures, sizes: tuple[int, ...], problem: Callable[[], Problem]
    ) -> Decision | None:
        """The cached decision for a shape, or one scaled from a near shape, if it has any."""
        decision = structure.decided(sizes, WORTH_THREADS, WORTH_OWN_KERNEL)
        if decision is None or not decision.scaled:
            return decision
        source, _ = structure.variants[decision.variant]
        if not takes_scratch(source):
            return decision
        parts = parts_of(structure, sizes, decision, self._target)
        return decision if serves(structure, sizes, decision.variant, parts, problem) else None

    def _is_apart(self, served: Served, *, use_store: bool) -> bool:
        """Whether a shape has a winner, or a specialised kernel."""
        structure, texts = served.structure, self._tiers.texts
        if structure.pattern is not None:
            key = structure.pattern.format(*served.sizes)
        elif (use_store and self._seen.may_have(structure.form)) or any(
            structure.form.fullmatch(text) for text in (*texts,)
        ):
            key = problem_key(served.problem())
        else:
            return False
        return key in texts or (use_store and self._seen.winner(key) is not None)

    def _ask(self, served: Served) -> None:
        """Enqueues the search for a clearly better kernel, after recompiling one made in haste."""
        structure, decision, tiers = served.structure, served.decision, self._tiers
        source, _ = structure.variants[decision.variant]
        if source.hasty:
            again = partial(tiers.make_up_for_haste, structure, decision.seconds)
            worth = HASTY * decision.seconds
            tiers.background.ask((id(structure), "haste"), again, must=True, worth=worth)
        key = id(structure), served.sizes, served.often

        def work() -> None:
            self._improve(served)
            self._seen.look()

        # Frequent ones ask but once; others that are not looked at have what shapes near them have.
        tiers.background.ask(key, work, must=served.often, worth=decision.seconds)

    def _improves(self, served: Served) -> bool:
        """Whether a search for a better kernel for this shape is pending or running."""
        keys = [(id(served.structure), served.sizes, often) for often in (False, True)]
        return any(map(self._tiers.background.has, keys))

    def _counted(self, served: Served, program: CompiledProgram) -> CompiledProgram:
        """A program that requests a specialised kernel after enough launches."""
        seconds = served.decision.seconds
        if seconds >= WORTH_OWN_KERNEL or len(self._tiers.texts) >= _MAX_OWN:
            return program
        launches = math.ceil(WORTH_OFTEN / seconds)
        return Counted(program, launches, lambda: self._ask(replace(served, often=True)))

    # What the background does.

    def _improve(self, served: Served) -> None:
        problem = served.problem()
        decision = self._confirmed(served, problem)
        least, worth = (0.0, 1.0) if served.often else (WORTH_OWN_KERNEL, WORTH_COMPILING)
        structure = served.structure
        most = decision.seconds * SLOWER
        if decision.seconds >= least and self._improve_alone(structure, problem, most, worth):
            return
        if served.often:
            return
        alike = structure.alike(served.sizes)
        if len(structure.wanted) < _MAX_VARIANTS and not alike.is_ranked:
            alike.is_ranked = True
            self._improve_general(structure, problem, decision)

    def _confirmed(self, served: Served, problem: Problem) -> Decision:
        """The cost model's decision for a shape; drops its launches if it is clearly better."""
        structure, sizes, made = served.structure, served.sizes, served.decision
        if (known := structure.alike(sizes).decisions.get(sizes)) is not None:
            return known
        schedule = spread(structure, sizes, made, self._target)
        seconds = estimate(problem, schedule, self._target, general=True)
        decision = decide(structure, sizes, problem, self._target)
        if decision is None:
            return made
        if decision.seconds * WORTH_COMPILING <= seconds:
            self._tiers.tell(replaced(problem))
        return decision

    def _improve_alone(
        self, structure: Structures, problem: Problem, most: float, worth: float = 1.0
    ) -> bool:
        """Compiles a specialised kernel for a problem; whether there is one.

        Not where it is not expected to be `worth` times as fast as one of `most` seconds.
        It has the schedule of the nearest shape's winner, where there is one that suits. Where no
        near shape has any, one that an earlier process kept is loaded.
        """
        tiers = self._tiers
        if len(tiers.texts) >= _MAX_OWN:
            return False
        if tiers.own(problem) is not None or self._load_own(problem):
            tiers.tell(replaced(problem))
            return True
        seconds, schedule = self._best(problem)
        if seconds * worth > most:
            return False
        near = self._seen.near(structure.form, problem, schedule, seconds, self._target)
        for origin, each in ((NEAR_WINNER, near), ("cost model", schedule)):
            with suppress(CompileError, LoweringError):
                if each is not None:
                    own = specialised(problem, each, tiers.apart, origin, seconds)
                    tiers.add_own(own)
                    return True
        return False

    def _improve_general(self, structure: Structures, problem: Problem, decision: Decision) -> None:
        """Compiles another general kernel, if it is clearly better for a problem."""
        seconds, schedule = self._best(problem, general=True)
        variant = without_parts(problem, schedule)
        if seconds * WORTH_COMPILING > decision.seconds or variant in structure.wanted:
            return
        structure.wanted.add(variant)
        try:
            add_general(structure, variant, self._tiers.apart)
        except (CompileError, LoweringError):
            return
        self._tiers.tell(replaced(structure=structure.general))

    def _best(self, problem: Problem, *, general: bool = False) -> tuple[float, Schedule]:
        """The cost model's best schedule, and its estimated seconds."""
        return ranking_in(self._tiers.apart, problem, general=general)[0]
