"""Operators of all kinds, on tuples too, by every way in which a reduction can be spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cstyle import render
from mdtensor.kernels.opencl import OPENCL
from mdtensor.lower.lowering import lowered
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Operator, Pointwise, named
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.reference import run
from mdtensor.translate.scalar import param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec
from tests.kernels.kernel_cases import cpu, gpu
from tests.lower import fuzz

ROWS, COLUMNS = 5, 53


def largest_with_place() -> Operator:
    """The larger value of two pairs (value, place), of equal ones the first."""
    value, place, other, its_place = (param(n, dt) for n, dt in enumerate(("f4", "i4") * 2))
    better = value < other
    return Operator(
        (value.dtype, place.dtype),
        (select(better, other, value), select(better, its_place, place)),
        (float("-inf"), -1),
        True,
        "argmax",
    )


def composition(*, identity: bool = True) -> Operator:
    """Affine maps x -> a x + b, the left one first: associative, but not commutative."""
    a, b, c, d = (param(n, "i4") for n in range(4))
    neutral = (1, 0) if identity else None
    return Operator((a.dtype, b.dtype), (a * c, b * c + d), neutral, False, "then")


def row_reduction(op: Operator) -> tuple[MDHom, list[np.ndarray]]:
    """Every row of as many matrices as the operator's tuples have elements, and the matrices."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-99, 99, (ROWS, COLUMNS)).astype(dtype) for dtype in op.dtypes]
    if op.name == "argmax":
        arrays[1][...] = np.arange(COLUMNS)
        arrays[0][:, 20] = arrays[0].max(axis=1) + 1
    md_hom = MDHom(
        (Dim("i", ROWS, CC), Dim("j", COLUMNS, Pointwise(op))),
        ScalarFunction(op.dtypes, tuple(param(n, dt) for n, dt in enumerate(op.dtypes)), "id"),
        tuple(BufferSpec(f"I{n}", TensorSpec.of(a.shape, a.dtype)) for n, a in enumerate(arrays)),
        tuple(BufferSpec(f"O{n}", TensorSpec.of((ROWS,), dt)) for n, dt in enumerate(op.dtypes)),
        tuple(
            BufferAccess(n, (AffineIndex.of("i"), AffineIndex.of("j")))
            for n in range(len(op.dtypes))
        ),
        tuple(BufferAccess(n, (AffineIndex.of("i"),)) for n in range(len(op.dtypes))),
    )
    return md_hom, arrays


ORDERED = {
    "one after the other": cpu(2, (1,)),
    "unrolled": cpu(2, (1,), registers=(2, 3)),
    "rows in lanes": cpu(2, (1,), registers=(4, 2), lane=0, width=2),
    "tiles": cpu(2, (1,), tiles=(0, 7)),
    "groups": cpu(2, (1,), parts=(2, 4)),
    "groups of tiles": cpu(2, (1,), parts=(1, 3), tiles=(2, 5), registers=(1, 2)),
    "work-items share rows": gpu(2, (1,), threads=(4, 1), registers=(1, 3)),
}
UNORDERED = {
    "lanes": cpu(2, (1,), registers=(1, 16), lane=1, width=8),
    "lanes of groups": cpu(2, (1,), parts=(1, 2), registers=(1, 8), lane=1, width=4),
    "work-items": gpu(2, (1,), threads=(1, 8), registers=(1, 2)),
    "work-items of groups": gpu(2, (1,), parts=(1, 2), threads=(1, 5), tiles=(0, 10)),
}


def check(op: Operator, schedule: Schedule) -> None:
    md_hom, arrays = row_reduction(op)
    schedule = Schedule(**{**_fields(schedule), "staged": ("",) * len(op.dtypes)})
    nests = lowered(problem_from_md_hom(md_hom), schedule)
    program = fuzz.device().compile(render(nests, OPENCL))
    outputs = [np.full(ROWS, 77, dtype) for dtype in op.dtypes]
    program(*arrays, *outputs)
    for output, expected in zip(outputs, run(md_hom, arrays), strict=True):
        np.testing.assert_array_equal(output, expected)


def _fields(schedule: Schedule) -> dict[str, object]:
    return {name: getattr(schedule, name) for name in Schedule.__dataclass_fields__}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("schedule", ORDERED | UNORDERED)
@pytest.mark.parametrize("name", ["add", "min", "max", "and", "or", "xor", "mul"])
def test_named_operators(name, schedule):
    check(named(name, ["i4"]), (ORDERED | UNORDERED)[schedule])


@pytest.mark.parametrize("schedule", ORDERED | UNORDERED)
@pytest.mark.parametrize("name", ["min", "max"])
def test_extrema_of_floats(name, schedule):
    check(named(name, ["f4"]), (ORDERED | UNORDERED)[schedule])


@pytest.mark.parametrize("schedule", ORDERED | UNORDERED)
def test_pairs_whose_elements_depend_on_each_other(schedule):
    check(largest_with_place(), (ORDERED | UNORDERED)[schedule])


@pytest.mark.parametrize("schedule", ORDERED)
def test_order_is_kept_for_an_operator_that_does_not_commute(schedule):
    check(composition(), ORDERED[schedule])


@pytest.mark.parametrize(
    ("schedule", "what"),
    [("lanes", "lanes"), ("work-items", "work-items"), ("work-items of groups", "work-items")],
)
def test_what_would_change_the_order_is_refused(schedule, what):
    with pytest.raises(LoweringError, match=f"{what} would change the order of an operator"):
        check(composition(), UNORDERED[schedule])


@pytest.mark.parametrize("name", ["add", "max"])
def test_sums_along_two_dims_in_their_order(name):
    op = named(name, ["i4"])
    x = np.random.default_rng(0).integers(-99, 99, (6, 7, 8)).astype("i4")
    md_hom = MDHom(
        (Dim("i", 6, Pointwise(op)), Dim("j", 7, CC), Dim("k", 8, Pointwise(op))),
        ScalarFunction(op.dtypes, (param(0, "i4"),), "id"),
        (BufferSpec("x", TensorSpec.of(x.shape, "i4")),),
        (BufferSpec("y", TensorSpec.of((7,), "i4")),),
        (BufferAccess(0, tuple(map(AffineIndex.of, "ijk"))),),
        (BufferAccess(0, (AffineIndex.of("j"),)),),
    )
    schedule = cpu(3, (0, 2), staged=("",), parts=(2, 1, 2), reduce_order=(2, 0))
    program = fuzz.device().compile(render(lowered(problem_from_md_hom(md_hom), schedule), OPENCL))
    out = np.full(7, 77, "i4")
    program(x, out)
    np.testing.assert_array_equal(out, run(md_hom, [x])[0])


# Without an identity a flag goes with every tuple; no output holds it between tiles.
FLAGGED = ORDERED.keys() - {"tiles"}


@pytest.mark.parametrize("schedule", sorted(FLAGGED))
def test_an_operator_without_identity_keeps_its_order_too(schedule):
    check(composition(identity=False), ORDERED[schedule])


@pytest.mark.parametrize("schedule", sorted(FLAGGED))
def test_the_first_element(schedule):
    dtype = np.dtype("i4")
    check(Operator((dtype,), (param(0, dtype),), None, False, "first"), ORDERED[schedule])


@pytest.mark.parametrize("schedule", sorted(FLAGGED | UNORDERED.keys()))
@pytest.mark.parametrize("name", ["max", "mul"])
def test_an_operator_that_commutes_needs_no_identity(name, schedule):
    check(replace(named(name, ["i4"]), identity=None), (ORDERED | UNORDERED)[schedule])


def test_tiles_of_an_operator_without_identity_are_refused():
    with pytest.raises(
        LoweringError, match=r"which need the types of \['int32', 'int32', 'bool'\]"
    ):
        check(composition(identity=False), ORDERED["tiles"])
