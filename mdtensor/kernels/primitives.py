"""Expansion of operations that C lacks into primitive ones, with shared subexpressions named.

The operations are defined in `translate/operations.py`; everything here holds for scalars and for
vectors of any type. `quot` and `rem` are C's `/` and `%` on integers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.register_types import U8
from mdtensor.lower.ir.statements import Let, Set, Statement, VectorStore, When
from mdtensor.lower.ir.values import Calc, Literal, Ref, Shift, Slice, Value
from mdtensor.translate.graphs import postorder
from mdtensor.translate.operations import COMPARISONS

LEVELS = 32
"""Nested operations after which a value gets a name, so that no line nests without end."""

MASKS = 64
"""Comparisons of a condition that is written again where it is used again, without a name."""

_LOGIC = frozenset(("and", "or", "xor", "not"))


def in_primitives(statement: Statement, first: int) -> list[Statement]:
    """Declarations of shared values, then the statement, in primitive operations only.

    They are named `c` and numbers from `first` on.
    """
    match statement:
        case Let(_, value) | Set(_, value) | VectorStore(value=value):
            if _is_short(value, set(), LEVELS):
                return [statement]
            sharing = _Sharing(first)
            declared, result = sharing.spread(value)
            return [*declared, statement if result is value else replace(statement, value=result)]
        case When(condition):
            declared, result = _Sharing(first).spread(condition)
            return [*declared, replace(statement, condition=result)]
        case _:
            return [statement]


def _is_short(value: Value, seen: set[str], levels: int) -> bool:
    """Whether a value is primitive, shallow, and free of repeated operations.

    Such a value needs no names, as in most statements: products that are added up.
    """
    if isinstance(value, Slice | Shift):
        return _is_short(value.value, seen, levels - 1)
    if not isinstance(value, Calc):
        return True
    if value.op in seen or levels <= 1 or _rule(value) is not None:
        return False
    seen.add(value.op)
    return all(_is_short(arg, seen, levels - 1) for arg in value.args)


def is_condition(value: Value) -> bool:
    """Whether a byte value is made of comparisons only, so that a mask can represent it."""
    if not isinstance(value, Calc) or value.dtype != U8:
        return False
    if value.op in COMPARISONS:
        return True
    return value.op in _LOGIC and all(map(is_condition, value.args))


@dataclass(slots=True)
class _Sharing:
    """Common subexpression elimination: hash-consed nodes, and names for those used repeatedly."""

    first: int
    nodes: dict[Hashable, Value] = field(default_factory=dict[Hashable, Value])
    known: dict[int, Value] = field(default_factory=dict[int, Value])
    uses: Counter[int] = field(default_factory=Counter[int])
    levels: dict[int, int] = field(default_factory=dict[int, int])
    compared: dict[int, int] = field(default_factory=dict[int, int])
    originals: list[Value] = field(default_factory=list[Value])

    def spread(self, value: Value) -> tuple[list[Statement], Value]:
        if not isinstance(value, Calc):
            return [], value
        for node in postorder([value], _parts):
            self._one(node)  # whose parts are known then
        root = self._one(value)
        listed = postorder([root], _parts)
        self._count(listed)
        declared: list[Statement] = []
        names: dict[int, Value] = {}
        for node in listed:
            names[id(node)] = self._named(node, declared, names)
        return declared, names[id(root)]

    def _one(self, value: Value) -> Value:
        """The hash-consed node of a value, in primitives."""
        if id(value) in self.known:
            return self.known[id(value)]
        result = value
        if isinstance(value, Calc):
            result = replace(value, args=tuple(map(self._one, value.args)))
            rule = _rule(result)
            if rule is not None:
                result = self._one(_as_wide(rule(*result.args), value))
            else:
                key = (result.op, tuple(map(id, result.args)), result.dtype, result.lanes)
                result = self.nodes.setdefault(key, result)
        elif isinstance(value, Slice | Shift):
            result = replace(value, value=self._one(value.value))
        else:
            result = self.nodes.setdefault(value, value)
        # An id is its object's only as long as that lives.
        self.originals += [value, result]
        self.known[id(value)] = self.known[id(result)] = result
        return result

    def _count(self, listed: Sequence[Value]) -> None:
        for node in listed:
            parts = _parts(node)
            self.uses.update(map(id, parts))
            self.levels[id(node)] = 1 + max((self.levels[id(part)] for part in parts), default=0)
            self.compared[id(node)] = self._comparisons(node)

    def _comparisons(self, value: Value) -> int:
        """The number of comparisons of an unnamed condition; 0 for other values."""
        if not isinstance(value, Calc) or value.dtype != U8:
            return 0
        if value.op in COMPARISONS:
            return 1
        counts = [self.compared[id(arg)] for arg in value.args]
        return min(sum(counts), MASKS + 1) if value.op in _LOGIC and all(counts) else 0

    def _named(self, value: Value, declared: list[Statement], names: dict[int, Value]) -> Value:
        """The value with names for its parts, or a new name for the value."""
        result = value
        if isinstance(value, Calc):
            result = replace(value, args=tuple([names[id(arg)] for arg in value.args]))
        elif isinstance(value, Slice | Shift):
            result = replace(value, value=names[id(value.value)])
        long = self.levels[id(value)] % LEVELS == 0
        repeated = self.uses[id(value)] > 1
        is_mask = 0 < self.compared[id(value)] <= MASKS
        if (long or repeated) and isinstance(value, Calc) and not is_mask:
            ref = Ref(f"c{self.first + len(declared)}", value.dtype, value.lanes)
            declared.append(Let(ref, result))
            return ref
        return result


def _parts(value: Value) -> Sequence[Value]:
    if isinstance(value, Calc):
        return value.args
    return (value.value,) if isinstance(value, Slice | Shift) else ()


def _as_wide(value: Value, original: Calc) -> Value:
    """The value with the lanes of the operation that it replaces."""
    if value.lanes == original.lanes or not isinstance(value, Calc):
        return value
    return replace(value, lanes=original.lanes)


# ---- making values ----------------------------------------------------------------------------


def _calc(op: str, *args: Value) -> Calc:
    dtype = U8 if op in COMPARISONS else args[-1].dtype
    return Calc(op, args, dtype, max(arg.lanes for arg in args))


def _number(value: float, like: Value) -> Literal:
    return Literal(value if like.dtype.kind == "f" else int(value), like.dtype)


def _either(condition: Value, then: Value, otherwise: Value) -> Calc:
    return _calc("select", condition, then, otherwise)


def _differ(lhs: Value, rhs: Value) -> Calc:
    return _calc("xor", _negative(lhs), _negative(rhs))


def _negative(value: Value) -> Calc:
    return _calc("lt", value, _number(0, value))


# ---- the rules: from an operation on primitives to primitives ----------------------------------


def _rule(calc: Calc) -> Callable[..., Value] | None:
    kind = "f" if calc.args[0].dtype.kind == "f" else "i"
    return _RULES.get((calc.op, kind))


def _extremum(better: str, lhs: Value, rhs: Value) -> Value:
    """A minimum or maximum in which NaN wins, by comparisons and selections."""
    if isinstance(lhs, Literal):
        lhs, rhs = rhs, lhs
    chosen = _either(_calc(better, rhs, lhs), rhs, lhs)
    if isinstance(rhs, Literal) and not math.isnan(rhs.value):
        return chosen
    return _either(_calc("ne", rhs, rhs), rhs, chosen)


def _absolute_int(x: Value) -> Value:
    return x if x.dtype.kind == "u" else _either(_negative(x), _calc("neg", x), x)


def _sign(x: Value) -> Value:
    zero, one = _number(0, x), _number(1, x)
    if x.dtype.kind == "u":
        return _either(_calc("ne", x, zero), one, zero)
    # What is neither positive nor negative is 0 or NaN, and stays.
    below = _either(_negative(x), _number(-1, x), x)
    return _either(_calc("gt", x, zero), one, below)


def _is_nan(x: Value) -> Value:
    return _calc("ne", x, x)


def _is_infinite(x: Value) -> Value:
    return _calc("eq", _calc("fabs", x), _number(math.inf, x))


def _is_finite(x: Value) -> Value:
    return _calc("lt", _calc("fabs", x), _number(math.inf, x))


def _mod_float(lhs: Value, rhs: Value) -> Value:
    """NumPy's float remainder: it has the divisor's sign, also where it is zero."""
    rest = _calc("fmod", lhs, rhs)
    away = _calc("and", _calc("ne", rest, _number(0, rest)), _differ(rest, rhs))
    return _either(away, _calc("add", rest, rhs), _calc("copysign", rest, rhs))


def _floordiv_float(lhs: Value, rhs: Value) -> Value:
    """NumPy's float floor division: by the exact remainder, then a rounded quotient.

    A quotient of zero has the sign that division gives.
    """
    zero, one = _number(0, rhs), _number(1, rhs)
    rest = _calc("fmod", lhs, rhs)
    away = _calc("and", _calc("ne", rest, zero), _differ(rest, rhs))
    whole = _calc("div", _calc("sub", lhs, rest), rhs)
    quotient = _either(away, _calc("sub", whole, one), whole)
    low = _calc("floor", quotient)
    up = _calc("gt", _calc("sub", quotient, low), _number(0.5, rhs))
    rounded = _either(up, _calc("add", low, one), low)
    exact = _calc("div", lhs, rhs)
    return _either(_calc("eq", rhs, zero), exact, _calc("copysign", rounded, exact))


def _safe_divisor(rhs: Value) -> Value:
    """A divisor that cannot trap: 1 in place of 0 and, if signed, of -1."""
    if isinstance(rhs, Literal) and rhs.value not in (0, -1):
        return rhs
    unsafe = _calc("eq", rhs, _number(0, rhs))
    if rhs.dtype.kind == "i":
        unsafe = _calc("or", unsafe, _calc("eq", rhs, _number(-1, rhs)))
    return _either(unsafe, _number(1, rhs), rhs)


def _fmod_int(lhs: Value, rhs: Value) -> Value:
    return _calc("rem", lhs, _safe_divisor(rhs))


def _mod_int(lhs: Value, rhs: Value) -> Value:
    divisor = _safe_divisor(rhs)
    rest = _calc("rem", lhs, divisor)
    if rhs.dtype.kind == "u":
        return rest
    away = _calc("and", _calc("ne", rest, _number(0, rest)), _differ(rest, divisor))
    return _either(away, _calc("add", rest, divisor), rest)


def _floordiv_int(lhs: Value, rhs: Value) -> Value:
    divisor = _safe_divisor(rhs)
    result = _calc("quot", lhs, divisor)
    if rhs.dtype.kind == "i":
        rest = _calc("rem", lhs, divisor)
        away = _calc("and", _calc("ne", rest, _number(0, rest)), _differ(rest, divisor))
        result = _either(away, _calc("sub", result, _number(1, rhs)), result)
        if divisor is not rhs:
            minus = _calc("eq", rhs, _number(-1, rhs))
            result = _either(minus, _calc("neg", lhs), result)
    if divisor is rhs:
        return result
    return _either(_calc("eq", rhs, _number(0, rhs)), _number(0, rhs), result)


def _power_int(base: Value, exponent: Value) -> Value:
    """An integer power by repeated squaring; the exponent is not negative."""
    known = int(exponent.value) if isinstance(exponent, Literal) else None
    bits = 8 * base.dtype.itemsize - (base.dtype.kind == "i")
    if isinstance(exponent, Calc) and exponent.op == "cast" and exponent.args[0].dtype.kind == "u":
        bits = min(bits, 8 * exponent.args[0].dtype.itemsize)
    one = result = _number(1, base)
    for bit in range(bits if known is None else known.bit_length()):
        if known is None:
            has_bit = _calc("and", exponent, _number(1 << bit, exponent))
            factor = _either(_calc("ne", has_bit, _number(0, exponent)), base, one)
            result = _calc("mul", factor, result)
        elif known >> bit & 1:
            result = base if result is one else _calc("mul", base, result)
        base = _calc("mul", base, base)
    return result


def _shift_left(lhs: Value, rhs: Value) -> Value:
    return _shifted("shl", lhs, rhs, _number(0, lhs))


def _shift_right(lhs: Value, rhs: Value) -> Value:
    zero = _number(0, lhs)
    if lhs.dtype.kind == "u":
        return _shifted("shr", lhs, rhs, zero)
    return _shifted("shr", lhs, rhs, _either(_negative(lhs), _number(-1, lhs), zero))


def _shifted(op: str, lhs: Value, rhs: Value, all_out: Value) -> Value:
    bits = 8 * lhs.dtype.itemsize
    if isinstance(rhs, Literal):
        inside = 0 <= rhs.value < bits
        return _calc(op, lhs, rhs) if inside else all_out
    few = _calc("lt", rhs, _number(bits, rhs))
    if rhs.dtype.kind == "i":
        few = _calc("and", few, _calc("ge", rhs, _number(0, rhs)))
    count = _calc("and", rhs, _number(bits - 1, rhs))
    return _either(few, _calc(op, lhs, count), all_out)


def _logaddexp(lhs: Value, rhs: Value) -> Value:
    """The logarithm of exp(a) + exp(b): max + log1p(exp(-|a - b|)), without inf - inf."""
    distance = _calc("fabs", _calc("sub", lhs, rhs))
    tail = _calc("log1p", _calc("exp", _calc("neg", distance)))
    largest = _calc("max", lhs, rhs)
    doubled = _calc("add", lhs, _number(math.log(2), lhs))
    return _either(_calc("eq", lhs, rhs), doubled, _calc("add", largest, tail))


_RULES: Mapping[tuple[str, str], Callable[..., Value]] = {
    ("min", "f"): partial(_extremum, "lt"),
    ("max", "f"): partial(_extremum, "gt"),
    ("abs", "f"): partial(_calc, "fabs"),
    ("abs", "i"): _absolute_int,
    ("sign", "f"): _sign,
    ("sign", "i"): _sign,
    ("isnan", "f"): _is_nan,
    ("isinf", "f"): _is_infinite,
    ("isfinite", "f"): _is_finite,
    ("mod", "f"): _mod_float,
    ("mod", "i"): _mod_int,
    ("floordiv", "f"): _floordiv_float,
    ("floordiv", "i"): _floordiv_int,
    ("fmod", "i"): _fmod_int,
    ("pow", "i"): _power_int,
    ("lshift", "i"): _shift_left,
    ("rshift", "i"): _shift_right,
    ("logaddexp", "f"): _logaddexp,
}
