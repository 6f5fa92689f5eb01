"""Schedule: the tuning parameters of a problem on a device.

They are those of 002, section 4.4, Table 1, and others below the formalism. Tuples have one entry
per dim of the problem, or per stream for `staged`.

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
from collections.abc import Callable
from dataclasses import asdict

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.lower.pass_runner import Pass
from mdtensor.lower.problem.minmax_operators import with_extremes
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.declaration import changed, declarations_of, tuned
from mdtensor.lower.schedule.machine_model import asm_of
from mdtensor.plain_data import value_of

MOST_STAGES = 8
MOST_AHEAD = 64
MOST_OF_CLUSTER = 8  # groups, on every device that has clusters
# Of the register tile, that is of unrolled statements: vectors on processors, points on GPUs.
MOST_VECTORS, MOST_POINTS = 1 << 10, 1 << 14
_MOST_CHARACTERS = 1 << 16  # of a text
TAILS = ("split", "pad", "overlap")
SCHEDULED_PASSES: tuple[Pass[Problem, [], Problem], ...] = (
    Pass("fill with zeros", zero_filled),
    Pass("use extremes", with_extremes),
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The values of all tuning parameters.

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
      they are streamed (see `lower.codegen.cpu.join_rows`).
    - `transposed`: rows of a register tile whose results are neighbours are transposed in
      registers where results lie far apart along the lanes, so that vectors are written instead of
      elements (see `lower.codegen.memory.transpose_rows`).
    - `ahead`: iterations of the innermost loop by which memory is asked for before it is read; 0
      for what the processor fetches by itself.
    - `in_turn`: groups that share a scanned dim are one kernel, and each takes what comes before
      its part from the one before it (see `lower.codegen.scan.serial_scan`); else there are three.
    - `scatter`: the dim that the scalar function selects is indexed, not walked through (see
      `lower.problem.scatter_pattern`); if `resident`, by all work-items of a group in local memory.
    - `inline`: the calling thread runs the kernel itself, without waking the device's threads.
    - `resident`: a work-item keeps its accumulators in registers while tiles of reduced dims go
      by (see `lower.codegen.register_blocking`); without a reduction, what its points share (see
      `lower.gpu.streaming.pointwise`). What follows is for such schedules only.
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
      small matrices (see `lower.gpu.tensor_cores.tensor_core_tile`); () where every
      work-item computes its own.
    - `bulk`: matrices come to local memory by bulk copies, for which a warp more asks, and are
      multiplied by four warps together (see `lower.gpu.tma.wgmma_loop`). Rows may lie along
      several dims then, those that have more than one work-item or point.
    - `results`: the region through which results leave, in boxes that copy themselves ("local",
      see `lower.gpu.tma.wgmma_store`), in runs of groups that march, as many as `stages`
      (`lower.gpu.streaming.streamed_output`), or "" where work-items store them.
    - `swath`: parts of the last kept dim but one of `group_order` whose groups are numbered
      together, so that those at work at one time share what they read; 0 or 1 for rows.
    - `lead`: points that the first block of a dim begins before it, so that blocks begin where
      wide accesses do; () for none, which is all that reductions have.
    - `march`: what a group's block reads that the next one reads too, along the last dim that it
      walks through several blocks of, is handed on in registers (see
      `lower.gpu.streaming.register_rotation`). With `staged` streams, planes of those come to
      local memory while groups march, as many blocks ahead as there are `stages` less one (see
      `lower.gpu.streaming.plane_prefetch`).
    - `last_group`: of the groups that share a reduction, the last one combines the results of all,
      instead of a second kernel.
    - `cluster`: those groups run at one time, leave their results in the local memory of the first
      of them, and this one combines them (see `lower.codegen.groups.cluster_reduction`).
    - `long_indices`: indices have 64 bits on GPUs even where all of them fit in 32 (see
      `lower.codegen.base.index_width`).
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
    tail: str = tuned("split", choices=TAILS, copied=True)
    streaming: bool = tuned(False, copied=True)
    inline: bool = tuned(False, copied=True)
    scatter: bool = tuned(False, "scatter")
    peel: bool = tuned(False, "peel", devices=("cpu",), copied=True)
    transposed: bool = tuned(False, "transposed", devices=("cpu",), copied=True)
    ahead: int = tuned(
        0,
        "ahead {}",
        most=MOST_AHEAD,
        devices=("cpu",),
        copied=True,
        values=(0, 1, 2, 4, 8, 16, 32, 64),
        free=("cpu",),
    )
    in_turn: bool = tuned(False, "in turn")
    long_indices: bool = tuned(False, "long indices", devices=("gpu",), copied=True)
    swath: int = tuned(0, "swaths of {}", idle=1, copied=True, values=(0, 2, 4, 8, 16))
    resident: bool = tuned(False, "resident")
    chunks: tuple[int, ...] = tuned((), "chunks {}", entries="dims", least=1, of_resident=True)
    warp: tuple[int, ...] = tuned((), "warp {}", entries="dims", least=1, of_resident=True)
    padding: tuple[int, ...] = tuned(
        (), "padding {}", entries="streams", of_resident=True, values=(0, 1, 4)
    )
    prefetch: bool = tuned(False, "prefetch", of_resident=True, copied=True)
    as_source: tuple[bool, ...] = tuned(
        (), "as their source {}", entries="streams", of_resident=True
    )
    stages: int = tuned(
        0,
        "stages {}",
        most=MOST_STAGES,
        idle=1,
        of_resident=True,
        copied=True,
        values=(0, 2, 3, 4, 5),
    )
    lead: tuple[int, ...] = tuned((), "lead {}", entries="dims", of_resident=True)
    last_group: bool = tuned(False, "the last group combines", of_resident=True, copied=True)
    cluster: bool = tuned(False, "the first of a cluster combines", of_resident=True, copied=True)
    march: bool = tuned(False, "marches", of_resident=True, copied=True)
    tensor: tuple[int, ...] = tuned((), "matrices along dims {}", of_resident=True)
    bulk: bool = tuned(False, "bulk copies", of_resident=True)
    results: str = tuned(
        "", "results through {} memory", choices=("", "local"), of_resident=True, copied=True
    )

    def computed(self, problem: Problem) -> Problem:
        """The problem after the schedule's rewrites: zero padding, `fmin` and `fmax`."""
        for each in self.rewrites(problem):
            problem = each.does(problem)
        return problem

    def rewrites(self, problem: Problem) -> tuple[Pass[Problem, [], Problem], ...]:
        """The passes that rewrite a problem for the schedule; none unless resident on a GPU."""
        stays = self.resident and not self.scatter and problem.scanned < 0
        fills = asm_of(self.asm).cooperative and stays and bool(problem.contracted)
        return SCHEDULED_PASSES if fills else ()

    @property
    def writes_where_it_reads(self) -> bool:
        """Whether reads stay within the elements of the results stored with them.

        Tiles that overlap, copies of inputs, and vectors that are joined from others read further.
        """
        reads_further = any(self.staged) or self.peel or self.transposed or self.streaming
        return self.tail == "split" and not reads_further

    def block(self, d: int) -> int:
        """Points of a dim that a group computes at once."""
        return self.registers[d] * self.threads[d]

    def numbered(self, problem: Problem) -> tuple[int, ...]:
        """The order of dims in which groups are numbered; a cluster's groups are consecutive."""
        if not self.cluster:
            return self.group_order
        return tuple(sorted(self.group_order, key=lambda d: problem.reduced[d]))

    def splits(self, problem: Problem) -> bool:
        """Whether groups share a reduction, so that they produce partial results."""
        return any(self._splits(problem.extents[d].constant, d) for d in problem.contracted)

    def _splits(self, extent: int | None, d: int) -> bool:
        if extent is None:
            return self.parts[d] != 1
        return self.parts[d] > 1 and extent > self.block(d)

    def to_json(self) -> str:
        """Canonical JSON, as stored in the cache."""
        fields = asdict(self)
        for name, declared in declarations_of(Schedule).items():
            if declared.text and not fields[name]:
                del fields[name]
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Schedule:
        """Parse a schedule from untrusted JSON; LoweringError where it is none.

        Every field has its type then. Whether it fits a problem is for `lower.schedule.rules` to
        say.
        """
        try:
            if len(text) > _MOST_CHARACTERS:
                raise ValueError(f"it has {len(text)} characters")
            return value_of(cls, json.loads(text))
        except (TypeError, ValueError, RecursionError) as error:
            raise LoweringError(f"not a schedule: {text[:80]!r}: {error}") from None

    def describe(self, problem: Problem) -> str:
        """One readable line per layer, with the names of the problem's dims."""

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
                *self._parameter_lines(by_dim),
            )
        )

    def _parameter_lines(self, by_dim: Callable[[tuple[int, ...]], str]) -> list[str]:
        """Lines for all values that are not neutral; those of resident schedules come last."""
        texts = [f"tail {self.tail}; streaming {self.streaming}; inline {self.inline}"]
        of_resident = ["resident"]
        for name, declared, value in changed(self):
            if declared.text and name != "resident" and not declared.is_neutral(value):
                line = of_resident if declared.of_resident else texts
                line.append(declared.described(value, by_dim))
        return ["; ".join(line) for line in (texts, of_resident)[: 1 + self.resident]]
