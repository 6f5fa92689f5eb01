"""Tuning modes that begin and end in any order, in several threads."""

from __future__ import annotations

import random
import threading

from mdtensor.api.modes import current_mode, tuning


def test_modes_end_in_another_order_than_they_began() -> None:
    off, record = tuning("off"), tuning("record")
    off.__enter__()
    record.__enter__()
    off.__exit__(None, None, None)
    assert current_mode() == "record"
    record.__exit__(None, None, None)
    assert current_mode() == "cached"


def test_no_mode_is_left_where_threads_interleave() -> None:
    def enters_and_leaves(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(40):
            with tuning(rng.choice(("off", "cached", "record"))):
                pass

    threads = [threading.Thread(target=enters_and_leaves, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert current_mode() == "cached"
