"""Tuples with named elements, in operators and as functions' results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdtensor.dataclass import dataclass
from mdtensor.errors import FieldError, ProgramError
from mdtensor.translate.operators.assigning_functions import assigns, operator_from_assigning
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.operators.combine_operators import OperatorFunction
from mdtensor.translate.python.tuples import as_tuple
from mdtensor.translate.trees import all_substituted


def in_order(
    returned: Any, names: tuple[str, ...] | None
) -> tuple[tuple[str, ...] | None, tuple[Any, ...]]:
    """Normalise a function's result to field names (None without names) and a tuple."""
    if isinstance(returned, Mapping):
        named: Mapping[str, Any] = returned  # pyright: ignore[reportUnknownVariableType]
        order = names or tuple(named)
        if set(order) != set(named):
            raise ProgramError(
                f"f returns the fields {', '.join(named)}, but the result has {', '.join(order)}"
            )
        return order, tuple(named[name] for name in order)
    results = as_tuple(returned)
    if names is not None and len(names) != len(results):
        raise ProgramError(
            f"f returns {len(results)} values, but the result has the fields {', '.join(names)}"
        )
    return names, results


class NamedValues(tuple[Any, ...]):
    """A tuple whose elements also have names: `lhs["weight"]`, `lhs.weight`, `lhs[0]`."""

    _names: tuple[str, ...]

    @classmethod
    def of(cls, names: tuple[str, ...], values: Sequence[Any]) -> NamedValues:
        """Build a tuple with names."""
        made = cls(values)
        made._names = names
        return made

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self._names:
            raise FieldError(
                f"the tuples that are combined have no field {key!r}",
                hint=f"their fields are {', '.join(self._names)}",
            )
        return super().__getitem__(self._names.index(key))

    def __getattribute__(self, name: str) -> Any:
        # A field may have the name of a method of tuples, such as index.
        if name in super().__getattribute__("__dict__").get("_names", ()):
            return self[name]
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        return self[name]


@dataclass(frozen=True)
class _OnNamed:
    """A combine operator called on tuples with named elements."""

    function: Callable[..., Any]
    names: tuple[str, ...]

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", "op")

    def __call__(self, lhs: Any, rhs: Any) -> Any:
        sides = [as_tuple(side) for side in (lhs, rhs)]
        if assigns(self.function):
            dtypes = [value.dtype for value in sides[0]]
            operator = operator_from_assigning(self.function, self.names, dtypes)
            return all_substituted(operator.results, [*sides[0], *sides[1]])
        from mdtensor.translate.python.expr_from_function import traced

        named = (NamedValues.of(self.names, side) for side in sides)
        _, results = in_order(traced(self.function, *named), self.names)
        return results


def by_name(said: Any, names: tuple[str, ...]) -> Any:
    """Wrap the functions of `combine` so that they get tuples with named elements."""
    if isinstance(said, Mapping):
        by_dim: Mapping[str, Any] = said  # pyright: ignore[reportUnknownVariableType]
        return {dim: by_name(value, names) for dim, value in by_dim.items()}
    if isinstance(said, Combination):
        return replace(said, operator=by_name(said.operator, names))
    if isinstance(said, OperatorFunction):
        return replace(said, function=_OnNamed(said.function, names))
    return _OnNamed(said, names) if inspect.isfunction(said) else said
