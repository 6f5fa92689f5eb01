"""Register rotation: elements that the next block reads too are kept in registers.

A group that walks through several blocks along a dim reads most elements of a stencil once for
each block that they are near. Here the elements that the next block reads too are handed on in
registers, so that a work-item loads each of them once, however many blocks there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.stream_pointers import stream_pointer
from mdtensor.lower.ir.index import Index, name, total
from mdtensor.lower.ir.statements import Let, Pointer, Set, Statement
from mdtensor.lower.ir.values import Load

_FIRST = "m"  # begins the names of pointers to the streams where the first block reads


@dataclass(frozen=True, slots=True)
class RotatedLoop:
    """A rotated loop: loads before the first block, its body, and register moves at its end."""

    before: tuple[Let, ...]
    inside: tuple[Statement, ...]
    after: tuple[Set, ...]


def handed_on(statements: Sequence[Statement], steps: Mapping[str, int]) -> RotatedLoop:
    """Replace loads of elements that the previous block loaded by its registers.

    `steps` has by how many elements the next block lies further in each buffer that may be marched
    through. A load whose element was loaded by the block before is replaced by its register, unless
    the block computes where it is: the block before may have computed another place.
    """
    computed = {statement.ref.name for statement in statements if isinstance(statement, Let)}
    keys = [_place(statement, steps, computed) for statement in statements]
    pairs = zip(keys, statements, strict=True)
    places = {key: load.ref for key, load in pairs if key and isinstance(load, Let)}
    before: list[Let] = []
    inside: list[Statement] = []
    after: list[Set] = []
    for key, statement in zip(keys, statements, strict=True):
        following = places.get(_next(key, steps)) if key else None
        if following is None:
            inside.append(statement)
            continue
        assert isinstance(statement, Let)
        held = replace(statement.ref, name=f"h_{statement.ref.name}")
        before.append(replace(statement, ref=held, mutable=True))
        inside.append(replace(statement, value=held))
        after.append(Set(held, following))
    return RotatedLoop(tuple(before), tuple(inside), tuple(after))


def _place(
    statement: Statement, steps: Mapping[str, int], computed: AbstractSet[str]
) -> tuple[str, Index, int] | None:
    """The buffer and address of a scalar load that may be rotated; None for other statements."""
    load = statement.value if isinstance(statement, Let) else None
    if not isinstance(load, Load):
        return None
    names = {each for monomial, _ in load.index.terms for each in monomial}
    if not steps.get(load.buffer) or load.lanes > 1 or names & computed:
        return None
    return load.buffer, *load.index.split()


def _next(place: tuple[str, Index, int], steps: Mapping[str, int]) -> tuple[str, Index, int]:
    """The address by which the next block reads the same element."""
    buffer, base, constant = place
    return buffer, base, constant + steps[buffer]


def steps_along(frame: Frame, d: int) -> dict[str, int]:
    """The distance between neighbouring blocks in each stream, in elements."""
    streams = enumerate(frame.problem.streams)
    return {f"b{n}": (s.strides[d].constant or 0) * frame.tilings[d].tile for n, s in streams}


def first_pointers(frame: Frame, d: int) -> list[Pointer]:
    """A pointer per stream to the first point of a group's first block along the dim."""
    starts = [name(t.var("lo" if e == d else "r")) for e, t in enumerate(frame.tilings)]
    found: list[Pointer] = []
    for number, stream in enumerate(frame.problem.streams):
        offset = total(s * start for s, start in zip(stream.strides, starts, strict=True))
        found.append(stream_pointer(frame, number, f"{_FIRST}{number}", offset))
    return found


def of_first_block(statements: Sequence[Statement]) -> list[Statement]:
    """Loads before all blocks, through the first block's pointers."""
    found: list[Statement] = []
    for statement in statements:
        assert isinstance(statement, Let)
        value = statement.value
        if isinstance(value, Load):
            value = replace(value, buffer=_FIRST + value.buffer[1:])
        found.append(replace(statement, value=value))
    return found
