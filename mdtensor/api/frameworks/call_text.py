"""Calls by text: serialised names of computations, gradients and batches, for framework graphs.

A graph holds operators, their tensors, and plain values; so what an operator computes of arrays is
said by a string. It is JSON: the name of a computation, or a form around another text. Every text
has a computation on arrays of given layouts, so gradients have gradients.
"""

from __future__ import annotations

import json
import uuid
import weakref
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from typing import Any

from mdtensor.api.calls import program_calls
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.plans.bound_arguments import ArgumentSlots
from mdtensor.api.plans.call_plan import CallPlan
from mdtensor.bounded import Bounded
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec, kind_of
from mdtensor.translate.gradients.pullback import pullback
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.programs.batched import batched
from mdtensor.translate.programs.other_operands import with_layouts, without_operands
from mdtensor.translate.rewrites.stages import staged

Array = Any

_MOST = 4096  # computations that are kept


Computation = Callable[[tuple[TensorSpec, ...]], Program]
"""A builder of the program of operand specs."""


class Held:
    """A handle that keeps a computation registered under its `text`."""

    __slots__ = ("__weakref__", "computation", "text")

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        # Of this process alone: a framework may keep graphs on disk.
        name = uuid.uuid4().hex
        self.text = _said("program", name)
        _held[name] = self


_held: weakref.WeakValueDictionary[str, Held] = weakref.WeakValueDictionary()
_holders = Bounded[Hashable, Held](_MOST)
_computations = Bounded[tuple[str, tuple[TensorSpec, ...]], Program](_MOST)
# Whether gradients by some operands look at the results of calls, which torch asks at every call.
_are_read = Bounded[tuple[str, tuple[TensorSpec, ...], tuple[int, ...]], bool](_MOST)


def held_as_text(program: Program) -> Held:
    """The handle of a program; equal programs share it while it is memoised."""
    return held_by_name(program, partial(with_layouts, program))


def held_by_name(name: Hashable, computation: Computation) -> Held:
    """The handle of a named computation, memoised."""
    return _holders.made(name, lambda: Held(computation))


def held_call(function: Callable[..., Any], *given: Any, **options: Any) -> Held:
    """The handle of a call that is one computation on its operands, arrays or specs.

    Raises what the call raises, and TranslationError for a call of several computations.
    """
    name = getattr(function, "__name__", "the function")
    found = CallPlan(name, name, ArgumentSlots.of(function, given, options)).program
    if found is None:
        raise TranslationError(f"a call of {name} is not one computation on its operands")
    return held_as_text(found)


def held_by(text: str) -> Held:
    """The handle that must be kept alive for a text to stay valid."""
    return _held[_name_in(text)]


@lru_cache(_MOST)
def _name_in(text: str) -> str:
    *_, (_, name) = _forms(text)
    return name


@lru_cache(_MOST)
def has_shapes(text: str) -> bool:
    """Whether a text fixes the shapes of its operands; a batched one leaves the batch open."""
    return "batched" not in [form for form, _ in _forms(text)]


def _forms(text: str) -> list[tuple[str, Any]]:
    """The nested forms of a text from the outermost, each with its first argument."""
    form, first, *_ = json.loads(text)
    found = [(form, first)]
    while form in ("pullback", "batched"):
        form, first, *_ = json.loads(first)
        found.append((form, first))
    return found


def pullback_text(
    text: str,
    operands: int,
    wanted: Sequence[int],
    given: Sequence[int],
    *,
    results: bool = True,
) -> str:
    """The text of a call's pullback.

    Its arrays are those of the call, its `results` unless it reads none of them, and cotangents of
    the results that are `given`; it gives the cotangents of the operands that are `wanted`.
    """
    return _said("pullback", text, operands, tuple(wanted), tuple(given), results)


def tangents_text(
    text: str,
    operands: int,
    given: Sequence[int],
    wanted: Sequence[int],
    *,
    results: int,
) -> str:
    """The text of the tangents of the results `wanted`, from those of the operands `given`.

    Cotangents of operands are linear in those of the results: the gradient of that is what takes
    tangents of operands to tangents of results. Its arrays are those of the call, so many of its
    `results`, anything in the place of the cotangents, at which it does not look, and the tangents.
    """
    back = pullback_text(text, operands, given, wanted, results=bool(results))
    first = operands + results
    places = range(first, first + len(wanted))
    return pullback_text(back, first + len(wanted), places, range(len(given)), results=False)


def batched_text(text: str, are_batched: Sequence[bool]) -> str:
    """The text of a call batched over the first axis of some operands."""
    return _said("batched", text, tuple(are_batched))


@lru_cache(_MOST)
def _said(*parts: Hashable) -> str:
    return json.dumps(parts, separators=(",", ":"), sort_keys=True)


def _run(text: str, *operands: Array, out: Any = None) -> Any:
    """Run the call of a text on arrays.

    >>> import numpy as np
    >>> from mdtensor.api.frontends.einsum.einsum import einsum
    >>> held = held_call(einsum, "i,i->", np.arange(3.0), np.arange(3.0))
    >>> run(held.text, np.arange(3.0), np.arange(3.0))
    np.float64(5.0)
    """
    return program_calls.call(
        ("by its text", text), operands, lambda specs: computation_of(text, specs), out
    )


run = with_call_cache(_run, front_end="a call by its text", by_layout=True)


def computation_of(text: str, specs: tuple[TensorSpec, ...]) -> Program:
    """The memoised program of a text, on operands of these specs.

    Raises TranslationError for operands of other shapes or types.
    """
    return _computations.made((text, specs), lambda: _translated(text, specs))


def results_of(text: str, specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    """The specs of a call's results."""
    return computation_of(text, specs).results


def reads_results(
    text: str, specs: tuple[TensorSpec, ...], wanted: Sequence[int] | None = None
) -> bool:
    """Whether the pullback of a call reads its results, so that they must be saved.

    It is the pullback to the operands that are `wanted`, to all of floating point if none are said.
    """
    if wanted is None:
        wanted = [n for n, spec in enumerate(specs) if kind_of(spec.dtype) == "f"]
    asked = tuple(wanted)
    return _are_read.made((text, specs, asked), lambda: _reads_results(text, specs, asked))


def _reads_results(text: str, specs: tuple[TensorSpec, ...], wanted: tuple[int, ...]) -> bool:
    found = computation_of(text, specs)
    given = [n for n, spec in enumerate(found.results) if kind_of(spec.dtype) == "f"]
    every = (*specs, *found.results, *(found.results[n] for n in given))
    back = pullback(found, every, wanted, given)
    results = range(len(specs), len(specs) + len(found.results))
    return any(slot in results for step in back.steps for slot in step.operands)


def _translated(text: str, specs: tuple[TensorSpec, ...]) -> Program:
    form, *rest = json.loads(text)
    if form == "pullback":
        of, operands, wanted, given, has_results = rest
        inner = computation_of(of, specs[:operands])
        if has_results:
            return staged(pullback(inner, specs, wanted, given))
        every = (*specs[:operands], *inner.results, *specs[operands:])
        unread = range(operands, operands + len(inner.results))
        return staged(without_operands(pullback(inner, every, wanted, given), unread))
    if form == "batched":
        of, are_batched = rest
        pairs = zip(specs, are_batched, strict=True)
        each = tuple(_element(spec) if is_batched else spec for spec, is_batched in pairs)
        return batched(computation_of(of, each), specs, are_batched)
    return _held[rest[0]].computation(specs)


def _element(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(spec.dtype, spec.shape[1:], spec.strides[1:])
