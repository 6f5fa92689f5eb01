"""Where the time of a small call goes: the enqueue, and what surrounds it."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from bench.timing import after_pauses, batch
from bench.workload import PLAN, Call
from bench.workloads import Contraction
from mdtensor.backends.llvm.llvm_program import LLVMProgram

ROUNDS = 7
BATCH_SECONDS = 0.02
ASLEEP_SECONDS = 0.005


def profile(
    workload: Contraction, operands: list[np.ndarray], calls: dict[str, Call]
) -> dict[str, Any]:
    """Seconds of the hot calls, of their enqueue alone, and of calls after a pause.

    The bare enqueue is that of the plan's own kernels with all arguments set, and the wait for
    them. It takes turns with the calls.
    """
    program = program_of(workload, operands)
    calls[PLAN]()
    outs = workload.empty_outputs()
    all_calls = {**calls, "enqueue": bare(program, (*operands, *outs))}
    medians: dict[str, list[float]] = {name: [] for name in all_calls}
    for _ in range(ROUNDS):
        for name, call in all_calls.items():
            medians[name].append(statistics.median(batch(call, BATCH_SECONDS)))
    hot = {name: statistics.median(times) for name, times in medians.items()}
    asleep = {
        name: statistics.median(after_pauses(call, ASLEEP_SECONDS, 31))
        for name, call in all_calls.items()
    }
    enqueue = hot["enqueue"]
    return {
        "hot": hot,
        "asleep": asleep,
        "beyond_enqueue": {n: t - enqueue for n, t in hot.items() if n != "enqueue"},
        "queue": "worker threads" if _is_shared(program) else "calling thread",
    }


def _is_shared(program: Any) -> bool:
    """Whether several threads run a program's groups."""
    return not program.inline if isinstance(program, LLVMProgram) else program.waits


def program_of(workload: Contraction, operands: list[np.ndarray]) -> Any:
    """The program that a plan runs for a case."""
    import mdtensor

    (choice,) = mdtensor.compile(workload.subscripts, *operands).choices()
    return choice.program


def bare(program: Any, arrays: Sequence[np.ndarray]) -> Call:
    """A call that enqueues a program's kernels on some arrays, all arguments set, and waits."""
    if isinstance(program, LLVMProgram):
        return partial(program.launcher(), *arrays)  # which is the enqueue
    # The extension's own function: the Python wrapper around it is not the enqueue.
    enqueue: Any = importlib.import_module("pyopencl._cl").enqueue_nd_range_kernel
    queue, waits = program.queue, program.waits
    launches = program.prepared(program.kernels.made())  # nobody else has these kernels
    for kernel, *_ in launches:
        kernel._set_arg_buf_pack_multi(program.addresses(arrays))

    def call() -> None:
        for launch in launches:
            enqueue(queue, *launch)
        if waits:
            queue.finish()

    vars(call)["kept"] = program, arrays  # of which kernels know but addresses
    return call
