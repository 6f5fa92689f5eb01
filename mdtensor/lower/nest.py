"""LoopNest: what a kernel does, as values: loops, loads, computations, stores, barriers.

The renderer prints it in a dialect of C. Values are typed by element type and number of lanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mdtensor.lower.bulk_nest import BulkStatement, TensorMap
from mdtensor.lower.group_nest import GroupStatement
from mdtensor.lower.index import ZERO, Index

F16, F32, F64 = (np.dtype(t) for t in ("f2", "f4", "f8"))
U8, I32, I64, BOOL = (np.dtype(t) for t in ("u1", "i4", "i8", "?"))

EXCHANGE = "exchange"


_SHORT = frozenset(("float16", "bfloat16"))


def is_short_float(dtype: np.dtype) -> bool:
    """Whether a type is one of 16 bits, in which numbers are kept and not computed."""
    return dtype.itemsize == 2 and dtype.name in _SHORT


def register_dtype(dtype: np.dtype) -> np.dtype:
    """The type in which a value is held: short floats as float32, booleans as bytes 0 and 1."""
    return F32 if is_short_float(dtype) else U8 if dtype == BOOL else dtype


# ---- values -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ref:
    """A variable."""

    name: str
    dtype: np.dtype
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; 0.0 and -0.0 are equal, but of another sign."""

    value: bool | int | float
    dtype: np.dtype
    lanes: int = 1
    sign: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sign", math.copysign(1, self.value))


@dataclass(frozen=True, slots=True)
class Load:
    """`lanes` elements of a buffer, `stride` apart, from `index` on; the rest up to `width` zero.

    The value has the register type of the buffer's elements (see `register_dtype`).
    """

    buffer: str
    memory: np.dtype
    index: Index
    lanes: int = 1
    stride: Index | int = 1
    valid: int = 0

    @property
    def dtype(self) -> np.dtype:
        """Type of the loaded value."""
        return register_dtype(self.memory)


@dataclass(frozen=True, slots=True)
class Calc:
    """An operation of `translate.scalar` on values; scalars among them widen to the lanes."""

    op: str
    args: tuple[Value, ...]
    dtype: np.dtype
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Slice:
    """Lanes `start` to `start + lanes` of a vector."""

    value: Value
    start: int
    lanes: int = 1

    @property
    def dtype(self) -> np.dtype:
        """Type of an element."""
        return self.value.dtype


@dataclass(frozen=True, slots=True)
class FromIndex:
    """The value of an index expression as a number."""

    index: Index
    dtype: np.dtype
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Iota:
    """The vector 0, 1, 2, … of `lanes` numbers."""

    dtype: np.dtype
    lanes: int


@dataclass(frozen=True, slots=True)
class Gather:
    """Elements of a buffer, one per lane of `places`, which count from `index`.

    Only the first `valid` lanes are read where it is not 0; the others are zero.
    """

    buffer: str
    memory: np.dtype
    index: Index
    places: Ref
    valid: int = 0

    @property
    def lanes(self) -> int:
        """Number of elements."""
        return self.places.lanes

    @property
    def dtype(self) -> np.dtype:
        """Type of the loaded values."""
        return register_dtype(self.memory)


@dataclass(frozen=True, slots=True)
class Shift:
    """A vector moved up by `by` lanes; the lanes before take the first ones of `fill`."""

    value: Value
    by: int
    fill: Value

    @property
    def lanes(self) -> int:
        """Number of lanes, those of the value."""
        return self.value.lanes

    @property
    def dtype(self) -> np.dtype:
        """Type of an element."""
        return self.value.dtype


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Lanes of two vectors of one length, side by side: `picks` counts on into the second one."""

    first: Ref
    second: Ref
    picks: tuple[int, ...]

    @property
    def lanes(self) -> int:
        """Number of lanes that are picked."""
        return len(self.picks)

    @property
    def dtype(self) -> np.dtype:
        """Type of an element."""
        return self.first.dtype


@dataclass(frozen=True, slots=True)
class Pack:
    """Scalars of one type, side by side, as memory holds them; no operand of an operation."""

    values: tuple[Value, ...]

    @property
    def lanes(self) -> int:
        """Number of scalars."""
        return len(self.values)

    @property
    def dtype(self) -> np.dtype:
        """Type of a scalar."""
        return self.values[0].dtype


Value = Ref | Literal | Load | Calc | Slice | FromIndex | Iota | Gather | Shift | Shuffle | Pack


@dataclass(frozen=True, slots=True)
class IndexCalc:
    """An operation on indices that no polynomial can say: min, / (floor), % and ^ (of bits)."""

    op: str
    lhs: Index
    rhs: Index


# ---- statements -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LetIndex:
    """Declares an index variable; `mutable` where a loop or a Step changes it later."""

    name: str
    value: Index | IndexCalc
    mutable: bool = False


@dataclass(frozen=True, slots=True)
class Step:
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
    """Statements whose names end with them."""

    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Pointer:
    """Declares a pointer into a buffer; `const` where it is only read through."""

    name: str
    buffer: str
    memory: np.dtype
    region: str
    offset: Index
    const: bool = True


@dataclass(frozen=True, slots=True)
class Store:
    """Writes a value to consecutive elements (or `stride` apart), converted to the memory type.

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
    """Asks for the memory at a place of a buffer, which may be anywhere, before it is read."""

    buffer: str
    index: Index


@dataclass(frozen=True, slots=True)
class LetHead:
    """Declares an index variable: elements from a place on to the next multiple of `nbytes`.

    Elements begin at multiples of their own size, as in all arrays that are computed with.
    """

    name: str
    buffer: str
    memory: np.dtype
    index: Index
    nbytes: int


@dataclass(frozen=True, slots=True)
class Allocate:
    """An array of the work-item ("private") or of its group ("local").

    One of region `EXCHANGE` is local memory in languages without warps, and nothing in others.
    """

    name: str
    memory: np.dtype
    region: str
    extent: int


@dataclass(frozen=True, slots=True)
class Renew:
    """Moves a variable's value to another register, which changes no bit of it.

    What one access stores lies in registers side by side; what was computed with need not then.
    """

    ref: Ref


@dataclass(frozen=True, slots=True)
class Comment:
    """A line for the reader of the kernel."""

    text: str


Statement = (
    LetIndex
    | Step
    | Let
    | Declare
    | Set
    | Loop
    | If
    | When
    | Block
    | Pointer
    | Store
    | Prefetch
    | LetHead
    | Allocate
    | GroupStatement
    | BulkStatement
    | Renew
    | Comment
)


@dataclass(frozen=True, slots=True)
class Argument:
    """A buffer that a kernel takes; `role` is input, output, scratch or counters.

    Counters are integers that are 0 before a program's first launch, and keep what a launch leaves
    there for the next one.
    """

    name: str
    memory: np.dtype
    role: str


@dataclass(frozen=True, slots=True)
class LoopNest:
    """One kernel: arguments, names of run-time sizes, group size, body, and how it is launched.

    `groups` is the number of work-groups, `threads` of work-items in each, `scratch` the bytes
    of scratch memory, `counters` how many counters it needs; all but `threads` are expressions
    over `sizes`. With `in_order`, groups are numbered as they begin, so that one may wait for
    those before it; their number must be known then. `maps` are arguments behind all others. So
    many neighbouring groups are a `cluster`: they run at one time, and reach each other's memory.
    With `stores_in_loops`, results are stored in loops and again behind them.
    """

    name: str
    arguments: tuple[Argument, ...]
    sizes: tuple[str, ...]
    threads: int
    body: tuple[Statement, ...]
    groups: Index
    scratch: Index
    head: str = ""
    counters: Index = ZERO
    in_order: bool = False
    maps: tuple[TensorMap, ...] = ()
    cluster: int = 1
    stores_in_loops: bool = False


def indented(statements: Sequence[Statement], depth: int = 0) -> list[str]:
    """A printed form for golden tests and readers: one statement a line, loops indented."""
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
