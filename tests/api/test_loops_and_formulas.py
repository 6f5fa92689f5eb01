"""One computation as loops with operators and as formulas: both mean the same to passed arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mdtensor as mdt
from mdtensor.directive import Buffer, cc, combine_ops, fp64, inp, mdh, out, ps, pw
from mdtensor.errors import DTypeError, ShapeError

D = Buffer[fp64]


@mdh(out(y=D), inp(x=D), combine_ops(cc))
def loops(y: Any, x: Any) -> None:
    for i in range(3):
        y[0, 2 * i] = x[i]


@mdh()
def formulas() -> Any:
    return (
        mdt.out_view[fp64](y=[lambda i: (0, 2 * i)]),
        mdt.md_hom[3](lambda x: x, (cc,)),
        mdt.inp_view[fp64](x=[lambda i: i]),
    )


BOTH = pytest.mark.parametrize("program", [loops, formulas])
X = np.arange(3.0)
LAYOUTS = {
    "in order": lambda: np.full((1, 6), 7.0),
    "strides of an axis of one": lambda: np.full((10, 6), 7.0)[::10],
    "every other": lambda: np.full((1, 12), 7.0)[:, ::2],
    "backwards": lambda: np.full((1, 6), 7.0)[:, ::-1],
    "of columns": lambda: np.full((6, 2), 7.0).T[:1],
    "of another byte order": lambda: np.full((1, 6), 7.0).astype(">f8"),
    "unaligned": lambda: np.full(6, 7.0, [("c", "u1"), ("x", "f8")])["x"][None],
}


@BOTH
@pytest.mark.parametrize("layout", LAYOUTS)
def test_elements_that_no_point_writes_stay(program: Any, layout: str, executed: str) -> None:
    for _ in range(3):
        y = LAYOUTS[layout]()
        program(y, X)
        np.testing.assert_array_equal(y, [[0, 7, 1, 7, 2, 7]])


@BOTH
def test_an_output_that_shares_memory_with_an_input(program: Any, executed: str) -> None:
    memory = np.arange(9.0)
    program(memory[:6][None], memory[2:5])
    np.testing.assert_array_equal(memory, [2, 1, 3, 3, 4, 5, 6, 7, 8])


@BOTH
def test_new_outputs_begin_as_zeros(program: Any, executed: str) -> None:
    np.testing.assert_array_equal(program(X), [[0, 0, 1, 0, 2]])


@BOTH
def test_outputs_are_what_was_declared(program: Any) -> None:
    with pytest.raises(
        DTypeError, match=r"^y holds float32, but was declared as Buffer\[float64\]"
    ):
        program(np.zeros((1, 6), "f4"), X)


@BOTH
def test_outputs_whose_elements_share_memory(program: Any) -> None:
    with pytest.raises(ShapeError) as caught:
        program(np.lib.stride_tricks.as_strided(np.zeros(6), (1, 6), (8, 0)), X)
    assert str(caught.value) == (
        "elements of y share memory: shape (1, 6), strides (8, 0) bytes\n"
        "  hint: pass y.copy(), or none"
    )


@dataclass(frozen=True)
class Program:
    """y[a i + b, c j + d] of i < m, j < n takes what `combine` makes along k of x[i, j, k]."""

    extents: tuple[int, int, int]
    factors: tuple[int, int]
    offsets: tuple[int, int]
    shape: tuple[int, int]
    combine: str
    scans: bool

    def loops(self) -> Any:
        (m, n, count), (a, c), (b, d) = self.extents, self.factors, self.offsets
        operators = ps("add") if self.scans else cc, cc, pw(self.combine)

        @mdh(out(y=D), inp(x=D), combine_ops(*operators))
        def program(y: Any, x: Any) -> None:
            for i in range(m):
                for j in range(n):
                    for k in range(count):
                        y[a * i + b, c * j + d] = x[i, j, k]

        return program

    def formulas(self) -> Any:
        (a, c), (b, d) = self.factors, self.offsets
        operators = ps("add") if self.scans else cc, cc, pw(self.combine)

        @mdh()
        def program() -> Any:
            return (
                mdt.out_view[fp64](y=[lambda i, j, k: (a * i + b, c * j + d)]),
                mdt.md_hom[self.extents](lambda x: x, operators),
                mdt.inp_view[fp64](x=[lambda i, j, k: (i, j, k)]),
            )

        return program

    def by_numpy(self, y: np.ndarray, x: np.ndarray) -> None:
        ufunc = {"add": np.add, "max": np.maximum}[self.combine]
        values = ufunc.reduce(x, axis=2)
        values = np.cumsum(values, axis=0) if self.scans else values
        rows = self.factors[0] * np.arange(self.extents[0]) + self.offsets[0]
        columns = self.factors[1] * np.arange(self.extents[1]) + self.offsets[1]
        y[np.ix_(rows, columns)] = values


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, np.ndarray, np.ndarray]:
    extents = draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    factors = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    offsets = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    rows, columns = (
        factor * (extent - 1) + offset + 1 + draw(st.integers(0, 2))
        for factor, extent, offset in zip(factors, extents, offsets, strict=False)
    )
    program = Program(
        extents,
        factors,
        offsets,
        (rows, columns),
        draw(st.sampled_from(["add", "max"])),
        draw(st.booleans()),
    )
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    y = rng.integers(-9, 10, (2 * rows, 2 * columns)).astype("f8")
    if draw(st.booleans()):
        y = np.asfortranarray(y)
    steps = draw(st.sampled_from([1, 2, -1])), draw(st.sampled_from([1, 2, -1]))
    target = y[:: steps[0], :: steps[1]][:rows, :columns]
    return program, target, rng.integers(-9, 10, extents).astype("f8")


@pytest.mark.usefixtures("by_reference")
@given(programs())
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=100,
    deadline=None,
)
def test_programs_that_write_in_part(drawn: tuple[Program, np.ndarray, np.ndarray]) -> None:
    program, y, x = drawn
    before = y.copy()
    expected = y.copy()
    program.by_numpy(expected, x)
    for call in (program.loops(), program.formulas()):
        y[...] = before
        call(y, x)
        np.testing.assert_array_equal(y, expected)
    fresh = np.zeros_like(expected)
    program.by_numpy(fresh, x)
    for call in (program.loops(), program.formulas()):
        new = call(x)
        np.testing.assert_array_equal(new, fresh[: new.shape[0], : new.shape[1]])
        assert not fresh[new.shape[0] :].any()
