"""Availability of the LLVM backend, checked without loading it."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec


def devices() -> list[str]:
    """The LLVM device's name; empty without llvmlite, CPython or POSIX threads."""
    fits = is_supported() and find_spec("llvmlite") is not None
    return [f"LLVM: {platform.machine()}"] if fits else []


def is_supported() -> bool:
    """Whether the platform has POSIX threads and CPython's object layout."""
    return os.name == "posix" and platform.python_implementation() == "CPython"


def hint_where_missing() -> str:
    """The install hint for a machine without a usable LLVM device."""
    if not is_supported():
        return "the llvm device is for CPython on Linux and macOS; OpenCL's is for all"
    return "pip install llvmlite, which mdtensor computes with"
