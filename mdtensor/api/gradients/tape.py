"""The tape of a program: the computations of its calls, and the arrays between them.

A program that is differentiated gets lazy arrays, and every call of mdtensor in it gives lazy
arrays: so what is done to them by NumPy's functions is seen, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field
from typing import Any, cast

import numpy as np

from mdtensor.api.arrays.nested_arguments import mapped_call
from mdtensor.api.arrays.operands import as_computed
from mdtensor.api.calls import call_cache, program_calls
from mdtensor.api.calls.program_calls import Planner, Request, call
from mdtensor.api.frontends.lazy.lazy import lazy
from mdtensor.api.frontends.lazy.lazy_array import LazyArray
from mdtensor.dataclass import dataclass
from mdtensor.errors import GradientError
from mdtensor.scoped import Given, Result, Setting, scoped
from mdtensor.specs import kind_of
from mdtensor.translate.gradients.pullback import check_real, pullback
from mdtensor.translate.md_hom_program import Program

Array = Any


@dataclass(frozen=True, slots=True)
class TapeEntry:
    """An executed program with its operands and results."""

    program: Program
    operands: tuple[Array, ...]
    results: tuple[Array, ...]


@dataclass(slots=True)
class Tape:
    """The computations that a program has run on arrays that depend on its tracked inputs."""

    records: list[TapeEntry] = field(default_factory=list[TapeEntry])
    tracked: dict[int, Array] = field(default_factory=dict[int, Array])
    outer: Planner | None = None
    around: Tape | None = None
    _varying: set[int] = field(default_factory=set[int])

    def recorded(
        self, function: Callable[Given, Result], /, *args: Given.args, **options: Given.kwargs
    ) -> Result:
        """Calls a function with recording on this tape."""
        self.outer = program_calls.planner.get()
        self.around = getattr(call_cache.tracer.get(), "__self__", None)
        recording = (program_calls.planner, self._run), (call_cache.tracer, self.call)
        return scoped([*recording, call_cache.watching()], function, *args, **options)

    def _outside(
        self, function: Callable[Given, Result], /, *args: Given.args, **options: Given.kwargs
    ) -> Result:
        """Calls a function with recording on the enclosing tape, if there is one."""
        settings: list[Setting] = [(program_calls.planner, self.outer)]
        if self.around is not None:
            settings.append(self.around._as_call())
        return scoped(settings, function, *args, **options)

    def _as_call(self, read: set[int] | None = None) -> Setting:
        """The setting that marks nested calls as parts of one, whose arrays stay on the tape."""
        return _calls, (*_calls.get(), (self, read))

    def track(self, array: Array, *, varies: bool = True) -> None:
        """Tracks an array, so that computations on it are recorded; constants do not vary."""
        self.tracked[id(array)] = array
        if varies:
            self._varying.add(id(array))

    def varies(self, array: Array) -> bool:
        """Whether an array depends on the inputs that the program is differentiated by."""
        return id(array) in self._varying

    def value_of(self, value: LazyArray) -> Array:
        """The array of a lazy array, evaluated if need be."""
        if (held := value.array) is not None:
            return held
        return scoped([self._as_call()], value.evaluate)

    def call(
        self, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """Runs a front end's call with lazy arrays among its arguments; results are lazy too."""
        given: list[int] = []

        def valued(argument: Any) -> Any:
            if not isinstance(argument, LazyArray):
                return argument
            array = self.value_of(argument)
            given.append(id(array))
            return array

        positional, named = mapped_call(valued, args, options)
        if not given:
            return function(*args, **options)
        read: set[int] = set()
        parts = self._as_call(read)
        returned = scoped([parts, *call_cache.noting([])], function, *positional, **named)
        if not self.tracked.keys() & {*given} <= read:
            name = getattr(function, "__name__", "the function")
            raise GradientError(f"this call of {name} has no gradient: it copies its operands")
        return self._wrapped(returned)

    def _wrapped(self, returned: Any) -> Any:
        if isinstance(returned, tuple):
            return tuple(map(self._wrapped, cast("tuple[Any, ...]", returned)))
        if id(returned) not in self.tracked:
            raise GradientError(
                "this call has no gradient: its result is not what its kernels computed"
            )
        return lazy(returned)

    def _run(self, request: Request) -> Any:
        """Runs a program, and records it if it reads a tracked array."""
        found, operands, out = request.program, request.operands, request.out
        tracked = [id(operand) for operand in operands if id(operand) in self.tracked]
        reads = [read for tape, read in _calls.get() if tape is self]
        if tracked and not reads:
            raise GradientError(
                "the value of an array is asked for in a function that is differentiated",
                hint="return lazy arrays; choose elements by numpy.where(condition, a, b)",
            )
        if tracked and out is not None:
            raise GradientError("out= is written in a function that is differentiated")
        if tracked:
            check_real(found.results)
        returned = self._outside(call, ("recorded", found), operands, lambda _: found, out)
        if out is not None or (not tracked and not reads):
            return returned
        several = cast("tuple[Any, ...]", returned if isinstance(returned, tuple) else (returned,))
        results = [np.asarray(each) for each in several]
        for read in [read for read in reads if read is not None][-1:]:
            read.update(tracked)
        varies = any(map(self.varies, operands))
        for result in results:
            self.track(result, varies=varies)
        self.records.append(TapeEntry(found, tuple(operands), tuple(results)))
        return tuple(results) if len(results) > 1 else results[0]

    def cotangents(
        self, arrays: Sequence[Array], given: Sequence[tuple[Array, Array]]
    ) -> list[Array]:
        """Backpropagate: the cotangents of arrays, from pairs of a result and its cotangent."""
        varying = {id(array) for array in arrays}
        for record in self.records:
            if varying.intersection(map(id, record.operands)):
                varying.update(id(result) for result in record.results if _is_real(result))
        return self._outside(self._pulled_back, arrays, given, varying)

    def _pulled_back(
        self, arrays: Sequence[Array], given: Sequence[tuple[Array, Array]], varying: set[int]
    ) -> list[Array]:
        found: dict[int, Array] = {}
        for array, cotangent in given:
            _add(found, array, cotangent)
        for record in self.records[::-1]:
            due = [n for n, result in enumerate(record.results) if id(result) in found]
            wanted = [n for n, op in enumerate(record.operands) if id(op) in varying]
            if due and wanted:
                parts = _pulled(record, due, wanted, found)
                for n, part in zip(wanted, parts, strict=True):
                    _add(found, record.operands[n], part)
        return [found.get(id(array), np.zeros_like(array)) for array in arrays]


def _pulled(
    record: TapeEntry, due: list[int], wanted: list[int], found: Mapping[int, Array]
) -> tuple[Array, ...]:
    """The operands' cotangents, from those of the results `due`."""
    cotangents = [found[id(record.results[n])] for n in due]
    returned = call(
        ("pullback", record.program, tuple(wanted), tuple(due)),
        [*as_computed(record.operands, np), *record.results, *cotangents],
        lambda specs: pullback(record.program, specs, wanted, due),
    )
    return tuple(map(np.asarray, returned)) if len(wanted) > 1 else (np.asarray(returned),)


def _is_real(array: Array) -> bool:
    return kind_of(array.dtype) == "f"


def _add(found: dict[int, Array], array: Array, part: Array) -> None:
    before = found.get(id(array))
    found[id(array)] = part if before is None else (lazy(before) + lazy(part)).evaluate()


# The tapes whose calls this context is within, and what each has read of tracked arrays, if asked.
_calls: ContextVar[tuple[tuple[Tape, set[int] | None], ...]] = ContextVar("calls", default=())
