"""Operators of dims that mix `argmin` or `argmax` with operators on values.

`argmin` and `argmax` take tuples (value, index …). An operator such as `add` that is applied to
such tuples before them means the values; the indices are the same along its dim, and are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.translate.combine import NAMES, PAIR_NAMES, Operator, named
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.operators.combine_operators import operator_name
from mdtensor.translate.scalar import param
from mdtensor.translate.trees import all_substituted, substitute

_COUNTING = ("add", "mul", "xor", "logaddexp")
"""Operators of which two equal elements do not give this element."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a tuple's element: the dims it depends on, and if it is an index."""

    dims: frozenset[str]
    is_index: bool


def operators_by_dim(
    combinations: Mapping[str, Combination],
    dtypes: Sequence[np.dtype],
    origins: Sequence[Origin],
    make: Callable[[Combination, Sequence[np.dtype]], Operator],
    *,
    is_place: bool = False,
) -> dict[str, Operator]:
    """The operator of every combined dim, typed for tuples.

    `combinations` are in the order of an `md_hom`, whose last dim is combined first. `make` makes
    an operator of a combination on tuples of some types. `is_place` says that nobody wrote
    the second element, so that all other operators than `argmin` and `argmax` take the first.

    Raises TranslationError where positions would be combined as values are.
    """
    combined = {name: said for name, said in combinations.items() if said.kind != "cc"}
    names = {name: operator_name(said.operator, dtypes[:1]) for name, said in combined.items()}
    finding = [name for name in combined if names[name] in PAIR_NAMES]
    found: dict[str, Operator] = {}
    for name, said in combined.items():
        takes_value = names[name] in NAMES or (is_place and name not in finding)
        if len(dtypes) == 1 or not (takes_value and finding):
            _check_indices(name, names, origins)
            found[name] = make(said, dtypes)
            continue
        _check_order(name, finding, names)
        _check_origins(name, finding[-1], names, origins)
        found[name] = on_values(make(said, dtypes[:1]), dtypes)
    return found


def on_values(operator: Operator, dtypes: Sequence[np.dtype]) -> Operator:
    """Apply an operator to the first elements of tuples; the others are equal on both sides.

    >>> on_values(named("add", ["f4"]), [np.dtype("f4"), np.dtype("i8")]).results
    ((p0 + p2), min(p1, p3))
    """
    width = len(dtypes)
    (value,) = operator.results
    sides = (param(0, dtypes[0]), param(width, dtypes[0]))
    equal = named("min", dtypes[1:])
    params = [param(side * width + n, dtypes[n]) for side in (0, 1) for n in range(1, width)]
    identity = operator.identity
    return Operator(
        tuple(dtypes),
        (substitute(value, sides), *all_substituted(equal.results, params)),
        None if identity is None else (*identity, *(equal.identity or ())),
        operator.commutative,
        operator.name,
    )


def _check_order(name: str, finding: Sequence[str], names: Mapping[str, str | None]) -> None:
    order = list(names)
    earlier = next((dim for dim in reversed(finding) if order.index(dim) > order.index(name)), None)
    if earlier is None:
        return
    best, said = names[earlier], names[name] or "op"
    raise TranslationError(
        f"{said!r} along {name!r} is applied after {best!r} along {earlier!r}, and would combine"
        " the positions that it finds",
        hint=f"apply {said!r} before it, as {{{name!r}: {said!r}, {earlier!r}: {best!r}}} does, or"
        f" combine {earlier!r} by {str(best)[3:]!r}, which gives values alone",
    )


def _check_origins(
    name: str, found_along: str, names: Mapping[str, str | None], origins: Sequence[Origin]
) -> None:
    for position, origin in enumerate(origins[1:], 1):
        if name in origin.dims:
            raise TranslationError(
                f"result {position} of f is a position that {names[found_along]!r} along"
                f" {found_along!r} finds, but differs along {name!r}, which {names[name]!r}"
                " combines before",
                hint=f"return the index of what is combined last: (value, {found_along})",
            )


def _check_indices(name: str, names: Mapping[str, str | None], origins: Sequence[Origin]) -> None:
    """Refuse counting operators on indices of other dims, such as sums of them."""
    said = names[name]
    others = [dim for dim, other in names.items() if other is None]
    if said not in _COUNTING or not others:
        return
    for position, origin in enumerate(origins):
        if origin.is_index and name not in origin.dims and origin.dims.intersection(others):
            raise TranslationError(
                f"{said!r} along {name!r} would combine result {position} of f, an index of"
                f" {others[0]!r}, with itself",
                hint=f"say by an operator of tuples what becomes of it along {name!r}:"
                " lambda lhs, rhs: (lhs[0] + rhs[0], lhs[1])",
            )
