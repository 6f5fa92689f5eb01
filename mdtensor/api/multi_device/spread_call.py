"""`devices=`: calls in parts over several devices of the host."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdtensor.api.arrays import cupy_arrays
from mdtensor.api.arrays.memory_overlap import is_apart
from mdtensor.api.arrays.operands import (
    Array,
    allocate,
    array_module,
    as_computed,
    as_output,
    spec_of,
)
from mdtensor.api.arrays.results import as_returned, begin_with, check_out
from mdtensor.api.arrays.unaligned_arrays import addressable, copy_into
from mdtensor.api.calls import call_cache, statistics
from mdtensor.api.calls.executable import as_converted
from mdtensor.api.calls.program_calls import planner
from mdtensor.api.multi_device.device_list import DeviceList
from mdtensor.api.multi_device.device_streams import DeviceStreams
from mdtensor.api.multi_device.device_tasks import tasks_of
from mdtensor.api.multi_device.device_threads import DeviceThreads
from mdtensor.api.multi_device.shares import Shares, shares_of, whole_on
from mdtensor.api.multi_device.task_programs import TaskPrograms
from mdtensor.api.multi_device.tasks import Tasks
from mdtensor.api.parts.linked_calls import only, planned
from mdtensor.bounded import Bounded
from mdtensor.errors import ArgumentError, DeviceError, TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.stage_timer import stage
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.python.tuples import as_tuple

if TYPE_CHECKING:
    from mdtensor.backends.cuda.peer_streams import PeerStreams

Runner = DeviceThreads | DeviceStreams
# A step that has so many times fewer points than the largest one is not cut.
_SMALL = 32
_MOST = 256  # spread computations that are kept
# By computation, layouts and devices; the computation is kept, so that its number stays its own.
_spread = Bounded[Hashable, "tuple[Program, Runner]"](_MOST)


def spread(
    function: Callable[..., Any], args: Sequence[Any], devices: Any, options: Mapping[str, Any]
) -> Any:
    """Run a front end's call in parts on several devices, and return its results.

    Raises DeviceError for devices that make no sense together, ArgumentError and TranslationError
    for calls that are not spread, and what a part raises with the name of its device.
    """
    if options.get("memory_limit") is not None:
        raise ArgumentError(
            "devices= and memory_limit= in one call",
            hint="devices share the memory of the host: leave one of them out",
        )
    if planner.get() is not None:
        raise TranslationError(
            "devices= is neither for Dask arrays nor for calls inside of a plan",
            hint="mdtensor.compile(…, devices=…) plans a call over devices; Dask has workers",
        )
    given = as_tuple(options.get("out")) if options.get("out") is not None else ()
    named = {name: value for name, value in options.items() if name not in ("out", "memory_limit")}
    xp = array_module((*args, *given))
    chosen = DeviceList.of(devices, "numpy" if xp is np else "cupy")
    call_cache.in_full()
    request = only(*planned(function, *args, **named))
    if request is None:
        raise TranslationError(
            "this call is more than kernels on its operands, and not spread over devices",
            hint="leave devices= out, or convert operands to types that kernels compute with",
        )
    results = computed(request.program, as_computed(request.operands, xp), given, chosen, xp)
    return options["out"] if given else as_returned(results)


def computed(
    program: Program,
    operands: Sequence[Array],
    given: Sequence[Array],
    devices: DeviceList,
    xp: Any,
) -> list[Array]:
    """Compute a program on several devices, into new arrays or the given ones.

    Raises ShapeError and DTypeError for a given array that does not fit, and DeviceError for arrays
    that the devices do not compute.
    """
    kind = "numpy" if xp is np else "cupy"
    if devices.arrays != kind:
        raise DeviceError(
            f"devices for {devices.arrays} arrays were named, and these are {kind} arrays",
            notes=[f"named: {name}" for name in devices.names],
            hint="a plan is for the devices of the arrays that it was made with",
        )
    targets = [as_output("out", target, xp) for target in given]
    if targets:
        check_out(targets, program.results)
    arrays = as_converted(list(operands), program.converted)
    results = [
        targets[n] if n < len(targets) and _holds(targets[n], spec, arrays, xp) else None
        for n, spec in enumerate(program.results)
    ]
    made = [
        allocate(spec, xp) if result is None else result
        for spec, result in zip(program.results, results, strict=True)
    ]
    begin_with(program.fills, made)
    if program.steps:
        run = runner_for(program, tuple(map(spec_of, (*arrays, *made))), devices)
        run([*arrays, *made])
    for target, result in zip(targets, made, strict=False):
        if target is not result:
            copy_into(target, result, xp)
    statistics.tally(statistics.GENERATED, program.results[0].dtype).calls += 1
    return made


def runner_for(program: Program, specs: tuple[TensorSpec, ...], devices: DeviceList) -> Runner:
    """The memoised runner of a computation on arrays of given specs, operands then results."""
    here = cupy_arrays.current_device() if devices.arrays == "cupy" else None

    def made() -> tuple[Program, Runner]:
        with stage("lower"):
            return program, runner_of(program, specs, devices)

    return _spread.made((id(program), specs, devices, here), made)[1]


def runner_of(
    program: Program,
    specs: Sequence[TensorSpec],
    devices: DeviceList,
    along: str | None = None,
) -> Runner:
    """A runner of a computation on arrays of given specs: a function of operands and results.

    Where the dim to be cut `along` is said, steps without it are computed as a whole. Else those
    are that have little to do, as the borders of a stencil.
    """
    numbers, home = devices.places()
    streams = None if home is None else peer_streams()
    most = max((step.md_hom.points for step in program.steps), default=0)
    shares: list[Shares] = []
    for step in program.steps:
        md_hom = step.md_hom
        if 0 in md_hom.extents.values():
            shares.append(whole_on((1.0,)))
        elif along is None and md_hom.points * _SMALL < most:
            shares.append(whole_on(devices.rates(md_hom), home))
        else:
            link = None
            if streams is not None and home is not None and along is None:
                link = devices.link(md_hom, numbers, home, streams)
            shares.append(shares_of(md_hom, devices.rates(md_hom), along, home, link))
    return runner_on(devices, tasks_of(program, specs, shares, home), streams)


def runner_on(devices: DeviceList, tasks: Tasks, streams: PeerStreams | None) -> Runner:
    """A runner of tasks on devices: by CUDA streams for GPUs, else by threads."""
    programs = TaskPrograms(tasks, devices.names, devices.engines())
    numbers, home = devices.places()
    if streams is None or home is None:
        return DeviceThreads(programs)
    return DeviceStreams(programs, numbers, home, streams)


def peer_streams() -> PeerStreams:
    """The streams of all CUDA devices, by a backend that is imported on demand."""
    from mdtensor.backends.cuda.peer_streams import PeerStreams

    return PeerStreams()


def _holds(target: Array, spec: TensorSpec, operands: Sequence[Array], xp: Any) -> bool:
    """Whether kernels of several devices can write a result directly to the target."""
    fits = target.dtype == spec.dtype and addressable(target)
    return fits and is_apart(target, operands, xp)
