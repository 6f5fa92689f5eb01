"""Cost model of NumPy's functions: seconds per element, on whole arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib.introspect import opt_func_info

from mdtensor.evaluator.batched_matmul import held
from mdtensor.translate.graphs import in_order
from mdtensor.translate.operations import LONG_FUNCTIONS
from mdtensor.translate.scalar import Expr

# Seconds of a function of NumPy on one element: of arithmetic; of one that takes many instructions;
# of one with SIMD loops for float32, and for float64 as well where these are AVX-512's; of a call.
SIMPLE, LONG, BY_SIMD, CALL = 0.45e-9, 12e-9, 1.5e-9, 5e-6
WITH_SIMD = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh")
WITHOUT_AVX512 = ("acos", "acosh", "asin", "atanh", "cos", "sin")
OTHERS: Mapping[str, float] = {
    "select": 4e-9,
    "floordiv": 18e-9,
    "fmod": 12e-9,
    "hypot": 9e-9,
    "mod": 9e-9,
    "logaddexp": 28e-9,
    "erf": 110e-9,
    "erfc": 110e-9,
}
# Of `accumulate`, where an element waits for the one before; of `reduce` on each line of elements
# along the innermost axis; of the copy of a window, and of the conversion of a float of 16 bits.
IN_TURN, LINE, COPIED, CONVERTED = 8e-9, 30e-9, 2e-9, 4e-9
# Seconds of a multiplication and addition in `matmul`, by the types for which BLAS has one.
BY_BLAS: Mapping[str, float] = {"f": 0.03e-9, "d": 0.06e-9, "F": 0.12e-9, "D": 0.24e-9}
WITHOUT_BLAS = 2e-9


def seconds_of(
    results: Sequence[Expr], given: Sequence[Sequence[str]], extents: Mapping[str, int]
) -> float:
    """Estimated seconds to evaluate expressions by NumPy, each node over the dims that it uses."""
    dims: dict[int, frozenset[str]] = {}
    total = 0.0
    for node in in_order(results):
        below = [dims[id(arg)] for arg in node.args]
        if node.op == "param":
            below = [frozenset(given[node.number])]
        elif node.op == "index":
            below = [frozenset([str(node.value)])]
        dims[id(node)] = frozenset[str]().union(*below)
        each = seconds_of_node(node) if node.args else seconds_to_convert(node.dtype)
        total += each * math.prod([extents[name] for name in dims[id(node)]])
    return total


def seconds_of_node(node: Expr) -> float:
    """Estimated seconds per element of an operation's NumPy function."""
    dtype = held(node.dtype)
    is_by_simd = node.op in WITH_SIMD and dtype == np.float32
    if dtype.kind == "f" and node.op not in WITHOUT_AVX512:
        is_by_simd = is_by_simd or _has_avx512_loops()
    long = BY_SIMD if is_by_simd else LONG
    return OTHERS.get(node.op, long if node.op in LONG_FUNCTIONS else SIMPLE)


@functools.cache
def _has_avx512_loops() -> bool:
    """Whether NumPy computes functions of float64 by loops for AVX-512."""
    loops = opt_func_info(func_name="^tanh$", signature="float64")
    return any(
        ("AVX512" in loop["current"] or "X86_V4" in loop["current"])
        for loop in loops.get("tanh", {}).values()
    )


def seconds_to_convert(dtype: np.dtype) -> float:
    """Estimated seconds per element to convert a type to the one that it is computed in."""
    return 0.0 if held(dtype) == dtype else CONVERTED
