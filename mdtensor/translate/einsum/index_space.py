"""Einsum strings with affine indices, resolved against operand shapes.

A dim that stands alone on an axis has its extent. The others follow from sums: `a*h + b*r + o` on
an axis of extent N gives h, where r is known, the largest extent that stays inside the axis.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, SubscriptError, shown
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.affine_index import AffineSum
from mdtensor.translate.einsum.contraction import ellipsis_span, miscounted, note_of, resolve
from mdtensor.translate.einsum.subscripts import ELLIPSIS, SubscriptIndex, Subscripts
from mdtensor.translate.views import AffineIndex


@dataclass(frozen=True, slots=True)
class IndexSpace:
    """Affine indices of the operands' axes, dims of the output, and extents of all dims.

    `finish` are the sums of the operands of an epilogue. `order` are the numbers of the operands,
    each after those whose elements are indices into it. An axis of extent 1 that a dim of another
    extent walks has an empty sum. The dims of `extents` are in the order of their first use.
    """

    inputs: tuple[tuple[AffineSum, ...], ...]
    output: tuple[str, ...]
    extents: Mapping[str, int]
    finish: tuple[tuple[AffineSum, ...], ...]
    order: tuple[int, ...]

    @property
    def index_operands(self) -> frozenset[int]:
        """Numbers of the operands used as indices into others."""
        sums = itertools.chain.from_iterable(self.inputs)
        return frozenset(number for axis in sums for number, _ in axis.elements)


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of an operand, with its affine index and position in the string."""

    operand: int
    number: int
    extent: int
    sum: AffineSum
    written: SubscriptIndex

    def bounds(self, extents: Mapping[str, int]) -> tuple[int, int]:
        """Smallest and largest index; dims of extent 0 count as 1."""
        least = {name: max(1, extents[name]) for name, _ in self.sum.dims}
        return AffineIndex(self.sum.dims, self.sum.offset).bounds(least)


def index_space(
    subscripts: Subscripts,
    specs: Sequence[TensorSpec],
    extents: Mapping[str, int] | None = None,
) -> IndexSpace:
    """Resolve a string with an arrow against the operands' specs.

    `extents` are those of dims that the shapes leave open, or that shall be smaller than an axis.

    Raises SubscriptError where number of operands, number of axes or extents do not fit, and where
    an extent follows from nothing; DTypeError where indices are not integers.

    >>> from mdtensor.translate.einsum.subscripts import parse
    >>> specs = (TensorSpec.of((8, 3)), TensorSpec.of((3, 3)))
    >>> index_space(parse("2h+r c, r c -> h"), specs).extents
    {'h': 3, 'r': 3, 'c': 3}
    """
    if subscripts.output is None:
        raise SubscriptError(
            "the output is missing",
            text=subscripts.text,
            carets=(len(subscripts.text),),
            hint="write the dims that remain after '->'",
        )
    terms = subscripts.terms if specs or any(subscripts.terms) else ()
    if len(terms) != len(specs):
        raise miscounted(subscripts, len(specs), (note_of(specs),) if specs else ())
    given = _checked(extents or {})
    if specs and not (subscripts.is_affine or subscripts.finish or given):
        resolve(subscripts, specs)  # it knows more to say where a classic string does not fit
    _check_elements(subscripts, specs)
    solver = _Solver(subscripts, specs, given)
    known = solver.solved()
    count = len(terms) - len(subscripts.finish)
    sums = [tuple(solver.placed(axis, known) for axis in operand) for operand in solver.axes]
    order = _order(subscripts, sums[:count])
    return IndexSpace(tuple(sums[:count]), solver.output(), known, tuple(sums[count:]), order)


def _order(subscripts: Subscripts, inputs: Sequence[tuple[AffineSum, ...]]) -> tuple[int, ...]:
    """A topological order of the operands: index operands first."""
    needed = {n: {e for axis in axes for e, _ in axis.elements} for n, axes in enumerate(inputs)}
    order: list[int] = []
    while waiting := [number for number in needed if number not in order]:
        ready = [number for number in waiting if needed[number].issubset(order)]
        if not ready:
            raise SubscriptError(
                f"operands {waiting} are indices into each other",
                text=subscripts.text,
                carets=[i.column for n in waiting for i in subscripts.inputs[n] if "@" in i.name],
                hint="give an array that is an index and is indexed too twice",
            )
        order += ready
    return tuple(order)


def _checked(extents: Mapping[str, int]) -> dict[str, int]:
    given: dict[str, int] = {}
    for name, extent in extents.items():
        if not (isinstance(cast("object", name), str) and name.isidentifier()):
            raise SubscriptError(f"extents names a dim {shown(name)}", hint="a name: {'r': 3}")
        try:
            given[name] = operator.index(extent)
        except TypeError:
            given[name] = -1
        if given[name] < 0:
            raise SubscriptError(
                f"extents gives dim {name!r} the extent {shown(extent)}",
                hint="whole numbers from 0 on",
            )
    return given


def _check_elements(subscripts: Subscripts, specs: Sequence[TensorSpec]) -> None:
    for term in subscripts.terms:
        for index in term:
            for number, _ in () if index.name == ELLIPSIS else index.sum.elements:
                if number >= len(subscripts.inputs):
                    raise SubscriptError(
                        f"'@{number}' is the element of an operand that is not there",
                        text=subscripts.text,
                        carets=(index.column,),
                        notes=(note_of(specs),),
                        hint="operands are counted from 0",
                    )
                if specs[number].dtype.kind not in "iu":
                    raise DTypeError(
                        f"operand {number} is used as an index, but its elements are"
                        f" {specs[number].dtype}",
                        text=subscripts.text,
                        carets=(index.column,),
                        hint="indices are integers; astype('i8') makes them so",
                    )


class _Solver:
    """Infers the extents of dims from the axes of all operands."""

    def __init__(
        self, subscripts: Subscripts, specs: Sequence[TensorSpec], given: Mapping[str, int]
    ) -> None:
        self.subscripts = subscripts
        self.given = given
        self.specs = specs
        spans = [ellipsis_span(subscripts, n, specs) for n in range(len(specs))]
        self._longest = max(spans, default=0)
        self.axes = [self._axes_of(n, spec, spans[n]) for n, spec in enumerate(specs)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Shapes and types of the operands, for error messages."""
        return (note_of(self.specs),) if self.specs else ()

    def _axes_of(self, operand: int, spec: TensorSpec, span: int) -> list[_Axis]:
        walked: list[tuple[AffineSum, SubscriptIndex]] = []
        for index in self.subscripts.terms[operand]:
            if index.name == ELLIPSIS:
                walked += [(AffineSum(((name, 1),)), index) for name in self._broadcast(span)]
            else:
                walked.append((index.sum, index))
        return [
            _Axis(operand, n, extent, *walk)
            for n, (extent, walk) in enumerate(zip(spec.shape, walked, strict=True))
        ]

    def _broadcast(self, span: int) -> list[str]:
        """Names of the last `span` ellipsis dims; the dots keep them apart from written names."""
        return [f"...{n}" for n in range(self._longest - span, self._longest)]

    def output(self) -> tuple[str, ...]:
        """Names of the output's dims."""
        assert self.subscripts.output is not None
        names: list[str] = []
        for index in self.subscripts.output:
            names += self._broadcast(self._longest) if index.name == ELLIPSIS else [index.name]
        return tuple(names)

    def solved(self) -> dict[str, int]:
        """The extents of all dims, in the order of their first use.

        Sums are solved by turns: each turn takes those in which one dim is unknown.
        """
        inputs = self.axes[: len(self.subscripts.inputs)]
        axes = list(itertools.chain.from_iterable(inputs))
        known = {**self._alone(axes), **self.given}
        while found := dict(self._turn(axes, known)):
            known |= found
        order = [name for axis in axes for name, _ in axis.sum.dims]
        for name in dict.fromkeys(order):
            if name not in known:
                raise self._ambiguous(name, axes, known)
        self._check_output(known)
        return {name: known[name] for name in dict.fromkeys([*order, *self.given])}

    def _alone(self, axes: Sequence[_Axis]) -> dict[str, int]:
        """Extents of dims that are an axis' whole index; extent 1 broadcasts."""
        fixed: dict[str, _Axis] = {}
        for axis in axes:
            name = axis.sum.name
            if name is None or name in self.given:
                continue
            before = fixed.setdefault(name, axis)
            if before.extent == 1:
                fixed[name] = axis
            elif axis.extent not in (1, before.extent):
                raise self._clash(name, before, axis)
        return {name: axis.extent for name, axis in fixed.items()}

    def _turn(self, axes: Sequence[_Axis], known: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        """Dims that are the only unknown in an index, each with its largest valid extent."""
        largest: dict[str, int] = {}
        for axis in axes:
            unknown = [name for name, _ in axis.sum.dims if name not in known]
            if len(unknown) == 1 and not axis.sum.elements:
                (name,) = unknown
                extent = self._largest(axis, name, known)
                largest[name] = min(extent, largest.get(name, extent))
        yield from largest.items()

    def _largest(self, axis: _Axis, name: str, known: Mapping[str, int]) -> int:
        """The largest extent of a dim that keeps the index within its axis."""
        low, high = axis.bounds({**known, name: 1})
        coefficient = dict(axis.sum.dims)[name]
        if axis.extent and (low < 0 or high >= axis.extent):
            fewer = f"{name!r} has extent 1 there already: make the other dims of the sum smaller"
            raise self._outside(axis, low, high, fewer)
        room = (axis.extent - 1 - high) // coefficient if coefficient > 0 else low // -coefficient
        return max(0, room + 1)

    def placed(self, axis: _Axis, known: Mapping[str, int]) -> AffineSum:
        """The checked index of an axis: within bounds, and empty where extent 1 broadcasts."""
        for name, _ in axis.sum.dims:
            if name not in known:
                raise self._ambiguous(name, [axis], known)
        alone = axis.sum.name
        if alone is not None and axis.extent == 1:
            return AffineSum()
        if alone is not None and alone not in self.given and axis.extent != known[alone]:
            raise SubscriptError(
                f"index {alone!r} has extent {known[alone]} but {axis.extent} in operand"
                f" {axis.operand}",
                text=self.subscripts.text,
                carets=(axis.written.column,),
                notes=self.notes,
            )
        low, high = axis.bounds(known)
        is_empty = any(extent == 0 for extent in known.values())
        if not axis.sum.elements and not is_empty and (low < 0 or high >= axis.extent):
            raise self._outside(axis, low, high)
        return axis.sum

    def _check_output(self, known: Mapping[str, int]) -> None:
        assert self.subscripts.output is not None
        for index in self.subscripts.output:
            if index.name != ELLIPSIS and index.name not in known:
                shown = ", ".join(map(repr, sorted(known)))
                raise SubscriptError(
                    f"index {index.name!r} of the output is in no operand",
                    text=self.subscripts.text,
                    carets=(index.column,),
                    notes=self.notes,
                    hint=(f"the operands have {shown}; " if shown else "")
                    + f"extents={{{index.name!r}: …}} adds a dim",
                )
        missing = set(self._broadcast(self._longest)) - set(self.output())
        if missing:
            raise SubscriptError(
                f"the output lacks the ellipsis, which stands for {len(missing)} dims",
                text=self.subscripts.text,
                carets=[i.column for t in self.subscripts.terms for i in t if i.name == ELLIPSIS],
                notes=self.notes,
                hint="write '...' in the output; to combine these dims, give them names",
            )

    def _clash(self, name: str, first: _Axis, second: _Axis) -> SubscriptError:
        return SubscriptError(
            f"index {first.written.name!r} has extent {first.extent} in operand {first.operand} but"
            f" {second.extent} in operand {second.operand}",
            text=self.subscripts.text,
            carets=(first.written.column, second.written.column),
            notes=self.notes,
            hint=f"extents={{{name!r}: …}} takes a part of the longer axis",
        )

    def _outside(self, axis: _Axis, low: int, high: int, hint: str | None = None) -> SubscriptError:
        smaller = next((name for name, c in axis.sum.dims if c > 0), None)
        if hint is None and smaller is not None:
            hint = f"extents={{{smaller!r}: …}} makes it end earlier"
        return SubscriptError(
            f"index {axis.written.name!r} of operand {axis.operand} runs from {shown(low)} to"
            f" {shown(high)},"
            f" but its axis has extent {axis.extent}",
            text=self.subscripts.text,
            carets=(axis.written.column,),
            notes=self.notes,
            hint=hint,
        )

    def _ambiguous(
        self, name: str, axes: Sequence[_Axis], known: Mapping[str, int]
    ) -> SubscriptError:
        axis = next(axis for axis in axes if name in dict(axis.sum.dims))
        unknown = [other for other, _ in axis.sum.dims if other not in known]
        shown = " and ".join(map(repr, unknown))
        several = len(unknown) > 1
        return SubscriptError(
            f"the extent{'s' if several else ''} of {shown} cannot be told from the shapes",
            text=self.subscripts.text,
            carets=(axis.written.column,),
            notes=self.notes,
            hint=f"give {'one' if several else 'it'} by extents={{{unknown[-1]!r}: …}}, or by an"
            f" operand that has {unknown[-1]!r} alone on an axis",
        )
