"""Ordered group numbers and messages between groups, in LLVM IR, by atomic words."""

from __future__ import annotations

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.kernels.llvm.conversions import converted
from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.llvm_types import type_of
from mdtensor.lower.ir.group_statements import Arrive, Await, Post
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.ir.register_types import I64


def take_number(builder: FunctionBuilder, nest: LoopNest) -> None:
    """Declare `group`, numbered in the order in which groups start, and the launch's `epoch`."""
    count = nest.groups.constant
    if count is None:
        raise LoweringError("groups that begin in order need a number of groups that is known")
    span, last = max(4, 1 << (count - 1).bit_length()), count - 1
    counters = builder.address("counters", 0)
    taken = builder.emit(f"atomicrmw add ptr {counters}, i32 1 acq_rel")
    number = builder.emit(f"urem i32 {taken}, {span}")
    is_last = builder.emit(f"icmp eq i32 {number}, {last}")
    rest = builder.emit(f"select i1 {is_last}, i32 {span - last - 1}, i32 0")
    builder.emit(f"atomicrmw add ptr {counters}, i32 {rest} acq_rel")
    builder.let("group", builder.emit(f"zext i32 {number} to i64"), I64)
    epoch = builder.emit(f"udiv i32 {taken}, {span}")
    epoch = builder.emit(f"and i32 {epoch}, {0x3FFFFFFF}")
    builder.let("epoch", builder.emit(f"zext i32 {epoch} to i64"), I64)


def arrive(builder: FunctionBuilder, statement: Arrive) -> None:
    """Declare whether this group is the last to arrive at a counter, which it resets."""
    place = builder.address("counters", statement.counter)
    before = builder.emit(f"atomicrmw add ptr {place}, i32 1 acq_rel")
    count = builder.emit(f"trunc i64 {builder.index(statement.count)} to i32")
    number = builder.emit(f"add i32 {before}, 1")
    is_last = builder.emit(f"icmp eq i32 {number}, {count}")
    then, after = builder.name("last"), builder.name("after")
    builder.branch(is_last, then, after)
    builder.begin(then)
    builder.do(f"store atomic i32 0, ptr {place} release, align 4")
    builder.jump(after)
    builder.begin(after)
    builder.let(statement.name, builder.emit(f"zext i1 {is_last} to i64"), I64)


def post(builder: FunctionBuilder, statement: Post) -> None:
    """Publish values, four bytes a word, tagged with the launch's epoch and the state."""
    tag = builder.emit(f"shl i64 {builder.get('epoch')}, 2")
    tag = builder.emit(f"or i64 {tag}, {statement.state}")
    tag = builder.emit(f"shl i64 {tag}, 32")
    number = 0
    for ref in statement.values:
        size = ref.dtype.itemsize
        bits = builder.get(ref.name)
        if ref.dtype.kind == "f":
            bits = builder.emit(f"bitcast {type_of(ref.dtype)} {bits} to i{8 * size}")
        if size < 8:
            bits = builder.emit(f"zext i{8 * size} {bits} to i64")
        for shift in range(0, 8 * size, 32):
            half = builder.emit(f"lshr i64 {bits}, {shift}")
            half = builder.emit(f"and i64 {half}, {0xFFFFFFFF}")
            word = builder.emit(f"or i64 {half}, {tag}")
            place = _word(builder, statement.word + number)
            builder.do(f"store atomic i64 {word}, ptr {place} release, align 8")
            number += 1


def await_values(builder: FunctionBuilder, statement: Await) -> None:
    """Spin until all words of a tuple have this launch's epoch and one state."""
    halves = [max(1, ref.dtype.itemsize // 4) for ref in statement.refs]
    again, there = builder.name("again"), builder.name("there")
    places = [_word(builder, statement.word + n) for n in range(sum(halves))]
    builder.jump(again)
    builder.begin(again)
    seen = [builder.emit(f"load atomic i64, ptr {p} acquire, align 8") for p in places]
    tags = [builder.emit(f"lshr i64 {word}, 32") for word in seen]
    launch = builder.emit(f"lshr i64 {tags[0]}, 2")
    state = builder.emit(f"and i64 {tags[0]}, 3")
    right = builder.emit(f"icmp eq i64 {launch}, {builder.get('epoch')}")
    posted = builder.emit(f"icmp ne i64 {state}, 0")
    right = builder.emit(f"and i1 {right}, {posted}")
    for tag in tags[1:]:
        same = builder.emit(f"icmp eq i64 {tag}, {tags[0]}")
        right = builder.emit(f"and i1 {right}, {same}")
    builder.branch(right, there, again)
    builder.begin(there)
    builder.let(statement.state, state, I64)
    for ref, count in zip(statement.refs, halves, strict=True):
        low, *high = seen[:count]
        seen = seen[count:]
        bits = builder.emit(f"and i64 {low}, {0xFFFFFFFF}")
        for word in high:
            upper = builder.emit(f"shl i64 {word}, 32")
            bits = builder.emit(f"or i64 {bits}, {upper}")
        unsigned = np.dtype(f"u{ref.dtype.itemsize}")
        operand = converted(builder, bits, np.dtype(np.uint64), unsigned, 1)
        if ref.dtype.kind == "f":
            kind = type_of(ref.dtype)
            operand = builder.emit(f"bitcast {type_of(unsigned)} {operand} to {kind}")
        builder.let(ref.name, operand, ref.dtype)


def _word(builder: FunctionBuilder, index: Index) -> str:
    base = builder.buffers["counters"].operand
    return builder.emit(f"getelementptr i64, ptr {base}, i64 {builder.index(index)}")
