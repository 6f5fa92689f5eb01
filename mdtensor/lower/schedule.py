"""Schedule: how a problem is spread over a device, as one value.

The tuning parameters of 002, section 4.4, Table 1, and what lies below the formalism. Tuples have
one entry per dim of the problem, or per stream for `staged`.

| Table 1                    | here                                                           |
|----------------------------|----------------------------------------------------------------|
| 0: number of parts         | parts, tiles, threads, registers, width                        |
| D1, S1, R1: order          | group_order, loop_order, reduce_order                          |
| D2, S2, R2: assignment     | the fields themselves: each belongs to one layer of the ASM    |
| D3, S3: memory of inputs   | staged                                                         |
| D4, S4: layout of inputs   | follows from the orders: outer tiles, reductions, inside tiles |
| R3, S5: memory of results  | registers; scratch where reductions are split over groups      |
| R4, S6: layout of results  | the output view                                                |
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, cast

from mdtensor.errors import LoweringError
from mdtensor.lower.asm import WARP, asm_of
from mdtensor.lower.index import Index, as_index
from mdtensor.lower.lanes import most_lanes
from mdtensor.lower.problem import Problem
from mdtensor.lower.selection import selection_of
from mdtensor.lower.zero_filled import zero_filled

MOST_STAGES = 8
MOST_AHEAD = 64
TAILS = ("split", "pad", "overlap")
_OF_RESIDENT = (
    *("march", "chunks", "warp", "padding", "prefetch", "stages", "as_source"),
    *("lead", "last_group", "tensor", "bulk", "results"),
)
# Fields that texts of schedules may lack, where they say nothing.
LATER = ("scatter", "peel", "ahead", "in_turn", "resident", *_OF_RESIDENT, "swath", "transposed")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Values of all tuning parameters.

    - `parts`: groups that a dim is divided among (0 in a general kernel: decided at launch).
    - `tiles`: extent of a dim's cache tile; 0 for the group's whole part.
    - `threads`: work-items of a group along a dim (1 on CPUs).
    - `registers`: points of a dim that a work-item computes at once, unrolled.
    - `lane`, `width`: the dim that runs over SIMD lanes (-1 for none) and their number.
    - `group_order`: dims of groups and cache tiles, outermost first.
    - `loop_order`, `reduce_order`: kept and reduced dims inside a cache tile, outermost first.
    - `staged`: per stream, the region to which its tile is copied first, or "".
    - `tail`: what is left of the lane dim runs in narrower vectors ("split"), padded ones
      ("pad"), or in one that overlaps its neighbour ("overlap").
      Without lanes, "overlap" lets the last block of a dim begin inside the one before.
    - `streaming`: results bypass the caches.
    - `peel`: along the lane dim, whole vectors begin where the address of the result is a multiple
      of their size, wherever arrays and rows lie; what is before and behind runs in narrower ones.
      Rows of a register tile that begin differently are joined from neighbouring vectors where
      they are streamed (see `lower.passes.join_rows`).
    - `transposed`: rows of a register tile whose results are neighbours are transposed in
      registers where results lie far apart along the lanes, so that vectors are written instead of
      elements (see `lower.passes.transpose_rows`).
    - `ahead`: iterations of the innermost loop by which memory is asked for before it is read; 0
      for what the processor fetches by itself.
    - `in_turn`: groups that share a scanned dim are one kernel, and each takes what comes before
      its part from the one before it (see `lower.passes.scan_in_turn`); else there are three.
    - `scatter`: the dim that the scalar function selects is indexed, not walked through (see
      `lower.selection`); if `resident`, by all work-items of a group in local memory.
    - `inline`: the calling thread runs the kernel itself, without waking the device's threads.
    - `resident`: a work-item keeps its accumulators in registers while tiles of reduced dims go
      by (see `lower.passes.resident`); without a reduction, what its points share (see
      `lower.passes.pointwise`). What follows is for such schedules only.
    - `chunks`: neighbouring points of a dim among those of a work-item, whose next ones lie
      behind the chunks of all work-items; () where all its points are neighbours.
    - `warp`: work-items of a warp along each dim; () where they are numbered row by row.
    - `padding`: per stream, elements that the rows of its staged tile are longer.
    - `prefetch`: the next tile is on its way to registers while the one before is computed with.
    - `stages`: tiles of an input that local memory holds, those that are computed with and those
      that are on their way; 0 or 1 for one.
    - `as_source`: per stream, whether its staged tile lies as its source does, the nearest dim
      innermost, instead of as it is read; () for none.
    - `tensor`: dims of the rows, the columns and the reduction that warps compute by products of
      small matrices (see `lower.passes.matrix_tile`); () where every work-item computes its own.
    - `bulk`: matrices come to local memory by bulk copies, for which a warp more asks, and are
      multiplied by four warps together (see `lower.passes.bulk_tiles`). Rows may lie along several
      dims then, those that have more than one work-item or point.
    - `results`: the region through which results leave, in boxes that copy themselves ("local",
      see `lower.passes.bulk_results`), in runs of groups that march (`lower.passes.march_out`), or
      "" where work-items store them.
    - `swath`: parts of the last kept dim but one of `group_order` whose groups are numbered
      together, so that those at work at one time share what they read; 0 or 1 for rows.
    - `lead`: points that the first block of a dim begins before it, so that blocks begin where
      wide accesses do; () for none, which is all that reductions have.
    - `march`: what a group's block reads that the next one reads too, along the last dim that it
      walks through several blocks of, is handed on in registers (see `lower.passes.march`). With
      `staged` streams, planes of those come to local memory while groups march, as many blocks
      ahead as there are `stages` less one (see `lower.passes.march_ahead`).
    - `last_group`: of the groups that share a reduction, the last one combines the results of all,
      instead of a second kernel.
    """

    asm: str
    parts: tuple[int, ...]
    tiles: tuple[int, ...]
    threads: tuple[int, ...]
    registers: tuple[int, ...]
    lane: int
    width: int
    group_order: tuple[int, ...]
    loop_order: tuple[int, ...]
    reduce_order: tuple[int, ...]
    staged: tuple[str, ...]
    tail: str = "split"
    streaming: bool = False
    inline: bool = False
    scatter: bool = False
    peel: bool = False
    transposed: bool = False
    ahead: int = 0
    in_turn: bool = False
    resident: bool = False
    chunks: tuple[int, ...] = ()
    warp: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    prefetch: bool = False
    stages: int = 0
    as_source: tuple[bool, ...] = ()
    tensor: tuple[int, ...] = ()
    bulk: bool = False
    results: str = ""
    swath: int = 0
    lead: tuple[int, ...] = ()
    last_group: bool = False
    march: bool = False

    def computed(self, problem: Problem) -> Problem:
        """The problem as it is computed: a guarded stream is read as one of zeros outside."""
        stays = self.resident and not self.scatter and problem.scanned < 0
        fills = asm_of(self.asm).cooperative and stays and bool(problem.contracted)
        return zero_filled(problem) if fills else problem

    def to_json(self) -> str:
        """Canonical text, as kept in the store."""
        fields = asdict(self)
        for name in LATER:
            if not fields[name]:
                del fields[name]
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Schedule:
        """The schedule of a canonical text; LoweringError where the text is none."""
        try:
            fields: dict[str, Any] = json.loads(text)
            return cls(**{name: _value(value) for name, value in fields.items()})
        except (AttributeError, TypeError, ValueError) as error:
            raise LoweringError(f"not a schedule: {text[:80]!r}: {error}") from None

    def describe(self, problem: Problem) -> str:
        """One line per layer, in the names of the problem's dims."""

        def by_dim(values: tuple[int, ...]) -> str:
            return " ".join(f"{problem.labels[d]}:{v}" for d, v in enumerate(values))

        def order(dims: tuple[int, ...]) -> str:
            return " ".join(problem.labels[d] for d in dims) or "-"

        lane = "none" if self.lane < 0 else f"{problem.labels[self.lane]} x{self.width}"
        staged = " ".join(f"{n}:{region}" for n, region in enumerate(self.staged) if region)
        return "\n".join(
            (
                f"{self.asm}: parts {by_dim(self.parts)}; threads {by_dim(self.threads)}",
                f"tiles {by_dim(self.tiles)}; registers {by_dim(self.registers)}; lanes {lane}",
                "order "
                + " | ".join(map(order, (self.group_order, self.loop_order, self.reduce_order))),
                f"staged {staged or 'nothing'}",
                f"tail {self.tail}; streaming {self.streaming}; inline {self.inline}"
                + ("; scatter" if self.scatter else "")
                + ("; peel" if self.peel else "")
                + ("; transposed" if self.transposed else "")
                + (f"; ahead {self.ahead}" if self.ahead else "")
                + ("; in turn" if self.in_turn else "")
                + (f"; swaths of {self.swath}" if self.swath > 1 else ""),
                *self._resident_lines(by_dim),
            )
        )

    def _resident_lines(self, by_dim: Callable[[tuple[int, ...]], str]) -> tuple[str, ...]:
        if not self.resident:
            return ()
        padding = " ".join(f"{n}:{pad}" for n, pad in enumerate(self.padding) if pad)
        chunks, warp = by_dim(self.chunks) or "whole", by_dim(self.warp) or "rows"
        layout = f"chunks {chunks}; warp {warp}; padding {padding or 'none'}"
        source = " ".join(str(n) for n, same in enumerate(self.as_source) if same)
        later = f"; as their source {source}" if source else ""
        later += f"; stages {self.stages}" if self.stages else ""
        later += f"; lead {by_dim(self.lead)}" if self.lead else ""
        later += "; the last group combines" if self.last_group else ""
        later += "; marches" if self.march else ""
        later += f"; matrices along dims {self.tensor}" if self.tensor else ""
        later += " by bulk copies" if self.bulk else ""
        later += f", results through {self.results} memory" if self.results else ""
        return (f"resident; {layout}; prefetch {self.prefetch}{later}",)


def _value(value: Any) -> Any:
    """A field's value from JSON, where tuples are lists."""
    if not isinstance(value, list):
        return value
    return tuple(cast("list[Any]", value))


def validate(problem: Problem, schedule: Schedule) -> None:
    """Checks what every kernel needs; LoweringError names the rule that is broken.

    These are the constraints of the formalism (002, appendix .5.1) that depend on no device.
    """
    problem = schedule.computed(problem)
    count = len(problem.extents)
    asm = asm_of(schedule.asm)
    for field in ("parts", "tiles", "threads", "registers"):
        if len(getattr(schedule, field)) != count:
            raise LoweringError(f"schedule.{field} needs one entry for each of {count} dims")
    if sorted(schedule.group_order) != list(problem.dims):
        raise LoweringError("schedule.group_order is no permutation of the dims")
    if sorted(schedule.loop_order) != list(problem.kept):
        raise LoweringError("schedule.loop_order is no permutation of the kept dims")
    if sorted(schedule.reduce_order) != list(problem.contracted):
        raise LoweringError("schedule.reduce_order is no permutation of the reduced dims")
    if len(schedule.staged) != len(problem.streams):
        raise LoweringError("schedule.staged needs one entry per stream")
    if schedule.tail not in TAILS:
        raise LoweringError(f"schedule.tail is none of {TAILS}")
    if any(v < 1 for v in (*schedule.registers, *schedule.threads, schedule.width)):
        raise LoweringError("registers, threads and width are at least 1")
    if any(v < 0 for v in (*schedule.parts, *schedule.tiles, schedule.swath)):
        raise LoweringError("parts, tiles and swath are at least 0")
    _validate_lanes(problem, schedule, asm.vectors)
    for stream, region in enumerate(schedule.staged):
        if region and region not in asm.regions:
            raise LoweringError(f"{schedule.asm} has no memory region {region!r} to stage in")
        if not region or schedule.march:
            continue
        if stream >= problem.finish_streams or not problem.is_plain(stream):
            raise LoweringError("only streams that are read once a point can be staged")
    threaded = {d for d in problem.dims if schedule.threads[d] > 1}
    if threaded and not asm.cooperative:
        raise LoweringError(f"groups of {schedule.asm} have one work-item")
    if schedule.resident:
        _validate_resident(problem, schedule)
    elif any(getattr(schedule, field) for field in _OF_RESIDENT):
        raise LoweringError(f"{', '.join(_OF_RESIDENT)} go with resident accumulators only")
    elif threaded & set(problem.kept) and threaded & set(problem.contracted):
        raise LoweringError("work-items share out either kept dims or reduced dims")
    if schedule.scatter:
        _validate_scatter(problem, schedule)
    if schedule.in_turn:
        _validate_in_turn(problem, schedule)
    if problem.scanned >= 0:
        _validate_scan(problem, schedule)
    else:
        _validate_order(problem, schedule)
    if not 0 <= schedule.ahead <= (MOST_AHEAD if asm.vectors else 0):
        raise LoweringError(f"{schedule.asm} asks for no memory {schedule.ahead} iterations ahead")
    if schedule.peel:
        _validate_peel(problem, schedule)
    if schedule.transposed:
        _validate_transposed(problem, schedule)
    _validate_streaming(problem, schedule)
    _validate_accumulation(problem, schedule)


def is_valid(problem: Problem, schedule: Schedule) -> bool:
    """Whether `validate` accepts the schedule."""
    try:
        validate(problem, schedule)
    except LoweringError:
        return False
    return True


def _validate_lanes(problem: Problem, schedule: Schedule, vectors: bool) -> None:
    lane = schedule.lane
    if not -1 <= lane < len(problem.extents):
        raise LoweringError(f"schedule.lane is {lane}, which is no dim")
    if lane < 0:
        if schedule.width != 1:
            raise LoweringError("a width without a lane dim")
        return
    if not vectors:
        raise LoweringError(f"{schedule.asm} has no lanes")
    if schedule.width not in (2, 4, 8, 16, 32) or schedule.width > most_lanes(problem):
        raise LoweringError(f"no vectors of {schedule.width} lanes")
    if schedule.registers[lane] % schedule.width:
        raise LoweringError("the lane dim's register tile is no multiple of the width")


def _validate_resident(problem: Problem, schedule: Schedule) -> None:
    """Accumulators, or what points share, stay in registers of work-items that copy together."""
    count = len(problem.extents)
    if not asm_of(schedule.asm).cooperative:
        raise LoweringError(f"{schedule.asm} keeps no accumulators over tiles")
    streams = len(problem.streams)
    lengths = dict.fromkeys(("chunks", "warp", "lead"), count)
    for field, length in (lengths | {"padding": streams, "as_source": streams}).items():
        if len(getattr(schedule, field)) not in (0, length):
            raise LoweringError(f"schedule.{field} needs {length} entries or none")
    if any(v < 1 for v in (*schedule.chunks, *schedule.warp)) or any(
        v < 0 for v in (*schedule.padding, *schedule.lead)
    ):
        raise LoweringError("chunks and warp are at least 1, padding and lead at least 0")
    if any(r % c for r, c in zip(schedule.registers, schedule.chunks, strict=False)):
        raise LoweringError("a register tile is a whole number of chunks")
    if any(t % w for t, w in zip(schedule.threads, schedule.warp, strict=False)):
        raise LoweringError("the work-items of a dim are a whole number of warps")
    if schedule.warp and any(schedule.threads[d] > 1 for d in problem.contracted):
        raise LoweringError("work-items that share a reduction are numbered row by row")
    tiled = [d for d in problem.contracted if schedule.tiles[d]]
    if any(schedule.lead) and (problem.contracted or any(schedule.staged) or problem.is_general):
        raise LoweringError("lead needs fixed extents, no reduction, and stages nothing")
    if schedule.march:
        _validate_march(problem, schedule)
    if schedule.results not in ("", "local"):
        raise LoweringError(f"results leave through no {schedule.results!r} memory")
    if schedule.bulk and not schedule.tensor:
        raise LoweringError("bulk copies bring matrices, which schedule.tensor tells the dims of")
    if not 0 <= schedule.stages <= MOST_STAGES:
        raise LoweringError(f"schedule.stages is between 0 and {MOST_STAGES}")
    if schedule.stages > 1 and not schedule.march:
        if not tiled or not any(schedule.staged):
            raise LoweringError("stages need staged inputs and tiles of a reduced dim")
        return
    if schedule.prefetch and (len(tiled) != 1 or not any(schedule.staged)):
        raise LoweringError("prefetch needs staged inputs and tiles of one reduced dim")


def _validate_march(problem: Problem, schedule: Schedule) -> None:
    """A group walks through whole blocks of one work-item each, along a dim without reduction."""
    if problem.is_general or problem.contracted:
        raise LoweringError("groups march along fixed extents, without a reduction")
    walked = [d for d in schedule.group_order if _blocks_of_part(problem, schedule, d) > 1]
    if not walked:
        raise LoweringError("a group that marches has several blocks along a dim")
    d = walked[-1]
    if schedule.threads[d] > 1:
        raise LoweringError("a group marches along a dim by blocks of one work-item")
    if schedule.lead and schedule.lead[d]:
        raise LoweringError("a group begins to march where its dim begins")
    if any(schedule.staged):
        _validate_ahead(problem, schedule, d)
    elif schedule.stages > 1:
        raise LoweringError("stages need staged inputs")


def _validate_ahead(problem: Problem, schedule: Schedule, d: int) -> None:
    """Planes that are on their way come one at a time, of all streams."""
    if schedule.stages < 2 or schedule.registers[d] > 1:
        raise LoweringError("groups march through staged planes one by one, in stages")
    if not all(schedule.staged):
        raise LoweringError("groups march through staged planes of all streams, or of none")
    if schedule.padding or schedule.as_source or schedule.prefetch:
        raise LoweringError("staged planes lie as their sources do")
    if schedule.results and (math.prod(schedule.threads) == 1 or schedule.streaming):
        raise LoweringError("several work-items send results away, which bypass no caches")


def _blocks_of_part(problem: Problem, schedule: Schedule, d: int) -> int:
    """Blocks of a dim that a group walks through."""
    lead = schedule.lead[d] if schedule.lead else 0
    blocks = -(-(problem.extent(d) + lead) // _block(schedule, d))
    return -(-blocks // max(1, schedule.parts[d]))


def _validate_order(problem: Problem, schedule: Schedule) -> None:
    """Operators that do not commute take elements in the order of the reduced dims."""
    dims = problem.contracted
    if not dims or not problem.keeps_order:
        return
    kept_in_order = (
        schedule.lane not in dims,
        all(schedule.threads[d] == 1 for d in dims),
        schedule.reduce_order == dims,
        all(schedule.registers[d] == 1 for d in dims[:-1]),
        all(schedule.tiles[d] == 0 and schedule.parts[d] == 1 for d in dims[1:]),
    )
    for what, holds in zip(
        ("lanes", "work-items", "reduce_order", "registers", "tiles"), kept_in_order, strict=True
    ):
        if not holds:
            raise LoweringError(
                f"{what} would change the order of an operator that does not commute"
            )


def _validate_scatter(problem: Problem, schedule: Schedule) -> None:
    """What goes to a computed place goes there element by element."""
    selection = selection_of(problem)
    if selection is None:
        raise LoweringError("the scalar function selects no dim")
    if problem.keeps_order:
        raise LoweringError("scattering would change the order of an operator")
    if schedule.lane >= 0 or any(schedule.tiles) or any(schedule.staged) or schedule.ahead:
        raise LoweringError("scattering has no lanes, no tiles, stages and asks ahead for nothing")
    if schedule.resident:
        _validate_scatter_together(problem, schedule, selection.dim)
    elif any(threads > 1 for threads in schedule.threads):
        raise LoweringError("work-items that share what is scattered are resident")
    if schedule.parts[selection.dim] != 1 or any(schedule.registers[d] > 1 for d in problem.kept):
        raise LoweringError("kept dims have no register tiles where results are scattered")


def _validate_scatter_together(problem: Problem, schedule: Schedule, dim: int) -> None:
    """Work-items share a copy in local memory where the operator has atomic operations."""
    if problem.is_general or schedule.last_group or schedule.warp or any(schedule.lead):
        raise LoweringError("what is scattered in local memory has fixed extents, no warps or lead")
    others = [d for d in problem.kept if d != dim]
    if any(schedule.threads[d] > 1 for d in problem.kept):
        raise LoweringError("work-items share out reduced dims where results are scattered")
    if any(schedule.parts[d] < problem.extent(d) for d in others):
        raise LoweringError("a group scatters along one dim, and has one point of the others")


def _validate_scan(problem: Problem, schedule: Schedule) -> None:
    """Along a scanned dim, work-items walk alone, or exchange totals if they are resident."""
    d = problem.scanned
    if any(schedule.staged):
        raise LoweringError("a scan reads its inputs as they come and stages none")
    if schedule.resident:
        _validate_scan_together(problem, schedule)
        return
    if schedule.tiles[d] or schedule.threads[d] > 1:
        raise LoweringError("a scanned dim has no tiles, and work-items do not share it")
    if schedule.lane == d and problem.keeps_order and _split(problem, schedule):
        raise LoweringError("lanes would change the order in the totals of groups")


def _validate_in_turn(problem: Problem, schedule: Schedule) -> None:
    """A group waits for the one before it, which must have begun: their number must be known."""
    if problem.scanned < 0 or problem.is_general or not _split(problem, schedule):
        raise LoweringError("groups take turns where they share a scanned dim of a known extent")
    if schedule.resident or any(threads > 1 for threads in schedule.threads):
        raise LoweringError("groups that take turns have one work-item")


def _validate_scan_together(problem: Problem, schedule: Schedule) -> None:
    """Groups that share a scanned dim tell each other totals of one block and one point."""
    d = problem.scanned
    if any(schedule.lead) or schedule.warp or schedule.swath > 1 or schedule.last_group:
        raise LoweringError("a scan has no lead, no warps of its own shape and no swaths")
    if not _split(problem, schedule):
        return
    if problem.is_general or problem.extent(d) > schedule.parts[d] * _block(schedule, d):
        raise LoweringError("groups that share a scanned dim have a block of a known extent each")
    if any(_block(schedule, e) > 1 or schedule.parts[e] < problem.extent(e) for e in problem.kept):
        raise LoweringError("groups that share a scanned dim have one point of the others each")
    if schedule.threads[d] % WARP or schedule.group_order[-1] != d:
        raise LoweringError("groups that share a scanned dim have whole warps along it")


def _block(schedule: Schedule, d: int) -> int:
    return schedule.registers[d] * schedule.threads[d]


def _validate_peel(problem: Problem, schedule: Schedule) -> None:
    """One run of results is aligned at a time: that of the first row of a register tile."""
    lane, width = schedule.lane, schedule.width
    if lane < 0 or problem.reduced[lane] or problem.scanned >= 0:
        raise LoweringError("rows are peeled along lanes of a kept dim, and not in scans")
    if schedule.loop_order[-1] != lane or schedule.tail != "split":
        raise LoweringError("rows are peeled by the innermost loop, and their tails are split")
    if len(problem.writes) != 1 or problem.writes[0].strides[lane].constant != 1:
        raise LoweringError("rows are peeled where one result is written to neighbouring places")
    if _split(problem, schedule):
        raise LoweringError("rows of partial results are not peeled")
    known = all(stride.constant is not None for stride in problem.writes[0].strides)
    if unlike_rows(problem, schedule) and not (schedule.streaming and known):
        raise LoweringError(
            f"rows of a register tile lie a multiple of {width} apart, or are streamed and lie"
            " a known distance apart"
        )
    for stream, region in zip(problem.streams, schedule.staged, strict=True):
        if region and stream.uses(lane):
            raise LoweringError("tiles that are staged along the lanes have no peeled rows")


def unlike_rows(problem: Problem, schedule: Schedule) -> int:
    """Rows of a register tile that begin elsewhere in a vector than its first one, at most."""
    lane, width, registers = schedule.lane, schedule.width, schedule.registers
    strides = problem.writes[0].strides
    if all(d == lane or registers[d] == 1 or is_multiple(strides[d], width) for d in problem.kept):
        return 0
    return math.prod(registers[d] for d in problem.kept if d != lane) - 1


def _validate_transposed(problem: Problem, schedule: Schedule) -> None:
    """Rows of a register tile are neighbours that lie far apart along the lanes."""
    lane = schedule.lane
    if lane < 0 or problem.reduced[lane] or problem.scanned >= 0:
        raise LoweringError("tiles are transposed along lanes of a kept dim, and not in scans")
    if all(schedule.registers[d] == 1 for d in rows_across(problem, lane)):
        raise LoweringError("tiles are transposed whose rows are neighbours, but no lanes are")


def rows_across(problem: Problem, lane: int) -> tuple[int, ...]:
    """Kept dims along which results are neighbours that are none along the lanes."""
    writes = [write for write in problem.writes if write.strides[lane].constant != 1]
    return tuple(
        d
        for d in problem.kept
        if d != lane and any(write.strides[d].constant == 1 for write in writes)
    )


def _validate_streaming(problem: Problem, schedule: Schedule) -> None:
    """Streaming stores are whole vectors, each at an address that is a multiple of its size.

    With resident accumulators, those stores bypass the caches that are wide.
    """
    if not schedule.streaming:
        return
    if schedule.resident:
        along = [all(w.strides[d].constant == 1 for w in problem.writes) for d in problem.kept]
        if not any(along):
            raise LoweringError("streaming stores need results next to each other along some dim")
        return
    lane, width = schedule.lane, schedule.width
    if lane < 0 or (problem.reduced[lane] and lane != problem.scanned):
        raise LoweringError("streaming stores need lanes along a dim of the result")
    for write in problem.writes:
        others = [stride for d, stride in enumerate(write.strides) if d != lane]
        if schedule.transposed and is_multiple(write.strides[lane], width):
            # Which columns are whole vectors that begin where they may, their store tells.
            others = []
        elif write.strides[lane].constant != 1:
            raise LoweringError("streaming stores need results next to each other along the lanes")
        steps = (as_index(write.offset), *others)
        if not schedule.peel and any(not is_multiple(step, width) for step in steps):
            raise LoweringError(
                f"streaming stores need strides and offsets of results in multiples of {width}"
            )
    extent = problem.extents[lane].constant
    if schedule.tail == "overlap" and extent is not None and extent % width:
        raise LoweringError("streaming stores cannot overlap their neighbours")


def is_multiple(stride: Index, of: int) -> bool:
    """Whether a distance is known to be a multiple of a number."""
    return stride.constant is not None and stride.constant % of == 0


def _validate_accumulation(problem: Problem, schedule: Schedule) -> None:
    """Tiles of a reduced dim accumulate in the output, which must then have the results' type."""
    tiled = any(schedule.tiles[d] for d in problem.contracted)
    if schedule.resident:
        return
    if tiled and not problem.accumulates_in_place and not _split(problem, schedule):
        raise LoweringError(
            "tiles of a reduced dim accumulate in the outputs, which need the types of"
            f" {[str(dtype) for dtype in problem.scalar.result_dtypes]}"
        )


def _split(problem: Problem, schedule: Schedule) -> bool:
    """Whether several groups share a reduction, so that results do not go to the output at once."""

    def is_split(d: int) -> bool:
        extent = problem.extents[d].constant
        if extent is None:
            return schedule.parts[d] != 1
        return schedule.parts[d] > 1 and extent > schedule.registers[d] * schedule.threads[d]

    return any(is_split(d) for d in problem.contracted)
