"""`tuning`: sets the tuning mode of the calls inside of a `with`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Literal, get_args

from mdtensor.api.engine import tuning_mode
from mdtensor.api.engine.budget import seconds_of
from mdtensor.api.engine.tuning_mode import Recorded, Recording
from mdtensor.errors import TuningError, shown
from mdtensor.options import is_one_of

Mode = Literal["off", "cached", "record", "tune"]
MODES: tuple[Mode, ...] = get_args(Mode)


@contextmanager
def tuning(mode: Mode, *, budget: float | str = 30.0) -> Generator[Recording]:
    """Sets the tuning mode for the calls inside.

    A mode belongs to its context, as those of `decimal` do: to the thread that enters it, or to the
    task and the tasks that it begins meanwhile. Threads begin without one; those of
    `asyncio.to_thread` and functions by `contextvars.copy_context().run` have the mode of their
    caller. Modes may end in any order and in any thread or task, and then end everywhere: the one
    that was entered last, of those that have not ended, is in force.

    - "off": general kernels only; the store is not read.
    - "cached" (the default): winners that the store knows are used; no call ever tunes.
    - "record": as "cached", and every computation is recorded; what `with` gives goes to `tune`.
    - "tune": a computation without a winner is tuned at its first call, for `budget`:
      seconds, or a text such as "1min". Where a call runs several, it is tuned as a whole.

    Raises TuningError for another mode, and for a budget that is no time.

    >>> from mdtensor import einsum
    >>> with tuning("record") as seen:
    ...     total = einsum("i,i->", [1.0, 2.0], [3.0, 4.0])
    >>> seen
    1 computation recorded
           1 x md_hom[i:2](mul, (pw(add)))
    """
    if not is_one_of(mode, MODES):
        raise TuningError(f"unknown tuning mode {shown(mode)}", hint=f"one of {', '.join(MODES)}")
    seconds = seconds_of(budget)
    recording = Recording()
    seen = recording if mode == "record" else None
    with tuning_mode.entered(mode, seen, seconds, _tune if mode == "tune" else None):
        yield recording


def _tune(work: Recorded | Sequence[Recorded], seconds: float) -> None:
    from mdtensor.api.tuning.tune import tune  # which calls that tune nothing do without

    tune(work, seconds)
