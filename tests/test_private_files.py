"""Folders and files of the cache: this user's own, or not used."""

from __future__ import annotations

import os
import stat
import warnings
from pathlib import Path

import pytest

from mdtensor import errors, paths
from mdtensor.autotune.store.store import Store
from mdtensor.backends.host.binary_cache import Binaries, MachineCode, folder_of_kept
from mdtensor.backends.opencl import opencl_runtime
from mdtensor.cache_eviction import KINDS
from mdtensor.errors import NotPrivateError, StoreWarning
from tests import children

CODE = MachineCode(b"code", 1, 2)
OTHER_USER = 4711


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    errors._told.clear()
    folder = tmp_path / "cache"
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(folder))
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def belongs_to_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives a file away, or makes it look so where that takes the superuser."""
    file = path.lstat().st_ino
    for name in ("stat", "lstat", "fstat"):
        whole = getattr(os, name)

        def given_away(*arguments: object, whole=whole, **options: object) -> os.stat_result:
            status = whole(*arguments, **options)
            if status.st_ino != file:
                return status
            fields = list(status[:10])
            fields[stat.ST_UID] = OTHER_USER
            return os.stat_result(fields)

        monkeypatch.setattr(os, name, given_away)


CALL = """
import os, sys
os.umask(0o002)
import numpy as np, mdtensor as mdt
from mdtensor.tuner import evaluations
a = np.ones((9, 9), "f4")
assert mdt.einsum("ij,jk->ik", a, a)[0, 0] == 9
with mdt.tuning("record") as seen:
    mdt.einsum("ij,jk->ik", a, a)
assert mdt.tune(seen, "1h", quiet=True, abort=evaluations(2))[0].seconds
"""


@pytest.mark.process
def test_everything_is_private_whatever_the_umask_is(cache: Path) -> None:
    children.run("-c", CALL + "mdt.devices()", env={"OCL_ICD_VENDORS": ""})
    found = [cache, *cache.rglob("*")]
    assert {"icd", "programs", "binaries", "tuned", "tuning.sqlite3"} <= {p.name for p in found}
    assert {path.name for path in (cache / "programs").iterdir()} <= {*KINDS}
    # Links to the files of Intel's runtime have its modes, in a folder that is private.
    own = [path for path in found if path.parent.parent != cache / "intel"]
    assert not {str(path) for path in own if mode(path) & 0o077}


@pytest.mark.parametrize("below", ["", "programs", "programs/binaries"])
@pytest.mark.parametrize("how", ["writable by the group", "writable by all", "another's", "a link"])
def test_what_others_may_have_put_there_is_not_read(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str, how: str
) -> None:
    binaries = Binaries(folder_of_kept("binaries"))
    binaries.put("key", CODE)
    assert binaries.get("key") == CODE
    folder = cache / below
    if how == "a link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
        if not below:  # is the user's own choice
            assert binaries.get("key") == CODE
            return
        reason = "it is a symbolic link"
    elif how == "another's":
        belongs_to_another(folder, monkeypatch)
        reason = f"it belongs to user {OTHER_USER}"
    else:
        folder.chmod(0o770 if how == "writable by the group" else 0o777)
        reason = "other users can write to it"
    with pytest.warns(StoreWarning) as told:
        assert binaries.get("key") is None
    (warning,) = told
    way_out = f"chmod go-w {folder}, if nobody else has written to it; or "
    assert str(warning.message) == (
        f"{folder} is not used: {reason}; what is tuned and compiled is not kept\n"
        f"  hint: {way_out if 'write' in reason else ''}"
        "set MDTENSOR_CACHE_DIR to a folder of your own"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        binaries.put("other", CODE)
        assert binaries.get("other") is None, "told once"
    if not below:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store = Store.open()
        assert store.path is None
        assert isinstance(store.trouble, NotPrivateError)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (0o777, "chmod go-w {}, if nobody else has written to it; or set MDTENSOR_CACHE_DIR"),
        (0o755, None),
    ],
)
def test_the_way_out_is_told(cache: Path, change: int, hint: str | None) -> None:
    cache.mkdir()
    cache.chmod(change)
    if hint is None:
        paths.check_private(cache)
        return
    with pytest.raises(NotPrivateError) as caught:
        paths.check_private(cache)
    assert caught.value.hint == hint.format(cache) + " to a folder of your own"


@pytest.mark.parametrize("how", ["link", "fifo", "folder", "writable", "another's", "socket"])
def test_a_file_that_is_none_of_ours_is_not_read(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    binaries = Binaries(folder_of_kept("binaries"))
    binaries.put("key", CODE)
    (file,) = folder_of_kept("binaries").iterdir()
    content = file.read_bytes()
    if how == "writable":
        file.chmod(0o666)
    elif how == "another's":
        belongs_to_another(file, monkeypatch)
    else:
        file.unlink()
    if how == "link":
        (tmp_path / "download").write_bytes(content)
        file.symlink_to(tmp_path / "download")
    elif how == "fifo":
        os.mkfifo(file)
    elif how == "folder":
        file.mkdir()
    elif how == "socket":
        os.mknod(file, stat.S_IFSOCK | 0o600)
    assert binaries.get("key") is None


@pytest.mark.parametrize("how", ["link", "fifo", "folder"])
@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_what_is_no_file_in_the_place_of_the_store_is_set_aside(
    cache: Path, tmp_path: Path, how: str, suffix: str
) -> None:
    Store.open().close()
    place = cache / f"tuning.sqlite3{suffix}"
    place.unlink(missing_ok=True)
    if how == "link":
        (tmp_path / "secret").write_text("kept")
        place.symlink_to(tmp_path / "secret")
    elif how == "fifo":
        os.mkfifo(place)
    else:
        place.mkdir()
    with pytest.warns(StoreWarning) as told:
        store = Store.open()
    (warning,) = told
    (aside,) = cache.glob(f"*.corrupt-*[0-9]{suffix}")
    assert str(warning.message) == (
        f"the store {cache / 'tuning.sqlite3'} was damaged; it begins anew\n"
        f"  hint: moved to {str(aside).removesuffix(suffix)}"
    )
    store.set_winner("p", "e", {}, seconds=1.0)
    assert store.winner("p", "e") is not None
    assert store.path == cache / "tuning.sqlite3"
    assert how != "link" or (tmp_path / "secret").read_text() == "kept"
    store.close()


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_store_that_others_can_write_to_is_not_read(cache: Path, suffix: str) -> None:
    with Store.open() as store:
        store.set_winner("p", "e", {}, seconds=1.0)
        place = cache / f"tuning.sqlite3{suffix}"
        place.chmod(0o666)
        with pytest.warns(StoreWarning) as told:
            other = Store.open()
        (warning,) = told
        assert str(warning.message) == (
            f"{place} is not used: other users can write to it; tuning results are kept in"
            f" memory only\n  hint: chmod go-w {place}, if nobody else has written to it; or"
            " remove it"
        )
        assert other.winner("p", "e") is None


class TestVendors:
    LIBRARY = Path("/x/libintelocl.so")

    @pytest.fixture
    def made(self, cache: Path, tmp_path: Path) -> Path:
        return opencl_runtime.vendors_directory(self.LIBRARY, tmp_path / "none")

    def again(self, tmp_path: Path) -> Path:
        return opencl_runtime.vendors_directory(self.LIBRARY, tmp_path / "none")

    def check(self, folder: Path) -> None:
        assert [path.name for path in folder.iterdir()] == ["mdtensor-intel.icd"]
        assert (folder / "mdtensor-intel.icd").read_text() == f"{self.LIBRARY}\n"
        assert mode(folder) == 0o700

    def test_it_stays(self, made: Path, tmp_path: Path) -> None:
        self.check(made)
        assert self.again(tmp_path) == made

    @pytest.mark.parametrize("how", ["more", "other", "link", "fifo", "writable", "empty"])
    def test_what_was_changed_is_made_anew(self, made: Path, tmp_path: Path, how: str) -> None:
        file = made / "mdtensor-intel.icd"
        if how == "more":
            (made / "evil.icd").write_text("/tmp/evil.so\n")
        elif how == "other":
            file.write_text("/tmp/evil.so\n")
        elif how == "writable":
            file.chmod(0o666)
        else:
            file.unlink()
            (tmp_path / "evil.icd").write_text(f"{self.LIBRARY}\n")
        if how == "link":
            file.symlink_to(tmp_path / "evil.icd")
        elif how == "fifo":
            os.mkfifo(file)
        self.check(self.again(tmp_path))

    @pytest.mark.parametrize("which", ["", "icd", "digest"])
    def test_anothers_folder_is_not_used(
        self, made: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
    ) -> None:
        folder = {"": cache, "icd": cache / "icd", "digest": made}[which]
        belongs_to_another(folder, monkeypatch)
        with pytest.warns(StoreWarning, match=f"it belongs to user {OTHER_USER}"):
            found = self.again(tmp_path)
        assert not found.is_relative_to(cache)
        self.check(found)
