"""Statements of LoopNests as instructions and basic blocks of LLVM IR."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.errors import LoweringError
from mdtensor.kernels.llvm import group_order
from mdtensor.kernels.llvm.conversions import converted
from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.llvm_types import type_of
from mdtensor.kernels.llvm.llvm_values import Values
from mdtensor.kernels.primitives import in_primitives
from mdtensor.lower.ir.group_statements import Arrive, Await, Post
from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.register_types import I64
from mdtensor.lower.ir.statements import (
    Allocate,
    Block,
    Comment,
    CopyRegister,
    Declare,
    If,
    Increment,
    Let,
    LetHead,
    LetIndex,
    Loop,
    Pointer,
    Prefetch,
    Set,
    Statement,
    VectorStore,
    When,
)

_COMPARISONS = {"<": "slt", "<=": "sle", "==": "eq"}
STREAMS = "streams"  # a name no kernel gives: whether all outputs begin at whole vectors
VECTOR_BYTES = 64


class Statements:
    """The emitter of statements; `streaming` allows non-temporal stores."""

    def __init__(self, builder: FunctionBuilder, *, streaming: bool) -> None:
        self.builder = builder
        self.values = Values(builder)
        self.streaming = streaming
        self.streamed = False
        self._named = 0

    def body(self, statements: Sequence[Statement]) -> None:
        """Emit statements in a scope of their own."""
        with self.builder.scope():
            for statement in statements:
                self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        *declared, last = in_primitives(statement, self._named)
        self._named += len(declared)
        for part in (*declared, last):
            self._primitive(part)

    def _primitive(self, statement: Statement) -> None:
        builder, values = self.builder, self.values
        match statement:
            case LetIndex(name, value, mutable):
                builder.let(name, builder.index(value), I64, mutable=mutable)
            case Increment(name, by):
                builder.set(name, builder.emit(f"add i64 {builder.get(name)}, {builder.index(by)}"))
            case Let(ref, value, mutable):
                operand = values.value(value, ref.lanes, ref.dtype)
                builder.let(ref.name, operand, ref.dtype, ref.lanes, mutable=mutable)
            case Declare(ref):
                builder.declare(ref.name, ref.dtype, ref.lanes)
            case Set(ref, value):
                builder.set(ref.name, values.value(value, ref.lanes, ref.dtype))
            case Loop():
                self._loop(statement)
            case If(lhs, op, rhs, body, otherwise):
                operands = f"{builder.index(lhs)}, {builder.index(rhs)}"
                condition = builder.emit(f"icmp {_COMPARISONS[op]} i64 {operands}")
                self._either(condition, body, otherwise)
            case When(condition, body):
                self._either(values.truth(condition), body, ())
            case Block(body):
                self.body(body)
            case Pointer(name, buffer, memory, _, offset, _):
                builder.point(name, builder.address(buffer, offset), memory)
            case VectorStore():
                self._store(statement)
            case Prefetch(buffer, index):
                place = builder.address(buffer, index)
                how = (("i32", "0"), ("i32", "3"), ("i32", "1"))
                builder.call("llvm.prefetch.p0", "void", ("ptr", place), *how)
            case LetHead():
                self._head(statement)
            case Allocate(name, memory, _, extent):
                place = builder.stack(f"[{extent} x {type_of(memory)}]", VECTOR_BYTES)
                builder.point(name, place, memory)
            case Arrive():
                group_order.arrive(builder, statement)
            case Post():
                group_order.post(builder, statement)
            case Await():
                group_order.await_values(builder, statement)
            case CopyRegister() | Comment():
                pass
            case _:
                raise LoweringError(f"llvm has no statement {type(statement).__name__}")

    def _either(
        self, condition: str, body: Sequence[Statement], otherwise: Sequence[Statement]
    ) -> None:
        builder = self.builder
        then, other, after = builder.name("then"), builder.name("else"), builder.name("after")
        builder.branch(condition, then, other if otherwise else after)
        builder.begin(then)
        self.body(body)
        builder.jump(after)
        if otherwise:
            builder.begin(other)
            self.body(otherwise)
            builder.jump(after)
        builder.begin(after)

    def _loop(self, loop: Loop) -> None:
        builder = self.builder
        head, inside, after = builder.name("loop"), builder.name("body"), builder.name("after")
        with builder.scope():
            counted = loop.var
            if loop.start is not None:
                counted = builder.name("counted ")
                builder.let(counted, builder.index(loop.start), I64, mutable=True)
            builder.jump(head)
            builder.begin(head)
            number = builder.get(counted)
            end = builder.emit(f"add nsw i64 {number}, {builder.index(loop.step)}")
            fits = builder.emit(f"icmp sle i64 {end}, {builder.index(loop.stop)}")
            builder.branch(fits, inside, after)
            builder.begin(inside)
            with builder.scope():
                if loop.start is not None:
                    builder.let(loop.var, number, I64)
                self.body(loop.body)
            end = builder.emit(f"add nsw i64 {builder.get(counted)}, {builder.index(loop.step)}")
            builder.set(counted, end)
            builder.jump(head)
            builder.begin(after)

    def _head(self, head: LetHead) -> None:
        builder = self.builder
        place = builder.address(head.buffer, head.index)
        number = builder.emit(f"ptrtoint ptr {place} to i64")
        number = builder.emit(f"sub i64 0, {number}")
        number = builder.emit(f"and i64 {number}, {head.nbytes - 1}")
        builder.let(head.name, builder.emit(f"udiv i64 {number}, {head.memory.itemsize}"), I64)

    # ---- stores

    def _store(self, store: VectorStore) -> None:
        builder, value, memory = self.builder, store.value, store.memory
        lanes = value.lanes
        operand = self.values.value(value, lanes)
        operand = converted(builder, operand, value.dtype, memory, lanes)
        kind, size = type_of(memory, lanes), memory.itemsize
        if lanes > 1 and as_index(store.stride) != as_index(1):
            for lane in range(lanes):
                element = builder.emit(f"extractelement {kind} {operand}, i32 {lane}")
                place = builder.address(store.buffer, self._at(store, lane))
                builder.do(f"store {type_of(memory)} {element}, ptr {place}, align {size}")
            return
        place = builder.address(store.buffer, store.index)
        if lanes > 1 and store.streaming and self.streaming:
            self._stream(store, kind, operand, place)
            return
        builder.do(f"store {kind} {operand}, ptr {place}, align {size}")

    @staticmethod
    def _at(store: VectorStore, lane: int) -> Index:
        return store.index + as_index(store.stride) * lane

    def _stream(self, store: VectorStore, kind: str, operand: str, place: str) -> None:
        """Emit a non-temporal store, under a run-time check where alignment is unknown."""
        builder, size = self.builder, store.memory.itemsize
        self.streamed = True
        whole = min(VECTOR_BYTES, store.value.lanes * size)
        streaming = f"store {kind} {operand}, ptr {place}, align {whole}, !nontemporal !0"
        if store.aligned:
            builder.do(streaming)
            return
        then, other, after = builder.name("then"), builder.name("else"), builder.name("after")
        builder.branch(f"%{STREAMS}", then, other)
        builder.begin(then)
        builder.do(streaming)
        builder.jump(after)
        builder.begin(other)
        builder.do(f"store {kind} {operand}, ptr {place}, align {size}")
        builder.jump(after)
        builder.begin(after)
