"""Complex numbers as pairs of reals: an MDHom over complex buffers becomes one over real ones.

A complex buffer is a real buffer with a last axis of two; a complex element of the result tuple is
two real ones. From here on no part of the system knows complex numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from mdtensor.errors import LoweringError
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import Combine, Concat, Operator
from mdtensor.translate.graphs import folded
from mdtensor.translate.md_hom import Epilogue, MDHom
from mdtensor.translate.scalar import BOOL, Expr, Number, apply, cast, const, param, truth
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import nodes, with_args
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex

T = TypeVar("T")

_HALVES = (AffineIndex(offset=0), AffineIndex(offset=1))


def real_from_complex(md_hom: MDHom) -> MDHom:
    """Rewrite an MDHom to real buffers; unchanged where nothing is complex."""
    if not any(map(_is_complex, _types(md_hom))):
        return md_hom
    stored = [md_hom.outputs[a.buffer].spec.dtype for a in md_hom.out_view]
    epilogue, held = md_hom.epilogue, stored
    if epilogue is not None:
        held = list(md_hom.scalar.result_dtypes)
        view = _real_view(epilogue.view, md_hom.inputs)
        epilogue = Epilogue(_real_function(epilogue.function, stored), view)
    return MDHom(
        tuple(replace(dim, combine=_real_combine(dim.combine, held)) for dim in md_hom.dims),
        _real_function(md_hom.scalar, held),
        tuple(map(_real_buffer, md_hom.inputs)),
        tuple(map(_real_buffer, md_hom.outputs)),
        _real_view(md_hom.inp_view, md_hom.inputs),
        _real_view(md_hom.out_view, md_hom.outputs),
        epilogue,
    )


def _types(md_hom: MDHom) -> Iterator[np.dtype]:
    """All types of buffers, results and intermediate values."""
    for buffer in (*md_hom.inputs, *md_hom.outputs):
        yield buffer.spec.dtype
    last = () if md_hom.epilogue is None else md_hom.epilogue.function.results
    combined = (result for operator in md_hom.operators for result in operator.results)
    for result in (*md_hom.scalar.results, *last, *combined):
        for node in nodes(result):
            yield node.dtype


def _real_function(function: ScalarFunction, stored: Sequence[np.dtype]) -> ScalarFunction:
    """The function on real elements; `stored` are the types in which results are stored."""
    params = _split_params(function.params)
    results = _flatten(
        (*parts, *(const(0, dtype) for dtype in _missing(result.dtype, to)))
        for parts, result, to in zip(
            _split(function.results, params), function.results, stored, strict=True
        )
    )
    return ScalarFunction(
        tuple(_flatten(_halves(dtype) for dtype in function.params)), results, function.name
    )


def _is_complex(dtype: np.dtype) -> bool:
    return dtype.kind == "c"


def _real(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"f{dtype.itemsize // 2}")


def _halves(dtype: np.dtype) -> tuple[np.dtype, ...]:
    return (_real(dtype), _real(dtype)) if _is_complex(dtype) else (dtype,)


def _missing(dtype: np.dtype, stored: np.dtype) -> tuple[np.dtype, ...]:
    """The imaginary part's type, as a tuple, where a real element is stored as complex; else ()."""
    return (_real(stored),) if _is_complex(stored) and not _is_complex(dtype) else ()


def _flatten(groups: Iterable[Iterable[T]]) -> tuple[T, ...]:
    return tuple(item for group in groups for item in group)


def _real_buffer(buffer: BufferSpec) -> BufferSpec:
    spec = buffer.spec
    if not _is_complex(spec.dtype):
        return buffer
    strides = (*(2 * stride for stride in spec.strides), 1)
    return replace(buffer, spec=TensorSpec(_real(spec.dtype), (*spec.shape, 2), strides))


def _real_view(
    view: tuple[BufferAccess, ...], buffers: tuple[BufferSpec, ...]
) -> tuple[BufferAccess, ...]:
    elements = _split_params(tuple(buffers[a.buffer].spec.dtype for a in view))
    real: list[BufferAccess] = []
    for access in view:
        index = tuple(_real_index(axis, elements) for axis in access.index)
        if _is_complex(buffers[access.buffer].spec.dtype):
            real += [BufferAccess(access.buffer, (*index, half)) for half in _HALVES]
        else:
            real.append(BufferAccess(access.buffer, index))
    return tuple(real)


def _real_index(
    index: AffineIndex | ComputedIndex, elements: list[tuple[Expr, ...]]
) -> AffineIndex | ComputedIndex:
    if isinstance(index, AffineIndex):
        return index
    return ComputedIndex(_split([index.expr], elements)[0][0])


def _split_params(dtypes: tuple[np.dtype, ...]) -> list[tuple[Expr, ...]]:
    return _numbered([_halves(dtype) for dtype in dtypes])


def _numbered(groups: Sequence[tuple[np.dtype, ...]]) -> list[tuple[Expr, ...]]:
    """Groups of parameters of the given types, numbered consecutively."""
    position = 0
    params: list[tuple[Expr, ...]] = []
    for group in groups:
        params.append(tuple(param(position + n, dtype) for n, dtype in enumerate(group)))
        position += len(group)
    return params


def _real_combine(combine: Combine, stored: Sequence[np.dtype]) -> Combine:
    """The operator on real tuples; the constant 0 as imaginary part is preserved."""
    if isinstance(combine, Concat):
        return combine
    op = combine.op
    missing = [_missing(dtype, to) for dtype, to in zip(op.dtypes, stored, strict=True)]
    held = [(*_halves(d), *m) for d, m in zip(op.dtypes, missing, strict=True)]
    whole = _numbered([*held, *held])
    params = [p[: len(_halves(d))] for p, d in zip(whole, (*op.dtypes, *op.dtypes), strict=True)]
    identity: tuple[Number, ...] | None = None
    if op.identity is not None:
        parts = zip(op.identity, op.dtypes, missing, strict=True)
        identity = _flatten((*_constant_halves(v, d), *(0 for _ in m)) for v, d, m in parts)
    real = Operator(
        _flatten(held),
        _flatten(
            (*parts, *(whole[n][-1] for _ in missing[n]))
            for n, parts in enumerate(_split(op.results, params))
        ),
        identity,
        op.commutative,
        op.name,
    )
    return replace(combine, op=real)


def _constant_halves(value: Number, dtype: np.dtype) -> tuple[Number, ...]:
    if not _is_complex(dtype):
        return (value,)
    return (complex(value).real, complex(value).imag)


def _split(exprs: Sequence[Expr], params: Sequence[tuple[Expr, ...]]) -> list[tuple[Expr, ...]]:
    """The real parts of expressions: (re, im) for complex ones, a 1-tuple for others."""

    def parts(node: Expr, args: list[tuple[Expr, ...]]) -> tuple[Expr, ...]:
        if node.op == "param":
            return params[node.number]
        if node.op == "const":
            assert node.value is not None and not isinstance(node.value, str)
            halves = _constant_halves(node.value, node.dtype)
            return tuple(const(v, dt) for v, dt in zip(halves, _halves(node.dtype), strict=True))
        if any(len(arg) == 2 for arg in args) or _is_complex(node.dtype):
            return _complex_operation(node, args)
        return (with_args(node, [arg[0] for arg in args]),)

    return folded(exprs, parts)


def _complex_operation(expr: Expr, args: list[tuple[Expr, ...]]) -> tuple[Expr, ...]:
    match expr.op:
        case "cast":
            return _cast(args[0], expr.dtype)
        case "add":
            (a, b), (c, d) = args
            return a + c, b + d
        case "sub":
            (a, b), (c, d) = args
            return a - c, b - d
        case "neg":
            a, b = args[0]
            return -a, -b
        case "mul":
            (a, b), (c, d) = args
            return a * c - b * d, a * d + b * c
        case "div":
            return _quotient(*args)
        case "conj":
            a, b = args[0]
            return a, -b
        case "rint":
            a, b = args[0]
            return apply("rint", a), apply("rint", b)
        case "exp":
            a, b = args[0]
            radius = apply("exp", a)
            return radius * apply("cos", b), radius * apply("sin", b)
        case "real" | "imag":
            return (args[0][expr.op == "imag"],)
        case "select":
            (condition, *_), then, otherwise = args
            return _chosen(condition, then, otherwise)
        case "min" | "max" | "fmin" | "fmax":
            return _extremum(expr.op, *args)
        case "lt" | "le" | "gt" | "ge":
            return (_ordered(expr.op, *args),)
        case "isnan" | "isinf":
            a, b = args[0]
            return (apply(expr.op, a) | apply(expr.op, b),)
        case "isfinite":
            a, b = args[0]
            return (apply("isfinite", a) & apply("isfinite", b),)
        case "eq":
            (a, b), (c, d) = args
            return (apply("eq", a, c) & apply("eq", b, d),)
        case "ne":
            (a, b), (c, d) = args
            return (apply("ne", a, c) | apply("ne", b, d),)
        case _:
            raise LoweringError(
                f"operation {expr.op!r} is not defined on complex numbers here",
                hint="write it with real() and imag()",
            )


def _chosen(condition: Expr, then: Sequence[Expr], otherwise: Sequence[Expr]) -> tuple[Expr, ...]:
    pairs = zip(then, otherwise, strict=True)
    return tuple(Expr("select", (condition, t, o), t.dtype) for t, o in pairs)


def _ordered(op: str, lhs: tuple[Expr, ...], rhs: tuple[Expr, ...]) -> Expr:
    """NumPy's order of complex numbers: by real, then imaginary parts; NaN is unordered."""
    (a, b), (c, d) = lhs, rhs
    by_real = apply(op[0] + "t", a, c) & apply("eq", b, b) & apply("eq", d, d)
    return by_real | (apply("eq", a, c) & apply(op, b, d))


def _extremum(op: str, lhs: tuple[Expr, ...], rhs: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """A complex extremum, the left one of equals; NaN wins in `min`, `max`, loses in the others."""
    is_first = _ordered("le" if op.endswith("min") else "ge", lhs, rhs)
    a, b = rhs if op.startswith("f") else lhs
    is_first |= apply("isnan", a) | apply("isnan", b)
    return _chosen(is_first, lhs, rhs)


def _quotient(lhs: tuple[Expr, ...], rhs: tuple[Expr, ...]) -> tuple[Expr, Expr]:
    (a, b), (c, d) = lhs, rhs
    if d.op == "const" and d.value == 0:
        return a / c, b / c
    square = c * c + d * d
    return (a * c + b * d) / square, (b * c - a * d) / square


def _cast(parts: tuple[Expr, ...], dtype: np.dtype) -> tuple[Expr, ...]:
    if dtype == BOOL and len(parts) == 2:
        return (truth(parts[0]) | truth(parts[1]),)
    if not _is_complex(dtype):
        return (cast(parts[0], dtype),)
    real = _real(dtype)
    imaginary = cast(parts[1], real) if len(parts) == 2 else const(0, real)
    return cast(parts[0], real), imaginary
