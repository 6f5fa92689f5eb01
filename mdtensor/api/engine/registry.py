"""The registry of engines: from an `md_hom` and a kind of arrays to a kernel that runs."""

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
    """The number of the CUDA device that holds CuPy arrays."""

    number: int


@cache
def store() -> Store:
    """The user's store of tuning results, and behind it the team's."""
    from mdtensor.autotune.store.store import Store
    from mdtensor.autotune.store.team_store import TeamStore

    return Store.open(team=TeamStore.of_environment())


def engine_for(arrays: str = "numpy") -> Engine:
    """The engine that computes on arrays of a kind: "numpy" or "cupy"."""
    place: object = arrays
    if arrays == "cupy":
        from mdtensor.backends.cuda.cupy_device import load_cupy

        place = CudaPlace(load_cupy().cuda.runtime.getDevice())
    return _engines.get(place) or _opened(_engines, place, lambda: _open(place))


def _opened(table: dict[Any, Engine], key: object, make: Callable[[], Engine]) -> Engine:
    """The engine of a key, made by one thread where there is none yet."""
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
    """The engine of the device of that full name, whichever one is chosen.

    Raises NoDeviceError where no device has that name.
    """
    return _called.get(name) or _opened(_called, name, lambda: _open_called(name, arrays))


def _open_called(name: str, arrays: str) -> Engine:
    """The engine of a device, which is the one that others use where the device is opened once."""
    from mdtensor.api.engine.engine import Engine

    if arrays == "cupy":
        place = CudaPlace(cuda_number(name))
        return _engines.setdefault(place, _engines.get(place) or _open(place))
    device = select.open_device(name, arrays)
    known = (*_engines.values(), *_named.values())
    return next((e for e in known if e.device is device), None) or Engine(device, store)


def use_device(name: str | None) -> None:
    """Computes NumPy arrays on the device of that name from now on; None for the default."""
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
    """Makes the CUDA device of that name this thread's current one, as CuPy does."""
    from mdtensor.backends.cuda.cupy_device import load_cupy

    load_cupy().cuda.Device(cuda_number(name)).use()


def cuda_number(name: str) -> int:
    """The number in the name of a CUDA device.

    >>> cuda_number("CUDA 1: NVIDIA H100")
    1
    """
    return int(name.removeprefix("CUDA ").partition(":")[0])


def device_name(arrays: str = "numpy") -> str | None:
    """The name by which the device of arrays was chosen, or None for the default."""
    if arrays == "cupy":
        from mdtensor.backends.cuda.cupy_device import load_cupy, name_of

        return name_of(load_cupy().cuda.runtime.getDevice())
    return _chosen[-1] if _chosen else None


def choice_for(md_hom: MDHom, arrays: str = "numpy") -> KernelChoice:
    """The kernel for an `md_hom`, from this process's table, the store, or the cost model."""
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
    """What computes an `md_hom` for a call: the kernel of its device, or NumPy until there is one.

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
    """Whether the store has a winner; it is not opened where nothing was kept yet."""
    return (cache_directory().exists() or TEAM in os.environ) and store().has_winners()


def _ask_to_open(*, worth: float, often: bool) -> None:
    """Enqueues the opening of the engine of NumPy's arrays, once launches come again."""
    del often
    _opener.ask("numpy", _open_behind, worth=worth)


def _open_behind() -> None:
    """Opens the engine of NumPy's arrays, so that calls get kernels from then on."""
    engine_for("numpy")
    forget()


def watched(unseen: DeferredChoice) -> DeferredChoice:
    """A program for arrays of NumPy that was chosen at once, as the current mode has it run."""
    return tuning_mode.watched(engine_for(), unseen)


def tune_on(engine: Engine, md_hom: MDHom) -> None:
    """Tunes a computation for the current CUDA device, where the mode is "tune" and it is new.

    Devices of other kinds are searched as the chosen one alone.
    """
    is_cuda = getattr(engine.device, "number", None) is not None
    if is_cuda and tuning_mode.current_mode() == "tune":
        _tune_at_first(md_hom, "cupy", engine)


def choice_on(engine: Engine, md_hom: MDHom) -> KernelChoice:
    """The kernel for an `md_hom` on an engine: `choice_for`, but that nothing is tuned."""
    with stage("choose"):
        choice = engine.chosen(md_hom, use_store=tuning_mode.uses_store())
    ran(choice)
    return choice


def _tune_at_first(md_hom: MDHom, arrays: str, engine: Engine) -> None:
    """Tunes a computation that has no winner, where the current mode has not yet."""
    if engine.winner(engine.problem_of(md_hom)) is None and tuning_mode.begins_tuning(
        (engine, md_hom)
    ):
        tuning_mode.tune(tuning_mode.RecordedCall(md_hom, repr(md_hom), arrays))


def has_engine() -> bool:
    """Whether the device of NumPy's arrays is open."""
    return "numpy" in _engines


def engine_so_far() -> Engine | None:
    """The engine of NumPy's arrays; None where calls do without one so far."""
    return _engines.get("numpy") or (None if _does_without() else engine_for("numpy"))


def _does_without() -> bool:
    return is_on() and select.is_llvm_default()


def fused(program: Program, arrays: str) -> Fusion | None:
    """The steps of a call of several where some have one kernel; None where none do."""
    return engine_for(arrays).joined.fused(program, use_store=tuning_mode.uses_store())


def counted(
    program: Program, arrays: str, run: Callable[..., None], *, alone: bool
) -> Callable[..., None]:
    """What runs a call of several programs, of which some are fused where that pays.

    That says whether the calling thread runs them `alone`.
    """
    joined = engine_for(arrays).joined
    return joined.counted(program, run, use_store=tuning_mode.uses_store(), alone=alone)


def choose_ahead(md_homs: Sequence[MDHom], arrays: str) -> None:
    """Chooses the kernels of a call's several `md_hom`s side by side, where that takes compilers.

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
    """Reports a computation to the current tuning mode."""
    recording = tuning_mode.recording()
    if recording is not None:
        recording.add(md_hom, _place_of(arrays))


def saw_call(steps: Sequence[Step], arrays: str) -> None:
    """Reports a call that is about to run these steps to the current tuning mode."""
    if len(steps) < 2:
        return
    recording = tuning_mode.recording()
    if recording is not None:
        recording.add_call(tuple(steps), _place_of(arrays))
    elif tuning_mode.current_mode() == "tune":
        _tune_call(tuple(steps), arrays)


def _place_of(arrays: str) -> tuning_mode.CallPlace:
    """Where a call on these arrays is being made."""
    if arrays == "numpy":
        return tuning_mode.CallPlace()
    return tuning_mode.CallPlace(
        "cupy", engine_for("cupy").environment, cupy_arrays.current_device()
    )


def _tune_call(steps: tuning_mode.Steps, arrays: str) -> None:
    """Tunes those programs of a call of several that have no winner, and confirms the call."""
    engine = engine_for(arrays)
    unknown = [
        tuning_mode.RecordedCall(md_hom, repr(md_hom), arrays, (steps,))
        for md_hom in dict.fromkeys(step.md_hom for step in steps)
        if 0 not in md_hom.extents.values() and engine.winner(engine.problem_of(md_hom)) is None
    ]
    if unknown:
        tuning_mode.tune(unknown)
