"""Builder of one LLVM IR function: its instructions, and the names in scope."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import LoweringError
from mdtensor.kernels.llvm.language import LLVM, LLVM_IR_FMA
from mdtensor.kernels.llvm.llvm_types import type_of
from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.register_types import I64
from mdtensor.lower.ir.statements import IndexCalc

_INDEX_OPERATIONS = {"/": "udiv", "%": "urem", "^": "xor", "|": "or"}


@dataclass(frozen=True, slots=True)
class Variable:
    """The binding of a name: an SSA operand, or where `mutable` a stack slot."""

    operand: str
    dtype: np.dtype
    lanes: int = 1
    mutable: bool = False

    @property
    def type(self) -> str:
        """The type of the value."""
        return type_of(self.dtype, self.lanes)


@dataclass(frozen=True, slots=True)
class TypedPointer:
    """A pointer and its element type, in which offsets from it count."""

    operand: str
    memory: np.dtype


class FunctionBuilder:
    """Builder of one function's instructions, in LLVM IR.

    Variables that change lie on the stack, where LLVM promotes them.
    """

    def __init__(self, language: LLVM = LLVM_IR_FMA) -> None:
        self.language = language
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self.buffers: dict[str, TypedPointer] = {}
        self._known: dict[tuple[str, Index], str] = {}
        self._count = 0

    # ---- instructions

    def name(self, kind: str = "v") -> str:
        """A fresh name."""
        self._count += 1
        return f"{kind}{self._count}"

    def emit(self, instruction: str) -> str:
        """Append an instruction with a result, and return the result's operand."""
        operand = f"%{self.name()}"
        self.lines.append(f"  {operand} = {instruction}")
        return operand

    def do(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def call(self, function: str, result: str, *arguments: tuple[str, str]) -> str:
        """Append a call, and declare the function in the module; arguments are (type, operand)."""
        types = ", ".join(kind for kind, _ in arguments)
        given = ", ".join(f"{kind} {operand}" for kind, operand in arguments)
        self.declared[function] = f"declare {result} @{function}({types})"
        text = f"call {result} @{function}({given})"
        if result == "void":
            self.do(text)
            return ""
        return self.emit(text)

    def stack(self, kind: str, align: int = 0) -> str:
        """Allocate a stack slot in the function's entry."""
        operand = f"%{self.name('s')}"
        self.entry.append(f"  {operand} = alloca {kind}{f', align {align}' if align else ''}")
        return operand

    # ---- blocks

    def begin(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")

    def jump(self, label: str) -> None:
        """Append an unconditional branch."""
        self.do(f"br label %{label}")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        """Append a conditional branch on an i1."""
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}")

    @contextmanager
    def scope(self) -> Generator[None]:
        """A context manager: names declared inside go out of scope at its end."""
        variables, buffers = dict(self.variables), dict(self.buffers)
        known = dict(self._known)
        yield
        self.variables, self.buffers, self._known = variables, buffers, known

    # ---- variables

    def declare(self, name: str, dtype: np.dtype, lanes: int = 1) -> None:
        """Declare a mutable variable without a value."""
        place = self.stack(type_of(dtype, lanes))
        self._bind(name, Variable(place, dtype, lanes, mutable=True))

    def let(
        self, name: str, operand: str, dtype: np.dtype, lanes: int = 1, *, mutable: bool = False
    ) -> None:
        """Declare a variable with a value."""
        if mutable:
            self.declare(name, dtype, lanes)
            self.set(name, operand)
        else:
            self._bind(name, Variable(operand, dtype, lanes))

    def _bind(self, name: str, variable: Variable) -> None:
        if name in self.variables:  # an inner one of that name: what was known is of the outer
            self._known = {}
        self.variables[name] = variable

    def set(self, name: str, operand: str) -> None:
        """Assign to a variable."""
        variable = self.variables[name]
        self.do(f"store {variable.type} {operand}, ptr {variable.operand}")

    def get(self, name: str) -> str:
        """Read the value of a variable."""
        variable = self.variables[name]
        if not variable.mutable:
            return variable.operand
        return self.emit(f"load {variable.type}, ptr {variable.operand}")

    def point(self, name: str, operand: str, memory: np.dtype) -> None:
        """Bind a name to a pointer."""
        if name in self.buffers:
            self._known = {}
        self.buffers[name] = TypedPointer(operand, memory)

    # ---- indices

    def index(self, value: Index | IndexCalc | int) -> str:
        """An index expression as an i64 operand."""
        if isinstance(value, IndexCalc):
            lhs, rhs = self.index(value.lhs), self.index(value.rhs)
            if value.op == "min":
                return self.call("llvm.smin.i64", "i64", ("i64", lhs), ("i64", rhs))
            if value.op not in _INDEX_OPERATIONS:
                raise LoweringError(f"llvm has no operation {value.op} on indices")
            return self.emit(f"{_INDEX_OPERATIONS[value.op]} i64 {lhs}, {rhs}")
        named, number = as_index(value).split()
        if not named.terms:
            return str(number)
        operand = self._remembered("", named)
        return self.emit(f"add i64 {operand}, {number}") if number else operand

    def address(self, buffer: str, index: Index | int) -> str:
        """The address of a buffer's element."""
        named, number = as_index(index).split()
        operand = self.buffers[buffer].operand
        if named.terms:
            operand = self._remembered(buffer, named)
        return self._moved(operand, str(number), buffer) if number else operand

    def _moved(self, operand: str, by: str, buffer: str) -> str:
        kind = type_of(self.buffers[buffer].memory)
        return self.emit(f"getelementptr {kind}, ptr {operand}, i64 {by}")

    def _remembered(self, buffer: str, named: Index) -> str:
        """An index without its constant, or a buffer's address there; reused while in scope."""
        operand = self._known.get((buffer, named))
        if operand is None:
            operand = (
                self._moved(self.buffers[buffer].operand, self._remembered("", named), buffer)
                if buffer
                else self._sum(named)
            )
            if not any(self.variables[n].mutable for names, _ in named.terms for n in names):
                self._known[buffer, named] = operand
        return operand

    def _sum(self, named: Index) -> str:
        total = ""
        for names, coefficient in named.terms:
            term = self._wide(names[0])
            for each in names[1:]:
                term = self.emit(f"mul i64 {term}, {self._wide(each)}")
            if coefficient != 1:
                term = self.emit(f"mul i64 {term}, {coefficient}")
            total = self.emit(f"add i64 {total}, {term}") if total else term
        return total

    def _wide(self, name: str) -> str:
        """A variable of an index, widened to i64."""
        variable = self.variables[name]
        operand = self.get(name)
        if variable.dtype.itemsize == I64.itemsize:
            return operand
        extend = "zext" if variable.dtype.kind in "ub" else "sext"
        return self.emit(f"{extend} {variable.type} {operand} to i64")
