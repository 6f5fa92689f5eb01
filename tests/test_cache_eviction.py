"""Eviction from the cache: which files go, and which stay, where there are too many bytes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from mdtensor import cache_eviction, errors
from mdtensor.backends.host.binary_cache import BlobStore, folder_of_kept, remove_kept
from mdtensor.backends.host.crash_journal import CrashJournal
from mdtensor.errors import CompilerFailedError, StoreWarning

DAY = 86_400


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    errors._told.clear()
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_eviction, "_added", None)
    return tmp_path


def age(path: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(path, (then, then))


@pytest.mark.parametrize(
    ("said", "nbytes"),
    [("", 1 << 30), ("1000", 1000), ("500M", 500 << 20), ("2GiB", 2 << 30), ("1.5k", 1536)],
)
def test_the_limit_is_a_number_of_bytes(
    monkeypatch: pytest.MonkeyPatch, said: str, nbytes: int
) -> None:
    monkeypatch.setenv("MDTENSOR_CACHE_LIMIT", said)
    assert cache_eviction.limit() == nbytes


@pytest.mark.parametrize("said", ["much", "1X", "inf", "nan", "-", "-5M"])
def test_what_is_no_number_is_told_once(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("MDTENSOR_CACHE_LIMIT", said)
    with pytest.warns(StoreWarning) as told:
        assert [cache_eviction.limit(), cache_eviction.limit()] == [1 << 30] * 2
    (warning,) = told
    assert str(warning.message) == (
        f"MDTENSOR_CACHE_LIMIT cannot be {said!r}; it is 1G\n"
        "  hint: a number of bytes, such as 500M or 2G"
    )


def test_files_that_were_not_used_for_longest_go_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MDTENSOR_CACHE_LIMIT", "200K")
    files = BlobStore(folder_of_kept("tuned"))
    for number in range(100):
        files.put(str(number), bytes(5000))
        age(files._path(str(number)), 200 - number)
        assert files.get("0") is not None, "it is used every time"
    total = sum(path.stat().st_size for path in files.folder.iterdir())
    assert total < 220_000
    assert files.get("99") is not None
    assert files.get("1") is None


def test_nothing_is_kept_without_room(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv("MDTENSOR_CACHE_LIMIT", "0")
    BlobStore(folder_of_kept("tuned")).put("key", b"content")
    assert list(cache.iterdir()) == []


def test_marks_of_processes_that_ended_have_an_end(cache: Path) -> None:
    attempts = CrashJournal(folder_of_kept())
    for number in range(400):
        with pytest.raises(KeyboardInterrupt), attempts.begun(str(number)):
            raise KeyboardInterrupt
        attempts._path(str(number)).write_text("begun")  # as a killed process leaves it
        age(attempts._path(str(number)), 2 if number < 390 else 0)
    age(attempts._path("399"), 40)
    cache_eviction.prune()
    left = {path.name for path in (cache / "programs" / "begun").iterdir()}
    assert len(left) == 256
    assert attempts._path("398").name in left
    assert attempts._path("399").name not in left
    with pytest.raises(CompilerFailedError, match="was cut off"), attempts.begun("398"):
        pass


def test_files_of_others_in_the_folder_stay(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [cache / name for name in (".profile", "programs/.hidden", "programs/cuda/a", "x/.b")]
    for file in others:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(1000))
        age(file, 400)
    (cache / "programs").chmod(0o700)
    files = BlobStore(folder_of_kept("tuned"))
    files.put("key", bytes(1000))
    monkeypatch.setenv("MDTENSOR_CACHE_LIMIT", "100")
    assert cache_eviction.prune() == 1
    remove_kept()
    assert all(file.exists() for file in others)


def test_drafts_and_stores_that_were_set_aside_go(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = BlobStore(folder_of_kept("tuned"))
    files.put("key", bytes(1000))
    for name, days in ((".draft", 2), (".new", 0)):
        (files.folder / name).write_bytes(bytes(10))
        age(files.folder / name, days)
    (cache / "tuning.sqlite3").write_bytes(bytes(3000))
    aside = cache / "tuning.sqlite3.corrupt-1"
    aside.write_bytes(bytes(3000))
    age(aside, 3)
    assert cache_eviction.prune() == 1
    assert not (files.folder / ".draft").exists()
    assert aside.exists()
    monkeypatch.setenv("MDTENSOR_CACHE_LIMIT", "6K")
    assert cache_eviction.prune() == 1
    assert not aside.exists()
    assert (cache / "tuning.sqlite3").exists()
    assert files.get("key") is not None


def test_links_are_not_followed(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "file").write_bytes(bytes(1000))
    (cache / "programs").mkdir()
    (cache / "programs").chmod(0o700)
    (cache / "programs" / "tuned").symlink_to(outside)
    (cache / "tuning.d").symlink_to(outside)
    os.environ["MDTENSOR_CACHE_LIMIT"] = "10"
    try:
        cache_eviction.prune()
    finally:
        del os.environ["MDTENSOR_CACHE_LIMIT"]
    assert (outside / "file").exists()
