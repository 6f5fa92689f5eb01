"""Calls on a sparse array: a front end's dense computation, run over the stored elements.

The operand is replaced by its stored values; arrays that say where these lie follow the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import array_module, as_computed, spec_of
from mdtensor.api.arrays.sparse_arrays import (
    compressed_axis,
    coordinates_of_stored,
    is_sparse,
    listed_or_compressed,
    ranges_of_stored,
)
from mdtensor.api.calls.program_calls import Build, call, made
from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program, Step
from mdtensor.translate.rewrites.stored_elements import (
    axes_of_results,
    over_coordinates,
    over_ranges,
)


@dataclass(frozen=True, slots=True)
class StoredOperands:
    """Operands of which one, at `number`, is sparse: compressed or in coordinates.

    Elements that are stored twice are added up first where they must be `distinct`.
    """

    number: int
    given: tuple[Any, ...]
    distinct: bool

    @property
    def sparse(self) -> Any:
        """The sparse operand."""
        return self.given[self.number]

    @property
    def dense(self) -> tuple[Any, ...]:
        """The operands, with the sparse one replaced by its values."""
        return self.with_values(self.sparse.data)

    def with_values(self, values: Any) -> tuple[Any, ...]:
        """The operands with the sparse one replaced."""
        return (*self.given[: self.number], values, *self.given[self.number + 1 :])


@dataclass(frozen=True, slots=True)
class _Stored:
    """The layout of the sparse operand `number`: `more` arrays, of ranges or coordinates."""

    number: int
    dense: TensorSpec
    axis: int | None
    more: int

    def built(self, build: Build) -> Build:
        """A builder over stored elements, from one of dense operands."""

        def over_stored(specs: tuple[TensorSpec, ...]) -> Program:
            given = specs[: len(specs) - self.more]
            dense = tuple([self.dense if n == self.number else s for n, s in enumerate(given)])
            return self._over_stored(build(dense), specs)

        return over_stored

    def _over_stored(self, dense: Program, specs: tuple[TensorSpec, ...]) -> Program:
        values, behind = specs[self.number], specs[dense.operands :]
        for number, dtype in dense.converted:
            if number == self.number:
                values = TensorSpec.of(values.shape, dtype)

        def slot(number: int) -> int:
            return number if number < dense.operands else number + self.more

        steps: list[Step] = []
        for step in dense.steps:
            md_hom, operands = step.md_hom, tuple(map(slot, step.operands))
            if self.number in step.operands:
                md_hom = self._stored(md_hom, operands.index(self.number), values, behind)
                operands += tuple(range(dense.operands, len(specs)))
            steps.append(Step(md_hom, operands, tuple(map(slot, step.results))))
        return replace(dense, operands=len(specs), steps=tuple(steps), alternatives=None)

    def _stored(
        self, md_hom: MDHom, buffer: int, values: TensorSpec, behind: Sequence[TensorSpec]
    ) -> MDHom:
        if self.axis is None:
            return over_coordinates(md_hom, buffer, values, behind)
        return over_ranges(md_hom, buffer, self.axis, values, *behind)


def stored_operands(
    operands: Sequence[object], *, distinct: Callable[[], bool] = lambda: True
) -> StoredOperands | None:
    """The operands of a call with a sparse one; None if all are dense.

    Elements that are stored twice are added up, as scipy does, if they must be `distinct`.
    Raises DTypeError where several are sparse.
    """
    numbers = [n for n, operand in enumerate(operands) if is_sparse(operand)]
    if not numbers:
        return None
    if len(numbers) > 1:
        raise DTypeError(
            f"operands {' and '.join(map(str, numbers))} are sparse, and one may be",
            hint="a.toarray() stores all elements of a sparse array a",
        )
    (number,) = numbers
    listed = [listed_or_compressed(o) if n == number else o for n, o in enumerate(operands)]
    return StoredOperands(number, tuple(listed), distinct())


def call_on_stored(
    key: Hashable,
    operands: StoredOperands,
    build: Build,
    out: Any,
    *,
    otherwise: Build | None = None,
    casting: str = "same_kind",
) -> Any:
    """Runs a front end's dense computation on stored elements, as `call` does.

    `build` makes it from specs of dense operands, or `otherwise` does where it makes steps that
    stored elements do not tell. Results that rows remain in are computed row by row, of arrays
    that are stored so; so are those with further dims, for which arrays are converted. What is
    left is computed by coordinates.

    Raises what `call` raises, and TranslationError where stored elements do not tell the result.
    """
    sparse, number = operands.sparse, operands.number
    xp = array_module(operands.dense)
    arrays = as_computed(operands.dense, xp)
    dense = TensorSpec.of(sparse.shape, arrays[number].dtype)
    specs = tuple([dense if n == number else spec_of(a) for n, a in enumerate(arrays)])

    def chosen() -> _Results:
        try:
            return _results(build, specs, number)
        except TranslationError:
            if otherwise is None:
                raise
            return _results(otherwise, specs, number)

    results = made(("results of stored", key, number, specs), chosen)
    axis = results.axis if xp is np and _is_by_ranges(sparse, results) else None
    if axis is None:
        values, *more = coordinates_of_stored(sparse, distinct=operands.distinct)
    else:
        values, *more = ranges_of_stored(sparse, axis, distinct=operands.distinct)
    stored = _Stored(number, dense, axis, len(more))
    given = (*operands.with_values(values), *more)
    return call((key, stored), given, stored.built(results.build), out, casting=casting)


@dataclass(frozen=True, slots=True)
class _Results:
    """The axis of the sparse operand in the results, and whether these have other dims.

    `build` makes the computation.
    """

    axis: int | None
    with_others: bool
    build: Build


def _results(build: Build, specs: tuple[TensorSpec, ...], number: int) -> _Results:
    steps = [step for step in build(specs).steps if number in step.operands]
    found = [axes_of_results(step.md_hom, step.operands.index(number)) for step in steps]
    axis, with_others = found[0] if found else (None, False)
    return _Results(axis, with_others, build)


def _is_by_ranges(sparse: Any, results: _Results) -> bool:
    """Whether to loop over ranges: of a compressed array, or of one worth a conversion."""
    if results.axis is None or len(sparse.shape) != 2:
        return False
    return results.with_others or compressed_axis(sparse) == results.axis
