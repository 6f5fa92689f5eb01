"""Right results by NumPy for cases on GPUs, computed in other processes while the device works."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from bench.cuda_cases import CASES
from bench.workload import Arrays
from mdtensor.closing import Closing

_PROCESSES = 2  # so that one long case holds up no other


class References(Closing):
    """The right results of cases of a family, which processes compute from now on, in order.

    Some take NumPy a minute, which the device and other cases would wait for.
    """

    def __init__(self, family: str, names: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._process = ProcessPoolExecutor(_PROCESSES, multiprocessing.get_context("spawn"))
        self._paths = {
            name: self._process.submit(save, family, name, Path(self._folder.name))
            for name in names
        }

    def of(self, name: str) -> Arrays:
        """The results of a case, once; KeyError for others than those that were named."""
        paths = self._paths.pop(name).result()
        results = tuple(map(np.load, paths))
        for path in paths:
            path.unlink()
        return results

    def has(self, name: str) -> bool:
        """Whether nobody has to wait for the results of a case; so too where none were wanted."""
        return name not in self._paths or self._paths[name].done()

    def close(self) -> None:
        """Ends the processes."""
        self._process.shutdown(cancel_futures=True)
        self._folder.cleanup()


def save(family: str, name: str, folder: Path) -> list[Path]:
    """Writes the right results of a case into a folder; the files."""
    workload = {workload.name: workload for workload in CASES[family]}[name]
    paths: list[Path] = []
    for number, result in enumerate(workload.reference(workload.operands())):
        paths.append(folder / f"{name}-{number}.npy")
        np.save(paths[-1], result)
    return paths
