"""The (de/re)-composition of a problem by a schedule, as a picture.

Drawn after Figure 60 of 002: a row for each layer of the device, between dotted lines; in it the
number of parts of each dim, and the place of this step in the order of all. Inputs are taken apart
from top to bottom, on the left; results are put together from bottom to top, on the right; beside
the layers stands the memory where they lie. What is grey is a tuning parameter.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.api.reports.svg_writer import NARROW, Picture, cut
from mdtensor.dataclass import dataclass
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.machine_model import asm_of
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.lower.schedule.tiling import tilings_of
from mdtensor.translate.md_hom import MDHom

_SIDE, _COLUMN, _HEAD, _ROW, _FOOT = 86, 62, 64, 58, 34
_LINE = 11


@dataclass(frozen=True, slots=True)
class LayerParts:
    """The division of a dim by a layer: into `parts`, of at most `size` points each.

    `order` is the place of this step among those that have more than one part; None for those that
    have one. `decided` tells whether the schedule says it, or each launch.
    """

    parts: int
    size: int
    order: int | None = None
    decided: bool = True


def decomposition(problem: Problem, schedule: Schedule) -> list[list[LayerParts]]:
    """The parts of every dim on every layer of the device, outermost first.

    The extent of a dim is at most the product of its parts and of the size of the innermost one,
    and more than that only by what layers are rounded up.
    """
    tilings = tilings_of(problem, schedule)
    sizes = [problem.extent(d) for d in problem.dims]
    found: list[list[LayerParts]] = []
    begun = 0
    for layer in asm_of(schedule.asm).layers:
        row: list[LayerParts] = []
        for d in problem.dims:
            tiling, size = tilings[d], sizes[d]
            if layer.field == "parts":
                inner = tiling.part.constant or size
            elif layer.field == "tiles":
                inner = tiling.tile or size
            elif layer.field == "registers":
                inner = tiling.register
            else:
                lanes = schedule.width if d == schedule.lane else 1
                inner = -(-size // (tiling.threads if layer.field == "threads" else lanes))
            inner = max(1, min(size, inner))
            decided = layer.field != "parts" or schedule.parts[d] != 0
            count = tiling.parts.constant if layer.field == "parts" else None
            row.append(LayerParts(count or -(-size // inner), inner, None, decided))
        steps = [d for d in _order(problem, schedule, layer.field) if row[d].parts > 1]
        for place, d in enumerate(steps, begun):
            row[d] = LayerParts(row[d].parts, row[d].size, place, row[d].decided)
        begun += len(steps)
        sizes = [part.size for part in row]
        found.append(row)
    return found


def _order(problem: Problem, schedule: Schedule, field: str) -> Sequence[int]:
    """The dims of a layer, outermost first."""
    if field == "registers":
        return (*schedule.loop_order, *schedule.reduce_order)
    if field == "tiles" and schedule.resident:  # accumulators stay while reduced tiles go by
        return sorted(schedule.group_order, key=lambda d: problem.reduced[d])
    return schedule.group_order


def decomposition_picture(md_hom: MDHom, problem: Problem, schedule: Schedule) -> Picture:
    """A picture of a problem's (de/re)-composition; buffer names are those of `md_hom`."""
    asm = asm_of(schedule.asm)
    rows = decomposition(problem, schedule)
    width = max(NARROW, 2 * _SIDE + _COLUMN * len(problem.dims))
    left = (width - _COLUMN * len(problem.dims)) / 2
    height = _HEAD + _ROW * len(rows) + _FOOT
    picture = Picture(width, height, cut(f"(De/re)-composition of {md_hom!r}", 400))
    picture.text(4, 14, "↓ inputs", "strong")
    picture.text(width - 4, 14, "results ↑", "strong", "end")
    # Complex buffers are several of a problem's.
    inputs = [buffer.name for buffer in md_hom.inputs]
    for line, name in enumerate(inputs[:2]):
        reads = ", ".join(repr(a) for a in md_hom.inp_view if a.buffer == line)
        picture.text(4, 28 + _LINE * line, f"{name} {reads}", "soft small", most=16)
    for line, buffer in enumerate(md_hom.outputs[:2]):
        writes = ", ".join(repr(a) for a in md_hom.out_view if a.buffer == line)
        text = f"{buffer.name} {writes}"
        picture.text(width - 4, 28 + _LINE * line, text, "soft small", "end", most=16)
    middle = [left + _COLUMN * (d + 0.5) for d in problem.dims]
    for d, x in enumerate(middle):
        picture.text(x, 14, problem.labels[d], "strong", "middle", most=9)
        picture.text(x, 28, str(problem.extent(d)), "", "middle")
        picture.text(x, 42, _combination(problem, d), "soft small", "middle", most=10)
    for level, (layer, row) in enumerate(zip(asm.layers, rows, strict=True)):
        top = _HEAD + _ROW * level - 6
        picture.path([(0, top), (width, top)], "dotted")
        how = "parallel" if layer.parallel else "in turn"
        picture.text(4, top + 14, layer.name, "strong small")
        picture.text(4, top + 25, how, "soft small")
        for line, text in enumerate(_of_inputs(inputs, problem, schedule, level)[:2]):
            picture.text(4, top + 38 + _LINE * line, text, "small", most=15)
        picture.text(
            width - 4, top + 38, _of_results(problem, schedule, level), "small", "end", most=15
        )
        for x, part in zip(middle, row, strict=True):
            _draw(picture, x, top, part)
    bottom = _HEAD + _ROW * len(rows) - 6
    picture.path([(0, bottom), (width, bottom)], "dotted")
    picture.box(left + 2, bottom + 8, _COLUMN * len(problem.dims) - 4, 22, "cell")
    after = "" if md_hom.epilogue is None else f", then {md_hom.epilogue.function!r}"
    picture.text(width / 2, bottom + 23, f"{md_hom.scalar!r}{after}", "strong", "middle", most=24)
    return picture


def _draw(picture: Picture, x: float, top: float, part: LayerParts) -> None:
    if part.parts > 1 or not part.decided:
        picture.box(x - _COLUMN / 2 + 3, top + 6, _COLUMN - 6, _ROW - 12, "cell")
    shown = f"{part.parts} ×" if part.decided else "at launch"
    picture.text(x, top + 27, shown, "strong" if part.parts > 1 else "soft", "middle")
    picture.text(x, top + 42, str(part.size), "soft small", "middle")
    if part.order is not None:
        picture.box(x + _COLUMN / 2 - 18, top + 3, 17, 13, "badge")
        picture.text(x + _COLUMN / 2 - 9.5, top + 12.5, str(part.order), "onbadge", "middle")


def _combination(problem: Problem, d: int) -> str:
    """The operator that combines a dim's parts, as text: concatenation, reduction or prefix sum."""
    if not problem.reduced[d] or problem.operator is None:
        return "++"
    return f"ps({problem.operator!r})" if d == problem.scanned else repr(problem.operator)


def _of_inputs(names: Sequence[str], problem: Problem, schedule: Schedule, level: int) -> list[str]:
    """The places of the inputs on a layer: memory, the staging regions, registers."""
    if level == 0:
        return ["memory"]
    if level == 1:
        staged: dict[str, None] = {}
        for stream, region in zip(problem.streams, schedule.staged, strict=False):
            if region:
                number = stream.buffer
                name = names[number] if number < len(names) else f"input {number}"
                staged[f"{name}: {region}"] = None
        return list(staged) or ["caches"]
    return ["registers"]


def _of_results(problem: Problem, schedule: Schedule, level: int) -> str:
    """The place of the results on a layer: memory, scratch if groups share them, registers."""
    if level == 0:
        if not schedule.splits(problem):
            return "memory"
        return "cluster" if schedule.cluster else "scratch"
    return "" if level == 1 else "registers"
