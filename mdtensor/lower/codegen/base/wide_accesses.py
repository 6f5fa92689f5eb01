"""Vectorised accesses: loads and stores of adjacent elements become accesses of 16 bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.register_types import register_dtype
from mdtensor.lower.ir.statements import Let, Set, Statement, VectorStore, When
from mdtensor.lower.ir.values import Calc, Literal, Load, Pack, Ref, Slice, Value
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
    one of its elements lies. Loads that are zero outside of an array make a group where they have
    one condition.
    """
    found = [_scalar_load(statement, buffers, phases) for statement in statements]
    groups: dict[_Group, set[int]] = {}
    for each in found:
        if each is not None:
            groups.setdefault(each.group, set()).add(each.lane)
    result: list[Statement] = []
    named: dict[_Group, Ref] = {}
    for statement, each in zip(statements, found, strict=True):
        if each is None or 2 * len(groups[each.group]) <= buffers[each.load.buffer]:
            result.append(statement)
            continue
        assert isinstance(statement, Let)
        if each.group not in named:
            load, lanes = each.load, buffers[each.load.buffer]
            wide = named[each.group] = Ref(f"w_{statement.ref.name}", load.dtype, lanes)
            whole = Load(load.buffer, load.memory, load.index - each.lane, lanes)
            if each.inside is None:
                result.append(Let(wide, whole))
            else:
                zeros = Pack((Literal(0, load.dtype),) * lanes)
                result.append(Let(wide, zeros, mutable=True))
                result.append(When(each.inside, (Set(wide, whole),)))
        result.append(replace(statement, value=Slice(named[each.group], each.lane)))
    return result


# The buffer and symbolic address of aligned elements, their number, and the condition of a load.
_Group = tuple[str, Index, int, Value | None]


@dataclass(frozen=True, slots=True)
class _ScalarLoad:
    """A load of an element of a group, which is zero unless it is `inside`."""

    load: Load
    group: _Group
    lane: int
    inside: Value | None


def _scalar_load(
    statement: Statement, buffers: Mapping[str, int], phases: Mapping[str, int]
) -> _ScalarLoad | None:
    """The scalar load of a statement, from a buffer that is loaded widely; None for others."""
    if not isinstance(statement, Let):
        return None
    value, inside = statement.value, None
    if isinstance(value, Calc) and value.op == "select" and value.lanes == 1:
        inside, value, otherwise = value.args
        if not isinstance(otherwise, Literal) or otherwise.value != 0:
            return None
    if not isinstance(value, Load) or value.lanes > 1:
        return None
    lanes = buffers.get(value.buffer, 1)
    if lanes == 1:
        return None
    buffer, base, number, lane = _key(value.buffer, value.index, lanes, phases)
    return _ScalarLoad(value, (buffer, base, number, inside), lane, inside)


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
