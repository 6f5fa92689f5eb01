"""Calls in parts: over several devices, or within a memory limit.

What computes them is imported when the first one comes, which few programs have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mdtensor.api.devices import Devices


def in_parts(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    devices: Devices | None,
    memory_limit: int | str | None = None,
) -> Any:
    """Run a front end's call with `devices` or a `memory_limit`, in parts.

    Raises what `spread` and `stream` raise.
    """
    if devices is not None:
        from mdtensor.api.multi_device.spread_call import spread

        return spread(function, args, devices, {**options, "memory_limit": memory_limit})
    from mdtensor.api.streaming.stream_plan import stream

    assert memory_limit is not None
    return stream(function, *args, memory_limit=memory_limit, **options)()
