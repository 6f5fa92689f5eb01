"""What the package shows of itself: the names that users call, and nothing of its own wiring."""

from __future__ import annotations

import mdtensor as mdt


def test_dir_lists_public_names_alone() -> None:
    assert mdt.einsum
    shown = [name for name in dir(mdt) if not name.startswith("__")]
    assert shown == sorted(mdt.__all__)


def test_every_public_name_is_there() -> None:
    assert all(getattr(mdt, name) is not None for name in mdt.__all__)
