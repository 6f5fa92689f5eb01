"""Several operators on several dims: the order in which they are applied, against NumPy's own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mdtensor as mdt
from mdtensor.directive import Buffer, cc, combine_ops, fp64, inp, int64, mdh, out, ps, pw
from mdtensor.errors import TranslationError

RNG = np.random.default_rng(15)
POINTS, CENTRES = RNG.normal(size=(11, 3)), RNG.normal(size=(13, 3))
APART = (POINTS[:, None] - CENTRES) ** 2
UFUNCS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def squared(p: Any, c: Any) -> Any:
    return (p - c) * (p - c)


def squared_with_index(p: Any, c: Any, *, j: Any) -> Any:
    return (p - c) * (p - c), j


def by_numpy(
    x: np.ndarray, names: str, combine: dict[str, str], kept: Sequence[str] = ()
) -> np.ndarray:
    """The array with operators applied one after the other; dims that are kept are scanned."""
    for dim, name in combine.items():
        axis = names.index(dim)
        if dim in kept:
            x = UFUNCS[name].accumulate(x, axis, dtype=x.dtype)
            continue
        x = UFUNCS[name].reduce(x, axis, dtype=x.dtype)
        names = names.replace(dim, "")
    return x


# ---- reduce and scan


def test_nearest_neighbours_and_the_hausdorff_distance() -> None:
    nearest = mdt.reduce("id,jd->i", POINTS, CENTRES, f=squared, combine={"d": "add", "j": "min"})
    np.testing.assert_allclose(nearest, APART.sum(axis=2).min(axis=1))
    other = mdt.reduce("id,jd->i", POINTS, CENTRES, f=squared, combine={"j": "min", "d": "add"})
    np.testing.assert_allclose(other, APART.min(axis=1).sum(axis=1))
    farthest = mdt.reduce(
        "id,jd->", POINTS, CENTRES, f=squared, combine={"d": "add", "j": "min", "i": "max"}
    )
    np.testing.assert_allclose(farthest, APART.sum(axis=2).min(axis=1).max())


@pytest.mark.parametrize("dims", list(itertools.permutations("ijk")))
@pytest.mark.parametrize("operators", [("add", "min", "max"), ("xor", "add", "xor")])
def test_every_order(dims: tuple[str, ...], operators: tuple[str, ...]) -> None:
    x = RNG.integers(-50, 50, (4, 7, 5))
    combine = dict(zip(dims, operators, strict=True))
    assert mdt.reduce("ijk->", x, combine=combine) == by_numpy(x, "ijk", combine)
    assert mdt.einsum("ijk->", x, combine=combine) == by_numpy(x, "ijk", combine)


@st.composite
def calls(draw: st.DrawFn) -> tuple[np.ndarray, str, str, dict[str, str]]:
    names = "ijkl"[: draw(st.integers(2, 4))]
    shape = [draw(st.integers(1, 5)) for _ in names]
    x = np.random.default_rng(draw(st.integers(0, 99))).integers(-9, 10, shape)
    dims = draw(st.permutations(names))
    combined = dims[: draw(st.integers(2, len(names)))]
    combine = {dim: draw(st.sampled_from(list(UFUNCS))) for dim in combined}
    scanned = [dim for dim in combined if draw(st.integers(0, 3)) == 0]
    output = "".join(dim for dim in names if dim in scanned or dim not in combined)
    return x, names, output, combine


@pytest.mark.usefixtures("by_reference")
@given(calls())
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=200,
    deadline=None,
)
def test_any_operators_in_any_order(call: tuple[np.ndarray, str, str, dict[str, str]]) -> None:
    x, names, output, combine = call
    expected = by_numpy(x, names, combine, output)
    result = mdt.scan(f"{names}->{output}", x, combine=combine) if output else None
    if result is not None:
        np.testing.assert_array_equal(result, expected)
    said = {dim: ps(name) if dim in output else name for dim, name in combine.items()}
    result = mdt.reduce(f"{names}->{output}", x, combine=said)
    np.testing.assert_array_equal(result, expected)


def test_an_operator_that_does_not_commute_goes_through_dims_as_a_dict_says(
    executed: str,
) -> None:
    x = RNG.integers(1, 5, (3, 4, 2))

    def composed(lhs: Any, rhs: Any) -> Any:
        return lhs[0] * rhs[0], lhs[1] * rhs[0] + rhs[1]

    def folded(values: np.ndarray) -> tuple[int, int]:
        factor, term = 1, 0
        for a, b in values.reshape(-1, 2):
            factor, term = factor * a, term * a + b
        return int(factor), int(term)

    def f(a: Any, b: Any) -> Any:
        return a, b

    for combine, order in (
        (composed, (0, 1, 2)),
        ({"j": composed, "i": composed}, (0, 1, 2)),
        ({"i": composed, "j": composed}, (1, 0, 2)),
    ):
        result = mdt.reduce("ij,ij->", x[..., 0], x[..., 1], f=f, combine=combine)
        assert tuple(map(int, result)) == folded(x.transpose(order))


# ---- positions


def test_a_sum_before_an_argmin_is_one_of_values(executed: str) -> None:
    sums = APART.sum(axis=2)
    combine = {"d": "add", "j": "argmin"}
    values, found = mdt.reduce("id,jd->i", POINTS, CENTRES, f=squared_with_index, combine=combine)
    np.testing.assert_allclose(values, sums.min(axis=1))
    np.testing.assert_array_equal(found, sums.argmin(axis=1))
    found = mdt.reduce("id,jd->i", POINTS, CENTRES, combine=combine)
    np.testing.assert_array_equal(found, (POINTS @ CENTRES.T).argmin(axis=1))
    small = mdt.reduce("id,jd->", POINTS[:0], CENTRES, combine={"d": "add", "j": "max", "i": "add"})
    assert small == 0


def test_labels_that_are_read_stay_what_they_are() -> None:
    labels = RNG.permutation(100)[:13]
    values, found = mdt.reduce(
        "id,jd,j->i",
        POINTS,
        CENTRES,
        labels,
        f=lambda p, c, label: ((p - c) * (p - c), label),
        combine={"d": "add", "j": "argmax"},
    )
    np.testing.assert_allclose(values, APART.sum(axis=2).max(axis=1))
    np.testing.assert_array_equal(found, labels[APART.sum(axis=2).argmax(axis=1)])


def test_operators_of_values_that_indices_have_no_room_for() -> None:
    x = RNG.normal(size=(5, 6, 7))
    found = mdt.reduce("ijk->i", x, combine={"k": "logaddexp", "j": "argmax"})
    np.testing.assert_array_equal(found, np.logaddexp.reduce(x, axis=2).argmax(axis=1))
    found = mdt.reduce("ijk->i", x, combine={"k": lambda a, b: a * b, "j": "argmax"})
    np.testing.assert_array_equal(found, x.prod(axis=2).argmax(axis=1))
    is_large = x > 0
    found = mdt.reduce("ijk->i", is_large, combine={"k": "add", "j": "argmax"})
    np.testing.assert_array_equal(found, is_large.sum(axis=2).argmax(axis=1))


@pytest.mark.parametrize("order", list(itertools.permutations("ijk")))
def test_the_position_of_extremes_of_extremes(order: tuple[str, ...], executed: str) -> None:
    x = RNG.integers(0, 3, (4, 3, 5))
    names = ("argmin", "argmax", "argmin")
    found = mdt.reduce("ijk->", x, combine=dict(zip(order, names, strict=True)))
    rest, left = x, "ijk"
    chosen: dict[str, np.ndarray] = {}
    for dim, name in zip(order, names, strict=True):
        axis = left.index(dim)
        best = np.expand_dims(getattr(np, name)(rest, axis), axis)
        chosen = {d: np.take_along_axis(places, best, axis) for d, places in chosen.items()}
        chosen[dim] = best
        rest = np.take_along_axis(rest, best, axis)
    place = [chosen[dim].item() for dim in "ijk"]
    assert found == np.ravel_multi_index(place, x.shape)


# ---- loops and formulas, whose dims have an order: the last one is combined first


def _loops(*operators: Any) -> Any:
    D = Buffer[fp64]

    @mdh(out(d=D, at=Buffer[int64]), inp(p=D, c=D), combine_ops(cc, *operators))
    def nearest(d: Any, at: Any, p: Any, c: Any) -> None:
        for i in range(len(p)):
            for j in range(len(c)):
                for k in range(3):
                    d[i], at[i] = (p[i, k] - c[j, k]) * (p[i, k] - c[j, k]), j

    return nearest


def test_loops_have_the_order_of_their_nest() -> None:
    values, found = _loops(pw("argmin"), pw("add"))(POINTS, CENTRES)
    np.testing.assert_allclose(values, APART.sum(axis=2).min(axis=1))
    np.testing.assert_array_equal(found, APART.sum(axis=2).argmin(axis=1))


def test_loops_sum_no_positions() -> None:
    with pytest.raises(TranslationError) as caught:
        _loops(pw("add"), pw("argmin"))(POINTS, CENTRES)
    assert str(caught.value) == (
        "'add' along 'j' is applied after 'argmin' along 'k', and would combine the positions"
        " that it finds\n"
        "  hint: apply 'add' before it, as {'j': 'add', 'k': 'argmin'} does, or combine 'k' by"
        " 'min', which gives values alone"
    )


def test_formulas_have_the_order_of_their_sizes() -> None:
    @mdh()
    def nearest() -> Any:
        return (
            mdt.out_view[fp64](d=[lambda i, j, k: i]),
            mdt.md_hom[11, 13, 3](squared, (cc, pw("min"), pw("add"))),
            mdt.inp_view[fp64, fp64](p=[lambda i, j, k: (i, k)], c=[lambda i, j, k: (j, k)]),
        )

    np.testing.assert_allclose(nearest(POINTS, CENTRES), APART.sum(axis=2).min(axis=1))
