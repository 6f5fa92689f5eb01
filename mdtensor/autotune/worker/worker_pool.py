"""A pool of workers that serve requests concurrently."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from mdtensor.autotune.worker.worker import Worker
from mdtensor.closing import Closing
from mdtensor.signals import uninterrupted


class Crew(Closing):
    """A pool of `size` workers, each started on demand.

    `target`, `payload` and `environment` are those of a `Worker`.

    >>> with Crew("operator:methodcaller", 2, "upper") as crew:
    ...     [crew.submit(text, timeout_s=30).result() for text in ("one", "two")]
    ['ONE', 'TWO']
    """

    def __init__(
        self,
        target: str,
        size: int,
        payload: object = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._workers = [Worker(target, payload, environment=environment) for _ in range(size)]
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="mdtensor-crew")

    def submit(self, request: object, timeout_s: float) -> Future[Any]:
        """A future of `Worker.call`'s reply; requests start in order."""
        return uninterrupted(self._threads.submit, self._serve, request, timeout_s)

    def _serve(self, request: object, timeout_s: float) -> Any:
        worker = self._idle.get()
        try:
            return worker.call(request, timeout_s)
        finally:
            self._idle.put(worker)

    def interrupt(self) -> None:
        """Kill all workers; requests under way fail, later ones are served."""
        for worker in self._workers:
            worker.interrupt()

    def close(self) -> None:
        """Kill the workers; pending requests are cancelled, those under way fail."""
        uninterrupted(self._close)

    def _close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown()
        for worker in self._workers:
            worker.close()
