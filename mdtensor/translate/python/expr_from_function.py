"""Python functions as expressions: called on symbols, or interpreted from their source.

A function is called on symbolic values first; that is enough where it only computes. Where it asks
for what is known only when the kernel runs (`if`, `and`, `==`, `math.exp`), or may say something
that such a call passes over (`try`, `global`), its source is run by the interpreter instead.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.errors import (
    MdtensorError,
    PassedOverError,
    ProgramError,
    TranslationError,
    count_of,
    shown,
)
from mdtensor.options import is_sequence
from mdtensor.scoped import scoped
from mdtensor.specs import as_dtype, common_dtype, kind_of
from mdtensor.translate.python.doubts import Doubt, doubt_of, python_function
from mdtensor.translate.python.function_source import FunctionSource, source_of
from mdtensor.translate.python.interpreter import Interpreter
from mdtensor.translate.python.local_functions import is_own
from mdtensor.translate.scalar import Expr, as_expr, cast, index_of, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.tracing import TRACED, SymbolError

_NOWHERE = FunctionSource(
    "a call", "", ast.Lambda(ast.arguments([], [], None, [], [], None, []), ast.Constant(0))
)


def no_function(given: object) -> TranslationError:
    """The error for an argument that is no function of elements."""
    return TranslationError(
        f"{shown(given)} is no function", hint="a function of elements, such as lambda x: x + 1"
    )


def traced(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Trace a function on symbolic values: its result, of expressions, tuples or other objects.

    The function may run twice, once as it is and once from its source.

    Raises ProgramError where it says something that cannot be translated.

    >>> traced(lambda a, b: a if a > b else b, param(0, "f4"), param(1, "f4"))
    select((p0 > p1), p0, p1)
    """
    if not callable(function):
        raise no_function(function)
    returned: Any = None
    refused: Exception | None = None
    doubt = Doubt.SURE
    caught: list[SymbolError] = []
    try:
        returned = scoped([(TRACED, caught)], function, *args, **kwargs)
    except ProgramError:
        raise
    except Exception as error:
        if isinstance(error, MdtensorError) and not isinstance(error, TranslationError):
            raise
        refused = error
    else:
        _check_value(function, returned)
        if caught:
            refused = caught[0]
        elif (doubt := doubt_of(function)) is Doubt.NONE:
            return returned
    try:
        return _interpreted(function, args, kwargs, refused)
    except PassedOverError:
        raise
    except ProgramError as error:
        if doubt is Doubt.SOME:
            return returned
        raise error from refused


def _interpreted(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    refused: Exception | None,
) -> Any:
    """Interpret a function from its source; `refused` is the error of calling it, if any."""
    known = python_function(function)
    is_read = known is not None and (is_own(known) or source_of(known) is not None)
    try:
        if is_read or refused is not None:
            return Interpreter(_NOWHERE, {}).call(_NOWHERE.node, function, args, kwargs)
    except ProgramError as error:
        if error.text:
            raise
    if known is not None and refused is not None and not isinstance(refused, TranslationError):
        raise refused
    said = "it has try, with, match or global, which kernels have not"
    if refused is not None:
        said = getattr(refused, "message", str(refused))
    hint = getattr(refused, "hint", None)
    raise ProgramError(
        f"{_name(function)} cannot be traced: {said}",
        notes=("its source was not found, so that it could only be called",),
        hint=hint and f"{hint}, or define the function in a file or a notebook",
    ) from refused


def _check_value(function: object, returned: object) -> None:
    """Refuse coroutines and generators, whose call runs none of their code."""
    if inspect.iscoroutine(returned):
        returned.close()
    elif not inspect.isgenerator(returned):
        return
    known = python_function(function)
    code = None if known is None else known.__code__
    place = [] if code is None else [f"{code.co_filename}:{code.co_firstlineno}, in {code.co_name}"]
    raise ProgramError(
        f"{_name(function)} returns a {type(returned).__name__}, not values",
        notes=place,
        hint="return a tuple; 'yield' and 'async' mean nothing in a kernel",
    )


def scalar_function(
    function: Callable[..., Any],
    params: Sequence[object],
    *,
    indices: Mapping[str, str] | None = None,
    name: str | None = None,
    hint: str = "a parameter for every element, then the indices' names after a *",
) -> ScalarFunction:
    """Trace a Python function of elements as the scalar function of an `md_hom`.

    Positional parameters are the elements, keyword-only ones the indices of the dims that
    `indices` has for their names, as int64. A tuple is several results. A result of Python's
    numbers only is int64, or of the elements' floating type. `hint` is that of the ProgramError
    where the function takes another number of elements.

    >>> f = scalar_function(lambda a, *, j: (a, j), ["f4"], indices={"j": "j"})
    >>> f.results, f.result_dtypes
    ((p0, j), (dtype('float32'), dtype('int64')))
    """
    types = tuple(as_dtype(dtype) for dtype in params)
    if not callable(function):
        raise no_function(function)
    called = name or _name(function)
    keywords = _indices(function, called, len(types), indices or {}, hint)
    elements = [param(n, dtype) for n, dtype in enumerate(types)]
    returned = traced(function, *elements, **keywords)
    results = tuple(returned) if is_sequence(returned) else (returned,)
    if not results:
        raise ProgramError(f"{called} returns no values", hint="one expression, or a tuple of them")
    return ScalarFunction(types, tuple(_result(r, types, called) for r in results), called)


def _indices(
    function: Callable[..., Any], name: str, count: int, indices: Mapping[str, str], hint: str
) -> dict[str, Expr]:
    """The values of keyword-only parameters (indices); checks the number of elements."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    unlimited = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if count < len(required) or (count > len(positional) and not unlimited):
        raise ProgramError(
            f"{name} takes {count_of(len(positional), 'element', 'elements')}, but"
            f" {count_of(count, 'is', 'are')} read",
            hint=hint,
        )
    keywords: dict[str, Expr] = {}
    for parameter in parameters:
        if parameter.kind is not parameter.KEYWORD_ONLY:
            continue
        if parameter.name in indices:
            keywords[parameter.name] = index_of(indices[parameter.name])
        elif parameter.default is parameter.empty:
            raise ProgramError(
                f"{name} takes an index {parameter.name!r}, which is no dim",
                hint=f"the dims are {', '.join(indices)}" if indices else "there are no dims",
            )
    return keywords


def _result(value: object, types: Sequence[np.dtype], name: str) -> Expr:
    if value is None:
        raise ProgramError(f"{name} returns nothing", hint="end it with a return")
    try:
        return settled(as_expr(value), types)
    except MdtensorError:
        raise ProgramError(f"{name} returns {shown(value)}, which is no number") from None


def settled(expr: Expr, types: Sequence[np.dtype]) -> Expr:
    """Give a weak expression a type; floating numbers take that of the elements."""
    if not expr.weak:
        return expr
    floating = [dtype for dtype in types if kind_of(dtype) in "fc"]
    if kind_of(expr.dtype) in "fc" and floating:
        return cast(expr, common_dtype(floating, [expr.dtype.type(0).item()]))
    return cast(expr, expr.dtype)


def _name(function: object) -> str:
    name = getattr(function, "__name__", None)
    return "the function" if name in (None, "<lambda>") else str(name)
