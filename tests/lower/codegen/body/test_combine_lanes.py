"""Lanes of points that are combined together, run on arrays."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from mdtensor.lower.codegen.body.combine_lanes import combined_lanes
from mdtensor.lower.ir.statements import Let, Statement
from mdtensor.lower.ir.values import Calc, Ref, Shuffle, Slice, Value
from mdtensor.translate.combine import Operator, named
from mdtensor.translate.scalar import param, select

F32, I64 = np.dtype("f4"), np.dtype("i8")


def value_of(value: Value, values: dict[str, np.ndarray]) -> np.ndarray:
    match value:
        case Ref(label):
            return values[label]
        case Shuffle(one, other, chosen):
            return np.concatenate([values[one.name], values[other.name]])[list(chosen)]
        case Slice(inner, start, lanes):
            return value_of(inner, values)[start : start + lanes]
        case Calc(op, args):
            given = [value_of(arg, values) for arg in args]
            return {"add": np.add, "gt": np.greater, "select": np.where}[op](*given)
    raise AssertionError(value)


def run(statements: list[Statement], values: dict[str, np.ndarray]) -> None:
    for statement in statements:
        assert isinstance(statement, Let)
        assert statement.ref.name not in values, "declared twice"
        found = value_of(statement.value, values)
        assert found.shape == (statement.ref.lanes,)
        values[statement.ref.name] = found


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 16, 28])
def test_each_point_has_the_sum_of_its_own_lanes(count, lanes):
    points = [(Ref(f"a{n}", F32, lanes),) for n in range(count)]
    drawn = np.random.default_rng(count).integers(-99, 99, (count, lanes)).astype(F32)
    values = {f"a{n}": row for n, row in enumerate(drawn)}
    statements: list[Statement] = []
    found = combined_lanes(named("add", [F32]), points, statements)
    run(statements, values)
    sums = [values[ref.name] for (ref,) in found]
    np.testing.assert_array_equal(np.reshape(sums, count), drawn.sum(axis=1))


def test_tuples_stay_together_whatever_their_types_are():
    later = param(2, F32) > param(0, F32)
    greatest = Operator(
        (F32, I64),
        (
            select(later, param(2, F32), param(0, F32)),
            select(later, param(3, I64), param(1, I64)),
        ),
        None,
    )
    drawn = np.random.default_rng(0).permutation(6 * 8).reshape(6, 8).astype(F32)
    points = [(Ref(f"v{n}", F32, 8), Ref(f"i{n}", I64, 8)) for n in range(6)]
    values = {f"v{n}": row for n, row in enumerate(drawn)}
    values |= {f"i{n}": np.arange(8) for n in range(6)}
    statements: list[Statement] = []
    found = combined_lanes(greatest, points, statements)
    run(statements, values)
    best = [(values[v.name][0], values[i.name][0]) for v, i in found]
    expected = [reduce(max, zip(row, range(8), strict=True)) for row in drawn]
    assert best == expected


def test_several_points_take_fewer_steps_than_each_alone():
    def operations(count: int) -> int:
        statements: list[Statement] = []
        points = [(Ref(f"a{n}", F32, 16),) for n in range(count)]
        combined_lanes(named("add", [F32]), points, statements)
        return sum(isinstance(s, Let) and isinstance(s.value, Calc) for s in statements)

    assert operations(1) == 4
    assert operations(16) == 15
    assert operations(4) == 5
