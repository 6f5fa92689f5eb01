"""What a report says of the machine, the versions and the time."""

from __future__ import annotations

import datetime
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np


def facts() -> dict[str, Any]:
    """Date, device with its cores and driver, and versions, as a report of JSON begins."""
    import mdtensor
    from mdtensor.api.engine import registry

    target = registry.engine_for().target
    return {
        "date": now(),
        "device": {"name": target.name, "cores": target.cores, "driver": target.driver},
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mdtensor": mdtensor.__version__,
    }


def now() -> str:
    """Date and time to the second, of UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def processor() -> str:
    """Name, family and model of the processor, as Linux tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    pairs = (line.partition(":") for line in lines)
    fields = {name.strip(): value.strip() for name, _, value in pairs}
    name, family, model = (fields.get(f, "?") for f in ("model name", "cpu family", "model"))
    return f"{name}, family {family}, model {model}"


def commit() -> str:
    """The commit of the code; empty where nothing tells it."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.check_output(asked, cwd=Path(__file__).parent, text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def tell(line: str, file: Path | None = None, before: str = "") -> None:
    """Prints what was found, behind what only matters now, and appends it to a file."""
    print(before + line, flush=True)
    if file is not None:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(line + "\n")
