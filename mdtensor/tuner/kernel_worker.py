"""The worker of a kernel cost: compile, launch, check and time the kernel."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from mdtensor.autotune.trial import Trial
from mdtensor.backends.cuda.cupy_device import load_cupy
from mdtensor.backends.opencl import opencl_device
from mdtensor.backends.opencl.opencl_runtime import load_pyopencl
from mdtensor.errors import TuningError
from mdtensor.tuner.costs import invalid

_DETAIL = 4000  # characters of what a compiler says
# What OpenCL says of a launch that a device cannot do: it is a fact about the configuration.
_REFUSALS = (
    "INVALID_WORK_GROUP_SIZE",
    "INVALID_WORK_ITEM_SIZE",
    "INVALID_WORK_DIMENSION",
    "INVALID_GLOBAL_WORK_SIZE",
    "OUT_OF_RESOURCES",
    "MEM_OBJECT_ALLOCATION_FAILURE",
    "OUT_OF_HOST_MEMORY",
)

Launch = Callable[[Sequence[int], "Sequence[int] | None"], float]


class _Runner(Protocol):
    """A device that holds a kernel's arguments."""

    def compiled(self, source: str, name: str, options: Sequence[str]) -> Launch | Trial:
        """Compile a kernel: a function that launches it on fresh arguments, timed in seconds."""
        ...

    def read(self, position: int) -> np.ndarray:
        """Copy an array argument back after a launch."""
        ...


class RefusedError(Exception):
    """A device refuses a launch, for its sizes or resources."""


def handler(payload: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """The worker's handler, which serves the configurations of one kernel."""
    arguments = [_loaded(*each) for each in payload["arguments"]]
    expected = {position: _loaded(*each) for position, each in payload["expected"]}
    make = {"opencl": OpenCLRunner, "cuda": CudaRunner}[payload["language"]]
    runner: _Runner = make(arguments, payload["device"])
    tolerance, repeats = payload["tolerance"], payload["repeats"]

    def serve(request: Mapping[str, Any]) -> dict[str, Any]:
        defines = [f"-D{name}={value}" for name, value in request["defines"].items()]
        launch = runner.compiled(
            payload["source"], payload["name"], [*payload["options"], *defines]
        )
        if isinstance(launch, Trial):
            return asdict(launch)
        sizes = request["first"], request["second"]
        try:
            launch(*sizes)
            for position, right in expected.items():
                if wrong := _difference(runner.read(position), right, tolerance):
                    return asdict(invalid(f"argument {position}: {wrong}", "wrong"))
            seconds = [launch(*sizes) for _ in range(max(1, repeats))]
        except RefusedError as error:
            return asdict(invalid(str(error)))
        return asdict(Trial("ok", min(seconds), max(seconds) - min(seconds)))

    return serve


def _loaded(kind: str, path: str) -> Any:
    array = np.load(path)
    return array if kind == "array" else array[()]


def _difference(got: np.ndarray, right: np.ndarray, tolerance: float) -> str:
    """A description of a result's errors; empty where it is within the tolerance."""
    if right.dtype.kind not in "fc" and got.dtype.kind not in "fc":
        count = int((got != right).sum())
        return f"{count} of {right.size} elements are wrong" if count else ""
    wide = np.result_type(right, np.float64)
    error = np.abs(got.astype(wide) - right.astype(wide))
    allowed = tolerance * float(np.abs(right).max())
    count = int((~(error <= allowed)).sum())
    if not count:
        return ""
    return f"{count} of {right.size} elements are off by up to {error.max():.3g}"


class OpenCLRunner:
    """A runner on an OpenCL device."""

    def __init__(self, arguments: Sequence[Any], device: str) -> None:
        self._cl: Any = load_pyopencl()
        named = [found for name, found in opencl_device.devices() if device.lower() in name.lower()]
        if not named:
            names = ", ".join(name for name, _ in opencl_device.devices())
            raise TuningError(f"no OpenCL device is called {device!r}", hint=f"there are: {names}")
        cl = self._cl
        self._context: Any = cl.Context([named[0]])
        properties = cl.command_queue_properties.PROFILING_ENABLE
        self._queue: Any = cl.CommandQueue(self._context, properties=properties)
        self._arguments = arguments
        self._arrays = {n: each for n, each in enumerate(arguments) if np.ndim(each)}
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self._first, self._buffers = (
            {n: cl.Buffer(self._context, flags, hostbuf=each) for n, each in self._arrays.items()}
            for _ in range(2)
        )

    def compiled(self, source: str, name: str, options: Sequence[str]) -> Launch | Trial:
        """Compile a kernel: a function that launches it on fresh arguments, timed in seconds."""
        cl = self._cl
        try:
            program = cl.Program(self._context, source).build(options=[*options])
        except cl.RuntimeError as error:
            return invalid(str(error)[:_DETAIL], "compile_error")
        kernel = cl.Kernel(program, name)
        values = [self._buffers.get(n, each) for n, each in enumerate(self._arguments)]
        kernel.set_args(*values)

        def launch(whole: Sequence[int], group: Sequence[int] | None) -> float:
            for n, buffer in self._buffers.items():
                cl.enqueue_copy(self._queue, buffer, self._first[n])
            self._queue.finish()
            try:
                event = cl.enqueue_nd_range_kernel(self._queue, kernel, whole, group)
                event.wait()
            except cl.Error as error:
                if cl.status_code.to_string(error.code) in _REFUSALS:
                    raise RefusedError(str(error)) from error
                raise
            return (event.profile.end - event.profile.start) * 1e-9

        return launch

    def read(self, position: int) -> np.ndarray:
        """Copy an array argument back after a launch."""
        found = np.empty_like(self._arrays[position])
        self._cl.enqueue_copy(self._queue, found, self._buffers[position])
        return found


class CudaRunner:
    """A runner on a CUDA device, by CuPy."""

    def __init__(self, arguments: Sequence[Any], device: str) -> None:
        self._cupy: Any = load_cupy()
        self._cupy.cuda.Device(int(device)).use()
        self._first = [self._cupy.asarray(each) if np.ndim(each) else each for each in arguments]
        self._values = [each.copy() if np.ndim(each) else each for each in self._first]

    def compiled(self, source: str, name: str, options: Sequence[str]) -> Launch | Trial:
        """Compile a kernel: a function that launches it on fresh arguments, timed in seconds."""
        cupy = self._cupy
        try:
            module = cupy.RawModule(code=source, options=(*options,))
            kernel = module.get_function(name)
        except cupy.cuda.compiler.CompileException as error:
            return invalid(str(error)[:_DETAIL], "compile_error")
        events = cupy.cuda.Event(), cupy.cuda.Event()

        def launch(grid: Sequence[int], block: Sequence[int] | None) -> float:
            for value, first in zip(self._values, self._first, strict=True):
                if np.ndim(first):
                    value[...] = first
            events[0].record()
            try:
                kernel(tuple(grid), tuple(block or (1,)), tuple(self._values))
            except cupy.cuda.driver.CUDADriverError as error:
                raise RefusedError(str(error)) from error
            events[1].record()
            try:
                events[1].synchronize()
            except cupy.cuda.runtime.CUDARuntimeError as error:
                # Nothing can be computed any more in a process whose kernel went astray.
                print(error, file=sys.stderr, flush=True)
                os._exit(1)
            return cupy.cuda.get_elapsed_time(*events) * 1e-3

        return launch

    def read(self, position: int) -> np.ndarray:
        """Copy an array argument back after a launch."""
        return self._cupy.asnumpy(self._values[position])
