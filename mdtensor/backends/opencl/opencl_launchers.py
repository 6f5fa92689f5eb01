"""Functions that launch one kernel on arrays' addresses: most of what a small call takes.

All that can be looked up before is, and those for two and three arrays are spelt out.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.backends.opencl.opencl_kernels import Launchable

_WRITEABLE = 0x400  # a bit of `flags.num`


def launcher_of(program: Launchable, *, waits: bool) -> Callable[..., None]:
    """A launcher that sets all arguments; it waits for the results, or only begins the work."""
    local, svm, enqueue = program.local, program.device.cl.SVM, program.device.enqueue
    queue, finish = program.queue, program.finish

    def launch(*arrays: np.ndarray) -> None:
        try:
            ((kernel, groups, threads),) = local.launches
        except AttributeError:
            ((kernel, groups, threads),) = program.launches()
        kernel._set_arg_buf_pack_multi(program.addresses(arrays))
        try:
            enqueue(queue, kernel, groups, threads)
        finally:  # also where an interrupt comes: the kernel has the arrays' memory
            if waits:
                finish()

    def launch_of_three(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> None:
        # Most kernels; spelt out, since this is most of a small call.
        try:
            ((kernel, groups, threads),) = local.launches
        except AttributeError:
            ((kernel, groups, threads),) = program.launches()
        try:
            a, b, c = svm(first).svm_ptr, svm(second).svm_ptr, svm(third).svm_ptr
            addresses = (0, b"L", a, 1, b"L", b, 2, b"L", c)
        except ValueError:
            addresses = program.addresses((first, second, third))
        kernel._set_arg_buf_pack_multi(addresses)
        try:
            enqueue(queue, kernel, groups, threads)
        finally:  # also where an interrupt comes: the kernel has the arrays' memory
            if waits:
                finish()

    def launch_of_two(first: np.ndarray, second: np.ndarray) -> None:
        try:
            ((kernel, groups, threads),) = local.launches
        except AttributeError:
            ((kernel, groups, threads),) = program.launches()
        try:
            a, b = svm(first).svm_ptr, svm(second).svm_ptr
            addresses = (0, b"L", a, 1, b"L", b)
        except ValueError:
            addresses = program.addresses((first, second))
        kernel._set_arg_buf_pack_multi(addresses)
        try:
            enqueue(queue, kernel, groups, threads)
        finally:  # also where an interrupt comes: the kernel has the arrays' memory
            if waits:
                finish()

    spelt_out = {2: launch_of_two, 3: launch_of_three}
    return spelt_out.get(program.kernels.arrays, launch)


def _nothing() -> np.ndarray | None:
    """The value of a weak reference to no array."""
    return None


def remembering_launcher_of(program: Launchable, check: Callable[..., None]) -> Callable[..., None]:
    """A launcher that sets arguments only where arrays are others than before.

    `check` is called with them then, and where the last one, the result, may not be written by now.
    The kernels of the program belong to this launcher alone.
    """
    local, enqueue = program.local, program.device.enqueue
    queue, finish, waits = program.queue, program.finish, program.waits
    nothing = [_nothing] * program.kernels.arrays

    def with_arguments(*arrays: np.ndarray) -> tuple[Any, ...]:
        """The state of this thread once the arrays are its kernel's arguments."""
        check(*arrays)
        state = getattr(local, "state", None)
        launch = state[:3] if state else program.prepared(program.kernels.made())[0]
        local.state = (*launch, *nothing)
        launch[0]._set_arg_buf_pack_multi(program.addresses(arrays))
        local.state = (*launch, *map(weakref.ref, arrays))
        return local.state

    def launch(*arrays: np.ndarray) -> None:
        state: tuple[Any, ...] = getattr(local, "state", (None, None, None, *nothing))
        kernel, groups, threads, *known = state
        is_known = all(one() is array for one, array in zip(known, arrays, strict=True))
        if not (is_known and arrays[-1].flags.num & _WRITEABLE):
            kernel, groups, threads, *_ = with_arguments(*arrays)
        try:
            enqueue(queue, kernel, groups, threads)
        finally:  # also where an interrupt comes: the kernel has the arrays' memory
            if waits:
                finish()

    def launch_of_three(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> None:
        # Most kernels; spelt out, since this is most of a small call.
        try:
            kernel, groups, threads, one, two, three = local.state
        except AttributeError:
            kernel, groups, threads, one, two, three = with_arguments(first, second, third)
        is_known = one() is first and two() is second and three() is third
        if not (is_known and third.flags.num & _WRITEABLE):
            with_arguments(first, second, third)
        try:
            enqueue(queue, kernel, groups, threads)
        finally:  # also where an interrupt comes: the kernel has the arrays' memory
            if waits:
                finish()

    return launch_of_three if len(nothing) == 3 else launch
