"""Cost of the reads in one step of a register tile: loads, gathers, prefetches."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from mdtensor.lower.cpu.cost.cache_traffic import Shape
from mdtensor.lower.cpu.cost.cpu_facts import AccessPattern, Case, Facts
from mdtensor.lower.ir.register_types import BOOL
from mdtensor.lower.problem.generic_problem import apart_along
from mdtensor.lower.schedule.machine_model import CPU_LINE, WAY_BYTES

# Loads that a core starts per cycle, and the cost of a gathered element relative to a load.
LOADS_PER_CYCLE, GATHER_PER_ELEMENT = 2.0, 0.8
# Cycles of a load of a whole register by one unit, what crossing a cache line adds, and the factor
# for more than so many rows whose lines evict each other.
LOAD, CROSSING, CROWDED, MANY_ROWS = 2.0, 2.0, 1.3, 8
# Factor on a load whose line was evicted from L1 by others of its set.
CONFLICT = 6.0
# Cycles to compare a byte with 0 and broadcast the outcome to all lanes.
COMPARED = 8.0
# Instructions that widen floats of 16 bits: of a vector, or of an element for all lanes.
WIDENED = 2.0
# The share of vectors common to unrolled steps that compilers keep in registers.
LOADED_AGAIN = 0.5


class Reads(NamedTuple):
    """The cost of one step's reads: vector loads within a line, and shuffles or conversions."""

    loads: float
    shuffles: float


def reads_of_step(case: Case, vectors: int, per_vector: float, *, general: bool) -> Reads:
    """The loads of one step of the reduction, and the shuffles and conversions for them."""
    schedule, facts, shape = case.schedule, case.facts, case.shape
    lane, ways = schedule.lane, case.target.l1_bytes // WAY_BYTES
    unrolled = math.prod([shape.registers[d] for d in facts.contracted if d != lane])
    loads, shuffles = 0.0, 0.0
    for number, walk in enumerate(facts.walks):
        count = _different_reads(facts, walk, lane, shape)
        reads = count * unrolled if unrolled > 1 else 0.0
        staged = bool(schedule.staged[number])
        widening = WIDENED if walk.widens[staged] else 0.0
        if lane < 0 or not walk.strides[lane]:
            cycles = 1 if staged else _conflicts(facts, walk, shape, ways, reads)
            is_byte = case.problem.inputs[case.problem.streams[number].buffer] == BOOL
            loads += count * (cycles + (COMPARED if is_byte and not staged else 0.0))
            shuffles += count * widening
        elif apart := 1 if staged else apart_along(walk.strides, lane, general=general):
            # Of what lies a few apart, whole vectors are loaded, which all that is there shares.
            runs = frozenset(place // apart * apart for place in walk.places)
            cycles = _load_cycles(case, walk, runs, staged=staged) / case.target.units
            picked = count * vectors * per_vector
            loaded = picked * apart * len(runs) / max(1, len(walk.places))
            loads += loaded * cycles
            shuffles += picked * (apart - 1) + loaded * widening
        else:
            elements = count * vectors * schedule.width
            gathered = elements * _conflicts(facts, walk, shape, ways, reads)
            loads += gathered * GATHER_PER_ELEMENT * LOADS_PER_CYCLE
            shuffles += count * vectors * per_vector * widening
    return Reads(loads, shuffles)


def requests_ahead(case: Case, vectors: int) -> float:
    """Prefetches per step: one per row and vector along the innermost loop."""
    problem, schedule, shape = case.problem, case.schedule, case.shape
    order = schedule.reduce_order or schedule.loop_order
    count = 0.0
    for stream in problem.streams:
        if order and stream.uses(order[-1]):
            near = [d for d in problem.kept if d != schedule.lane and stream.uses(d)]
            rows = math.prod(shape.registers[d] for d in near)
            along = schedule.lane >= 0 and stream.uses(schedule.lane)
            count += rows * (vectors if along else 1 / shape.registers[order[-1]])
    return count


def _load_cycles(
    case: Case, walk: AccessPattern, offsets: frozenset[int], *, staged: bool
) -> float:
    """Cycles of a vector load, relative to one within a line; crossing lines costs more.

    Lines of rows that lie ways apart push each other out of the cache where they are many.
    """
    lane, width = case.schedule.lane, case.schedule.width
    itemsize = walk.itemsize
    if staged or len({offset % width for offset in offsets}) < 2:
        steps = [stride for d, stride in enumerate(walk.strides) if d != lane]
        uneven = not staged and any(step * itemsize % CPU_LINE for step in steps)
        return LOAD + CROSSING * (uneven and width * itemsize / CPU_LINE)
    cycles = LOAD + CROSSING * min(1.0, width * itemsize / CPU_LINE)
    for d in case.facts.kept:
        stride = abs(walk.strides[d])
        if d != lane and stride and stride * itemsize % WAY_BYTES == 0:
            rows = case.shape.registers[d] + (max(offsets) - min(offsets)) // stride
            cycles *= CROWDED if rows > MANY_ROWS else 1.0
    return cycles


def _conflicts(facts: Facts, walk: AccessPattern, shape: Shape, ways: int, reads: float) -> float:
    """Slow-down of loads whose lines evict each other from L1 (set conflicts).

    Lines whose addresses differ by a multiple of a way's size compete for the few ways of one set:
    rows of a matrix whose row length is a power of two, say. `reads` are those of unrolled steps.
    """
    for d in facts.kept:
        stride = abs(walk.strides[d]) * walk.itemsize
        if stride >= 64:
            places = WAY_BYTES // math.gcd(stride, WAY_BYTES)
            if max(reads, shape.registers[d]) / places > ways:
                return CONFLICT
    return 1.0


def _different_reads(facts: Facts, walk: AccessPattern, lane: int, shape: Shape) -> float:
    """Distinct places per step that a register tile reads of a stream, not counting lanes.

    Points that are neighbours share what a stencil reads around them, and what the windows of
    unrolled steps have in common.
    """
    registers, reduced = shape.registers, facts.reduced
    dims = [d for d, s in enumerate(walk.strides) if s and d != lane and registers[d] > 1]
    unrolled = 1
    if facts.scanned < 0:
        unrolled = math.prod([registers[d] for d in facts.contracted if d != lane])
    else:
        dims = [d for d in dims if not reduced[d]]
    if len(walk.places) < 2 and not any(reduced[d] for d in dims):
        return len(walk.places) * math.prod([registers[d] for d in dims]) / unrolled
    found = set(walk.places)
    for d in dims:
        stride = walk.strides[d]
        found = {place + n * stride for place in found for n in range(registers[d])}
    return len(found) / unrolled


def registers_read_again(facts: Facts, lane: int, shape: Shape, vectors: float) -> float:
    """Registers for values that several unrolled steps reuse; a scalar takes one.

    Vectors may be loaded again, which compilers do for some.
    """
    found = 0.0
    for walk in facts.walks:
        along = lane >= 0 and walk.strides[lane]
        found += _read_again(walk, lane, shape) * (LOADED_AGAIN * vectors if along else 1)
    return found


def _read_again(walk: AccessPattern, lane: int, shape: Shape) -> int:
    """Places of a stream that a register tile reads more than once, not counting lanes."""
    reads = list(walk.places)
    for d, stride in enumerate(walk.strides):
        if stride and d != lane:
            steps = range(0, stride * shape.registers[d], stride)
            reads = [place + step for place in reads for step in steps]
    return sum(count > 1 for count in Counter(reads).values())
