"""The order in which a space's parameters are chosen, and the constraints checked at each.

Any order gives the same space; a good one keeps its sub-trees few. The parameter chosen first
should separate the others: once it is known, they fall apart into components that refer to few
earlier values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from mdtensor.dataclass import dataclass
from mdtensor.errors import SpaceError
from mdtensor.lower.schedule.parameter import (
    Constraint,
    SpaceParameter,
    Value,
    arguments_read,
    constraint_name,
    format_call,
)

# How many values a function of earlier parameters is taken to return when orders are compared.
TYPICAL_VALUES = 8


@dataclass(frozen=True, slots=True)
class Check:
    """A constraint and the parameters that it reads."""

    constraint: Constraint
    reads: tuple[str, ...]

    @classmethod
    def of(cls, constraint: Constraint) -> Check:
        """Wrap a constraint; what it reads are its arguments' names."""
        return cls(constraint, arguments_read(constraint))

    def holds(self, chosen: Mapping[str, Value]) -> bool:
        """Whether the constraint accepts the values chosen so far."""
        try:
            return bool(self.constraint(**{name: chosen[name] for name in self.reads}))
        except Exception as error:
            raise SpaceError(f"constraint raised: {self.call(chosen)}: {error!r}") from error

    def call(self, chosen: Mapping[str, Value]) -> str:
        """The call of the constraint as text, for messages."""
        read = {name: chosen[name] for name in self.reads}
        return format_call(constraint_name(self.constraint), read)


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """A parameter's position in a tree, with the independent trees below it."""

    name: str
    parameter: SpaceParameter
    checks: tuple[Check, ...]
    below: tuple[Level, ...]
    # Parameters further up that this level's values and checks read.
    reads: tuple[str, ...]
    # Parameters further up that this level or one below reads: all that a sub-tree depends on.
    kept: tuple[str, ...]
    allowed: dict[tuple[Value, ...], tuple[Value, ...]] = field(
        default_factory=dict[tuple[Value, ...], tuple[Value, ...]]
    )

    def values_allowed(self, chosen: dict[str, Value]) -> tuple[Value, ...]:
        """The values that pass this level's checks, given those further up; memoised."""
        key = tuple([chosen[name] for name in self.reads])
        found = self.allowed.get(key)
        if found is None:
            found = self.allowed[key] = tuple(self._filtered(chosen))
        return found

    def _filtered(self, chosen: dict[str, Value]) -> Iterable[Value]:
        for value in self.parameter.values_given(chosen):
            chosen[self.name] = value
            if all(check.holds(chosen) for check in self.checks):
                yield value
        chosen.pop(self.name, None)


Scopes: TypeAlias = Sequence[frozenset[str]]


def levels_of(
    parameters: Mapping[str, SpaceParameter], checks: Mapping[str, Sequence[Check]]
) -> tuple[Level, ...]:
    """The root levels of independent groups; `checks` are keyed by the last parameter read."""
    # A constraint that reads nothing is checked where it was declared.
    scoped = [
        (frozenset(check.reads or (name,)), check) for name in parameters for check in checks[name]
    ]
    scopes = [scope for scope, _ in scoped]
    scopes += [frozenset((each.name, *each.reads)) for each in parameters.values() if each.reads]
    # Checks of one parameter alone are applied at once: its filtered values are what it counts.
    sizes = {
        name: _size(
            parameter, [check for scope, check in scoped if len(scope) == 1 and name in scope]
        )
        for name, parameter in parameters.items()
    }

    def level(component: Sequence[str], path: tuple[str, ...]) -> Level:
        name = _separator(component, path, parameters, scopes, sizes)
        here = (*path, name)
        parts = components([each for each in component if each != name], scopes)
        below = tuple(level(part, here) for part in parts)
        own = tuple(check for scope, check in scoped if name in scope and scope <= set(here))
        reads = set(parameters[name].reads).union(*(check.reads for check in own)) - {name}
        kept = reads.union(*(each.kept for each in below)) - {name}
        return Level(
            name,
            parameters[name],
            own,
            below,
            reads=tuple(each for each in path if each in reads),
            kept=tuple(each for each in path if each in kept),
        )

    return tuple(level(group, ()) for group in components(list(parameters), scopes))


def components(names: Sequence[str], scopes: Scopes) -> list[list[str]]:
    """Partition names into connected components of the hypergraph of `scopes`.

    >>> components(["a", "b", "c"], [frozenset("ac"), frozenset("b")])
    [['a', 'c'], ['b']]
    """
    part_of = {name: [name] for name in names}
    for scope in scopes:
        linked = [part_of[name] for name in scope if name in part_of]
        if not linked:
            continue
        merged = max(linked, key=len)
        for part in linked:
            if part is not merged and part_of[part[0]] is not merged:
                merged += part
                part_of |= dict.fromkeys(part, merged)
    position = {name: at for at, name in enumerate(names)}
    distinct = {id(part): part for part in part_of.values()}
    return sorted(
        (sorted(part, key=position.__getitem__) for part in distinct.values()),
        key=lambda part: position[part[0]],
    )


def _separator(
    component: Sequence[str],
    path: Sequence[str],
    parameters: Mapping[str, SpaceParameter],
    scopes: Scopes,
    sizes: Mapping[str, int],
) -> str:
    """The parameter to choose first, which leaves the fewest combinations in all."""
    inside = set(component)
    touching = [scope for scope in scopes if not scope.isdisjoint(inside)]
    eligible = [name for name in component if inside.isdisjoint(parameters[name].reads)]
    if len(eligible) == 1:
        return eligible[0]

    def combinations(name: str) -> float:
        here = {*path, name}
        parts = components([each for each in component if each != name], touching)
        return sum(
            math.prod(sizes[each] for each in here & _referred(touching, part)) * len(part)
            for part in parts
        )

    return min(eligible, key=combinations)


def _referred(scopes: Scopes, names: Sequence[str]) -> set[str]:
    """The union of the scopes that contain any of `names`."""
    return set[str]().union(*(scope for scope in scopes if not scope.isdisjoint(names)))


def _size(parameter: SpaceParameter, checks: Sequence[Check]) -> int:
    if callable(parameter.values):
        return TYPICAL_VALUES
    if not checks:
        return len(parameter.values)
    return sum(
        all(check.holds({parameter.name: value}) for check in checks) for value in parameter.values
    )
