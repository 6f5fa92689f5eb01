"""Generated kernels run on memory that shows what they touch, and compared with the oracle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache, partial

import ml_dtypes
import numpy as np

from mdtensor.lower.problem.generic_problem import generalised
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import kind_of
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.reference import run
from tests.lower.random_problems import Placed, guarded
from tests.workers import MismatchError


@cache
def device():
    from mdtensor.backends.opencl.opencl_device import devices, open_device

    found = open_device(devices()[0][1])
    found.scratch = partial(guarded_scratch, found)
    return found


def guarded_scratch(on, nbytes: int, **_):
    """Scratch memory that ends where the accessible memory ends, and holds NaN at first."""
    memory = guarded(nbytes)
    memory[:] = 0xFF
    memory = memory[memory.size - -(-max(nbytes, 8) // 8) * 8 :]
    return memory, on.argument(memory)


def compute_from_byte(md_hom: MDHom, program, inputs: Sequence[np.ndarray], byte: int) -> None:
    """Runs a program whose result begins so many bytes behind a cache line, between guards.

    AssertionError where the result is not the reference's, or where anything else was written.
    """
    (result,) = md_hom.outputs
    shape, dtype = result.spec.shape, result.spec.dtype
    memory = np.full(dtype.itemsize * int(np.prod(shape)) + 256, 0xA5, np.uint8)
    first = -memory.ctypes.data % 64 + 64 + byte
    out = np.ndarray(shape, dtype, memory.data, first)
    device().compile(program)(*inputs, out)
    (expected,) = run(md_hom, inputs)
    np.testing.assert_array_equal(out, expected)
    rest = np.delete(memory, np.s_[first : first + out.nbytes])
    assert (rest == 0xA5).all()


def launch_sizes(problem: Problem, schedule: Schedule, seed: int) -> tuple[int, ...]:
    """The sizes of a general program, in the order of their names: problem, blocks, parts.

    `problem` is the one of fixed extents that the general one is to be run for.
    """
    general, sizes = generalised(problem)
    if not general.is_general:
        return ()
    rng = random.Random(seed)
    blocks: list[int] = []
    parts: list[int] = []
    for d in problem.dims:
        block = schedule.registers[d] * schedule.threads[d]
        whole = -(-problem.extent(d) // block)
        wanted = 1 if schedule.parts[d] == 1 else rng.choice((1, 2, 3, 4, 100))
        blocks.append(-(-whole // wanted))
        parts.append(-(-whole // blocks[-1]))
    return (*sizes, *blocks, *parts)


def run_on_guarded_memory(program, inputs: Sequence[Placed], outputs: Sequence[Placed]) -> None:
    """Runs a program; MismatchError where it changes anything but elements of the outputs."""
    for output in outputs:
        output.restore()
    program(*(placed.array for placed in (*inputs, *outputs)))
    for output in outputs:
        if strays := output.strays():
            raise MismatchError(f"{strays} bytes beside the output changed")
    for number, placed in enumerate(inputs):
        if changed := placed.changed():
            raise MismatchError(f"{changed} bytes of input {number} changed")


def _overflows(result: np.ndarray, expected: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Where infinities stand for numbers that may be beyond the largest of the result's type."""
    if kind_of(result.dtype) != "f":
        return np.zeros(result.shape, bool)
    largest = float(ml_dtypes.finfo(result.dtype).max)
    return np.isinf(result) & (np.sign(result) * expected + tolerance > largest)


def compare(result: np.ndarray, expected: np.ndarray, tolerance: np.ndarray | None) -> None:
    """Raises MismatchError with the first element that differs by more than the tolerance.

    NaN is right where NaN is expected, or the tolerance has no end; an infinity where the number
    may be too large for the result's type.
    """
    if tolerance is None:
        wrong = result != expected
    else:
        wide = result.astype(np.complex128 if result.dtype.kind == "c" else np.float64)
        wrong = ~((np.abs(wide - expected) <= tolerance) | (wide == expected))
        wrong &= ~(np.isinf(tolerance) | _overflows(result, expected, tolerance))
    if kind_of(result.dtype) in "fc":
        wrong &= ~(np.isnan(result) & np.isnan(expected))
    if not np.any(wrong):
        return
    place = tuple(int(n) for n in np.argwhere(wrong)[0])
    raise MismatchError(
        f"{np.count_nonzero(wrong)} of {result.size} elements differ, the first at {place}:"
        f" {result[place]!r} where {expected[place]!r} is right"
        + ("" if tolerance is None else f" within {tolerance[place]!r}")
    )
