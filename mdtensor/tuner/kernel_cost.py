"""User kernels as cost functions: compiled per configuration, checked and timed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from mdtensor.autotune.space.space import Configuration
from mdtensor.autotune.trial import Trial
from mdtensor.autotune.worker.worker import Worker
from mdtensor.closing import Closing
from mdtensor.errors import TuningError
from mdtensor.lower.schedule.parameter import arguments_read
from mdtensor.tuner.isolated_cost import trial_by

Array: TypeAlias = "np.ndarray[Any, Any]"
# A number of work-items, or a function of the parameters that its arguments' names say.
Extent: TypeAlias = "int | Callable[..., Any]"
Extents: TypeAlias = "Extent | Sequence[Extent]"
# Arrays by position among the arguments, or a function of the arguments that returns them.
Expected: TypeAlias = "Mapping[int, Any] | Callable[..., Mapping[int, Any]]"

_SCALARS = {bool: np.int32, int: np.int32, float: np.float32}


def random_array(shape: int | Sequence[int], dtype: Any = "float32", *, seed: int = 0) -> Array:
    """Random test data: floats in [0, 1), or integers below 100.

    >>> random_array(3, "int32").dtype, random_array((2, 3)).shape
    (dtype('int32'), (2, 3))
    """
    chance = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return chance.integers(0, 100, shape).astype(dtype)
    return chance.random(shape).astype(dtype)


class _Kernel(Closing):
    """Base class of kernel costs: the arguments, and the worker process that runs the kernel."""

    language = ""

    def __init__(
        self,
        source: str,
        name: str,
        arguments: Sequence[Any],
        launch: tuple[Extents, Extents | None],
        *,
        expected: Expected | None,
        tolerance: float,
        options: Sequence[str],
        device: str,
        repeats: int,
        timeout_s: float,
    ) -> None:
        self._launch = launch
        self._timeout_s = timeout_s
        values = [_argument(position, each) for position, each in enumerate(arguments)]
        given = expected(*arguments) if callable(expected) else expected or {}
        reference = {n: _expected(n, values, np.asarray(value)) for n, value in given.items()}
        self._folder = tempfile.TemporaryDirectory(prefix="mdtensor-kernel-")
        payload = {
            "language": self.language,
            "source": source,
            "name": name,
            "arguments": [self._saved(f"argument{n}", value) for n, value in enumerate(values)],
            "expected": [[n, self._saved(f"expected{n}", value)] for n, value in reference.items()],
            "tolerance": tolerance,
            "options": [*options],
            "device": device,
            "repeats": repeats,
        }
        self._worker = Worker("mdtensor.tuner.kernel_worker:handler", payload)

    def _saved(self, name: str, value: Array) -> list[str]:
        """Save an array for the worker; its kind, "array" or "scalar", and its path."""
        path = Path(self._folder.name) / f"{name}.npy"
        np.save(path, value)
        return ["array" if value.ndim else "scalar", str(path)]

    def __call__(self, configuration: Configuration) -> Trial:
        """The trial of a configuration: seconds of one launch, or a failure."""
        first, second = self._launch
        request = {
            "defines": {name: _defined(value) for name, value in configuration.items()},
            "first": _extents(first, configuration),
            "second": None if second is None else _extents(second, configuration),
        }
        return trial_by(self._worker, request, self._timeout_s)

    def close(self) -> None:
        """Ends the worker, and removes the saved arrays."""
        self._worker.close()
        self._folder.cleanup()


class OpenCLKernel(_Kernel):
    """A cost function that times an OpenCL kernel by profiling events.

    The values of a configuration are macros in the source. `arguments` are arrays and scalars in
    the kernel's order: Python's int and float are int and float there, NumPy's have their types;
    `random_array` makes data. `global_size` and `local_size` are numbers, functions of the
    parameters that their arguments' names say, or lists of these for several dims.

    Each configuration computes on fresh copies of the arrays. What it computes is compared with
    what is `expected`: arrays by their position among the arguments, or a function of the
    arguments that returns these. It is wrong where an element is further off than `tolerance`
    times the largest one expected; integers have to be equal. The cost is the least of as many
    launches as `repeats` says.

    The kernel runs in a process of its own: one that crashes, or takes longer than `timeout_s`
    with compiler and check, is invalid. `device` is a part of a device's name; without one, it
    is the one that mdtensor would take. `options` are for the compiler.

    >>> from mdtensor.tuner import Parameter, Space, divides, random_array, search
    >>> source = '''
    ... kernel void scaled(float a, global float* x) {
    ...     for (int n = 0; n < WPT; ++n) x[get_global_id(0) * WPT + n] *= a;
    ... }'''
    >>> x = random_array(4096)
    >>> space = Space([Parameter("WPT", range(1, 5), divides(4096))])
    >>> with OpenCLKernel(source, "scaled", [2.0, x], global_size=lambda WPT: 4096 // WPT,
    ...                   expected={1: 2 * x}) as cost:
    ...     found = search(space, cost)
    >>> [each.trial.status for each in found.trials]
    ['ok', 'ok', 'ok']

    Raises `TuningError` for arguments that a kernel cannot have.
    """

    language = "opencl"

    def __init__(
        self,
        source: str,
        name: str,
        arguments: Sequence[Any],
        *,
        global_size: Extents,
        local_size: Extents | None = None,
        expected: Expected | None = None,
        tolerance: float = 1e-4,
        options: Sequence[str] = (),
        device: str = "",
        repeats: int = 5,
        timeout_s: float = 60.0,
    ) -> None:
        super().__init__(
            source,
            name,
            arguments,
            (global_size, local_size),
            expected=expected,
            tolerance=tolerance,
            options=options,
            device=device,
            repeats=repeats,
            timeout_s=timeout_s,
        )


class CUDAKernel(_Kernel):
    """A cost function that times a CUDA kernel by events.

    All is as for `OpenCLKernel`, but for `grid` and `block`, the numbers of blocks and of threads
    in each. The kernel is compiled by NVRTC, by CuPy, and is declared `extern "C"`; `device` is
    the number of a device.
    """

    language = "cuda"

    def __init__(
        self,
        source: str,
        name: str,
        arguments: Sequence[Any],
        *,
        grid: Extents,
        block: Extents,
        expected: Expected | None = None,
        tolerance: float = 1e-4,
        options: Sequence[str] = (),
        device: int = 0,
        repeats: int = 5,
        timeout_s: float = 60.0,
    ) -> None:
        super().__init__(
            source,
            name,
            arguments,
            (grid, block),
            expected=expected,
            tolerance=tolerance,
            options=options,
            device=str(device),
            repeats=repeats,
            timeout_s=timeout_s,
        )


def _argument(position: int, value: Any) -> Array:
    found = np.asarray(value, _SCALARS.get(cast("type[Any]", type(value))))
    if found.dtype.hasobject or (found.ndim and not found.size):
        raise TuningError(
            f"argument {position} of a kernel cannot be {value!r}",
            hint="an array with elements, or a number",
        )
    return np.ascontiguousarray(found) if found.ndim else found


def _expected(position: int, values: Sequence[Array], expected: Array) -> Array:
    if not 0 <= position < len(values) or not values[position].ndim:
        raise TuningError(f"a result is expected in argument {position}, which is no array")
    if expected.shape != values[position].shape:
        raise TuningError(
            f"argument {position} has the shape {values[position].shape}, "
            f"and what is expected there {expected.shape}"
        )
    return expected


def _extents(extents: Extents, configuration: Configuration) -> list[int]:
    several = [extents] if isinstance(extents, int) or callable(extents) else [*extents]
    return [_extent(each, configuration) for each in several]


def _extent(extent: Extent, configuration: Configuration) -> int:
    if not callable(extent):
        return int(extent)
    names = arguments_read(extent)
    if unknown := [name for name in names if name not in configuration]:
        raise TuningError(
            f"a size of the kernel reads {unknown[0]!r}, which is not a parameter",
            hint=f"parameters: {', '.join(configuration)}",
        )
    return int(extent(**{name: configuration[name] for name in names}))


def _defined(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[object, ...]", value)))
    return str(int(value)) if isinstance(value, bool) else str(value)
