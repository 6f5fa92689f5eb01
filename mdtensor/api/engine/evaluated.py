"""The lowest tier: an `md_hom` evaluated by NumPy until a kernel is compiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mdtensor.api.engine.launch_counter import Repeated, TimeSpent
from mdtensor.dataclass import dataclass
from mdtensor.translate.graphs import in_order
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.operations import LONG_FUNCTIONS

if TYPE_CHECKING:
    from mdtensor.backends.protocol import CompiledProgram
    from mdtensor.lower.problem.generic_problem import Shape

VARIABLE = "MDTENSOR_TIER0"
# Seconds that a structure's first kernel takes to be chosen, lowered and compiled, at least, and
# longer: for each function that takes many instructions, for each access beyond two, and for a
# product whose operand is read in windows.
COMPILING, FUNCTION, ACCESS, WINDOW = 0.06, 0.03, 0.02, 0.1
# And what loading takes that an earlier process kept, on a device that is open.
LOADING = 0.002
# How many times as long as compiling launches take until a kernel is worth it: what is called a few
# times needs none, and a compiler takes a core from it.
WORTH_KERNEL = 2
# Seconds that a first call on a new shape takes longer where its structure has no general kernel,
# as measured (docs/adr/0002-general-kernels-for-first-calls.md#evaluated-calls-on-new-shapes).
FIRST_CALL = 4.5e-4


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An `md_hom` with the NumPy program that evaluates it, until a kernel replaces that.

    Its `shapes` are the structure and the sizes of the kernel, None without a device.
    """

    md_hom: MDHom
    program: CompiledProgram
    shapes: tuple[Shape] | None = None
    is_general = True


def is_on() -> bool:
    """Whether NumPy may evaluate calls without a kernel: unless `MDTENSOR_TIER0` is 0."""
    return os.environ.get(VARIABLE) != "0"


def seconds_to_compile(md_hom: MDHom, *, has_window: bool) -> float:
    """Estimated seconds to choose, lower and compile a structure's first kernel."""
    functions = [n for n in in_order(md_hom.scalar.results) if n.op in LONG_FUNCTIONS]
    beyond = max(0, len(md_hom.inp_view) - 2)
    return COMPILING + FUNCTION * len(functions) + ACCESS * beyond + WINDOW * has_window


def evaluated(
    md_hom: MDHom,
    ask: Callable[..., object],
    is_kept: Callable[[], bool] = lambda: False,
    account_of: Callable[[float], TimeSpent] = lambda seconds: TimeSpent(),
    shape: Shape | None = None,
) -> Evaluated | None:
    """NumPy's evaluation of an `md_hom`; None where its first kernel is compiled or loaded sooner.

    `ask` is called once a launch comes again, and later when they come so `often` that a kernel is
    worth compiling; its `worth` are the seconds of one. `is_kept` loads a kernel that an earlier
    process kept, and tells whether there is one. `account_of` gives the account of launches of so
    many seconds. `shape` has the structure and the sizes of the kernel, where a device is open.
    """
    from mdtensor.evaluator.evaluation import Evaluation

    evaluation = Evaluation(md_hom)
    seconds = evaluation.seconds
    compiling = seconds_to_compile(md_hom, has_window=evaluation.has_window)
    if seconds > compiling:
        return None
    if seconds > LOADING and is_kept():
        return None
    account = account_of(seconds)
    account.seconds += FIRST_CALL if account.seconds else 0
    again, worth = partial(ask, worth=seconds), WORTH_KERNEL * compiling
    program = Repeated(evaluation, again, account, worth, seconds)
    return Evaluated(md_hom, program, None if shape is None else (shape,))
