"""Decoupled look-back: a group computes its carry from totals that earlier groups publish.

Each group tells its total as soon as it has it, and the sum of all up to itself when it knows
that. Who needs what comes before looks at a window of groups, back to one that knows its sum.
Groups are numbered in the order in which they begin, so that those before are under way.
D. Merrill, M. Garland: Single-pass parallel prefix scan with decoupled look-back, NVR-2016-002.
"""

from __future__ import annotations

import math

from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.base.tuple_variables import lets, sets, sets_at_once
from mdtensor.lower.codegen.base.value_from_expr import combined, identity_of
from mdtensor.lower.ir.group_statements import Await, Barrier, Post, WarpShuffle
from mdtensor.lower.ir.index import Index, as_index, name, product
from mdtensor.lower.ir.register_types import I32, I64, U8, register_dtype
from mdtensor.lower.ir.statements import (
    EXCHANGE,
    Allocate,
    If,
    Increment,
    IndexCalc,
    Let,
    LetIndex,
    Loop,
    Statement,
    VectorStore,
)
from mdtensor.lower.ir.values import Calc, Literal, Load, Ref

WINDOW = 32  # groups, one for each work-item of a warp
_TOTAL, _SUM = 1, 2
_KNOWS, _FOUND = Ref("knows", I32), Ref("found", I32)
Tuples = tuple[Ref, ...]


def words_of(types: Tuples) -> int:
    """The number of 4-byte words in which a group publishes a tuple."""
    return sum(-(-ref.dtype.itemsize // 4) for ref in types)


def window(types: Tuples, items: int) -> list[Statement]:
    """Local memory for the totals of a window of earlier groups."""
    found: list[Statement] = [Allocate("K", I32, "local", WINDOW)]
    found.append(Allocate("XK", I32, EXCHANGE, items))
    return [*found, *(Allocate(f"V{k}", ref.dtype, "local", WINDOW) for k, ref in enumerate(types))]


def counters_of(frame: Frame) -> Index:
    """The number of counters (uint32) of a scan: the groups' ticket, then each group's words."""
    groups = product(tiling.parts for tiling in frame.tilings)
    return groups * (2 * words_of(_types(frame))) + 2


def look_back(frame: Frame, total: Tuples, statements: list[Statement]) -> Tuples:
    """Publish the group's total, and declare the carry into its part of the scanned dim."""
    tiling, operator = frame.tilings[frame.problem.scanned], frame.operator
    number, part = name("group"), name(tiling.var("z"))
    carry = _named("carry", total)
    knows_all = (Post(_word(number, total), _SUM, total),)
    knows_own = (Post(_word(number, total), _TOTAL, total),)
    tell = If(part, "<", as_index(1), knows_all, knows_own)
    statements.append(If(name("item"), "<", as_index(1), (tell,)))
    statements += lets(carry, identity_of(operator), mutable=True)
    statements.append(LetIndex("distance", as_index(1), mutable=True))
    told = _named("told", total)
    body = [*_window(frame, told), *_nearest_sum(frame, told)]
    found = _named("found", total)
    following = _named("following", total)
    results = combined(operator, found, carry)
    body += sets_at_once(carry, results, following)
    body.append(Increment("distance", name(_FOUND.name) * part - part))
    width = as_index(WINDOW)
    statements.append(Loop("distance", None, part + WINDOW, width, tuple(body)))
    whole = _named("sum", total)
    results = combined(operator, carry, total)
    tell_sum: list[Statement] = lets(whole, results)
    tell_sum.append(Post(_word(number, total), _SUM, whole))
    late = If(name("item"), "<", as_index(1), tuple(tell_sum))
    statements.append(If(as_index(0), "<", part, (late,)))
    return carry


def _types(frame: Frame) -> Tuples:
    types = frame.problem.scalar.result_dtypes
    return tuple(Ref(str(k), register_dtype(dtype)) for k, dtype in enumerate(types))


def _named(prefix: str, like: Tuples) -> Tuples:
    return tuple(Ref(f"{prefix}_{k}", ref.dtype) for k, ref in enumerate(like))


def _word(group: Index, types: Tuples) -> Index:
    """The index of a group's first word; word 0 is the ticket counter."""
    return group * words_of(types) + 1


def _window(frame: Frame, told: Tuples) -> list[Statement]:
    """Load the totals of a window of earlier groups; identities before the first group."""
    tiling, operator = frame.tilings[frame.problem.scanned], frame.operator
    item, part = name("item"), name(tiling.var("z"))
    before = _word(name("group") - name("far") * _apart(frame), told)
    state = Ref("state", I64)
    wait: list[Statement] = [Await(state.name, before, told)]
    wait.append(VectorStore("K", I32, item, Calc("cast", (state,), I32)))
    wait += [VectorStore(f"V{k}", ref.dtype, item, ref) for k, ref in enumerate(told)]
    nothing: list[Statement] = [VectorStore("K", I32, item, Literal(_SUM, I32))]
    nothing += [
        VectorStore(f"V{k}", value.dtype, item, value)
        for k, value in enumerate(identity_of(operator))
    ]
    look: tuple[Statement, ...] = (
        LetIndex("far", name("distance") + item),
        If(name("far"), "<=", part, tuple(wait), tuple(nothing)),
    )
    return [Barrier(), If(item, "<", as_index(WINDOW), look), Barrier()]


def _apart(frame: Frame) -> Index:
    """The distance between the numbers of groups with adjacent parts of the scanned dim."""
    order = frame.schedule.group_order
    return product(frame.tilings[d].parts for d in order[order.index(frame.problem.scanned) + 1 :])


def _nearest_sum(frame: Frame, told: Tuples) -> list[Statement]:
    """Combine the window's totals back to the nearest inclusive sum, in every warp.

    Of two neighbouring stretches the farther one counts unless the nearer one knows its sum.
    """
    operator = frame.operator
    items = math.prod(frame.schedule.threads)
    known, lane = _named("known", told), name("in_window")
    statements: list[Statement] = [
        LetIndex("in_window", IndexCalc("%", name("item"), as_index(WINDOW))),
        Let(_KNOWS, Load("K", I32, lane), mutable=True),
    ]
    statements += [
        Let(ref, Load(f"V{k}", ref.dtype, lane), mutable=True) for k, ref in enumerate(known)
    ]

    def exchange(kind: str, by: int, refs: Tuples) -> WarpShuffle:
        buffers = ("XK", *(f"X{k}" for k in range(len(known))))
        values = (_KNOWS, *known)
        return WarpShuffle(kind, by, refs, values, items, buffers, (0,) * len(refs))

    distance = 1
    while distance < WINDOW:
        farther = (Ref(f"knows{distance}", I32), *_named(f"known{distance}", known))
        statements.append(exchange("down", distance, farther))
        results = (farther[0], *combined(operator, farther[1:], known))
        held = _named(f"stretch{distance}", (_KNOWS, *known))
        knows = Calc("eq", (_KNOWS, Literal(_SUM, I32)), U8)
        for ref, own, value in zip(held, (_KNOWS, *known), results, strict=True):
            statements.append(Let(ref, Calc("select", (knows, own, value), ref.dtype)))
        statements += sets((_KNOWS, *known), held)
        distance *= 2
    return [*statements, exchange("from", 0, (_FOUND, *_named("found", known)))]
