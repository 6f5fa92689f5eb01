"""Finds OpenCL implementations, those inside the Python environment too, before PyOpenCL loads.

The Intel runtime's wheel puts its library into the environment but no .icd file where a loader
looks. PyOpenCL's loader reads one variable, OCL_ICD_VENDORS, which names one directory; so that all
platforms stay visible, a directory is made with copies of the system's files and one more.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.metadata
import os
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from mdtensor.errors import NoDeviceError
from mdtensor.paths import cache_directory

Result = TypeVar("Result")

SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
_LIBRARY, _OWN_ICD = "libintelocl.so", "mdtensor-intel.icd"
INSTALL_HINT = "pip install 'mdtensor[cpu]' brings PyOpenCL and, on x86-64, an OpenCL runtime"


def hint_where_none_is_found() -> str:
    """What to do where OpenCL's loader finds no implementation."""
    chosen = os.environ.get("OCL_ICD_VENDORS")
    if not chosen or (Path(chosen) / _OWN_ICD).exists():
        return INSTALL_HINT
    return (
        f"OpenCL's loader looks in OCL_ICD_VENDORS, {chosen}, and nowhere else: unset that"
        f" variable; if there is still none, {INSTALL_HINT}"
    )


def intel_library() -> Path | None:
    """The Intel OpenCL runtime's library inside this environment, if it is installed."""
    try:
        files = importlib.metadata.files("intel-opencl-rt") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = [Path(str(f.locate())).resolve() for f in files if f.name == _LIBRARY]
    found.append(Path(sys.prefix) / "lib" / _LIBRARY)
    return next((path for path in found if path.exists()), None)


def vendors_directory(library: Path, system: Path = SYSTEM_VENDORS) -> Path:
    """A directory with the system's .icd files and one that names `library`."""
    entries = {path.name: path.read_text() for path in sorted(system.glob("*.icd"))}
    entries[_OWN_ICD] = f"{library}\n"
    directory = cache_directory() / "icd"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _synchronise(directory, entries)
    except OSError:
        directory = Path(tempfile.mkdtemp(prefix="mdtensor-icd-"))
        atexit.register(_remove, directory, os.getpid())
        _synchronise(directory, entries)
    return directory


def _remove(directory: Path, maker: int) -> None:
    """Removes a directory, in the process that made it: not where a fork of that one ends."""
    if os.getpid() == maker:
        shutil.rmtree(directory, ignore_errors=True)


def _synchronise(directory: Path, entries: dict[str, str]) -> None:
    for path in directory.glob("*.icd"):
        if path.name not in entries:
            path.unlink(missing_ok=True)
    for file_name, text in entries.items():
        path = directory / file_name
        if path.exists() and path.read_bytes() == text.encode():
            continue
        part = directory / f".{file_name}.{os.getpid()}"
        part.write_bytes(text.encode())
        part.replace(path)


def _has_user_cache() -> bool:
    """Whether PyOpenCL can keep its binaries; without a place for them its imports would fail."""
    try:
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return False


def load_pyopencl() -> ModuleType:
    """PyOpenCL, with every OpenCL implementation visible.

    Raises NoDeviceError where PyOpenCL is not installed.
    """
    # Its loader reads this when it is first asked for platforms, not when it is imported.
    if "OCL_ICD_VENDORS" not in os.environ:
        library = intel_library()
        if library is not None:
            os.environ["OCL_ICD_VENDORS"] = str(vendors_directory(library))
    if "pyopencl" not in sys.modules and not _has_user_cache():
        os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    # Where its binaries cannot be kept or read, a full disk say, PyOpenCL goes on without them, but
    # only if this variable exists.
    os.environ.setdefault("PYOPENCL_CACHE_FAILURE_FATAL", "")
    # PyOpenCL turns any log of a compiler, and Intel's always has one, into a warning.
    warnings.filterwarnings("ignore", message="Non-empty compiler output")
    try:
        pyopencl = importlib.import_module("pyopencl")
        caching(pyopencl, lambda: importlib.import_module("pyopencl.invoker"))
    except ImportError as error:
        raise NoDeviceError(f"PyOpenCL cannot be imported: {error}", hint=INSTALL_HINT) from error
    return pyopencl


def caching(pyopencl: Any, do: Callable[[], Result]) -> Result:
    """What `do` returns, without PyOpenCL's database where that cannot be read or written."""
    try:
        return do()
    except (OSError, sqlite3.Error):
        # The variable of this meaning was read when PyOpenCL was imported.
        pyopencl._PYOPENCL_NO_CACHE = True
        return do()
