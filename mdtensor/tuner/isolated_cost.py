"""Cost functions in a child process, which may crash or hang."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import import_module
from typing import Any, cast

from mdtensor.autotune.space.space import Configuration
from mdtensor.autotune.trial import Trial
from mdtensor.autotune.worker.worker import Worker, WorkerCrashed, WorkerTimeout
from mdtensor.closing import Closing
from mdtensor.errors import TuningError
from mdtensor.tuner.costs import Cost, invalid, trial_of


class Isolated(Closing):
    """Run a cost function in a child process: a crash makes a configuration invalid.

    The function is one of a module, given as it is or as `"module:function"`; it is imported
    there. Where it takes longer than `timeout_s`, the process is killed and the configuration is
    invalid; the next one begins another process. What the function raises ends the search.
    `environment` has further variables for the process.

    >>> with Isolated("math:exp") as cost:
    ...     cost.served({"x": 1}, timeout_s=30)
    Traceback (most recent call last):
      ...
    mdtensor.autotune.worker.worker.WorkerRaised: in the worker: TypeError: must be real number...

    Raises `TuningError` for a function that cannot be imported by name.
    """

    def __init__(
        self,
        function: str | Cost,
        *,
        timeout_s: float = 60.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.timeout_s = timeout_s
        name = function if isinstance(function, str) else _name_of(function)
        self._worker = Worker(f"{__name__}:handler", name, environment=environment)

    def __call__(self, configuration: Configuration) -> Trial:
        """The trial of a configuration; a crash or a timeout is a failed one."""
        return self.served(configuration, self.timeout_s)

    def served(self, request: object, timeout_s: float) -> Trial:
        """Send a request to the process: its trial, or a failed one for a crash or a timeout."""
        return trial_by(self._worker, request, timeout_s)

    def close(self) -> None:
        """Ends the process."""
        self._worker.close()


def trial_by(worker: Worker, request: object, timeout_s: float) -> Trial:
    """A worker's trial for a request; a failed one for a crash or a timeout."""
    try:
        return Trial(**worker.call(request, timeout_s))
    except WorkerTimeout:
        return invalid(f"killed after {timeout_s:g} s", "timeout")
    except WorkerCrashed as crash:
        return invalid(str(crash), "crashed")


def handler(name: str) -> Callable[[Configuration], dict[str, Any]]:
    """The worker's handler: calls the function `name`, and replies with trials."""
    module, _, path = name.partition(":")
    function: Any = import_module(module)
    for part in path.split("."):
        function = getattr(function, part)

    def serve(configuration: Configuration) -> dict[str, Any]:
        return asdict(trial_of(function(_with_tuples(configuration))))

    return serve


def _with_tuples(configuration: Configuration) -> Configuration:
    """Turn the lists of a JSON configuration back into tuples."""
    return {
        name: tuple(cast("list[int]", value)) if isinstance(value, list) else value
        for name, value in configuration.items()
    }


def _name_of(function: Cost) -> str:
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or not path or "<" in path:
        raise TuningError(
            f"{function!r} cannot be imported in another process",
            hint="a function that a module defines, which is not the program itself",
        )
    return f"{module}:{path}"
