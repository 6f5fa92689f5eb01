"""The peers on a CUDA device: torch with what its compiler makes by Triton, CuPy, cupyx and XLA."""

from __future__ import annotations

import functools
import importlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.engines import Jax, Library, NumPy, SciPy, Torch
from bench.kernels.kernel import COMPILED, compiled_by_torch
from bench.workload import Arrays, Call, Workload
from bench.workloads import Contraction

TORCH, CUPY, CUPYX, JAX = "torch", "cupy", "cupyx", "jax"


class TorchOnCuda(Torch):
    """torch, and the same einsum by its compiler."""

    def contraction(
        self, workload: Contraction, operands: list[Any], out: Any
    ) -> Mapping[str, Call]:
        torch, text = self.torch, workload.subscripts
        a, b = (torch.from_dlpack(operand) for operand in operands)
        calls = dict(super().contraction(workload, operands, out))
        return calls | compiled_by_torch(functools.partial(torch.einsum, text), a, b)


class CuPy(NumPy):
    """CuPy's functions: NumPy's, less an einsum that writes into an array."""

    packages = ()

    def contraction(
        self, workload: Contraction, operands: list[Any], out: Any
    ) -> Mapping[str, Call]:
        cupy: Any = importlib.import_module("cupy")
        text, (a, b) = workload.subscripts, operands
        calls = dict(super().contraction(workload, operands, out))
        calls = {name: call for name, call in calls.items() if "einsum" not in name}
        return calls | {"einsum": lambda: cupy.einsum(text, a, b)}


class CuPyX(SciPy):
    """SciPy's functions on CuPy's arrays."""

    packages = ()


class JaxOnCuda(Jax):
    """Functions compiled by XLA; products are as exact as float32 is."""

    def __init__(self) -> None:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others need memory too
        super().__init__()
        jax: Any = importlib.import_module("jax")
        jax.config.update("jax_default_matmul_precision", "highest")
        jax.config.update("jax_enable_x64", True)


def peers() -> dict[str, Library]:
    """The libraries of this machine, by the names that results give them."""
    found: dict[str, Library] = {}
    for name, library in ((TORCH, TorchOnCuda), (CUPY, CuPy), (CUPYX, CuPyX), (JAX, JaxOnCuda)):
        try:
            found[name] = library()
        except ImportError:
            continue
    return found


def calls_of(
    library: Library, workload: Workload, operands: list[Any], outputs: Arrays, *, compiled: bool
) -> Mapping[str, Call]:
    """The ways in which a library says a case; none where its words do not fit a GPU."""
    if not isinstance(workload, Contraction) and library.word not in workload.words:
        return {}
    try:
        calls = library.calls(workload, operands, outputs)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return {}
    return {name: call for name, call in calls.items() if compiled or name != COMPILED}


# Seconds that a peer's compiler may take for one case: XLA's took more than two minutes of the
# float32 product of logarithms over 512³, of which it made one fusion.
COMPILING = 30.0


def call_in_time(call: Call, seconds: float) -> None:
    """Makes a call whose compiler may take very long; TimeoutError where it takes so many seconds.

    Nothing ends a compiler that runs in this process: then it goes on beside.
    """
    raised: list[BaseException] = []

    def compiled() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=compiled, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"not compiled within {seconds:g} s")
    if raised:
        raise raised[0]


# What the host's clock tells from an empty call: its own spread is some microseconds.
LEAST_SECONDS = 20e-6


class HostClock:
    """Seconds of calls of XLA, whose streams are its own: by the host's clock, less an empty call.

    Each call begins with the L2 cache read over, and ends when the host has heard that its result
    is there, as does the empty one.
    """

    def __init__(self, flush: Callable[[], None], wait: Callable[[], None]) -> None:
        jax: Any = importlib.import_module("jax")
        one = jax.numpy.zeros(1)
        nothing: Any = jax.jit(lambda x: x + 1)
        self._empty: Call = lambda: jax.block_until_ready(nothing(one))
        self._flush, self._wait = flush, wait

    def times(self, calls: Sequence[Call], rounds: int) -> list[list[float]]:
        """So many times of each, by turns."""
        found: list[list[float]] = [[] for _ in calls]
        empty: list[float] = []
        self._timed(self._empty)
        for _ in range(rounds):
            empty.append(self._timed(self._empty))
            for call, each in zip(calls, found, strict=True):
                each.append(self._timed(call))
        idle = statistics.median(empty)
        return [[max(1e-9, seconds - idle) for seconds in each] for each in found]

    def _timed(self, call: Call) -> float:
        self._flush()
        self._wait()
        before = time.perf_counter()
        call()
        return time.perf_counter() - before
