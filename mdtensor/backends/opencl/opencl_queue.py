"""An OpenCL device for user kernels; commands wait for given events."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from mdtensor.backends.opencl.opencl_device import open_device
from mdtensor.backends.opencl.opencl_runtime import bare_kernels, load_pyopencl
from mdtensor.backends.opencl.opencl_waits import drained_at_end, enqueuing, returning
from mdtensor.errors import CompileError, LaunchError, ShapeError

_NS = 1e-9


class OpenCLQueue:
    """A command queue of one device, out of order where the device supports that.

    Not for several threads at once. Sizes of launches are work-items, in all and in a group.
    """

    language = "opencl"

    def __init__(self, device: Any, name: str) -> None:
        self._cl: Any = load_pyopencl()
        cl = self._cl
        self.name = name
        self.family: object = self  # other devices have other contexts, which share nothing
        self._device = open_device(device)
        self._context: Any = self._device.context
        kinds = cl.command_queue_properties
        any_order = device.queue_properties & kinds.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self._queue: Any = cl.CommandQueue(
            self._context, properties=kinds.PROFILING_ENABLE | any_order
        )
        drained_at_end(cl, self._queue)
        self._alignment = max(1, device.mem_base_addr_align // 8)  # told in bits
        self._begin_s = self._clock_offset()

    def _clock_offset(self) -> float:
        """Seconds to add to device times for `perf_counter`'s clock."""
        found: list[float] = []
        for _ in range(3):
            marker = self._cl.enqueue_marker(self._queue)
            marker.wait()
            found.append(time.perf_counter() - marker.profile.end * _NS)
        return min(found)

    def compiled(self, text: str, name: str, options: Sequence[str]) -> Any:
        """Compile a kernel; CompileError has the log and numbered source."""
        owner = self._device.build(text, options=options)
        try:
            (kernel,) = bare_kernels(self._cl, owner.held, [name])
        except self._cl.Error as error:
            raise CompileError(f"the text has no kernel called {name!r}") from error
        kernel.owner = owner
        return kernel

    def empty(self, nbytes: int) -> Any:
        """Allocate device memory."""
        try:
            return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, max(1, nbytes))
        except self._cl.Error as error:
            raise self._refused(f"memory of {nbytes} bytes", error) from error

    def part(self, memory: Any, begin: int, nbytes: int) -> Any:
        """The kernel argument for a part of memory: a sub-buffer.

        Raises ShapeError where the device cannot begin a part there.
        """
        if begin == 0 and nbytes in (0, memory.size):
            return memory
        if begin % self._alignment:
            raise ShapeError(
                f"{self.name} has other parts of this buffer, {begin} bytes before this one, and"
                f" begins parts at multiples of {self._alignment} bytes",
                hint="such parts, a buffer for each part, or the whole buffer and an index",
            )
        return memory.get_sub_region(begin, nbytes)

    def put(self, memory: Any, begin: int, source: Any, after: Sequence[Any]) -> Any:
        """Enqueue a copy from host to device; the event keeps the host's memory alive."""
        return self._copied(memory, source, after, dst_offset=begin, is_blocking=False)

    def get(self, target: Any, memory: Any, begin: int, after: Sequence[Any]) -> Any:
        """Enqueue a copy from device to host; the event keeps the host's memory alive."""
        return self._copied(target, memory, after, src_offset=begin, is_blocking=False)

    def copy(
        self, target: Any, to: int, source: Any, begin: int, nbytes: int, after: Sequence[Any]
    ) -> Any:
        """Enqueue a copy within the device."""
        place = {"byte_count": nbytes, "src_offset": begin, "dst_offset": to}
        return self._copied(target, source, after, **place)

    def _copied(self, target: Any, source: Any, after: Sequence[Any], **place: Any) -> Any:
        copy = self._cl.enqueue_copy
        return self._enqueued(
            "a copy", lambda: copy(self._queue, target, source, wait_for=[*after], **place)
        )

    def launch(
        self,
        kernel: Any,
        whole: Sequence[int],
        group: Sequence[int] | None,
        arguments: Sequence[Any],
        after: Sequence[Any],
    ) -> Any:
        """Enqueue a kernel on buffers and NumPy scalars; LaunchError if it is refused."""
        if len(arguments) != kernel.num_args:
            raise LaunchError(
                f"the kernel takes {kernel.num_args} arguments, and got {len(arguments)}"
            )
        for position, argument in enumerate(arguments):
            try:
                kernel.set_arg(position, argument)
            except self._cl.Error as error:
                raise self._refused(f"argument {position}", error) from error
        launch, sizes = self._cl.enqueue_nd_range_kernel, (tuple(whole), group and tuple(group))
        return self._enqueued(
            "a launch", lambda: launch(self._queue, kernel, *sizes, wait_for=[*after])
        )

    def _enqueued(self, what: str, work: Callable[[], Any]) -> Any:
        def begun() -> Any:
            event = work()
            self._queue.flush()
            return event

        try:
            event = enqueuing(begun)()
        except self._cl.Error as error:
            raise self._refused(what, error) from error
        return event

    def _refused(self, what: str, error: Any) -> LaunchError:
        return LaunchError(
            f"{self.name} refused {what}: {self._cl.status_code.to_string(error.code)}"
        )

    def wait(self, event: Any) -> None:
        """Wait for a command; LaunchError if it failed."""
        try:
            returning(event.wait)()
        except self._cl.Error as error:
            raise LaunchError(f"a command of {self.name} failed: {error}") from error

    def finish(self) -> None:
        """Wait for all commands; LaunchError if the device is unusable."""
        try:
            returning(self._queue.finish)()
        except self._cl.Error as error:
            raise LaunchError(f"{self.name} failed: {error}") from error

    def is_done(self, event: Any) -> bool:
        """Whether a command has completed or failed."""
        return event.command_execution_status <= self._cl.command_execution_status.COMPLETE

    def times(self, event: Any) -> tuple[float, float]:
        """Begin and end of a completed command, in seconds on `perf_counter`'s clock."""
        told = event.profile
        return self._begin_s + told.start * _NS, self._begin_s + told.end * _NS
