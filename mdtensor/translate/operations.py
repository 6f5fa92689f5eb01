"""The operations of scalar expressions: arity, type rule, NumPy function, infix symbol.

What an operation means is what NumPy's function of that name does: integers wrap around, a
division of integers by zero is 0, `mod` and `floordiv` round towards minus infinity, NaN wins in
`min` and `max` and loses in `fmin` and `fmax`, and a shift by the width or more shifts all out.
Complex numbers are in the order of their real parts, and where these are equal, of the imaginary.
`tf32` is the value itself, which hardware may round to the ten bits that its tensor cores take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass

Values = np.ndarray | np.generic


class Rule(Enum):
    """The result type, in terms of the operands' common type."""

    SAME = "the common type"
    TRUTH = "bool"
    REAL = "the common type where it is a floating one, else float64"
    BITS = "the common type, which is one of integers or bool"
    PART = "the type of a real or imaginary part"


class Form(Enum):
    """A simpler form of an operation on operands of certain kinds."""

    ITSELF = "the operand itself"
    ZERO = "0, or false"
    ONE = "1, or true"
    LENGTH = "the length of real and imaginary part"
    REFUSED = "an error"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; `symbol` is its infix spelling, in Python as in C.

    `on` says what it becomes on operands of some of NumPy's kinds: a form, or the operation of
    another name. On booleans, for which it says nothing, all but comparisons widen.
    """

    arity: int
    rule: Rule
    evaluate: Callable[..., Any]
    symbol: str = ""
    on: Mapping[str, Form | str] = field(default_factory=dict[str, "Form | str"])


def _unchanged(values: Values) -> Values:
    return values


def _on(**forms: Form | str) -> Mapping[str, Form | str]:
    """Expand keys of several kind letters into one entry per letter."""
    return {kind: form for kinds, form in forms.items() for kind in kinds}


_ARITHMETIC = {
    "add": Operation(2, Rule.SAME, np.add, "+", _on(b="or")),
    "sub": Operation(2, Rule.SAME, np.subtract, "-", _on(b=Form.REFUSED)),
    "mul": Operation(2, Rule.SAME, np.multiply, "*", _on(b="and")),
    "div": Operation(2, Rule.REAL, np.divide, "/"),
    "mod": Operation(2, Rule.SAME, np.mod, "%", _on(c=Form.REFUSED)),
    "floordiv": Operation(2, Rule.SAME, np.floor_divide, "//", _on(c=Form.REFUSED)),
    "fmod": Operation(2, Rule.SAME, np.fmod, on=_on(c=Form.REFUSED)),
    "pow": Operation(2, Rule.SAME, np.power, "**", _on(c=Form.REFUSED)),
    "neg": Operation(1, Rule.SAME, np.negative, on=_on(b=Form.REFUSED)),
    "abs": Operation(1, Rule.SAME, np.abs, on=_on(bu=Form.ITSELF, c=Form.LENGTH)),
    "conj": Operation(1, Rule.SAME, np.conjugate, on=_on(biuf=Form.ITSELF)),
    "sign": Operation(1, Rule.SAME, np.sign, on=_on(bc=Form.REFUSED)),
    "min": Operation(2, Rule.SAME, np.minimum, on=_on(b="and")),
    "max": Operation(2, Rule.SAME, np.maximum, on=_on(b="or")),
    "fmin": Operation(2, Rule.SAME, np.fmin, on=_on(b="and", iu="min")),
    "fmax": Operation(2, Rule.SAME, np.fmax, on=_on(b="or", iu="max")),
    "select": Operation(3, Rule.SAME, np.where),
    "real": Operation(1, Rule.PART, np.real, on=_on(biuf=Form.ITSELF)),
    "imag": Operation(1, Rule.PART, np.imag, on=_on(biuf=Form.ZERO)),
    "tf32": Operation(1, Rule.SAME, _unchanged),
}
_BITS = {
    "and": Operation(2, Rule.BITS, np.bitwise_and, "&", _on(b="and")),
    "or": Operation(2, Rule.BITS, np.bitwise_or, "|", _on(b="or")),
    "xor": Operation(2, Rule.BITS, np.bitwise_xor, "^", _on(b="xor")),
    "lshift": Operation(2, Rule.BITS, np.left_shift, "<<"),
    "rshift": Operation(2, Rule.BITS, np.right_shift, ">>"),
    "invert": Operation(1, Rule.BITS, np.invert, on=_on(b="not")),
}
_TRUTH = {
    "lt": Operation(2, Rule.TRUTH, np.less, "<"),
    "le": Operation(2, Rule.TRUTH, np.less_equal, "<="),
    "gt": Operation(2, Rule.TRUTH, np.greater, ">"),
    "ge": Operation(2, Rule.TRUTH, np.greater_equal, ">="),
    "eq": Operation(2, Rule.TRUTH, np.equal, "=="),
    "ne": Operation(2, Rule.TRUTH, np.not_equal, "!="),
    "not": Operation(1, Rule.TRUTH, np.logical_not),
    "isnan": Operation(1, Rule.TRUTH, np.isnan, on=_on(biu=Form.ZERO)),
    "isinf": Operation(1, Rule.TRUTH, np.isinf, on=_on(biu=Form.ZERO)),
    "isfinite": Operation(1, Rule.TRUTH, np.isfinite, on=_on(biu=Form.ONE)),
}
_UNARY_MATHS: Mapping[str, Callable[..., Any]] = {
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "fabs": np.fabs,
    # NumPy has none of its own.
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
}
_ROUNDINGS: Mapping[str, np.ufunc] = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}
_BINARY_MATHS: Mapping[str, Callable[..., Any]] = {
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "logaddexp": np.logaddexp,
}

OPERATIONS: Mapping[str, Operation] = (
    _ARITHMETIC
    | _BITS
    | _TRUTH
    | {
        name: Operation(1, Rule.REAL, function, on=_on(c=Form.REFUSED))
        for name, function in _UNARY_MATHS.items()
    }
    | {"exp": Operation(1, Rule.REAL, np.exp), "rint": Operation(1, Rule.REAL, np.rint)}
    | {
        name: Operation(1, Rule.REAL, function, on=_on(iu=Form.ITSELF, c=Form.REFUSED))
        for name, function in _ROUNDINGS.items()
    }
    | {
        name: Operation(2, Rule.REAL, function, on=_on(c=Form.REFUSED))
        for name, function in _BINARY_MATHS.items()
    }
)
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
"""Comparisons, and those that say the same of operands in the other order."""
COMPARISONS = frozenset(MIRRORED)
LONG_FUNCTIONS = frozenset((*_UNARY_MATHS, "exp", "pow", "atan2", "logaddexp")) - {"sqrt", "fabs"}
"""Functions that take many instructions: polynomials, or calls."""

UFUNCS: Mapping[np.ufunc, str] = {
    operation.evaluate: name
    for name, operation in OPERATIONS.items()
    if isinstance(operation.evaluate, np.ufunc)
} | {np.absolute: "abs", np.logical_not: "not"}
"""The operation that a ufunc of NumPy stands for."""
