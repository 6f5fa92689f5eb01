"""The call cache: a repeated call goes from its arguments directly to its kernels.

Every front end is wrapped in `with_call_cache`. A call's key is what the caller wrote: layouts of
arrays, values of everything else, functions by what they say. The first call with a key is made in
full, and what it ran is noted; where these were computations on arrays that the caller gave, and on
what they gave, later calls with this key run their kernels and nothing else, until better kernels
replace these, see `invalidation.drop`.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from types import FrameType
from typing import Any, ParamSpec, cast

import numpy as np

from mdtensor import torch_compile
from mdtensor.api.arrays import cupy_arrays, device_scope, invalidation
from mdtensor.api.arrays.array_collections import collection_among
from mdtensor.api.arrays.torch_tensors import (
    FollowedError,
    as_given,
    in_torch,
    mark_written,
    stream_of_call,
    taken,
)
from mdtensor.api.calls import call_trace
from mdtensor.api.calls.call_key import Described, NotPlainError, describer, typical, with_out
from mdtensor.api.calls.call_recorder import (
    OUT,
    REFUSED,
    ByContent,
    Launch,
    RecordedComputation,
    launch_of,
)
from mdtensor.api.calls.hot_calls import MISSED, HotCalls
from mdtensor.api.calls.launchers import LaunchTable, telling, told_of
from mdtensor.api.engine import tuning_mode
from mdtensor.bounded import Bounded
from mdtensor.precedence import prepared, preparing
from mdtensor.scoped import Result, Setting, scoped
from mdtensor.stage_timer import stage
from mdtensor.translate.tracing import TRACED

P = ParamSpec("P")
Array = Any
# From the arguments of a call to what runs it, where that takes no call in full.
AtOnce = Callable[[Sequence[Any], Mapping[str, Any]], Launch | None]

SIZE = 4096  # calls that a front end's table holds
_ndarray = np.ndarray
_LINKED = "mdtensor.api.parts.linked_calls"
NO_TENSORS = object()  # what is given of a call without tensors of torch


# What the calls of this context have run so far, where one of them may be recalled later.
_recording: ContextVar[list[RecordedComputation | None] | None] = ContextVar(
    "recording", default=None
)
_active = invalidation.watchers
# What makes a call on lazy arrays in this context, which is differentiated: it gets the function
# and its arguments. None where nothing is.
Tracer = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any]
tracer: ContextVar[Tracer | None] = ContextVar("tracer", default=None)
# What plans the calls of this context; see `program_calls`.
planner: ContextVar[Callable[[Any], Any] | None] = ContextVar("planner", default=None)


def note(noted: RecordedComputation) -> None:
    """Records the computation that the current call ran, for the call cache."""
    if _active and (notes := _recording.get()) is not None:
        notes.append(noted)


# Whether a front end makes the calls of this context, and no function of a user's.
_of_front_end: ContextVar[bool] = ContextVar("of front end", default=False)
_PASSING = frozenset({"mdtensor", "numpy", *sys.stdlib_module_names})

# With these, a call that a traced function makes is no part of the call that traces it: its result
# is a constant.
APART: list[Setting] = [
    (_recording, None),
    (tracer, None),
    (planner, None),
    (TRACED, None),
    (_of_front_end, False),
]


def is_noting() -> bool:
    """Whether the current call is being recorded."""
    return bool(_active) and _recording.get() is not None


def of_front_end(function: Callable[P, Result], /, *args: P.args, **options: P.kwargs) -> Result:
    """Call a front end whose nested calls are part of it, unless they are apart."""
    return scoped([(_of_front_end, True)], function, *args, **options)


def is_apart() -> bool:
    """Whether the current call is no part of the one within which it is made.

    So are those of functions that are traced, of signal handlers and of finalizers. Between the
    latter two and the front end that they interrupt lies a frame of a user's module.
    """
    if TRACED.get() is not None:
        return True
    if not _of_front_end.get():
        return False
    frame: FrameType | None = vars(sys)["_getframe"](1)
    while frame is not None and frame.f_code is not of_front_end.__code__:
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _PASSING:
            return True
        frame = frame.f_back
    return False


# Holds what has calls of this context ask, for as long as the context is there.
_watch: ContextVar[invalidation.ContextWatch | None] = ContextVar("watch", default=None)


def watching() -> Setting:
    """The setting under which calls check for a tracer."""
    return _watch, invalidation.watch()


def noting(notes: list[RecordedComputation | None]) -> tuple[Setting, Setting]:
    """The settings for nested calls: each runs uncached and is recorded."""
    return (_recording, notes), watching()


def _is_seen() -> bool:
    """Whether the current call must bypass the cache, because it is recorded or observed."""
    return bool(_active) and (_recording.get() is not None or tuning_mode.is_watching())


def _usable_launch(launch: Launch, arrays: Sequence[Any]) -> Launch | None:
    """The cached launch, unless the call bypasses the cache; reported to an open trace."""
    if _is_seen():
        return None
    found = launch.launch_for(arrays) if isinstance(launch, ByContent) else launch
    return call_trace.traced_launch(launch, told_of(found))


def in_full() -> None:
    """Keeps the current call out of the cache, for calls that must warn every time."""
    if _active and (notes := _recording.get()) is not None:
        notes += None, None


def is_traced(argument: object) -> bool:
    """Whether an argument is a lazy array, for the tracer of this context to handle."""
    return tracer.get() is not None and hasattr(type(argument), "evaluate")


def with_call_cache(
    function: Callable[P, Any],
    of: Callable[[Any], Hashable] | None = None,
    *,
    numbers: bool = False,
    at_once: AtOnce | None = None,
    front_end: str = "",
    by_layout: bool = False,
) -> Callable[P, Any]:
    """Decorates a function of arrays and options with a cache of its calls.

    `of` gives the key of the first argument, where that is what a method belongs to. `numbers`
    says that Python's floating-point numbers are handed to kernels when they run, as arrays are.
    `at_once` gives what runs a call with a new key on the arrays in it, if it knows that.
    Traces call it `front_end`, by default as the function is called. `by_layout` says that what a
    call runs follows from the layouts of its arrays, also of those that no kernel reads.
    """
    whole: Callable[..., Any] = function
    name = front_end or function.__name__
    known = LaunchTable[tuple[object, ...], Launch](SIZE)
    known_get = known.get
    described = describer(of, numbers=numbers)
    hot = HotCalls()
    invalidation.register(hot)
    # Calls that were made once: the built-in function gets those that come again.
    once = Bounded[tuple[object, ...], bool](SIZE)

    def kept_at_once(
        key: tuple[object, ...], args: Sequence[Any], options: Mapping[str, Any]
    ) -> Launch | None:
        """The launch of a call with a new key by `at_once`, cached; None where there is none."""
        assert at_once is not None
        generation = invalidation.generation()
        launch = at_once(args, options)
        if launch is not None:
            _keep(known, key, launch, generation)
            once.keep(key, True)
        return launch

    def repeated(
        key: tuple[object, ...], args: Sequence[Any], options: Mapping[str, Any], launch: Launch
    ) -> None:
        """Registers a call on its first repetition for the built-in fast path."""
        if key in once and not _is_seen():
            generation = invalidation.generation()
            if known_get(key) is launch and once.pop(key, False):
                guarded(args, options, launch, generation)

    def guarded(
        args: Sequence[Any], options: Mapping[str, Any], launch: Launch, generation: int
    ) -> None:
        """Adds the call's launch to the built-in fast path."""
        if of is None and not _is_seen() and tuning_mode.apart() is None:
            hot.add(args, options, launch, generation)

    def kept_for(
        device: int, key: tuple[object, ...], args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """Call on a device that is not current, and cache a launch that switches to it."""
        generation = invalidation.generation()
        with device_scope.at(device):
            result = called(*args, **options)
        launch = known_get((*key[:-1], device))
        if launch is not None:
            there = telling(device_scope.launched_at(device, launch), told_of(launch))
            _keep(known, key, there, generation)
        return result

    def on_tensors(args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Call on arrays that share the memory of torch's tensors; NO_TENSORS without any."""
        result = shared(args, options)
        mark_written(options.get("out", tuple(each for each in args if each is result)))
        return result

    def shared(args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Call on arrays that share the memory of tensors, on torch's stream."""
        if (stream := stream_of_call(args, options)) is not None:
            return in_torch(stream, shared, args, options)
        try:
            given = taken(args, options)
        except FollowedError:
            calls = importlib.import_module("mdtensor.api.frameworks.autograd_calls")
            return calls.called(whole, args, options, described)
        if given is not None:
            key, arrays, launch, generation = (), [], None, invalidation.generation()
            with suppress(NotPlainError, TypeError, RecursionError):  # beside the tensors
                key, arrays = described(given.args, given.options)
                launch = known_get(key)
            if launch is not None and not (_active and _is_seen()):
                like_this = (*key, *map(type, (*args, *options.values())))
                if like_this not in known:
                    guarded(args, options, launch, generation)
                    _keep(known, like_this, launch, generation)
                result = launch(*arrays)
                if result is OUT:
                    return options["out"]
                if result is not REFUSED:
                    return given.returned(result)
        if given is None or given.on_cuda:
            given = taken(args, options, owned=True)  # made in full, a call may keep an array
        if given is None:
            return NO_TENSORS
        return given.returned(called(*given.args, **given.options))

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        if (quick := hot.call) is not None:
            result = quick(*args, **options)
            if result is not MISSED:
                if options and invalidation.has_tensors:
                    mark_written(options.get("out"))
                return result
        key = typical(args)
        if options and key is not None:
            key = with_out(key, options)
        if key is not None and _active:
            key = _with_ending(key, args)
        if key is not None:
            launch = known_get(key)
            if launch is not None:
                if once:
                    repeated(key, args, options, launch)
            elif at_once is not None:
                launch = kept_at_once(key, args, options)
            if launch is not None:
                if options:
                    result = launch(*args[1:], options["out"])
                    if result is OUT:
                        return options["out"]
                else:
                    result = launch(*args[1:])
                if result is not REFUSED:
                    return result
        if invalidation.has_tensors and (found := on_tensors(args, options)) is not NO_TENSORS:
            return found
        if _active and is_apart():
            return scoped(APART, called, *args, **options)
        if _active and call_trace.begins():
            return call_trace.traced(name, called, args, options)
        try:
            key, arrays = described(args, options)
            launch = known_get(key)
        except (NotPlainError, TypeError, RecursionError):  # no hash, or it holds itself
            key, arrays, launch = None, [], None
        if key is None and (found := on_tensors(args, options)) is not NO_TENSORS:
            return found
        if key is None:  # out of the handler: what is raised now has nothing to do with keys
            if _active:
                call_trace.record_miss(None, known)
                if (trace := tracer.get()) is not None:
                    return trace(whole, args, options)
            if module := collection_among((*args, *options.values())):
                calls = importlib.import_module(module)
                return calls.called(called, args, options, described)
            result = device_scope.called_there(whole, args, options)
            return as_given(result, args, options) if invalidation.has_tensors else result
        if launch is not None and once:
            repeated(key, args, options, launch)
        if launch is not None and _active:
            launch = _usable_launch(launch, arrays)
        if launch is not None:
            result = launch(*arrays)
            if result is OUT:
                return options["out"]
            if result is not REFUSED:
                return result
        if _active:
            call_trace.record_miss(key, known)
        if is_noting():  # a part of the call that is being made
            return whole(*args, **options)
        device = None if cupy_arrays.array_class is None else device_scope.elsewhere(args, options)
        if device is not None:
            return kept_for(device, key, args, options)
        if at_once is not None:
            with stage("choose"):
                launch = kept_at_once(key, args, options)
            if launch is not None:
                with stage("run"):
                    return launch(*arrays)
        return _in_full(whole, known, described, once, args, options, by_layout=by_layout)

    torch_compile.in_graphs(called)
    return cast("Callable[P, Any]", called)


def _with_ending(key: tuple[object, ...], args: tuple[Any, ...]) -> tuple[object, ...] | None:
    """The key of a call with the tuning mode's suffix; None where the cache is bypassed."""
    if type(args[1]) is not _ndarray or _recording.get() is not None or not call_trace.is_quiet():
        return None
    ending = tuning_mode.ending()
    return None if ending is None else (*key, *ending)


def _in_full(
    whole: Callable[..., Any],
    known: Bounded[tuple[object, ...], Launch],
    described: Described,
    once: Bounded[tuple[object, ...], bool],
    args: tuple[Any, ...],
    options: Mapping[str, Any],
    *,
    by_layout: bool,
) -> Any:
    """Call past the cache, and cache the launch if it can be repeated."""
    args, options, originals = _deduplicated(args, options)
    key, arrays = described(args, options)
    notes: list[RecordedComputation | None] = []
    generation = invalidation.generation()
    preparing()
    try:
        result = scoped([*noting(notes), (TRACED, None)], of_front_end, whole, *args, **options)
    finally:
        prepared()
    noted = notes[0] if len(notes) == 1 and generation == invalidation.generation() else None
    if noted is not None and len(set(map(id, arrays))) == len(arrays):
        found = launch_of(noted, arrays, result, options.get("out"), by_layout=by_layout)
        if found is not None:
            _keep_by_content(known, key, *found, arrays, generation)
            launch, contents = found
            if not contents:
                once.keep(key, True)
    elif len(notes) > 1 and None not in notes and generation == invalidation.generation():
        linked = importlib.import_module(_LINKED)
        launch = linked.launch_of_several(whole, args, options, arrays)
        if launch is not None:
            _keep(known, key, launch, generation)
            once.keep(key, True)
    call_trace.record_cached(key, known)
    return originals.get(id(result), result)


def _keep(
    known: Bounded[tuple[object, ...], Launch],
    key: tuple[object, ...],
    launch: Launch,
    generation: int,
) -> None:
    """Caches a launch, unless kernels have changed since `generation`."""
    if generation == invalidation.generation():
        known.keep(key, launch)


def _keep_by_content(
    known: Bounded[tuple[object, ...], Launch],
    key: tuple[object, ...],
    launch: Launch,
    positions: tuple[int, ...],
    arrays: Sequence[Any],
    generation: int,
) -> None:
    """Caches a launch that depends on the contents of the arrays at some positions."""
    if not positions:
        _keep(known, key, launch, generation)
        return
    asks = known.get(key)
    if not isinstance(asks, ByContent) or asks.positions != positions:
        asks = ByContent(known, positions)
    _keep(known, asks.key(arrays), launch, generation)
    _keep(known, key, asks, generation)


def _deduplicated(
    args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], dict[int, Array]]:
    """Arguments with repeated arrays replaced by views; a table from views to originals.

    So what becomes of each argument can be seen.
    """
    seen: set[int] = set()
    originals: dict[int, Array] = {}

    def apart(value: Any) -> Any:
        if type(value) is _ndarray and id(value) in seen:
            original, value = value, value.view()
            originals[id(value)] = original
        seen.add(id(value))
        return value

    args = tuple(map(apart, args))
    return args, {name: apart(value) for name, value in options.items()}, originals
