"""Elementary functions in LLVM IR against NumPy's longest floats, in units in the last place."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from mdtensor.backends.host.hardware import cpu_flags
from mdtensor.backends.llvm.jit_compiler import JitCompiler
from mdtensor.kernels.llvm.elementary_functions import ELEMENTARY
from mdtensor.kernels.llvm.float_lanes import Lanes
from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.llvm_types import type_of

COUNT = 1 << 14
DTYPES = {"f4": np.dtype("f4"), "f8": np.dtype("f8")}
BOUNDS = dict.fromkeys(ELEMENTARY, 1.5) | {"log": 1.0}  # units in the last place
OF_TWO = ("pow",)
OF_ONE = tuple(name for name in ELEMENTARY if name not in OF_TWO)
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0)
_jit = cache(JitCompiler)


SCALES = [False, True] if {"avx512f", "avx512vl"} <= cpu_flags() else [False]


def module_of(name: str, dtype: str, lanes: int, scales: bool) -> str:
    """`apply`, a function of the addresses of two arguments and results, and how many vectors."""
    builder, kind = FunctionBuilder(), type_of(DTYPES[dtype], lanes)
    given = ("%x", "%y") if name in OF_TWO else ("%x",)
    result = ELEMENTARY[name](Lanes(builder, DTYPES[dtype], lanes, scales), *given)
    entry, lines = ("\n".join(each) for each in (builder.entry, builder.lines))
    return f"""
define void @apply(ptr %from, ptr %with, ptr %to, i64 %count) {{
entry:
{entry}
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %m, %end ]
  %a = getelementptr {kind}, ptr %from, i64 %n
  %b = getelementptr {kind}, ptr %to, i64 %n
  %c = getelementptr {kind}, ptr %with, i64 %n
  %x = load {kind}, ptr %a, align 4
  %y = load {kind}, ptr %c, align 4
{lines}
  store {kind} {result}, ptr %b, align 4
  br label %end
end:
  %m = add i64 %n, 1
  %more = icmp ult i64 %m, %count
  br i1 %more, label %next, label %done
done:
  ret void
}}
{chr(10).join(builder.declared.values())}
"""


@cache
def compiled(
    name: str, dtype: str, lanes: int, scales: bool
) -> tuple[Callable[[int, int, int, int], None], Any]:
    """The compiled `apply`, and what keeps it in memory."""
    text = module_of(name, dtype, lanes, scales)
    (address,), library = _jit().addresses(_jit().object_code(text), ["apply"])
    words = *(ctypes.c_void_p,) * 3, ctypes.c_int64
    return ctypes.CFUNCTYPE(None, *words)(address), library


def applied(
    name: str, x: np.ndarray, lanes: int, *, scales: bool = False, y: np.ndarray | None = None
) -> np.ndarray:
    y = x if y is None else y
    function, _ = compiled(name, x.dtype.str[1:], lanes, scales)
    result = np.empty_like(x)
    function(x.ctypes.data, y.ctypes.data, result.ctypes.data, len(x) // lanes)
    return result


def arguments(name: str, dtype: str) -> np.ndarray:
    """Numbers of all sizes, and many where results are neither 0, 1 nor infinite."""
    rng, facts, many = np.random.default_rng(0), np.finfo(dtype), COUNT // 2
    most = float(np.log(facts.max))
    near = {
        "exp": rng.uniform(-1.2 * most, 1.1 * most, many),
        **dict.fromkeys(("log", "log2", "log10"), rng.uniform(0.4, 2.5, many)),
        "log1p": rng.uniform(-0.9, 2.5, many),
        "sin": rng.normal(0, 50, many),
        "cos": np.rint(rng.normal(0, 50, many)) * (np.pi / 2),
    }.get(name, rng.normal(0, 2, many))
    logs = rng.uniform(np.log2(float(facts.smallest_subnormal)), facts.maxexp, COUNT // 2)
    sizes = np.exp2(logs.astype("longdouble")) * (
        1 if name in ("log", "log2", "log10") else rng.choice((-1, 1), COUNT // 2)
    )
    x = np.concatenate([near, sizes]).astype(dtype)
    x[: len(SPECIAL)] = SPECIAL
    x[len(SPECIAL) : len(SPECIAL) + 2] = facts.smallest_subnormal, facts.max
    return x


def exact_erf(x: np.ndarray) -> np.ndarray:
    """The error function by its series of terms that have one sign."""
    size = np.minimum(np.abs(x), 7)
    term = total = size
    for n in range(1, 300):
        term = term * size * size * 2 / (2 * n + 1)
        total = total + term
    two_by_root = np.longdouble("1.12837916709551257389615890312154517")
    result = np.copysign(two_by_root * np.exp(-size * size) * total, x)
    return np.where(np.abs(x) >= 7, np.sign(x), result)


EXACT = {"erf": exact_erf}


def errors(name: str, x: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Distances from exact values, in the spacing of floats there."""
    with np.errstate(all="ignore"):
        exact = EXACT.get(name, getattr(np, name, None))(x.astype("longdouble"))
        rounded = exact.astype(x.dtype)
        ulp = np.abs(found - exact) / np.spacing(np.abs(rounded)).astype(exact.dtype)
        return np.where((found == rounded) | (np.isnan(found) & np.isnan(rounded)), 0, ulp)


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_ONE)
def test_errors_are_below_the_bounds_that_are_stated(
    name: str, dtype: str, lanes: int, scales: bool
) -> None:
    x = arguments(name, dtype)
    found = errors(name, x, applied(name, x, lanes, scales=scales))
    worst = int(np.argmax(np.where(np.isnan(found), np.inf, found)))
    assert found[worst] < BOUNDS[name], (x[worst], found[worst])


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_ONE)
def test_what_is_special_is_as_in_c(name: str, dtype: str, scales: bool) -> None:
    x = np.array([*SPECIAL, 0.0], dtype)
    with np.errstate(all="ignore"):
        expected = EXACT.get(name, getattr(np, name, None))(x)
    found = applied(name, x, 4, scales=scales)
    np.testing.assert_array_equal(found[:5], expected[:5])
    if expected[0] == 0:
        np.testing.assert_array_equal(np.signbit(found[:2]), [False, True])


@pytest.mark.parametrize("lanes", [1, 8, 16])
@pytest.mark.parametrize("dtype", DTYPES)
def test_powers(dtype: str, lanes: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 30, COUNT).astype(dtype)
    y = rng.uniform(-25, 25, COUNT).astype(dtype)
    x[::4], y[::4] = rng.uniform(-3, 3, COUNT // 4), rng.integers(-9, 10, COUNT // 4)
    edges = np.array([*SPECIAL, 0.5, -0.5, 2, -2, 3, -3, 1e30, -1e30], dtype)
    pairs = np.array(np.meshgrid(edges, edges)).reshape(2, -1)
    x[: pairs.shape[1]], y[: pairs.shape[1]] = pairs
    found = applied("pow", x, lanes, y=y)
    with np.errstate(all="ignore"):
        exact = x.astype("longdouble") ** y.astype("longdouble")
        due = exact.astype(dtype)
        ulp = np.abs(found - exact) / np.spacing(np.abs(due)).astype("longdouble")
    is_same = (found == due) & (np.signbit(found) == np.signbit(due))
    is_same |= np.isnan(found) & np.isnan(due)
    assert np.where(is_same, 0, ulp).max() < 1.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_logarithms_are_exact(dtype: str) -> None:
    powers = np.arange(-20, 20).astype(dtype)
    np.testing.assert_array_equal(applied("log2", np.exp2(powers), 4), powers)
    whole = np.arange(8).astype(dtype)
    np.testing.assert_array_equal(applied("log10", 10**whole, 4), whole)


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_ONE)
def test_lanes_do_not_change_results(name: str, dtype: str, scales: bool) -> None:
    x = arguments(name, dtype)
    one = applied(name, x, 1, scales=scales)
    for lanes in (2, 4, 8, 16, 32):
        np.testing.assert_array_equal(one, applied(name, x, lanes, scales=scales))
