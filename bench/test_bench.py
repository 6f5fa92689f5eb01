"""The same cases under pytest-benchmark: `python -m pytest bench/test_bench.py -k "dot or 1024"`.

All engines share this process, so that pauses let the threads of the last one fall asleep;
`bench.run` gives every engine a process of its own. Nothing is tuned here: the store's winners
run, and general kernels where there is none.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.engines import ENGINES, OURS, SOLITARY, Library
from bench.families import FAMILIES
from bench.run import PAUSE_SECONDS
from bench.workload import CALL, PLAN, Arrays, Workload

WORKLOADS = [workload for cases in FAMILIES.values() for workload in cases]
NAMES = [name for name in ENGINES if name not in SOLITARY]


@functools.cache
def engine(name: str) -> Library:
    try:
        return ENGINES[name]()
    except ImportError as error:
        pytest.skip(str(error))


@functools.lru_cache(maxsize=1)
def operands(workload: Workload) -> tuple[list[np.ndarray], Arrays]:
    drawn = workload.operands()
    return drawn, workload.reference(drawn)


def timed(call: Callable[[], object]) -> float:
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_case(benchmark: Any, workload: Workload, name: str) -> None:
    if ENGINES[name].word not in workload.words:
        pytest.skip(f"{name} cannot say {workload.name}")
    drawn, references = operands(workload)
    calls = dict(engine(name).calls(workload, drawn, workload.empty_outputs()))
    if name == OURS:
        calls = {label: call for label, call in calls.items() if label in (PLAN, CALL)}
    right: dict[float, str] = {}
    for label, call in calls.items():
        try:
            error = workload.error(call(), references)
        except (RuntimeError, TypeError, ValueError):
            continue  # a peer that does not know the type
        if error <= workload.tolerance:
            right[timed(call)] = label
    if not right:
        pytest.skip(f"{name} does not compute {workload.name}")
    label = right[min(right)]
    benchmark.group = workload.name
    benchmark.extra_info.update(call=label, flops=workload.flops)
    time.sleep(PAUSE_SECONDS)
    benchmark(calls[label])
