"""Lower bounds on the cost of a block's schedules, which prune most of the candidates."""

from __future__ import annotations

import math
from collections.abc import Callable

from mdtensor.lower.gpu.base.block_shapes import BlockShape, BlockShapes
from mdtensor.lower.gpu.base.gpu_arithmetic import cycles_of_point
from mdtensor.lower.gpu.base.gpu_cost import (
    BASE,
    COUNTING,
    GROUP,
    LEVEL,
    LINE_LOAD,
    LOAD_OF_ONE_WARP,
    LOCAL_LOAD,
    POINT_OF_LEVEL,
    STEP,
)
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.specs import Target


class LeastOfBlocks:
    """Lower bounds, in seconds, of all schedules of a block.

    Terms of `gpu_estimate` that bound it from below: arithmetic, local and global loads of all
    groups; the steps of one; the bytes of memory.
    """

    def __init__(
        self, blocks: BlockShapes, target: Target, most_parts: Callable[[BlockShape], int]
    ) -> None:
        problem = blocks.problem
        self._blocks, self._kept, self._most_parts = blocks, problem.kept, most_parts
        self._instructions = cycles_of_point(problem)
        self._steps = math.prod(blocks.extents[d] for d in problem.contracted)
        self._streams = [
            (
                tuple(d for d in problem.kept if stream.uses(d)),
                any(stream.uses(d) for d in problem.contracted),
            )
            for stream in problem.streams[: problem.finish_streams]
        ]
        self._cores, self._clock = target.cores, target.sustained_clock
        self._schedulers = target.core.schedulers
        moved = sum(
            math.prod(blocks.extents[d] for d in used) * problem.inputs[stream.buffer].itemsize
            for used, stream in zip(problem.used, problem.streams, strict=True)
        )
        self._moving = moved / target.bandwidth

    def seconds(self, block: BlockShape) -> float:
        """A lower bound of the seconds of a block's schedules."""
        points, items = block.points, block.items
        groups = math.prod(
            [-(-self._blocks.extents[d] // (points[d] * items[d])) for d in self._kept]
        )
        local = direct = 0.0
        for (dims, walked), region in zip(self._streams, self._blocks.staged(block), strict=False):
            own = math.prod([points[d] for d in dims])
            if region:
                local += own / (4 if not dims or any(block.chunks[d] >= 4 for d in dims) else 1)
            elif walked:
                direct += own
        held = math.prod([points[d] for d in self._kept])
        arithmetic = held * self._instructions
        steps = self._steps / block.sharing
        step = max(arithmetic / self._schedulers, local * LOCAL_LOAD, direct * LINE_LOAD)
        warps = groups * -(-math.prod(items) // WARP)
        together = max(self._moving, warps * steps / self._cores * step / self._clock)
        alone = steps * (arithmetic + local * LOAD_OF_ONE_WARP + STEP)
        last = GROUP + LEVEL * math.log2(block.sharing) * (1 + held * POINT_OF_LEVEL)
        whole = max(together, (alone + last) / self._clock)
        parts = self._most_parts(block)
        if parts > 1:
            in_parts = max(together, (alone / parts + last) / self._clock)
            whole = min(whole, in_parts + COUNTING)
        return whole + BASE
