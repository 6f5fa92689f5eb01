"""Statements of one work-item: declarations, loops, conditions, stores.

What work-items do together is in `group_statements` and `tma_statements`; `Statement` is any.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.group_statements import GroupStatement
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.tma_statements import BulkStatement
from mdtensor.lower.ir.values import Ref, Value

EXCHANGE = "exchange"


@dataclass(frozen=True, slots=True)
class IndexCalc:
    """A non-polynomial operation on indices: min, / (floor), %, and ^, | of bits."""

    op: str
    lhs: Index
    rhs: Index


@dataclass(frozen=True, slots=True)
class LetIndex:
    """Declares an index variable; `mutable` where a loop or a Step changes it later."""

    name: str
    value: Index | IndexCalc
    mutable: bool = False


@dataclass(frozen=True, slots=True)
class Increment:
    """Adds to a mutable index variable."""

    name: str
    by: Index | int


@dataclass(frozen=True, slots=True)
class Let:
    """Declares a variable with a value."""

    ref: Ref
    value: Value
    mutable: bool = False


@dataclass(frozen=True, slots=True)
class Declare:
    """Declares a mutable variable without a value."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Set:
    """Assigns to a mutable variable."""

    ref: Ref
    value: Value


@dataclass(frozen=True, slots=True)
class Loop:
    """Sequential loop over `var` by `step` while a whole step fits before `stop`.

    Where `start` is None, `var` is a mutable index variable declared before; it keeps its value
    after the loop, so that what remains can follow.
    """

    var: str
    start: Index | None
    stop: Index
    step: Index
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If:
    """Runs the body where `lhs op rhs` holds; `op` is one of <, <=, ==."""

    lhs: Index
    op: str
    rhs: Index
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class When:
    """Runs the body where a condition holds, a scalar byte that is 0 or 1."""

    condition: Value
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A scope: statements whose declarations end with it."""

    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Pointer:
    """Declares a pointer into a buffer; `const` if it is never stored through."""

    name: str
    buffer: str
    memory: np.dtype
    region: str
    offset: Index
    const: bool = True


@dataclass(frozen=True, slots=True)
class VectorStore:
    """A store of a value to consecutive elements (or `stride` apart), in the memory type.

    A `streaming` one bypasses the caches; an `aligned` one is known to begin at a multiple of its
    size, so that nothing is left to test.
    """

    buffer: str
    memory: np.dtype
    index: Index
    value: Value
    stride: Index | int = 1
    streaming: bool = False
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A prefetch of a buffer's element; the address may be out of bounds."""

    buffer: str
    index: Index


@dataclass(frozen=True, slots=True)
class LetHead:
    """Declares an index variable: elements from a place up to the next multiple of `nbytes`.

    Elements begin at multiples of their own size, as in all arrays that are computed with.
    """

    name: str
    buffer: str
    memory: np.dtype
    index: Index
    nbytes: int


@dataclass(frozen=True, slots=True)
class Allocate:
    """Declares an array of the work-item ("private") or of its group ("local").

    One of region `EXCHANGE` is local memory in languages without warps, and nothing in others.
    """

    name: str
    memory: np.dtype
    region: str
    extent: int


@dataclass(frozen=True, slots=True)
class CopyRegister:
    """Copies a variable to a fresh register, bit for bit.

    What one access stores lies in registers side by side; what was computed with need not then.
    """

    ref: Ref


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment in the kernel's text."""

    text: str


Statement = (
    LetIndex
    | Increment
    | Let
    | Declare
    | Set
    | Loop
    | If
    | When
    | Block
    | Pointer
    | VectorStore
    | Prefetch
    | LetHead
    | Allocate
    | GroupStatement
    | BulkStatement
    | CopyRegister
    | Comment
)


def indented(statements: Sequence[Statement], depth: int = 0) -> list[str]:
    """Statements as indented lines, one each, for golden tests and readers."""
    lines: list[str] = []
    pad = "  " * depth
    for statement in statements:
        match statement:
            case Loop(var, start, stop, step, body):
                begin = "" if start is None else f"={start!r}"
                lines.append(f"{pad}for {var}{begin} to {stop!r} by {step!r}")
                lines += indented(body, depth + 1)
            case If(lhs, op, rhs, body, otherwise):
                lines.append(f"{pad}if {lhs!r} {op} {rhs!r}")
                lines += indented(body, depth + 1)
                if otherwise:
                    lines.append(f"{pad}else")
                    lines += indented(otherwise, depth + 1)
            case When(condition, body):
                lines.append(f"{pad}when {condition!r}")
                lines += indented(body, depth + 1)
            case Block(body):
                lines.append(f"{pad}block")
                lines += indented(body, depth + 1)
            case _:
                lines.append(f"{pad}{statement!r}")
    return lines
