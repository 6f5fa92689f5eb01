"""Registration with `torch.compile`: Dynamo keeps calls as graph nodes, and finds the backend.

Its tracer, Dynamo, follows calls into all modules but those in a list of its own, which has
standard ones and numpy. It would take mdtensor's Python for a part of the user's. torch is not
imported for that: lists of its are added to once somebody imports their modules.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_BACKEND = "mdtensor"
_SKIPPED = ("mdtensor", "pyopencl", "cupy")


class _Finder:
    """An import hook that patches Dynamo's lists as their modules are loaded."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module in `_ADDED`, whose loader also patches it; None for all others."""
        add = _ADDED.get(name)
        if add is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            add(module)

        loader.exec_module = exec_module
        return spec


def _skip_modules(rules: ModuleType) -> None:
    """Make Dynamo skip this package, and the libraries that it calls compiled code by."""
    add = getattr(rules, "add", None)  # as torch has had it since 2.2
    if add is not None:
        for name in _SKIPPED:
            add(name)


# Functions of tensors whose calls are nodes of graphs, which Dynamo is yet to be told.
_functions: list[Callable[..., Any]] = []
_dynamo: ModuleType | None = None


def in_graphs(function: Callable[..., Any]) -> None:
    """Make Dynamo keep calls of a function as graph nodes, where their arguments allow it."""
    _functions.append(function)
    if _dynamo is not None:
        _allow(_dynamo)


def _allow(dynamo: ModuleType) -> None:
    global _dynamo
    allow = getattr(dynamo, "allow_in_graph", None)  # as torch has had it since 2.1
    if allow is not None:
        _dynamo = dynamo
        while _functions:
            allow(_functions.pop())


def _add_backend(registry: ModuleType) -> None:
    """Register the backend under its name, also without an entry point."""
    register = getattr(registry, "register_backend", None)
    if register is not None and _BACKEND not in getattr(registry, "_BACKENDS", ()):
        register(_backend, name=_BACKEND)


def _backend(graph: Any, inputs: Sequence[Any], **options: Any) -> Any:
    """The backend, imported when a graph is first compiled."""
    return importlib.import_module("mdtensor.torch").backend(graph, inputs, **options)


# By the module that has a list, what adds to it.
_ADDED: Mapping[str, Callable[[ModuleType], None]] = {
    "torch._dynamo.trace_rules": _skip_modules,
    "torch._dynamo": _allow,
    "torch._dynamo.backends.registry": _add_backend,
}


def watch() -> None:
    """Patch Dynamo's lists, now or when their modules are imported."""
    missing = [name for name in _ADDED if name not in sys.modules]
    for name, add in _ADDED.items():
        if name not in missing:
            add(sys.modules[name])
    if missing:
        sys.meta_path.insert(0, _Finder)


watch()
