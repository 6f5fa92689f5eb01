"""Hot calls: a built-in function checks known calls' arguments, allocates, and launches.

It serves calls that come to programs of the LLVM device, on arrays of NumPy and tensors of torch,
and to one of CUDA, on tensors of torch.
`python -m bench.small_calls` and `python -m bench.torch_calls` are what it is for.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.torch_tensors import exchange_of, maker_of, tensors_in
from mdtensor.api.calls.statistics import Tally
from mdtensor.dataclass import dataclass
from mdtensor.forks import keep_over_forks
from mdtensor.specs import TensorSpec

MISSED: Any = object()
"""The result of the built-in function for an unknown call."""

_VALUES = frozenset((str, int, bool, float, type(None), type))
_type_of: Any = type
_LONGEST = 8  # elements of tuples among arguments


@dataclass(frozen=True, slots=True)
class HotLaunch:
    """A launch without checks, into new arrays of `results` or into a given one.

    `run` is a built-in function of NumPy's arrays, or one of a CUDA stream and addresses; it takes
    the arrays of a call, or where `operands` begin: in an array with a number, at a byte. `make`
    makes NumPy's result, or a tuple of several, where that is not by `numpy.empty`. `numbers` are
    those of its launches, where somebody may wait for some.
    """

    run: Callable[..., Any]
    tally: Tally
    results: tuple[TensorSpec, ...] = ()
    make: Callable[[], Any] | None = None
    numbers: tuple[Any, ...] = ()
    operands: tuple[tuple[int, int], ...] | None = None


def reordered(hot: HotLaunch | None, order: Sequence[int]) -> HotLaunch | None:
    """The launch for calls whose operands are the arrays in `order`."""
    return begun_at(hot, [(n, 0) for n in order])


def begun_at(hot: HotLaunch | None, begins: Sequence[tuple[int, int]]) -> HotLaunch | None:
    """The launch for calls whose operands begin in the arrays with these numbers, at bytes."""
    if hot is None:
        return None
    every = hot.operands or [(n, 0) for n in range(len(begins))]
    moved = [(begins[n][0], begins[n][1] + byte) for n, byte in every]
    return replace(hot, operands=tuple(moved))


def uncounted(run: Any) -> tuple[Any, tuple[Any, ...]]:
    """A launch stripped of its counting wrappers, and their counters."""
    numbers: list[Any] = []
    while hasattr(run, "counted"):
        numbers.append(run.numbers)
        run = run.counted
    return run, tuple(numbers)


def runs_at_once(run: Any) -> bool:
    """Whether a launch is a built-in function of the LLVM backend."""
    return type(run) is BuiltinFunctionType and hasattr(run.__self__, "steps")


def hot_launch(
    run: Any, tally: Tally, results: tuple[TensorSpec, ...] = (), make: Any = None
) -> HotLaunch | None:
    """A launch for the built-in fast path; None where it needs Python."""
    run, order = getattr(run, "chosen", (run, None))
    native, numbers = uncounted(run)
    if (at := getattr(native, "at", None)) is None and not runs_at_once(native):
        return None
    is_empty = getattr(make, "func", None) is np.empty
    operands = None if order is None else tuple([(n, 0) for n in order])
    return HotLaunch(at or native, tally, results, None if is_empty else make, numbers, operands)


# That entries stay as long as the built-in functions find them.
_lock = threading.RLock()
keep_over_forks(_lock)


@dataclass(frozen=True, slots=True)
class _Known:
    """A known call: the kernels that serve it, its entry, its counter and what counts for it."""

    served_by: tuple[object, ...] | None
    entry: Any
    tally: Tally
    count: Callable[[], int]

    def end(self) -> None:
        """Adds the calls that were counted to those of the counter."""
        self.tally.elsewhere.remove(self.count)
        self.tally.calls += self.count()


class HotCalls:
    """The table of a function's known calls, served by the built-in function `call`.

    A copy knows none.
    """

    def __init__(self) -> None:
        self.call: Any = None
        self._guards: Any = None
        self._known: list[_Known] = []

    def __reduce__(self) -> tuple[type[HotCalls], tuple[()]]:
        return HotCalls, ()

    def __del__(self) -> None:
        if getattr(self, "_known", None):  # which statistics have; an interrupt may leave none
            self.clear()

    def add(
        self,
        args: Sequence[Any],
        options: Mapping[str, Any],
        launch: Any,
        generation: int,
        begins: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Adds a call and its launch, chosen in a generation, if the fast path can serve it.

        Operands are the arrays among the arguments, or begin in the arrays and at the bytes that
        `begins` has.
        """
        hot: HotLaunch | None = getattr(launch, "hot", None)
        if begins is not None:
            hot = begun_at(hot, begins)
        served_by = getattr(launch, "served_by", None)
        arguments, names = (*args, *options.values()), tuple(options)
        if hot is None:
            return
        tensors = tensors_in(arguments, depth=0) if invalidation.has_tensors else []
        exchanges: dict[Any, Any] = {
            type(each): exchange_of(each, _is_on_cuda(hot)) for each in tensors
        }
        if None in exchanges.values() or not all(
            type(each) in exchanges or _is_known_by_identity(each) for each in arguments
        ):
            return
        if _is_on_cuda(hot) and any(type(each) is np.ndarray for each in arguments):
            return
        out, results, make = -1, hot.results, hot.make
        if not results:
            if names[-1:] != ("out",):
                return
            out, results, make = len(arguments) - 1, (TensorSpec.of((), np.bool_),), None
        elif options.get("out") is not None:
            return
        elif tensors:
            if any(spec.axis_order is None for spec in results):
                return
            make = maker_of(results, tensors[0])
        elif len(results) > 1 and not all(spec.shape for spec in results):
            return  # numbers of NumPy's among arrays
        module = importlib.import_module("mdtensor.backends.llvm.guarded_calls")
        if not module.is_possible(len(results)):
            return
        waited = [numbers for numbers in hot.numbers if numbers.is_waited_for]
        more = {"left": min(numbers.last for numbers in waited)} if waited else {}
        call = module.GuardedCall(
            arguments,
            names,
            hot.run,
            results,
            out,
            make=make,
            exchanges=exchanges,
            operands=hot.operands,
            **more,
        )
        with _lock:
            entry = self._added(module, call, hot.tally, waited, served_by)
            if generation != invalidation.generation():
                self._keep([each for each in self._known if each.entry is not entry])

    def _added(
        self,
        module: Any,
        call: Any,
        tally: Tally,
        waited: Sequence[Any],
        served_by: tuple[object, ...] | None,
    ) -> Any:
        if self._guards is None:
            device = importlib.import_module("mdtensor.backends.llvm.llvm_device").open_device()
            self._guards = module.GuardedCalls(device.launches, invalidation.watchers, MISSED)
            self.call = self._guards.call
        entry = self._guards.add(call)
        count = functools.partial(module.counted_by, entry)
        tally.elsewhere.append(count)
        for numbers in waited:
            numbers.elsewhere.append(count)
        self._known.append(_Known(served_by, entry, tally, count))
        if len(self._known) > module.MOST:
            self._known.pop(0).end()
        return entry

    def drop(self, is_stale: invalidation.IsStale) -> None:
        """Drops the calls whose launches are out of date."""
        with _lock:
            self._keep([each for each in self._known if not is_stale(each.served_by)])

    def clear(self) -> None:
        """Drops all calls."""
        with _lock:
            self._keep([])

    def _keep(self, kept: list[_Known]) -> None:
        stay = set(map(id, kept))
        gone = [each for each in self._known if id(each) not in stay]
        if gone:
            self._guards.keep([each.entry for each in kept])
            self._known = kept
            for each in gone:
                each.end()


def _is_on_cuda(hot: HotLaunch) -> bool:
    return not runs_at_once(hot.run)


def _is_known_by_identity(argument: Any) -> bool:
    """Whether an argument is an array, or a value that is immutable while it lives."""
    kind = _type_of(argument)
    if kind is np.ndarray or kind in _VALUES:
        return True
    if kind is tuple:
        return len(argument) <= _LONGEST and all(type(each) in _VALUES for each in argument)
    return isinstance(argument, np.dtype) and argument.isbuiltin == 1
