"""Groups and cache tiles: the outer loops that cut the index space into tiles.

Inside them, tile `d` runs from `t_d` to `e_d`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.ir.statements import IndexCalc, LetIndex, Loop, Statement
from mdtensor.lower.schedule.tiling import DimTiling


def group_bounds(
    tilings: Sequence[DimTiling],
    order: Sequence[int],
    swath: int = 0,
    swathed: tuple[int, int] | None = None,
) -> list[Statement]:
    """Declares `lo_d` and `hi_d` of every dim from the group's number, innermost dim fastest.

    The two dims that are `swathed`, neighbours among those that groups share, are walked in swaths
    of that many parts of the outer one, so that groups at work together read the same inputs.
    """
    statements: list[Statement] = []
    rest = name("group")
    split = [d for d in order if tilings[d].is_split]
    walked: list[tuple[int, ...]] = [(d,) for d in split]
    if swathed is not None:
        at = split.index(swathed[0])
        walked[at : at + 2] = [swathed]
    for dims in reversed(walked):
        number, parts = tilings[dims[-1]].var("z" if len(dims) == 1 else "s"), as_index(1)
        for d in dims:
            parts = parts * tilings[d].parts
        last = dims == walked[0]
        statements.append(LetIndex(number, rest if last else IndexCalc("%", rest, parts)))
        if not last:
            quotient = tilings[dims[-1]].var("g")
            statements.append(LetIndex(quotient, IndexCalc("/", rest, parts)))
            rest = name(quotient)
        if len(dims) == 2:
            statements += _in_swaths(tilings[dims[0]], tilings[dims[1]], name(number), swath)
        for d in reversed(dims):
            tiling = tilings[d]
            low = tiling.var("lo")
            statements.append(LetIndex(low, name(tiling.var("z")) * tiling.part - tiling.lead))
            high = IndexCalc("min", name(low) + tiling.part, tiling.extent)
            statements.append(LetIndex(tiling.var("hi"), high))
    for d in order:
        if d not in split:
            statements.append(LetIndex(tilings[d].var("lo"), as_index(-tilings[d].lead)))
            statements.append(LetIndex(tilings[d].var("hi"), tilings[d].extent))
    return statements


def _in_swaths(outer: DimTiling, inner: DimTiling, number: Index, swath: int) -> list[Statement]:
    """Declare the parts of two dims from a swizzled number; the last swath may be narrower."""
    whole = inner.parts * swath
    first, place, width = outer.var("first"), inner.var("place"), outer.var("width")
    return [
        LetIndex(outer.var("swath"), IndexCalc("/", number, whole)),
        LetIndex(place, IndexCalc("%", number, whole)),
        LetIndex(first, name(outer.var("swath")) * swath),
        LetIndex(width, IndexCalc("min", outer.parts - name(first), as_index(swath))),
        LetIndex(outer.var("row"), IndexCalc("%", name(place), name(width))),
        LetIndex(outer.var("z"), name(first) + name(outer.var("row"))),
        LetIndex(inner.var("z"), IndexCalc("/", name(place), name(width))),
    ]


def whole_part(tiling: DimTiling) -> list[Statement]:
    """Declare the bounds of an untiled dim's only tile: the group's part.

    Where parts overlap, the last one begins early enough to end inside the dim.
    """
    start = low = name(tiling.var("lo"))
    if tiling.overlap:
        start = IndexCalc("min", low, tiling.extent - tiling.block)
    return [LetIndex(tiling.var("t"), start), LetIndex(tiling.var("e"), name(tiling.var("hi")))]


def whole_parts(tilings: Sequence[DimTiling]) -> list[Statement]:
    """`whole_part` for every untiled dim."""
    return [s for tiling in tilings if not tiling.tile for s in whole_part(tiling)]


def tile_loop(tiling: DimTiling, body: Iterable[Statement]) -> Loop:
    """The loop over the tiles of a group's part of a dim; the last tile may be partial."""
    start, low, high = tiling.var("t"), name(tiling.var("lo")), name(tiling.var("hi"))
    end = LetIndex(tiling.var("e"), IndexCalc("min", name(start) + tiling.tile, high))
    stop, step = high + (tiling.tile - 1), as_index(tiling.tile)
    return Loop(start, low, stop, step, (end, *body))


def tile_loops(
    tilings: Sequence[DimTiling], dims: Sequence[int], body: Sequence[Statement]
) -> list[Statement]:
    """The loops over the tiles of those `dims` that are tiled, the first outermost."""
    statements = list(body)
    for d in reversed(dims):
        if tilings[d].tile:
            statements = list[Statement]([tile_loop(tilings[d], statements)])
    return statements


def cache_tiles(
    tilings: Sequence[DimTiling],
    order: Sequence[int],
    inside: Callable[[int], list[Statement]],
) -> list[Statement]:
    """The loops over cache tiles, outermost first.

    `inside(n)` gives the statements that follow the declaration of the n-th loop's tile (0: before
    any loop); the last of them is the body.
    """
    tiled = [d for d in order if tilings[d].tile]

    def nest(level: int) -> list[Statement]:
        here = inside(level)
        if level == len(tiled):
            return here
        return [*here, tile_loop(tilings[tiled[level]], nest(level + 1))]

    return [*whole_parts(tilings), *nest(0)]


def tiles_before(tilings: Sequence[DimTiling], order: Sequence[int]) -> Index:
    """An expression that is zero in the first tile of the given dims, and positive later."""
    return total(
        name(tilings[d].var("t")) - name(tilings[d].var("lo")) for d in order if tilings[d].tile
    )


def tiles_after(tilings: Sequence[DimTiling], order: Sequence[int]) -> Index:
    """An expression that is zero in the last tile of the given dims, and positive before."""
    return total(
        name(tilings[d].var("hi")) - name(tilings[d].var("e")) for d in order if tilings[d].tile
    )
