"""User-defined tuning parameters: a name, values, and constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from mdtensor.errors import SpaceError
from mdtensor.lower.schedule.parameter import (
    Constraint,
    Value,
    Values,
    arguments_read,
    constraint_name,
    format_values,
    over,
)
from mdtensor.lower.schedule.parameter import (
    SpaceParameter as ParameterOfSpace,
)
from mdtensor.tuner.relations import Relation

Condition: TypeAlias = "Relation | Callable[..., bool]"


class Parameter(ParameterOfSpace):
    """A tuning parameter: its name, the values it may take, and constraints on them (002, 5.3.1).

    `values` is a range, any other sequence of numbers, texts, bools or tuples of them, or a
    function of earlier parameters that returns one; values that lie side by side are taken to be
    near each other. A constraint is a function that returns whether its arguments go together,
    whose names say which parameters it reads, or a relation such as `divides("rows")`, which is
    enumerated and so costs little however long the range is. Several may be given as a list.

    >>> from mdtensor.tuner import Parameter, Space, divides
    >>> N = 1 << 20
    >>> WPT = Parameter("WPT", range(1, N + 1), divides(N))
    >>> LS = Parameter("LS", range(1, N + 1), divides(lambda WPT: N // WPT))
    >>> WPT, LS
    (Parameter('WPT', {1, 2, 3, 4, .. 1048576}, divides(1048576)),
     Parameter('LS', {1, 2, 3, 4, .. 1048576}, divides(of (WPT))))
    >>> Space([WPT, LS])
    Space(2 parameters in 1 groups, 231 configurations)

    Raises `SpaceError` for a name that is no identifier, or a constraint that is neither function
    nor relation.
    """

    __slots__ = ("_shown",)
    _shown: str

    def __init__(
        self, name: str, values: Values, constraint: Condition | Iterable[Condition] = ()
    ) -> None:
        given = (
            [constraint]
            if isinstance(constraint, Relation) or callable(constraint)
            else [*constraint]
        )
        relations = [each for each in given if isinstance(each, Relation)]
        functions = [each for each in given if not isinstance(each, Relation)]
        for each in functions:
            if not callable(each):
                raise SpaceError(
                    f"{each!r} is no constraint of {name!r}",
                    hint="a function of parameters, or a relation such as divides(64)",
                )
        first = values if callable(values) or isinstance(values, range) else tuple(values)
        super().__init__(
            name,
            _related(name, first, relations) if relations else first,
            tuple(_named(each, f"constraint_of_{name}") for each in functions),
        )
        if callable(values):
            shown = f"values of ({', '.join(arguments_read(values))})"
        else:
            shown = format_values(values)
        texts = [shown, *(repr(each) for each in relations)]
        texts += [
            f"{constraint_name(each)}({', '.join(arguments_read(each))})"
            for each in self.constraints
        ]
        object.__setattr__(self, "_shown", ", ".join(texts))

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}, {self._shown})"


def _related(name: str, values: Values, relations: Sequence[Relation]) -> Values:
    """The values filtered by relations: now, or by a function of the parameters that they read."""
    reads = dict.fromkeys(arguments_read(values)) if callable(values) else {}
    for relation in relations:
        reads |= dict.fromkeys(each for each in relation.reads if each != name)

    def related(**given: Value) -> Sequence[Value]:
        found: Sequence[Value]
        if callable(values):
            found = tuple(values(**{each: given[each] for each in arguments_read(values)}))
        else:
            found = values
        for relation in relations:
            found = relation.select(found, given, name)
        return found

    return over([*reads], _by_name(tuple(reads), related), "values") if reads else related()


def _by_name(names: Sequence[str], function: Callable[..., Any]) -> Callable[..., Any]:
    def positional(*given: Value) -> Any:
        arguments: Mapping[str, Value] = dict(zip(names, given, strict=True))
        return function(**arguments)

    return positional


def _named(constraint: Constraint, name: str) -> Constraint:
    """The constraint itself, or wrapped under a name for messages if it is a lambda."""
    try:
        constraint_name(constraint)
    except SpaceError:
        reads = arguments_read(constraint)
        return over(reads, _by_name(reads, constraint), name)
    return constraint
