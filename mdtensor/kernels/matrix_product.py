"""Matrix products of a warp: on tensor cores, or by loops in languages without them."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.kernels.dialect import Dialect
from mdtensor.lower.ir.group_statements import MatrixOperand, MatrixProduct
from mdtensor.lower.ir.register_types import F32, F64

PIECE_BYTES = 16  # of a row in a fragment that is loaded as a matrix
QUAD = 4  # work-items that hold a row's fragment, each an element where elements are loaded singly
_CALLS = {
    "float16": "multiply_add",
    "bfloat16": "multiply_add_bfloats",
    "float32": "multiply_add_floats",
    "float64": "multiply_add_doubles",
}
# Of an element as fragments hold it, and as a matrix in local memory does.
_HELD = {"float64": "double"}
_POINTED = {"float32": "float", "float64": "double"}


def matrix_product_lines(product: MatrixProduct, dialect: Dialect) -> list[str]:
    """The lines of a warp's matrix product."""
    lines = _by_warps(product) if dialect.matrix_functions else _by_loops(product, dialect)
    return ["{", *("  " + line for line in lines), "}"]


def _by_warps(product: MatrixProduct) -> list[str]:
    rows, columns = product.rows, product.columns
    call = _CALLS[rows.memory.name]
    lines = [
        "const int row = (int)lane & 7, half = ((int)lane >> 3) & 1, side = (int)lane >> 4;",
        _place("rows", rows, "half", "side"),
        _place("columns", columns, "side", "half"),
    ]
    for m in range(0, len(rows.offsets), 2):
        lines += _load("rows", m, rows, product, 2, rows=True)
    for n in range(0, len(columns.offsets), 2):
        groups = min(2, len(columns.offsets) - n)
        lines += _load("columns", n, columns, product, groups, rows=False)
    pieces = _pieces(product)
    for m in range(0, len(rows.offsets), 2):
        order = range(len(columns.offsets))
        for n in reversed(order) if m % 4 else order:
            low, high = product.accumulators[m][n], product.accumulators[m + 1][n]
            refs = ", ".join(ref.name for ref in (*low, *high))
            held = f"columns{n - n % 2}"
            own = range(pieces * (n % 2), pieces * (n % 2 + 1))
            factors = ", ".join(f"{held}[{place}]" for place in own)
            lines.append(f"{call}({refs}, rows{m}, {factors});")
    return lines


def _place(name: str, operand: MatrixOperand, apart: str, along: str) -> str:
    """Declare the address that this work-item supplies for loading the first two groups."""
    between = operand.offsets[1] - operand.offsets[0] if len(operand.offsets) > 1 else 0
    if _is_single(operand):  # the work-item's own element of the first of these
        own = f"((int)lane >> 2) * {operand.across} + ((int)lane & 3) * {operand.along}"
        kind = _POINTED[operand.memory.name]
        return f"const {kind}* const {name} = {operand.buffer} + {operand.start!r} + {own};"
    step = operand.along if operand.across == 1 else operand.across
    piece = PIECE_BYTES // operand.memory.itemsize
    kind = _POINTED.get(operand.memory.name, "unsigned short")
    return (
        f"const {kind}* const {name} = {operand.buffer} + {operand.start!r}"
        f" + row * {step} + {apart} * {between} + {along} * {piece * operand.along};"
    )


def _is_single(operand: MatrixOperand) -> bool:
    """Whether elements are loaded one by one: float64, or float32 strided along the reduction."""
    return operand.memory == F64 or (operand.memory == F32 and operand.along != 1)


def _pieces(product: MatrixProduct) -> int:
    """Registers of a group's fragment per work-item: one element of float64, or 4 bytes, each."""
    size = 8 if product.rows.memory == F64 else 4
    return product.depth * product.rows.memory.itemsize // (QUAD * size)


def _load(
    name: str,
    group: int,
    operand: MatrixOperand,
    product: MatrixProduct,
    groups: int,
    *,
    rows: bool,
) -> list[str]:
    """Load the fragments of one or two groups; those of `rows` are ordered group by group."""
    offset = operand.offsets[group] - operand.offsets[0]
    held, pieces = f"{name}{group}", _pieces(product)
    declared = f"{_HELD.get(operand.memory.name, 'unsigned')} {held}[{pieces * groups}];"
    if _is_single(operand):
        offsets = [o - operand.offsets[0] for o in operand.offsets[group : group + groups]]
        along = [QUAD * operand.along * n for n in range(pieces)]
        places = [offset + piece for offset in offsets for piece in along]
        if rows:
            places = [offset + piece for piece in along for offset in offsets]
        taken = "{}" if operand.memory == F64 else "__float_as_uint({})"
        singles = (taken.format(f"{name}[{place}]") for place in places)
        lines = [f"{held}[{n}] = {single};" for n, single in enumerate(singles)]
    elif operand.memory == F32:
        lines = [f"load_matrices<false>({held}, (const unsigned short*)({name} + {offset}));"]
    else:
        turned = "true" if operand.across == 1 else "false"
        lines = [f"load_matrices<{turned}>({held}, {name} + {offset});"]
    rounded = [f"round_floats({held});"] if operand.memory == F32 else []
    return [declared, *lines, *rounded]


def _by_loops(product: MatrixProduct, dialect: Dialect) -> list[str]:
    """The product of a warp as loops of a single work-item."""
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
    return [f"for (int k = 0; k < {product.depth}; k++) {{", *_indented(body), "}"]


def _indented(lines: Sequence[str]) -> list[str]:
    return ["  " + line for line in lines]


def _element(name: str, operand: MatrixOperand, offset: int, number: str, dialect: Dialect) -> str:
    place = f"{(operand.start + offset)!r} + {number} * {operand.across} + k * {operand.along}"
    if operand.memory in (F32, F64):
        return f"const {_POINTED[operand.memory.name]} {name} = {operand.buffer}[{place}];"
    loaded = dialect.short_floats[operand.memory.name].load.format(
        buffer=operand.buffer, index=place
    )
    return f"const float {name} = {loaded};"
