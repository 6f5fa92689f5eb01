"""Plans of a computation in parts within a memory limit, with the bytes that they move."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from mdtensor.api.parts.cuts import Edges, allowed, farthest_strides, points_of
from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import Concat, Pointwise
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program, Step
from mdtensor.translate.rewrites.parts import Box, part_of

# Parts of an input that are in memory at a time: one is read while another is computed.
AT_ONCE = 2

# Bytes that parts hold at a time so that a processor's last cache has them when they are computed.
# Longer ones are read no faster, and take longer to begin and to end, while nothing is read or
# nothing computed.
_ENOUGH = 64_000_000
# What parts that hold less may cost more.
_MORE_COST = 1.01
# Bytes that a file gives while it is asked for another run of them.
_STARTING = 1 << 16

# Combinations of sizes that are tried before dims are cut one after the other.
_MOST_TRIED = 1000

# How many indices of each dim a part has.
Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A step cut into parts of given sizes, with its peak bytes of memory and its bytes moved.

    `cost` are the bytes that a file would give meanwhile in one run.
    """

    step: Step
    sizes: Sizes
    held: int
    moved: int
    cost: int

    @property
    def cuts(self) -> dict[str, Edges]:
        """The cut points of every dim."""
        extents = self.step.md_hom.extents
        whole = {
            name: (*range(0, extent, max(1, self.sizes[name])), extent) if extent else (0, 0)
            for name, extent in extents.items()
        }
        return allowed(self.step.md_hom, whole)

    @property
    def parts(self) -> int:
        """Number of parts."""
        return math.prod(len(edges) - 1 for edges in self.cuts.values())


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The plans of all steps: `limit`, `peak` and `moved` are bytes."""

    steps: tuple[StepPlan, ...]
    limit: int
    peak: int
    moved: int

    @property
    def parts(self) -> int:
        """Number of parts of all steps."""
        return sum(step.parts for step in self.steps)


def memory_plan(
    program: Program,
    streamed: Sequence[bool],
    limit: int,
    allocated: int,
    *,
    shortened: bool = True,
) -> MemoryPlan:
    """The parts that move the fewest bytes among those that fit.

    `streamed` tells which operands are read part by part; others are in memory, and the caller's.
    `allocated` are the bytes of results that are. Parts are `shortened` where longer ones bring
    nothing; not those of arrays whose chunks are read as a whole. The plan's peak is above the
    limit where nothing fits: it is then the least there can be.
    """
    first, lives = program.operands, program.lifetimes
    between = [(spec.nbytes, *lives[slot]) for slot, spec in program.between.items()]
    plans: list[StepPlan] = []
    peak = allocated
    for number, step in enumerate(program.steps):
        live = allocated + sum(size for size, *life in between if life[0] <= number <= life[1])
        read = [slot < first and streamed[slot] for slot in step.operands]
        least = _ENOUGH if shortened else limit
        plan = _planned(step, read, _converted(program, step), limit - live, least)
        plans.append(plan)
        peak = max(peak, live + plan.held)
    return MemoryPlan(tuple(plans), limit, peak, sum(plan.moved for plan in plans))


def _converted(program: Program, step: Step) -> list[int]:
    """Additional bytes per element, for operands that are converted as they are read."""
    converted = {number for number, _ in program.converted}
    # No type that kernels compute with has more.
    return [16 if slot in converted else 0 for slot in step.operands]


def _planned(
    step: Step, read: Sequence[bool], besides: Sequence[int], room: int, enough: int
) -> StepPlan:
    """The plan of a step within `room` bytes, or the one that holds the least."""
    md_hom = step.md_hom

    def plan(sizes: Sizes) -> StepPlan:
        return StepPlan(step, sizes, *_costs(md_hom, sizes, read, besides))

    fixed = {
        name: len(edges) == md_hom.extents[name] + 1 and md_hom.extents[name] > 1
        for name, edges in allowed(md_hom, {d.name: (0, d.extent) for d in md_hom.dims}).items()
    }
    best = plan({name: 1 if fixed[name] else n for name, n in md_hom.extents.items()})
    dims = [name for name in _cuttable(md_hom) if not fixed[name]]
    far = farthest_strides(md_hom)
    tried = [(best.sizes[name], *_halves(best.sizes[name])[1::2]) for name in dims]
    if best.held > room and math.prod(map(len, tried)) <= _MOST_TRIED:
        plans = [
            plan({**best.sizes, **dict(zip(dims, sizes, strict=True))})
            for sizes in itertools.product(*tried)
        ]
        # Elements far apart are cut first, so that parts are long runs of memory.
        near = sorted(dims, key=far.__getitem__)
        best = min(
            [each for each in plans if each.held <= room] or [best],
            key=lambda p: (p.cost, *(-p.sizes[name] for name in near)),
        )
    while best.held > room:
        # The first cut may take more memory than it saves, since results then wait to be combined.
        smaller = [
            plan({**best.sizes, name: size}) for name in dims for size in _halves(best.sizes[name])
        ]
        smaller = [each for each in smaller if each.held < best.held]
        if not smaller:
            return best
        held = best.sizes
        best = min(smaller, key=lambda p: (p.cost, -_distance(p.sizes, held, far), p.held))
    for name in dims:
        for size in (md_hom.extents[name], *_halves(md_hom.extents[name])):
            larger = plan({**best.sizes, name: max(size, best.sizes[name])})
            if larger.held <= room and larger.cost <= best.cost:
                best = larger
                break
    return _shortened(best, plan, sorted(dims, key=far.__getitem__, reverse=True), enough)


def _shortened(
    best: StepPlan, plan: Callable[[Sizes], StepPlan], dims: Sequence[str], enough: int
) -> StepPlan:
    """Shorten the parts at the same cost until they hold at most `enough` bytes, dim by dim."""
    most = best.cost * _MORE_COST
    for name in dims:
        for size in _halves(best.sizes[name]):
            if best.held <= enough:
                return best
            shorter = plan({**best.sizes, name: size})
            if shorter.cost > most or shorter.held >= best.held:
                break
            best = shorter
    return best


def _distance(sizes: Sizes, before: Sizes, far: Mapping[str, int]) -> int:
    """The largest stride of the dims that are cut more finely than before."""
    return max(far[name] for name, size in sizes.items() if size != before[name])


def _halves(size: int) -> list[int]:
    """The successive halves of a size, down to 1.

    >>> _halves(10)
    [5, 3, 2, 1]
    """
    found: list[int] = []
    while size > 1:
        size = (size + 1) // 2
        found.append(size)
    return found


def _cuttable(md_hom: MDHom) -> list[str]:
    """The dims that may be cut."""
    if 0 in md_hom.extents.values():
        return []
    tried = allowed(md_hom, {d.name: (0, *range(1, d.extent), d.extent) for d in md_hom.dims})
    return [dim.name for dim in md_hom.dims if dim.extent > 1 and len(tried[dim.name]) > 2]


def _costs(
    md_hom: MDHom, sizes: Sizes, read: Sequence[bool], besides: Sequence[int]
) -> tuple[int, int, int]:
    """Bytes that parts hold at a time, bytes that all of them move, and the cost of moving."""
    counts = {dim.name: -(-dim.extent // max(1, sizes[dim.name])) for dim in md_hom.dims}
    middle = {
        name: ((n // 2) * sizes[name], min((n // 2 + 1) * sizes[name], md_hom.extents[name]))
        for name, n in counts.items()
    }
    # The last one may be shorter; the one before it is whole.
    middle = {
        name: (low, high) if high - low == sizes[name] else (0, sizes[name])
        for name, (low, high) in middle.items()
    }
    part = part_of(md_hom, middle)
    order = [*(d.name for d in md_hom.kept), *(d.name for d in md_hom.reduced)]
    between = () if md_hom.epilogue is None else md_hom.epilogue.view
    accesses = (*md_hom.inp_view, *between)
    held, moved, cost = 0, 0, 0.0
    for number, box in enumerate(part.reads):
        if not read[number]:
            continue
        used = {dim for a in accesses if a.buffer == number for dim in a.dims}
        last = max((order.index(dim) for dim in used if counts[dim] > 1), default=-1)
        # Along a dim that it has, an input is read once, but for what parts have in common.
        times = math.prod(
            md_hom.extents[name] / sizes[name] if name in used else counts[name]
            for name in order[: last + 1]
        )
        size = points_of(box) * (md_hom.inputs[number].spec.dtype.itemsize + besides[number])
        held += AT_ONCE * size
        moved += round(times * size)
        cost += times * _cost_to_read(box, md_hom.inputs[number].spec)
    written = sum(
        points_of(box) * buffer.spec.dtype.itemsize
        for box, buffer in zip(part.writes, md_hom.outputs, strict=True)
    )
    results = sum(math.prod(b.spec.shape) * b.spec.dtype.itemsize for b in md_hom.outputs)
    moved += results
    held += AT_ONCE * written + _combined(md_hom, sizes, counts)
    return held, moved, round(cost) + results


def _cost_to_read(box: Box, spec: TensorSpec) -> int:
    """Bytes transferred from a file to read a box run by run, with short gaps included."""
    runs, span, itemsize = points_of(box), 1, spec.dtype.itemsize
    axes = zip(box, spec.shape, spec.strides, strict=True)
    for section, extent, stride in sorted(axes, key=lambda axis: abs(axis[2])):
        count = len(range(section.start, section.stop, section.step or 1))
        if abs(stride) * abs(section.step or 1) != span and count > 1:
            break
        runs //= max(1, count)
        if (extent - count) * span * itemsize >= _STARTING or runs < 2:
            span *= count
            break
        span *= extent
    return max(1, runs) * (span * itemsize + _STARTING)


def _combined(md_hom: MDHom, sizes: Sizes, counts: Mapping[str, int]) -> int:
    """Bytes of the partial results that wait to be combined."""
    cut = [dim for dim in md_hom.dims if counts[dim.name] > 1]
    combined = [dim for dim in cut if not isinstance(dim.combine, Concat)]
    if not combined:
        return 0
    partial = math.prod(sizes[dim.name] for dim in md_hom.kept)
    partial *= sum(dtype.itemsize for dtype in md_hom.scalar.result_dtypes)
    if isinstance(combined[0].combine, Pointwise):
        parts = math.prod(counts[dim.name] for dim in combined)
        return (parts.bit_length() + 2) * partial
    return 4 * partial
