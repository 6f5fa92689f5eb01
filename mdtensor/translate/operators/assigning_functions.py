"""Functions that assign their results to a parameter instead of returning them.

`def plus(res, lhs, rhs): res = lhs + rhs` is a combine operator (002, Listing 42), and so is one
that assigns fields, `res['w'] = …` (003, Listing 11); `def f(out, inp): out['w'] = …` is a scalar
function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.errors import ProgramError, TranslationError
from mdtensor.translate.combine import Operator
from mdtensor.translate.python.cases import Cases
from mdtensor.translate.python.interpreter import Interpreter
from mdtensor.translate.python.local_functions import local_function
from mdtensor.translate.python.tuples import as_tuple
from mdtensor.translate.scalar import Expr, Number, as_expr, cast, param


class Fields:
    """Named values that may be set under conditions."""

    def __init__(self, what: str, names: Sequence[str], known: Mapping[str, Any] | None = None):
        self._what = what
        self._names = names
        self._cases = {name: Cases(value) for name, value in (known or {}).items()}

    def __getitem__(self, name: str) -> Any:
        self._check(name)
        if name not in self._cases or not self._cases[name].is_set:
            raise TranslationError(f"{self._what}[{name!r}] is read before it is set")
        return self._cases[name].value

    def __setitem__(self, name: str, value: Any) -> None:
        self._check(name)
        self._cases[name] = Cases(value)

    def set_where(self, condition: Any, name: str, value: Any) -> None:
        """Assign a field under a condition."""
        self._check(name)
        before = self._cases.get(name)
        after = Cases(value, condition) if before is None else before.then(condition, value)
        self._cases[name] = after

    @property
    def unset(self) -> list[str]:
        """Names that lack a value in some case."""
        return [n for n in self._names if n not in self._cases or not self._cases[n].is_set]

    def _check(self, name: str) -> None:
        if name not in self._names:
            raise TranslationError(
                f"{self._what} has no {name!r}", hint=f"one of {', '.join(self._names)}"
            )


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of a function's positional parameters; empty for other callables."""
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount]


def assigns(function: object) -> bool:
    """Whether a function is an operator `(res, lhs, rhs)` that assigns its first parameter."""
    return callable(function) and len(parameters_of(function)) == 3


def operator_from_assigning(
    function: Callable[..., Any],
    names: Sequence[str],
    dtypes: Sequence[np.dtype],
    identity: tuple[Number, ...] | None = None,
    commutative: bool = False,
) -> Operator:
    """The operator of a function `(res, lhs, rhs)`.

    With one value, `res = lhs + rhs` gives it; with several, or by name, fields are assigned,
    whose names are those of the outputs. Raises ProgramError where a field is not assigned.
    """
    width = len(dtypes)
    sides = [
        {
            name: param(n + start, dtype)
            for n, (name, dtype) in enumerate(zip(names, dtypes, strict=True))
        }
        for start in (0, width)
    ]
    result, lhs, rhs = parameters_of(function)
    res = Fields(result, names)
    given = [OperatorSide(side, name) for side, name in zip(sides, (lhs, rhs), strict=True)]
    single = width == 1
    environment: dict[str, Any] = {
        result: res,
        lhs: given[0].value if single else given[0],
        rhs: given[1].value if single else given[1],
    }
    try:
        left = _executed(function, environment)[result]
    except ProgramError:
        if not single:
            raise
        environment = {result: res, lhs: given[0], rhs: given[1]}
        left = _executed(function, environment)[result]
    if left is not res:
        values = as_tuple(left)
    elif res.unset:
        raise ProgramError(
            f"operator {function.__name__!r} does not set {', '.join(map(repr, res.unset))} of"
            f" {result} in every case",
            hint=f"assign {result}[{res.unset[0]!r}] in all branches",
        )
    else:
        values = tuple(res[name] for name in names)
    results = tuple(cast(as_expr(v), t) for v, t in zip(values, dtypes, strict=True))
    return Operator(tuple(dtypes), results, identity, commutative, function.__name__)


class OperatorSide:
    """One side of an operator: fields by name."""

    def __init__(self, fields: Mapping[str, Expr], name: str) -> None:
        self._fields = fields
        self._name = name

    @property
    def value(self) -> Expr:
        """The only field."""
        return next(iter(self._fields.values()))

    def __getitem__(self, name: str) -> Expr:
        if name not in self._fields:
            raise TranslationError(
                f"{self._name} has no {name!r}", hint=f"one of {', '.join(self._fields)}"
            )
        return self._fields[name]


def results_of_assigning(
    function: Callable[..., Any], inputs: Mapping[str, Any], outputs: Sequence[str]
) -> dict[str, Any]:
    """The values that a function `(out, inp)` assigns to the outputs, by name.

    `inputs` are the elements of every buffer: one, or a tuple where it is accessed several times.
    """
    out, inp = parameters_of(function)
    results = Fields(out, outputs)
    _executed(function, {out: results, inp: Fields(inp, tuple(inputs), inputs)})
    if results.unset:
        raise ProgramError(
            f"function {function.__name__!r} does not set {', '.join(map(repr, results.unset))} of"
            f" {out} in every case",
            hint=f"assign {out}[{results.unset[0]!r}] in all branches",
        )
    return {name: results[name] for name in outputs}


def _executed(function: Callable[..., Any], environment: dict[str, Any]) -> dict[str, Any]:
    function = inspect.unwrap(function)
    local = local_function(function)
    if local is None:
        raise ProgramError(
            f"the source of {function.__name__!r} was not found",
            hint="return the values instead of assigning them",
        )
    Interpreter(local.source, local.namespace).execute(local.source.statements, environment)
    return environment
