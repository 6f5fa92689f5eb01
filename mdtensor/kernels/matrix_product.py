"""Products of small matrices: by a warp's tensor cores, or, where a language has none, by loops."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.kernels.dialect import Dialect
from mdtensor.lower.group_nest import MatrixOperand, MatrixProduct
from mdtensor.lower.nest import F16

DEPTH, GROUP = 16, 8  # elements of a reduction, rows or columns of a group


def matrix_product_lines(product: MatrixProduct, dialect: Dialect) -> list[str]:
    """The statements of a product."""
    lines = _by_warps(product) if dialect.matrix_functions else _by_loops(product, dialect)
    return ["{", *("  " + line for line in lines), "}"]


def _by_warps(product: MatrixProduct) -> list[str]:
    rows, columns = product.rows, product.columns
    call = "multiply_add" if rows.memory == F16 else "multiply_add_bfloats"
    lines = [
        "const int row = (int)lane & 7, half = ((int)lane >> 3) & 1, side = (int)lane >> 4;",
        _place("rows", rows, "half", "side"),
        _place("columns", columns, "side", "half"),
    ]
    for m in range(0, len(rows.offsets), 2):
        lines += _load("rows", m, rows, 4)
    for n in range(0, len(columns.offsets), 2):
        lines += _load("columns", n, columns, 4 if n + 1 < len(columns.offsets) else 2)
    for m in range(0, len(rows.offsets), 2):
        order = range(len(columns.offsets))
        for n in reversed(order) if m % 4 else order:
            low, high = product.accumulators[m][n], product.accumulators[m + 1][n]
            refs = ", ".join(ref.name for ref in (*low, *high))
            held = f"columns{n - n % 2}"
            first = 2 * (n % 2)
            lines.append(f"{call}({refs}, rows{m}, {held}[{first}], {held}[{first + 1}]);")
    return lines


def _place(name: str, operand: MatrixOperand, apart: str, along: str) -> str:
    """Declares where the row lies whose address this work-item gives, in the first two groups."""
    step = operand.along if operand.across == 1 else operand.across
    between = operand.offsets[1] - operand.offsets[0] if len(operand.offsets) > 1 else 0
    return (
        f"const unsigned short* const {name} = {operand.buffer} + {operand.start!r}"
        f" + row * {step} + {apart} * {between} + {along} * {GROUP * operand.along};"
    )


def _load(name: str, group: int, operand: MatrixOperand, count: int) -> list[str]:
    turned = "true" if operand.across == 1 else "false"
    offset = operand.offsets[group] - operand.offsets[0]
    held = f"{name}{group}"
    return [
        f"unsigned {held}[{count}];",
        f"load_matrices<{turned}>({held}, {name} + {offset});",
    ]


def _by_loops(product: MatrixProduct, dialect: Dialect) -> list[str]:
    """What the warp does, for the one work-item."""
    rows, columns = product.rows, product.columns
    body: list[str] = []
    for m, offset in enumerate(rows.offsets):
        body.append(_element(f"x{m}", rows, offset, "(lane / 4)", dialect))
    for n, offset in enumerate(columns.offsets):
        for k in range(2):
            column = f"(2 * (lane % 4) + {k})"
            body.append(_element(f"y{n}_{k}", columns, offset, column, dialect))
    body += [
        f"{ref.name} += x{m} * y{n}_{k};"
        for m, line in enumerate(product.accumulators)
        for n, refs in enumerate(line)
        for k, ref in enumerate(refs)
    ]
    return [f"for (int k = 0; k < {DEPTH}; k++) {{", *_indented(body), "}"]


def _indented(lines: Sequence[str]) -> list[str]:
    return ["  " + line for line in lines]


def _element(name: str, operand: MatrixOperand, offset: int, number: str, dialect: Dialect) -> str:
    place = f"{(operand.start + offset)!r} + {number} * {operand.across} + k * {operand.along}"
    loaded = dialect.short_floats[operand.memory.name].load.format(
        buffer=operand.buffer, index=place
    )
    return f"const float {name} = {loaded};"
