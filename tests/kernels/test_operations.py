"""Every operation of scalar functions on a device: it compiles, and means what the oracle says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mdtensor.kernels.cstyle import render
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.opencl import OPENCL
from mdtensor.lower.lowering import lowered
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.operations import OPERATIONS
from mdtensor.translate.reference import run
from mdtensor.translate.scalar import Expr, apply, const, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec
from tests.kernels.kernel_cases import cpu, gpu
from tests.kernels.nvrtc_compiler import compiled
from tests.lower import fuzz

COUNT = 53
FLOATS, INTS = ("f2", "f4", "f8"), ("i4", "i8", "u1", "i1", "u4", "i2", "u8")
ON_INTS = (
    *("add", "sub", "mul", "neg", "abs", "sign", "min", "max", "fmin", "fmax"),
    *("mod", "floordiv", "fmod", "and", "or", "xor", "lshift", "rshift", "invert"),
    *("lt", "le", "gt", "ge", "eq", "ne", "not"),
)
ON_FLOATS = tuple(
    name
    for name, operation in OPERATIONS.items()
    if name
    not in ("and", "or", "xor", "lshift", "rshift", "invert", "select", "real", "imag", "conj")
)
# ULPs of float32 that OpenCL C allows (section 7.4 of its specification), where more than four.
ULPS = {
    "pow": 16,
    "logaddexp": 16,
    "erf": 16,
    "erfc": 16,
    "tan": 5,
    "tanh": 5,
    "atan2": 6,
    "mod": 8,
}
SCHEDULES = {
    "scalar": cpu(1, ()),
    "4 lanes": cpu(1, (), registers=(8,), lane=0, width=4),
    "16 lanes": cpu(1, (), registers=(16,), lane=0, width=16),
}


def expressions(names: tuple[str, ...], dtype: str) -> list[Expr]:
    a, b = param(0, dtype), param(1, dtype)
    return [apply(name, *(a, b)[: OPERATIONS[name].arity]) for name in names]


def element_wise(results: list[Expr], dtype: str) -> MDHom:
    """One buffer for each result."""
    index = (AffineIndex.of("i"),)
    return MDHom(
        (Dim("i", COUNT, CC),),
        ScalarFunction((np.dtype(dtype),) * 2, tuple(results), "operations"),
        tuple(BufferSpec(name, TensorSpec.of((COUNT,), dtype)) for name in "ab"),
        tuple(BufferSpec(f"o{n}", TensorSpec.of((COUNT,), e.dtype)) for n, e in enumerate(results)),
        (BufferAccess(0, index), BufferAccess(1, index)),
        tuple(BufferAccess(n, index) for n in range(len(results))),
    )


def operands(dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        special = [0, 1, -1, 2.5, -2.5, 0.5, math.inf, -math.inf, math.nan]
        pairs = [(x, y) for x in special for y in special][::2]
        x, y = rng.uniform(-4, 4, (2, COUNT)).astype(dtype)
        x[: len(pairs)], y[: len(pairs)] = np.array(pairs, dtype).T
        x[-10:], y[-10:] = rng.uniform(-1, 1, (2, 10)).astype(dtype)
        return [x, y]
    limits = np.iinfo(kind)
    x, y = rng.integers(max(limits.min, -70), 70, (2, COUNT)).astype(dtype)
    x[:8] = [limits.min, limits.min, limits.max, 0, 5, limits.max, 7, limits.min]
    y[:8] = np.array([-1, 0, 1, 0, 0, 3, -3, 3]).astype(dtype)
    return [x, y]


def outputs_of(md_hom: MDHom, arrays: list[np.ndarray], schedule: Schedule) -> list[np.ndarray]:
    schedule = Schedule(
        **{
            **{name: getattr(schedule, name) for name in Schedule.__dataclass_fields__},
            "staged": ("", ""),
        }
    )
    program = fuzz.device().compile(render(lowered(problem_from_md_hom(md_hom), schedule), OPENCL))
    outputs = [np.zeros(COUNT, buffer.spec.dtype) for buffer in md_hom.outputs]
    program(*arrays, *outputs)
    return outputs


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats(dtype, schedule):
    md_hom, arrays = element_wise(expressions(ON_FLOATS, dtype), dtype), operands(dtype)
    results = outputs_of(md_hom, arrays, SCHEDULES[schedule])
    for name, result, expected in zip(ON_FLOATS, results, run(md_hom, arrays), strict=True):
        close(name, result, expected)


def close(name: str, result: np.ndarray, expected: np.ndarray) -> None:
    if result.dtype.kind != "f":
        assert_array_equal(result, expected, name)
        return
    eps = np.finfo(result.dtype).eps
    tolerance = ULPS.get(name, 4) * eps
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            result, expected.astype(result.dtype), tolerance, tolerance, err_msg=name
        )


@pytest.mark.sampled(8)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", INTS)
def test_integers(dtype, schedule):
    results = expressions(ON_INTS, dtype)
    a = param(0, dtype)
    results += [a % 3, a // 3, a >> 2, a << 1, a << 70, a**3]
    md_hom, arrays = element_wise(results, dtype), operands(dtype)
    outputs = outputs_of(md_hom, arrays, SCHEDULES[schedule])
    for expr, output, expected in zip(results, outputs, run(md_hom, arrays), strict=True):
        assert_array_equal(output, expected, repr(expr))


def conditions() -> list[Expr]:
    a, b = param(0, "f4"), param(1, "f4")
    wide = a.astype("f8")
    less, finite = a < b, np.isfinite(a)
    return [
        select(less & finite, a, 2.0),
        select(~less | (wide < 1), wide, 0),
        select(less ^ finite, const(1, "i8"), 0),
        select(select(less, finite, a > 1), const(1, "i1"), 0),
        select(less, finite, a > 1),
        (less & ~finite) | (wide > b.astype("f8")),
        np.logical_and(a, b),
        (less * 1),
        np.where(less, np.where(a > 1, a, b), np.where(b > 1, 1.0, a)),
    ]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_conditions(schedule):
    md_hom, arrays = element_wise(conditions(), "f4"), operands("f4")
    outputs = outputs_of(md_hom, arrays, SCHEDULES[schedule])
    for expr, output, expected in zip(conditions(), outputs, run(md_hom, arrays), strict=True):
        assert_array_equal(output, expected, repr(expr))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1", "i1", "i2"])
def test_cuda_compiles(dtype):
    results = expressions(ON_FLOATS if dtype in FLOATS else ON_INTS, dtype)
    results += conditions() if dtype == "f4" else []
    schedule = gpu(1, (), staged=("", ""), threads=(32,))
    text = render(lowered(problem_from_md_hom(element_wise(results, dtype)), schedule), CUDA).text
    assert ".entry kernel_0(" in compiled(text, "sm_80")
