"""Hot calls: a built-in function checks the arguments of known calls, makes the result, launches.

It serves calls on NumPy's arrays that come to one kernel of the LLVM device without memory of its
own, and whose result is small. `python -m bench.small_calls` is what it is for.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from mdtensor.api.arrays import invalidation
from mdtensor.api.calls.statistics import Tally
from mdtensor.dataclass import dataclass
from mdtensor.forks import keep_over_forks
from mdtensor.specs import TensorSpec

MISSED: Any = object()
"""What the built-in function gives for a call that it does not know."""

_VALUES = frozenset((str, int, bool, float, type(None), type))
_type_of: Any = type
_LONGEST = 8  # elements of tuples among arguments


@dataclass(frozen=True, slots=True)
class HotLaunch:
    """A launch by a built-in function, into a new array of a `result` or into one that is given.

    `numbers` are those of its launches, where somebody may wait for one.
    """

    run: BuiltinFunctionType
    tally: Tally
    result: TensorSpec | None = None
    numbers: Any = None


def hot_launch(
    run: Any, tally: Tally, result: TensorSpec | None = None, make: Any = None
) -> HotLaunch | None:
    """A launch as a hot one; None where Python has a part in it, or makes the result."""
    if make is not None and not (type(make) is functools.partial and make.func is np.empty):
        return None
    native = getattr(run, "counted", run)
    if type(native) is not BuiltinFunctionType or not hasattr(native.__self__, "keeps"):
        return None
    return HotLaunch(native, tally, result, getattr(run, "numbers", None))


class HotCalls:
    """The known calls of a front end; `call` is the built-in function, once there is one."""

    def __init__(self) -> None:
        self._guards: Any = None
        self._counts: deque[tuple[Tally, Callable[[], int]]] = deque()
        self._lock = (
            threading.RLock()
        )  # that entries stay as long as the built-in function finds them
        keep_over_forks(self._lock)

    def add(
        self, args: Sequence[Any], options: Mapping[str, Any], launch: Any, generation: int
    ) -> Any:
        """Adds a call that a launch repeats, chosen in a generation; gives the built-in function.

        None where there is none.
        """
        hot: HotLaunch | None = getattr(launch, "hot", None)
        if hot is None or not all(map(_is_known_by_identity, (*args, *options.values()))):
            return None
        given = list(options)
        arrays = [type(each) is np.ndarray for each in (*args, *options.values())]
        out, spec = -1, hot.result
        if spec is None:
            if given[-1:] != ["out"]:
                return None
            out, spec = len(arrays) - 1, TensorSpec.of((), np.bool_)
        elif "out" in options and options["out"] is not None:
            return None
        with self._lock:
            return self._added(args, options, hot, spec, out, generation)

    def _added(
        self,
        args: Sequence[Any],
        options: Mapping[str, Any],
        hot: HotLaunch,
        spec: TensorSpec,
        out: int,
        generation: int,
    ) -> Any:
        module = importlib.import_module("mdtensor.backends.llvm.guarded_calls")
        if self._guards is None:
            if not module.is_possible():
                return None
            *_, native = hot.run.__self__.keeps  # pyright: ignore
            self._guards = module.GuardedCalls(native, invalidation.watchers, MISSED)
            invalidation.tables.append(self)
        numbers: Any = hot.numbers
        waits = bool(numbers) and numbers.is_waited_for
        left = {"left": numbers.last} if waits else {}
        arguments = (*args, *options.values())
        call = module.GuardedCall(arguments, tuple(options), hot.run, spec, out, **left)
        count = functools.partial(module.counted_by, self._guards.add(call))
        hot.tally.elsewhere.append(count)
        if waits:
            numbers.elsewhere.append(count)
        self._counts.append((hot.tally, count))
        if len(self._counts) > module.MOST:
            self._drop_oldest()
        if generation != invalidation.generation():
            self.clear()
        return self._guards.call

    def clear(self) -> None:
        """Forgets the calls; better kernels may exist."""
        with self._lock:
            if self._guards is not None:
                self._guards.clear()
            while self._counts:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        tally, count = self._counts.popleft()
        tally.elsewhere.remove(count)
        tally.calls += count()


def _is_known_by_identity(argument: Any) -> bool:
    """Whether an argument is an array, or one that is the same value as long as it is there."""
    kind = _type_of(argument)
    if kind is np.ndarray or kind in _VALUES:
        return True
    if kind is tuple:
        return len(argument) <= _LONGEST and all(type(each) in _VALUES for each in argument)
    return isinstance(argument, np.dtype) and argument.isbuiltin == 1
