"""What a report says of the machine, the versions and the time."""

from __future__ import annotations

import datetime
import platform
from typing import Any

import numpy as np


def facts() -> dict[str, Any]:
    """Date, device with its cores and driver, and versions, as a report of JSON begins."""
    import mdtensor
    from mdtensor.api import pipeline

    target = pipeline.engine_for().target
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": {"name": target.name, "cores": target.cores, "driver": target.driver},
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mdtensor": mdtensor.__version__,
    }
