"""Reverse-mode differentiation of typed expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from mdtensor.errors import GradientError
from mdtensor.specs import computed_dtype, kind_of
from mdtensor.translate.graphs import in_order
from mdtensor.translate.scalar import Expr, Operand, apply, cast, const, equal, select

# From the arguments of an operation, its value and the cotangent of that, to a cotangent for each
# argument; None where the derivative is 0 almost everywhere.
Parts = Sequence[Operand | None]
OfOne = Callable[[Expr, Expr, Expr], Parts]
OfTwo = Callable[[Expr, Expr, Expr, Expr], Parts]


def cotangents_of(
    results: Sequence[Expr], given: Sequence[Expr | None], wanted: Collection[int]
) -> dict[int, Expr]:
    """Cotangents of parameters, from cotangents of the results (a vector-Jacobian product).

    `given` has None for results that nothing depends on. A parameter that no result depends on is
    in no entry. Conditions of selections are constants; roundings and signs have derivative 0.
    Cotangents are of the type of arithmetic, float32 for 16-bit floats: none is rounded.

    Raises GradientError where a result depends on a wanted parameter by an integer, a truth value
    or an operation without derivative.

    >>> from mdtensor.translate.scalar import param
    >>> a, b, g = (param(n, "f8") for n in range(3))
    >>> cotangents_of([a * b], [g], {0, 1})
    {1: (p2 * p0), 0: (p2 * p1)}
    """
    nodes = in_order(results)
    varying = _varying(nodes, wanted)
    sums: dict[int, Expr] = {}
    for result, cotangent in zip(results, given, strict=True):
        if cotangent is not None and id(result) in varying:
            _check_real(result, result)
            _add(sums, result, cotangent)
    found: dict[int, Expr] = {}
    for node in nodes[::-1]:
        cotangent = sums.pop(id(node), None)
        if cotangent is None:
            continue
        if node.op == "param":
            before = found.get(node.number)
            found[node.number] = cotangent if before is None else before + cotangent
            continue
        for arg, part in zip(node.args, _parts(node, cotangent), strict=True):
            if part is None or id(arg) not in varying:
                continue
            _check_real(arg, node)
            _add(sums, arg, part)
    return found


def _varying(nodes: Sequence[Expr], wanted: Collection[int]) -> set[int]:
    """Ids of the nodes that depend on a wanted parameter."""
    varying = set[int]()
    for node in nodes:
        is_wanted = node.op == "param" and node.number in wanted
        if is_wanted or any(id(arg) in varying for arg in node.args):
            varying.add(id(node))
    return varying


def _check_real(node: Expr, user: Expr) -> None:
    if kind_of(node.dtype) == "f":
        return
    raise GradientError(
        f"{node!r} is {node.dtype.name}, through which nothing can be differentiated",
        notes=() if user is node else (f"it is used in {user!r}",),
        hint="choose by numpy.where(condition, a, b); only conditions may be compared or rounded",
    )


def _add(sums: dict[int, Expr], node: Expr, part: Operand) -> None:
    dtype = computed_dtype(node.dtype)
    typed = cast(part, dtype) if isinstance(part, Expr) else const(part, dtype)
    before = sums.get(id(node))
    sums[id(node)] = typed if before is None else before + typed


def _parts(node: Expr, cotangent: Expr) -> Parts:
    if node.op == "select":
        condition = node.args[0]
        return None, select(condition, cotangent, 0), select(condition, 0, cotangent)
    if node.op in _OF_ONE:
        return _OF_ONE[node.op](node.args[0], node, cotangent)
    if node.op in _OF_TWO:
        return _OF_TWO[node.op](node.args[0], node.args[1], node, cotangent)
    raise GradientError(f"operation {node.op!r} has no derivative", notes=(f"in {node!r}",))


def _unary(derivative: Callable[[Expr, Expr], Operand]) -> OfOne:
    """The rule of a unary function, by its derivative in terms of argument and value."""
    return lambda a, y, g: (g * derivative(a, y),)


def _flat(*args: Expr) -> Parts:
    """The rule of a piecewise constant function: no cotangents."""
    return [None] * (len(args) - 2)


def _extremum(better: str) -> OfTwo:
    """The rule of min or max: the better operand gets all, equal ones half, constants nothing."""

    def rule(a: Expr, b: Expr, y: Expr, g: Expr) -> Parts:
        if b.op == "const":
            return select(apply(better, a, b), g, 0), None
        if a.op == "const":
            return None, select(apply(better, b, a), g, 0)
        half = g * 0.5
        tied = equal(a, b)
        return (
            select(tied, half, select(apply(better, a, b), g, 0)),
            select(tied, half, select(apply(better, a, b), 0, g)),
        )

    return rule


def _power(a: Expr, b: Expr, y: Expr, g: Expr) -> Parts:
    by_base = select(equal(b, 0), 0, b * apply("pow", a, b - 1))
    return g * by_base, g * select(equal(a, 0), 0, y * apply("log", a))


def _share(part: Expr, whole: Expr) -> Expr:
    """The derivative of logaddexp by one operand, exp(part - whole); 1 where both are equal."""
    return select(equal(part, whole), 1, apply("exp", part - whole))


def _quotient_of(name: str) -> OfTwo:
    return lambda a, b, y, g: (g, -g * apply(name, a / b))


_LN2, _LN10, _ERF = math.log(2), math.log(10), 2 / math.sqrt(math.pi)

_OF_ONE: Mapping[str, OfOne] = {
    "neg": lambda a, y, g: (-g,),
    "abs": _unary(lambda a, y: apply("sign", a)),
    "fabs": _unary(lambda a, y: apply("sign", a)),
    "cast": lambda a, y, g: (g,),
    "tf32": lambda a, y, g: (g,),
    "exp": _unary(lambda a, y: y),
    "exp2": _unary(lambda a, y: y * _LN2),
    "expm1": _unary(lambda a, y: y + 1),
    "log": _unary(lambda a, y: 1 / a),
    "log2": _unary(lambda a, y: 1 / (a * _LN2)),
    "log10": _unary(lambda a, y: 1 / (a * _LN10)),
    "log1p": _unary(lambda a, y: 1 / (1 + a)),
    "sqrt": _unary(lambda a, y: 0.5 / y),
    "cbrt": _unary(lambda a, y: 1 / (3 * y * y)),
    "sin": _unary(lambda a, y: apply("cos", a)),
    "cos": _unary(lambda a, y: -apply("sin", a)),
    "tan": _unary(lambda a, y: 1 + y * y),
    "asin": _unary(lambda a, y: 1 / apply("sqrt", 1 - a * a)),
    "acos": _unary(lambda a, y: -1 / apply("sqrt", 1 - a * a)),
    "atan": _unary(lambda a, y: 1 / (1 + a * a)),
    "sinh": _unary(lambda a, y: apply("cosh", a)),
    "cosh": _unary(lambda a, y: apply("sinh", a)),
    "tanh": _unary(lambda a, y: 1 - y * y),
    "asinh": _unary(lambda a, y: 1 / apply("sqrt", a * a + 1)),
    "acosh": _unary(lambda a, y: 1 / apply("sqrt", a * a - 1)),
    "atanh": _unary(lambda a, y: 1 / (1 - a * a)),
    "erf": _unary(lambda a, y: _ERF * apply("exp", -(a * a))),
    "erfc": _unary(lambda a, y: -_ERF * apply("exp", -(a * a))),
    "sign": _flat,
    "floor": _flat,
    "ceil": _flat,
    "trunc": _flat,
    "rint": _flat,
}
_OF_TWO: Mapping[str, OfTwo] = {
    "add": lambda a, b, y, g: (g, g),
    "sub": lambda a, b, y, g: (g, -g),
    "mul": lambda a, b, y, g: (g * b, g * a),
    "div": lambda a, b, y, g: (g / b, -(g * y / b)),
    "pow": _power,
    "min": _extremum("lt"),
    "max": _extremum("gt"),
    "fmin": _extremum("lt"),
    "fmax": _extremum("gt"),
    "mod": _quotient_of("floor"),
    "fmod": _quotient_of("trunc"),
    "atan2": lambda a, b, y, g: (g * b / (a * a + b * b), -(g * a / (a * a + b * b))),
    "hypot": lambda a, b, y, g: (g * a / y, g * b / y),
    "copysign": lambda a, b, y, g: (g * select(equal(a, y), 1, -1), None),
    "logaddexp": lambda a, b, y, g: (g * _share(a, y), g * _share(b, y)),
    "floordiv": _flat,
}
