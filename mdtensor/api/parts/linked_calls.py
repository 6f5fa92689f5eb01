"""Linked requests: a call's programs on numbered arrays, as they read each other's results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import spec_of
from mdtensor.api.calls.call_cache import of_front_end
from mdtensor.api.calls.launchers import telling
from mdtensor.api.calls.program_calls import Request, ready_for, suited
from mdtensor.api.parts.placeholders import place_of, planned_by, reserved
from mdtensor.dataclass import dataclass
from mdtensor.errors import MdtensorError, TranslationError
from mdtensor.scoped import Given, Result
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.programs.joined import Call, joined
from mdtensor.translate.python.tuples import as_tuple

Array = Any


@dataclass(frozen=True, slots=True)
class Planned:
    """A request recorded instead of run, with placeholders of its results."""

    request: Request
    returned: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class LinkedCalls:
    """Programs on numbered arrays: operands, constants, then each program's results.

    `checks` are functions that get the arrays of these numbers before each run, and may raise.
    """

    calls: tuple[Call, ...]
    constants: tuple[Array, ...]
    results: tuple[int, ...]
    checks: tuple[tuple[Callable[..., object], tuple[int, ...]], ...]

    def reads(self, operands: int) -> bool:
        """Whether the programs read all of the `operands` first arrays."""
        return {number for _, reads in self.calls for number in reads}.issuperset(range(operands))

    def program(self, operands: Sequence[TensorSpec], xp: Any) -> Program:
        """All programs joined into one, for the device of NumPy's or CuPy's arrays.

        Its last operands are the constants. Raises what `joined` raises.
        """
        calls = [(suited(program, xp), reads) for program, reads in self.calls]
        return joined([*operands, *map(spec_of, self.constants)], calls, self.results)

    def bound(self, run: Callable[..., Any], operands: int, xp: Any) -> Callable[..., Any]:
        """A launch of the joined program: a function of operands, and of results if it takes them.

        Constants are bound, and checks are made before it runs.
        """
        if not self.constants and not self.checks:
            return run
        constants: tuple[Array, ...] = tuple(map(xp.asarray, self.constants))
        checks = self.checks

        def bound(*arrays: Array) -> Any:
            given = (*arrays[:operands], *constants)
            for check, numbers in checks:
                check(*[given[number] for number in numbers])
            return run(*given, *arrays[operands:])

        return bound


def linked(seen: Sequence[Planned], operands: Sequence[np.ndarray], returned: Any) -> LinkedCalls:
    """Recorded requests, linked by the arrays that they share, as a function of operands.

    Raises TranslationError where it is more: it reads or returns other arrays than its operands,
    constants and whole results, writes to arrays of its own, or has what it computed checked.
    """
    if not seen or not all(array.dtype.isnative for array in operands):
        raise TranslationError("kernels do not read the operands")
    # Placeholders are told apart by where they lie; they are alive as long as `seen` is.
    numbers = {place_of(array): number for number, array in enumerate(operands)}
    made = [array for each in seen for array in each.returned]
    known = {*numbers, *map(place_of, made)}
    constants: list[Array] = []
    for request in [each.request for each in seen]:
        for array in request.operands[len(request.operands) - request.constants :]:
            if isinstance(array, np.ndarray) and (place := place_of(array)) not in known:
                known.add(place)
                numbers[place] = len(operands) + len(constants)
                constants.append(array)
    first = count = len(operands) + len(constants)
    calls: list[Call] = []
    checks: list[tuple[Callable[..., object], tuple[int, ...]]] = []
    for each in seen:
        reads = tuple([_number(numbers, array) for array in each.request.operands])
        calls.append((each.request.program, reads))
        if (check := each.request.check) is not None:
            checks.append((check, reads))
        written = {place_of(array): count + n for n, array in enumerate(each.returned)}
        if not numbers.keys().isdisjoint(written):
            raise TranslationError("an array is written that was there before")
        numbers |= written
        count += len(written)
    if any(number >= first for _, reads in checks for number in reads):
        raise TranslationError("what a program gives is checked")
    results = tuple([_number(numbers, array) for array in returned])
    return LinkedCalls(tuple(calls), tuple(constants), results, tuple(checks))


def planned(
    function: Callable[Given, Result], /, *args: Given.args, **options: Given.kwargs
) -> tuple[list[Planned], Result]:
    """The requests that a call would run, in order, and its return value of placeholders."""
    seen: list[Planned] = []

    def plan(request: Request) -> Any:
        out = request.out
        if out is None:
            results = tuple(map(reserved, request.program.results))
            out = results[0] if len(results) == 1 else results
        seen.append(Planned(request, as_tuple(out)))
        return out

    return seen, planned_by(plan, function, *args, **options)


def only(seen: Sequence[Planned], returned: Any) -> Request | None:
    """The single request of a call that returns its results unchanged; None for other calls."""
    is_all = len(seen) == 1 and list(map(id, as_tuple(returned))) == list(map(id, seen[0].returned))
    return seen[0].request if is_all else None


def launch_of_several(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    given: Sequence[Any],
) -> Callable[..., Any] | None:
    """A launch that repeats a call of several programs on the NumPy arrays among its arguments.

    None where the call is more than these, has several results, or was `given` an array twice. The
    call was made: what it is planned by may neither write to its arrays nor raise.
    """
    places = {place_of(array) for array in given if type(array) is np.ndarray}
    if len(places) < len(given):
        return None
    try:
        named = {name: _read_only(option) for name, option in options.items()}
        seen, returned = planned(of_front_end, function, *map(_read_only, args), **named)
        link = linked(seen, given, (returned,))
        program = link.program(list(map(spec_of, given)), np)
    except (MdtensorError, ValueError):  # ValueError: of NumPy, for an array that it may not write
        return None
    if not link.reads(len(given)) or any(each.request.out is not None for each in seen):
        return None
    ready = ready_for(program, np, evaluates=True)
    return telling(link.bound(ready.new, len(given), np), ready.served_by)


def _read_only(argument: Any) -> Any:
    """An argument; an array as a read-only view."""
    if type(argument) is not np.ndarray:
        return argument
    view = argument.view()
    view.flags.writeable = False
    return view


def _number(numbers: dict[Any, int], array: Any) -> int:
    found = numbers.get(place_of(array)) if isinstance(array, np.ndarray) else None
    if found is None:
        raise TranslationError("an array is neither an operand nor what a call computed")
    return found
