"""Calls of front ends on another library's arrays, with programs run by that library."""

from __future__ import annotations

import contextvars
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from mdtensor.api.arrays.nested_arguments import mapped_call
from mdtensor.api.arrays.operands import spec_of
from mdtensor.api.calls.call_cache import of_front_end
from mdtensor.api.calls.program_calls import Request
from mdtensor.api.parts.linked_calls import LinkedCalls, Planned, linked
from mdtensor.api.parts.placeholders import Placeholders, place_of, planned_by
from mdtensor.errors import MdtensorError, TranslationError
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.python.tuples import as_tuple

Array = Any


class ForeignCall(ABC):
    """A call planned on placeholders, whose programs another library then runs on its arrays.

    A library that `joins` gets all programs as one, where they read nothing but arguments,
    constants and what the earlier ones gave; `link` is then how they are linked.
    """

    joins = False

    def __init__(self) -> None:
        self.placeholders = Placeholders()
        self.arrays: list[Array] = []
        self.link: LinkedCalls | None = None
        self._places: list[np.ndarray] = []
        self._read = set[int]()
        self._seen: list[Planned] = []
        self._around = contextvars.copy_context()

    @abstractmethod
    def is_foreign(self, argument: Any) -> bool:
        """Whether an argument is one of the library's arrays."""

    @abstractmethod
    def placeholder(self, array: Array) -> np.ndarray:
        """A placeholder for one of the library's arrays; may raise an error for it."""

    @abstractmethod
    def constant(self, array: np.ndarray) -> Array:
        """A NumPy array as one of the library's."""

    @abstractmethod
    def computed(self, planned: Program, operands: Sequence[Array]) -> Sequence[Array]:
        """Run a computation on the library's arrays; returns its results."""

    @abstractmethod
    def refused(self) -> MdtensorError:
        """The error for a call that does more than run programs on these arrays."""

    def run(
        self, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """Run a front end on placeholders, and return the library's arrays in their places.

        Raises what `refused` gives where an array is copied, or its elements are looked at.
        """
        given, named = mapped_call(self._stand_in, args, options)
        returned = planned_by(self._plan, of_front_end, function, *given, **named)
        if not self._read.issuperset(map(id, self.arrays)):
            raise self.refused()
        if not (self.joins and self._computed_at_once(returned)):
            for each in self._seen:
                operands = list(map(self._operand, each.request.operands))
                results = self._around.run(self.computed, each.request.program, operands)
                self._note(each.returned, results)
        return self._returned(returned)

    def _stand_in(self, argument: Any) -> Any:
        if not self.is_foreign(argument):
            return argument
        for array, place in zip(self.arrays, self._places, strict=True):
            if array is argument:
                return place
        place = self.placeholder(argument)
        self.arrays.append(argument)
        self._places.append(place)
        return place

    def _plan(self, request: Request) -> Any:
        """Record a request for the library; returns placeholders of its results."""
        if request.out is not None:  # an array of the library that would be written
            raise self.refused()
        for operand in map(np.asarray, request.operands):
            found = self.placeholders.array_of(operand)
            if found is None and self.placeholders.has_part(operand):
                raise self.refused()
            self._read.add(id(found))
        places = tuple(map(self.placeholders.of, request.program.results))
        self._seen.append(Planned(request, places))
        return places[0] if len(places) == 1 else places

    def _computed_at_once(self, returned: Any) -> bool:
        """Run all recorded programs as one; False where they cannot be joined."""
        wanted = as_tuple(returned)
        try:
            link = linked(self._seen, self._places, wanted)
            program = link.program([spec_of(place) for place in self._places], np)
        except TranslationError:
            return False
        arrays = [*self.arrays, *map(self.constant, link.constants)]
        self._note(wanted, self._around.run(self.computed, program, arrays))
        self.link = link
        return True

    def _note(self, places: Sequence[np.ndarray], results: Sequence[Array]) -> None:
        for place, result in zip(places, results, strict=True):
            self.placeholders.arrays[place_of(place)] = result

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
