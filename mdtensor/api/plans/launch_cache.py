"""The launch cache of a plan: its launches, and a copy of the plan per CUDA device."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from mdtensor.api.arrays import cupy_arrays, invalidation
from mdtensor.api.arrays.device_scope import at, device_of_call
from mdtensor.api.arrays.dlpack import cupy_for, is_on_gpu, shared
from mdtensor.api.arrays.torch_tensors import Taken
from mdtensor.api.calls.hot_calls import HotCalls
from mdtensor.api.calls.launchers import Launch
from mdtensor.api.engine import tuning_mode
from mdtensor.api.plans.signature import PlanArrays, orders_of
from mdtensor.errors import DTypeError
from mdtensor.translate.python.tuples import as_tuple

Array = Any
_type_of: Any = type
_MOST_MODES = 4  # for which a plan has copies


class PlanLaunches(ABC):
    """The cached launches of a plan, with copies of it for CUDA devices and tuning modes.

    What the plan does is said by `_first` and `_first_into`; a copy's launches are its own.
    """

    device: int | None = None
    # The mode of tuning in which this is called; others have copies.
    mode: Hashable = "cached"

    def __init__(self, takes: PlanArrays) -> None:
        self._takes = takes
        self.specs, self.results = takes.specs, takes.results
        # Copies for the CUDA devices on which this was called, by their numbers: each has launches.
        self._there: dict[int, PlanLaunches] = {}
        # Copies for the modes of tuning that keep launches of their own.
        self._modes: dict[Hashable, PlanLaunches] = {}
        self._orders: tuple[object, ...] = ()
        self._orders_with_out: tuple[object, ...] = ()
        self._launch: Launch | None = None
        self._launch_into: Callable[..., None] | None = None
        # What serves known calls, and the classes of arrays for which it was told of one.
        self._hot, self._guarded = HotCalls(), set[object]()

    @abstractmethod
    def _first(self, operands: Sequence[Array]) -> Any:
        """Call and build the launch that later calls repeat, if one can be built."""

    @abstractmethod
    def _first_into(self, operands: Sequence[Array], out: tuple[Array, ...]) -> None:
        """Call into the caller's arrays and build `_launch_into`, if one can be built."""

    def _run(self, operands: Sequence[Array], out: tuple[Array, ...]) -> Any:
        """Call with arrays already checked against the plan."""
        if not out:
            return self._first(operands) if self._launch is None else self._launch(*operands)
        if self._launch_into is None:
            return self._first_into(operands, out)
        return self._launch_into(*operands, *out)

    def _keep(self, generation: int, launch: Launch, into: Callable[..., None]) -> None:
        """Caches the launches, unless kernels have changed since `generation`."""
        invalidation.register(self)
        if generation == invalidation.generation():
            self._launch, self._launch_into = launch, into

    def _guard(self, operands: Sequence[Any], out: Any, given: Taken | None = None) -> None:
        """Registers the launch for the built-in fast path, for arrays with the plan's layouts.

        `given` has the arrays of tensors among them.
        """
        generation, here = invalidation.generation(), self
        if given is not None and given.on_cuda:
            here = self._there.get(cupy_arrays.current_device(), self)
        launch = here._launch if out is None else here._launch_into
        kinds = *map(_type_of, operands), _type_of(out)
        if launch is None or kinds in self._guarded or tuning_mode.apart() is not None:
            return
        self._guarded.add(kinds)
        invalidation.register(self)
        self._hot.add(operands, {} if out is None else {"out": out}, launch, generation)

    def drop(self, is_stale: invalidation.IsStale) -> None:
        """Drops launches that are out of date: the next call takes the best kernel known then."""
        if is_stale(getattr(self._launch, "served_by", None)):
            self._launch = self._launch_into = None
        self._hot.drop(is_stale)
        self._guarded.clear()

    def __getstate__(self) -> dict[str, Any]:
        # Launches are of this process; a copy makes its own.
        launches = "_launch", "_launch_into", "device"
        own: dict[str, Any] = {"_there": {}, "_modes": {}}
        own |= {"_hot": HotCalls(), "_guarded": set[object]()}
        return {**self.__dict__, **dict.fromkeys(launches), **own}

    def _in(self, mode: Hashable) -> Any:
        """The copy of the plan for a tuning mode; without launches if the mode sees each call."""
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
        """Whether a cached launch can take arrays that borrow the tensors' memory."""
        if not given.on_cuda:
            return True
        here = self._there.get(cupy_arrays.current_device())
        launch = "_launch" if given.options["out"] is None else "_launch_into"
        return here is not None and getattr(here, launch) is not None

    def _called_on_gpu(self, operands: Sequence[Any], out: Any) -> Any:
        """Call on GPU arrays: of the current device or another, of CuPy or another library.

        CuPy's arrays are in the memory of these.
        """
        here = self._there.get(cupy_arrays.current_device())
        if here is None or len(operands) != len(self.specs):
            return self._called_there(operands, out)
        launch, written = here._launch, () if out is None else as_tuple(out)
        given = _given_orders(operands if out is None else (*operands, *written))
        if out is None and launch is not None and given == here._orders:
            return launch(*operands)
        if out is not None and given == here._orders_with_out:
            here._run(operands, written)
            return out
        return self._called_there(operands, out)

    def _called_there(self, operands: Sequence[Any], out: Any) -> Any:
        """Call on the device of the arrays; DeviceError where they are on several."""
        written = () if out is None else as_tuple(out)
        device = device_of_call(operands, {"out": written})
        with at(device):
            arrays = [_taken(f"operand {n}", operand) for n, operand in enumerate(operands)]
            targets = tuple([_taken("out", target) for target in written])
            self._takes.check(arrays, None if out is None else targets)
            result = self._on(cupy_arrays.current_device())._run(arrays, targets)
        return result if out is None else out

    def _on(self, device: int) -> PlanLaunches:
        """The copy of the plan for a CUDA device, which caches its own launches."""
        found = self._there.get(device)
        if found is None:
            found = copy.copy(self)
            found.device = device
            found._orders = orders_of(self.specs, device)
            found._orders_with_out = (*found._orders, *orders_of(self.results, device))
            found = self._there.setdefault(device, found)
        return found


def _given_orders(arrays: Sequence[Any]) -> tuple[object, ...]:
    """The layout key of CuPy arrays, as `orders_of` has it; () where an array is not CuPy's."""
    order = cupy_arrays.library().order_of
    given: list[object] = []
    try:
        for x in arrays:
            given += x.shape, order(x) or x.strides, x.dtype, x.data.device_id
    except AttributeError:
        return ()
    return tuple(given)


def _taken(name: str, given: Any) -> Array:
    """A GPU array as CuPy's, without a copy; raises DTypeError for a NumPy array."""
    if is_on_gpu(given):
        return shared(name, given, cupy_for(given))
    if hasattr(given, "strides"):
        raise DTypeError(
            f"{name} is {type(given).__name__}, and other arrays are on a GPU",
            hint="copy with cupy.asarray(…) or .get() first",
        )
    return given
