"""LoopNests as Python: a function for a work-item, which yields where it waits for others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mdtensor.lower.ir.group_statements import (
    Arrive,
    Atomic,
    Await,
    AwaitCluster,
    AwaitCopies,
    AwaitCopiesOut,
    Barrier,
    BeginCluster,
    ClusterArrive,
    ClusterLeaderPointer,
    CommitCopies,
    CopyAsync,
    CopyOut,
    MatrixProduct,
    Post,
    ProxyFence,
    WarpShuffle,
)
from mdtensor.lower.ir.index import Index
from mdtensor.lower.ir.loop_nest import LoopNest
from mdtensor.lower.ir.statements import (
    EXCHANGE,
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
from mdtensor.lower.ir.values import Ref, Value
from tests.lower.checker.arithmetic import as_float, as_integer, cast_text, operation
from tests.lower.checker.memory import POISON, Copies, CopiesOut, FaultError, array_of
from tests.lower.checker.value_text import NotInterpretedError, Place, ValueText

_HELPERS: dict[str, Any] = {
    "POISON": POISON,
    "inf": math.inf,
    "nan": math.nan,
    "as_float": as_float,
    "as_integer": as_integer,
    "operation": operation,
    "array_of": array_of,
    "Copies": Copies,
    "CopiesOut": CopiesOut,
}


def natural(number: int) -> int:
    """A number that is divided, as C and Python do alike where it is not negative."""
    if number < 0:
        raise FaultError(f"{number} is divided, which C rounds towards zero")
    return number


def span(start: int, count: int) -> range:
    """So many numbers from a first one on."""
    return range(start, start + count)


_FUNCTIONS: dict[str, Any] = {"natural": natural, "span": span}


def kernel_function(nest: LoopNest, wide_are_aligned: bool = False) -> Callable[..., Any]:
    """The function of a kernel: of buffers, sizes, the work-item and its group.

    A generator function where work-items wait for each other.
    """
    writer = _Writer(wide_are_aligned)
    text = writer.kernel(nest)
    space: dict[str, Any] = {**_HELPERS, **_FUNCTIONS, "sites": writer.sites}
    exec(compile(text, f"<{nest.name}>", "exec"), space)  # the text is our own
    return space["work"]


class _Writer(ValueText):
    def __init__(self, wide_are_aligned: bool) -> None:
        super().__init__(wide_are_aligned=wide_are_aligned)
        self.lines: list[str] = []
        self.depth = 1
        self.sites: list[Statement] = []
        self.mutable: set[str] = set()
        self.taken: dict[str, int] = {}

    def kernel(self, nest: LoopNest) -> str:
        buffers = [a.name for a in nest.arguments]
        for argument in nest.arguments:
            self.places[argument.name] = Place(argument.name, argument.role)
        for name in ("group", "item", *nest.sizes):
            self._declare(name)
        self.body(nest.body)
        sizes = [self.names[size] for size in nest.sizes]
        head = f"def work({', '.join(['own', 'group', 'item', 'who', *buffers, *sizes])}):"
        return "\n".join([head, *self.lines, "  pass", ""])

    # ---- lines and names

    def emit(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    @contextmanager
    def nested(self):
        names, places = self.names, self.places
        self.names, self.places = dict(names), dict(places)
        self.depth += 1
        yield
        self.depth -= 1
        self.names, self.places = names, places

    def _declare(self, name: str) -> str:
        """A name of its own: in C, inner blocks may declare it again."""
        count = self.taken[name] = self.taken.get(name, -1) + 1
        self.names[name] = own = f"{name}_" if not count else f"{name}_{count}"
        return own if name not in ("group", "item") else self._plain(name)

    def _plain(self, name: str) -> str:
        self.names[name] = name
        return name

    def named_apart(self, text: str) -> str:
        name = self._declare("apart")
        self.emit(f"{name} = {text}")
        return name

    def meets(self, statement: Statement, given: str = "None") -> str:
        """The text that waits for others at a statement, and is what they tell."""
        self.sites.append(statement)
        return f"(yield {len(self.sites) - 1}, {given})"

    def tuple_of(self, refs: Sequence[Ref]) -> str:
        return "(" + "".join(f"{self.names[ref.name]}, " for ref in refs) + ")"

    # ---- statements

    def body(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self.statement(statement)

    def block(self, head: str, body: Sequence[Statement]) -> None:
        self.emit(head)
        with self.nested():
            self.body(body)
            self.emit("pass")

    def statement(self, statement: Statement) -> None:
        match statement:
            case LetIndex(name, value, mutable):
                text = self.index(value)
                self.emit(f"{self._declare(name)} = {text}")
                if mutable:
                    self.mutable.add(name)
            case Increment(name, by):
                self.emit(f"{self.names[name]} += {self.index(by)}")
            case Let(ref, value):
                text = self.value(value, ref.lanes)
                self.emit(f"{self._declare(ref.name)} = {text}")
            case Declare(ref):
                undefined = "POISON" if ref.lanes == 1 else f"[POISON] * {ref.lanes}"
                self.emit(f"{self._declare(ref.name)} = {undefined}")
            case Set(ref, value):
                text = self.value(value, ref.lanes)
                self.emit(f"{self.names[ref.name]} = {text}")
            case Loop():
                self.loop(statement)
            case If(lhs, op, rhs, body, otherwise):
                self.block(f"if {self.index(lhs)} {op} {self.index(rhs)}:", body)
                if otherwise:
                    self.block("else:", otherwise)
            case When(condition, body):
                self.block(f"if {self.value(condition)}:", body)
            case Block(body):
                self.block("if True:", body)
            case Pointer():
                self.pointer(statement)
            case VectorStore():
                self.store(statement)
            case LetHead(name, buffer, memory, index, nbytes):
                place = self.places[buffer]
                at = f"{place.at(self.index(index))}, {memory.itemsize}, {nbytes}"
                self.emit(f"{self._declare(name)} = {place.memory}.to_multiple({at})")
            case Allocate():
                self.allocate(statement)
            case Prefetch() | CopyRegister() | Comment():
                pass
            case _:
                self.together(statement)

    def loop(self, loop: Loop) -> None:
        stop, step = self.index(loop.stop), self.index(loop.step)
        if loop.start is None:
            var = self.names[loop.var]
        else:
            start = self.index(loop.start)
            changing = self.mutable & _names_in(loop.stop, loop.step)
            with self.nested():
                self.depth -= 1
                var = self._declare(loop.var)
                if not changing:
                    last = stop if step == "1" else f"{stop} - ({step}) + 1"
                    self.block(f"for {var} in range({start}, {last}, {step}):", loop.body)
                    self.depth += 1
                    return
                self.depth += 1
            self.emit(f"{var} = {start}")
        self.emit(f"while {var} + {step} <= {stop}:")
        with self.nested():
            if loop.start is not None:
                self.names[loop.var] = var
            self.body(loop.body)
            self.emit(f"{var} += {step}")

    def pointer(self, pointer: Pointer) -> None:
        base = self.places[pointer.buffer]
        index = self.index(pointer.offset)
        size = pointer.memory.itemsize
        if base.kind == "scratch":
            # In the scratch argument itself, offsets count bytes.
            scale = 1 if pointer.buffer in ("scratch", "behind") else base.size
            text = f"{base.offset or 0} + {scale} * ({index})"
        else:
            text = f"{base.offset} + {index}" if base.offset else index
        offset = self._declare(f"at_{pointer.name}")
        self.emit(f"{offset} = {text}")
        self.places[pointer.name] = Place(base.memory, base.kind, offset, size)

    def allocate(self, array: Allocate) -> None:
        if array.region == EXCHANGE:
            return
        name = self._declare(array.name)
        if array.region == "local":
            self.emit(f"{name} = own.local({array.name!r}, {array.extent})")
        else:
            self.emit(f"{name} = array_of({array.name!r}, {array.extent})")
        self.places[array.name] = Place(name, array.region)

    def store(self, store: VectorStore) -> None:
        value, index = store.value, self.index(store.index)
        text = self.value(value, value.lanes)
        stride = self.index(store.stride)
        if value.lanes == 1:
            self.put(store.buffer, store.memory, index, self._stored(text, value, store.memory))
            return
        place = self.places[store.buffer]
        known = store.aligned or (self.wide_are_aligned and place.kind == "output")
        if stride == "1" and known and place.kind != "scratch":
            at = f"{place.at(index)}, {store.memory.itemsize}, {value.lanes}"
            self.emit(f"{place.memory}.check_multiple({at})")
        self.emit(f"for n, v in enumerate({text}):")
        self.depth += 1
        at = f"({index}) + n" if stride == "1" else f"({index}) + ({stride}) * n"
        self.put(store.buffer, store.memory, at, self._stored("v", value, store.memory))
        self.depth -= 1

    def _stored(self, text: str, value: Value, memory: np.dtype) -> str:
        if memory.kind == "b":
            return text
        return cast_text(text, value.dtype, memory)

    def put(self, buffer: str, memory: np.dtype, index: str, text: str) -> None:
        place = self.places[buffer]
        at = place.at(index)
        if place.kind == "scratch":
            self.emit(f"{place.memory}.put_as({at}, {memory.itemsize}, {text}, who)")
        else:
            self.emit(f"{place.memory}.put({at}, {text}, who)")

    # ---- what work-items do together

    def together(self, statement: Statement) -> None:
        match statement:
            case Barrier() | AwaitCluster():
                self.emit(self.meets(statement))
            case BeginCluster() | ProxyFence():
                pass
            case Arrive(name, counter, count):
                text = self.meets(statement, f"({self.index(counter)}, {self.index(count)})")
                self.emit(f"{self._declare(name)} = {text}")
            case ClusterArrive(name, number):
                text = self.meets(statement, self.index(number))
                self.emit(f"{self._declare(name)} = {text}")
            case ClusterLeaderPointer(name, buffer, _):
                own = self._declare(name)
                self.emit(f"{own} = own.cluster[0].arrays[{buffer!r}]")
                self.places[name] = Place(own, "local")
            case WarpShuffle(_, _, refs, values):
                text = self.meets(statement, self.tuple_of(values))
                self.emit(f"{self._declared(refs)} = {text}")
            case Post(word, state, values):
                self.emit(f"own.post({self.index(word)}, {state}, {self.tuple_of(values)})")
            case Await(state, word, refs):
                index = self.index(word)
                own = self._declare(state)
                self.emit(f"{own}, {self._declared(refs)} = own.posted({index})")
            case Atomic(op, buffer, memory, index, value):
                place, whole = self.places[buffer], 1 << 8 * memory.itemsize
                bits = (whole // 2 if memory.kind == "i" else 0, whole)
                at, value = place.at(self.index(index)), self.names[value.name]
                self.emit(f"{place.memory}.combine({op!r}, {at}, {value}, {bits})")
            case MatrixProduct(rows, columns, accumulators):
                flat = [ref for row in accumulators for pair in row for ref in pair]
                places = [self.places[each.buffer] for each in (rows, columns)]
                starts = [
                    f"({place.memory}, {place.at(self.index(each.start))})"
                    for place, each in zip(places, (rows, columns), strict=True)
                ]
                text = self.meets(statement, f"({', '.join(starts)}, {self.tuple_of(flat)})")
                self.emit(f"{self.tuple_of(flat)} = {text}")
            case CopyAsync() | CommitCopies() | AwaitCopies() | CopyOut() | AwaitCopiesOut():
                self.copy(statement)
            case _:
                raise NotInterpretedError(type(statement).__name__)

    def _declared(self, refs: Sequence[Ref]) -> str:
        return "(" + "".join(f"{self._declare(ref.name)}, " for ref in refs) + ")"

    def copy(self, statement: Statement) -> None:
        match statement:
            case CopyAsync(target, to, source, at, memory, lanes):
                place = self.places[target]
                each = self.load(source, memory, f"{self.index(at)} + n")
                values = f"[{each} for n in range({lanes})]"
                self.emit(
                    f"own.copies(who).begin({place.memory}, {place.at(self.index(to))}, {values})"
                )
            case CommitCopies():
                self.emit("own.copies(who).commit()")
            case AwaitCopies(pending):
                self.emit(f"own.copies(who).wait({pending})")
            case CopyOut(target, to, source, at, _, count):
                there, here = self.places[target], self.places[source]
                where = f"{there.memory}, {there.at(self.index(to))}"
                what = f"{here.memory}, {here.at(self.index(at))}, {count}"
                self.emit(f"if item == 0: own.copies_out.begin({where}, {what})")
            case AwaitCopiesOut(pending):
                self.emit(f"if item == 0: own.copies_out.wait({pending})")
            case _:
                raise NotInterpretedError(type(statement).__name__)


def _names_in(*indices: Index) -> set[str]:
    return {name for index in indices for monomial, _ in index.terms for name in monomial}
