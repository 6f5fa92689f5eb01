"""Random md_homs: what no einsum says, on arrays of random layouts.

Operators of all kinds, prefix sums, chains of them; scalar functions of several elements and of
indices; stencils, diagonals, gathers; epilogues; several transposed, stepped or shared outputs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mdtensor.translate.combine import CC, Combine, Pointwise, PrefixSum
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.scalar import BOOL, I64, Expr, apply, cast, const, index_of, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex
from tests.lower.random_operators import Combining, random_combining
from tests.lower.random_problems import EXTENTS, Operand, random_layout
from tests.lower.random_scalars import Term, fitted, random_term

POINTS = 6000
LARGEST_BUFFER = 100_000
LARGEST_INDEX = max(EXTENTS)
TYPES = ("f4", "f4", "f4", "f8", "f2", "i4", "i4", "i8", "i1", "i2", "u1", "u2", "u4", "u8", "?")


@dataclass(frozen=True)
class Drawn:
    """An md_hom, the layouts of its arrays, and the ranges from which elements are drawn.

    `exact` tells whether results have one right value, whatever the order of combination. The
    same seed with other extents gives the same structure on other shapes; what was not drawn has
    no seed.
    """

    seed: int | None
    md_hom: MDHom
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    ranges: tuple[tuple[int, int], ...]
    exact: bool


class UnsuitableError(Exception):
    """A drawn md_hom is too large, or has no elements of a type that is needed."""


def random_md_hom(rng: random.Random) -> Drawn:
    """Any md_hom of one to four dims."""
    while True:
        seed = rng.getrandbits(32)
        try:
            return drawn(seed)
        except UnsuitableError:
            continue


def drawn(seed: int, extents: Mapping[str, int] | None = None) -> Drawn:
    """The md_hom of a seed, with extents of its own or the given ones."""
    rng = random.Random(seed)
    names = [*"ijkl"[: rng.choices((1, 2, 3, 4), (3, 6, 4, 2))[0]]]
    own = _random_extents(rng, names)
    return _Drawing(rng, names, extents or own).result(seed)


def _random_extents(rng: random.Random, names: Sequence[str]) -> dict[str, int]:
    while True:
        extents = {name: rng.choice(EXTENTS) for name in names}
        if math.prod(extents.values()) <= POINTS:
            return extents


@dataclass
class _Input:
    """An input buffer while it is drawn: its type, and per access the index of every axis."""

    dtype: np.dtype
    low: int
    high: int
    accesses: list[list[AffineIndex | Expr]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)


@dataclass
class _Drawing:
    rng: random.Random
    names: list[str]
    extents: Mapping[str, int]
    buffers: list[_Input] = field(default_factory=list)
    leaves: list[Term] = field(default_factory=list)
    view: list[tuple[int, int]] = field(default_factory=list)
    selected: str = ""

    def result(self, seed: int) -> Drawn:
        rng = self.rng
        combining, combines = self._combines()
        self.selected = self._selected(combining, combines, random.Random(f"select {seed}"))
        maths = not combining.exact and rng.random() < 0.35
        for _ in range(rng.choices((1, 2, 3), (4, 5, 2))[0]):
            self._read(self._walked, gathers=True)
        scalar_view = list(self.view)
        if rng.random() < 0.4:
            self.leaves += [self._index(name) for name in self._walked]
        terms = self._elements(combining, maths)
        if self.selected:
            terms = self._where_selected(combining, terms)
        types = [self.buffers[b].dtype for b, _ in scalar_view]
        scalar = ScalarFunction(tuple(types), tuple(term.expr for term in terms), "f")
        kept = [
            name
            for name, combine in zip(self.names, combines, strict=True)
            if not isinstance(combine, Pointwise)
        ]
        exact = all(term.exact for term in terms)
        written = list(terms)
        if any(combine != CC for combine in combines):
            written = self._combined(combining, exact)
        finished, between = self._epilogue(combining, written, kept)
        inputs, accesses = self._inputs()
        epilogue = None
        if finished is not None:
            written = finished
            given = (*scalar.result_dtypes, *(self.buffers[b].dtype for b, _ in between))
            epilogue = Epilogue(
                ScalarFunction(given, tuple(term.expr for term in finished), "g"),
                tuple(accesses[b][a] for b, a in between),
            )
        outputs, out_view = self._outputs(written, kept)
        md_hom = MDHom(
            tuple(
                Dim(name, self.extents[name], combine)
                for name, combine in zip(self.names, combines, strict=True)
            ),
            scalar,
            tuple(BufferSpec(f"in{n}", operand.spec) for n, operand in enumerate(inputs)),
            tuple(BufferSpec(f"out{n}", operand.spec) for n, operand in enumerate(outputs)),
            tuple(accesses[b][a] for b, a in scalar_view),
            out_view,
            epilogue,
        )
        ranges = tuple((buffer.low, buffer.high) for buffer in self.buffers)
        all_exact = exact and all(term.exact for term in written)
        return Drawn(seed, md_hom, inputs, outputs, ranges, all_exact)

    # ---- operators

    def _combines(self) -> tuple[Combining, list[Combine]]:
        rng, rank = self.rng, len(self.names)
        kind = rng.choices(("map", "reduce", "scan", "chain"), (3, 6, 4, 3))[0]
        combining = random_combining(rng, POINTS, several=kind == "chain")
        operator = combining.operators[0]
        combines: list[Combine] = [CC] * rank
        if kind == "reduce":
            for d in rng.sample(range(rank), rng.randint(1, rank)):
                combines[d] = Pointwise(operator)
        elif kind == "scan":
            combines[rng.randrange(rank)] = PrefixSum(operator)
        elif kind == "chain":
            for d in rng.sample(range(rank), rng.randint(1, rank)):
                wanted = Pointwise if rng.random() < 0.6 else PrefixSum
                combines[d] = wanted(rng.choice(combining.operators))
        return combining, combines

    def _selected(
        self, combining: Combining, combines: Sequence[Combine], rng: random.Random
    ) -> str:
        """Now and then a dim that the scalar function selects, as a histogram does its bins."""
        operator = combining.operators[0]
        kept = [n for n, combine in zip(self.names, combines, strict=True) if combine == CC]
        reduced = any(isinstance(combine, Pointwise) for combine in combines)
        scanned = any(isinstance(combine, PrefixSum) for combine in combines)
        small = operator.name in ("add", "mul") or all(t.kind in "iu" for t in operator.dtypes)
        if not (kept and reduced and operator.identity and small) or scanned:
            return ""
        return rng.choice(kept) if len(combining.operators) == 1 and rng.random() < 0.4 else ""

    @property
    def _walked(self) -> list[str]:
        return [name for name in self.names if name != self.selected]

    def _where_selected(self, combining: Combining, terms: list[Term]) -> list[Term]:
        """The terms where the index of the selected dim is one that is computed."""
        identity = combining.operators[0].identity
        assert identity is not None
        condition = apply("eq", index_of(self.selected), self._place())
        results: list[Term] = []
        for term, neutral in zip(terms, identity, strict=True):
            expr = select(condition, term.expr, const(neutral, term.dtype))
            results.append(Term(expr, min(term.low, 0), max(term.high, 1), term.exact))
        return results

    def _combined(self, combining: Combining, exact: bool) -> list[Term]:
        """What is known of a finished tuple."""
        terms: list[Term] = []
        for n, (dtype, size) in enumerate(zip(combining.dtypes, combining.sums, strict=True)):
            low, high = (0, 1) if dtype == BOOL else (-size, size)
            terms.append(Term(param(n, dtype), low, high, exact or dtype.kind not in "fc"))
        return terms

    # ---- scalar functions

    def _elements(self, combining: Combining, maths: bool) -> list[Term]:
        terms: list[Term] = []
        for n, (dtype, limit) in enumerate(zip(combining.dtypes, combining.limits, strict=True)):
            if combining.mean and n == 1:
                terms.append(Term(const(1, dtype), 1, 1))
                continue
            terms.append(self._element(dtype, limit, maths))
        return terms

    def _element(self, dtype: np.dtype, limit: float, maths: bool) -> Term:
        for _ in range(20):
            depth = self.rng.choice((0, 1, 1, 2, 2, 3))
            term = random_term(self.rng, self.leaves, depth, maths=maths)
            found = fitted(term, dtype, limit)
            if found is not None:
                return found
        raise UnsuitableError

    def _index(self, name: str) -> Term:
        return Term(index_of(name), 0, LARGEST_INDEX)

    # ---- input view

    def _read(self, names: Sequence[str], *, gathers: bool) -> None:
        """One more input buffer, and what is read of it."""
        rng = self.rng
        gather = gathers and rng.random() < 0.25
        dtype = np.dtype(rng.choice(TYPES))
        if gathers and rng.random() < 0.04:
            dtype = np.dtype(rng.choice(("c8", "c16")))
        low, high = _range(rng, dtype)
        buffer = _Input(dtype, low, high)
        self.buffers.append(buffer)
        rank = rng.choices((0, 1, 2, 3), (1, 5, 8, 2))[0]
        computed = rng.randrange(rank) if gather and rank else -1
        axes = [self._coefficients(names) for _ in range(rank)]
        buffer.lengths = [0] * rank
        if computed >= 0:
            buffer.lengths[computed] = rng.choice((1, 2, 3, 5, 8, 16))
        for number in range(rng.choices((1, 2, 3), (7, 3, 1))[0]):
            if number and rng.random() < 0.3 and computed < 0:
                rng.shuffle(axes)
            index: list[AffineIndex | Expr] = []
            for axis, coefficients in enumerate(axes):
                offset = rng.choice((0, 0, 0, 1, 2, 3))
                index.append(
                    self._place() if axis == computed else AffineIndex(coefficients, offset)
                )
            buffer.accesses.append(index)
        if rng.random() < 0.3:
            rng.shuffle(buffer.accesses)
        number = len(self.buffers) - 1
        for access in range(len(buffer.accesses)):
            position = len(self.view)
            self.view.append((number, access))
            self.leaves.append(Term(param(position, dtype), low, high))

    def _coefficients(self, names: Sequence[str]) -> tuple[tuple[str, int], ...]:
        rng = self.rng
        if not names or rng.random() < 0.06:
            return ()
        first = (rng.choice(names), rng.choice((1, 1, 1, 1, 1, 1, -1, 2, 3, -2)))
        second = (rng.choice(names), rng.choice((1, 1, 2, -1)))
        if rng.random() < 0.12 and second[0] != first[0]:
            return (first, second)
        return (first,)

    def _place(self) -> Expr:
        """A computed index: any function of dims and of integers that are read before."""
        rng = self.rng
        leaves = [self._index(name) for name in self._walked]
        whole = [leaf for leaf in self.leaves if leaf.kind in "iu"]
        leaves += [leaf for leaf in (*whole, *self.leaves) if leaf.kind != "c"]
        for _ in range(20):
            found = fitted(random_term(rng, leaves, rng.choice((0, 0, 1, 2))), I64, math.inf)
            if found is not None:
                return found.expr
        raise UnsuitableError

    def _inputs(self) -> tuple[tuple[Operand, ...], list[list[BufferAccess]]]:
        """Layouts of the buffers, large enough for what is read, and the accesses."""
        rng = self.rng
        operands: list[Operand] = []
        accesses: list[list[BufferAccess]] = []
        for number, buffer in enumerate(self.buffers):
            rank = len(buffer.lengths)
            bounds = [
                [
                    index[axis].bounds(self.extents)
                    for index in buffer.accesses
                    if isinstance(index[axis], AffineIndex)
                ]
                for axis in range(rank)
            ]
            lows = [min((low for low, _ in found), default=0) for found in bounds]
            slack = [rng.choice((0, 0, 0, 1, 2)) for _ in range(rank)]
            shape = tuple(
                buffer.lengths[axis]
                or max(high for _, high in bounds[axis]) - lows[axis] + 1 + slack[axis]
                for axis in range(rank)
            )
            layout = random_layout(rng, _name(buffer.dtype), shape, broadcast=True)
            if layout.span > LARGEST_BUFFER or math.prod(shape) > LARGEST_BUFFER:
                raise UnsuitableError
            operands.append(layout)
            accesses.append([_access(number, index, lows) for index in buffer.accesses])
        return tuple(operands), accesses

    # ---- epilogue

    def _epilogue(
        self, combining: Combining, held: list[Term], kept: list[str]
    ) -> tuple[list[Term] | None, list[tuple[int, int]]]:
        """The terms of an epilogue on a tuple, and what it reads; None for none."""
        rng = self.rng
        if not combining.mean and rng.random() < 0.6:
            return None, []
        own = [Term(param(n, term.dtype), *_span(term)) for n, term in enumerate(held)]
        if combining.mean:
            own = self._mean(own)
        before = len(self.view)
        for _ in range(rng.choice((0, 1, 1, 2))):
            self._read(kept, gathers=False)
        between = self.view[before:]
        count = len(held)
        leaves = [*own, *own]
        for n, (buffer, _) in enumerate(between):
            given = self.buffers[buffer]
            leaves.append(Term(param(count + n, given.dtype), given.low, given.high))
        if rng.random() < 0.2:
            leaves += [self._index(name) for name in kept]
        results: list[Term] = []
        for n in range(rng.choice((1, 1, 1, 2))):
            term = random_term(rng, leaves, rng.choice((1, 2, 2, 3)))
            if n == 0 and not term.exact and rng.random() < 0.7:
                term = random_term(rng, own, 1)
            results.append(term)
        return results, between

    @staticmethod
    def _mean(own: list[Term]) -> list[Term]:
        total, count = own
        return [Term(apply("div", total.expr, cast(count.expr, total.dtype)), -50, 50, exact=False)]

    # ---- output view

    def _outputs(
        self, written: list[Term], kept: list[str]
    ) -> tuple[tuple[Operand, ...], tuple[BufferAccess, ...]]:
        rng = self.rng
        types = [_stored(rng, term) for term in written]
        shared = len(types) > 1 and len(set(types)) == 1 and rng.random() < 0.4
        if shared:
            index, shape = self._place_results(kept)
            axis = rng.randint(0, len(index))
            index.insert(axis, AffineIndex())
            shape.insert(axis, len(types))
            view = []
            for n in range(len(types)):
                index[axis] = AffineIndex(offset=n)
                view.append(BufferAccess(0, tuple(index)))
            return (self._output(types[0], shape),), tuple(view)
        operands: list[Operand] = []
        view = []
        for n, dtype in enumerate(types):
            index, shape = self._place_results(kept)
            operands.append(self._output(dtype, shape))
            view.append(BufferAccess(n, tuple(index)))
        return tuple(operands), tuple(view)

    def _place_results(self, kept: list[str]) -> tuple[list[AffineIndex], list[int]]:
        """An axis for every kept dim, and now and then one more."""
        rng = self.rng
        order = rng.sample(kept, len(kept)) if rng.random() < 0.4 else list(kept)
        index: list[AffineIndex] = []
        shape: list[int] = []
        for name in order:
            extent = self.extents[name]
            coefficient = rng.choice((1, 1, 1, 1, 1, -1, 2, -2))
            offset = rng.choice((0, 0, 0, 1, 2))
            slack = rng.choice((0, 0, 1))
            span = abs(coefficient) * (extent - 1)
            index.append(
                AffineIndex(((name, coefficient),), offset + (span if coefficient < 0 else 0))
            )
            shape.append(offset + span + 1 + slack)
        if rng.random() < 0.1:
            index.append(AffineIndex(offset=1))
            shape.append(3)
        return index, shape

    def _output(self, dtype: str, shape: Sequence[int]) -> Operand:
        layout = random_layout(self.rng, dtype, tuple(shape), broadcast=False)
        if layout.span > LARGEST_BUFFER:
            raise UnsuitableError
        return layout


def _span(term: Term) -> tuple[float, float, bool]:
    return term.low, term.high, term.exact


def _range(rng: random.Random, dtype: np.dtype) -> tuple[int, int]:
    """Least and largest element: small numbers, or for integers now and then all of them."""
    if dtype == BOOL:
        return 0, 1
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if rng.random() < 0.25:
            return int(info.min), int(info.max)
        return max(int(info.min), -9), 9
    return (-2, 2) if dtype.kind == "c" else (-4, 4)


def _access(number: int, index: Sequence[AffineIndex | Expr], lows: Sequence[int]) -> BufferAccess:
    """The access with its indices moved to where the buffer begins."""
    axes: list[AffineIndex | ComputedIndex] = []
    for axis, low in zip(index, lows, strict=True):
        if isinstance(axis, AffineIndex):
            axes.append(AffineIndex(axis.coefficients, axis.offset - low))
        else:
            axes.append(ComputedIndex(axis))
    return BufferAccess(number, tuple(axes))


def _name(dtype: np.dtype) -> str:
    return "?" if dtype == BOOL else dtype.str[1:]


def _stored(rng: random.Random, term: Term) -> str:
    """The type of an output: the term's own, or one that NumPy would convert to in silence."""
    dtype = term.dtype
    if rng.random() < 0.85:
        return _name(dtype)
    if dtype.kind in "fc":
        wider = {"f": ("f2", "f4", "f8", "c8", "c16"), "c": ("c8", "c16")}[dtype.kind]
        return rng.choice(wider)
    if dtype == BOOL:
        return rng.choice(("?", "i4", "u1", "f4"))
    # Integers of any size convert to floats with one rounding, but to halves with two.
    sizes = [f"{dtype.kind}{size}" for size in (1, 2, 4, 8)]
    return rng.choice((*sizes, "f8", "f4"))


def random_elements(
    operand: Operand, limits: tuple[int, int], rng: np.random.Generator
) -> np.ndarray:
    """Whole numbers between limits, of the operand's type."""
    dtype = np.dtype(operand.dtype)
    low, high = limits
    if dtype.kind in "iu":
        return rng.integers(low, high, operand.shape, dtype, endpoint=True)
    values = rng.integers(low, high, operand.shape, endpoint=True)
    if dtype.kind == "c":
        return (values + 1j * rng.integers(low, high, operand.shape)).astype(dtype)
    return values.astype(dtype)
