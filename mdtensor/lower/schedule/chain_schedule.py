"""ChainSchedule: the tuning parameters of a chain of problems that run as one kernel."""

from __future__ import annotations

from mdtensor.dataclass import dataclass
from mdtensor.lower.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True)
class ChainSchedule:
    """The tuning parameters of a chain that is computed block of rows by block of rows.

    - `lengths`: rows of a block along each dim that the problems share.
    - `rows_inside`: in the arrays between the problems, elements of neighbouring rows lie side by
      side, so that lanes may run along rows; else those of one row do.
    - `terms_shared`: functions that several problems take of the same elements are computed once,
      by a problem of their own (see `translate.rewrites.shared_terms`).
    - `groups`: among which blocks are divided; each takes neighbouring ones, one after the other.
    - `steps`: schedules of the problems on a block, whose groups are one.
    - `rest`: those on the last block along the one dim whose blocks leave fewer rows; () for none.
    """

    lengths: tuple[int, ...]
    groups: int
    steps: tuple[Schedule, ...]
    rest: tuple[Schedule, ...] = ()
    rows_inside: bool = False
    terms_shared: bool = False

    def describe(self) -> str:
        """The schedule in one readable line."""
        inside = " inside" if self.rows_inside else ""
        terms = ", terms shared" if self.terms_shared else ""
        return f"rows {'x'.join(map(str, self.lengths))}{inside} of {self.groups} groups{terms}"
