"""Texts of the front ends' calls, from options as callers give them."""

from __future__ import annotations

from typing import Any

from mdtensor.api.frameworks.call_text import call_text
from mdtensor.errors import ArgumentError, DTypeError, ShapeError, shown
from mdtensor.options import MOST_AXES, beginning, flag, is_iterable, whole

_DEEPEST = 2  # levels of sequences in an option: pairs, one for each axis

_LAYOUTS = {
    3: "NCW,KCS->NKQ",
    4: "NCHW,KCRS->NKPQ",
    5: "NCDHW,KCTRS->NKZPQ",
}


def einsum_text(equation: Any) -> str:
    """The text of an einsum, whose result lies in C order.

    >>> einsum_text("ij->i")
    '["einsum",["ij->i"],{"order":"C"},false]'
    """
    return call_text("einsum", _word("the equation", equation), order="C")


def reduce_text(subscripts: Any, combine: Any) -> str:
    """The text of a reduction by an operator's name."""
    return call_text("reduce", _word("subscripts", subscripts), combine=_operator(combine))


def scan_text(subscripts: Any, dim: Any, combine: Any, exclusive: Any, reverse: Any) -> str:
    """The text of a scan along one dim by an operator's name."""
    return call_text(
        "scan",
        _word("subscripts", subscripts),
        combine={_word("dim", dim): _operator(combine)},
        exclusive=flag("exclusive", exclusive),
        reverse=flag("reverse", reverse),
    )


def conv_text(*, bias: bool, transposed: Any, **options: Any) -> str:
    """The text of a convolution; options are numbers, sequences of them, or words."""
    plain = {name: _plain(name, value) for name, value in options.items()}
    return call_text("conv", bias=bias, transposed=flag("transposed", transposed), **plain)


def layout_of(rank: int, transposed: Any) -> str:
    """The layout of images of a rank where none is given: channels before the space, as torch's.

    Of transposed convolutions, the filter's channels come first. Raises ShapeError for a rank that
    no image has.

    >>> layout_of(4, False)
    'NCHW,KCRS->NKPQ'
    """
    layout = _LAYOUTS.get(rank)
    if layout is None:
        raise ShapeError(
            f"the image has {rank} axes", hint="3 to 5: batch, channels, and space; or a layout"
        )
    return layout.replace(",KC", ",CK") if flag("transposed", transposed) else layout


def _word(name: str, given: Any) -> str:
    if not isinstance(given, str):
        raise ArgumentError(f"{name} is {shown(given)}", hint="a string")
    return given


def _operator(given: Any) -> str:
    if not isinstance(given, str):
        raise ArgumentError(
            f"combine is {shown(given)}",
            hint="an operator's name; with other operators, make a function an operator",
        )
    return given


def _plain(name: str, given: Any, depth: int = _DEEPEST) -> Any:
    """An option as JSON has it."""
    if isinstance(given, str):
        return given
    if not depth or not is_iterable(given):
        return whole(name, given)
    listed = beginning(given, MOST_AXES)
    if len(listed) > MOST_AXES:
        raise DTypeError(f"{name} has more than {MOST_AXES} numbers", hint="one for each axis")
    return [_plain(name, each, depth - 1) for each in listed]
