"""The cache's place; files that users name are written whole, and read within a bound."""

from __future__ import annotations

import os
import stat
import threading
import tracemalloc
from pathlib import Path

import pytest

from mdtensor.api.engine import registry
from mdtensor.autotune.store.store import Store
from mdtensor.autotune.worker.worker import Worker
from mdtensor.errors import StoreError, StoreWarning
from mdtensor.paths import CACHE, cache_directory, read_regular, write_whole


def test_a_relative_cache_stays_when_the_program_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setenv(CACHE, f"relative-{tmp_path.name}")
    monkeypatch.chdir(tmp_path)
    place = cache_directory()
    assert place.parent == tmp_path
    monkeypatch.chdir("other")
    assert cache_directory() == place


@pytest.mark.process
def test_a_child_has_the_cache_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE, "relative")
    with Worker("tests.autotune.worker_targets:evil") as worker:
        found = worker.call({"do": "environment"}, timeout_s=60)
    assert found[CACHE] == str(cache_directory())


@pytest.mark.parametrize("place", ["~no-such-user/cache", f"/{'long' * 100}/cache"])
def test_where_no_cache_can_be_calls_do_without(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv(CACHE, place)
    assert not registry._may_have_winners()
    with pytest.warns(StoreWarning, match="cannot be used"), Store.open() as store:
        assert store.path is None


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "target", tmp_path / "link"
    link.symlink_to("there/target")
    for text in ("first\n", "second\n"):  # dangling, then not
        write_whole(link, text, StoreError)
        assert link.is_symlink()
        assert target.read_text() == text
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["link", "target", "there"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write_whole(pipe, "whole\n", StoreError)
    reader.join(60)
    assert read == ["whole\n"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_permissions_stay_and_new_ones_follow_the_umask(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    old.chmod(0o660)
    before = os.umask(0o027)
    try:
        for file in (old, new):
            write_whole(file, "text", StoreError)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(file.stat().st_mode) for file in (old, new)] == [0o660, 0o640]


@pytest.mark.parametrize("kind", ["folder", "circle of links"])
def test_what_cannot_be_written_stays(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "file"
    if kind == "folder":
        file.mkdir()
    else:
        file.symlink_to(file)
    with pytest.raises(StoreError, match=f"cannot write {file}"):
        write_whole(file, "text", StoreError)
    assert os.listdir(tmp_path) == ["file"]


def test_a_bound_takes_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"short")
    tracemalloc.start()
    try:
        assert read_regular(file, 1 << 28) == b"short"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
