"""The tier of processors: better kernels than the general ones, compiled in the background.

Where the cost model finds that a different general schedule would suit a shape better, or for long
or frequent work one with the shape's own constants, that one is compiled, and later calls take it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from mdtensor.api.engine.background_worker import Background
from mdtensor.api.engine.compiler_process import CompilerApart
from mdtensor.api.engine.generic_kernels import Decision
from mdtensor.api.engine.generic_selection import decide, spread, without_parts
from mdtensor.api.engine.kernel_choice import (
    Choice,
    Structures,
    add_general,
    compile_thoroughly,
    ranked,
    specialised,
)
from mdtensor.api.engine.launch_counter import Counted
from mdtensor.backends.protocol import Program
from mdtensor.errors import CompileError, LoweringError
from mdtensor.lower.cpu.cost.cpu_cost import estimate
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule

# A better general schedule is worth compiling when it promises this much.
WORTH_COMPILING = 1.15
# Seconds that a problem takes, as is expected, for which it gets a kernel of its own; and what a
# general kernel takes longer than the same one with constants.
WORTH_OWN_KERNEL, GENERAL = 0.2e-3, 1.2
# Seconds that the launches for a shape take together, as is expected, until it gets one as well:
# about what compiling takes.
WORTH_OFTEN = 0.1
_MAX_VARIANTS = 6
_MAX_OWN = 64  # problems with kernels of their own that nobody tuned
# Seconds between the steps of a ranking: other threads come first.
BREATH = 0.0005


@dataclass(frozen=True, slots=True)
class Served:
    """A shape that a general kernel serves, and that may be served better.

    It is launched `often` enough to be worth a kernel of its own, however short it is.
    """

    structure: Structures
    sizes: tuple[int, ...]
    problem: Callable[[], Problem]
    decision: Decision
    often: bool = False


class Improvement:
    """Background specialization on one device; `own` are kernels with a problem's constants.

    `tell` is called for each that later calls can take, `look` after every attempt.
    """

    def __init__(
        self, compiler: CompilerApart, tell: Callable[[], None], look: Callable[[], None]
    ) -> None:
        self._compiler = compiler
        self.target = compiler.target
        self.own: dict[Problem, Choice] = {}
        self.keys_of_own: set[str] = set()
        self._tell, self._look = tell, look
        self._background = Background(self._improve, rest=compiler.rest, stop=compiler.close)

    def ask(self, served: Served) -> None:
        """Enqueues the search for a clearly better kernel."""
        key = id(served.structure), served.sizes, served.often
        # Frequent ones ask but once; others that are not looked at have what shapes near them have.
        self._background.ask(key, served, must=served.often)

    def improves(self, served: Served) -> bool:
        """Whether the search for a kernel that serves this shape better goes on."""
        keys = [(id(served.structure), served.sizes, often) for often in (False, True)]
        return any(map(self._background.has, keys))

    def settle(self, timeout: float) -> None:
        """Waits until the better kernels that were asked for are compiled."""
        self._background.settle(timeout)

    def counted(self, served: Served, program: Program) -> Program:
        """A program that asks for a specialized kernel once its launches took long."""
        seconds = served.decision.seconds
        if seconds >= WORTH_OWN_KERNEL or len(self.own) >= _MAX_OWN:
            return program
        often = replace(served, often=True)
        launches = math.ceil(WORTH_OFTEN / seconds)
        return Counted(program, launches, lambda: self.ask(often))

    def _improve(self, served: Served) -> None:
        self._improve_one(served)
        self._look()

    def _improve_one(self, served: Served) -> None:
        self._make_up_for_haste(served.structure)
        problem = served.problem()
        decision = self._confirmed(served, problem)
        least, worth = (0.0, 1.0) if served.often else (WORTH_OWN_KERNEL, WORTH_COMPILING)
        if decision.seconds >= least and self._improve_alone(problem, decision, worth):
            return
        if served.often:
            return
        structure = served.structure
        has_room = len(structure.wanted) < _MAX_VARIANTS
        if has_room and structure.is_unlike_others(served.sizes):
            self._improve_general(structure, problem, decision)

    def _make_up_for_haste(self, structure: Structures) -> None:
        """Compiles those kernels again that were compiled in haste."""
        for variant in tuple(structure.variants):
            if compile_thoroughly(structure, variant, self._compiler):
                self._tell()

    def _confirmed(self, served: Served, problem: Problem) -> Decision:
        """The cost model's decision for a shape; calls are told if it is clearly better."""
        structure, sizes, made = served.structure, served.sizes, served.decision
        if sizes in structure.decisions:
            return structure.decisions[sizes]
        schedule = spread(structure, sizes, made, self.target)
        seconds = estimate(problem, schedule, self.target, general=True)
        decision = decide(structure, sizes, problem, self.target)
        if decision is None:
            return made
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
            own = specialised(problem, schedule, self._compiler, "cost model", seconds)
        except (CompileError, LoweringError):
            return False
        self.own[problem] = own
        self.keys_of_own.add(problem_key(problem))
        self._tell()
        return True

    def _improve_general(self, structure: Structures, problem: Problem, decision: Decision) -> None:
        """Compiles another general kernel, if that is clearly better for this problem."""
        seconds, schedule = self._best(problem, general=True)
        variant = without_parts(problem, schedule)
        if seconds * WORTH_COMPILING > decision.seconds or variant in structure.wanted:
            return
        structure.wanted.add(variant)
        try:
            add_general(structure, variant, self._compiler)
        except (CompileError, LoweringError):
            return
        self._tell()

    def _best(self, problem: Problem, *, general: bool = False) -> tuple[float, Schedule]:
        """The schedule that the cost model ranks first, computed at low priority."""
        pause = lambda: time.sleep(BREATH)  # noqa: E731
        return ranked(problem, self.target, general=general, most=1, pause=pause)[0]
