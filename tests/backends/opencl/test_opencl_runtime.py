"""How OpenCL implementations are found, in processes of their own."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from mdtensor.backends.opencl import opencl_runtime
from mdtensor.errors import NoDeviceError
from tests import children

LIST = (
    "from mdtensor.backends.opencl.opencl_device import devices; print(len(devices()), 'devices')"
)


def python(program: str, code: int = 0, **environment: str) -> children.Ended:
    """Runs a program in a process that has no variables but these, and PATH; by kernels."""
    given = {"PATH": os.environ["PATH"], "MDTENSOR_TIER0": "0"} | environment
    variables = dict.fromkeys(os.environ, "") | given
    return children.run("-c", program, code=code, env=variables)


@pytest.mark.process
def test_found_with_an_empty_home(tmp_path):
    assert int(python(LIST, HOME=str(tmp_path)).out.split()[0]) >= 1


@pytest.mark.process
def test_found_where_nothing_can_be_written(tmp_path):
    closed = tmp_path / "file"
    closed.write_text("no directory")
    places = {"HOME": str(closed), "MDTENSOR_CACHE_DIR": str(closed / "cache")}
    python(LIST, **places, TMPDIR=str(tmp_path))
    assert list(tmp_path.iterdir()) == [closed], "what was made for the time being is left behind"


@pytest.mark.process
def test_a_user_without_a_home_gets_right_results(tmp_path):
    """As in a container that is run by a number."""
    homeless = (
        "import pathlib\n"
        "def home():\n    raise RuntimeError('Could not determine home directory.')\n"
        "pathlib.Path.home = home\n"
    )
    end = python(homeless + CALL, TMPDIR=str(tmp_path))
    assert "set MDTENSOR_CACHE_DIR to a writable local directory" in end.err


CALL = """
import numpy as np, mdtensor as mdt
a = np.arange(12.0).reshape(3, 4)
assert np.array_equal(mdt.einsum("ij,kj->ik", a, a), a @ a.T)
"""
FULL = """
import resource
from mdtensor.backends.opencl.opencl_runtime import load_pyopencl
load_pyopencl()
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
"""


def _own_places(folder: Path) -> dict[str, str]:
    # Python would write torn bytecode beside the sources.
    return {
        "HOME": str(folder),
        "MDTENSOR_CACHE_DIR": str(folder / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@pytest.mark.process
def test_kernels_compile_where_no_more_can_be_written(tmp_path):
    assert "caching failed" not in python(FULL + CALL, **_own_places(tmp_path)).err


@pytest.mark.process
def test_kernels_compile_where_nothing_could_ever_be_written(tmp_path):
    limited = FULL.replace("load_pyopencl()", "")
    python(limited + CALL, **_own_places(tmp_path))


@pytest.mark.process
def test_kernels_compile_where_what_was_kept_is_garbage(tmp_path):
    places = _own_places(tmp_path)
    python(CALL, **places)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.parent.name == "binaries" for path in kept)
    assert not list(tmp_path.rglob("pyopencl-compiler-cache*")), "PyOpenCL keeps programs too"
    for path in kept:
        path.write_bytes(b"\xff\x00 garbage" * 20)
    python(CALL, **places)


@pytest.mark.process
def test_nothing_is_imported_before_it_is_needed(tmp_path):
    code = (
        "import sys, mdtensor; import mdtensor.backends.opencl.opencl_runtime;"
        " print('pyopencl' in sys.modules)"
    )
    assert python(code, HOME=str(tmp_path)).out == "False\n"


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    """Number of devices that PyOpenCL's own folder brings, whatever the vendors' directory."""
    empty = tmp_path_factory.mktemp("vendors")
    code = """
import pyopencl
try:
    print(sum(len(p.get_devices()) for p in pyopencl.get_platforms()))
except pyopencl.LogicError:
    print(0)
"""
    return int(python(code, HOME=str(empty), OCL_ICD_VENDORS=str(empty)).out)


@pytest.mark.process
def test_the_users_choice_of_implementations_is_respected(tmp_path, bundled):
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    library = opencl_runtime.intel_library()
    assert library is not None, "these tests need the Intel runtime"
    (vendors / "mine.icd").write_text(f"{library}\n")
    code = f"{LIST}; import os; print(os.environ['OCL_ICD_VENDORS'])"
    end = python(code, HOME=str(tmp_path), OCL_ICD_VENDORS=str(vendors))
    assert end.lines == [f"{1 + bundled} devices", str(vendors)]
    assert not (tmp_path / ".cache" / "mdtensor").exists()


NO_PLATFORM = """
import pyopencl
def get_platforms():
    raise pyopencl.LogicError("clGetPlatformIDs", -1001, "PLATFORM_NOT_FOUND_KHR")
pyopencl.get_platforms = get_platforms
"""


@pytest.mark.process
def test_without_implementations_the_error_says_what_to_install(tmp_path, bundled):
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    # A PyOpenCL that brings an implementation of its own has to be told that there is none.
    code = (NO_PLATFORM if bundled else "") + LIST
    said = python(code, 1, HOME=str(tmp_path), OCL_ICD_VENDORS=str(vendors)).err
    assert "NoDeviceError: no OpenCL device on this machine" in said
    assert said.splitlines()[-1].strip() == (
        f"hint: OpenCL's loader looks in OCL_ICD_VENDORS, {vendors}, and nowhere else: unset that"
        " variable; if there is still none, pip install 'mdtensor[opencl]' brings PyOpenCL and, on"
        " x86-64, an OpenCL runtime"
    )


@pytest.mark.process
def test_the_variable_that_mdtensor_set_is_not_what_is_wrong(tmp_path):
    load = "from mdtensor.backends.opencl.opencl_runtime import load_pyopencl as load; load()\n"
    said = python(f"{load}{NO_PLATFORM}{LIST}", 1, HOME=str(tmp_path)).err
    assert said.splitlines()[-1].strip() == f"hint: {opencl_runtime.INSTALL_HINT}"


def test_without_pyopencl_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(NoDeviceError, match="PyOpenCL cannot be imported") as caught:
        opencl_runtime.load_pyopencl()
    assert caught.value.hint == opencl_runtime.INSTALL_HINT


@pytest.mark.process
def test_a_broken_pyopencl_is_no_missing_device(tmp_path):
    (tmp_path / "pyopencl.py").write_text("raise ImportError('libOpenCL.so.1 is not there')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{CALL}"
    _, told = python(code, 1, HOME=str(tmp_path), MDTENSOR_DEVICE="opencl").err.split(
        "NoDeviceError: "
    )
    assert told.splitlines()[:2] == [
        "no device for numpy arrays is called 'opencl'",
        "  PyOpenCL cannot be imported: libOpenCL.so.1 is not there",
    ]


class TestVendorsDirectory:
    @pytest.fixture
    def system(self, tmp_path):
        directory = tmp_path / "system"
        directory.mkdir()
        (directory / "pocl.icd").write_text("libpocl.so\n")
        return directory

    @pytest.fixture(autouse=True)
    def cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path / "cache"))

    def contents(self, directory: Path) -> dict[str, str]:
        return {path.name: path.read_text() for path in directory.iterdir()}

    def test_has_the_systems_files_and_one_more(self, system):
        directory = opencl_runtime.vendors_directory(Path("/x/libintelocl.so"), system)
        assert self.contents(directory) == {
            "pocl.icd": "libpocl.so\n",
            "mdtensor-intel.icd": "/x/libintelocl.so\n",
        }

    def test_follows_what_changes(self, system):
        opencl_runtime.vendors_directory(Path("/x/libintelocl.so"), system)
        (system / "pocl.icd").unlink()
        (system / "other.icd").write_text("libother.so\n")
        directory = opencl_runtime.vendors_directory(Path("/y/libintelocl.so"), system)
        assert self.contents(directory) == {
            "other.icd": "libother.so\n",
            "mdtensor-intel.icd": "/y/libintelocl.so\n",
        }

    def test_works_without_any_of_the_system(self, tmp_path):
        directory = opencl_runtime.vendors_directory(Path("/x/libintelocl.so"), tmp_path / "none")
        assert set(self.contents(directory)) == {"mdtensor-intel.icd"}


class TestPathWithoutBlanks:
    @pytest.fixture
    def library(self, tmp_path, monkeypatch):
        monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path / "cache"))
        (tmp_path / "a b").mkdir()
        for name in ("libintelocl.so", "libtbb.so"):
            (tmp_path / "a b" / name).write_text(name)
        return tmp_path / "a b" / "libintelocl.so"

    def test_its_folder_is_linked_once(self, library):
        found = opencl_runtime.path_without_blanks(library)
        assert " " not in str(found)
        for file in library.parent.iterdir():
            assert file.samefile(found.with_name(file.name))
        assert opencl_runtime.path_without_blanks(library) == found
        library.unlink()
        library.write_text("of another version")
        other = opencl_runtime.path_without_blanks(library)
        assert other.read_text() == "of another version"

    def test_other_paths_stay(self, tmp_path):
        library = tmp_path / "lib" / "libintelocl.so"
        assert opencl_runtime.path_without_blanks(library) == library

    def test_it_stays_where_there_are_no_links(self, library, monkeypatch):
        def refused(*_: object) -> None:
            raise PermissionError("no links to files of others")

        monkeypatch.setattr(Path, "hardlink_to", refused)
        assert opencl_runtime.path_without_blanks(library) == library
        monkeypatch.setattr(opencl_runtime, "intel_library", lambda: library)
        hint = opencl_runtime.hint_where_one_does_not_open
        assert hint("Intel(R) OpenCL: Xeon") == (
            f"Intel's runtime cannot work below a path with a blank, {library.parent}, and no links"
            " to it can be made in mdtensor's cache: move the environment, or set"
            " MDTENSOR_CACHE_DIR to a folder without blanks on its file system"
        )
        assert "blank" not in hint("Portable Computing Language: Xeon")


@pytest.mark.process
def test_the_runtime_works_below_a_path_with_a_blank(tmp_path):
    library = opencl_runtime.intel_library()
    assert library is not None
    folder = tmp_path / "a b"
    folder.mkdir()
    for file in library.parent.iterdir():
        if file.is_file():
            try:
                (folder / file.name).hardlink_to(file)
            except OSError:  # another file system
                shutil.copy(file, folder)
    there = (
        "from pathlib import Path\nfrom mdtensor.backends.opencl import opencl_runtime\n"
        f"opencl_runtime.intel_library = lambda: Path({str(folder / library.name)!r})\n"
    )
    python(there + CALL, HOME=str(tmp_path), MDTENSOR_DEVICE="opencl")


@pytest.mark.process
def test_pyopencl_may_be_imported_before(tmp_path):
    code = "import pyopencl, mdtensor as mdt; print(mdt.einsum('i,i->', [1.0] * 3, [1.0] * 3))"
    assert python(code, HOME=str(tmp_path)).out == "3.0\n"
