"""Tuning modes: calls use stored winners, are recorded, or are tuned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, TypeVar

from mdtensor.api.arrays import invalidation
from mdtensor.bounded import pairs_of
from mdtensor.dataclass import dataclass
from mdtensor.errors import count_of
from mdtensor.scoped import ContextSettings
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Step

# The steps of one call that runs several programs.
Steps = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A computation recorded from calls, on arrays of NumPy or CuPy.

    `within` are the calls of several programs of which it is one. `device` is the CUDA device on
    which the arrays were; None stands for the current one. It was called so many times as `calls`
    says.
    """

    md_hom: MDHom
    label: str
    arrays: str = "numpy"
    within: tuple[Steps, ...] = ()
    device: int | None = None
    calls: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class CallPlace:
    """The place of a call: NumPy, or CuPy on a device of an environment.

    Devices of one environment share what is found, so they are one place: the first one's.
    """

    arrays: str = "numpy"
    environment: str = ""
    device: int | None = field(default=None, compare=False)


class Recording:
    """The distinct computations recorded, in order of their first call, with call counts."""

    def __init__(self) -> None:
        self._calls: dict[tuple[MDHom, CallPlace], int] = {}
        self._within: dict[tuple[MDHom, CallPlace], dict[Steps, None]] = {}

    def add(self, md_hom: MDHom, place: CallPlace) -> None:
        """Counts a call of a computation."""
        self._calls[md_hom, place] = self._calls.get((md_hom, place), 0) + 1

    def add_call(self, steps: Steps, place: CallPlace) -> None:
        """Records the computations of one call as a group."""
        for step in steps:
            self._within.setdefault((step.md_hom, place), {})[steps] = None

    def calls(self, item: RecordedCall) -> int:
        """The number of calls of a computation."""
        wanted = item.md_hom, item.arrays, item.device
        return next(
            count
            for (md_hom, place), count in pairs_of(self._calls)
            if (md_hom, place.arrays, place.device) == wanted
        )

    def __iter__(self) -> Iterator[RecordedCall]:
        labels = self._labels()
        return iter(
            [
                RecordedCall(
                    md_hom,
                    labels[md_hom],
                    place.arrays,
                    tuple(self._within.get((md_hom, place), ())),
                    place.device,
                    calls,
                )
                for (md_hom, place), calls in pairs_of(self._calls)
                if md_hom in labels
            ]
        )

    def __len__(self) -> int:
        return len(self._calls)

    def _labels(self) -> dict[MDHom, str]:
        """A label for every computation; ambiguous ones are extended by functions and types."""
        found = dict.fromkeys(md_hom for md_hom, _ in list(self._calls))
        several = Counter(map(repr, found))
        return {m: repr(m) if several[repr(m)] == 1 else _in_detail(m) for m in found}

    def __repr__(self) -> str:
        labels = self._labels()
        lines = [
            f"{count:>8} x {labels.get(md_hom, md_hom)}"
            for (md_hom, _), count in pairs_of(self._calls)
        ]
        return "\n".join(
            (f"{count_of(len(lines), 'computation', 'computations')} recorded", *lines)
        )


def _in_detail(md_hom: MDHom) -> str:
    """An `md_hom` as text, with its functions and the types of its buffers."""
    functions = [md_hom.scalar, *([md_hom.epilogue.function] if md_hom.epilogue else [])]
    texts = "; ".join(", ".join(map(repr, function.results)) for function in functions)
    buffers = ", ".join(repr(buffer.spec) for buffer in (*md_hom.inputs, *md_hom.outputs))
    return f"{md_hom!r} with {texts} on {buffers}"


# Tunes computations within so many seconds.
Tune = Callable[[RecordedCall | Sequence[RecordedCall], float], object]
Chosen = TypeVar("Chosen")
# From an engine and what it chose for calls to the same with a program that is watched.
Watch = Callable[[Any, Any], Any]


@dataclass(slots=True, eq=False)
class _State:
    mode: str = "cached"
    # What launches that are kept in this mode are told from others by.
    apart: Hashable = None
    recording: Recording | None = None
    budget: float = 30.0
    tune: Tune | None = None
    watch: Watch | None = None
    tuned: set[Hashable] = field(default_factory=set[Hashable])


_SEEN = ("record", "tune")  # modes that see each call
_IN_MODE = object()  # stands in keys of calls in a mode that keeps launches of its own
_DEFAULT = _State()
_entered = ContextSettings[_State]("tuning")


def _state() -> _State:
    entered = _entered.values if invalidation.watchers else ()
    return entered[-1] if entered else _DEFAULT


def current_mode() -> str:
    """The tuning mode of this context: "off", "cached", "record", "tune" or "online"."""
    return _state().mode


def uses_store() -> bool:
    """Whether calls look up winners in the store."""
    return _state().mode != "off"


def apart() -> Hashable:
    """The mode's part of the key of cached launches; None in most modes."""
    return _state().apart


def ending() -> tuple[object, ...] | None:
    """The suffix of launch keys in this mode; None where every call bypasses the cache."""
    state = _state()
    if state.apart is not None:
        return (_IN_MODE, state.apart)
    return None if state.mode in _SEEN else ()


def kept_as() -> Hashable:
    """A key of this mode, under which plans cache launches."""
    state = _state()
    return state.mode if state.apart is None else state.apart


def is_watching() -> bool:
    """Whether every call must be observed, so that the hot path's table is bypassed."""
    return _state().mode in _SEEN


def recording() -> Recording | None:
    """The recording that calls of this context are added to, in mode "record"."""
    return _state().recording


def tune(work: RecordedCall | Sequence[RecordedCall]) -> None:
    """Tunes computations that are new to mode "tune", each for the mode's budget."""
    state = _state()
    if state.tune is not None:
        state.tune(work, state.budget * (1 if isinstance(work, RecordedCall) else len(work)))


def begins_tuning(computed: Hashable) -> bool:
    """Whether the current mode is to tune a computation, True once for each."""
    state = _state()
    if state.mode != "tune" or computed in state.tuned:
        return False
    state.tuned.add(computed)
    return True


def watched(engine: Any, chosen: Chosen) -> Chosen:
    """An engine's choice, wrapped as the current mode requires."""
    watch = _state().watch
    return chosen if watch is None else watch(engine, chosen)


@contextmanager
def entered(
    mode: str,
    recording: Recording | None = None,
    budget: float = 30.0,
    tune: Tune | None = None,
    *,
    watch: Watch | None = None,
    apart: Hashable = None,
) -> Generator[None]:
    """Sets the tuning mode of this context: its recording, its tuner, its watcher.

    What `watch` makes of programs is kept under `apart`, away from what other calls keep. Nobody
    need look for the default mode: it is what is found where nobody looks.
    """
    state = _State(mode, apart, recording, budget, tune=tune, watch=watch)
    is_default = mode == _DEFAULT.mode and watch is None and apart is None
    block = _entered.enter(state, None if is_default else invalidation.watch())
    try:
        yield
    finally:
        del block
