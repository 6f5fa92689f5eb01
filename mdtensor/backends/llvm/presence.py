"""Whether this process can compute by LLVM, which nothing is loaded for."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec


def devices() -> list[str]:
    """The name of the processor as a device; none without llvmlite, CPython or POSIX threads."""
    fits = is_supported() and find_spec("llvmlite") is not None
    return [f"LLVM: {platform.machine()}"] if fits else []


def is_supported() -> bool:
    """Whether there are POSIX threads, and the objects of CPython that launches read."""
    return os.name == "posix" and platform.python_implementation() == "CPython"


def hint_where_missing() -> str:
    """What a machine lacks on which `devices` finds none."""
    if not is_supported():
        return "the llvm device is for CPython on Linux and macOS; OpenCL's is for all"
    return "pip install llvmlite, which mdtensor computes with"
