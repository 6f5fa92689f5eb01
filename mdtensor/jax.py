"""Operators of JAX that mdtensor computes, inside `jax.jit`, in the memory of XLA's buffers.

They have gradients of any order by `jax.grad` and `jax.vjp`, batches by `jax.vmap`, and shapes by
`jax.eval_shape`. Without JAX, they raise ModuleNotFoundError. See docs/jax.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mdtensor.api.frameworks import jax_operators
from mdtensor.api.frameworks.call_text import kept_text
from mdtensor.api.frameworks.front_end_texts import (
    conv_text,
    einsum_text,
    layout_of,
    reduce_text,
    scan_text,
)
from mdtensor.api.plans.plan import Plan

__all__ = ["conv", "einsum", "operator", "reduce", "scan"]

Array = Any
PerAxis = int | Sequence[int]


def einsum(equation: str, *operands: Array) -> Array:
    """The sum of products that an einsum string says, of JAX's arrays.

    Strings are those of `mdtensor.einsum`, also with sums for indices. Operands are arrays of JAX
    or NumPy, or numbers, of any shapes that the string fits; they are brought to their common type
    by JAX's rules, which is the result's. Raises what `mdtensor.einsum` raises, while the program
    is traced.
    """
    return _one(einsum_text(equation), operands)


def reduce(subscripts: str, *operands: Array, combine: str = "add") -> Array:
    """Combines the products of elements along the dims that the output lacks.

    `combine` is the name of an operator: `add`, `mul`, `max`, `min`, `logaddexp` and the others of
    `mdtensor.reduce`, whose strings these are. Raises what that raises.
    """
    return _one(reduce_text(subscripts, combine), operands)


def scan(
    subscripts: str,
    *operands: Array,
    dim: str,
    combine: str = "add",
    exclusive: bool = False,
    reverse: bool = False,
) -> Array:
    """Combines every element along a dim with all elements before it, as `mdtensor.scan` does."""
    return _one(scan_text(subscripts, dim, combine, exclusive, reverse), operands)


def conv(
    img: Array,
    flt: Array,
    bias: Array | None = None,
    *,
    stride: PerAxis = 1,
    padding: PerAxis | str | Sequence[Sequence[int]] = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    layout: str | None = None,
    transposed: bool = False,
    output_padding: PerAxis = 0,
) -> Array:
    """Convolves images with filters; options are those of `mdtensor.conv`.

    The layout has channels before the space by default, as `jax.lax.conv` has it:
    `NCHW,KCRS->NKPQ` for images, `NCW` and `NCDHW` likewise. Of transposed convolutions, the filter
    has its axes in the order `CKRS`. `bias` holds one number for each filter. Raises ShapeError for
    images of another rank without a layout, and what `mdtensor.conv` raises.
    """
    operands = (img, flt) if bias is None else (img, flt, bias)
    text = conv_text(
        bias=bias is not None,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        layout=layout_of(len(jax_operators.shape_of(img)), transposed)
        if layout is None
        else layout,
        transposed=transposed,
        output_padding=output_padding,
    )
    return _one(text, operands)


def operator(what: Plan | Callable[..., Any]) -> Callable[..., Any]:
    """A plan, or a function of arrays that is one call of mdtensor, as a function of JAX's arrays.

    A plan keeps the shapes and types that it was made for. What it returns is an array, or a tuple
    of several. The function is kept as long as the process lives; make one operator of it, and use
    that again. Raises ArgumentError for what is neither, and TranslationError when it is called,
    where the call runs several computations.
    """
    text = kept_text(what)

    def computed(*operands: Array) -> Any:
        results = jax_operators.call(text, operands)
        return results[0] if len(results) == 1 else tuple(results)

    computed.__name__ = getattr(what, "__name__", "plan")
    return computed


def _one(text: str, operands: Sequence[Array]) -> Array:
    """The one result of a call."""
    (result,) = jax_operators.call(text, jax_operators.of_one_type(operands))
    return result
