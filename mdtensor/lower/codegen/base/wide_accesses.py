"""Vectorised accesses: loads and stores of adjacent elements become accesses of 16 bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.ir.statements import Let, Statement, VectorStore
from mdtensor.lower.ir.values import Load, Pack, Ref, Slice
from mdtensor.specs import is_short_float

BYTES = 16
_MOST = 4  # elements that a vector type of every dialect can hold


def lanes_of(memory: np.dtype) -> int:
    """Elements of one wide access; 1 where memory and registers differ in representation.

    Short floats are converted as they are loaded and stored.
    """
    if register_dtype(memory) != memory and not is_short_float(memory):
        return 1
    return min(_MOST, BYTES // memory.itemsize)


_AT_MULTIPLES: Mapping[str, int] = MappingProxyType({})


def lanes_of_results(memory: np.dtype, near: int) -> int:
    """Elements of one wide store, where a work-item has `near` adjacent results."""
    lanes = lanes_of(memory)
    while near % lanes:
        lanes //= 2
    return lanes


def wide_loads(
    statements: Sequence[Statement],
    buffers: Mapping[str, int],
    phases: Mapping[str, int] = _AT_MULTIPLES,
) -> list[Statement]:
    """Replace scalar loads by wide ones where most elements of an aligned group are loaded.

    `buffers` has the lanes of the wide loads of each buffer; a group begins at a multiple of them,
    counted from the part of the address that is no constant, which must be such a multiple too;
    or one that is further by the buffer's phase. All of a group lies on the memory page on which
    one of its elements lies.
    """
    groups: dict[tuple[str, Index, int], set[int]] = {}
    for statement in statements:
        if key := _load_key(statement, buffers, phases):
            groups.setdefault(key[:3], set()).add(key[3])
    result: list[Statement] = []
    named: dict[tuple[str, Index, int], Ref] = {}
    for statement in statements:
        key = _load_key(statement, buffers, phases)
        if key is None or 2 * len(groups[key[:3]]) <= buffers[key[0]]:
            result.append(statement)
            continue
        assert isinstance(statement, Let)
        assert isinstance(statement.value, Load)
        load, group, lane = statement.value, key[:3], key[3]
        if group not in named:
            lanes = buffers[key[0]]
            wide = Ref(f"w_{statement.ref.name}", load.dtype, lanes)
            index = load.index - lane
            result.append(Let(wide, Load(load.buffer, load.memory, index, lanes)))
            named[group] = wide
        result.append(replace(statement, value=Slice(named[group], lane)))
    return result


def _load_key(
    statement: Statement, buffers: Mapping[str, int], phases: Mapping[str, int]
) -> tuple[str, Index, int, int] | None:
    """The buffer, symbolic address, group number and lane of a scalar load; None for others."""
    if not isinstance(statement, Let) or not isinstance(statement.value, Load):
        return None
    load = statement.value
    lanes = buffers.get(load.buffer, 1)
    if lanes == 1 or load.lanes > 1:
        return None
    return _key(load.buffer, load.index, lanes, phases)


def wide_stores(
    statements: Sequence[Statement],
    buffers: Mapping[str, int],
    phases: Mapping[str, int] = _AT_MULTIPLES,
    *,
    streaming: bool = False,
) -> list[Statement]:
    """Replace scalar stores of whole aligned groups by wide ones, at each group's last store.

    A group of which an element is stored twice stays as it is. Points of a tile lie at one place
    only where the tile is larger than its dims, and there the statements never run, but compile.
    """
    groups: dict[tuple[str, Index, int], dict[int, VectorStore]] = {}
    count: Counter[tuple[str, Index, int]] = Counter()
    for statement in statements:
        key = _store_key(statement, buffers, phases)
        if key is not None and isinstance(statement, VectorStore):
            groups.setdefault(key[:3], {})[key[3]] = statement
            count[key[:3]] += 1
    result: list[Statement] = []
    met: dict[tuple[str, Index, int], int] = {}
    for statement in statements:
        key = _store_key(statement, buffers, phases)
        if key is None or not len(groups[key[:3]]) == count[key[:3]] == buffers[key[0]]:
            result.append(statement)
            continue
        group, lanes = key[:3], buffers[key[0]]
        met[group] = met.get(group, 0) + 1
        if met[group] == lanes:
            stores = [groups[group][lane] for lane in range(lanes)]
            values = tuple(store.value for store in stores)
            first = stores[0]
            result.append(replace(first, value=Pack(values), streaming=streaming))
    return result


def _store_key(
    statement: Statement, buffers: Mapping[str, int], phases: Mapping[str, int]
) -> tuple[str, Index, int, int] | None:
    if not isinstance(statement, VectorStore) or statement.value.lanes > 1:
        return None
    lanes = buffers.get(statement.buffer, 1)
    if lanes == 1 or statement.value.dtype != register_dtype(statement.memory):
        return None
    return _key(statement.buffer, statement.index, lanes, phases)


def _key(
    buffer: str, index: Index, lanes: int, phases: Mapping[str, int]
) -> tuple[str, Index, int, int]:
    base, constant = index.split()
    constant += phases.get(buffer, 0)
    return buffer, base, constant // lanes, constant % lanes
