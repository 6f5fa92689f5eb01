"""Files of trials, from which an interrupted search resumes."""

from __future__ import annotations

import json
import os
from pathlib import Path

from mdtensor.autotune.space.space import Configuration
from mdtensor.autotune.store.exported_rows import EXPORT_HEADER
from mdtensor.autotune.store.rows import (
    TrialRow,
    canonical_schedule,
    line_from_row,
    row_from_line,
    storable,
)
from mdtensor.autotune.store.store import MAX_DETAIL
from mdtensor.autotune.trial import Measured, Trial
from mdtensor.errors import StoreError

_ENVIRONMENT = "tuner"


class TrialFile:
    """A file of trials as JSON lines, in the format of `mdtensor cache export`.

    Trials are added at once, so that what was evaluated survives whatever ends the search; a line
    that was cut off is passed over. A file may hold several searches, told apart by `name`.

    Raises `StoreError` for a file that is of another kind, or cannot be read or written.
    """

    def __init__(self, path: str | Path, name: str) -> None:
        self.path = Path(path)
        self.name = name

    def known(self) -> list[tuple[Configuration, Trial]]:
        """All trials recorded under `name`, in order."""
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._trouble("read", error) from error
        header, *lines = text.split("\n")
        if text and header != EXPORT_HEADER:
            raise StoreError(f"{self.path} is no file of trials", hint="name one that is not there")
        return [
            (json.loads(row.schedule), Trial(row.status, row.seconds, row.spread, row.detail))
            for row in map(_row, lines)
            if row is not None and (row.problem, row.environment) == (self.name, _ENVIRONMENT)
        ]

    def add(self, measured: Measured) -> None:
        """Append one trial immediately."""
        trial = measured.trial
        row = TrialRow(
            self.name,
            _ENVIRONMENT,
            canonical_schedule(measured.configuration),
            trial.status,
            trial.seconds,
            trial.spread,
            storable(trial.detail[:MAX_DETAIL]),
        )
        try:
            with self.path.open("ab+") as file:
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(size - 1)
                # A line that was cut off ends here.
                before = f"{EXPORT_HEADER}\n" if not size else "" if file.read() == b"\n" else "\n"
                file.write(f"{before}{line_from_row(row)}\n".encode())
        except OSError as error:
            raise self._trouble("write", error) from error

    def _trouble(self, action: str, error: OSError) -> StoreError:
        return StoreError(f"cannot {action} {self.path}: {error.strerror or error}")


def _row(line: str) -> TrialRow | None:
    """Parse a line as a trial; None if it is none."""
    try:
        row = row_from_line(line)
    except StoreError:
        return None
    return row if isinstance(row, TrialRow) else None
