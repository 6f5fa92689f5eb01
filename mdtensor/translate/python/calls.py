"""Evaluation of calls: Python functions are interpreted, others called natively."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from inspect import signature
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from mdtensor.translate.arithmetic import Aggregate
from mdtensor.translate.python.doubts import CHANGES
from mdtensor.translate.python.expressions import Expressions
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.python.functions import (
    is_symbolic,
    meaning,
)
from mdtensor.translate.python.local_functions import (
    LocalFunction,
    Scopes,
    call_method,
    is_method,
    is_ours,
    is_own,
    is_plain,
    local_function,
)
from mdtensor.translate.scalar import Expr
from mdtensor.translate.tracing import while_tracing

# Functions of objects, which tell nothing about elements.
_OF_OBJECTS: Any = (isinstance, type, str, repr, ascii, format, hash, id, hasattr, vars, dir)
# What to write in the place of some of them.
_INSTEAD: Any = {
    **dict.fromkeys((str, repr, ascii, format), "kernels print nothing"),
    **dict.fromkeys((hash, id), "compare values by == or !="),
}

_FOLDS: Any = (min, max, sum, any, all)


class Calls(Expressions):
    """Evaluates calls on symbolic and concrete values."""

    def _called(self, node: ast.Call, variables: dict[str, Any]) -> Any:
        function = self._value(node.func, variables)
        args = self._elements(node.args, variables)
        changed = _changed(function, args)
        if changed is not None:
            self._check_change(node, changed)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self._value(keyword.value, variables)
            kwargs |= value if keyword.arg is None else {keyword.arg: value}
        if self._is_conditional and isinstance(function, BuiltinFunctionType):
            owner: object = function.__self__
            kind = next((kind for kind in (list, dict, set) if isinstance(owner, kind)), None)
            if kind is not None:
                raise self._error(
                    node,
                    f"a {kind.__name__} is changed under a condition that may not hold",
                    "use tuples, and choose values by 'a if condition else b'",
                )
        return self.call(node, function, args, kwargs)

    def call(
        self, node: ast.AST, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call a function on values, some of which may be symbolic."""
        if isinstance(function, partial):
            given = (*function.args, *args), {**function.keywords, **kwargs}
            return self.call(node, function.func, *given)
        if isinstance(function, LocalFunction):
            return self._interpreted(node, function, args, kwargs)
        if function in _OF_OBJECTS and args and isinstance(args[0], Expr | Aggregate):
            raise self._passed_over(
                node,
                f"{function.__name__} of {args[0]!r}, which is known only when the kernel runs",
                _INSTEAD.get(function, "elements have a dtype, such as x.dtype.kind == 'f'"),
            )
        if function is getattr and len(args) > 1:
            self._check_attribute(node, args[0], args[1])
        if len(args) == 1 and isinstance(args[0], Aggregate) and function in _FOLDS:
            args = [self._iterated(node, args[0])]
        symbolic = is_symbolic(args) or is_symbolic(list(kwargs.values()))
        special = meaning(function) if symbolic else None
        if special is not None:
            try:
                signature(special).bind(*args, **kwargs)
            except TypeError:
                message = f"{function.__name__} with these arguments cannot be traced"
                raise self._error(node, message, "write it with if and loops") from None
            return self._guarded(node, special, *args, **kwargs)
        if symbolic and is_method(function):
            self._from_around(function.__self__)
            return self.call(node, function.__func__, [function.__self__, *args], kwargs)
        if isinstance(function, FunctionType) and not is_own(function) and not is_plain(args):
            local = local_function(function)
            if local is not None:
                return self._interpreted(node, local, args, kwargs, function.__code__)
        method = call_method(function)
        if symbolic and method is not None and not is_own(method):
            self._from_around(function)
            return self.call(node, method, [function, *args], kwargs)
        if is_ours(function):
            return self._guarded(node, function, *args, **kwargs)
        called = [self._callable(node, arg) for arg in args]
        return while_tracing(self._guarded, node, function, *called, **kwargs)

    def _callable(self, node: ast.AST, value: Any) -> Any:
        """Wrap a function passed to a native one, such as `map`, so that it is interpreted."""
        if not isinstance(value, LocalFunction | FunctionType):
            return value

        def called(*args: Any, **kwargs: Any) -> Any:
            return self.call(node, value, args, kwargs)

        return called

    @abstractmethod
    def _interpreted(
        self,
        node: ast.AST,
        function: LocalFunction,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        code: object = None,
    ) -> Any:
        """Interpret a function's statements."""

    def _function(
        self, node: ast.FunctionDef | ast.Lambda, variables: dict[str, Any]
    ) -> LocalFunction:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            raise self._error(node, "a decorated function cannot be traced in another one")
        name = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
        keyword_only = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        return LocalFunction(
            FunctionSource(name, self.source.file, node),
            Scopes(variables, self.namespace),
            tuple(self._elements(node.args.defaults, variables)),
            {arg.arg: self._value(d, variables) for arg, d in keyword_only if d is not None},
        )


def _changed(function: Any, args: Sequence[Any]) -> Any:
    """The object that a call mutates: a mutating method's owner, or setattr's target; or None."""
    if function is setattr or function is delattr:
        return args[0] if args else None
    if not isinstance(function, BuiltinFunctionType) or function.__name__ not in CHANGES:
        return None
    return None if isinstance(function.__self__, ModuleType) else function.__self__
