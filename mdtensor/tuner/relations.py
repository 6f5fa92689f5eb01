"""Relations that constrain a parameter by earlier ones: those of 002, section 5.6.1.

A constraint that is written as a relation is *enumerated*: the divisors of a number are found in
the time of its square root, the multiples and what is less in no time, where a function would be
called for every value of the range.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from mdtensor.dataclass import dataclass
from mdtensor.errors import SpaceError
from mdtensor.lower.schedule.parameter import (
    Value,
    arguments_read,
    over,
)

# What a value is compared with: a constant, an earlier parameter's name, or a function of some.
Term: TypeAlias = "Value | Callable[..., Any]"
Select: TypeAlias = Callable[[Sequence[Value], Any], Sequence[Value]]


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """A constraint on a parameter's value; `&` and `|` combine it with relations or functions.

    `reads` are the parameters on which it depends, `select` keeps those of a sequence of values
    that satisfy it, given what the parameters it reads are and the name of its own.

    >>> even_divisor = divides(48) & is_multiple_of(2)
    >>> list(even_divisor.select(range(1, 100), {}, "tile"))
    [2, 4, 6, 8, 12, 16, 24, 48]
    >>> divides("rows") | equal(0)
    divides('rows') | equal(0)
    """

    text: str
    reads: tuple[str, ...]
    select: Callable[[Sequence[Value], Mapping[str, Value], str], Sequence[Value]]

    def __and__(self, other: Relation | Callable[..., bool]) -> Relation:
        return _both(self, relation_of(other))

    def __rand__(self, other: Callable[..., bool]) -> Relation:
        return _both(relation_of(other), self)

    def __or__(self, other: Relation | Callable[..., bool]) -> Relation:
        return _either(self, relation_of(other))

    def __ror__(self, other: Callable[..., bool]) -> Relation:
        return _either(relation_of(other), self)

    def __repr__(self) -> str:
        return self.text


def divides(number: Term) -> Relation:
    """The value divides `number`: a constant, an earlier parameter's name, or a function.

    >>> list(divides(lambda width: 96 // width).select(range(1, 97), {"width": 8}, "depth"))
    [1, 2, 3, 4, 6, 12]

    A number that is not whole has no divisors; every value but 0 divides 0.
    """
    return _relation("divides", number, _divisors)


def is_multiple_of(number: Term) -> Relation:
    """The value is a multiple of `number`; only 0 is a multiple of 0.

    >>> list(is_multiple_of(9).select(range(1, 100, 4), {}, "rows"))
    [9, 45, 81]
    """
    return _relation("is_multiple_of", number, _multiples)


def less_than(bound: Term) -> Relation:
    """The value is less than `bound`."""
    return _relation("less_than", bound, _ordered(operator.lt))


def at_most(bound: Term) -> Relation:
    """The value is at most `bound`."""
    return _relation("at_most", bound, _ordered(operator.le))


def greater_than(bound: Term) -> Relation:
    """The value is greater than `bound`."""
    return _relation("greater_than", bound, _ordered(operator.gt))


def at_least(bound: Term) -> Relation:
    """The value is at least `bound`."""
    return _relation("at_least", bound, _ordered(operator.ge))


def equal(other: Term) -> Relation:
    """The value equals `other`."""
    return _relation("equal", other, _equal)


def unequal(other: Term) -> Relation:
    """The value differs from `other`."""
    return _relation("unequal", other, lambda values, one: [v for v in values if v != one])


def relation_of(constraint: object) -> Relation:
    """Convert a predicate over named parameters to a relation; relations are returned as is."""
    if isinstance(constraint, Relation):
        return constraint
    if not callable(constraint):
        raise SpaceError(
            f"{constraint!r} is no constraint",
            hint="a function of parameters, or a relation such as divides(64)",
        )
    function: Callable[..., Any] = constraint
    reads = arguments_read(function)

    def select(values: Sequence[Value], given: Mapping[str, Value], own: str) -> Sequence[Value]:
        fixed = {name: given[name] for name in reads if name != own}
        if own not in reads:
            return values if function(**fixed) else ()
        return [value for value in values if function(**fixed, **{own: value})]

    name = getattr(function, "__name__", "function")
    return Relation(f"{name}({', '.join(reads)})", reads, select)


def _relation(name: str, term: Term, select: Select) -> Relation:
    if isinstance(term, str):
        reads, value = (term,), over((term,), _same, "value")
    elif callable(term):
        reads, value = arguments_read(term), term
    else:
        reads, value = (), None
    text = f"of ({', '.join(reads)})" if value is term else repr(term)

    def selected(values: Sequence[Value], given: Mapping[str, Value], own: str) -> Sequence[Value]:
        if value is None:
            return select(values, term)
        return select(values, value(**{each: given[each] for each in reads}))

    return Relation(f"{name}({text})", reads, selected)


def _both(one: Relation, other: Relation) -> Relation:
    return Relation(
        f"{one} & {other}",
        tuple(dict.fromkeys(one.reads + other.reads)),
        lambda values, given, own: other.select(one.select(values, given, own), given, own),
    )


def _either(one: Relation, other: Relation) -> Relation:
    def select(values: Sequence[Value], given: Mapping[str, Value], own: str) -> Sequence[Value]:
        found: set[Any] = {*one.select(values, given, own), *other.select(values, given, own)}
        if isinstance(values, range):
            return sorted(found, key=values.index)
        return [value for value in values if value in found]

    return Relation(f"{one} | {other}", tuple(dict.fromkeys(one.reads + other.reads)), select)


def _same(value: Value) -> Value:
    return value


def _divisors(values: Sequence[Any], number: Any) -> Sequence[Value]:
    whole = _whole(number)
    if whole is None:
        return ()
    if not isinstance(values, range) or not whole or len(values) <= math.isqrt(abs(whole)):
        return [value for value in values if _is_whole(value) and value and not whole % value]
    found = set(_factors(abs(whole)))
    within = [value for each in found for value in (each, -each) if value in values]
    return sorted(within, key=values.index)


def _factors(number: int) -> Iterable[int]:
    """All divisors of a number, from its prime factorisation."""
    found = [1]
    prime, left = 2, number
    while left > 1:
        if prime * prime > left:
            prime = left
        powers = [1]
        while not left % prime:
            left //= prime
            powers.append(powers[-1] * prime)
        if len(powers) > 1:
            found = [each * power for each in found for power in powers]
        prime += 1 if prime == 2 else 2
    return found


def _multiples(values: Sequence[Value], number: Any) -> Sequence[Value]:
    whole = _whole(number)
    if whole is None or not isinstance(values, range) or not whole:
        return [value for value in values if _is_multiple(value, number)]
    # values[0] + n * step is 0 modulo the number for every n of one class of remainders.
    shared = math.gcd(values.step, whole)
    if values.start % shared:
        return ()
    period = abs(whole) // shared
    first = -values.start // shared * pow(values.step // shared, -1, period) % period
    return values[first::period]


def _equal(values: Sequence[Value], one: Any) -> Sequence[Value]:
    return (values[values.index(one)],) if one in values else ()


def _is_multiple(value: Value, number: Any) -> bool:
    if isinstance(value, str | tuple):
        return False
    return value % number == 0 if number else value == 0


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _whole(number: Any) -> int | None:
    if isinstance(number, str | tuple):
        raise SpaceError(f"{number!r} is no number: nothing divides it, or is a multiple of it")
    return int(number) if number == math.floor(number) else None


def _ordered(compare: Callable[[Any, Any], bool]) -> Select:
    """A selection of the values on one side of a bound, by bisection in a range."""

    def select(values: Sequence[Any], bound: Any) -> Sequence[Value]:
        def holds(value: Any) -> bool:
            return compare(value, bound)

        if not isinstance(values, range):
            return [value for value in values if holds(value)]
        if not values:
            return values
        if holds(values[0]):
            return values[: bisect_left(values, True, key=lambda value: not holds(value))]
        return values[bisect_left(values, True, key=holds) :]

    return select
