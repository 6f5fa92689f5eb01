"""Which device computes NumPy arrays, and what a caller may write for several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from mdtensor.api.engine import registry
from mdtensor.backends.select import found_devices
from mdtensor.errors import DTypeError, shown
from mdtensor.specs import Target

# "all", names as `devices` has them, or names with the weights of their shares.
Devices = str | Sequence[str] | Mapping[str, float]


def devices() -> list[str]:
    """Names of all devices, those that are chosen first at the front.

    Raises NoDeviceError where there is none; its hint says what to install.

    >>> len(devices()) > 0
    True
    """
    return [found.name for found in found_devices()]


def device(name: str | None = None) -> Target:
    """The facts about the device that computes NumPy arrays.

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
