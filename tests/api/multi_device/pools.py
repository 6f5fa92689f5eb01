"""A second device for machines that have one: the processor again, with a pool of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import mdtensor as mdt
from mdtensor.api.arrays.operands import allocate, as_computed, spec_of
from mdtensor.api.calls.executable import as_converted
from mdtensor.api.calls.program_calls import Request
from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.multi_device.device_list import DeviceList
from mdtensor.api.multi_device.shares import Shares
from mdtensor.api.multi_device.spread_call import runner_of
from mdtensor.api.parts.placeholders import Placeholders, planned_by
from mdtensor.backends.llvm.llvm_device import LLVMDevice
from mdtensor.backends.select import UsableDevice
from mdtensor.translate.md_hom_program import Program

POOL = "Pool: threads"


@functools.cache
def second_engine() -> Engine:
    """The engine of the second device."""
    return Engine(LLVMDevice(), registry.store)


def found() -> list[UsableDevice]:
    """The second device, as it is found."""
    return [UsableDevice(POOL, "numpy", LLVMDevice, "pool")]


def computation_of(call: Callable[..., Any], arrays: Sequence[Any]) -> tuple[Program, list[Any]]:
    """The computation that a call would run, and its operands."""
    seen: list[tuple[Program, list[Any]]] = []
    places = Placeholders()

    def plan(request: Request) -> Any:
        seen.append((request.program, list(request.operands)))
        results = tuple(map(places.of, request.program.results))
        return results[0] if len(results) == 1 else results

    planned_by(plan, call, *arrays)
    [(planned, operands)] = seen
    arrays = as_computed(operands, np)
    return planned, as_converted(arrays, planned.converted)


def by_each_dim(
    call: Callable[..., Any], arrays: Sequence[Any], devices: Any = ("llvm", "pool")
) -> Iterator[tuple[str, tuple[Shares, ...], tuple[np.ndarray, ...]]]:
    """The results of a call that is cut along one dim after the other, and its shares."""
    planned, operands = computation_of(call, arrays)
    names = dict.fromkeys(dim.name for step in planned.steps for dim in step.md_hom.dims)
    listed = DeviceList.of(devices)
    for name in names:
        results = [allocate(spec, np) for spec in planned.results]
        for result, fill in zip(results, planned.fills, strict=False):
            if fill is not None:
                result[...] = fill
        threads = runner_of(planned, [spec_of(a) for a in (*operands, *results)], listed, name)
        if all(share.dim is None for share in threads.programs.tasks.shares):
            continue
        threads([*operands, *results])
        yield name, threads.programs.tasks.shares, tuple(results)


def named(count: int) -> list[str]:
    """The names of the first devices."""
    return mdt.devices()[:count]
