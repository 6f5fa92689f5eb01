"""Users' combine operators: names, or functions that are typed later."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast, overload

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.decorated import Decorated
from mdtensor.errors import TranslationError, shown
from mdtensor.translate.combine import NAMES, PAIR_NAMES, Operator, named, operator_from_function
from mdtensor.translate.scalar import BOOL, Number

_OF_FUNCTIONS: Mapping[Any, str] = {
    np.add: "add",
    np.multiply: "mul",
    np.minimum: "min",
    np.maximum: "max",
    np.fmin: "fmin",
    np.fmax: "fmax",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
    np.bitwise_xor: "xor",
    np.logaddexp: "logaddexp",
    np.argmin: "argmin",
    np.argmax: "argmax",
    np.sum: "add",
    np.prod: "mul",
    np.min: "min",
    np.max: "max",
    builtins.sum: "add",
    builtins.min: "min",
    builtins.max: "max",
}
_OF_FUNCTIONS_ON_BOOLEANS: Mapping[Any, str] = {
    np.logical_and: "and",
    np.logical_or: "or",
    np.logical_xor: "xor",
    np.all: "and",
    np.any: "or",
    builtins.all: "and",
    builtins.any: "or",
}


@dataclass(frozen=True)
class OperatorFunction(Decorated):
    """An untyped operator: a function of two tuples, with its identity and commutativity.

    Where tuples have one element, the function gets the elements themselves.
    """

    function: Callable[..., Any]
    identity: tuple[Number, ...] | None = None
    commutative: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TranslationError(
                f"{shown(self.function)} is no operator", hint="a function of two elements"
            )
        for value in self.identity or ():
            if not isinstance(cast("object", value), bool | int | float | complex | np.number):
                raise TranslationError(
                    f"the identity of operator {self.__name__!r} is {shown(value)},"
                    " which is no number",
                    hint="a number, or a tuple of them where elements are tuples",
                )

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", "op")

    def __call__(self, lhs: Any, rhs: Any) -> Any:
        """Apply the function, to symbolic values too."""
        from mdtensor.translate.python.expr_from_function import traced

        return traced(self.function, lhs, rhs)

    def on(self, dtypes: Sequence[np.dtype]) -> Operator:
        """Type the operator for tuples of these types."""
        if self.identity is not None and len(self.identity) != len(dtypes):
            raise TranslationError(
                f"the identity of operator {self.__name__!r} has {len(self.identity)} values for"
                f" tuples of {len(dtypes)}"
            )
        return operator_from_function(self.function, dtypes, self.identity, self.commutative)


@overload
def operator(
    function: Callable[..., Any],
    /,
    *,
    identity: Number | tuple[Number, ...] | None = None,
    commutative: bool = False,
) -> OperatorFunction: ...


@overload
def operator(
    function: None = None,
    /,
    *,
    identity: Number | tuple[Number, ...] | None = None,
    commutative: bool = False,
) -> Callable[[Callable[..., Any]], OperatorFunction]: ...


def operator(
    function: Callable[..., Any] | None = None,
    /,
    *,
    identity: Number | tuple[Number, ...] | None = None,
    commutative: bool = False,
) -> OperatorFunction | Callable[[Callable[..., Any]], OperatorFunction]:
    """Makes a combine operator of an associative function of two elements, or of two tuples.

    `identity` is its neutral element; without it, a reduction begins with its first element.
    Where the function is `commutative`, elements may meet in any order, which is faster.

    Raises TranslationError for what is no function, and for an identity that is no number.

    >>> @operator(identity=(-float("inf"), -1))
    ... def argmax(lhs, rhs):
    ...     return rhs if rhs[0] > lhs[0] else lhs
    >>> argmax((1.0, 0), (2.0, 1))
    (2.0, 1)
    """
    given = identity if identity is None or isinstance(identity, tuple) else (identity,)
    if function is None:
        return functools.partial(OperatorFunction, identity=given, commutative=commutative)
    return OperatorFunction(function, given, commutative)


def operator_of(
    said: object, dtypes: Sequence[np.dtype], identity: tuple[Number, ...] | None = None
) -> Operator:
    """Resolve a name or a function to an operator on tuples of the given types.

    Functions of NumPy and of Python that have such a name stand for it. `identity` is that of
    another plain function.

    Raises TranslationError for an unknown name, and for types that the operator does not take.

    >>> operator_of(lambda a, b: a * b, [np.dtype("f4")]).results
    ((p0 * p1),)
    >>> operator_of(np.maximum, [np.dtype("f4")])
    max
    """
    if isinstance(said, Operator):
        return said
    if isinstance(said, OperatorFunction):
        return said.on(dtypes)
    name = operator_name(said, dtypes)
    if name is not None:
        return _named(name, dtypes)
    if callable(said):
        return OperatorFunction(said, identity).on(dtypes)
    raise TranslationError(
        f"{shown(said)} is no operator",
        hint=f"a function of two elements, or one of {', '.join((*NAMES, *PAIR_NAMES))}",
    )


def operator_name(said: object, dtypes: Sequence[np.dtype] = ()) -> str | None:
    """The name of a named operator, given by name or as a known function; None for others.

    >>> operator_name(np.add), operator_name("max"), operator_name(lambda a, b: a + b)
    ('add', 'max', None)
    """
    if isinstance(said, str):
        return said
    try:
        if dtypes and all(dtype == BOOL for dtype in dtypes) and said in _OF_FUNCTIONS_ON_BOOLEANS:
            return _OF_FUNCTIONS_ON_BOOLEANS[said]
        return _OF_FUNCTIONS.get(said)
    except TypeError:
        return None


def _named(name: str, dtypes: Sequence[np.dtype]) -> Operator:
    if name in ("mean", "avg", "average"):
        raise TranslationError(
            f"unknown operator {name!r}",
            hint="a mean is a sum with epilogue=lambda total: total / count",
        )
    return named(name, dtypes)
