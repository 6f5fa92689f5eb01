"""Mode "online": calls' programs are watched, and their computations searched."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from mdtensor.api.engine import registry
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import DeferredChoice, KernelChoice
from mdtensor.api.tuning.online.background_workshop import BackgroundWorkshop, Costs
from mdtensor.api.tuning.online.call_check import CallCheck, seconds_of_check, written_bytes
from mdtensor.api.tuning.online.online_search import OnlineSearch, Trusted
from mdtensor.api.tuning.online.space_explorer import SpaceExplorer
from mdtensor.api.tuning.online.watched_program import Watch, WatchedProgram
from mdtensor.bounded import Bounded
from mdtensor.lower.problem.problem import Problem

Chosen = TypeVar("Chosen", KernelChoice, DeferredChoice)

_MOST_SEARCHES = 1024
_MOST_BYTES = 1 << 28  # of results, which candidates have memory of their own for
_OFTEN = 50  # the launch of a shape that nobody looked at with which it is looked at

_searches = Bounded[tuple[Engine, Problem], OnlineSearch](_MOST_SEARCHES)
# What the searches on an engine have in common.
_shared: WeakKeyDictionary[Engine, tuple[Costs, SpaceExplorer]] = WeakKeyDictionary()


def watched(share: float, engine: Engine, chosen: Chosen) -> Chosen:
    """The choice with a program that an online search watches; unchanged where none runs.

    That is the case on GPUs, and for computations that had a winner before.
    """
    if engine.target.kind != "cpu":
        return chosen
    if isinstance(chosen, DeferredChoice):
        watch = partial(_watch_unseen, engine, chosen)
        return replace(chosen, program=WatchedProgram(chosen.program, watch, share, _OFTEN))
    if _watch_of(engine, chosen) is None:
        return chosen
    watch = partial(_watch_of, engine, chosen)
    return replace(chosen, program=WatchedProgram(chosen.program, watch, share))


def _shared_by(engine: Engine) -> tuple[Costs, SpaceExplorer]:
    found = _shared.get(engine)
    if found is None:
        explorer = SpaceExplorer(engine, registry.device_name())
        found = _shared.setdefault(engine, (Costs(), explorer))
    return found


def _watch_unseen(engine: Engine, unseen: DeferredChoice) -> Watch | None:
    return _watch_of(engine, unseen.choice())


def _watch_of(engine: Engine, choice: KernelChoice) -> Watch | None:
    """The online search for a kernel better than a choice; None where none runs, or it ended."""
    problem = choice.problem
    search = _searches.get((engine, problem))
    if search is None:
        if choice.origin == "tuned" or written_bytes(problem) > _MOST_BYTES:
            return None
        search = OnlineSearch(
            BackgroundWorkshop(engine, problem, *_shared_by(engine)),
            partial(CallCheck, problem),
            seconds_of_check(problem),
        )
        _searches.keep((engine, problem), search)
    if search.is_over:
        return None
    is_winner = choice.origin == "tuned"
    trusted = Trusted(choice.program, choice.source, choice.schedule, choice.is_general, is_winner)
    return trusted, search
