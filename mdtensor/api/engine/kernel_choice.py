"""Kernel choices, and the compilation of a kernel from a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, ParamSpec, TypeVar

from mdtensor.api.arrays.invalidation import IsStale
from mdtensor.api.engine.compiler_process import CompilerApart, CompilerHere
from mdtensor.api.engine.generic_kernels import Structure
from mdtensor.backends.protocol import CompiledProgram, ComputeDevice
from mdtensor.dataclass import dataclass
from mdtensor.errors import CompileError
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.languages import Language
from mdtensor.kernels.llvm.language import LLVM_IR, LLVM_IR_AVX512, LLVM_IR_FMA
from mdtensor.kernels.opencl import OPENCL, OPENCL_FMA
from mdtensor.lower.problem.generic_problem import GENERALISE, Shape
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import Target

P = ParamSpec("P")
R = TypeVar("R")
DIALECTS: dict[str, Language] = {
    "opencl": OPENCL,
    "opencl-fma": OPENCL_FMA,
    "cuda": CUDA,
    "llvm": LLVM_IR,
    "llvm-fma": LLVM_IR_FMA,
    "llvm-avx512": LLVM_IR_AVX512,
}

# Where the schedules of kernels for all shapes of a structure are from.
GENERAL = "cost model, general kernel"
# Where those of kernels with constants are from that nobody tuned for their shape.
NEAR_WINNER = "winner of a near shape"
KEPT = "an earlier process"
Kernels = tuple[KernelSource, CompiledProgram]
Compiles = ComputeDevice | CompilerApart | CompilerHere
Structures = Structure[Kernels]


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """A chosen kernel: its schedule, program and source, and the origin of the schedule.

    `improves` tells whether the background is looking for a better one, `variant` is the schedule
    of the general kernel where it is one.
    """

    problem: Problem
    schedule: Schedule
    origin: str
    seconds: float
    source: KernelSource
    program: CompiledProgram
    improves: Callable[[], bool] = field(default=lambda: False, compare=False, repr=False)
    variant: Schedule | None = None

    @property
    def shapes(self) -> tuple[Shape]:
        """The structure and the sizes of the problem."""
        return (GENERALISE(self.problem),)

    @property
    def is_general(self) -> bool:
        """Whether the kernel serves all shapes of a structure."""
        return self.origin == GENERAL


@dataclass(frozen=True, slots=True)
class DeferredChoice:
    """A general kernel chosen by structure and sizes; `choice` describes it for traces."""

    program: CompiledProgram
    shape: Shape
    choice: Callable[[], KernelChoice]
    is_general = True

    @property
    def shapes(self) -> tuple[Shape]:
        """The structure and the sizes."""
        return (self.shape,)


def replaced(*problems: Problem, structure: Problem | None = None) -> IsStale:
    """Which launches better kernels replace: of some problems, or of a structure for all sizes.

    A kernel for all sizes replaces no kernel with constants.
    """
    shapes = {GENERALISE(problem) for problem in problems}

    def is_replaced(kernel: Any) -> bool:
        served: Sequence[Shape] | None = getattr(kernel, "shapes", ())
        if not served:
            return served is None
        if structure is not None and kernel.is_general:
            return any(general == structure for general, _ in served)
        return not shapes.isdisjoint(served)

    return lambda served_by: served_by is None or any(map(is_replaced, served_by))


def source_of(problem: Problem, schedule: Schedule, target: Target) -> KernelSource:
    """Lowers a problem by a schedule to the source of its kernels.

    Raises LoweringError where the schedule does not fit.
    """
    from mdtensor.kernels.program import program_of
    from mdtensor.lower.schedule.rules.valid import validate

    validate(problem, schedule)  # before it is described
    head = f"{problem_key(problem)}\n{schedule.describe(problem)}"
    return program_of(problem, schedule, DIALECTS[target.dialect], head)


def _called(function: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
    return function(*args, **options)


def source_in(compiler: Compiles, problem: Problem, schedule: Schedule) -> KernelSource:
    """The source of a problem's kernels by a schedule, lowered in the compiler's process if any.

    Raises what `source_of` raises.
    """
    call = compiler.call if isinstance(compiler, CompilerApart) else _called
    return call(source_of, problem, schedule, compiler.target)


def specialised(
    problem: Problem, schedule: Schedule, compiler: Compiles, origin: str, seconds: float
) -> KernelChoice:
    """A kernel with the problem's sizes as constants."""
    source = source_in(compiler, problem, schedule)
    return KernelChoice(problem, schedule, origin, seconds, source, compiler.compile(source))


def add_general(structure: Structures, variant: Schedule, compiler: Compiles) -> None:
    """Compiles one more general kernel of a structure."""
    source = source_in(compiler, structure.general, variant)
    structure.add(variant, general_kernel(source, compiler))


def general_kernel(source: KernelSource, compiler: Compiles) -> Kernels:
    """A compiled general kernel; its sizes are bound per shape."""
    return source, compiler.compile(source, [1] * len(source.sizes))


def compile_thoroughly(structure: Structures, variant: Schedule, compiler: Compiles) -> bool:
    """Recompiles with optimisation a general kernel compiled in haste; whether it was.

    Where the compiler refuses that, which it did not in haste, nobody tries again.
    """
    source, program = structure.variants[variant]
    if not source.hasty:
        return False
    thorough = replace(source, hasty=False)
    kernel: Kernels = thorough, program
    with suppress(CompileError):
        kernel = general_kernel(thorough, compiler)
    structure.variants[variant] = kernel
    return True


def ranked(problem: Problem, target: Target, **options: Any) -> list[tuple[float, Schedule]]:
    """Schedules ranked by the cost model, which is imported on first use."""
    from mdtensor.lower.search.candidates import ranked

    return ranked(problem, target, **options)


def ranking_in(
    compiler: Compiles, problem: Problem, *, general: bool = False
) -> list[tuple[float, Schedule]]:
    """Schedules ranked by the cost model, the best first; in the compiler's process if any."""
    rank = compiler.call if isinstance(compiler, CompilerApart) else _called
    return rank(ranked, problem, compiler.target, general=general, most=1)
