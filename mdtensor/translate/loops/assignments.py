"""From a loop nest's stores to parallel assignments that run one after the other.

Every store becomes a statement of its own around which the loops run (loop distribution), and an
update of an element over loops that its index does not have becomes a reduction. Both are proved
sound by the dependences, or refused with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from mdtensor.dataclass import dataclass
from mdtensor.errors import ProgramError
from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.affine_from_expr import affine_from_expr
from mdtensor.translate.loop_nests.carried import LengthyError, as_carried
from mdtensor.translate.loop_nests.reductions import reduction
from mdtensor.translate.loop_nests.source_loop_nest import (
    Loops,
    Nest,
    SourceLoop,
    SourceRead,
    SourceStore,
)
from mdtensor.translate.loop_nests.updates import identity, update_of
from mdtensor.translate.loops.dependences import Touch, carried_backwards, repeated
from mdtensor.translate.loops.scattered_stores import ScatterTarget, places_of
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.scalar import Expr, apply, const, param
from mdtensor.translate.trees import substitute
from mdtensor.translate.views import AffineIndex

PAIRS = 1 << 18
"""Pairs of stores in one loop among which dependences are looked for, at most."""

_GATHER = (
    "let a loop run over the elements of the output, and select in the body:"
    " out[b] += 1 if x[e] == b else 0"
)


@dataclass(frozen=True, slots=True)
class Assignment:
    """`buffer[index] = value` for every iteration of `kept`; reductions are entries of the nest.

    `also` are further elements of the buffer with their values, which have no reductions.
    """

    buffer: str
    index: tuple[AffineIndex, ...]
    kept: Loops
    value: Expr
    time: int
    node: ast.AST = field(compare=False, repr=False)
    also: tuple[tuple[tuple[AffineIndex, ...], Expr], ...] = ()

    @property
    def indices(self) -> tuple[tuple[AffineIndex, ...], ...]:
        """The indices that each iteration writes."""
        return self.index, *(index for index, _ in self.also)

    @property
    def values(self) -> tuple[Expr, ...]:
        """The values that each iteration writes."""
        return self.value, *(value for _, value in self.also)


def assignments(
    nest: Nest, source: FunctionSource, specs: Mapping[str, TensorSpec]
) -> list[Assignment]:
    """One assignment per store, in program order; `specs` are those of buffers.

    Raises ProgramError where a loop carries a dependence that is no reduction.
    """
    found = [
        _assignment(nest, source, time, specs[store.buffer])
        for time, store in enumerate(nest.stores)
    ]
    _check_order(nest, source)
    return found


def _assignment(nest: Nest, source: FunctionSource, time: int, spec: TensorSpec) -> Assignment:
    store = nest.stores[time]
    places = places_of(store, spec.shape, f"{store.buffer}_{time}_")
    dims = {dim for axis in places.index for dim in axis.dims}
    # A loop of one iteration reduces nothing, but values may depend on its variable.
    own = tuple(loop for loop in store.loops if loop.name in dims or loop.extent == 1)
    rest = tuple(loop for loop in store.loops if loop not in own)
    kept = (*own, *places.bins)
    if (loop := repeated(Touch(store.buffer, places.index, kept))) is not None:
        what = f"several iterations of loop {loop.variable!r} write one element of {store.buffer}"
        if own_reads(nest, store, time):
            raise _carried(source, what, store.node, loop, _GATHER)
        raise source.error(store.node, what, "write each element once")
    if rest:
        value = _reduced(nest, source, time, places, kept, rest)
    elif places.bins:
        value = _moved(nest, time, spec, places, kept)
    else:
        value = store.value
    return Assignment(store.buffer, places.index, kept, value, time, store.node)


def _moved(nest: Nest, time: int, spec: TensorSpec, places: ScatterTarget, kept: Loops) -> Expr:
    """The value of an element that at most one iteration of the other loops writes."""
    store = nest.stores[time]
    at = SourceRead(
        store.buffer, places.elements, spec.dtype, time, kept, store.conditions, store.node
    )
    before, held = nest.add(at), own_reads(nest, store, time)
    return places.where(substitute(store.value, dict.fromkeys(held, before)), before)


def _reduced(
    nest: Nest, source: FunctionSource, time: int, places: ScatterTarget, kept: Loops, rest: Loops
) -> Expr:
    """The value of an element after all iterations of the loops that its index lacks."""
    store = nest.stores[time]
    held = own_reads(nest, store, time)
    value = substitute(store.value, {n: _parameter(nest, held[0]) for n in held[1:]})
    update = update_of(value, held[0]) if held else None
    if update is None:
        raise _no_reduction(nest, source, time, places, kept, rest)
    _check_ranges(nest, source, store, places, rest)
    read = nest.entries[held[0]]
    assert isinstance(read, SourceRead)
    before = nest.add(replace(read, index=places.elements, loops=kept, time=time))
    if update.term is None or update.op is None:
        return before
    if read.dtype.kind in "iu" and update.term.dtype.kind not in "biu":
        raise source.error(
            store.node,
            f"{store.buffer} holds integers, so every step of the reduction would round",
            "reduce in a floating type and convert once at the end",
        )
    term = update.term
    if places.bins:
        term = places.where(term, const(identity(update.op, term), term.dtype))
    return apply(update.op, before, reduction(nest, update.op, term, rest, kept))


def _no_reduction(
    nest: Nest, source: FunctionSource, time: int, places: ScatterTarget, kept: Loops, rest: Loops
) -> ProgramError:
    """The error for iterations that write the same element without a known operator."""
    store = nest.stores[time]
    names = " and ".join(repr(loop.variable) for loop in rest)
    is_held = bool(own_reads(nest, store, time))
    ranges = [loop for loop in kept if loop.range is not None]
    if ranges:
        variable = ranges[0].variable
        return _carried(
            source,
            f"the bounds of loop {variable!r} are data, so iterations of loop {names} may write"
            f" the same elements of {store.buffer}",
            store.node,
            rest[0],
            f"go over the elements of {store.buffer}, and read which iteration each is of:"
            f" for {variable} in range(len(rows)): … rows[{variable}]",
        )
    operators = "+=, *=, = min(…) or = max(…), or name the operators by combine_ops(…)"
    if is_held:
        return _carried(
            source,
            f"loop {names} updates an element of {store.buffer} by no operator",
            store.node,
            rest[0],
            f"reduce by {operators}",
        )
    what = f"every iteration of loop {names} writes the same element of {store.buffer}"
    if places.bins:
        what = f"iterations of loop {names} may write the same element of {store.buffer}"
    error = source.error(
        store.node,
        f"{what}, and the last would win",
        f"a reduction is {operators}; a temporary needs an axis for the loop",
    )
    # A loop around whole nests may be meant to run in order, and then be written out.
    is_around = any(
        store.loops.index(rest[0]) < store.loops.index(loop) for loop in kept if loop in store.loops
    )
    return as_carried(error, rest[0]) if is_around or places.bins else error


def _check_ranges(
    nest: Nest, source: FunctionSource, store: SourceStore, places: ScatterTarget, rest: Loops
) -> None:
    """Checks that no data-dependent loop with varying bounds stores at computed indices."""
    for loop in rest if places.bins else ():
        if loop.range is not None and nest.dims_of(loop.range.begin, loop.range.end):
            raise source.error(
                store.node,
                f"{store.buffer} is written at an index that is data, inside of loop"
                f" {loop.variable!r}, whose bounds are data",
                f"go over all elements, and read the others' indices from an array: for"
                f" {loop.variable} in range(len(rows)): … rows[{loop.variable}]; of pointers,"
                " rows = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))",
            )


def _parameter(nest: Nest, position: int) -> Expr:
    return param(position, nest.entries[position].dtype)


def own_reads(nest: Nest, store: SourceStore, time: int) -> list[int]:
    """Entries that read the stored element itself, before the store of the same iteration."""
    return [
        position
        for position, read in nest.reads_of(store.value).items()
        if (read.buffer, read.index, read.loops) == (store.buffer, store.index, store.loops)
        and not any(s.buffer == store.buffer for s in nest.stores[read.time : time])
    ]


def _check_order(nest: Nest, source: FunctionSource) -> None:
    """Checks that loop distribution is valid: stores may run one after the other."""
    writes = [
        Touch(s.buffer, tuple(map(affine_from_expr, s.index)), s.loops, s.conditions)
        for s in nest.stores
    ]
    beside = _Beside(writes)
    for time, store in enumerate(nest.stores):
        own = own_reads(nest, store, time)
        for position, read in nest.reads_of(store.value, *store.index).items():
            if position not in own:
                _check_read(source, read, writes, beside, nest.stores, store)
        for later in beside.times(store.buffer, store.loops):
            if later <= time:
                continue
            loop = carried_backwards(writes[time], writes[later])
            if loop is not None:
                raise _carried(
                    source,
                    f"loop {loop.variable!r} writes an element of {store.buffer} here and again in"
                    f" line {_line(nest.stores[later].node)}, by turns",
                    store.node,
                    loop,
                    "write the two statements as loop nests of their own",
                )


class _Beside:
    """Times of writes by buffer and outermost loop, as only those in one loop can interleave."""

    def __init__(self, writes: Sequence[Touch]) -> None:
        self._times: dict[tuple[str, SourceLoop], list[int]] = {}
        for time, write in enumerate(writes):
            if write.loops:
                self._times.setdefault((write.buffer, write.loops[0]), []).append(time)
        if sum(len(times) ** 2 for times in self._times.values()) > PAIRS:
            raise LengthyError(f"more than {PAIRS} pairs of stores may depend on each other")

    def times(self, buffer: str, loops: Loops) -> Sequence[int]:
        """Times of writes to a buffer within the outermost of these loops."""
        return self._times.get((buffer, loops[0]), ()) if loops else ()


def _check_read(
    source: FunctionSource,
    read: SourceRead,
    writes: Sequence[Touch],
    beside: _Beside,
    stores: Sequence[SourceStore],
    reader: SourceStore,
) -> None:
    touch = Touch(
        read.buffer, tuple(map(affine_from_expr, read.index)), read.loops, read.conditions
    )
    for time in beside.times(read.buffer, read.loops):
        write = writes[time]
        first, second = (touch, write) if read.time <= time else (write, touch)
        loop = carried_backwards(first, second)
        if loop is None:
            continue
        where = "" if stores[time] is reader else f" in line {_line(stores[time].node)}"
        verb = (
            f"reads an element of {read.buffer} that an earlier iteration writes{where}"
            if read.time <= time
            else f"reads an element of {read.buffer} that a later iteration changes{where}"
        )
        raise _carried(
            source,
            f"loop {loop.variable!r} {verb}",
            reader.node,
            loop,
            f"write to another array than {read.buffer}, or give it an axis for the loop; if the"
            " loop must run in order, call the function once for each of its iterations",
        )


def _carried(
    source: FunctionSource, message: str, node: ast.AST, loop: SourceLoop, hint: str
) -> ProgramError:
    return as_carried(source.error(node, message, hint), loop)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
