"""Decorated functions: objects that decorators leave under the names of functions."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any


class Decorated:
    """A decorated function, pickled by qualified name where that name refers to it.

    Elsewhere it is pickled by what it is made of, as other objects are.
    """

    function: Callable[..., Any]

    def __reduce_ex__(self, protocol: Any, /) -> Any:
        module = getattr(self.function, "__module__", None)
        name = getattr(self.function, "__qualname__", None)
        if module in sys.modules and isinstance(name, str):
            try:
                if named(module, name) is self:
                    return named, (module, name)
            except AttributeError:  # a function inside of another one
                pass
        return super().__reduce_ex__(protocol)


def named(module: str, name: str) -> Any:
    """The object under a dotted name in a module."""
    return reduce(getattr, name.split("."), importlib.import_module(module))
