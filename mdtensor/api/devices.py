"""The selection of the device for NumPy arrays, and of several devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from mdtensor.api.engine import registry
from mdtensor.backends.host import thread_count
from mdtensor.backends.select import found_devices
from mdtensor.errors import ArgumentError, DTypeError, count_of, shown
from mdtensor.options import whole
from mdtensor.specs import Target

# "all", names as `devices` has them, or names with the weights of their shares.
Devices = str | Sequence[str] | Mapping[str, float]


def devices() -> list[str]:
    """The names of all devices, in order of preference.

    Raises NoDeviceError where there is none; its hint says what to install.

    >>> len(devices()) > 0
    True
    """
    return [found.name for found in found_devices()]


class ThreadLimit:
    """A limit set by `threads`, undone at the end of a `with` block."""

    def __init__(self, most: int, before: int) -> None:
        self.most = most
        self._before = before

    def __enter__(self) -> ThreadLimit:
        return self

    def __exit__(self, *_: object) -> None:
        thread_count.set_limit(self._before)

    def __repr__(self) -> str:
        return f"at most {count_of(self.most, 'thread', 'threads')}"


def threads(most: int | None) -> ThreadLimit:
    """Limits the threads of kernels on the LLVM device, the caller's included.

    It holds for all launches of the process from now on, or until the end of a `with` statement;
    None for all threads that there are. Programs that compute in several processes or threads of
    their own, as those of Dask and joblib do, share processors so. How many there are,
    `OMP_NUM_THREADS`, the affinity and the control group's quota say, as they were before the first
    call. Other devices, and what NumPy computes, have settings of their own.

    Raises ArgumentError for 0 and less, DTypeError for what is no whole number.

    >>> import numpy as np
    >>> import mdtensor as mdt
    >>> with mdt.threads(1):
    ...     total = mdt.einsum("i,i->", np.ones(1000), np.ones(1000))
    """
    given = thread_count.ALL if most is None else whole("most", most)
    if given < 1:
        raise ArgumentError(f"{given} is no number of threads", hint="1 or more, or None for all")
    before = thread_count.limit()
    thread_count.set_limit(min(given, thread_count.ALL))
    return ThreadLimit(thread_count.limit(), before)


def device(name: str | None = None) -> Target:
    """The facts about the current device for NumPy arrays.

    With a name, chooses the first device whose name contains it, for all calls from now on. The
    environment variable MDTENSOR_DEVICE chooses in the same way before the first call. Raises
    NoDeviceError where no device has such a name.

    >>> device().cores > 0
    True
    """
    if not isinstance(cast("object", name), str | None):
        raise DTypeError(f"{shown(name)} is no name of a device", hint=f"one of {devices()}")
    if name is not None:
        registry.use_device(name)
    return registry.engine_for().target
