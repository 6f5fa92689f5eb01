"""Launches LoopNests as Python: groups one after the other, work-items from barrier to barrier."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from types import GeneratorType
from typing import Any

from mdtensor.lower.ir.group_statements import (
    Arrive,
    AwaitCluster,
    Barrier,
    ClusterArrive,
    MatrixOperand,
    MatrixProduct,
    WarpShuffle,
)
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.ir.statements import Statement
from tests.lower.checker.kernel_text import kernel_function
from tests.lower.checker.memory import (
    POISON,
    Copies,
    CopiesOut,
    FaultError,
    Local,
    Memory,
    Scratch,
)

_WARP = 32
_ENDED = -1


class Program:
    """Kernels to be run one after the other with the same arguments."""

    def __init__(self, nests: Sequence[LoopNest], *, wide_are_aligned: bool = False) -> None:
        self.nests = nests
        self.works = [kernel_function(nest, wide_are_aligned) for nest in nests]

    def run(self, buffers: Sequence[Memory], sizes: Sequence[int], rng: random.Random) -> None:
        """Runs the kernels on inputs, outputs and new scratch memory.

        Groups begin in an order that is drawn, but where they are numbered as they begin.
        FaultError where a kernel does what it must not.
        """
        values = [dict(zip(nest.sizes, sizes, strict=True)) for nest in self.nests]
        pairs = list(zip(self.nests, values, strict=True))
        scratch = Scratch(max(_evaluated(nest.scratch, given) for nest, given in pairs))
        for work, (nest, given) in zip(self.works, pairs, strict=True):
            scratch.owners.clear()
            # Kernels call the same arguments by other names.
            given_arrays = (*buffers, scratch, Memory("counters", ()))
            launch = _Launch(nest, work, given_arrays[: len(nest.arguments)], sizes)
            launch.run(_evaluated(nest.groups, given), rng)


class _Group:
    """What the work-items of a group share."""

    def __init__(self, launch: _Launch, number: int, cluster: list[_Group]) -> None:
        self.launch, self.number, self.cluster = launch, number, cluster
        self.arrays: dict[str, Local] = {}
        self.copies_out = CopiesOut(number << 16)
        self._copies: dict[int, Copies] = {}

    def local(self, name: str, extent: int) -> Local:
        """The array of a name in the group's memory."""
        if name not in self.arrays:
            self.arrays[name] = Local(name, extent)
        return self.arrays[name]

    def copies(self, who: int) -> Copies:
        """The copies of a work-item."""
        return self._copies.setdefault(who, Copies(who))

    def post(self, word: int, state: int, values: tuple[Any, ...]) -> None:
        """Puts values where other groups wait for them."""
        self.launch.posted[word] = state, values

    def posted(self, word: int) -> tuple[int, tuple[Any, ...]]:
        """What a group put there that began before."""
        if word not in self.launch.posted:
            raise FaultError(f"group {self.number} waits for what nobody before it puts there")
        return self.launch.posted[word]

    def meet(self) -> None:
        """All work-items have met at a barrier."""
        for array in self.arrays.values():
            array.meet()


class _Launch:
    def __init__(
        self,
        nest: LoopNest,
        work: Callable[..., Any],
        buffers: Sequence[Memory],
        sizes: Sequence[int],
    ) -> None:
        self.nest, self.work = nest, work
        self.arguments = [*buffers, *sizes]
        self.posted: dict[int, tuple[int, tuple[Any, ...]]] = {}
        self.counters: dict[int, int] = {}
        self.sites: Sequence[Statement] = work.__globals__["sites"]

    def run(self, count: int, rng: random.Random) -> None:
        """Runs all groups, a cluster of them at a time."""
        together = self.nest.cluster
        order = list(range(0, count, together))
        if not self.nest.in_order:
            rng.shuffle(order)
        for first in order:
            cluster: list[_Group] = []
            cluster += [_Group(self, first + n, cluster) for n in range(together)]
            if self.sites:
                self._cluster(cluster)
                continue
            for group in cluster:
                for item in range(self.nest.threads):
                    self._begin(group, item)
                self._end(group)
        if any(self.counters.values()):
            raise FaultError(f"counters are not 0 again after a launch: {self.counters}")

    def _begin(self, group: _Group, item: int) -> Any:
        who = group.number << 16 | item
        return self.work(group, group.number, item, who, *self.arguments)

    def _end(self, group: _Group) -> None:
        group.copies_out.wait(0)

    # ---- work-items that wait for each other

    def _cluster(self, cluster: list[_Group]) -> None:
        groups = [[self._begin(group, n) for n in range(self.nest.threads)] for group in cluster]
        told: list[list[Any]] = [[None] * self.nest.threads for _ in groups]
        while True:
            places = [
                self._group(group, items, answers)
                for group, items, answers in zip(cluster, groups, told, strict=True)
            ]
            sites = {site for site, _ in places}
            if len(sites) > 1:
                raise FaultError("groups of a cluster wait for each other at different places")
            for group in cluster:
                group.meet()
            if sites == {_ENDED}:
                for group in cluster:
                    self._end(group)
                return
            (site,) = sites
            meets = isinstance(self.sites[site], ClusterArrive)
            told = [
                [int(number == 0) if meets else None for number in given] for _, given in places
            ]

    def _group(
        self, group: _Group, items: list[GeneratorType[Any, Any, Any]], told: list[Any]
    ) -> tuple[int, list[Any]]:
        """Runs the work-items of a group until all have ended, or wait for other groups."""
        while True:
            site, given = self._met(group, items, told)
            if site == _ENDED:
                return site, given
            match self.sites[site]:
                case AwaitCluster() | ClusterArrive():
                    return site, given
                case Barrier():
                    group.meet()
                    told = given
                case Arrive():
                    group.meet()
                    told = [self._arrived(*given[0])] * len(items)
                case WarpShuffle() as exchange:
                    told = exchanged(exchange, given)
                case other:
                    raise FaultError(f"not of a group: {other}")

    def _met(
        self, group: _Group, items: list[GeneratorType[Any, Any, Any]], told: list[Any]
    ) -> tuple[int, list[Any]]:
        """Where all work-items of the group wait for each other, and what they give there."""
        met: list[tuple[int, Any]] = []
        for first in range(0, len(items), _WARP):
            warp = slice(first, first + _WARP)
            met += self._warp(group, first, items[warp], told[warp])
        if len({site for site, _ in met}) > 1:
            raise FaultError("not all work-items of a group come to a barrier")
        return met[0][0], [given for _, given in met]

    def _warp(
        self, group: _Group, first: int, items: list[GeneratorType[Any, Any, Any]], told: list[Any]
    ) -> list[tuple[int, Any]]:
        """The same of a warp, which multiplies matrices on its way."""
        while True:
            met = [_next(item, answer) for item, answer in zip(items, told, strict=True)]
            site = met[0][0]
            if site == _ENDED or not isinstance(self.sites[site], MatrixProduct):
                return met
            if len({site for site, _ in met}) > 1 or len(items) < _WARP:
                raise FaultError("not all work-items of a warp multiply matrices")
            given = [values for _, values in met]
            told = _multiplied(self.sites[site], given, group.number << 16 | first)

    def _arrived(self, counter: int, count: int) -> int:
        arrived = self.counters.get(counter, 0) + 1
        if arrived > count:
            raise FaultError(f"more than {count} groups arrive at counter {counter}")
        self.counters[counter] = 0 if arrived == count else arrived
        return int(arrived == count)


def _next(item: GeneratorType[Any, Any, Any], told: Any) -> tuple[int, Any]:
    try:
        return item.send(told)
    except StopIteration:
        return _ENDED, None


def exchanged(exchange: WarpShuffle, given: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What each work-item takes of another one; undefined where there is none such."""
    nothing = (POISON,) * len(exchange.refs)
    lane, width = exchange.lane, exchange.width
    results: list[tuple[Any, ...]] = []
    for item in range(len(given)):
        first = item // width * width
        if exchange.kind == "from":
            source = first + lane
        else:
            source = item + lane if exchange.kind == "down" else item - lane
        there = first <= source < min(first + width, len(given))
        results.append(given[source] if there else nothing)
    return results


def _multiplied(product: Statement, given: list[Any], who: int) -> list[tuple[Any, ...]]:
    """The accumulators of a warp's work-items after a product of matrices."""
    assert isinstance(product, MatrixProduct)
    row_tile, column_tile, _ = given[0]
    if len({tuple((id(tile), start) for tile, start in each[:2]) for each in given}) > 1:
        raise FaultError("work-items of a warp multiply different matrices")
    rows = _lines(product.rows, *row_tile, product.depth, ~who)
    columns = _lines(product.columns, *column_tile, product.depth, ~who)
    results: list[tuple[Any, ...]] = []
    for lane, (_, _, held) in enumerate(given):
        new: list[Any] = []
        for m, groups in enumerate(product.accumulators):
            row = rows[8 * m + lane // 4]
            for n in range(len(groups)):
                for column in columns[8 * n + 2 * (lane % 4) :][:2]:
                    new.append(sum(map(operator.mul, row, column), held[len(new)]))
        results.append(tuple(new))
    return results


def _lines(of: MatrixOperand, tile: Local, start: int, depth: int, who: int) -> list[list[Any]]:
    """The rows or columns of an operand, which all work-items of a warp read at once."""
    return [
        [tile.read(start + group + n * of.across + k * of.along, who) for k in range(depth)]
        for group in of.offsets
        for n in range(8)
    ]


def _evaluated(index: Index, values: Mapping[str, int]) -> int:
    total = 0
    for names, coefficient in index.terms:
        total += coefficient * math.prod(values[name] for name in names)
    return total
