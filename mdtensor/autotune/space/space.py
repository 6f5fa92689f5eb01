"""The space of all valid configurations of constrained parameters: counted, indexed, explored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import TypeAlias, cast

from mdtensor.autotune.space.levels import Check, Level, levels_of
from mdtensor.autotune.space.tree import Forest
from mdtensor.errors import SpaceError
from mdtensor.lower.schedule.parameter import (
    SpaceParameter,
    Value,
    constraint_name,
    format_values,
)

Configuration: TypeAlias = dict[str, Value]
# What a model says that a configuration costs, in any unit; infinity where it cannot be.
Expected: TypeAlias = Callable[[Configuration], float]


class Space:
    """Every assignment of values to parameters that satisfies every constraint.

    Parameters that read each other, directly or through others, form a group; groups are
    independent and their sizes multiply. Within a group, constraints are checked as early as what
    they read is known, and sub-trees that depend on the same other values exist once (`Forest`),
    so that size and indices are exact however large the space is. The order of indices is fixed,
    but not that of declaration.

    >>> def divides_rows(tile): return 48 % tile == 0
    >>> def divides_tile(tile, step): return tile % step == 0
    >>> space = Space([
    ...     SpaceParameter("tile", range(1, 49), (divides_rows,)),
    ...     SpaceParameter("step", (1, 2, 4, 8, 16), (divides_tile,)),
    ...     SpaceParameter("order", ("ij", "ji")),
    ... ])
    >>> space
    Space(3 parameters in 2 groups, 60 configurations)
    >>> space.configuration(59)
    {'tile': 48, 'step': 16, 'order': 'ji'}
    >>> space.explain_rejection({"tile": 6, "step": 4, "order": "ij"})
    "constraint of 'step' rejects divides_tile(tile=6, step=4)"

    Raises `SpaceError` for duplicate names, functions that read unknown or (for values) later
    parameters, and more than `node_limit` different sub-trees. `on_node` is called for each of
    these; what it raises ends the making, which may take seconds.
    """

    def __init__(
        self,
        parameters: Iterable[SpaceParameter],
        *,
        node_limit: int = 1_000_000,
        on_node: Callable[[], None] = lambda: None,
    ) -> None:
        self.parameters = tuple(parameters)
        self.names = tuple(parameter.name for parameter in self.parameters)
        if len(set(self.names)) < len(self.names):
            repeated = sorted({name for name in self.names if self.names.count(name) > 1})
            raise SpaceError(f"parameters declared twice: {', '.join(repeated)}")
        self._checks = self._placed_checks()
        by_name = dict(zip(self.names, self.parameters, strict=True))
        levels = levels_of(by_name, self._checks)
        self.groups = tuple(self._in_order(_names(level)) for level in levels)
        self._forest = Forest(levels, node_limit=node_limit, on_node=on_node)
        self.size = self._forest.size

    def _placed_checks(self) -> dict[str, tuple[Check, ...]]:
        """Constraints by the last-declared parameter that each reads."""
        position = {name: at for at, name in enumerate(self.names)}
        placed: dict[str, list[Check]] = {name: [] for name in self.names}
        for at, parameter in enumerate(self.parameters):
            for name in parameter.reads:
                if position.get(name, at) >= at:
                    raise SpaceError(
                        f"the values of {parameter.name!r} read {name!r}, "
                        "which is not an earlier parameter",
                        hint=f"earlier parameters: {', '.join(self.names[:at]) or 'none'}",
                    )
            for check in map(Check.of, parameter.constraints):
                unknown = [name for name in check.reads if name not in position]
                if unknown:
                    raise SpaceError(
                        f"constraint {constraint_name(check.constraint)} of {parameter.name!r} "
                        f"reads {', '.join(map(repr, unknown))}, which is not a parameter",
                        hint=f"parameters: {', '.join(self.names)}",
                    )
                last = max(check.reads, key=position.__getitem__, default=parameter.name)
                placed[last].append(check)
        return {name: tuple(checks) for name, checks in placed.items()}

    @property
    def domains(self) -> dict[str, tuple[Value, ...]]:
        """The values that parameters take in valid configurations, without derived parameters."""
        found = self._forest.domains
        return {name: found[name] for name in self.names if name in self._forest.free}

    def __len__(self) -> int:
        """The exact size; `OverflowError` above `sys.maxsize`, where `size` still tells it."""
        return self.size

    def __bool__(self) -> bool:
        return self.size > 0

    def __repr__(self) -> str:
        size = f"{self.size:.3g}" if self.size >= 10**6 else str(self.size)
        return (
            f"Space({len(self.parameters)} parameters in {len(self.groups)} groups, "
            f"{size} configurations)"
        )

    def configuration(self, index: int) -> Configuration:
        """The configuration at an index in `range(size)`; `IndexError` outside of it."""
        if not 0 <= index < self.size:
            raise IndexError(f"index {index} outside of {self!r}")
        return self._ordered(self._forest.at(index))

    def index(self, configuration: Mapping[str, object]) -> int:
        """The index of a configuration; `SpaceError` names the constraint that rejects it.

        Lists, as JSON has them, stand for tuples.
        """
        chosen = _canonical(configuration)
        try:
            index = self._forest.index(chosen)
        except (KeyError, ValueError):
            raise self._rejection(chosen) from None
        if len(chosen) > len(self.names):
            raise self._rejection(chosen)
        return index

    def _rejection(self, chosen: Configuration) -> SpaceError:
        return SpaceError(f"not in the space: {self.explain_rejection(chosen)}")

    def __contains__(self, configuration: Mapping[str, object]) -> bool:
        return self.explain_rejection(configuration) is None

    def explain_rejection(self, configuration: Mapping[str, object]) -> str | None:
        """The reason why a configuration is invalid; `None` for a valid one."""
        chosen = _canonical(configuration)
        for name in chosen:
            if name not in self.names:
                return f"unknown parameter {name!r}"
        for parameter in self.parameters:
            name = parameter.name
            if name not in chosen:
                return f"no value for parameter {name!r}"
            values = parameter.values_given(chosen)
            if chosen[name] not in values:
                return f"{name!r} is {chosen[name]!r}, not one of {format_values(values)}"
            for check in self._checks[name]:
                if not check.holds(chosen):
                    return f"constraint of {name!r} rejects {check.call(chosen)}"
        return None

    def sample(self, rng: Random) -> Configuration:
        """A configuration drawn uniformly; `SpaceError` from an empty space."""
        return self.configuration(self.sample_index(rng))

    def sample_index(self, rng: Random) -> int:
        """The index of a configuration drawn uniformly."""
        if not self.size:
            raise SpaceError("the space has no configuration")
        return rng.randrange(self.size)

    def nearest(
        self, wanted: Mapping[str, object], rng: Random, *, pinned: Iterable[str] = ()
    ) -> Configuration | None:
        """Find the valid configuration that changes `wanted` least.

        Unknown parameters are ignored and missing ones are free, so that a configuration of
        another space is a start in this one. Values of `pinned` parameters are kept, or `None`
        returned; in a group too large to search, one that comes near is returned.
        """
        if not self.size:
            raise SpaceError("the space has no configuration")
        chosen = _canonical(wanted)
        kept = {name: chosen[name] for name in pinned}
        found = self._forest.nearest(chosen, kept, rng)
        return None if found is None else self._ordered(found)

    def neighbours(
        self, configuration: Mapping[str, object], rng: Random, *, changes: int = 1
    ) -> Iterator[Configuration]:
        """Different valid configurations near a valid one, in random order, near values first.

        Each has one parameter (or `changes` of them) at another value, and the others repaired to
        the nearest valid configuration. One change: every other value of every parameter is tried
        once. Several: a bounded number of draws.
        """
        current = self.configuration(self.index(configuration))
        seen = {self.index(current)}
        moves = self._single_moves(current, rng)
        drawn = ([move] for move in moves) if changes == 1 else _draws(moves, changes, rng)
        for move in drawn:
            pinned = dict(move)
            found = self.nearest({**current, **pinned}, rng, pinned=pinned)
            if found is None or (index := self.index(found)) in seen:
                continue
            seen.add(index)
            yield found

    def changes(self, configuration: Mapping[str, object], rng: Random) -> Iterator[Configuration]:
        """Valid configurations with one parameter changed, in random order.

        Of the others, only those change that can have but one value then. Near values come first.
        It costs less than `neighbours`, which repairs what a change makes invalid.
        """
        current = self.configuration(self.index(configuration))
        for name, value in self._single_moves(current, rng):
            found = self._changed(current, name, value)
            if found is not None:
                yield found

    def _changed(self, current: Configuration, name: str, value: Value) -> Configuration | None:
        found = self.adapted({**current, name: value})
        return None if found is None or found[name] != value else found

    def adapted(self, wanted: Mapping[str, Value]) -> Configuration | None:
        """The valid configuration with these values, up to parameters that have no choice then.

        None where another value does not fit: `nearest` would repair it, which takes much longer.
        """
        chosen = dict(wanted)
        for parameter in self.parameters:
            values = parameter.values_given(chosen)
            if chosen[parameter.name] not in values:
                if len(values) != 1:
                    return None
                chosen[parameter.name] = values[0]
        valid = all(check.holds(chosen) for checks in self._checks.values() for check in checks)
        return chosen if valid else None

    def _single_moves(self, current: Configuration, rng: Random) -> list[tuple[str, Value]]:
        weighted: list[tuple[float, str, Value]] = []
        for name in filter(self._forest.free.__contains__, self.names):
            domain = self._forest.domains[name]
            here = domain.index(current[name])
            for rank, value in enumerate(domain):
                if rank != here:
                    # Weighted random order: the key of weight w is u ** (1 / w).
                    weighted.append((rng.random() ** abs(rank - here), name, value))
        weighted.sort(key=lambda move: -move[0])
        return [(name, value) for _, name, value in weighted]

    def from_coordinates(self, coordinates: Sequence[float]) -> Configuration:
        """Map a point of the unit cube, one coordinate per parameter, onto the space (002, 5.5)."""
        by_name = dict(zip(self.names, coordinates, strict=True))
        return self._ordered(self._forest.from_coordinates(by_name))

    def to_coordinates(self, configuration: Mapping[str, object]) -> tuple[float, ...]:
        """The point of the unit cube in the middle of a valid configuration's block."""
        by_name = self._forest.to_coordinates(_canonical(configuration))
        return tuple(by_name[name] for name in self.names)

    def _ordered(self, chosen: Configuration) -> Configuration:
        return {name: chosen[name] for name in self.names}

    def _in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(names, key=self.names.index))


def _names(level: Level) -> list[str]:
    return [level.name, *(name for each in level.below for name in _names(each))]


def _draws(
    moves: Sequence[tuple[str, Value]], changes: int, rng: Random
) -> Iterator[list[tuple[str, Value]]]:
    """Random combinations of moves of different parameters, biased to the first ones."""
    for _ in range(min(64, len(moves))):
        drawn: dict[str, Value] = {}
        for _ in range(changes):
            name, value = moves[int(rng.random() ** 2 * len(moves))]
            drawn.setdefault(name, value)
        yield list(drawn.items())


def _canonical(configuration: Mapping[str, object]) -> Configuration:
    return {name: _as_value(value) for name, value in configuration.items()}


def _as_value(value: object) -> Value:
    if isinstance(value, list | tuple):
        return tuple(cast("Sequence[int | str]", value))
    return cast("Value", value)
