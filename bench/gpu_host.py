"""What calls on CuPy arrays cost the host, and each part of one.

`python -m bench.gpu_host [--only PART] --out FILE` times, by turns in one process: ways to launch a
kernel that does nothing (CuPy's, the driver's by ctypes, graphs that are launched as they are or
handed other arguments), ways to make an array, what CuPy's arrays are asked, and whole calls of
mdtensor, torch and CuPy, and of mdtensor on torch's tensors. Nothing is waited for while the clock
runs: queues are emptied between batches.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cupy
import numpy as np

import mdtensor

Call = Callable[[], object]
Calls = dict[str, Call]

ROUNDS, BATCH = 21, 400
ASIDE = "; own stream"
TEXT, LEFT, RIGHT, RESULT = "ik,kj->ij", (10, 64), (64, 500), (10, 500)
NOTHING = 'extern "C" __global__ void nothing(const float* a, const float* b, float* c, void* s) {}'


_kept: list[Any] = []  # what launches have the addresses of


class Configuration(ctypes.Structure):
    """CUlaunchConfig of CUDA's driver."""

    _fields_ = (
        ("shape", ctypes.c_uint * 7),  # grid, block, bytes of dynamic shared memory
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


class Node(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS of the driver's interface since CUDA 12."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("shape", ctypes.c_uint * 7),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


def launches(arrays: tuple[Any, ...], aside: Any) -> Iterator[tuple[str, Call]]:
    """Ways to launch a kernel that does nothing, on the legacy stream and on another."""
    function = cupy.RawModule(code=NOTHING).get_function("nothing").kernel
    raw, four = cupy.RawKernel(NOTHING, "nothing"), (*arrays, arrays[0])
    grid, block = (1,), (32,)
    yield "RawKernel", lambda: raw(grid, block, four)
    yield "Function", lambda: function(grid, block, four)
    values = (ctypes.c_int64 * 4)(*[a.data.ptr for a in arrays], 0)
    places = (ctypes.c_void_p * 4)(*[ctypes.addressof(values) + 8 * n for n in range(4)])
    launch, address = cupy.cuda.driver.launchKernel, ctypes.addressof(places)
    _kept.extend((values, places))
    for suffix, stream in (("", 0), (ASIDE, aside.ptr)):
        given = (function.ptr, 1, 1, 1, 32, 1, 1, 0, stream, address, 0)
        yield f"driver.launchKernel{suffix}", lambda given=given: launch(*given)
        for name, call in by_ctypes(function, stream, places, values):
            yield name + suffix, call


def by_ctypes(function: Any, stream: int, places: Any, values: Any) -> Iterator[tuple[str, Call]]:
    """The same by the driver's own functions, with all that can be prepared prepared."""
    void, byref, number = ctypes.c_void_p, ctypes.byref, ctypes.c_uint
    nothing, pointer, addresses = void(0), void(function.ptr), byref(places)
    shape = tuple(map(number, (1, 1, 1, 32, 1, 1, 0)))
    prepared = (pointer, *shape, void(stream), addresses, nothing)
    one = Configuration((number * 7)(1, 1, 1, 32, 1, 1, 0), stream, None, 0)
    length = ctypes.c_size_t(ctypes.sizeof(values))
    extra = (void * 5)(1, ctypes.addressof(values), 2, ctypes.addressof(length), 0)
    _kept.extend((one, length, extra))
    at_once = (byref(one), pointer, addresses, nothing)
    packed = (byref(one), pointer, nothing, byref(extra))
    for name, library in (("PyDLL", ctypes.PyDLL), ("CDLL", ctypes.CDLL)):
        driver = library("libcuda.so.1")
        plain, extended = driver.cuLaunchKernel, driver.cuLaunchKernelEx
        yield f"cuLaunchKernel, {name}", lambda plain=plain: plain(*prepared)
        yield f"cuLaunchKernelEx, {name}", lambda of=extended: of(*at_once)
    extended = ctypes.PyDLL("libcuda.so.1").cuLaunchKernelEx
    assert extended(*packed) == 0
    yield "cuLaunchKernelEx, arguments packed", lambda: extended(*packed)
    yield from by_graphs(prepared, places)


def by_graphs(prepared: tuple[Any, ...], places: Any) -> Iterator[tuple[str, Call]]:
    """Graphs of one launch: as they are, and handed arguments before."""
    driver, void, byref = ctypes.PyDLL("libcuda.so.1"), ctypes.c_void_p, ctypes.byref
    aside = cupy.cuda.Stream(non_blocking=True)
    with aside:
        aside.begin_capture()
        driver.cuLaunchKernel(*prepared[:8], void(aside.ptr), *prepared[9:])
        graph = aside.end_capture()
    count, nodes, own = ctypes.c_size_t(1), (void * 1)(), Node()
    assert driver.cuGraphGetNodes(void(graph.graph), nodes, byref(count)) == 0
    assert driver.cuGraphKernelNodeGetParams_v2(void(nodes[0]), byref(own)) == 0
    own.arguments, own.extra = ctypes.addressof(places), None
    stream, executable = prepared[8].value or 0, graph.graphExec
    _kept.extend((graph, own))
    handed = (void(executable), void(nodes[0]), byref(own))
    hand, launch = driver.cuGraphExecKernelNodeSetParams_v2, driver.cuGraphLaunch
    again, both = cupy.cuda.runtime.graphLaunch, (void(executable), void(stream))
    assert hand(*handed) == 0
    assert launch(*both) == 0
    yield "graph, CuPy", lambda: again(executable, stream)
    yield "graph, PyDLL", lambda: launch(*both)
    yield "arguments of a graph", lambda: hand(*handed)
    yield "arguments, graph, CuPy", lambda: (hand(*handed), again(executable, stream))
    yield "arguments, graph, PyDLL", lambda: (hand(*handed), launch(*both))


def parts(a: Any) -> Calls:
    """What a call asks CuPy, and ways to make its result."""
    made, single = cupy.ndarray, a.dtype
    anew, filled = made.__mro__[1].__new__, made.__mro__[1]._init
    stream, device, alloc = (
        cupy.cuda.get_current_stream,
        cupy.cuda.runtime.getDevice,
        cupy.cuda.alloc,
    )
    pool = cupy.get_default_memory_pool().malloc
    memory = cupy.cuda.alloc(20_000)

    def inside() -> Any:
        array = anew(made)
        filled(array, RESULT, single)
        return array

    def around() -> Any:
        array = anew(made)
        filled(array, RESULT, single, memory)
        return array

    return {
        "a function": lambda: None,
        "shape": lambda: a.shape,
        "strides": lambda: a.strides,
        "dtype": lambda: a.dtype,
        "data.ptr": lambda: a.data.ptr,
        "current stream": lambda: stream().ptr,
        "current device": device,
        "hash of a key": lambda: hash((TEXT, LEFT, (256, 4), single, RIGHT, (2000, 4), single, 0)),
        "cupy.empty": lambda: cupy.empty(RESULT, "f4"),
        "cupy.ndarray": lambda: made(RESULT, single),
        "ndarray._init": inside,
        "ndarray._init, memory given": around,
        "alloc": lambda: alloc(20_000),
        "pool.malloc": lambda: pool(20_000),
    }


def ours(text: str, a: Any, b: Any, outs: tuple[Any, Any]) -> Calls:
    """Whole calls of mdtensor's."""
    plan, einsum = mdtensor.compile(text, a, b), mdtensor.einsum
    other = mdtensor.compile(text, a, b)

    def alternating() -> None:
        other(a, b, out=outs[0])
        other(a, b, out=outs[1])

    return {
        "plan, out": lambda: plan(a, b, out=outs[0]),
        "plan, two outs (two calls)": alternating,
        "plan": lambda: plan(a, b),
        "einsum": lambda: einsum(text, a, b),
        "einsum, out": lambda: einsum(text, a, b, out=outs[0]),
    }


def peers(a: Any, b: Any, out: Any) -> Calls:
    """Whole calls of CuPy's and, where it is installed, torch's."""
    found: Calls = {
        "cupy.matmul": lambda: cupy.matmul(a, b),
        "cupy.matmul, out": lambda: cupy.matmul(a, b, out=out),
        "cupy.einsum": lambda: cupy.einsum(TEXT, a, b),
    }
    try:
        import torch
    except ImportError:
        return found
    x, y, z = map(torch.from_dlpack, (a, b, out))
    return {
        **found,
        "torch.mm": lambda: torch.mm(x, y),
        "torch.mm, out": lambda: torch.mm(x, y, out=z),
    }


def tensors(a: Any, b: Any, out: Any) -> Calls:
    """Calls of mdtensor on torch's tensors in the memory of CuPy's arrays, where torch is."""
    try:
        import torch
    except ImportError:
        return {}
    left, right, result = map(torch.from_dlpack, (a, b, out))
    plan = mdtensor.compile(TEXT, left, right)
    image = torch.ones((1, 16, 16, 8), device="cuda")
    taps = torch.ones((8, 3, 3, 8), device="cuda")
    conv = mdtensor.compile(mdtensor.conv, image, taps)
    return {
        "einsum, torch's tensors": lambda: mdtensor.einsum(TEXT, left, right),
        "einsum, out, torch's tensors": lambda: mdtensor.einsum(TEXT, left, right, out=result),
        "reduce, torch's tensors": lambda: mdtensor.reduce("ij->i", left, combine="max"),
        "plan, torch's tensors": lambda: plan(left, right),
        "plan, out, torch's tensors": lambda: plan(left, right, out=result),
        "conv, torch's tensors": lambda: mdtensor.conv(image, taps),
        "plan of conv, torch's tensors": lambda: conv(image, taps),
    }


def timed(calls: Calls, aside: Any) -> dict[str, list[float]]:
    """Seconds of a call in each round, by turns; those of other streams on that one."""
    wait, clock = cupy.cuda.runtime.deviceSynchronize, time.perf_counter
    found: dict[str, list[float]] = {name: [] for name in calls}
    gc.disable()
    for turn in range(1 + ROUNDS):
        for name, call in calls.items():
            with aside if name.endswith(ASIDE) else contextlib.nullcontext():
                call()
                wait()
                before = clock()
                for _ in range(BATCH):
                    call()
                if turn:  # the first one warms up
                    found[name].append((clock() - before) / BATCH)
            wait()
    gc.enable()
    return found


def host() -> Iterator[str]:
    """The processor, its clock, and the versions of what runs on it."""
    yield f"{time.strftime('%Y-%m-%d')} Python {platform.python_version()}"
    try:
        facts = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:
        facts = []
    yield from (line for line in facts if line.startswith(("model name", "cpu MHz")))
    yield f"CuPy {cupy.__version__} NumPy {np.__version__}"
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    yield f"{properties['name'].decode()} driver {cupy.cuda.runtime.driverGetVersion()}"
    torch = sys.modules.get("torch")
    if torch is not None:
        yield f"torch {torch.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="a part of the names of calls: torch's tensors")
    options = parser.parse_args()
    out: Path | None = options.out
    lines: list[str] = []

    def tell(line: str) -> None:
        print(line, flush=True)
        lines.append(line)
        if out is not None:
            out.write_text("\n".join(lines) + "\n", encoding="utf-8")

    a, b = cupy.ones(LEFT, "f4"), cupy.ones(RIGHT, "f4")
    outs = cupy.empty(RESULT, "f4"), cupy.empty(RESULT, "f4")
    aside = cupy.cuda.Stream(non_blocking=True)
    calls = {**parts(a), **dict(launches((a, b, outs[0]), aside))}
    calls |= ours(TEXT, a, b, outs) | peers(a, b, outs[0])
    calls |= {f"{name}{ASIDE}": call for name, call in ours(TEXT, a, b, outs).items()}
    calls |= tensors(a, b, outs[0])
    found = timed({name: calls[name] for name in calls if options.only in name}, aside)
    for line in host():
        tell(line)
    tell(f"nanoseconds of the host, {ROUNDS} batches of {BATCH} calls by turns: median, least")
    for name, seconds in found.items():
        median, least = statistics.median(seconds), min(seconds)
        tell(f"{name:48s} {median * 1e9:8.0f} {least * 1e9:8.0f}")


if __name__ == "__main__":
    main()
