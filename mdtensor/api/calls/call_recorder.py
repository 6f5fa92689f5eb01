"""Call recording: the computation of a call, and a launch that repeats it on other arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays import cupy_arrays
from mdtensor.api.calls.hot_calls import reordered
from mdtensor.api.calls.launchers import telling
from mdtensor.dataclass import dataclass

Array = Any
Launch = Callable[..., Any]

REFUSED: Any = object()
"""The result of a launch that may not run on its arrays."""
OUT: Any = object()
"""The result that stands for the tuple of arrays that the caller gave as `out`."""

_MOST_BYTES = 4096  # of arrays that count by their content
_WRITEABLE, _OWNED_AND_WRITEABLE = 0x400, 0x404  # bits of `flags.num`
_ndarray = np.ndarray
_may_share_memory = np.may_share_memory


@dataclass(frozen=True, slots=True)
class RecordedComputation:
    """A computation that a call has run: its operands, its targets and its result.

    `new` takes arrays like the operands and makes the results, `into` takes these arrays and then
    those for the results. `constants` are operands behind these, which follow from the arguments
    that are no operands. `served_by` is what `stage_timer.ran` is told of later calls.
    """

    new: Callable[..., Any]
    into: Callable[..., object]
    operands: Sequence[Any]
    targets: Sequence[Array]
    result: Any
    constants: tuple[Array, ...] = ()
    served_by: tuple[object, ...] = ()


def launch_of(
    noted: RecordedComputation,
    given: Sequence[Any],
    returned: Any,
    out: Any,
    *,
    by_layout: bool = False,
) -> tuple[Launch, tuple[int, ...]] | None:
    """A launch that repeats a recorded call, and the indices of arrays that it depends on.

    These are those that the call was given and did not hand to kernels: they count by what they
    contain, but where calls look at layouts alone. None where the call did more than run kernels,
    or where these are large.
    """
    numbers = {id(array): number for number, array in enumerate(given)}
    reads = [numbers.get(id(operand)) for operand in noted.operands]
    writes = [numbers.get(id(target)) for target in noted.targets]
    order = [n for n in reads if n is not None]
    targets = [n for n in writes if n is not None]
    if len(order) < len(reads) or len(targets) < len(writes) or set(order) & set(targets):
        return None
    launch = telling(_direct(noted, given, order, targets, returned, out), noted.served_by)
    others = tuple(sorted({*range(len(given))}.difference(order, targets)))
    if by_layout:
        others = ()
    if launch is None or (others and not _is_small([given[n] for n in others])):
        return None
    return launch, others


def _direct(
    noted: RecordedComputation,
    given: Sequence[Any],
    order: Sequence[int],
    targets: Sequence[int],
    returned: Any,
    out: Any,
) -> Launch | None:
    """A launch on arguments in their given order; None where none repeats the call."""
    scalars = frozenset(n for n in order if _is_scalar(given[n]))
    if scalars and any(type(array) is cupy_arrays.array_class for array in given):
        return None
    if targets:
        return _into_given(noted, given, order, targets, scalars, returned, out)
    if returned is not noted.result and not _same_parts(returned, noted.result):
        return None
    new, constants = noted.new, noted.constants
    if list(order) == list(range(len(given))) and not constants and not scalars:
        return new

    def launch(*arrays: Array) -> Any:
        return new(*_operands(arrays, order, scalars), *constants)

    if not constants and not scalars:
        launch.hot = reordered(getattr(new, "hot", None), order)  # pyright: ignore
    return launch


def _into_given(
    noted: RecordedComputation,
    given: Sequence[Any],
    order: Sequence[int],
    targets: Sequence[int],
    scalars: Collection[int],
    returned: Any,
    out: Any,
) -> Launch | None:
    """A launch that writes the caller's own arrays and returns them; None where none can."""
    gives = next((n for n in targets if returned is given[n]), None)
    if gives is None and returned is not None and returned is not out:
        return None
    answer = None if returned is None else OUT
    into, constants = noted.into, noted.constants
    last = len(given) - 1
    is_typical = (*order, *targets) == (*range(last + 1),) and not constants and not scalars
    is_typical = is_typical and len(targets) == 1 and gives is not None
    if is_typical and type(out) is cupy_arrays.array_class:
        may_share_memory = cupy_arrays.library().may_share_memory

        def launch_into_on_device(*arrays: Array) -> Any:
            target = arrays[last]
            for array in arrays[:last]:
                if may_share_memory(target, array):
                    return REFUSED
            into(*arrays)
            return target

        launch_into_on_device.hot = getattr(into, "hot", None)  # pyright: ignore
        return launch_into_on_device

    if is_typical and type(out) is _ndarray:

        def launch_into(*arrays: Array) -> Any:
            # Most calls; what follows does the same.
            target = arrays[last]
            owns = target.flags.num & _OWNED_AND_WRITEABLE
            if not owns & _WRITEABLE:
                return REFUSED
            for array in arrays[:last]:
                # Arrays that are no part of another one have memory of their own.
                is_apart = owns == _OWNED_AND_WRITEABLE and array.base is None
                if (not is_apart or array is target) and _may_share_memory(target, array):
                    return REFUSED
            into(*arrays)
            return target

        launch_into.hot = getattr(into, "hot", None)  # pyright: ignore
        return launch_into

    def launch(*arrays: Array) -> Any:
        for n in targets:
            others = (array for m, array in enumerate(arrays) if m != n)
            if not _is_writeable(arrays[n]) or not all(_is_free(arrays[n], o) for o in others):
                return REFUSED
        into(*_operands(arrays, order, scalars), *constants, *[arrays[n] for n in targets])
        return answer if gives is None else arrays[gives]

    return launch


def _operands(arrays: Sequence[Any], order: Sequence[int], scalars: Collection[int]) -> list[Array]:
    if not scalars:
        return [arrays[n] for n in order]
    return [np.asarray(arrays[n]) if n in scalars else arrays[n] for n in order]


def _is_scalar(value: Any) -> bool:
    """Whether an argument is a number that is passed to kernels at run time."""
    return isinstance(value, np.generic | float | complex)


def _same_parts(returned: Any, result: Any) -> bool:
    """Whether a tuple is returned that holds exactly the results."""
    return (
        type(returned) is tuple is type(result)
        and len(returned) == len(result)
        and all(a is b for a, b in zip(returned, result, strict=True))
    )


def _is_writeable(array: Array) -> bool:
    return bool(getattr(array.flags, "writeable", True))  # CuPy has no such flag


def _is_free(target: Array, array: Any) -> bool:
    """Whether a written array shares no memory with another argument."""
    if _is_scalar(array):
        return True
    if type(target) is cupy_arrays.array_class:
        return not cupy_arrays.library().may_share_memory(target, array)
    return not _may_share_memory(target, array)


class ByContent:
    """A cache entry for calls that depend on the contents of some arrays, such as weights.

    The launches are in the cache as well: contents are parts of their keys, behind this object in
    the place of what the caller wrote.
    """

    served_by: tuple[object, ...] = ()  # each of these has its own

    def __init__(self, known: Mapping[tuple[object, ...], Launch], positions: tuple[int, ...]):
        self.positions = positions
        self._known_get = known.get

    def __call__(self, *arrays: Any) -> Any:
        """Runs the launch cached for the arrays' contents; REFUSED where there is none."""
        launch = self._known_get(self.key(arrays))
        return REFUSED if launch is None else launch(*arrays)

    def launch_for(self, arrays: Sequence[Any]) -> Launch | None:
        """The launch cached for the arrays' contents; None where there is none."""
        return self._known_get(self.key(arrays))

    def key(self, arrays: Sequence[Any]) -> tuple[object, ...]:
        """The cache key of the launch for arrays with these contents."""
        return self, *[_content(arrays[n]) for n in self.positions]


def _content(array: Any) -> object:
    return array.tobytes() if hasattr(array, "tobytes") else repr(array)


def _is_small(apart: Sequence[Any]) -> bool:
    """Whether arrays are small enough for their contents to be cache keys."""
    if any(type(array) is cupy_arrays.array_class for array in apart):
        return False
    if any(getattr(array, "dtype", np.dtype("?")).hasobject for array in apart):
        return False
    return sum(getattr(array, "nbytes", 0) for array in apart) <= _MOST_BYTES
