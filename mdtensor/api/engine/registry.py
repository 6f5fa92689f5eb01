"""The registry of engines, by the device of a call's arrays."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from mdtensor.api.arrays import cupy_arrays, invalidation
from mdtensor.api.engine import tuning_mode
from mdtensor.api.engine.background_worker import Background
from mdtensor.api.engine.evaluated import Evaluated, evaluated, is_on
from mdtensor.api.engine.launch_counter import TimeSpent
from mdtensor.backends import select
from mdtensor.dataclass import dataclass
from mdtensor.forks import keep_over_forks
from mdtensor.paths import TEAM, cache_directory
from mdtensor.stage_timer import StageRecorder, asked_for, beside, ran, stage
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program, Step

if TYPE_CHECKING:
    from mdtensor.api.engine.engine import Engine
    from mdtensor.api.engine.fused_calls import Fusion
    from mdtensor.api.engine.kernel_choice import DeferredChoice, KernelChoice
    from mdtensor.autotune.store.store import Store


_opening = threading.RLock()
keep_over_forks(_opening)
_engines: dict[object, Engine] = {}
_named: dict[str, Engine] = {}  # those that were chosen, by what was said
_called: dict[str, Engine] = {}  # those that calls over several devices name, by full names
_chosen: list[str] = []
# Drops choices of kernels, so that later calls see better ones; compiled code is kept.
forget = invalidation.clear


@dataclass(frozen=True, slots=True)
class CudaPlace:
    """The key of an engine for CuPy arrays: the number of their CUDA device."""

    number: int


@cache
def store() -> Store:
    """The store of tuning results: the user's, with the team's as its fallback."""
    from mdtensor.autotune.store.store import Store
    from mdtensor.autotune.store.team_store import TeamStore

    return Store.open(team=TeamStore.of_environment())


def engine_for(arrays: str = "numpy") -> Engine:
    """The engine for a kind of arrays: "numpy" or "cupy"."""
    place: object = arrays
    if arrays == "cupy":
        from mdtensor.backends.cuda.cupy_device import load_cupy

        place = CudaPlace(load_cupy().cuda.runtime.getDevice())
    return _engines.get(place) or _opened(_engines, place, lambda: _open(place))


def _opened(table: dict[Any, Engine], key: object, make: Callable[[], Engine]) -> Engine:
    """The engine of a key in a table, opened under a lock if it is missing."""
    with _opening:
        if key not in table:
            with stage("open"):
                table[key] = make()
        return table[key]


def _open(place: object) -> Engine:
    from mdtensor.api.engine.engine import Engine

    if isinstance(place, CudaPlace):
        from mdtensor.backends.cuda.cupy_device import open_device as open_cuda

        return Engine(open_cuda(place.number), store)
    return Engine(select.open_device(arrays=str(place)), store)


def engine_called(name: str, arrays: str = "numpy") -> Engine:
    """The engine of the device with a full name, chosen or not.

    Raises NoDeviceError where no device has that name.
    """
    return _called.get(name) or _opened(_called, name, lambda: _open_called(name, arrays))


def _open_called(name: str, arrays: str) -> Engine:
    """The engine of a named device; shared, where the device is already open."""
    from mdtensor.api.engine.engine import Engine

    if arrays == "cupy":
        place = CudaPlace(cuda_number(name))
        return _engines.setdefault(place, _engines.get(place) or _open(place))
    device = select.open_device(name, arrays)
    known = (*_engines.values(), *_named.values())
    return next((e for e in known if e.device is device), None) or Engine(device, store)


def use_device(name: str | None) -> None:
    """Selects the device that computes NumPy arrays; None for the default."""
    from mdtensor.api.engine.engine import Engine

    said = name if name is not None else os.environ.get(select.VARIABLE, "")
    with _opening:
        engine = _named.get(said)
        if engine is None:  # one for each name, with its programs and its thread
            engine = _named[said] = Engine(select.open_device(name), store)
        _engines["numpy"] = engine
        _chosen[:] = [] if name is None else [name]
    forget()


def use_cuda_device(name: str) -> None:
    """Makes the CUDA device of a name current in this thread."""
    from mdtensor.backends.cuda.cupy_device import load_cupy

    load_cupy().cuda.Device(cuda_number(name)).use()


def cuda_number(name: str) -> int:
    """The number in the name of a CUDA device.

    >>> cuda_number("CUDA 1: NVIDIA H100")
    1
    """
    return int(name.removeprefix("CUDA ").partition(":")[0])


def device_name(arrays: str = "numpy") -> str | None:
    """The name of the current device for a kind of arrays; None for the default one of NumPy's."""
    if arrays == "cupy":
        from mdtensor.backends.cuda.cupy_device import load_cupy, name_of

        return name_of(load_cupy().cuda.runtime.getDevice())
    return _chosen[-1] if _chosen else None


def choice_for(md_hom: MDHom, arrays: str = "numpy") -> KernelChoice:
    """The kernel for an `md_hom`: cached, from the store, or by the cost model."""
    engine = engine_for(arrays)
    use_store = tuning_mode.uses_store()
    choice = engine.tiers.known(md_hom, use_store=use_store)
    is_untuned = choice is None or choice.origin != "tuned"
    if is_untuned and tuning_mode.current_mode() == "tune":
        _tune_at_first(md_hom, arrays, engine)
        choice = engine.tiers.known(md_hom, use_store=use_store)
    if choice is None:
        with stage("choose"):
            choice = engine.chosen(md_hom, use_store=use_store)
    ran(choice)
    return tuning_mode.watched(engine, choice)


def serving(md_hom: MDHom, arrays: str = "numpy") -> KernelChoice | Evaluated:
    """The kernel of an `md_hom`, or NumPy's evaluation of it until there is one.

    A first call needs no engine, unless something was tuned; the background opens one for others.
    """
    if arrays != "numpy" or tuning_mode.current_mode() == "tune":
        return choice_for(md_hom, arrays)
    use_store = tuning_mode.uses_store()
    if not has_engine() and _does_without() and not (use_store and _may_have_winners()):
        with stage("choose"):
            found = evaluated(md_hom, _ask_to_open, account_of=lambda _: _spent)
        if found is not None:
            ran(found)
            return found
    engine = engine_for(arrays)
    with stage("choose"):
        served = engine.serving(md_hom, use_store=use_store)
    ran(served)
    return served if isinstance(served, Evaluated) else tuning_mode.watched(engine, served)


_spent = TimeSpent()  # without an engine
_opener = Background[Callable[[], None]](lambda work: work())


def _may_have_winners() -> bool:
    """Whether the store may have a winner; an empty one is not opened for that."""
    return (os.path.exists(cache_directory()) or TEAM in os.environ) and store().has_winners()


def _ask_to_open(*, worth: float, often: bool) -> None:
    """Enqueues the opening of the engine for NumPy arrays, on repeated launches."""
    del often
    _opener.ask("numpy", _open_behind, worth=worth)


def _open_behind() -> None:
    """Opens the engine for NumPy arrays in the background, and clears the call caches."""
    engine_for("numpy")
    forget()


def watched(unseen: DeferredChoice) -> DeferredChoice:
    """A program for NumPy arrays, wrapped as the current tuning mode requires."""
    return tuning_mode.watched(engine_for(), unseen)


def tune_on(engine: Engine, md_hom: MDHom) -> None:
    """Tunes a new computation for the current CUDA device, in mode "tune".

    Devices of other kinds are searched as the chosen one alone.
    """
    is_cuda = getattr(engine.device, "number", None) is not None
    if is_cuda and tuning_mode.current_mode() == "tune":
        _tune_at_first(md_hom, "cupy", engine)


def choice_on(engine: Engine, md_hom: MDHom) -> KernelChoice:
    """The kernel for an `md_hom` on an engine: `choice_for` without tuning."""
    with stage("choose"):
        choice = engine.chosen(md_hom, use_store=tuning_mode.uses_store())
    ran(choice)
    return choice


def _tune_at_first(md_hom: MDHom, arrays: str, engine: Engine) -> None:
    """Tunes a computation without a winner, once per tuning mode."""
    if engine.winner(engine.problem_of(md_hom)) is None and tuning_mode.begins_tuning(
        (engine, md_hom)
    ):
        tuning_mode.tune(tuning_mode.RecordedCall(md_hom, repr(md_hom), arrays))


def has_engine() -> bool:
    """Whether the engine for NumPy arrays is open."""
    return "numpy" in _engines


def engine_so_far() -> Engine | None:
    """The engine for NumPy arrays; None while calls do without one."""
    return _engines.get("numpy") or (None if _does_without() else engine_for("numpy"))


def _does_without() -> bool:
    return is_on() and select.is_llvm_default()


def fused(program: Program, arrays: str) -> Fusion | None:
    """The fusion of a call of several steps; None where no steps are fused."""
    return engine_for(arrays).joined.fused(program, use_store=tuning_mode.uses_store())


def counted(
    program: Program, arrays: str, run: Callable[..., None], *, alone: bool
) -> Callable[..., None]:
    """A launch of several programs that requests fusion where it pays.

    `alone` says that the calling thread runs them by itself.
    """
    joined = engine_for(arrays).joined
    return joined.counted(program, run, use_store=tuning_mode.uses_store(), alone=alone)


def choose_ahead(md_homs: Sequence[MDHom], arrays: str) -> None:
    """Chooses the kernels of a call's `md_hom`s in parallel, where they need compilers.

    What fails here fails again, with its error, where the kernel is asked for.
    """
    engine, use_store = engine_for(arrays), tuning_mode.uses_store()
    several = dict.fromkeys(md_homs)
    unknown = [m for m in several if engine.tiers.known(m, use_store=use_store) is None]
    if engine.target.kind != "gpu" or len(unknown) < 2 or tuning_mode.current_mode() == "tune":
        return

    def choose(md_hom: MDHom, told: StageRecorder | None) -> None:
        def chosen() -> None:
            with stage("choose"):
                engine.chosen(md_hom, use_store=use_store)

        beside(told, chosen)

    pool = ThreadPoolExecutor(len(unknown), thread_name_prefix="mdtensor-first")
    with stage("choose"), pool:
        for waiting in [pool.submit(choose, m, asked_for()) for m in unknown]:
            with suppress(Exception):
                waiting.result()


def saw(md_hom: MDHom, arrays: str) -> None:
    """Records a computation, in tuning mode "record"."""
    recording = tuning_mode.recording()
    if recording is not None:
        recording.add(md_hom, _place_of(arrays))


def saw_call(steps: Sequence[Step], arrays: str) -> None:
    """Records the steps of a call in mode "record", or tunes them in mode "tune"."""
    if len(steps) < 2:
        return
    recording = tuning_mode.recording()
    if recording is not None:
        recording.add_call(tuple(steps), _place_of(arrays))
    elif tuning_mode.current_mode() == "tune":
        _tune_call(tuple(steps), arrays)


def _place_of(arrays: str) -> tuning_mode.CallPlace:
    """The kind of arrays and device of a call."""
    if arrays == "numpy":
        return tuning_mode.CallPlace()
    return tuning_mode.CallPlace(
        "cupy", engine_for("cupy").environment, cupy_arrays.current_device()
    )


def _tune_call(steps: tuning_mode.Steps, arrays: str) -> None:
    """Tunes the programs of a call that have no winner, then confirms the whole call."""
    engine = engine_for(arrays)
    unknown = [
        tuning_mode.RecordedCall(md_hom, repr(md_hom), arrays, (steps,))
        for md_hom in dict.fromkeys(step.md_hom for step in steps)
        if 0 not in md_hom.extents.values() and engine.winner(engine.problem_of(md_hom)) is None
    ]
    if unknown:
        tuning_mode.tune(unknown)
