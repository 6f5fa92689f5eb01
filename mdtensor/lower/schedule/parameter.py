"""Tuning parameters: a name, the values it may take, and the constraints between parameters.

A parameter may depend on others in two ways (002, section 5.3.1): its values may be computed from
earlier parameters, and constraints forbid combinations. Both are plain functions, and the *names
of their arguments* say which parameters they read, so that a space finds by itself which
parameters belong together and how early each constraint can be checked.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from random import Random
from typing import Any, TypeAlias

from mdtensor.dataclass import dataclass
from mdtensor.errors import SpaceError

Value: TypeAlias = "bool | int | float | str | tuple[int | str, ...]"
Values: TypeAlias = "Sequence[Value] | Callable[..., Iterable[Value]]"
Constraint: TypeAlias = Callable[..., bool]

_MAX_ORDERS = 120


@dataclass(frozen=True, slots=True)
class SpaceParameter:
    """One tuning parameter: its name, its values in order, and its named constraints.

    `values` is a sequence (neighbours in it are near each other), or a function of earlier
    parameters that returns one; equal values count once. A constraint may read any parameters of
    the space and is checked at the last-declared of them. An argument that has a default is a
    constant of the function and reads nothing.

    A parameter with exactly one value per combination of the earlier ones is a derived quantity;
    constraints that read it in place of its sources keep a space's sub-trees few:

    >>> def divides_rows(tile): return 96 % tile == 0
    >>> def fits_registers(footprint): return footprint <= 64
    >>> tile = SpaceParameter("tile", range(1, 97), (divides_rows,))
    >>> footprint = SpaceParameter("footprint", lambda tile: (4 * tile,), (fits_registers,))
    >>> footprint
    Parameter('footprint', values of (tile), constraints: fits_registers(footprint))

    Raises `SpaceError` for a name that is no identifier, a constraint without a name (it could not
    be named when it rejects something) and a function whose arguments name no parameters.
    """

    name: str
    values: Values
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise SpaceError(
                f"a parameter's name must be an identifier, not {self.name!r}",
                hint="constraints read parameters through their arguments' names",
            )
        # Frozen, but lists and generators are natural to write: normalised once, here.
        object.__setattr__(self, "constraints", tuple(self.constraints))
        if callable(self.values):
            arguments_read(self.values)
        elif not isinstance(self.values, range):
            object.__setattr__(self, "values", tuple(dict.fromkeys(self.values)))
        for constraint in self.constraints:
            constraint_name(constraint)
            arguments_read(constraint)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the parameters from which the values are computed."""
        return arguments_read(self.values) if callable(self.values) else ()

    def values_given(self, earlier: dict[str, Value]) -> tuple[Value, ...]:
        """The values, in order, given the values of earlier parameters."""
        if not callable(self.values):
            return tuple(self.values)
        arguments = {name: earlier[name] for name in self.reads}
        try:
            return tuple(dict.fromkeys(self.values(**arguments)))
        except Exception as error:
            call = format_call("values", arguments)
            raise SpaceError(f"the values of {self.name!r} raised: {call}: {error!r}") from error

    def __repr__(self) -> str:
        if callable(self.values):
            values = f"values of ({', '.join(self.reads)})"
        else:
            values = format_values(self.values)
        constraints = ", ".join(
            f"{constraint_name(each)}({', '.join(arguments_read(each))})"
            for each in self.constraints
        )
        suffix = f", constraints: {constraints}" if constraints else ""
        return f"Parameter({self.name!r}, {values}{suffix})"


@lru_cache(1024)
def arguments_read(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the parameters that a function reads: its arguments without defaults.

    >>> arguments_read(lambda tile, parts, limit=64: tile * parts <= limit)
    ('tile', 'parts')
    """
    names: list[str] = []
    for argument in inspect.signature(function).parameters.values():
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            raise SpaceError(
                f"argument {argument} names no parameter",
                hint="list the parameters that the function reads as arguments",
            )
        if argument.kind is argument.POSITIONAL_ONLY:
            raise SpaceError(f"argument {argument.name!r} is positional-only")
        if argument.default is argument.empty:
            names.append(argument.name)
    return tuple(names)


def over(names: Sequence[str], function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a function as one of named parameters, for names made at run time.

    >>> product = over(["r0", "r1"], lambda a, b: a * b, "product")
    >>> product(r0=3, r1=4), arguments_read(product)
    (12, ('r0', 'r1'))
    """

    def reading(**given: Value) -> Any:
        return function(*(given[each] for each in names))

    keyword = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature([inspect.Parameter(each, keyword) for each in names])
    vars(reading)["__signature__"] = signature
    reading.__name__ = name
    return reading


def running_products(
    first: str, factors: Iterable[tuple[SpaceParameter, str]], most: int, what: str
) -> Iterator[SpaceParameter]:
    """Each factor, followed by a derived parameter: the product so far, from `first` on.

    No product is more than `most`. What follows reads the last one, and none of its factors.

    >>> r0, r1 = SpaceParameter("r0", (1, 2)), SpaceParameter("r1", (1, 4))
    >>> factors = [(r0, "points0"), (r1, "points1")]
    >>> [str(parameter) for parameter in running_products("lanes", factors, 8, "registers")][1]
    "Parameter('points0', values of (lanes, r0), constraints: fits_registers(points0))"
    """

    def fits(product: int) -> bool:
        return product <= most

    def product(before: int, factor: int) -> tuple[int]:
        return (before * factor,)

    before = first
    for factor, after in factors:
        values = over((before, factor.name), product, "product")
        yield factor
        yield SpaceParameter(after, values, (over((after,), fits, f"fits_{what}"),))
        before = after


def constraint_name(constraint: Constraint) -> str:
    """The name of a constraint, for rejections; a `partial` has its function's."""
    function: Any = constraint
    while isinstance(function, partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    name = getattr(function, "__name__", "")
    if not isinstance(name, str) or not name.isidentifier():
        raise SpaceError(
            f"constraint {constraint!r} has no name",
            hint="write it with def: its name is what a rejection prints",
        )
    return name


def format_call(name: str, arguments: dict[str, Value]) -> str:
    """A call as source text, for messages: `fits(tile=4, parts=2)`."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def format_values(values: Sequence[Value]) -> str:
    """Values for messages, long lists shortened in the middle.

    >>> format_values(range(1, 100))
    '{1, 2, 3, 4, .. 99}'
    """
    if len(values) <= 8:
        return "{" + ", ".join(map(repr, values)) + "}"
    return "{" + ", ".join(map(repr, values[:4])) + f", .. {values[-1]!r}" + "}"


def permutations(base: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """All orders of a few dims; of many, those one move away, and fixed random ones.

    >>> permutations((2, 0))
    ((2, 0), (0, 2))
    """
    if math.factorial(len(base)) <= _MAX_ORDERS:
        return tuple(itertools.permutations(base))
    orders = {base: None}
    for d, position in itertools.product(base, range(len(base))):
        rest = [other for other in base if other != d]
        orders[(*rest[:position], d, *rest[position:])] = None
    rng = Random(0)
    while len(orders) < _MAX_ORDERS:
        orders[tuple(rng.sample(base, len(base)))] = None
    return tuple(orders)


def integer_in(configuration: Mapping[str, Value], name: str, default: int) -> int:
    """An integer value of a configuration, or the default if it is absent."""
    value = configuration.get(name, default)
    assert isinstance(value, int)
    return value


def dims_in(configuration: Mapping[str, Value], name: str) -> tuple[int, ...]:
    """An order of dims in a configuration."""
    value = configuration[name]
    assert isinstance(value, tuple)
    return tuple(d for d in value if isinstance(d, int))
