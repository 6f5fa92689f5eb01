"""Parameters: what they read, what they print, what they refuse."""

from functools import partial

import pytest

from mdtensor.errors import SpaceError
from mdtensor.lower.schedule.parameter import SpaceParameter, arguments_read, constraint_name


def divides(tile, parts):
    return parts % tile == 0


def at_most(tile, *, limit):
    return tile <= limit


def test_values_are_a_tuple_in_order_without_repetition():
    assert SpaceParameter("tile", [4, 1, 4, 2]).values == (4, 1, 2)
    assert SpaceParameter("tile", range(3)).values_given({}) == (0, 1, 2)


def test_a_parameter_is_a_value():
    assert SpaceParameter("tile", [1, 2], [divides]) == SpaceParameter("tile", (1, 2), (divides,))
    assert len({SpaceParameter("tile", [1, 2]), SpaceParameter("tile", (1, 2))}) == 1


def test_values_may_be_computed_from_earlier_parameters():
    parameter = SpaceParameter("tile", lambda parts: (1, parts, parts))
    assert parameter.reads == ("parts",)
    assert parameter.values_given({"parts": 6, "other": 3}) == (1, 6)


def test_an_argument_with_a_default_is_a_constant():
    assert arguments_read(lambda tile, extent=64: extent % tile == 0) == ("tile",)
    assert arguments_read(partial(at_most, limit=3)) == ("tile",)


def test_a_partial_has_the_name_of_its_function():
    assert constraint_name(partial(partial(at_most, limit=3))) == "at_most"


def test_repr_shows_what_is_read():
    assert repr(SpaceParameter("tile", (1, 2, 4), (divides,))) == (
        "Parameter('tile', {1, 2, 4}, constraints: divides(tile, parts))"
    )


def test_values_that_raise_are_reported_with_their_arguments():
    parameter = SpaceParameter("tile", lambda parts: range(8 // parts))
    with pytest.raises(SpaceError, match=r"values of 'tile' raised: values\(parts=0\): ZeroDiv"):
        parameter.values_given({"parts": 0})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a tile", (1,)), "must be an identifier, not 'a tile'"),
        (("tile", (1,), (lambda tile: True,)), "has no name"),
        (("tile", lambda *all_of_them: (1,)), "names no parameter"),
        (("tile", lambda parts, /: (1,)), "'parts' is positional-only"),
    ],
)
def test_refused(arguments, message):
    with pytest.raises(SpaceError, match=message):
        SpaceParameter(*arguments)
