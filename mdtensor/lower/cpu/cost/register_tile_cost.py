"""Cost of all register tiles of a core: the steps of reductions, and storing results."""

from __future__ import annotations

import math
from typing import NamedTuple

from mdtensor.lower.cpu.cost.cpu_facts import Case
from mdtensor.lower.cpu.cost.load_cost import (
    LOADS_PER_CYCLE,
    reads_of_step,
    registers_read_again,
    requests_ahead,
)
from mdtensor.lower.cpu.cost.write_cost import cycles_to_write
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.work import operations
from mdtensor.lower.schedule.rules.row_stores import unlike_rows
from mdtensor.lower.schedule.schedule import Schedule

# Cycles on a current core; only their ratio matters. The latency of a multiply-add is 4; 6 allows
# for imperfect scheduling. Each further one of a dependency chain adds 4.
LATENCY, LINK = 6.0, 4.0
# Instructions that a core has begun at one time.
IN_FLIGHT = 256
# Cycles of a loop's iteration besides its body, and per instruction of the body for its code size.
LOOP_OVERHEAD, CODE = 0.1, 0.0005
# Cycles to reduce the lanes of one point alone, and of each of several, with the store.
LANES_OF_ONE, LANES_OF_EACH = 15.0, 3.0
TILE_OVERHEAD = 12.0
# Cycles of a step per register that is spilled.
SPILL = 2.0
# Cycles of a prefetch beside those of a load.
ASKING = 0.2
# Cost of a narrower vector in the prologue or epilogue of a peeled row, in full vectors.
PEELED = 0.6
# Cycles to join a vector from two, in rows that are not aligned.
JOINING = 1.0
# Cost of what is left of a dim, in whole steps or tiles: of a reduction along the lanes, for each
# vector and for each single element; of a kept dim, for each smaller tile of a general kernel, in
# any case and for a whole tile of others; along the lanes, for each narrower vector.
NARROW_STEP, SINGLE_STEP, NARROW_TILE, REST, REST_PART, NARROW_VECTOR = 0.6, 0.5, 0.6, 0.3, 0.7, 0.8
ADDED = 1.5  # times the cost of results that are added to those of the tile before
SCANNED = 2.0  # operations of a scan inside a vector, for each doubling of its width


class RegisterTile(NamedTuple):
    """Numbers of a register tile: rows, vectors per row, registers per vector, unrolled steps.

    `steps` are those of reduced dims that are unrolled, lanes apart; `joined` are rows that begin
    differently from the first one. `busy` are cycles of a step but for waiting, `write` those for
    a vector of results.
    """

    rows: int
    vectors: int
    per_vector: float
    steps: int
    joined: int
    busy: float = 0.0
    write: float = 0.0

    @property
    def row_registers(self) -> float:
        """Vector registers of the target that a row takes."""
        return self.vectors * self.per_vector


def cycles_of_tiles(case: Case, *, general: bool) -> float:
    """Cycles of one core for all register tiles, with all data in L1.

    `general` is for a kernel with run-time extents, as in `lower.cpu.cost.cpu_cost`.
    """
    tile = _tile(case, general=general)
    return _all_tiles(case, tile, _step(case, tile), general=general)


def least_cycles_of_tiles(case: Case, *, general: bool) -> float:
    """A lower bound of `cycles_of_tiles` for a schedule without scan, in any parts.

    Parts make tiles of reduced dims shorter, so that more of them hide latency, and add passes.
    """
    tile = _tile(case, general=general)
    return _all_tiles(case, tile, tile.busy + _overhead(case, tile), general=general)


def _all_tiles(case: Case, tile: RegisterTile, step: float, *, general: bool) -> float:
    """Cycles of all register tiles, at `step` cycles per step."""
    problem, schedule, facts, shape = case.problem, case.schedule, case.facts, case.shape
    steps = _steps(case)
    finish = tile.rows * tile.vectors * tile.write
    finish += tile.joined * tile.vectors * tile.per_vector * JOINING
    if problem.scanned >= 0:
        steps, step = steps * _scan_step(problem, schedule, step, finish), 1.0
        finish = 0.0
    elif schedule.lane in facts.contracted:
        finish = _combining_lanes(tile.rows, tile.vectors)
    passes = math.prod([-(-shape.extents[d] // shape.tiles[d]) for d in facts.contracted])
    finish = (finish + TILE_OVERHEAD) * passes * (ADDED if passes > 1 else 1.0)
    tiles = 1.0
    for d in facts.kept:
        tiles *= _tiles_along(d, case, general=general)
    return tiles * (steps * step + finish)


def _tile(case: Case, *, general: bool) -> RegisterTile:
    """The register tile of a schedule, memoised per problem."""
    schedule = case.schedule
    innermost = (schedule.reduce_order or schedule.loop_order)[-1:]
    key = (
        *(case.target, general, schedule.registers, schedule.lane, schedule.width, innermost),
        *(schedule.staged, schedule.ahead, schedule.peel, schedule.transposed),
    )
    found = case.facts.tiles.get(key)
    if found is None:
        tile = _register_tile(case)
        writes = case.facts.footprints[len(case.problem.streams) :]
        found = case.facts.tiles[key] = tile._replace(
            busy=_busy_step(case, tile, general=general),
            write=cycles_to_write(
                case.problem, schedule, case.target, case.shape, writes, general=general
            ),
        )
    return found


def _register_tile(case: Case) -> RegisterTile:
    facts, registers = case.facts, case.shape.registers
    lane, width = case.schedule.lane, case.schedule.width
    itemsize = max([result.dtype.itemsize for result in case.problem.scalar.results])
    return RegisterTile(
        rows=math.prod([registers[d] for d in facts.kept if d != lane]),
        vectors=registers[lane] // width if lane >= 0 else 1,
        per_vector=max(1.0, width * itemsize / case.target.vector_bytes),
        steps=math.prod([registers[d] for d in facts.contracted if d != lane]),
        joined=unlike_rows(case.problem, case.schedule) if case.schedule.peel else 0,
    )


def _busy_step(case: Case, tile: RegisterTile, *, general: bool) -> float:
    """Cycles of one step of the reduction without latency: arithmetic or loads, and spills."""
    step = _throughput(case, tile, general=general)
    held = _accumulators(case, tile) + (tile.vectors + tile.joined) * tile.per_vector + 1
    if tile.steps > 1:
        lane, row = case.schedule.lane, tile.row_registers
        held += registers_read_again(case.facts, lane, case.shape, row)
    spilled = held - case.target.vector_registers
    return step + SPILL * spilled / tile.steps if spilled > 0 else step


def _accumulators(case: Case, tile: RegisterTile) -> float:
    """Vector registers of the target that hold a tile's accumulators."""
    return tile.rows * tile.vectors * tile.per_vector * len(case.problem.scalar.results)


def _overhead(case: Case, tile: RegisterTile) -> float:
    """Loop overhead of a reduction step, and the cost of its code size, in cycles."""
    if not case.facts.contracted:
        return 0.0
    return LOOP_OVERHEAD / tile.steps + CODE * tile.steps * _accumulators(case, tile)


def _step(case: Case, tile: RegisterTile) -> float:
    """Cycles of one step of the reduction: its throughput, or latency if that is longer."""
    schedule, facts, shape = case.schedule, case.facts, case.shape
    if not facts.contracted:
        return tile.busy
    accumulators = _accumulators(case, tile)
    # Where a tile of the reduced dims is short, the next register tiles are begun meanwhile.
    length = math.prod([shape.tiles[d] for d in facts.contracted])
    if schedule.lane in facts.contracted:
        length /= schedule.width
    begun = max(1.0, IN_FLIGHT / (length * (accumulators + tile.row_registers)))
    waiting = LATENCY + LINK * (facts.links - 1)
    step = max(tile.busy, waiting / begun / max(1, tile.steps if accumulators < 1 else 1))
    return step + _overhead(case, tile)


def _throughput(case: Case, tile: RegisterTile, *, general: bool) -> float:
    """Cycles of one step without stalls: arithmetic or loads, whichever takes longer."""
    reads = reads_of_step(case, tile.vectors, tile.per_vector, general=general)
    arithmetic = tile.rows * tile.vectors * case.facts.per_point * tile.per_vector
    arithmetic = (arithmetic + reads.shuffles) / case.target.units
    asked = requests_ahead(case, tile.vectors) if case.schedule.ahead else 0.0
    return max(arithmetic, (reads.loads + asked) / LOADS_PER_CYCLE) + asked * ASKING


def _steps(case: Case) -> float:
    """Steps of a tile's whole reduction; a remainder of the lanes takes narrower ones."""
    schedule, shape = case.schedule, case.shape
    steps = 1.0
    for d in case.facts.contracted:
        extent, register = shape.extents[d], shape.registers[d]
        if d == schedule.lane:
            steps *= extent // register + (extent % register) / schedule.width * NARROW_STEP
            steps += extent % schedule.width * SINGLE_STEP
        else:
            steps *= extent
    return steps


def _combining_lanes(rows: int, vectors: int) -> float:
    """Cycles for reducing the lanes of every point, and storing the results.

    Lanes of several points are combined together (`lower.codegen.body.combine_lanes`), those of one
    are halved.
    """
    return rows * (vectors - 1) / 2 + (LANES_OF_ONE if rows == 1 else LANES_OF_EACH * rows)


def _scan_step(problem: Problem, schedule: Schedule, step: float, stores: float) -> float:
    """Cycles of one step of a scan, which depends on the previous one and stores its result."""
    combining = 1.0
    if problem.operator is not None:
        combining = float(operations(*problem.operator.results))
    inside = 0.0
    if schedule.lane == problem.scanned:
        inside = SCANNED * math.log2(schedule.width) * combining
    return max(step + inside, LATENCY * combining) + stores


def _tiles_along(d: int, case: Case, *, general: bool) -> float:
    """Register tiles along a kept dim; partial ones at its end count as fractions."""
    schedule, shape = case.schedule, case.shape
    width, extent, register = schedule.width, shape.extents[d], shape.registers[d]
    whole, rest = divmod(extent, register)
    if d == schedule.lane and schedule.peel:
        return whole + (math.log2(width) * PEELED + rest // width) / (register // width)
    if not rest:
        return whole
    if d != schedule.lane:
        if general:
            return whole + rest.bit_count() * NARROW_TILE
        return whole + REST + REST_PART * rest / register
    vectors = register // width
    pieces = rest // width
    if general:
        return whole + pieces + (rest % width).bit_count() * NARROW_VECTOR
    pieces += 1 if schedule.tail != "split" else (rest % width).bit_count()
    return whole + max(REST, pieces / vectors)
