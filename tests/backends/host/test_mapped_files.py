"""Arrays in shared maps of files, and the calls of the system that move them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from mdtensor.backends.host.mapped_files import mapped_file

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="maps are looked up in /proc")
SECTIONS = [
    np.s_[:],
    np.s_[3:50],
    np.s_[::2],
    np.s_[::-1],
    np.s_[5:9, 2:4],
    np.s_[-1:, ::-1],
    np.s_[:, :, :7],
    np.s_[:, :, ::3],
    np.s_[:0],
]


def mapped(folder: Path, mode: str = "r+", offset: int = 0) -> np.memmap:
    """Numbers that lie in a file, with rows of 80 kB."""
    file = folder / "numbers of mine"
    numbers = np.random.default_rng(0).random((60, 5, 10_000))
    if not file.exists():
        file.write_bytes(b"x" * offset + numbers.tobytes())
    return np.memmap(file, "f8", mode, offset=offset, shape=numbers.shape)


@pytest.mark.parametrize("offset", [0, 24, 8192])
@pytest.mark.parametrize("section", SECTIONS)
def test_parts_are_read_and_written(tmp_path: Path, section: object, offset: int) -> None:
    x = np.asarray(mapped(tmp_path, offset=offset))
    file = mapped_file(x)
    assert file is not None
    part = x[section]
    copy = np.full(part.shape, np.nan)
    run = part.strides[-1] == 8 and part.shape[-1] == 10_000
    assert file.read(part, copy) == (run and part.size > 0)
    if run:
        np.testing.assert_array_equal(copy, part)
        wanted = np.array(x)
        wanted[section] = -copy
        assert file.write(-copy, part) == (part.size > 0)
        np.testing.assert_array_equal(x, wanted)
        assert (mapped(tmp_path, "r", offset) == wanted).all()
    file.close()


def test_what_a_map_wrote_is_read_and_other_types_are_not(tmp_path: Path) -> None:
    x = mapped(tmp_path)
    file = mapped_file(x)
    assert file is not None
    x[2] = 7
    copy = np.empty(x.shape)
    assert file.read(np.asarray(x), copy)
    assert (copy[2] == 7).all()
    assert not file.read(np.asarray(x), np.empty(x.shape, "f4"))
    assert not file.read(np.asarray(x), np.empty(x.shape, order="F"))
    assert not file.read(np.ones(x.shape), copy)
    file.close()


def test_maps_whose_file_is_not_told_for_sure_have_none(tmp_path: Path) -> None:
    assert mapped_file(np.ones(100_000)) is None
    own = mapped(tmp_path, "c")  # copied where it is written: the file has other numbers
    own[0] = 1
    assert mapped_file(own) is None
    x = mapped(tmp_path)
    place = Path(x.filename)  # pyright: ignore[reportArgumentType]
    place.rename(tmp_path / "moved")
    moved = mapped_file(x)
    assert moved is not None
    moved.close()
    os.unlink(tmp_path / "moved")
    assert mapped_file(x) is None
    place.write_bytes(b"another file of that name")
    assert mapped_file(x) is None


def test_maps_to_read_are_not_written(tmp_path: Path) -> None:
    mapped(tmp_path).flush()
    x = mapped(tmp_path, "r")
    file = mapped_file(x)
    assert file is not None
    assert file.read(np.asarray(x), np.empty(x.shape))
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write(np.zeros(x.shape), np.asarray(x))
    file.close()


def test_a_file_that_was_cut_is_an_error(tmp_path: Path) -> None:
    x = mapped(tmp_path)
    file = mapped_file(x)
    assert file is not None
    os.truncate(x.filename, 8 * 50_001)  # pyright: ignore[reportArgumentType]
    copy = np.empty(x.shape)
    with pytest.raises(OSError, match="no byte 400008: it was cut"):
        file.read(np.asarray(x), copy)
    file.close()
