"""mdtensor's functions for JAX arrays, with JAX's type promotion and layouts.

All of mdtensor's functions take arrays of JAX and give such arrays, also in programs that are
traced; those here bring operands to their common type first, as JAX's own functions do. Without
JAX, they raise ModuleNotFoundError. See docs/jax.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdtensor.api.frameworks.image_layouts import layout_of
from mdtensor.api.frameworks.jax_operators import of_one_type, shape_of
from mdtensor.api.frontends.convolution import conv as mdtensor_conv
from mdtensor.api.frontends.einsum.einsum import einsum as mdtensor_einsum
from mdtensor.api.frontends.reduce import reduce as mdtensor_reduce
from mdtensor.api.frontends.reduce import scan as mdtensor_scan
from mdtensor.api.plans.plan import Plan
from mdtensor.errors import ArgumentError, shown

__all__ = ["conv", "einsum", "operator", "reduce", "scan"]

Array = Any


def einsum(equation: str, *operands: Array) -> Array:
    """An einsum of JAX arrays, with operands promoted by JAX's rules.

    Strings are those of `mdtensor.einsum`, also with sums for indices. Operands are arrays of JAX
    or NumPy, or numbers, of any shapes that the string fits; they are brought to their common type
    by JAX's rules, which is the result's. Raises what `mdtensor.einsum` raises, while the program
    is traced.
    """
    return mdtensor_einsum(equation, *of_one_type(operands), order="C")


def reduce(subscripts: str, *operands: Array, combine: Any = "add") -> Array:
    """Combines the products of elements along the dims that the output lacks.

    `combine` and the strings are those of `mdtensor.reduce`. Raises what that raises.
    """
    return mdtensor_reduce(subscripts, *of_one_type(operands), combine=combine)


def scan(
    subscripts: str,
    *operands: Array,
    dim: str,
    combine: Any = "add",
    exclusive: bool = False,
    reverse: bool = False,
) -> Array:
    """Combines every element along a dim with all elements before it, as `mdtensor.scan` does."""
    given = of_one_type(operands)
    return mdtensor_scan(
        subscripts, *given, combine={dim: combine}, exclusive=exclusive, reverse=reverse
    )


def conv(
    img: Array,
    flt: Array,
    bias: Array | None = None,
    *,
    layout: str | None = None,
    transposed: bool = False,
    **options: Any,
) -> Array:
    """Convolves images with filters; options are those of `mdtensor.conv`.

    The layout has channels before the space by default, as `jax.lax.conv` has it:
    `NCHW,KCRS->NKPQ` for images, `NCW` and `NCDHW` likewise. Of transposed convolutions, the filter
    has its axes in the order `CKRS`. `bias` holds one number for each filter. Raises ShapeError for
    images of another rank without a layout, and what `mdtensor.conv` raises.
    """
    operands = of_one_type((img, flt) if bias is None else (img, flt, bias))
    if layout is None:
        layout = layout_of(len(shape_of(img)), transposed)
    given = dict(zip(("bias",), operands[2:], strict=False))
    return mdtensor_conv(*operands[:2], layout=layout, transposed=transposed, **given, **options)


def operator(what: Plan | Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a plan, or a function that calls mdtensor, as a function of JAX arrays.

    Arrays of NumPy and numbers become JAX's first. Raises ArgumentError for what is no function.
    """
    if not callable(what):
        raise ArgumentError(f"{shown(what)} is no function", hint="a plan, or a function of arrays")

    def computed(*operands: Array) -> Any:
        return what(*[of_one_type((each,))[0] for each in operands])

    computed.__name__ = getattr(what, "__name__", "plan")
    return computed
