from __future__ import annotations

import re

import numpy as np
import pytest

from mdtensor.errors import ShapeError, TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.stencils.md_hom_from_stencil import Stencil
from mdtensor.translate.stencils.stencil_from_function import stencil_from_function
from mdtensor.translate.views import AffineIndex, BufferAccess


def traced(function: object, *arguments: object) -> Stencil:
    return stencil_from_function(
        function,  # type: ignore[arg-type]
        [TensorSpec.of(a.shape, a.dtype) if isinstance(a, np.ndarray) else a for a in arguments],
    )


def test_elements_that_are_not_used_are_not_read() -> None:
    def function(u: object) -> object:
        _ = u[-3, 0]
        return u[0, 1] + u[0, 1] * 2

    stencil = traced(function, np.zeros((4, 5), np.float32))
    assert stencil.reach == ((0, 0), (0, 1))
    assert stencil.reads == (BufferAccess(0, (AffineIndex(), AffineIndex.of(offset=1))),)
    assert stencil.written_dtypes == (np.float32,)


@pytest.mark.parametrize(
    ("function", "shape", "message", "hint"),
    [
        (
            lambda u: u[0],
            (3, 3),
            "a stencil reads at 1 indices from an array of 2 axes",
            "u[0, 0] is the point itself",
        ),
        (
            lambda u: u[1:],
            (3,),
            "a stencil reads at slice(1, None, None), which is no relative index",
            "whole numbers, one for each axis: u[-1, 0] is the element above the point",
        ),
        (
            lambda u: np.sqrt(u) + 1,
            (3,),
            "a stencil uses an array instead of an element of it: operation 'sqrt'",
            "u[0] is the point itself",
        ),
        (
            lambda u: u,
            (3,),
            "a stencil returns an array of the stencil: float32[3]",
            "return an expression of elements such as u[0, 0], or a tuple of several",
        ),
    ],
)
def test_wrong_functions(function: object, shape: tuple[int, ...], message: str, hint: str) -> None:
    with pytest.raises(TranslationError) as caught:
        traced(function, np.zeros(shape, np.float32))
    assert caught.value.message == message
    assert caught.value.hint == hint


def test_errors_show_the_line() -> None:
    def function(u: object) -> object:
        return u[0] + u[0.5]

    with pytest.raises(TranslationError) as caught:
        traced(function, np.zeros(3))
    text = re.sub(r"/.*:\d+", "FILE:LINE", str(caught.value))
    assert text == (
        "a stencil reads at 0.5, which is no relative index\n"
        "  return u[0] + u[0.5]\n"
        "                ^\n"
        "  FILE:LINE, in function\n"
        "  hint: whole numbers, one for each axis: u[-1, 0] is the element above the point"
    )


def test_wrong_shapes() -> None:
    with pytest.raises(ShapeError) as caught:
        traced(lambda u, v: u[0] + v[0], np.zeros(3), np.zeros(4))
    assert str(caught.value) == (
        "the arrays of a stencil have shapes (3,), (4,)\n"
        "  hint: all have one shape; np.broadcast_to stretches the smaller ones"
    )
    with pytest.raises(ShapeError, match=r"^a stencil needs an array with at least one axis$"):
        traced(lambda u: u, 3)
