"""The launch cache of a plan: launches that its calls share, and a copy of it per CUDA device."""

from __future__ import annotations

import copy
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.device_scope import at, device_of, device_of_call
from mdtensor.api.arrays.dlpack import cupy_for, is_on_gpu, shared
from mdtensor.api.arrays.torch_tensors import Taken
from mdtensor.api.calls import statistics
from mdtensor.api.calls.launchers import Launch, telling
from mdtensor.api.engine import tuning_mode
from mdtensor.api.engine.kernel_choice import Choice
from mdtensor.api.plans.signature import PlanArrays, orders_of
from mdtensor.errors import DTypeError
from mdtensor.translate.python.tuples import as_tuple

Array = Any
_type_of: Any = type
_MOST_MODES = 4  # for which a plan has copies


class PlanLaunches(ABC):
    """The launches of a plan, which its first calls make, and its copies for CUDA devices.

    What the plan does is said by `_first` and `_first_into`; a copy's launches are its own.
    """

    device: int | None = None
    # The mode of tuning in which this is called; others have copies.
    mode: Hashable = "cached"

    def __init__(self, takes: PlanArrays, tally: statistics.Tally) -> None:
        self._takes = takes
        self.specs, self.results = takes.specs, takes.results
        self._tally = tally
        # Copies for the CUDA devices on which this was called, by their numbers: each has launches.
        self._there: dict[int, PlanLaunches] = {}
        # Copies for the modes of tuning that keep launches of their own.
        self._modes: dict[Hashable, PlanLaunches] = {}
        self._orders: tuple[object, ...] = ()
        self._orders_with_out: tuple[object, ...] = ()
        self._launch: Launch | None = None
        self._launch_into: Callable[..., None] | None = None
        self._launch_checking: Callable[..., None] | None = None

    @abstractmethod
    def _first(self, operands: Sequence[Array]) -> Any:
        """A call for which `_launch` must be made first, or that cannot have one."""

    @abstractmethod
    def _first_into(self, operands: Sequence[Array], out: tuple[Array, ...]) -> None:
        """The same for `_launch_into`, into arrays of the caller's."""

    def _run(self, operands: Sequence[Array], out: tuple[Array, ...]) -> Any:
        """A call on arrays that were compared with the plan's."""
        if not out:
            return self._first(operands) if self._launch is None else self._launch(*operands)
        if self._launch_into is None:
            return self._first_into(operands, out)
        self._launch_into(*operands, *out)
        self._tally.calls += 1
        return None

    def _keep(
        self,
        generation: int,
        launch: Launch | None = None,
        into: Callable[..., None] | None = None,
    ) -> None:
        """Keeps a launch that was chosen in a generation, as long as there is no later one."""
        invalidation.when_cleared(self)
        if generation == invalidation.generation():
            self._launch = launch or self._launch
            self._launch_into = into or self._launch_into

    def _keep_program(self, generation: int, choice: Choice, arrays: str) -> Callable[..., None]:
        """Keeps what runs one program into an array of the caller's.

        Layouts of CuPy's arrays are compared only where one is new: that takes as long as a launch.
        """
        if arrays == "numpy":
            checking = choice.program.remembering_launcher(self._takes.check_out)
            into = telling(checking, (choice,))
            self._keep(generation, into=into)
            return into
        if invalidation.cupy_array is None:
            invalidation.knows_cupy(importlib.import_module("cupy"))
        into = telling(choice.program.remembering_launcher(self._check_all), (choice,))
        self._keep(generation, into=into)
        self._launch_checking = self._launch_into
        return into

    def forget(self) -> None:
        """Drops the launches, so that the next call takes the best kernel known then."""
        self._launch = self._launch_into = self._launch_checking = None

    def __getstate__(self) -> dict[str, Any]:
        # Launches are of this process; a copy makes its own.
        launches = "_launch", "_launch_into", "_launch_checking", "device"
        return {**self.__dict__, **dict.fromkeys(launches), "_there": {}, "_modes": {}}

    def _in(self, mode: Hashable) -> Any:
        """The plan for calls in another mode of tuning: without launches where each is seen."""
        if mode == self.mode:
            return self
        found = self._modes.get(mode)
        if found is None:
            found = copy.copy(self)
            found.mode = mode
            if not tuning_mode.is_watching():
                if len(self._modes) >= _MOST_MODES:
                    self._modes.clear()
                self._modes[mode] = found
        return found

    def _launches(self, given: Taken) -> bool:
        """Whether arrays for tensors may be launched on, which need not own their memory then."""
        if not given.on_cuda:
            return True
        here = self._there.get(invalidation.current_device())
        launch = "_launch" if given.options["out"] is None else "_launch_into"
        return here is not None and getattr(here, launch) is not None

    def _called_on_gpu(self, operands: Sequence[Any], out: Any) -> Any:
        """A call on arrays of the current device or another one, or with other libraries' tensors.

        CuPy's arrays are in the memory of these.
        """
        here = self._there.get(invalidation.current_device())
        if here is None or len(operands) != len(self.specs):
            return self._called_there(operands, out)
        into, launch = here._launch_checking, here._launch
        if out is None and launch is not None:
            order = invalidation.order_of
            given: list[object] = []
            try:
                for x in operands:
                    given += x.shape, order(x) or x.strides, x.dtype, x.data.device_id
            except AttributeError:
                return self._called_there(operands, out)
            if tuple(given) == here._orders:
                return launch(*operands)
        elif into is not None and type(out) is invalidation.cupy_array:
            try:
                into(*operands, out)
            except ElsewhereError:
                return self._called_there(operands, out)
            here._tally.calls += 1
            return out
        elif here._fits(operands, written := as_tuple(out)):
            here._run(operands, written)
            return out
        return self._called_there(operands, out)

    def _called_there(self, operands: Sequence[Any], out: Any) -> Any:
        """The same, on the device where the arrays are; DeviceError where they are on several."""
        written = () if out is None else as_tuple(out)
        device = device_of_call(operands, {"out": written})
        with at(device):
            arrays = [_taken(f"operand {n}", operand) for n, operand in enumerate(operands)]
            targets = tuple([_taken("out", target) for target in written])
            self._takes.check(arrays, None if out is None else targets)
            result = self._on(invalidation.current_device())._run(arrays, targets)
        return result if out is None else out

    def _on(self, device: int) -> PlanLaunches:
        """The plan for arrays of a CUDA device, which keeps launches of its own."""
        found = self._there.get(device)
        if found is None:
            found = copy.copy(self)
            found.device = device
            found._orders = orders_of(self.specs, device)
            found._orders_with_out = (*found._orders, *orders_of(self.results, device))
            found = self._there.setdefault(device, found)
        return found

    def _fits(self, operands: Sequence[Any], out: Sequence[Any]) -> bool:
        """Whether these are CuPy's arrays on the device of this plan, and like its own."""
        order = invalidation.order_of
        try:
            given = [
                field
                for x in (*operands, *out)
                for field in (x.shape, order(x) or x.strides, x.dtype, x.data.device_id)
            ]
        except AttributeError:
            return False
        return tuple(given) == self._orders_with_out

    def _check_all(self, *arrays: Array) -> None:
        """Whether the last of CuPy's arrays may be written by a call on the others.

        Raises ElsewhereError where that is for another device's plan to say.
        """
        if not self._fits(arrays[:-1], arrays[-1:]):
            kinds = {(_type_of(array), device_of(array)) for array in arrays}
            if kinds != {(invalidation.cupy_array, self.device)}:
                raise ElsewhereError
            self._takes.check(arrays[:-1], arrays[-1:])
        self._takes.check_out(*arrays)


class ElsewhereError(Exception):
    """The arrays are on another device than the plan."""


def _taken(name: str, given: Any) -> Array:
    """CuPy's array for one on a GPU; raises DTypeError for one of NumPy's."""
    if is_on_gpu(given):
        return shared(name, given, cupy_for(given))
    if hasattr(given, "strides"):
        raise DTypeError(
            f"{name} is {type(given).__name__}, and other arrays are on a GPU",
            hint="copy with cupy.asarray(…) or .get() first",
        )
    return given
