"""Which elements of matrices the threads of a warp hold, as the PTX ISA tells by formulas.

Sections "Matrix Fragments for mma.m8n8k4" to "… mma.m16n8k16", and "ldmatrix". Written from these
alone: kernels' texts are compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LANES = 32
_LANE = np.arange(LANES)
_GROUP, _IN_GROUP = _LANE >> 2, _LANE % 4


def extents(shape: str) -> tuple[int, int, int]:
    """Rows, columns and depth of a shape such as m16n8k4."""
    rows, _, rest = shape[1:].partition("n")
    columns, _, depth = rest.partition("k")
    return int(rows), int(columns), int(depth)


def row_element(shape: str, kind: str, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of `ai` in the multiplicand A, by lane."""
    match shape, kind:
        case "m8n8k4", "f64":
            return _GROUP, _IN_GROUP
        case "m16n8k4", "f64":
            return _GROUP + (0, 8)[i], _IN_GROUP
        case "m16n8k8", "f64" | "tf32":
            return _GROUP + (8 if i in (1, 3) else 0), _IN_GROUP + (4 if i in (2, 3) else 0)
        case "m16n8k16", "f64":
            if i % 2 == 0:
                return _GROUP, i * 2 + _IN_GROUP
            return _GROUP + 8, i * 2 - 2 + _IN_GROUP
        case "m16n8k16", "f16" | "bf16":
            row = _GROUP + (0 if 0 <= i < 2 or 4 <= i < 6 else 8)
            return row, _IN_GROUP * 2 + (i & 1) + (8 if i >= 4 else 0)
    raise NotImplementedError(f"{shape} of {kind}")


def column_element(shape: str, kind: str, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of `bi` in the multiplicand B, by lane."""
    match shape, kind:
        case (("m8n8k4" | "m16n8k4"), "f64"):
            return _IN_GROUP, _GROUP
        case "m16n8k8", "f64" | "tf32":
            return _IN_GROUP + (0, 4)[i], _GROUP
        case "m16n8k16", "f64":
            return _IN_GROUP + i * 4, _GROUP
        case "m16n8k16", "f16" | "bf16":
            return _IN_GROUP * 2 + (i & 1) + (8 if i >= 2 else 0), _GROUP
    raise NotImplementedError(f"{shape} of {kind}")


def result_element(i: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of `ci` in the accumulators, by lane: those of all these shapes."""
    return _GROUP + (0 if i < 2 else 8), _IN_GROUP * 2 + (i & 1)


def factors_of_registers(
    shape: str, kind: str, side: str, registers: Sequence[np.ndarray]
) -> np.ndarray:
    """The multiplicand, "a" or "b", that the registers of a warp hold."""
    rows, columns, depth = extents(shape)
    element = row_element if side == "a" else column_element
    held = _elements(kind, registers)
    matrix = np.full((rows, depth) if side == "a" else (depth, columns), np.nan)
    for i, values in enumerate(held):
        matrix[element(shape, kind, i)] = values
    assert len(held) * LANES == matrix.size, shape
    return matrix


def results_of_registers(
    shape: str, registers: Sequence[np.ndarray], product: np.ndarray
) -> list[np.ndarray]:
    """The accumulators with a product added, as the registers hold them."""
    assert len(registers) * LANES == product.size, shape
    return [
        (values.astype("f8") + product[result_element(i)]).astype(values.dtype)
        for i, values in enumerate(registers)
    ]


def matrix_of_rows(rows: np.ndarray, transposed: bool) -> np.ndarray:
    """What ldmatrix gives the lanes of 8 rows of 8 elements of 16 bits: two neighbours each."""
    matrix = (rows.T if transposed else rows).astype("u4")
    first, second = (matrix[_GROUP, _IN_GROUP * 2 + n] for n in range(2))
    return first | second << np.uint32(16)


def _elements(kind: str, registers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The elements of registers, low ones first."""
    if kind == "f64":
        return list(registers)
    if kind == "tf32":  # of which the lowest 13 bits are not looked at
        return [(bits & np.uint32(0xFFFFE000)).view("f4") for bits in registers]
    halves = [(bits >> np.uint32(16 * n)).astype("u2") for bits in registers for n in range(2)]
    if kind == "f16":
        return [half.view("f2") for half in halves]
    return [(half.astype("u4") << np.uint32(16)).view("f4") for half in halves]
