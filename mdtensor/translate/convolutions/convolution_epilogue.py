"""Epilogues of convolutions: a bias, and a function of the result and other operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import ShapeError, TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.convolutions.convolution_layout import ConvolutionLayout
from mdtensor.translate.convolutions.md_hom_from_convolution import Convolution, ConvolutionOperand
from mdtensor.translate.python.expr_from_function import scalar_function
from mdtensor.translate.scalar import Expr, cast, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import substitute
from mdtensor.translate.views import AffineIndex


@dataclass(frozen=True, slots=True)
class Added:
    """The epilogue of a convolution: at most one bias, and a function with its operands.

    `dtype` and `accumulated` are the types that were asked for, of the result and of the sums.
    """

    biases: Sequence[TensorSpec]
    operands: Sequence[TensorSpec]
    epilogue: Callable[..., Any] | None
    dtype: np.dtype | None
    accumulated: np.dtype | None


def finished(layout: ConvolutionLayout, convolution: Convolution, added: Added) -> Convolution:
    """Attach a bias, if there is a spec for one, and an epilogue to a convolution.

    Raises ShapeError where a bias or an operand does not fit the result, TranslationError where the
    epilogue returns several values.
    """
    epilogue = added.epilogue
    if not added.biases and epilogue is None:
        return convolution
    spec, accumulated = convolution.result.spec, convolution.accumulated
    if epilogue is not None and added.accumulated is None and spec.dtype.kind in "iu":
        # The epilogue gets what integers of this width wrap around to.
        accumulated = spec.dtype
    specs = (*added.biases, *added.operands)
    elements = [param(n, given.dtype) for n, given in enumerate(specs, start=1)]
    value = param(0, accumulated)
    for bias in elements[: len(added.biases)]:
        value = value + cast(bias, accumulated)
    if epilogue is not None:
        others = [given.dtype for given in added.operands]
        natural = added.dtype or _element(epilogue, [spec.dtype, *others]).dtype
        spec = TensorSpec.of(spec.shape, natural)
        taken = _element(epilogue, [accumulated, *others])
        value = substitute(taken, [value, *elements[len(added.biases) :]])
    types = (accumulated, *(given.dtype for given in specs))
    return replace(
        convolution,
        result=replace(convolution.result, spec=spec),
        accumulated=accumulated,
        finish=ScalarFunction(types, (value,), "bias" if epilogue is None else "epilogue"),
        extras=(
            *(_bias(layout, convolution, bias) for bias in added.biases),
            *(_beside(convolution, given, n) for n, given in enumerate(added.operands, start=2)),
        ),
    )


def _element(epilogue: Callable[..., Any], dtypes: Sequence[np.dtype]) -> Expr:
    """The expression of an epilogue on elements of the given types."""
    results = scalar_function(epilogue, dtypes).results
    if len(results) != 1:
        raise TranslationError(
            f"the epilogue of a convolution returns {len(results)} values",
            hint="return one, or call `reduce`, which has several results",
        )
    return results[0]


def _bias(
    layout: ConvolutionLayout, convolution: Convolution, bias: TensorSpec
) -> ConvolutionOperand:
    if "K" not in layout.result:
        raise ShapeError("a bias needs an axis K in the result")
    axis = layout.result.index("K")
    extent = convolution.result.spec.shape[axis]
    if bias.shape != (extent,):
        raise ShapeError(f"the bias has shape {bias.shape} but the result {extent} in K")
    return ConvolutionOperand(bias, (convolution.result.index[axis],))


def _beside(convolution: Convolution, given: TensorSpec, number: int) -> ConvolutionOperand:
    """An epilogue's operand, broadcast to the result and read at its index."""
    shape = convolution.result.spec.shape
    first = len(shape) - len(given.shape)
    if first < 0 or any(
        have not in (1, want) for have, want in zip(given.shape, shape[first:], strict=True)
    ):
        raise ShapeError(
            f"operand {number} of the epilogue has shape {given.shape} but the result {shape}",
            hint="its axes are those of the result, or of extent 1",
        )
    terms = convolution.result.index[first:]
    return ConvolutionOperand(
        given,
        tuple(
            AffineIndex() if have < want else term
            for have, want, term in zip(given.shape, shape[first:], terms, strict=True)
        ),
    )
