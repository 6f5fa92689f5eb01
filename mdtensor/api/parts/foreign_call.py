"""Calls of front ends on arrays of another library, which runs what they ask for."""

from __future__ import annotations

import contextvars
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from mdtensor.api.calls.program_calls import Request
from mdtensor.api.parts.placeholders import Placeholders, planned_by
from mdtensor.errors import MdtensorError
from mdtensor.translate.md_hom_program import Program

Array = Any

_DEEPEST = 2  # levels of tuples and lists among arguments that arrays lie in


class ForeignCall(ABC):
    """One call: the front end gets placeholders, the library each computation and its arrays."""

    def __init__(self) -> None:
        self.placeholders = Placeholders()
        self._given: dict[int, np.ndarray] = {}
        self._read = set[int]()
        self._around = contextvars.copy_context()

    @abstractmethod
    def is_foreign(self, argument: Any) -> bool:
        """Whether an argument is one of the library's arrays."""

    @abstractmethod
    def placeholder(self, array: Array) -> np.ndarray:
        """What stands for one of the library's arrays; may raise an error for it."""

    @abstractmethod
    def constant(self, array: np.ndarray) -> Array:
        """The library's array with the elements of one of NumPy's."""

    @abstractmethod
    def computed(self, planned: Program, operands: Sequence[Array]) -> Sequence[Array]:
        """The results of a computation on the library's arrays."""

    @abstractmethod
    def refused(self) -> MdtensorError:
        """The error for a call that is more than computations on these arrays."""

    def run(
        self, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """What the front end returns, with the library's arrays in the place of placeholders.

        Raises what `refused` gives where an array is copied, or its elements are looked at.
        """
        given = [self._stand_in(argument) for argument in args]
        named = {name: self._stand_in(argument) for name, argument in options.items()}
        returned = planned_by(self._plan, function, *given, **named)
        if not self._given.keys() <= self._read:
            raise self.refused()
        return self._returned(returned)

    def _stand_in(self, argument: Any, depth: int = _DEEPEST) -> Any:
        if depth and type(argument) in (tuple, list):
            several = cast("Sequence[Any]", argument)
            return type(argument)([self._stand_in(each, depth - 1) for each in several])
        if not self.is_foreign(argument):
            return argument
        place = self.placeholder(argument)
        self._given[id(argument)] = place
        return place

    def _plan(self, request: Request) -> Any:
        """Has the library run a program; gives placeholders for its results."""
        if request.out is not None:  # an array of the library that would be written
            raise self.refused()
        given = list(map(self._operand, request.operands))
        self._read.update(map(id, given))
        results = self._around.run(self.computed, request.program, given)
        places = [
            self.placeholders.of(spec, result)
            for spec, result in zip(request.program.results, results, strict=True)
        ]
        return places[0] if len(places) == 1 else tuple(places)

    def _operand(self, operand: Any) -> Array:
        array = np.asarray(operand)
        found = self.placeholders.array_of(array)
        if found is not None:
            return found
        if self.placeholders.has_part(array):
            raise self.refused()
        return self.constant(array)

    def _returned(self, returned: Any) -> Any:
        if isinstance(returned, tuple):
            return tuple(map(self._returned, cast("tuple[Any, ...]", returned)))
        found = self.placeholders.array_of(returned)
        if found is None:
            raise self.refused()
        return found
