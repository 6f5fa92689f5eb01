"""Functions of relative indices as stencils."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import ShapeError, TranslationError, count_of, shown
from mdtensor.options import whole
from mdtensor.specs import TensorSpec
from mdtensor.translate.arithmetic import Aggregate
from mdtensor.translate.python.expr_from_function import traced
from mdtensor.translate.scalar import Expr, Number, as_expr, cast, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.stencils.md_hom_from_stencil import Stencil
from mdtensor.translate.trees import all_substituted, params_in
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec


def stencil_from_function(
    function: Callable[..., object], arguments: Sequence[TensorSpec | Number]
) -> Stencil:
    """Trace a function whose arrays are indexed relative to a point.

    Specs are arrays, all of one shape, or, without axes, single elements; numbers are constants.
    The function returns one value or a tuple of several.

    Raises ShapeError where the arrays' shapes differ, TranslationError for a wrong index.

    >>> stencil_from_function(lambda u: u[-1] + u[2], [TensorSpec.of((9,))]).reach
    ((-1, 2),)
    """
    shape = _common_shape(arguments)
    reads: dict[BufferAccess, Expr] = {}
    inputs: list[BufferSpec] = []
    fields: set[int] = set()
    symbols: list[object] = []
    for position, argument in enumerate(arguments):
        if not isinstance(argument, TensorSpec):
            symbols.append(argument)
            continue
        number = len(inputs)
        inputs.append(BufferSpec(f"u{position}", argument))
        if argument.shape:
            fields.add(number)
            symbols.append(Field(number, argument, reads))
        else:
            symbols.append(_read(reads, BufferAccess(number, ()), argument.dtype))
    returned = traced(function, *symbols)
    listed: tuple[Any, ...] = returned if isinstance(returned, tuple) else (returned,)  # pyright: ignore[reportUnknownVariableType]
    if not listed:
        raise TranslationError(
            "a stencil returns no values", hint="one expression, or a tuple of them"
        )
    results = tuple(map(_as_expr, listed))
    used = sorted({n for result in results for n in params_in(result)})
    return Stencil(
        shape,
        _only(used, [expr.dtype for expr in reads.values()], results),
        tuple(inputs),
        frozenset(fields),
        tuple(list(reads)[n] for n in used),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Field(Aggregate):
    """A symbolic array in a stencil function: `u[-1, 0]` is the element above the point."""

    buffer: int
    spec: TensorSpec
    reads: dict[BufferAccess, Expr]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.spec.shape)

    @property
    def dtype(self) -> np.dtype:
        """Type of an element."""
        return self.spec.dtype

    def refused(self, what: str) -> TranslationError:
        """The error for an operation on a whole array."""
        return TranslationError(
            f"a stencil uses an array instead of an element of it: {what}",
            hint=f"u[{', '.join(['0'] * self.ndim)}] is the point itself",
        )

    def __iter__(self) -> NoReturn:
        # Python would go on from u[0] to u[1], and find no end.
        raise TranslationError(
            "a stencil goes over all elements of an array",
            hint="name those around the point: sum(u[n] for n in (-1, 0, 1))",
        )

    def __len__(self) -> int:
        raise self.refused("len()")

    def __repr__(self) -> str:
        return f"an array of the stencil: {self.spec!r}"

    def __getitem__(self, index: object) -> Expr:
        written = index
        offsets: tuple[Any, ...] = index if isinstance(index, tuple) else (index,)  # pyright: ignore[reportUnknownVariableType]
        try:
            places = [whole("an index", offset) for offset in offsets]
        except TypeError:
            raise TranslationError(
                f"a stencil reads at {shown(written)}, which is no relative index",
                hint="whole numbers, one for each axis: u[-1, 0] is the element above the point",
            ) from None
        if len(places) != self.ndim:
            raise TranslationError(
                f"a stencil reads at {len(places)} indices from an array of"
                f" {count_of(self.ndim, 'axis', 'axes')}",
                hint=f"u[{', '.join(['0'] * self.ndim)}] is the point itself",
            )
        place = tuple(AffineIndex.of(offset=offset) for offset in places)
        return _read(self.reads, BufferAccess(self.buffer, place), self.spec.dtype)


def _read(reads: dict[BufferAccess, Expr], access: BufferAccess, dtype: np.dtype) -> Expr:
    return reads.setdefault(access, param(len(reads), dtype))


def _common_shape(arguments: Sequence[TensorSpec | Number]) -> tuple[int, ...]:
    shapes = [a.shape for a in arguments if isinstance(a, TensorSpec) and a.shape]
    if not shapes:
        raise ShapeError("a stencil needs an array with at least one axis")
    if any(shape != shapes[0] for shape in shapes):
        raise ShapeError(
            f"the arrays of a stencil have shapes {', '.join(map(str, shapes))}",
            hint="all have one shape; np.broadcast_to stretches the smaller ones",
        )
    return shapes[0]


def _as_expr(value: object) -> Expr:
    try:
        expr = as_expr(value)
    except TranslationError:
        raise TranslationError(
            f"a stencil returns {shown(value)}",
            hint="return an expression of elements such as u[0, 0], or a tuple of several",
        ) from None
    return cast(expr, expr.dtype)


def _only(
    used: Sequence[int], types: Sequence[np.dtype], results: Sequence[Expr]
) -> ScalarFunction:
    """The scalar function restricted to the used parameters."""
    renumbered = [param(used.index(n) if n in used else 0, dtype) for n, dtype in enumerate(types)]
    return ScalarFunction(
        tuple(types[n] for n in used),
        all_substituted(results, renumbered),
    )
