"""Exported stores as JSON lines, and their validation on import."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mdtensor.autotune.store.rows import Row, row_from_line
from mdtensor.dataclass import dataclass
from mdtensor.errors import MdtensorError, StoreError

EXPORT_HEADER = '{"kind": "mdtensor store", "version": 1}'


@dataclass(frozen=True, slots=True)
class RejectedLine:
    """A line that holds no valid row, and the reason."""

    line: int
    reason: str


def rows_in(
    lines: Iterable[str], check: Callable[[str], object]
) -> tuple[list[Row], tuple[RejectedLine, ...]]:
    """Parse an exported file: its valid rows, and the rejected lines.

    `check` raises an MdtensorError for a schedule that is none. Raises StoreError for another kind
    of file.
    """
    rows: list[Row] = []
    refused: list[RejectedLine] = []
    number = 0
    for number, line in enumerate(lines, 1):
        if number == 1:
            _check_header(line)
        elif line.strip():
            try:
                row = row_from_line(line)
                check(row.schedule)
                rows.append(row)
            except MdtensorError as error:
                refused.append(RejectedLine(number, error.message))
    if not number:
        _check_header("")
    return rows, tuple(refused)


def _check_header(line: str) -> None:
    line = line.strip()
    if line != EXPORT_HEADER:
        raise StoreError(f"line 1: not an exported store of this version: {line!r:.80}")
