"""Python functions as the interpreter calls them: source, namespace, parameters."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, TypeGuard

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.translate.python.function_source import FunctionSource, source_of

_PACKAGE = str(Path(__file__).parents[1]) + os.sep


@dataclass(frozen=True, slots=True)
class LocalFunction:
    """A Python function with source, namespace and defaults."""

    source: FunctionSource
    namespace: Mapping[str, Any]
    defaults: tuple[Any, ...]
    keyword_defaults: Mapping[str, Any]


class Scopes(Mapping[str, Any]):
    """A live view of a function's variables, backed by the outer namespace."""

    def __init__(self, inner: Mapping[str, Any], outer: Mapping[str, Any]) -> None:
        self._inner, self._outer = inner, outer

    def __getitem__(self, name: str) -> Any:
        return self._inner[name] if name in self._inner else self._outer[name]

    def __iter__(self) -> Iterator[str]:
        return iter({*self._inner, *self._outer})

    def __len__(self) -> int:
        return len({*self._inner, *self._outer})


def is_plain(args: Sequence[Any]) -> bool:
    """Whether all arguments are concrete numbers or strings, so that a plain call suffices."""
    return all(isinstance(arg, bool | int | float | complex | str | np.generic) for arg in args)


def is_method(function: object) -> TypeGuard[MethodType]:
    """Whether a function is a bound Python method from outside of mdtensor."""
    held = getattr(function, "__func__", None)
    return isinstance(held, FunctionType) and not is_own(held)


def call_method(value: object) -> FunctionType | None:
    """The `__call__` that an object's class defines in Python; None if there is none."""
    method = inspect.getattr_static(type(value), "__call__", None)
    return method if isinstance(method, FunctionType) else None


def is_ours(value: object) -> bool:
    """Whether a function, method or class belongs to mdtensor."""
    module = getattr(value, "__module__", None) or ""
    return module.partition(".")[0] == __name__.partition(".")[0]


def is_own(function: FunctionType) -> bool:
    """Whether a function belongs to mdtensor, and so is called on symbolic values as it is.

    So is a front end, which is decorated: it is called, and never read.
    """
    if function.__code__.co_filename.startswith(_PACKAGE):
        return True
    return is_ours(function) and hasattr(function, "__wrapped__")


def local_function(function: object) -> LocalFunction | None:
    """A Python function with its source and namespace; None without source."""
    held = getattr(function, "__func__", function)
    if not isinstance(held, FunctionType):
        return None
    source = source_of(held)
    if source is None:
        return None
    cells = zip(held.__code__.co_freevars, held.__closure__ or (), strict=True)
    return LocalFunction(
        source,
        Scopes(dict(cells), held.__globals__),
        held.__defaults__ or (),
        held.__kwdefaults__ or {},
    )


def bound(
    function: LocalFunction, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Bind a call's arguments to parameters; TypeError where they do not fit."""
    name, given = function.source.name, function.source.node.args
    positional = [arg.arg for arg in (*given.posonlyargs, *given.args)]
    keyword_only = [arg.arg for arg in given.kwonlyargs]
    if len(args) > len(positional) and given.vararg is None:
        raise TypeError(f"{name} takes {len(positional)} values, not {len(args)}")
    values: dict[str, Any] = dict(function.keyword_defaults)
    values |= dict(zip(positional[::-1], function.defaults[::-1], strict=False))
    values |= dict(zip(positional, args, strict=False))
    unknown = [key for key in kwargs if key not in (*positional, *keyword_only)]
    if unknown and given.kwarg is None:
        raise TypeError(f"{name} has no parameter {unknown[0]!r}")
    values |= {key: value for key, value in kwargs.items() if key not in unknown}
    missing = [key for key in (*positional, *keyword_only) if key not in values]
    if missing:
        raise TypeError(f"{name} is called without a value for {missing[0]!r}")
    if given.vararg is not None:
        values[given.vararg.arg] = tuple(args[len(positional) :])
    if given.kwarg is not None:
        values[given.kwarg.arg] = {key: kwargs[key] for key in unknown}
    return values
