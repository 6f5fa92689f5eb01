"""einsum over other semirings than sums of products: shortest paths, likelihoods, relations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from mdtensor.errors import TranslationError
from mdtensor.translate.md_hom_from_reduction import Said
from mdtensor.translate.scalar import apply


@dataclass(frozen=True, slots=True)
class Semiring:
    """What takes the place of the product of elements, and of their sum."""

    f: Callable[..., Any] | None
    combine: Said


def total(*elements: Any) -> Any:
    """The sum of the elements at one point."""
    return reduce(lambda lhs, rhs: lhs + rhs, elements)


def all_true(*elements: Any) -> Any:
    """Whether no element at one point is 0."""
    return reduce(lambda lhs, rhs: lhs & rhs, (apply("ne", element, 0) for element in elements))


SEMIRINGS: Mapping[str, Semiring] = {
    "min_plus": Semiring(total, "min"),
    "max_plus": Semiring(total, "max"),
    "max_times": Semiring(None, "max"),
    "logsumexp": Semiring(total, "logaddexp"),
    "bool": Semiring(all_true, "or"),
}


def semiring_of(
    name: str | None, f: Callable[..., Any] | None, combine: Said | None
) -> tuple[Callable[..., Any] | None, Said | None]:
    """The function and the operator of a semiring, or those that were given instead.

    Raises TranslationError for an unknown name, and for a name besides functions.

    >>> semiring_of("max_times", None, None)
    (None, 'max')
    """
    if name is None:
        return f, combine
    if f is not None or combine is not None:
        raise TranslationError("semiring is given, and f or combine too", hint="leave one out")
    if name not in SEMIRINGS:
        raise TranslationError(
            f"unknown semiring {name!r}",
            hint=f"one of {', '.join(SEMIRINGS)}, or f=… and combine=…",
        )
    return SEMIRINGS[name].f, SEMIRINGS[name].combine
