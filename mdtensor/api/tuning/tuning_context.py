"""`tuning`: sets the tuning mode of the calls inside of a `with`."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Literal, get_args

from mdtensor.api.engine import tuning_mode
from mdtensor.api.engine.budget import seconds_of
from mdtensor.api.engine.tuning_mode import RecordedCall, Recording
from mdtensor.errors import TuningError, shown
from mdtensor.options import is_one_of

Mode = Literal["off", "cached", "record", "tune", "online"]
MODES: tuple[Mode, ...] = get_args(Mode)
_MOST_SHARE = 0.5


@contextmanager
def tuning(mode: Mode, *, budget: float | str = 30.0, share: float = 0.1) -> Generator[Recording]:
    """Sets the tuning mode for the calls in a `with` block.

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
    - "online": as "cached", and calls on arrays of NumPy try other kernels besides, which takes
      at most a `share` of their time, above 0 and up to 0.5. Results are those of the kernels that
      they would have run anyway; what is better is kept, and taken from then on.

    Raises TuningError for another mode, a budget that is no time, and a share that is none.

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
    part = _share_of(share)
    recording = Recording()
    with _entered(mode, recording, seconds, part):
        yield recording


def _entered(
    mode: Mode, recording: Recording, seconds: float, share: float
) -> AbstractContextManager[None]:
    """A context that enters a tuning mode, with its callbacks."""
    if mode == "online":
        from mdtensor.api.tuning.online.online_mode import watched

        return tuning_mode.entered(mode, watch=partial(watched, share), apart=("online", share))
    if mode == "record":
        return tuning_mode.entered(mode, recording)
    if mode == "tune":
        return tuning_mode.entered(mode, None, seconds, _tune)
    return tuning_mode.entered(mode, apart="off" if mode == "off" else None)


def _share_of(share: Any) -> float:
    """The validated share of calls' time for a search; TuningError for a wrong one."""
    try:
        part = math.nan if isinstance(share, bool | str | bytes) else float(share)
    except (OverflowError, TypeError, ValueError):
        part = math.nan
    if not 0 < part <= _MOST_SHARE:  # NaN is none either
        raise TuningError(
            f"share {shown(share)} is no part of calls' time that may be spent",
            hint=f"a number above 0 and up to {_MOST_SHARE}, such as 0.1",
        )
    return part


def _tune(work: RecordedCall | Sequence[RecordedCall], seconds: float) -> None:
    from mdtensor.api.tuning.tune import tune  # which calls that tune nothing do without

    tune(work, seconds)
