"""Typed scalar expressions as DAGs, built by tracing.

An `Expr` is built by applying Python's operators and NumPy's functions to parameters, so any
Python callable made of them can be traced. Expressions are directed acyclic graphs: a node that is
an argument of several others is one object. So all that walks through them (`translate/graphs.py`)
meets each node once. The one printer in C lives with the kernels. What the operations mean:
`translate/operations.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, TypeGuard

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError, shown
from mdtensor.specs import as_dtype, common_dtype, kind_of
from mdtensor.translate.arithmetic import Arithmetic, rounded
from mdtensor.translate.comparisons import exact_comparison
from mdtensor.translate.graphs import (
    RECURSIVE,
    Packed,
    are_same,
    count_of_nodes,
    folded,
    packed,
    text_of_graph,
    unpacked,
)
from mdtensor.translate.operations import MIRRORED, OPERATIONS, Form, Rule
from mdtensor.translate.powers import simpler_power
from mdtensor.translate.tracing import TRACED, unknown

Number = bool | int | float | complex
Operand = Any
"""An Expr, a number of Python, or a scalar of NumPy."""

BOOL, I64 = np.dtype(np.bool_), np.dtype(np.int64)
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)

_FLOAT_BITS = 1024  # of the integers that float64 rounds to a number
LARGEST = 20_000
"""Different operations of an expression at most."""
_ENDLESS = 1 << 60  # what sizes of trees are counted up to
_SHORT = 16  # nodes of trees that are printed fastest as such
_PRINTED = 2000  # Larger trees, and deeper ones, are printed with names for what is shared.


@dataclass(frozen=True, slots=True)
class Expr(Arithmetic["Expr"]):
    """A node: a parameter, a constant, a dim's index, or an operation on nodes.

    `value` is the position of a parameter, the value of a constant, or the name of a dim. A `weak`
    node is made of Python's numbers only and takes the type of what it meets, as in NumPy.
    `size` counts the nodes of the tree that it is when written out, `depth` its levels. `==`
    compares what is computed; see `equal` for the values.

    >>> a, b = param(0, "f4"), param(1, "f4")
    >>> a * b + 1
    ((p0 * p1) + 1)
    >>> np.exp(abs(a) ** 0.5)
    exp(sqrt(abs(p0)))
    """

    op: str
    args: tuple[Expr, ...]
    dtype: np.dtype
    value: Number | str | None = None
    weak: bool = False
    size: int = field(init=False, compare=False, repr=False)
    depth: int = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        size, depth, hashes = 1, 0, list[int]()
        for arg in self.args:
            size += arg.size
            depth = max(depth, arg.depth)
            hashes.append(arg._hash)
        if depth >= LARGEST:
            raise _too_many()  # at once, as for loops without an end; see `check_size` for the rest
        fields = (self.op, tuple(hashes), self.dtype, self.value, self.weak)
        object.__setattr__(self, "size", min(_ENDLESS, size))
        object.__setattr__(self, "depth", depth + 1)
        object.__setattr__(self, "_hash", hash(fields))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (pickled([self]),)

    def __eq__(self, other: object) -> bool:
        if TRACED.get() is not None:
            raise unknown(self, "value", "compare by numpy.equal(a, b)")
        if self is other:
            return True
        if not isinstance(other, Expr) or self._hash != other._hash:
            return False
        return are_same(self, other, Expr._is_alike)

    def __hash__(self) -> int:
        if TRACED.get() is not None:
            raise unknown(self, "value", "sets and dicts cannot look for it; compare with each")
        return self._hash

    @property
    def digest(self) -> int:
        """The hash, available also while a function is traced."""
        return self._hash

    def _is_alike(self, other: Expr) -> bool:
        """Whether two nodes are equal up to their arguments."""
        return (
            self._hash == other._hash
            and _own(self) == _own(other)
            and _signs(self.value) == _signs(other.value)
        )

    @property
    def number(self) -> int:
        """The position of a parameter, or the value of an integer constant."""
        assert isinstance(self.value, int | float), self
        return int(self.value)

    def applied(self, op: str, *operands: Operand) -> Expr:
        """Apply an operation; see `apply`."""
        return apply(op, *operands)

    def astype(self, dtype: object) -> Expr:
        """Convert to a type, like an array's method."""
        return cast(self, dtype)

    @property
    def real(self) -> Expr:
        """The real part."""
        return apply("real", self)

    @property
    def imag(self) -> Expr:
        """The imaginary part; 0 for a real number."""
        return apply("imag", self)

    def conjugate(self) -> Expr:
        """The complex conjugate."""
        return apply("conj", self)

    def __floor__(self) -> Expr:
        return whole(apply("floor", self))

    def __ceil__(self) -> Expr:
        return whole(apply("ceil", self))

    def __trunc__(self) -> Expr:
        return whole(apply("trunc", self))

    def __round__(self, digits: int | None = None) -> Expr:
        return whole(rounded(apply, self)) if digits is None else rounded(apply, self, digits)

    def __bool__(self) -> bool:
        raise unknown(self, "truth", "use numpy.where(condition, then, otherwise) for if")

    def __float__(self) -> float:
        raise unknown(self, "value", "use functions of NumPy, which take symbolic values")

    def __int__(self) -> int:
        raise unknown(self, "value", "convert it by astype")

    def __index__(self) -> int:
        raise unknown(self, "value", "indices and bounds of loops must be constants here")

    def __complex__(self) -> complex:
        raise unknown(self, "value", "convert it by astype")

    def __str__(self) -> str:
        if TRACED.get() is not None:
            raise unknown(self, "value", "kernels print nothing")
        return repr(self)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __repr__(self) -> str:
        if self.size <= _SHORT:
            return _text(self, [repr(arg) for arg in self.args])
        if self.size <= _PRINTED and self.depth <= RECURSIVE:
            return folded([self], _text)[0]
        return text_of_graph(self, _text, RECURSIVE)


ATTRIBUTES = frozenset(("astype", "conjugate", "dtype", "imag", "real"))
"""What an element has in a traced function; all else is an attribute of the expression alone."""


def check_size(expressions: Sequence[Expr]) -> None:
    """Raises TranslationError where expressions have more than `LARGEST` nodes together."""
    size = 0
    for expr in expressions:
        size += expr.size
    if size > LARGEST and count_of_nodes(expressions) > LARGEST:
        raise _too_many()


def _too_many() -> TranslationError:
    return TranslationError(
        f"an expression has more than {LARGEST} operations",
        hint="unroll fewer steps, or write them as a dim of the computation",
    )


def _own(node: Expr) -> tuple[Any, ...]:
    """The node's data without its arguments."""
    return node.op, node.dtype, node.value, node.weak


def _node(own: tuple[Any, ...], args: tuple[Expr, ...]) -> Expr:
    op, dtype, value, weak = own
    return Expr(op, args, dtype, value, weak)


def unpickled(table: Packed) -> tuple[Expr, ...]:
    """Rebuild expressions from a table made by `pickled`."""
    return tuple(unpacked(table, _node))


def pickled(expressions: Sequence[Expr]) -> Packed:
    """Expressions as a table, in which `pickle` meets each node once."""
    return packed(expressions, _own)


def _unpickled(table: Packed) -> Expr:
    return unpickled(table)[0]


def _text(node: Expr, args: Sequence[str]) -> str:
    """The text of a node, given its arguments' texts."""
    if node.op == "param":
        return f"p{node.value}"
    if node.op in ("const", "index", "size"):
        return str(node.value)
    if node.op == "cast":
        return f"{node.dtype.name}({args[0]})"
    if node.op in OPERATIONS and (symbol := OPERATIONS[node.op].symbol):
        return f"({args[0]} {symbol} {args[1]})"
    return f"{node.op}({', '.join(args)})"


def _signs(value: Number | str | None) -> tuple[float, ...]:
    """The signs of a number's parts, to tell 0.0 from -0.0."""
    if value is None or isinstance(value, str):
        return ()
    return math.copysign(1, value.real), math.copysign(1, value.imag)


def param(position: int, dtype: object) -> Expr:
    """The parameter at `position`, of the given type."""
    return Expr("param", (), as_dtype(dtype), position)


def const(value: Number, dtype: object) -> Expr:
    """A constant."""
    to = as_dtype(dtype)
    # One NaN, since constants are compared.
    return Expr("const", (), to, value if value == value else math.nan)


def weak(value: Number) -> Expr:
    """A Python number, which adopts the type of other operands."""
    return Expr("const", (), _type_of(type(value)), value, weak=type(value) is not bool)


@lru_cache(16)
def _type_of(kind: type) -> np.dtype:
    return np.result_type(kind)


def index_of(dim: str) -> Expr:
    """The index of a dim, as int64."""
    return Expr("index", (), I64, dim)


def cast(expr: Expr, dtype: object) -> Expr:
    """Convert `expr` to `dtype`; a node of that type is returned as is."""
    to = as_dtype(dtype)
    if expr.dtype == to and not expr.weak:
        return expr
    if expr.weak and expr.op == "const":
        assert expr.value is not None and not isinstance(expr.value, str)
        return const(_fitting(expr.value, to), to)
    if expr.op == "const" and kind_of(expr.dtype) in "biu" and kind_of(to) in "biufc":
        with np.errstate(over="ignore"):  # infinity in float16
            return const(np.asarray(expr.value, expr.dtype).astype(to).item(), to)
    if expr.weak and expr.op == "select":
        condition, then, otherwise = expr.args
        return Expr("select", (condition, cast(then, to), cast(otherwise, to)), to)
    return Expr("cast", (expr,), to)


def whole(expr: Expr) -> Expr:
    """Convert like Python's `int`: to int64, except that uint64 stays."""
    return expr if expr.dtype == np.uint64 else cast(expr, I64)


def _fitting(value: Number, dtype: np.dtype) -> Number:
    if dtype.kind in "iu" and isinstance(value, int):
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise TranslationError(
                f"{value} does not fit {dtype.name}", hint="convert the other operand by astype"
            )
    if kind_of(dtype) in "fc" and isinstance(value, int) and value.bit_length() > _FLOAT_BITS:
        raise TranslationError(f"an integer of {value.bit_length()} bits fits no float")
    return value


def apply(op: str, *args: Operand) -> Expr:
    """Build the node of an operation, with NumPy's type promotion.

    Operations on integers that need floating point give float64. Raises TranslationError where the
    operation is not defined on the operands' types.
    """
    operation = OPERATIONS.get(op)
    if operation is None or operation.arity != len(args):
        raise TranslationError(f"operation {op!r} does not take {len(args)} operands")
    if not any(isinstance(arg, Expr) for arg in args):
        raise TranslationError(f"operation {op!r} has no operand of known type")
    nodes = [_operand(op, arg) for arg in args]
    if op == "select":
        then, otherwise = _common(nodes[1:])
        is_weak = then.weak and otherwise.weak
        return Expr(op, (truth(nodes[0]), then, otherwise), then.dtype, weak=is_weak)
    if op in MIRRORED and (exact := exact_comparison(apply, op, *nodes)) is not None:
        return exact
    if op == "add":
        other = nodes[1] if _is_weak_zero(nodes[0]) else nodes[0]
        # A sum that begins with 0 begins with its first term; conditions are counted, though.
        if other.dtype != BOOL and any(map(_is_weak_zero, nodes)):
            return other
    common = (truth(nodes[0]),) if op == "not" else _common(nodes)
    dtype = common[0].dtype
    if op == "pow" and dtype != BOOL:
        simpler = simpler_power(apply, *common)
        if simpler is not None:
            return simpler
    if (form := operation.on.get(kind_of(dtype))) is not None:
        return _in_form(op, form, common)
    if dtype == BOOL and operation.rule is not Rule.TRUTH:
        wide = F64 if operation.rule is Rule.REAL else np.dtype(np.int8)
        return apply(op, *(cast(node, wide) for node in common))
    match operation.rule:
        case Rule.TRUTH:
            return Expr(op, common, BOOL)
        case Rule.BITS if dtype.kind not in "iu":
            raise TranslationError(
                f"operation {op!r} takes integers and booleans, not {dtype.name}",
                hint="convert the operands, or compare them first",
            )
        case Rule.PART:
            return Expr(op, common, np.dtype(f"f{dtype.itemsize // 2}"))
        case Rule.REAL if dtype.kind in "iu":
            is_weak = all(node.weak for node in common)
            return Expr(op, tuple(cast(node, F64) for node in common), F64, weak=is_weak)
        case _:
            return Expr(op, common, dtype, weak=all(node.weak for node in common))


def _is_weak_zero(node: Expr) -> bool:
    return node.weak and node.op == "const" and type(node.value) is int and node.value == 0


def equal(lhs: Operand, rhs: Operand) -> Expr:
    """`lhs == rhs` as a node; `==` on nodes compares their structure."""
    return apply("eq", lhs, rhs)


def not_equal(lhs: Operand, rhs: Operand) -> Expr:
    """`lhs != rhs` as a node."""
    return apply("ne", lhs, rhs)


def select(condition: Operand, then: Operand, otherwise: Operand) -> Expr:
    """`then` where the condition is true, else `otherwise`."""
    return apply("select", condition, then, otherwise)


def truth(expr: Expr) -> Expr:
    """The truth value as a node: booleans as they are, others `!= 0`."""
    return expr if expr.dtype == BOOL else apply("ne", expr, 0)


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a value is a Python number, which is weak; NumPy scalars are not."""
    return isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic)


def as_expr(value: Operand) -> Expr:
    """Convert a scalar to a node; Python numbers are weak."""
    if isinstance(value, Expr):
        return value
    if is_number(value):
        return weak(value)
    known: np.ndarray | None = np.asarray(value) if hasattr(value, "dtype") else None
    if known is None or kind_of(known.dtype) not in "biufc":
        raise TranslationError(f"{shown(value)} is no scalar")
    if known.ndim:
        raise TranslationError(
            f"an array of shape {known.shape} is no scalar",
            hint="index it with constants, or make it an operand of the computation",
        )
    number: Number = known.item()
    return const(number, known.dtype)


def _operand(op: str, value: Operand) -> Expr:
    try:
        return as_expr(value)
    except TranslationError as error:
        error.args = (f"operation {op!r}: {error.message}",)
        raise


def _common(nodes: Sequence[Expr]) -> tuple[Expr, ...]:
    """The operands in their common type; weak if all are."""
    strong = tuple([node.dtype for node in nodes if not node.weak])
    common = _common_type(strong, tuple([node.dtype for node in nodes if node.weak]))
    if strong:
        return tuple([cast(node, common) for node in nodes])
    return tuple([node if node.dtype == common else _widened(node, common) for node in nodes])


@lru_cache(1024)
def _common_type(strong: tuple[np.dtype, ...], weak: tuple[np.dtype, ...]) -> np.dtype:
    """The promotion of elements' types, and of weak numbers' ones."""
    examples: list[Number] = [dtype.type(0).item() for dtype in weak]
    return common_dtype(strong, examples) if strong else np.result_type(*examples)


def _widened(node: Expr, dtype: np.dtype) -> Expr:
    """A weak node converted to a wider kind; still weak."""
    if node.op == "const":
        return Expr("const", (), dtype, node.value, weak=True)
    return Expr("cast", (node,), dtype, weak=True)


def _in_form(op: str, form: Form | str, nodes: tuple[Expr, ...]) -> Expr:
    """The simplified form of an operation on some kind of operands."""
    dtype = nodes[0].dtype
    match form:
        case Form.ITSELF:
            return nodes[0]
        case Form.ZERO | Form.ONE:
            to = BOOL if OPERATIONS[op].rule is Rule.TRUTH else dtype
            value = form is Form.ONE
            return const(value if to == BOOL else int(value), to)
        case Form.LENGTH:
            return apply("hypot", apply("real", nodes[0]), apply("imag", nodes[0]))
        case Form.REFUSED:
            raise _refused(op, dtype)
        case other:
            return Expr(other, nodes, dtype)


def _refused(op: str, dtype: np.dtype) -> TranslationError:
    if dtype == BOOL:
        what, hint = "booleans, as in NumPy", "convert them to integers, or use ^ and ~"
    else:
        what, hint = "complex numbers here", "write it with real and imag"
    return TranslationError(f"operation {op!r} is not defined on {what}", hint=hint)
