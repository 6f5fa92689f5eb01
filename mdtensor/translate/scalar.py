"""Scalar functions as typed expression trees: what `md_hom` applies to every element.

An `Expr` is built by applying Python's operators to parameters, so any Python callable made of
them can be traced. One evaluator in NumPy lives here (`evaluate`); the one printer in C lives with
the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdtensor.errors import TranslationError

Number = bool | int | float | complex
Values = np.ndarray | np.generic

BOOL = np.dtype(np.bool_)
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
_INFIX = _ARITHMETIC | _COMPARISONS
_MATHS = ("exp", "log", "log1p", "expm1", "sqrt", "sin", "cos", "tanh", "fabs", "floor", "ceil")
_OTHERS = {"neg": 1, "not": 1, "cast": 1, "select": 3, "min": 2, "max": 2, "real": 1, "imag": 1}
_ARITY = _OTHERS | dict.fromkeys(_INFIX, 2) | dict.fromkeys(_MATHS, 1)


@dataclass(frozen=True, slots=True)
class Expr:
    """A node: a parameter, a constant, the value of an index, or an operation on nodes.

    `value` is the position of a parameter, the value of a constant, or the name of a dim.

    >>> a, b = param(0, "f4"), param(1, "f4")
    >>> a * b + 1
    ((p0 * p1) + 1)
    """

    op: str
    args: tuple[Expr, ...]
    dtype: np.dtype
    value: Number | str | None = None

    def __add__(self, other: Expr | Number) -> Expr:
        return apply("add", self, other)

    def __radd__(self, other: Number) -> Expr:
        return apply("add", other, self)

    def __sub__(self, other: Expr | Number) -> Expr:
        return apply("sub", self, other)

    def __rsub__(self, other: Number) -> Expr:
        return apply("sub", other, self)

    def __mul__(self, other: Expr | Number) -> Expr:
        return apply("mul", self, other)

    def __rmul__(self, other: Number) -> Expr:
        return apply("mul", other, self)

    def __truediv__(self, other: Expr | Number) -> Expr:
        return apply("div", self, other)

    def __rtruediv__(self, other: Number) -> Expr:
        return apply("div", other, self)

    def __and__(self, other: Expr | Number) -> Expr:
        return apply("and", self, other)

    def __or__(self, other: Expr | Number) -> Expr:
        return apply("or", self, other)

    def __xor__(self, other: Expr | Number) -> Expr:
        return apply("xor", self, other)

    def __neg__(self) -> Expr:
        return apply("neg", self)

    def __lt__(self, other: Expr | Number) -> Expr:
        return apply("lt", self, other)

    def __le__(self, other: Expr | Number) -> Expr:
        return apply("le", self, other)

    def __gt__(self, other: Expr | Number) -> Expr:
        return apply("gt", self, other)

    def __ge__(self, other: Expr | Number) -> Expr:
        return apply("ge", self, other)

    def __bool__(self) -> bool:
        raise TranslationError(
            f"the truth of {self!r} is known only when the kernel runs",
            hint="use mdtensor's select(condition, then, otherwise) instead of if",
        )

    def __repr__(self) -> str:
        if self.op == "param":
            return f"p{self.value}"
        if self.op in ("const", "index"):
            return str(self.value)
        if self.op == "cast":
            return f"{self.dtype.name}({self.args[0]!r})"
        if self.op in _INFIX:
            return f"({self.args[0]!r} {_INFIX[self.op]} {self.args[1]!r})"
        return f"{self.op}({', '.join(map(repr, self.args))})"


def param(position: int, dtype: object) -> Expr:
    """The parameter at `position`, of the given type."""
    return Expr("param", (), np.dtype(dtype), position)  # type: ignore[call-overload]


def const(value: Number, dtype: object) -> Expr:
    """A constant."""
    return Expr("const", (), np.dtype(dtype), value)  # type: ignore[call-overload]


def index_of(dim: str) -> Expr:
    """The value of a dim's index, as int64."""
    return Expr("index", (), np.dtype(np.int64), dim)


def cast(expr: Expr, dtype: object) -> Expr:
    """`expr` converted to `dtype`; the node itself where it has that type already."""
    to = np.dtype(dtype)  # type: ignore[call-overload]
    return expr if expr.dtype == to else Expr("cast", (expr,), to)


def apply(op: str, *args: Expr | Number) -> Expr:
    """The node of an operation, its operands brought to their common type as NumPy does it."""
    if _ARITY.get(op) != len(args):
        raise TranslationError(f"operation {op!r} does not take {len(args)} operands")
    typed = [arg for arg in args if isinstance(arg, Expr)]
    if not typed:
        raise TranslationError(f"operation {op!r} has no operand of known type")
    if op == "select":
        condition = args[0]
        assert isinstance(condition, Expr)
        then, otherwise = _common(args[1:])
        return Expr(op, (condition, then, otherwise), then.dtype)
    nodes = _common(args)
    dtype = nodes[0].dtype
    if op in _COMPARISONS or op == "not":
        dtype = BOOL
    elif op in ("real", "imag"):
        dtype = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    elif (op in _MATHS or op == "div") and dtype.kind in "biu":
        dtype = np.dtype(np.float64)
        nodes = tuple(cast(node, dtype) for node in nodes)
    return Expr(op, tuple(nodes), dtype)


def select(condition: Expr, then: Expr | Number, otherwise: Expr | Number) -> Expr:
    """`then` where the condition holds, else `otherwise`."""
    return apply("select", condition, then, otherwise)


def _common(args: Sequence[Expr | Number]) -> tuple[Expr, ...]:
    typed = [arg.dtype for arg in args if isinstance(arg, Expr)]
    weak = [arg for arg in args if not isinstance(arg, Expr)]
    common = np.result_type(*typed, *weak)
    return tuple(cast(arg, common) if isinstance(arg, Expr) else const(arg, common) for arg in args)


_EVALUATORS: Mapping[str, Callable[..., Values]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.logical_not,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "select": np.where,
    "real": np.real,
    "imag": np.imag,
} | {name: getattr(np, name) for name in _MATHS}


def wide(dtype: np.dtype) -> np.dtype:
    """The type in which the reference computes: float64, complex128, and integers as they are.

    Integers keep their width, since their arithmetic is exact modulo it.
    """
    if dtype.kind == "f":
        return np.dtype(np.float64)
    return np.dtype(np.complex128) if dtype.kind == "c" else dtype


def evaluate(
    expr: Expr, params: Sequence[Values], indices: Mapping[str, Values] | None = None
) -> Values:
    """The value of an expression on arrays, in the reference's precision (see `wide`)."""
    if expr.op == "param":
        assert isinstance(expr.value, int)
        return np.asarray(params[expr.value]).astype(wide(expr.dtype), copy=False)
    if expr.op == "const":
        return np.asarray(expr.value).astype(wide(expr.dtype))
    if expr.op == "index":
        assert indices is not None and isinstance(expr.value, str)
        return indices[expr.value]
    args = [evaluate(arg, params, indices) for arg in expr.args]
    if expr.op == "cast":
        return _converted(np.asarray(args[0]), wide(expr.dtype))
    with np.errstate(all="ignore"):
        return np.asarray(_EVALUATORS[expr.op](*args)).astype(wide(expr.dtype), copy=False)


def _converted(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if values.dtype.kind == "c" and dtype.kind not in "bc":
        values = np.real(values)
    with np.errstate(all="ignore"):
        return values.astype(dtype, copy=False)


def substitute(expr: Expr, params: Sequence[Expr]) -> Expr:
    """The expression with its parameters replaced."""
    if expr.op == "param":
        assert isinstance(expr.value, int)
        return params[expr.value]
    if not expr.args:
        return expr
    return Expr(
        expr.op, tuple(substitute(arg, params) for arg in expr.args), expr.dtype, expr.value
    )


def params_in(expr: Expr) -> tuple[int, ...]:
    """Positions of the parameters in an expression, in order of first occurrence.

    >>> params_in(param(2, "f4") * param(0, "f4") + param(2, "f4"))
    (2, 0)
    """
    return tuple(dict.fromkeys(_values_of("param", expr)))


def dims_in(expr: Expr) -> tuple[str, ...]:
    """Names of the dims whose indices an expression takes, in order of first occurrence."""
    return tuple(dict.fromkeys(_values_of("index", expr)))


def _values_of(op: str, expr: Expr) -> Iterator[Any]:
    if expr.op == op:
        yield expr.value
    for arg in expr.args:
        yield from _values_of(op, arg)


def with_dims(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The expression on dims of other names."""
    if expr.op == "index":
        assert isinstance(expr.value, str)
        return index_of(names[expr.value])
    if not expr.args:
        return expr
    return Expr(expr.op, tuple(with_dims(a, names) for a in expr.args), expr.dtype, expr.value)


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """The function `f` of an `md_hom`: from the accessed elements to a tuple of results.

    `params` are the types of the elements in the order of the input view's accesses.
    """

    params: tuple[np.dtype, ...]
    results: tuple[Expr, ...]
    name: str = "f"

    @property
    def result_dtypes(self) -> tuple[np.dtype, ...]:
        """Types of the tuple that the function returns."""
        return tuple(expr.dtype for expr in self.results)

    def __repr__(self) -> str:
        return self.name


def product(params: Sequence[object], dtype: object) -> ScalarFunction:
    """The product of all accessed elements, each first converted to `dtype`.

    >>> product(["f4", "f4"], "f4")
    mul
    """
    types = tuple(np.dtype(p) for p in params)  # type: ignore[call-overload]
    to = np.dtype(dtype)  # type: ignore[call-overload]
    result = cast(param(0, types[0]), to)
    for position, dt in enumerate(types[1:], start=1):
        factor = cast(param(position, dt), to)
        result = apply("and", result, factor) if to == BOOL else result * factor
    return ScalarFunction(types, (result,), "mul" if len(types) > 1 else "id")
