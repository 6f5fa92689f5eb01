"""Interleaved accesses: small strides become whole vectors and shuffles.

Element by element, a vector of every second number takes a load and a move for each lane. What lies
between its first and its last element can be read, whoever it belongs to: whole vectors of it are
loaded, from which shuffles pick the lanes. Others that lie between share them: both halves of
complex numbers take two loads and two shuffles. Where all that lies there is stored, as both halves
of complex results are, shuffles make whole vectors of it.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import field, replace
from typing import NamedTuple

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.statements import (
    Block,
    Declare,
    If,
    Let,
    Loop,
    Pointer,
    Set,
    Statement,
    VectorStore,
    When,
)
from mdtensor.lower.ir.values import Calc, Load, Ref, Shuffle, Value
from mdtensor.lower.problem.simd_lanes import MOST_APART


class MemoryRun(NamedTuple):
    """A contiguous run of memory whose elements several strided accesses share.

    It begins at `start` behind the address `base` in a buffer; each access has so many lanes so far
    `apart`, the last one first where it is `backwards`.
    """

    buffer: str
    memory: np.dtype
    base: Index
    start: int
    apart: int
    lanes: int
    backwards: bool

    def place(self, lane: int, among: int) -> int:
        """The position in the run of an access's lane; its first element is at `among`."""
        return (self.lanes - 1 - lane if self.backwards else lane) * self.apart + among

    def first_of(self, access: Load | VectorStore) -> Index:
        """The index of an access's element with the lowest address."""
        back = self.apart * (self.lanes - 1)
        return access.index - back if self.backwards else access.index


def interleaved(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """Replace loads and stores of a small stride by whole vectors and shuffles."""
    return _Interleaving().of(statements)


@dataclass(slots=True)
class _Interleaving:
    """The rewriter of one kernel, with a counter for fresh variable names.

    `pointers` are those declared so far: adjacent elements are often accessed through several.
    """

    named: int = 0
    pointers: dict[str, Pointer] = field(default_factory=dict[str, Pointer])

    def of(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        """The rewritten statements of a body, recursively."""
        result: list[Statement] = []
        values: list[Let | Set | Declare] = []
        stores: list[VectorStore] = []
        for statement in statements:
            if values and not isinstance(statement, Let | Set | Declare):
                result += self._loads(values)
                values = []
            if stores and not isinstance(statement, VectorStore):
                result += self._stores(stores)
                stores = []
            match statement:
                case Let() | Set() | Declare():
                    values.append(statement)
                case VectorStore():
                    stores.append(statement)
                case Pointer(name=name):
                    self.pointers[name] = statement
                    result.append(statement)
                case Loop(body=body) | When(body=body) | Block(body=body):
                    result.append(replace(statement, body=self.of(body)))
                case If(body=body, otherwise=otherwise):
                    inner = replace(statement, body=self.of(body), otherwise=self.of(otherwise))
                    result.append(inner)
                case _:
                    result.append(statement)
        return (*result, *self._loads(values), *self._stores(stores))

    def _loads(self, statements: Sequence[Let | Set | Declare]) -> list[Statement]:
        loads = _Loads(self)
        for statement in statements:
            if not isinstance(statement, Declare):
                loads.meet(statement.value)
        if not loads.places:
            return [*statements]
        result: list[Statement] = []
        for statement in statements:
            if isinstance(statement, Declare):
                result.append(statement)
            else:
                value = loads.shuffled(statement.value, result)
                result.append(replace(statement, value=value))
        return result

    def _stores(self, stores: Sequence[VectorStore]) -> list[Statement]:
        runs: dict[MemoryRun, dict[int, VectorStore]] = {}
        for store in stores:
            if found := self.run_of(store, store.value.lanes):
                runs.setdefault(found[0], {})[found[1]] = store
        whole = {run for run, among in runs.items() if _is_whole(run, among.values())}
        result: list[Statement] = []
        met: dict[MemoryRun, int] = {}
        for store in stores:
            found = self.run_of(store, store.value.lanes)
            if found is None or found[0] not in whole:
                result.append(store)
                continue
            run = found[0]
            met[run] = met.get(run, 0) + 1
            if met[run] == run.apart:
                result += self._stored(run, [runs[run][n] for n in range(run.apart)])
        return result

    def _stored(self, run: MemoryRun, stores: Sequence[VectorStore]) -> list[Statement]:
        """Whole-vector stores of a run that several strided stores fill."""
        statements: list[Statement] = []
        refs = [self.held(store.value, statements) for store in stores]
        lane_at = {
            run.place(lane, among): (among, lane)
            for among in range(run.apart)
            for lane in range(run.lanes)
        }
        for start in range(0, run.lanes * run.apart, run.lanes):
            picks = [lane_at[start + n] for n in range(run.lanes)]
            value, first = self.picked(refs, picks, statements), stores[0]
            index = run.first_of(first) + start
            statements.append(VectorStore(first.buffer, first.memory, index, value))
        return statements

    def run_of(self, access: Load | VectorStore, lanes: int) -> tuple[MemoryRun, int] | None:
        """The run of a strided access, and its first element there; None for other accesses."""
        stride = as_index(access.stride).constant
        if lanes == 1 or stride is None or not 2 <= abs(stride) <= MOST_APART:
            return None
        if isinstance(access, Load) and access.valid:
            return None
        buffer, index = access.buffer, access.index
        if pointer := self.pointers.get(buffer):
            buffer, index = pointer.buffer, pointer.offset + index
        base, constant = index.split()
        apart = abs(stride)
        start, among = divmod(min(constant, constant + stride * (lanes - 1)), apart)
        run = MemoryRun(buffer, access.memory, base, start * apart, apart, lanes, stride < 0)
        return run, among

    def held(self, value: Value, statements: list[Statement]) -> Ref:
        """Declare a fresh variable for a value."""
        if isinstance(value, Ref):
            return value
        ref = Ref(f"y{self.named}", value.dtype, value.lanes)
        self.named += 1
        statements.append(Let(ref, value))
        return ref

    def picked(
        self, refs: Sequence[Ref], picks: Sequence[tuple[int, int]], statements: list[Statement]
    ) -> Value:
        """A vector shuffled from several others; `picks` are (vector, lane) pairs."""
        lanes, value = len(picks), refs[0]
        for number, ref in list(enumerate(refs))[1:]:
            before = range(lanes) if number > 1 else [lane for _, lane in picks]
            chosen = [
                lanes + lane if which == number else old
                for (which, lane), old in zip(picks, before, strict=True)
            ]
            shuffle = Shuffle(value, ref, tuple(chosen))
            if number == len(refs) - 1:
                return shuffle
            value = self.held(shuffle, statements)
        return value


@dataclass(slots=True)
class _Loads:
    """The loads of a straight run of statements without stores between them."""

    names: _Interleaving
    places: dict[MemoryRun, set[int]] = field(default_factory=dict[MemoryRun, set[int]])
    vectors: dict[MemoryRun, list[Ref]] = field(default_factory=dict[MemoryRun, list[Ref]])
    # By their ids, which values keep as long as they are here.
    met: dict[int, Value] = field(default_factory=dict[int, Value])
    known: dict[int, Value] = field(default_factory=dict[int, Value])

    def meet(self, value: Value) -> None:
        """Record which elements of runs a value uses."""
        if isinstance(value, Calc):
            if id(value) not in self.met:
                self.met[id(value)] = value
                for arg in value.args:
                    self.meet(arg)
        elif isinstance(value, Load) and (found := self.names.run_of(value, value.lanes)):
            self.places.setdefault(found[0], set()).add(found[1])

    def shuffled(self, value: Value, statements: list[Statement]) -> Value:
        """The value rewritten to shuffles of whole vectors, loaded at their first use."""
        if isinstance(value, Calc):
            if id(value) not in self.known:
                args = tuple([self.shuffled(arg, statements) for arg in value.args])
                same = all(map(operator.is_, args, value.args))
                self.known[id(value)] = value if same else replace(value, args=args)
            return self.known[id(value)]
        if not isinstance(value, Load) or not (found := self.names.run_of(value, value.lanes)):
            return value
        run, among = found
        lanes, first = run.lanes, min(self.places[run])
        length = run.apart * (lanes - 1) + max(self.places[run]) - first + 1
        # The last one ends with the run, behind which there may be no memory.
        starts = [min(start, length - lanes) for start in range(0, length, lanes)]
        if run not in self.vectors:
            begin = run.first_of(value) - (among - first)
            loads = [replace(value, index=begin + start, stride=1) for start in starts]
            self.vectors[run] = [self.names.held(load, statements) for load in loads]
        picks: list[tuple[int, int]] = []
        for lane in range(lanes):
            place = run.place(lane, among - first)
            number = place // lanes
            picks.append((number, place - starts[number]))
        return self.names.picked(self.vectors[run], picks, statements)


def _is_whole(run: MemoryRun, stores: Collection[VectorStore]) -> bool:
    """Whether stores cover a run completely, with values of one type."""
    return len(stores) == run.apart and len({store.value.dtype for store in stores}) == 1
