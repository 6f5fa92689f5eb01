"""A scheduler of pytest-xdist that gives each worker the same test files in every run.

Tests of one process meet what those before them left: machine code, tables, threads. By xdist's
own schedulers, the worker that is ready first gets the next file, so that a failure by what was
left comes once and never again. Here each worker has its files from the start, in one order.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class FixedFiles(LoadFileScheduling):
    """Deals the files out in turn, the largest first.

    A worker that has no more takes over the last file of another one.
    """

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # pyright: ignore[reportArgumentType]
        self._owners: dict[str, int] = {}

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Gives a worker its next file."""
        if not self._owners:
            self._owners = {file: n % self.numnodes for n, file in enumerate(self.workqueue)}
        number = int(node.gateway.id.removeprefix("gw")) % self.numnodes
        own = (file for file in self.workqueue if self._owners[file] == number)
        taken = next(own, None) or next(reversed(self.workqueue))
        self.workqueue.move_to_end(taken, last=False)
        super()._assign_work_unit(node)
