"""Functions that were decorated go to other processes by their names, as plain ones do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt


@mdt.stencil(border="nearest")
def blurred(u: Any) -> Any:
    return (u[-1] + u[0] + u[1]) / 3


@mdt.operator(identity=0, commutative=True)
def plus(lhs: Any, rhs: Any) -> Any:
    return lhs + rhs


@mdt.mdh
def doubled(w: Any, v: Any) -> None:
    for i in range(v.shape[0]):
        w[i] = 2 * v[i]


def tripled_at(u: Any) -> Any:
    return 3 * u[0]


tripled = mdt.stencil(tripled_at, border="nearest")

V = np.linspace(0, 1, 9)


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("decorated", [blurred, plus, doubled], ids=["stencil", "operator", "mdh"])
@pytest.mark.parametrize("copied", [through_pickle, copy.copy, copy.deepcopy])
def test_a_copy_is_what_the_name_means(decorated: Any, copied: Callable[[Any], Any]) -> None:
    assert copied(decorated) is decorated


def test_what_has_another_name_than_its_function_is_a_copy() -> None:
    again = through_pickle(tripled)
    assert again is not tripled
    np.testing.assert_array_equal(again(V), tripled(V))


def test_what_is_made_inside_of_functions_stays_in_its_process() -> None:
    @mdt.operator(identity=0)
    def local(lhs: Any, rhs: Any) -> Any:
        return lhs + rhs

    with pytest.raises((AttributeError, pickle.PicklingError), match="local"):
        pickle.dumps(local)


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(lambda: mdt.compile(blurred, V), id="stencil"),
        pytest.param(lambda: mdt.compile(mdt.reduce, "i->", V, combine=plus), id="operator"),
    ],
)
def test_plans_of_what_is_decorated_go_along(plan: Callable[[], Any]) -> None:
    made = plan()
    np.testing.assert_array_equal(through_pickle(made)(V), made(V))
