"""Graph breaks for `torch.compile`: it does not trace calls of mdtensor, but runs them as they are.

Its tracer, Dynamo, follows calls into all modules but those in a list of its own, which has
standard ones and numpy. It would take mdtensor's Python for a part of the user's. torch is not
imported for that: the list is added to once somebody imports its module.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_RULES = "torch._dynamo.trace_rules"
_SKIPPED = ("mdtensor", "pyopencl", "cupy")


class _Finder:
    """An importer of Dynamo's list that adds to it, and of nothing else."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's specification, with a loader that adds to the list."""
        if name != _RULES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _skip_modules(module)

        loader.exec_module = exec_module
        return spec


def _skip_modules(rules: ModuleType) -> None:
    """Has Dynamo not trace this package, and what it calls compiled code by."""
    add = getattr(rules, "add", None)  # as torch has had it since 2.2
    if add is not None:
        for name in _SKIPPED:
            add(name)


def watch() -> None:
    """Adds to Dynamo's list, at once or when that is imported."""
    if (rules := sys.modules.get(_RULES)) is not None:
        _skip_modules(rules)
    else:
        sys.meta_path.insert(0, _Finder)


watch()
