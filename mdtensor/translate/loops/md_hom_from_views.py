"""The DSL's `out_view`, `md_hom` and `inp_view` as an `MDHom`.

Definitions: 002, section 4.2.1, Figure 12, and section 7.1; in Python, 003, Listings 6 and 7.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError, count_of
from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.source_loop_nest import Nest, SourceLoop, SourceRead
from mdtensor.translate.loop_nests.symbolic_buffers import SymbolicBuffer
from mdtensor.translate.loops.loop_results import Given, LoopResult, combines_of, md_hom_of_results
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.operators.assigning_functions import parameters_of, results_of_assigning
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.python.expr_from_function import no_function, traced
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.python.tuples import as_tuple
from mdtensor.translate.scalar import I64, Expr, as_expr

Accesses = tuple[tuple[str, tuple[Callable[..., Any], ...]], ...]
"""Names of buffers, each with the index functions of its accesses."""


@dataclass(frozen=True, slots=True)
class Views:
    """A program of the DSL: index functions, extents, scalar function, operators."""

    outputs: Accesses
    inputs: Accesses
    extents: tuple[int, ...]
    function: Callable[..., Any]
    combinations: tuple[Combination, ...]


class _Gathers:
    """Records reads by index functions; refuses stores."""

    def __init__(self, nest: Nest, loops: tuple[SourceLoop, ...], node: Any) -> None:
        self._nest = nest
        self._loops = loops
        self._node = node

    def read(self, buffer: SymbolicBuffer, index: tuple[Expr, ...]) -> Expr:
        return self._nest.add(
            SourceRead(buffer.name, index, buffer.dtype, 0, self._loops, (), self._node)
        )

    def store(
        self, buffer: SymbolicBuffer, index: tuple[Expr, ...], value: Any, where: Any = True
    ) -> None:
        raise TranslationError(f"an index function writes to {buffer.name}")


def md_hom_from_views(
    source: FunctionSource,
    views: Views,
    specs: Mapping[str, TensorSpec],
    outputs: Mapping[str, Given],
) -> MDHom:
    """The `md_hom` of views on inputs of the given specs; outputs have specs or only types.

    Index functions take an index for every dim, and return one for every axis. What they take by
    keyword only are inputs, from which they may read indices: `lambda i, j, *, idx: (idx[i], j)`.
    The scalar function takes the elements of all accesses in order; one with parameters named
    `out` and `inp` assigns the outputs by name (002, Listing 45).
    """
    if len(views.combinations) != len(views.extents):
        raise TranslationError(
            f"md_hom has {count_of(len(views.extents), 'size', 'sizes')}"
            f" but {count_of(len(views.combinations), 'operator', 'operators')}",
            hint="a size and an operator for every dim",
        )
    names = _dims(views)
    loops = tuple(
        SourceLoop(name, extent, (), name)
        for name, extent in zip(names, views.extents, strict=True)
    )
    nest = Nest()
    gathers = _Gathers(nest, loops, source.node)
    buffers = {name: SymbolicBuffer(name, spec, gathers) for name, spec in specs.items()}
    elements: dict[str, list[Expr]] = {}
    for name, functions in views.inputs:
        for function in functions:
            index = _index(function, names, buffers)
            elements.setdefault(name, []).append(buffers[name].element(index))
    places = [
        (name, _index(function, names, {}))
        for name, functions in views.outputs
        for function in functions
    ]
    values = _values(views, elements)
    results = [
        LoopResult.of(source, name, index, value, _dtype(outputs[name]), source.node)
        for (name, index), value in zip(places, values, strict=True)
    ]
    combines = combines_of(nest, results, loops, views.combinations)
    return md_hom_of_results(nest, source, loops, specs, outputs, results, combines)


def _dtype(given: Given) -> np.dtype:
    return given.dtype if isinstance(given, TensorSpec) else given


def _dims(views: Views) -> tuple[str, ...]:
    """Names of the dims: the parameters of the first output's index function."""
    name, accesses = views.outputs[0]
    if not accesses:
        raise TranslationError(f"out_view has no index function of {name}", hint="w=[lambda i: i]")
    first = accesses[0]
    names = parameters_of(first)
    if len(names) != len(views.extents):
        raise TranslationError(
            f"an index function takes {count_of(len(names), 'index', 'indices')}, but md_hom has"
            f" {count_of(len(views.extents), 'size', 'sizes')}"
        )
    return names


def _index(
    function: Callable[..., Any], names: Sequence[str], buffers: Mapping[str, SymbolicBuffer]
) -> tuple[Expr, ...]:
    indices = [Expr("index", (), I64, name, weak=True) for name in names]
    if len(parameters_of(function)) != len(names):
        raise TranslationError(
            f"an index function takes {count_of(len(parameters_of(function)), 'index', 'indices')},"
            " another one"
            f" {len(names)}",
            hint=f"lambda {', '.join(names)}: …",
        )
    keywords = [
        p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY
    ]
    for name in keywords:
        if name not in buffers:
            raise TranslationError(f"an index function reads {name!r}, which is no input")
    found = traced(function, *indices, **{name: buffers[name] for name in keywords})
    return tuple(as_expr(axis) for axis in as_tuple(found))


def _values(views: Views, elements: Mapping[str, list[Expr]]) -> list[Any]:
    """The scalar function's results, in the order of the outputs' accesses."""
    counts = {name: len(functions) for name, functions in views.outputs}
    if parameters_of(views.function) == ("out", "inp"):
        given = {n: e[0] if len(e) == 1 else tuple(e) for n, e in elements.items()}
        assigned = results_of_assigning(views.function, given, list(counts))
        values = [
            value
            for name, count in counts.items()
            for value in ((assigned[name],) if count == 1 else assigned[name])
        ]
    else:
        every = [element for listed in elements.values() for element in listed]
        _check_count(views.function, len(every))
        values = list(as_tuple(traced(views.function, *every)))
    if len(values) != sum(counts.values()):
        raise TranslationError(
            f"the scalar function gives {len(values)} values for {sum(counts.values())} outputs"
        )
    return values


def _check_count(function: Callable[..., Any], count: int) -> None:
    if not callable(function):
        raise no_function(function)
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        raise TranslationError(
            f"the views read {count} elements, which the scalar function does not take",
            hint="a parameter for every access, in the order of inp_view",
        ) from None
    except ValueError:  # a function without a signature
        return
