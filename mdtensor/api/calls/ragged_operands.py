"""Calls on ragged batches: a front end's dense computation, run over all sequences' values.

Operands are replaced by their values; arrays that say where sequences lie follow the others.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from mdtensor.api.arrays.operands import array_module, as_array
from mdtensor.api.arrays.ragged import Offsets, Ragged
from mdtensor.api.calls.program_calls import Build, call, planner
from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, ShapeError, SubscriptError, TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.subscripts import ELLIPSIS, SubscriptIndex, Subscripts, Term
from mdtensor.translate.md_hom_program import Program, Step
from mdtensor.translate.rewrites.ragged_dims import (
    OFFSETS,
    ROWS,
    RaggedDims,
    over_values,
    ragged_axes,
    spec_of_values,
)
from mdtensor.translate.rewrites.stages import staged

_KEPT = 1000  # characters of a string of which is kept what it says
_PADDED = "r.padded(fill) is a dense array of a ragged batch r"


@dataclass(frozen=True, slots=True)
class RaggedOperands:
    """Operands with ragged batches of equal lengths at the positions `numbers`."""

    numbers: tuple[int, ...]
    given: tuple[Any, ...]
    offsets: Offsets

    @property
    def values(self) -> tuple[Any, ...]:
        """The operands, with each ragged batch replaced by its values."""
        return tuple([o.values if isinstance(o, Ragged) else o for o in self.given])


def ragged_operands(operands: Sequence[object]) -> RaggedOperands | None:
    """The operands of a call with ragged ones; None if all are dense.

    Raises ShapeError where ragged operands differ in lengths, DTypeError where others are on a GPU.
    """
    found = [(n, o) for n, o in enumerate(operands) if isinstance(o, Ragged)]
    if not found:
        return None
    first, offsets = found[0][0], found[0][1].shared_offsets
    for number, other in found[1:]:
        if not offsets.equals(other.shared_offsets):
            raise ShapeError(
                f"operands {first} and {number} are ragged batches of other lengths:"
                f" {found[0][1]!r} and {other!r}",
                hint="ragged operands of a call have the same offsets",
            )
    if array_module(operands) is not np:
        raise DTypeError(
            "a ragged batch of NumPy and arrays on a GPU in one call", hint="copy them by a.get()"
        )
    given = [
        as_array(f"operand {n}", o, np)
        if not hasattr(o, "shape") and not isinstance(o, Ragged)
        else o
        for n, o in enumerate(operands)
    ]
    return RaggedOperands(tuple([n for n, _ in found]), tuple(given), offsets)


def call_on_ragged(
    key: Hashable,
    operands: RaggedOperands,
    subscripts: Subscripts,
    build: Build,
    out: Any,
    *,
    otherwise: Build | None = None,
    takes_rows: bool = False,
    extents: Collection[str] = (),
    casting: str = "same_kind",
) -> Any:
    """Runs a front end's dense computation on ragged operands, as `call` does.

    `build` makes it from specs of dense operands, or `otherwise` does where it makes steps that
    values do not tell. A result that keeps batch and sequences is
    ragged; `out` is then too. `takes_rows` says that functions may use indices, so that the number
    of its sequence may be needed for each value. `extents` are the dims that the caller gives one.

    Raises what `call` raises, SubscriptError where the string names no dims of the ragged operands,
    ShapeError where sequences are longer than a dense axis, and TranslationError for results that
    values do not tell.
    """
    if planner.get() is not None:
        raise DTypeError(
            "plans and gradients take no ragged batches",
            hint="call with ragged batches instead; r.values is an array",
        )
    read = _read if len(subscripts.text) <= _KEPT else _read.__wrapped__
    said = read(subscripts, operands.numbers, takes_rows=takes_rows)
    layout = said.layout
    if given := sorted({layout.batch, layout.sequence}.intersection(extents)):
        raise SubscriptError(
            f"extents gives dim {given[0]!r} of a ragged batch an extent",
            hint="its sequences have their own lengths; r[:n] is the batch of the first n",
        )
    for number, axis in said.along:
        if _extent(operands.given[number], axis) != 1:
            _check_length(operands, number, axis)
            layout = replace(layout, sequence_of=(number, axis))
    offsets = operands.offsets
    more = {OFFSETS: lambda: offsets.array, ROWS: lambda: offsets.rows}
    given = (*operands.values, *(more[name]() for name in layout.more))
    build = layout.built(build, otherwise)
    if not layout.is_kept:
        return call((key, layout), given, build, out, casting=casting)
    written: Any = None
    if out is not None:
        several = tuple([target.values for target in _targets(out, offsets)])
        written = several if isinstance(out, tuple) else several[0]
    result = call((key, layout), given, build, written, casting=casting)
    if out is not None:
        return cast("Any", out)
    if isinstance(result, tuple):
        return tuple([Ragged(r, offsets) for r in cast("tuple[Any, ...]", result)])
    return Ragged(result, offsets)


def check_positions(subscripts: Subscripts, operands: RaggedOperands, name: str) -> None:
    """Raises TranslationError or ShapeError for positions that ragged sequences cannot give."""
    _, sequence = _named(subscripts, operands.numbers)
    kept = {index.name for index in subscripts.output or ()}
    reduced = {i.name for term in subscripts.inputs for i in term} - kept
    if sequence in reduced and reduced != {sequence}:
        raise TranslationError(
            f"{name} of ragged sequences along several dims: {', '.join(sorted(reduced))}",
            hint=f"combine {sequence!r} alone, or let f return (value, index)",
        )
    if sequence in reduced and not operands.offsets.lengths.all():
        empty = int((operands.offsets.lengths == 0).argmax())
        raise ShapeError(
            f"{name} of no elements: sequence {empty} is empty",
            hint="an f that returns (value, index) gives the operator's identity",
        )


@dataclass(frozen=True, slots=True)
class _Layout:
    """The ragged operands of a call, their dims, and the kinds of additional arrays, `more`.

    `sequence_of` is a dense operand and its axis of sequences, if there is one. Results that are
    `is_kept` are ragged.
    """

    numbers: tuple[int, ...]
    batch: str
    sequence: str
    more: tuple[str, ...]
    sequence_of: tuple[int, int] | None
    is_kept: bool

    def built(self, build: Build, otherwise: Build | None) -> Build:
        """A builder over all sequences' values, from one of dense operands.

        Or to that which `otherwise` makes, where values do not tell a step of the first one.
        """

        def over_sequences(specs: tuple[TensorSpec, ...]) -> Program:
            dense = self._dense(specs[: len(specs) - len(self.more)], specs)
            try:
                return self._over_values(staged(build(dense)), specs)
            except TranslationError:
                if otherwise is None:
                    raise
            return self._over_values(staged(otherwise(dense)), specs)

        return over_sequences

    def _dense(
        self, given: tuple[TensorSpec, ...], specs: tuple[TensorSpec, ...]
    ) -> tuple[TensorSpec, ...]:
        """Specs of dense stand-ins, whose sequences have no length of 1, which broadcasts."""
        count = specs[self.numbers[0]].shape[0]
        batch = specs[len(given)].shape[0] - 1 if OFFSETS in self.more else 2
        length = count if count > 1 else 2
        if self.sequence_of is not None:
            operand, axis = self.sequence_of
            length = given[operand].shape[axis]
        return tuple(
            [
                TensorSpec.of((batch, length, *spec.shape[1:]), spec.dtype)
                if n in self.numbers
                else spec
                for n, spec in enumerate(given)
            ]
        )

    def _over_values(self, dense: Program, specs: tuple[TensorSpec, ...]) -> Program:
        count = specs[self.numbers[0]].shape[0]
        behind = dict(zip(self.more, specs[dense.operands :], strict=True))
        places = {name: dense.operands + n for n, name in enumerate(self.more)}
        dims = RaggedDims(self.batch, self.sequence, count, behind)
        # Slots of the dense computation that are ragged: their specs and axes.
        ragged = {n: (specs[n], 0, 1) for n in self.numbers}
        for number, dtype in dense.converted:
            if number in ragged:
                ragged[number] = (TensorSpec.of(specs[number].shape, dtype), 0, 1)

        def slot(number: int) -> int:
            return number if number < dense.operands else number + len(self.more)

        results = list(dense.specs)
        steps: list[Step] = []
        for step in dense.steps:
            md_hom, operands = step.md_hom, tuple(map(slot, step.operands))
            if self.sequence in md_hom.extents and any(n in ragged for n in step.operands):
                inputs = {k: ragged[n] for k, n in enumerate(step.operands) if n in ragged}
                md_hom, more = over_values(md_hom, inputs, dims)
                axes = {a.buffer: ragged_axes(a, dims) for a in step.md_hom.out_view}
                operands += tuple([places[name] for name in more])
                for n, number in enumerate(step.results):
                    if (at := axes[n]) is not None:
                        spec = md_hom.outputs[n].spec
                        ragged[number] = (spec, *at)
                        results[number - dense.operands] = spec
            steps.append(Step(md_hom, operands, tuple(map(slot, step.results))))
        if self.is_kept and not dense.steps:
            results = [spec_of_values(spec, 0, 1, count) for spec in results]
        own = len(dense.results)
        return replace(
            dense,
            operands=len(specs),
            results=tuple(results[:own]),
            temporaries=tuple(results[own:]),
            steps=tuple(steps),
            alternatives=None,
        )


@dataclass(frozen=True, slots=True)
class _Said:
    """The parsed ragged layout of a string, with the dense axes along sequences."""

    layout: _Layout
    along: tuple[tuple[int, int], ...]


def _named(subscripts: Subscripts, numbers: Sequence[int]) -> tuple[str, str]:
    """The names of the batch and the sequence dim in the ragged operands' terms."""
    if len(subscripts.terms) <= max(numbers):
        raise SubscriptError(
            f"the string has {len(subscripts.terms)} terms, but operand {max(numbers)} is there",
            text=subscripts.text,
            hint="terms are separated by commas, one for each operand",
        )
    found: dict[tuple[str, str], Term] = {}
    for number in numbers:
        term = subscripts.terms[number]
        names = tuple([index.name for index in term[:2]])
        plain = len(term) > 1 and all(map(_is_plain, term[:2])) and names[0] != names[1]
        if not plain or any(_uses(index, names) for index in term[2:]):
            raise SubscriptError(
                f"operand {number} is a ragged batch, whose first indices are batch and sequence",
                text=subscripts.text,
                carets=[index.column for index in term[:2]],
                hint="two names of their own: 'btd->bd' combines the sequences of a batch",
            )
        found.setdefault((names[0], names[-1]), term[:2])
    if len(found) > 1:
        raise SubscriptError(
            "ragged operands differ in the names of batch and sequence",
            text=subscripts.text,
            carets=[index.column for first in found.values() for index in first],
            hint="sequences of a call are one dim of one batch; [f(q, k) for q, k in zip(r, s)]"
            f" calls for one after the other; {_PADDED}",
        )
    return next(iter(found))


def _is_plain(index: SubscriptIndex) -> bool:
    return index.name != ELLIPSIS and index.sum.name is not None


def _uses(index: SubscriptIndex, names: Sequence[str]) -> bool:
    if index.name == ELLIPSIS:
        return False
    return any(name in names for name, _ in index.sum.dims)


@lru_cache(256)
def _read(subscripts: Subscripts, numbers: tuple[int, ...], *, takes_rows: bool) -> _Said:
    """Parse the ragged layout of a string; raises what `_named` raises.

    And TranslationError where sequences remain that values do not tell.
    """
    batch, sequence = _named(subscripts, numbers)
    names = [index.name for index in subscripts.output or ()]
    if sequence in names and names[:2] != [batch, sequence]:
        raise TranslationError(
            f"a ragged result begins with the dims {batch!r} and {sequence!r}",
            hint=f"'…->{batch}{sequence}…' is ragged, without {sequence!r} it is dense; {_PADDED}",
        )
    dense = [(n, term) for n, term in enumerate(subscripts.terms) if n not in numbers]
    walks_batch = any(_uses(index, (batch,)) for _, term in dense for index in term)
    along = [
        (n, _axis(term, at))
        for n, term in dense
        for at, index in enumerate(term)
        if _uses(index, (sequence,))
    ]
    more: list[str] = []
    is_range = batch in names and sequence not in names
    takes_rows = takes_rows or walks_batch or bool(along)
    if is_range or takes_rows:
        more.append(OFFSETS)
    if takes_rows and (not is_range or len(subscripts.terms) > 2):
        more.append(ROWS)
    layout = _Layout(numbers, batch, sequence, tuple(more), None, sequence in names)
    return _Said(layout, tuple(along))


def _axis(term: Term, at: int) -> int:
    """The axis of an index in a term, counted from the end where an ellipsis precedes it."""
    is_behind = any(index.name == ELLIPSIS for index in term[:at])
    return at - len(term) if is_behind else at


def _extent(operand: Any, axis: int) -> int:
    shape: tuple[int, ...] = getattr(operand, "shape", ())
    return shape[axis] if -len(shape) <= axis < len(shape) else 1


def _check_length(operands: RaggedOperands, number: int, axis: int) -> None:
    """Raises ShapeError where a sequence is longer than the axis of a dense operand."""
    extent, longest = _extent(operands.given[number], axis), operands.offsets.longest
    if longest > extent:
        raise ShapeError(
            f"a sequence has length {longest}, but axis {axis} of operand {number} has extent"
            f" {extent}",
            hint="dense axes along sequences are as long as the longest of them, or longer",
        )


def _targets(out: Any, offsets: Offsets) -> tuple[Ragged, ...]:
    """The ragged batches for the results."""
    given = cast("tuple[Any, ...]", out) if isinstance(out, tuple) else (out,)
    for each in given:
        if not isinstance(each, Ragged) or not offsets.equals(each.shared_offsets):
            raise ShapeError(
                "the result is ragged, and out is no ragged batch of the same lengths",
                hint="r.with_values(numpy.empty(…)) is a batch of the lengths of r",
            )
    return given
