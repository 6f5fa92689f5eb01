"""`replacing`: mdtensor's functions installed in place of NumPy's or opt_einsum's."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import Any, Literal, Self, get_args

import numpy as np

from mdtensor.api.arrays import cupy_arrays
from mdtensor.api.arrays.jax_arrays import is_jax_array
from mdtensor.api.arrays.torch_tensors import is_tensor
from mdtensor.api.calls import statistics
from mdtensor.api.frontends.correlation import convolve, correlate
from mdtensor.api.frontends.einsum.einsum import einsum
from mdtensor.api.frontends.einsum.products import dot, inner, matmul, outer, vdot
from mdtensor.api.frontends.einsum.tensordot import tensordot
from mdtensor.dataclass import dataclass
from mdtensor.errors import ArgumentError, DTypeError, PathError, ShapeError, SubscriptError
from mdtensor.options import one_of
from mdtensor.originals import original

Library = Literal["numpy", "opt_einsum"]

# A call that raises one of these is the library's: it computes after all, or says what is wrong.
_REFUSALS = (ArgumentError, DTypeError, PathError, ShapeError, SubscriptError)
_REFUSED = "arguments that mdtensor refuses"
_NOT_TAKEN = "arguments that are left to NumPy"
_type_of: Any = type
_PLAIN = frozenset((bool, int, float, complex, str, bytes, list, tuple, type(None)))
# The integers of C that have another name of the same size, which results of mdtensor have then.
_SECOND_NAMES = frozenset(c for c in "ilqILQ" if np.dtype(np.dtype(c).name).char != c)


def _is_plain(argument: Any) -> bool:
    """Whether mdtensor handles an argument as NumPy does, with results of the same type."""
    kind = _type_of(argument)
    if kind is np.ndarray:
        return argument.dtype.char not in _SECOND_NAMES
    return kind in _PLAIN or kind is cupy_arrays.array_class or isinstance(argument, np.generic)


def _axes(args: tuple[Any, ...], options: Mapping[str, Any]) -> list[int]:
    """The numbers of axes of the first two arguments."""
    return [np.ndim(operand) for operand in [*args, *options.values()][:2]]


def _are_convolved_by_numpy(*args: Any, **options: Any) -> bool:
    """Whether both operands are at most 1-D: for others, mdtensor follows scipy."""
    return all(count < 2 for count in _axes(args, options))


def _have_one_axis(*args: Any, **options: Any) -> bool:
    return _axes(args, options) == [1, 1]


def _are_two(*args: Any, **_: Any) -> bool:
    """Whether a product of `numpy.linalg` has exactly two positional arguments."""
    return len(args) == 2


def _have_elements(*args: Any, **options: Any) -> bool:
    """Whether no operand is an empty list: NumPy gives that the other operand's type."""
    several = [*args, *options.values()][:2]
    return all(_type_of(each) not in (list, tuple) or np.size(each) for each in several)


def _always(*_: Any, **__: Any) -> bool:
    return True


def _is_torchs(argument: Any) -> bool:
    return _type_of(argument) in _PLAIN or is_tensor(argument)


def _is_jaxs(argument: Any) -> bool:
    return _type_of(argument) in _PLAIN or is_jax_array(argument)


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of mdtensor, and a predicate for the calls of a library's function that it takes.

    `reads` says which arguments it reads as the library does.
    """

    compute: Callable[..., Any]
    path: str
    options: frozenset[str]
    takes: Callable[..., bool] = _always
    reads: Callable[[Any], bool] = _is_plain


def _function(
    compute: Callable[..., Any], path: str, options: str = "", takes: Callable[..., bool] = _always
) -> _Function:
    return _Function(compute, path, frozenset(options.split()), takes)


_EINSUM = _function(einsum, "numpy.einsum", "out dtype order casting optimize")
_TENSORDOT = _function(tensordot, "numpy.tensordot", "a b axes")
_NUMPY = MappingProxyType(
    {
        "einsum": _EINSUM,
        "tensordot": _TENSORDOT,
        "dot": _function(dot, "numpy.dot", "a b out", _have_elements),
        "matmul": _function(matmul, "numpy.matmul", "out casting order dtype"),
        "inner": _function(inner, "numpy.inner", "", _have_elements),
        "vdot": _function(vdot, "numpy.vdot", "", _have_elements),
        "outer": _function(outer, "numpy.outer", "a b out"),
        "convolve": _function(convolve, "numpy.convolve", "a v mode", _are_convolved_by_numpy),
        "correlate": _function(correlate, "numpy.correlate", "a v mode", _have_one_axis),
    }
)
_LINALG = MappingProxyType(
    {
        "matmul": _function(matmul, "numpy.linalg.matmul"),
        "tensordot": _function(tensordot, "numpy.linalg.tensordot", "axes", _are_two),
        "outer": _function(outer, "numpy.linalg.outer", "", _have_one_axis),
    }
)

# Libraries whose arrays opt_einsum contracts as well, the modules of its functions for them, and
# what these read.
_OF_OPT_EINSUM = (
    ("torch", "opt_einsum.backends.torch", _is_torchs),
    ("jax", "jax.numpy", _is_jaxs),
)

# A table that holds a library's functions, and those of mdtensor by the keys there.
_Table = tuple[MutableMapping[Any, Any], Mapping[Any, _Function]]


def _tables(library: Library) -> list[_Table]:
    """The tables that hold a library's functions, with mdtensor's function for each key."""
    if library == "numpy":
        return [(np.__dict__, _NUMPY), (np.linalg.__dict__, _LINALG)]
    dispatch = importlib.import_module("opt_einsum.backends.dispatch")
    ours = {("einsum", "numpy"): _EINSUM, ("tensordot", "numpy"): _TENSORDOT}
    for backend, module, reads in _OF_OPT_EINSUM:
        for name, function in (("einsum", einsum), ("tensordot", tensordot)):
            if backend in sys.modules:
                dispatch.get_func(name, backend)  # which keeps it in the table
                taken = _function(function, f"{module}.{name}", "axes")
                ours[name, backend] = replace(taken, reads=reads)
    return [(dispatch._cached_funcs, ours)]


class Replacement:
    """A function of mdtensor installed in place of a library's own.

    It computes with arrays of NumPy and CuPy, numbers and lists, or with those of the library that
    opt_einsum has the function for. All other calls are the library's:
    those with other classes of arrays, which may answer themselves, with options that mdtensor's
    function lacks, and those that mdtensor refuses. Attributes are those of the library's
    function, which it equals. Where it was kept longer than it stands there, it is that function.
    """

    def __init__(self, own: Any, ours: _Function, places: _Places) -> None:
        functools.update_wrapper(self, own, updated=())
        self._own = own
        self._ours = ours
        self._places = places

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Calls mdtensor's function, or falls back to the library's own."""
        if not self._places.holders:
            return self._own(*args, **options)
        reason = _NOT_TAKEN
        if self._is_ours(args, options):
            with suppress(*_REFUSALS):
                return self._ours.compute(*args, **options)
            reason = _REFUSED
        statistics.count(statistics.NUMPY, np.dtype(object), reason)
        return self._own(*args, **options)

    def _is_ours(self, args: tuple[Any, ...], options: dict[str, Any]) -> bool:
        if not all(map(self._ours.reads, args)):
            return False
        if not options:
            return self._ours.takes is _always or self._ours.takes(*args)
        arrays = [options[name] for name in ("a", "b", "v", "out") if name in options]
        return (
            options.keys() <= self._ours.options
            and all(map(self._ours.reads, arrays))
            and self._ours.takes(*args, **options)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_own"], name)

    def __eq__(self, other: object) -> bool:
        return self is other or self._own == other

    def __hash__(self) -> int:
        return hash(self._own)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process has the library's function, until it replaces that itself.
        return original, (self._ours.path,)

    def __repr__(self) -> str:
        return f"<{self._ours.path} by mdtensor>"


class _Places:
    """The places of a library's functions, with a count of holders of the replacement."""

    def __init__(self, library: Library) -> None:
        self._library: Library = library
        self._lock = threading.RLock()
        self._replaced: list[tuple[MutableMapping[Any, Any], Any, Replacement, Any]] = []
        self.holders = 0

    def hold(self) -> None:
        """Installs mdtensor's functions in the library, unless they are installed."""
        with self._lock:
            if not self.holders:
                self._replaced = [
                    (table, key, Replacement(table[key], ours, self), table[key])
                    for table, functions in _tables(self._library)
                    for key, ours in functions.items()
                ]
                for table, key, replacement, _ in self._replaced:
                    table[key] = replacement
            self.holders += 1

    def release(self) -> None:
        """Restores the library's functions, once the last holder has released them."""
        with self._lock:
            self.holders -= 1
            if self.holders:
                return
            for table, key, replacement, own in self._replaced:
                if table.get(key) is replacement:  # else somebody put another one there since
                    table[key] = own
            self._replaced = []


_PLACES: Mapping[str, _Places] = {name: _Places(name) for name in get_args(Library)}


class replacing:  # noqa: N801
    """Replaces a library's functions by mdtensor's, in a `with` or from `start` to `stop`.

    `with replacing("numpy"):` replaces `einsum`, `tensordot`, `dot`, `matmul`, `inner`, `vdot`,
    `outer`, `convolve` and `correlate` in the module `numpy`, and `matmul`, `tensordot` and `outer`
    in `numpy.linalg`; `replacing("opt_einsum")` what opt_einsum contracts arrays with: NumPy's, and
    those of torch and JAX if these were imported before. Where a `with` does not fit, as in a
    notebook, `start()` and `stop()` do the same. Programs need no other change, but see these
    functions only as `np.dot`: a `from numpy import dot` that was executed before, the operator `@`
    and methods of arrays keep NumPy's.

    The places belong to the process: they hold mdtensor's functions for all threads until every
    `with` and every `start()` has ended, in any order. Then they hold the same objects as before.

    What mdtensor has no kernels for, NumPy's own functions compute: objects, strings, longdouble,
    subclasses of arrays, arrays that answer NumPy's functions themselves, `axes=` and other
    options of ufuncs; they raise NumPy's errors, too. `stats()` counts such calls.

    Raises ArgumentError (a TypeError) for another library.

    >>> import numpy as np
    >>> numpys = np.dot
    >>> with replacing("numpy"):
    ...     np.dot, np.dot([1.0, 2.0], [3.0, 4.0])
    (<numpy.dot by mdtensor>, np.float64(11.0))
    >>> np.dot is numpys
    True
    """

    __slots__ = ("_places", "_started")

    def __init__(self, library: Library) -> None:
        self._places = _PLACES[one_of("library", library, _PLACES, ArgumentError)]
        self._started = False

    def start(self) -> Self:
        """Installs the functions until `stop()`; no effect if started."""
        if not self._started:
            self._places.hold()
            self._started = True
        return self

    def stop(self) -> None:
        """Undoes `start()`; no effect if stopped."""
        if self._started:
            self._started = False
            self._places.release()

    def __enter__(self) -> Self:
        self._places.hold()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._places.release()
