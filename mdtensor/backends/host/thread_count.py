"""The number of threads for kernels."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from mdtensor.backends.host.hardware import core_count

_CGROUP = Path("/sys/fs/cgroup")


def thread_count() -> int:
    """Threads for kernels: the least of affinity, cgroup quota and OMP_NUM_THREADS; at least 1."""
    return int(min(core_count(), _asked_for(os.environ), _granted(_CGROUP)))


ALL = 2**31 - 1
_limit = ALL
_listeners: list[Callable[[int], object]] = []


def limit() -> int:
    """The limit on threads of a launch; ALL if there is none."""
    return _limit


def set_limit(most: int) -> None:
    """Limit the threads of later launches."""
    global _limit
    _limit = most
    for listener in _listeners:
        listener(most)


def when_limited(listener: Callable[[int], object]) -> None:
    """Register a listener for the limit, called now and on each change."""
    _listeners.append(listener)
    listener(_limit)


def _asked_for(environment: Mapping[str, str]) -> float:
    """The first number in OMP_NUM_THREADS, a list by nesting level; infinity without one."""
    said = environment.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(said) if said.isdecimal() and int(said) > 0 else math.inf


def _granted(folder: Path) -> float:
    """The control group's CPU quota in processors, rounded up; infinity without one."""
    try:
        quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):  # no such group, or one of version 1
        quota, period = _words(folder / "cpu" / "cpu.cfs_quota_us"), "100000"
    if not (quota.isdecimal() and period.isdecimal() and int(period)):
        return math.inf  # "max", or -1
    return max(1, math.ceil(int(quota) / int(period)))


def _words(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
