"""Facts about the host's processor, from the operating system."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


def cache_bytes(level: int, default: int) -> int:
    """Size of the data cache of a level, as seen by one core; `default` where it is unknown."""
    for index in sorted(_CACHES.glob("index*")):
        try:
            if int((index / "level").read_text()) != level:
                continue
            if (index / "type").read_text().strip() == "Instruction":
                continue
            match = re.fullmatch(r"(\d+)([KM]?)", (index / "size").read_text().strip())
        except (OSError, ValueError):
            continue
        if match:
            return int(match[1]) * _UNITS[match[2]]
    return default


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""


def processor_model() -> str:
    """An identifier of the processor model: family and model, or an empty string."""
    text = _cpuinfo()
    found = [
        re.search(rf"^{field}\s*:\s*(\S+)", text, re.MULTILINE)
        for field in ("cpu family", "model", "CPU implementer", "CPU part")
    ]
    return "-".join(match[1] for match in found if match)


def cpu_flags() -> frozenset[str]:
    """The processor's instruction set flags; empty if unknown."""
    match = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", _cpuinfo(), re.MULTILINE)
    return frozenset(match[1].split()) if match else frozenset()


def vector_unit() -> tuple[int, int]:
    """Bytes of a vector register, and number of vector registers."""
    flags = cpu_flags()
    if "avx512f" in flags:
        return 64, 32
    if "avx2" in flags or "avx" in flags:
        return 32, 16
    return 16, 32 if platform.machine() in ("aarch64", "arm64") else 16


def has_fma() -> bool:
    """Whether the processor has fused multiply-add."""
    return "fma" in cpu_flags() or platform.machine() in ("aarch64", "arm64")


def converts_halves() -> bool:
    """Whether the processor has instructions that convert float16."""
    return "f16c" in cpu_flags() or platform.machine() in ("aarch64", "arm64")


def multiply_adds_per_cycle() -> int:
    """Vector multiply-adds per core and cycle: 2, or 1 with half-wide units (Zen 4)."""
    halves = "avx512f" in cpu_flags() and processor_model().startswith("25-")  # Zen 4
    return 1 if halves else 2


def core_count() -> int:
    """Number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def clock_hertz(default: float = 3e9) -> float:
    """The processor's clock rate in hertz, from /proc/cpuinfo."""
    match = re.search(r"^cpu MHz\s*:\s*([\d.]+)", _cpuinfo(), re.MULTILINE)
    return float(match[1]) * 1e6 if match else default
