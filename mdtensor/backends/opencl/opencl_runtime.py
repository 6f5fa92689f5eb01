"""Discovery of OpenCL implementations, also in the Python environment, before PyOpenCL loads.

The Intel runtime's wheel puts its library into the environment but no .icd file where a loader
looks. PyOpenCL's loader reads one variable, OCL_ICD_VENDORS, which names one directory; so that all
platforms stay visible, a directory is made with copies of the system's files and one more.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import importlib.metadata
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from mdtensor.errors import NoDeviceError, NotPrivateError, tell
from mdtensor.paths import cache_directory, check_private, private_folder, read_private

SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
_LIBRARY, _OWN_ICD = "libintelocl.so", "mdtensor-intel.icd"
INSTALL_HINT = "pip install 'mdtensor[opencl]' brings PyOpenCL and, on x86-64, an OpenCL runtime"


def hint_where_none_is_found() -> str:
    """The hint for a machine on which OpenCL's loader finds no implementation."""
    chosen = os.environ.get("OCL_ICD_VENDORS")
    if not chosen or (Path(chosen) / _OWN_ICD).exists():
        return INSTALL_HINT
    return (
        f"OpenCL's loader looks in OCL_ICD_VENDORS, {chosen}, and nowhere else: unset that"
        f" variable; if there is still none, {INSTALL_HINT}"
    )


def hint_where_one_does_not_open(name: str) -> str:
    """The hint for a device that is found but cannot be opened."""
    library = intel_library() if name.startswith("Intel") else None
    if library is not None and _has_blanks(path_without_blanks(library)):
        return (
            f"Intel's runtime cannot work below a path with a blank, {library.parent}, and no links"
            " to it can be made in mdtensor's cache: move the environment, or set"
            " MDTENSOR_CACHE_DIR to a folder without blanks on its file system"
        )
    return (
        "set MDTENSOR_DEVICE to another of mdtensor.devices(); `clinfo` tells whether other"
        " programs can open it"
    )


def intel_library() -> Path | None:
    """Path of Intel's OpenCL library in this environment; None if it is not installed."""
    try:
        files = importlib.metadata.files("intel-opencl-rt") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = [Path(str(f.locate())).resolve() for f in files if f.name == _LIBRARY]
    found.append(Path(sys.prefix) / "lib" / _LIBRARY)
    return next((path for path in found if path.exists()), None)


def vendors_directory(library: Path, system: Path = SYSTEM_VENDORS) -> Path:
    """A directory with the system's .icd files and one that names `library`, and no others.

    OpenCL's loader runs what these name. So the directory is this user's, is complete before it
    has its name, which is a digest of what it holds, and never changes. Where there can be none
    in the cache, it lasts as long as the process.
    """
    entries = {path.name: path.read_bytes() for path in sorted(system.glob("*.icd"))}
    entries[_OWN_ICD] = os.fsencode(library) + b"\n"
    directory = cache_directory() / "icd" / _digest(entries)
    try:
        _publish(directory, lambda: _holds(directory, entries), partial(_write, entries))
    except NotPrivateError as error:
        tell(error)
    except OSError:
        pass
    else:
        return directory
    directory = Path(tempfile.mkdtemp(prefix="mdtensor-icd-"))
    atexit.register(_remove, directory, os.getpid())
    _write(entries, directory)
    return directory


def path_without_blanks(library: Path) -> Path:
    """A path of the library without blanks, where Intel's runtime stops reading.

    Below a path with one, it is loaded from hard links to all files of its folder, in the cache;
    where there can be none, it stays where it is, and has a device that cannot be opened.
    """
    if not _has_blanks(library):
        return library
    files = sorted(path for path in library.parent.iterdir() if path.is_file())
    directory = cache_directory() / "intel" / _digest([(str(f), f.stat().st_ino) for f in files])
    if _has_blanks(directory):
        return library

    def holds() -> bool:
        check_private(directory)
        return all(file.samefile(directory / file.name) for file in files)

    def link(draft: Path) -> None:
        for file in files:
            (draft / file.name).hardlink_to(file)

    try:
        _publish(directory, holds, link)
    except (OSError, NotPrivateError):
        return library
    return directory / library.name


def _has_blanks(path: Path) -> bool:
    return any(map(str.isspace, str(path)))


def _digest(entries: object) -> str:
    return hashlib.sha256(repr(entries).encode()).hexdigest()[:32]


def _publish(directory: Path, is_whole: Callable[[], bool], fill: Callable[[Path], object]) -> None:
    """Create a private directory atomically, unless it already exists and is complete.

    Raises OSError where it cannot be made, NotPrivateError where another user can change it.
    """
    private_folder(directory.parent)
    with contextlib.suppress(OSError):
        if is_whole():
            return
    shutil.rmtree(directory, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(dir=directory.parent, prefix="."))
    try:
        fill(draft)
        with contextlib.suppress(OSError):  # another process did the same
            draft.rename(directory)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    if not is_whole():
        raise FileNotFoundError(f"{directory} is not whole")


def _write(entries: Mapping[str, bytes], directory: Path) -> None:
    for name, content in entries.items():
        (directory / name).write_bytes(content)
        (directory / name).chmod(0o600)


def _holds(directory: Path, entries: Mapping[str, bytes]) -> bool:
    """Whether a private directory has exactly these files."""
    try:
        check_private(directory)
        return {path.name for path in directory.iterdir()} == set(entries) and all(
            read_private(directory / name, len(content)) == content
            for name, content in entries.items()
        )
    except OSError:
        return False


def _remove(directory: Path, maker: int) -> None:
    """Delete a directory, unless in a fork of the process that made it."""
    if os.getpid() == maker:
        shutil.rmtree(directory, ignore_errors=True)


def _has_user_cache() -> bool:
    """Whether PyOpenCL has a writable cache folder, without which its import would fail."""
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
            os.environ["OCL_ICD_VENDORS"] = str(vendors_directory(path_without_blanks(library)))
    if "pyopencl" not in sys.modules and not _has_user_cache():
        os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    try:
        pyopencl = importlib.import_module("pyopencl")
        try:
            _hook_invoker()
        except (OSError, sqlite3.Error):
            # The variable of this meaning was read when PyOpenCL was imported.
            pyopencl.__dict__["_PYOPENCL_NO_CACHE"] = True
            _hook_invoker()
    except ImportError as error:
        raise NoDeviceError(f"PyOpenCL cannot be imported: {error}", hint=INSTALL_HINT) from error
    return pyopencl


class _Bare(threading.local):
    """A thread-local flag: kernel objects are made without Python launch functions."""

    asked = False


_bare = _Bare()


def bare_kernels(pyopencl: Any, program: Any, names: Iterable[str]) -> list[Any]:
    """New kernel objects, whose arguments are set by `_set_arg_buf_pack_multi` alone.

    PyOpenCL has a function in Python for each that sets arguments and launches. It lies pickled in
    a database, which takes most of the time, and a lock that forks leave behind.
    """
    _bare.asked = True
    try:
        return [pyopencl.Kernel(program, name) for name in names]
    finally:
        _bare.asked = False


def _hook_invoker() -> None:
    """Patch PyOpenCL's generator of launch functions to skip `bare_kernels`."""
    invoker: Any = importlib.import_module("pyopencl.invoker")
    whole = invoker.generate_enqueue_and_set_args
    if whole.__module__ == __name__:
        return

    def generate_enqueue_and_set_args(*arguments: Any, **options: Any) -> tuple[Any, Any]:
        return (None, None) if _bare.asked else whole(*arguments, **options)

    invoker.generate_enqueue_and_set_args = generate_enqueue_and_set_args
