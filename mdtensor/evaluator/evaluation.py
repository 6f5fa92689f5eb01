"""The evaluator: an `md_hom` interpreted by NumPy's functions on whole arrays, tile by tile.

What runs once need not wait for a compiler. An evaluation follows from the `md_hom` alone: its
accesses are strided views, its scalar function is NumPy's functions on whole arrays, in the types
that kernels compute in, and its operators are `reduce` and `accumulate` of ufuncs; operators that
no ufunc is combine neighbours. Sums of products of two operands are products of matrices.
Results differ from those of kernels by rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.evaluator.array_views import ArrayView, Range, array_view, cut, gathered, loaded
from mdtensor.evaluator.batched_matmul import batched_matmul_of, held
from mdtensor.evaluator.operation_costs import (
    BY_BLAS,
    CALL,
    COPIED,
    IN_TURN,
    LINE,
    SIMPLE,
    WITHOUT_BLAS,
    seconds_of,
    seconds_of_node,
    seconds_to_convert,
)
from mdtensor.forks import cached_property
from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.combine import Concat, Operator, Pointwise
from mdtensor.translate.graphs import in_order
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.operations import OPERATIONS
from mdtensor.translate.scalar import Expr
from mdtensor.translate.trees import evaluated
from mdtensor.translate.views import BufferAccess

# Bytes of the arrays that a part is computed by: as many as fit in a core's cache. Freed arrays of
# twice as much go back to the system, and come again page by page. And elements of a window's copy,
# which fit in the processor's: products of small matrices leave BLAS too little between the
# meetings of its threads.
BYTES, ELEMENTS = 1 << 18, 1 << 20
# Elements of a row of memory that are read together at least, where others can be left for later.
RUN = 1 << 9
# The most terms that a matrix product accumulates in turn, to bound the rounding error.
TERMS = 1 << 14
# Elements of lines that `reduce` combines place after place, and not line after line.
SHORT = 16
Arrays = Sequence[np.ndarray]
Values = list[np.ndarray]


@dataclass(frozen=True, slots=True)
class AxisCombination:
    """The combine operator of neighbouring axes, as one ufunc per tuple element if it has them."""

    axes: tuple[int, ...]
    operator: Operator
    ufuncs: tuple[np.ufunc, ...] | None
    stays: bool

    def __call__(self, values: Values) -> Values:
        """Combine values along the axes, which get extent 1 unless the dims stay."""
        if self.ufuncs is None:
            along = reference.scanned if self.stays else reference.combined
            for axis in reversed(self.axes):
                values = along(_Typed(self.operator), axis, values)
            return values
        pairs = zip(self.ufuncs, values, strict=True)
        if self.stays:
            [axis] = self.axes
            return [ufunc.accumulate(value, axis, value.dtype) for ufunc, value in pairs]
        along = _reduced_in_turn if self._is_short(values[0].shape) else _reduced
        return [along(ufunc, value, self.axes) for ufunc, value in pairs]

    def _is_short(self, shape: Sequence[int]) -> bool:
        """Whether innermost lines are so short that per-line overhead dominates `reduce`."""
        combined = math.prod([shape[axis] for axis in self.axes])
        is_innermost = len(shape) - 1 in self.axes
        return (
            is_innermost
            and shape[-1] <= SHORT
            and combined <= 4 * SHORT < math.prod(shape) // combined
        )

    def seconds(self, shape: Sequence[int]) -> float:
        """Estimated seconds to combine values of a shape."""
        points = math.prod(shape)
        each = sum([seconds_of_node(node) for node in in_order(self.operator.results) if node.args])
        if self.ufuncs is None:
            return 2 * points * each
        if self.stays:
            return points * (each + IN_TURN)
        if self._is_short(shape):
            return points * (each + SIMPLE)
        last = len(shape) - 1
        inner = itertools.takewhile(self.axes.__contains__, range(last, -1, -1))
        along = math.prod([shape[axis] for axis in inner])
        return points * (each + (LINE / along if last in self.axes else 0.0))


def _reduced(ufunc: np.ufunc, value: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """A reduction along axes, which get extent 1."""
    return np.asarray(ufunc.reduce(value, tuple(axes), value.dtype, keepdims=True))


def _reduced_in_turn(ufunc: np.ufunc, value: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """A reduction along axes by whole-array steps: one ufunc call per position on these axes."""
    total = None
    for place in itertools.product(*[range(value.shape[axis]) for axis in axes]):
        at = dict(zip(axes, place, strict=True))
        part = value[
            tuple([slice(at[a], at[a] + 1) if a in at else slice(None) for a in range(value.ndim)])
        ]
        total = part.copy() if total is None else ufunc(total, part, out=total)
    assert total is not None, "an index space that is evaluated is not empty"
    return total


@dataclass(frozen=True, slots=True)
class _Typed:
    """An operator evaluated on arrays, in the types that kernels compute in."""

    operator: Operator

    def __call__(self, lhs: Sequence[Any], rhs: Sequence[Any]) -> tuple[Any, ...]:
        return evaluated(self.operator.results, [*lhs, *rhs], types=held)


class Evaluation:
    """A program that interprets an `md_hom` by NumPy; `seconds` estimates what a launch takes."""

    def __init__(self, md_hom: MDHom) -> None:
        self._md_hom = md_hom
        self._dims = md_hom.dims
        self._stays = tuple(map(_stays, md_hom.dims))
        self._kept = tuple([d if _stays(d) else Dim(d.name, 1, d.combine) for d in md_hom.dims])
        self._matmul = batched_matmul_of(md_hom)
        self._reads = _views(md_hom.inp_view, md_hom.dims)
        epilogue = md_hom.epilogue
        self._after = () if epilogue is None else _views(epilogue.view, self._kept)
        self._writes = _views(md_hom.out_view, self._kept)
        self._combinations = () if self._matmul else _combinations(md_hom.dims)
        functions = [md_hom.scalar] if epilogue is None else [md_hom.scalar, epilogue.function]
        read = [str(n.value) for f in functions for n in in_order(f.results) if n.op == "index"]
        gathers = None in (*self._reads, *self._after)
        self._indexed = frozenset([dim.name for dim in md_hom.dims] if gathers else read)
        # Elements that ufuncs combine as they are lie in no array but the operands.
        elements = md_hom.scalar.results
        self._is_in_place = all(r.op == "param" and r.dtype != np.bool_ for r in elements) and all(
            combination.ufuncs and not combination.stays for combination in self._combinations
        )
        types = [each.spec.dtype for each in md_hom.inputs] + [each.dtype for each in elements]
        self._points = max(1, BYTES // max([held(dtype).itemsize for dtype in types]))
        self._whole = tuple([(0, dim.extent) for dim in md_hom.dims])
        self._runs = self._least_runs()
        self.seconds = self._estimate()

    def __call__(self, *arrays: np.ndarray) -> None:
        """Compute the outputs; the arguments are input arrays, then output arrays."""
        count = len(self._md_hom.inputs)
        inputs, outputs = arrays[:count], arrays[count:]
        with np.errstate(all="ignore"):
            accesses = zip(self._reads, self._md_hom.inp_view, strict=True)
            views = [view and view.of(inputs[access.buffer]) for view, access in accesses]
            for part in self._parts:
                results = self._finished(part, inputs, self._of(part, inputs, views))
                self._write(part, results, outputs)

    @property
    def has_window(self) -> bool:
        """Whether a matrix product reads one of its operands in overlapping windows."""
        sides = [] if self._matmul is None else [self._reads[n] for n in self._matmul.sides]
        return any(side is not None and side.repeats for side in sides)

    def launcher(self) -> Callable[..., None]:
        """The launch function: this object itself."""
        return self

    def bound(self, sizes: Sequence[int], inline: bool | None = None) -> Evaluation:
        """The program with its sizes bound: this object, which has none."""
        return self

    def beginner(
        self, *, behind: bool = False
    ) -> tuple[Callable[..., None], Callable[[], None] | None]:
        """The asynchronous launch and its wait: this object, which is synchronous, and None."""
        return self, None

    def _of(self, part: Sequence[Range], inputs: Arrays, views: Sequence[Any]) -> Values:
        """The result tuple of a part, computed in halves if too large along a combined dim."""
        halved = self._halves(part)
        if halved is None:
            return self._on(part, inputs, views)
        operator, lower, upper = halved
        both = [self._of(half, inputs, views) for half in (lower, upper)]
        return [*_Typed(operator)(*both)]

    def _on(self, part: Sequence[Range], inputs: Arrays, views: Sequence[Any]) -> Values:
        if self._matmul is not None:
            return [self._matmul([cut(views[n], part) for n in self._matmul.sides])]
        shape = tuple([high - low for low, high in part])
        indices = self._indices(part)
        elements: Values = []
        for view, access in zip(views, self._md_hom.inp_view, strict=True):
            if view is None:
                values = _valued(elements, indices)
                elements.append(loaded(gathered(inputs[access.buffer], access, indices, values)))
            else:
                elements.append(loaded(cut(view, part)))
        found = evaluated(self._md_hom.scalar.results, elements, indices, types=held)
        results = [np.asarray(result) for result in found]
        if self._combinations:
            results = [np.broadcast_to(result, shape) for result in results]
        for combination in self._combinations:
            results = combination(results)
        return results

    def _finished(self, part: Sequence[Range], inputs: Arrays, results: Values) -> Values:
        """The results of a part after the epilogue."""
        epilogue = self._md_hom.epilogue
        if epilogue is None:
            return results
        kept = self._kept_part(part)
        pairs = zip(self._after, epilogue.view, strict=True)
        views = [cut(view.of(inputs[a.buffer]), kept) for view, a in pairs if view is not None]
        given = [*results, *map(loaded, views)]
        indices = self._indices(kept)
        found = evaluated(epilogue.function.results, given, indices, types=held)
        return [np.asarray(value) for value in found]

    def _write(self, part: Sequence[Range], results: Values, outputs: Arrays) -> None:
        kept = self._kept_part(part)
        for view, access, result in zip(self._writes, self._md_hom.out_view, results, strict=True):
            assert view is not None, "outputs are affine"
            target = cut(view.of(outputs[access.buffer]), kept)
            is_real = result.dtype.kind == "c" and target.dtype.kind not in "bc"
            np.copyto(target, np.real(result) if is_real else result, casting="unsafe")

    def _kept_part(self, part: Sequence[Range]) -> list[Range]:
        pairs = zip(part, self._stays, strict=True)
        return [span if stays else (0, 1) for span, stays in pairs]

    def _indices(self, part: Sequence[Range]) -> Mapping[str, np.ndarray]:
        """Index arrays of a part, by name, for the dims whose index values are used."""
        rank = len(self._dims)
        return {
            dim.name: np.arange(*part[axis]).reshape([1] * axis + [-1] + [1] * (rank - axis - 1))
            for axis, dim in enumerate(self._dims)
            if dim.name in self._indexed
        }

    def _axes_to_halve(self, part: Sequence[Range]) -> list[int]:
        """The axes along which a too large part may be halved, the outermost first.

        So the innermost one stays long, along which NumPy's loops run, and runs of memory do. Of a
        product they are those along which its window moves, which is else copied for each part:
        first the rows of that matrix or its columns, of whichever it has more.
        """
        extents = [high - low for low, high in part]
        if self._matmul is None:
            fits = self._is_in_place or math.prod(extents) <= self._points
            return [] if fits else [n for n, e in enumerate(extents) if e > self._runs[n]]
        for side in [self._reads[n] for n in self._matmul.sides]:
            if side is not None and side.repeats:
                along = [n for n, steps in enumerate(side.steps) if steps and extents[n] > 1]
                inner = [n for n in along if n in self._matmul.inner]
                outer = [n for n in along if n not in inner]
                sizes = [math.prod([extents[n] for n in axes]) for axes in (outer, inner)]
                if math.prod(sizes) > ELEMENTS:
                    return [*outer, *inner] if sizes[0] >= sizes[1] else [*inner, *outer]
        return []

    @cached_property
    def _parts(self) -> list[tuple[Range, ...]]:
        """The index space split into parts whose arrays fit a cache."""
        return self._cut(self._whole)

    def _cut(self, part: tuple[Range, ...]) -> list[tuple[Range, ...]]:
        """A part split recursively into parts whose arrays fit a cache."""
        halves = self._kept_halves(part)
        return [each for half in halves for each in self._cut(half)] if halves else [part]

    def _kept_halves(self, part: Sequence[Range]) -> list[tuple[Range, ...]]:
        """The halves of a too large part along a concatenated dim; [] where none can be cut.

        Those of a product are along the first dim that its window should be cut along, or none.
        """
        axes = self._axes_to_halve(part)[: None if self._matmul is None else 1]
        kept = [n for n in axes if isinstance(self._dims[n].combine, Concat)]
        return [*_halved(part, kept[0])] if kept else []

    def _least_runs(self) -> list[int]:
        """The least extent of a part along each dim.

        It is `RUN` for concatenated dims along which the largest input lies element by element,
        where parts can be cut along combined ones instead.
        """
        runs, views = [1] * len(self._dims), list[tuple[ArrayView, TensorSpec]]()
        for view, access in zip(self._reads, self._md_hom.inp_view, strict=True):
            if view is not None:
                views.append((view, self._md_hom.inputs[access.buffer].spec))
        if views and not self._matmul and not all(self._stays):
            view, spec = max(views, key=lambda pair: math.prod(pair[0].extents))
            for axis, steps in enumerate(view.steps):
                if sum([spec.strides[along] * by for along, by in steps]) == 1:
                    runs[axis] = RUN
        return runs

    def _halves(
        self, part: Sequence[Range]
    ) -> tuple[Operator, Sequence[Range], Sequence[Range]] | None:
        """The operator and halves of a too large part, along a combined dim; None if it fits.

        It is the outermost combined one: others are combined within it.
        """
        axes = self._axes_to_halve(part)
        if self._matmul is not None:
            inner = [n for n in self._matmul.inner if part[n][1] - part[n][0] > 1]
            if math.prod([part[n][1] - part[n][0] for n in inner]) > TERMS:
                axes = inner
        for axis in axes:
            combine = self._dims[axis].combine
            if isinstance(combine, Pointwise):
                return combine.op, *_halved(part, axis)
            if not isinstance(combine, Concat):
                break
        return None

    def _estimate(self) -> float:
        """Estimated seconds of a call."""
        dims, points = self._dims, self._md_hom.points
        kept = math.prod([dim.extent for dim in self._kept])
        views = len(self._reads) + len(self._after) + len(self._writes)
        if self._matmul is not None:
            each = BY_BLAS.get(self._matmul.dtype.char, WITHOUT_BLAS)
            seconds = points * each + kept * SIMPLE
            for view, access in zip(self._reads, self._md_hom.inp_view, strict=True):
                if view is not None:
                    each = COPIED if view.repeats else SIMPLE
                    each += seconds_to_convert(self._md_hom.inputs[access.buffer].spec.dtype)
                    seconds += math.prod(view.extents) * each
            calls = 4 * views
        else:
            extents = {dim.name: dim.extent for dim in dims}
            results = self._md_hom.scalar.results
            seconds = seconds_of(results, [a.dims for a in self._md_hom.inp_view], extents)
            calls = views + len(in_order(results))
            for combination in self._combinations:
                seconds += combination.seconds([dim.extent for dim in dims])
                calls += 1 if combination.ufuncs else 40
        if self._md_hom.epilogue is not None:
            function = self._md_hom.epilogue.function
            calls += len(in_order(function.results))
            extents = {dim.name: dim.extent for dim in self._kept}
            names = tuple(extents)
            given = [names] * len(function.params)
            seconds += seconds_of(function.results, given, extents)
        pieces, part = 1, self._whole
        while halves := self._kept_halves(part):
            pieces, part = 2 * pieces, halves[-1]
        while halved := self._matmul and self._halves(part):
            pieces, part = 2 * pieces, halved[-1]
        if self._matmul is None and not self._is_in_place:
            pieces = max(pieces, points // self._points)
        written = sum([seconds_to_convert(output.spec.dtype) for output in self._md_hom.outputs])
        return seconds + kept * (SIMPLE + written) + pieces * calls * CALL


def _halved(part: Sequence[Range], axis: int) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    low, high = part[axis]
    before, after, middle = part[:axis], part[axis + 1 :], (low + high) // 2
    return (*before, (low, middle), *after), (*before, (middle, high), *after)


def _stays(dim: Dim) -> bool:
    return not isinstance(dim.combine, Pointwise)


def _views(accesses: Sequence[BufferAccess], dims: Sequence[Dim]) -> tuple[ArrayView | None, ...]:
    """The views of accesses; None for those that compute an index."""
    return tuple([array_view(each, dims) if each.is_affine else None for each in accesses])


def _valued(elements: Values, indices: Mapping[str, np.ndarray]) -> Callable[[Expr], Any]:
    return lambda expr: evaluated([expr], elements, indices, types=held)[0]


def _combinations(dims: Sequence[Dim]) -> tuple[AxisCombination, ...]:
    """The combinations of the combined dims, innermost first; dims of one operator merge."""
    found: list[AxisCombination] = []
    along = [
        pair for pair in reversed([*enumerate(dims)]) if not isinstance(pair[1].combine, Concat)
    ]
    for combine, pairs in groupby(along, key=lambda pair: pair[1].combine):
        assert not isinstance(combine, Concat)
        axes = tuple([axis for axis, _ in pairs])
        ufuncs, stays = ufuncs_of(combine.op), not isinstance(combine, Pointwise)
        each = [axes] if ufuncs and not stays else [(axis,) for axis in axes]
        found += [AxisCombination(group, combine.op, ufuncs, stays) for group in each]
    return tuple(found)


def ufuncs_of(operator: Operator) -> tuple[np.ufunc, ...] | None:
    """The ufunc of each element of an operator's tuples; None where one is no ufunc.

    >>> from mdtensor.translate.combine import named
    >>> ufuncs_of(named("max", ["f4"])), ufuncs_of(named("argmax", ["f4", "i8"]))
    ((<ufunc 'maximum'>,), None)
    """
    width, found = len(operator.dtypes), list[np.ufunc]()
    for n, (result, dtype) in enumerate(zip(operator.results, operator.dtypes, strict=True)):
        function: Any = OPERATIONS[result.op].evaluate if result.op in OPERATIONS else None
        numbers = [arg.number for arg in result.args if arg.op == "param"]
        if not isinstance(function, np.ufunc) or numbers != [n, n + width] or result.dtype != dtype:
            return None
        found.append(function)
    return tuple(found)
