"""Fixed values: parameters that an expert fixes, and the search space of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from mdtensor.dataclass import dataclass
from mdtensor.errors import TuningError, shown
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.declaration import declarations_of
from mdtensor.lower.schedule.parameter import Constraint, SpaceParameter, Value, over
from mdtensor.lower.schedule.schedule import Schedule

_ORDERS = ("group_order", "loop_order", "reduce_order", "tensor")
_BY_DIM = ("parts", "tiles", "threads", "registers", "chunks", "warp", "lead")
_BY_STREAM = ("staged", "padding", "as_source")
# The names that a description has for fields that are called otherwise.
_ALSO = {"lanes": "lane"}
_NO_LANE = "none"
# Names of the parameters that hold a field's entries; those of other fields are called as they are.
_PREFIXES = {"tiles": "t", "parts": "p", "threads": "x", "registers": "r", "chunks": "c"}


@dataclass(frozen=True, slots=True)
class FixedValue:
    """A fixed value of a schedule's field, or of its entry for a dim or a stream."""

    field: str
    entry: int | None
    value: Value
    text: str

    def holds(self, schedule: Schedule) -> bool:
        """Whether a schedule has the fixed value."""
        value = getattr(schedule, self.field)
        if self.entry is not None:
            value = value[self.entry] if value else type(self.value)()
        return value == self.value or (self._is_neutral(value) and self._is_neutral(self.value))

    def _is_neutral(self, value: Any) -> bool:
        declared = declarations_of(Schedule).get(self.field)
        return declared is not None and self.entry is None and declared.is_neutral(value)

    def written(self, problem: Problem, value: Value) -> str:
        """Another value of the same field, as users write it."""
        if self.field == "lane":
            return _NO_LANE if value == -1 else problem.labels[cast("int", value)]
        if self.field in _ORDERS:
            return repr(" ".join(problem.labels[d] for d in cast("tuple[int, ...]", value)))
        return repr(value)

    @property
    def parameter(self) -> str:
        """The name of the search space's parameter for the field or entry."""
        if self.entry is None:
            return self.field
        return f"{_PREFIXES.get(self.field, self.field)}{self.entry}"


@dataclass(frozen=True, slots=True)
class Fixed:
    """The values that a search for one problem's schedules keeps fixed."""

    problem: Problem
    values: tuple[FixedValue, ...] = ()

    @staticmethod
    def of(problem: Problem, given: Mapping[str, object]) -> Fixed:
        """Parse fixed values that are given by names of a schedule's fields.

        Values of dims are a dict by their labels, which may leave some open, or one for each dim;
        those of inputs are the same by numbers. Orders are labels of dims, as a text or a sequence.
        Raises TuningError for a name or a value that schedules of the problem do not have.
        """
        found: list[FixedValue] = []
        for name, value in given.items():
            found += _values_of(problem, name, value)
        return Fixed(problem, tuple(found))

    def __bool__(self) -> bool:
        return bool(self.values)

    def __str__(self) -> str:
        return ", ".join(each.text for each in self.values)

    def hold(self, schedule: Schedule) -> bool:
        """Whether a schedule has all fixed values."""
        return all(each.holds(schedule) for each in self.values)

    def narrowed(self, parameters: Iterable[SpaceParameter]) -> tuple[SpaceParameter, ...]:
        """A space's parameters with constraints that enforce the fixed values where they can.

        What several parameters decide together is for `hold` to say.
        """
        known = tuple(parameters)
        names = {each.name for each in known}
        added: dict[str, list[Constraint]] = {}
        for value in self.values:
            constraint = _constraint(self.problem, value, names)
            if constraint is not None:
                added.setdefault(value.parameter, []).append(constraint)
        return tuple(
            replace(each, constraints=(*each.constraints, *added[each.name]))
            if each.name in added
            else each
            for each in known
        )


def _constraint(problem: Problem, fixed: FixedValue, names: set[str]) -> Constraint | None:
    """The constraint that enforces a fixed value; None where no single parameter decides it."""
    name, wanted = fixed.parameter, fixed.value
    if name not in names:
        return None
    if fixed.field == "registers" and "vectors" in names:

        def in_lanes(own: int, lane: int, width: int, vectors: int) -> bool:
            return wanted == (vectors * width if lane == fixed.entry else own)

        return over((name, "lane", "width", "vectors"), in_lanes, "is_fixed")
    grid = "kind" in names
    if grid and fixed.field == "parts" and not problem.reduced[fixed.entry or 0]:
        return None  # which follow from the blocks of a group
    declared = declarations_of(Schedule).get(fixed.field)
    neutral = declared is not None and fixed.entry is None and declared.is_neutral(wanted)

    def is_wanted(value: Value) -> bool:
        if neutral and declared is not None:
            return declared.is_neutral(value)
        return value == wanted

    return over((name,), is_wanted, "is_fixed")


def _values_of(problem: Problem, name: str, value: object) -> Iterator[FixedValue]:
    """The fixed values of one field, checked."""
    field = _ALSO.get(name, name)
    known = [each.name for each in fields(Schedule) if each.name != "asm"]
    if field not in known:
        raise TuningError(
            f"schedules have no {shown(name)} that could be fixed",
            hint=f"one of {', '.join(known)}",
        )
    labels = problem.labels
    if field in _ORDERS:
        dims = tuple(_dim_of(problem, field, label) for label in _listed(field, value))
        yield FixedValue(field, None, dims, f"{field} {' '.join(labels[d] for d in dims)}")
    elif field == "lane":
        lane = -1 if value == _NO_LANE else _dim_of(problem, field, value)
        yield FixedValue(field, None, lane, f"lane {_NO_LANE if lane < 0 else labels[lane]}")
    elif field in _BY_DIM:
        kind = _checked(field, int)
        for d, each in _entries(field, value, labels, "dims"):
            yield FixedValue(field, d, kind(each), f"{field} {labels[d]}:{each}")
    elif field in _BY_STREAM:
        kind = _checked(field, {"staged": str, "padding": int, "as_source": bool}[field])
        numbers = [str(n) for n in range(len(problem.streams))]
        for n, each in _entries(field, value, numbers, "inputs"):
            yield FixedValue(field, n, kind(each), f"{field} {n}:{each}")
    else:
        declared = declarations_of(Schedule).get(field)
        neutral: object = 0 if declared is None else declared.neutral
        checked = _checked(field, type(neutral))(value)
        if declared is not None and (fault := declared.fault(field, checked, {})):
            raise TuningError(f"{fault}, not {shown(value)}")
        yield FixedValue(field, None, checked, f"{field} {checked}")


def _listed(field: str, value: object) -> Sequence[object]:
    if isinstance(value, str):
        return value.split()
    if isinstance(value, Sequence):
        return cast("Sequence[object]", value)
    raise TuningError(f"{field} is an order of dims, not {shown(value)}", hint="such as 'i k j'")


def _dim_of(problem: Problem, field: str, label: object) -> int:
    if label not in problem.labels:
        raise TuningError(
            f"{field}: there is no dim {shown(label)}", hint=f"dims: {', '.join(problem.labels)}"
        )
    return problem.labels.index(str(label))


def _entries(
    field: str, value: object, names: Sequence[str], what: str
) -> Iterator[tuple[int, object]]:
    """The fixed entries of a field by number, with their values."""
    if isinstance(value, Mapping):
        for name, each in cast("Mapping[object, object]", value).items():
            if str(name) not in names:
                raise TuningError(
                    f"{field}: there is no {shown(name)} among the {what}",
                    hint=f"{what}: {', '.join(names)}",
                )
            yield names.index(str(name)), each
        return
    if type(value) in (list, tuple):
        several = cast("Sequence[object]", value)
        if len(several) == len(names):
            yield from enumerate(several)
            return
    raise TuningError(
        f"{field} has a value for each of the {what} ({', '.join(names)}), not {shown(value)}",
        hint=f"a dict leaves some of them open: {{{names[0] if names else ''!r}: …}}",
    )


def _checked(field: str, kind: type) -> Callable[[object], Any]:
    """A checker that returns values of type `kind`, and raises TuningError for others."""

    def checked(value: object) -> Any:
        if type(value) is not kind:
            raise TuningError(f"{field}: {shown(value)} is no {kind.__name__}")
        return value

    return checked
