"""Contraction paths: the order in which several operands are contracted."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from mdtensor.errors import PathError, shown
from mdtensor.translate.einsum.contraction import Contraction

Path = tuple[tuple[int, ...], ...]
Optimize = bool | str | Sequence[Any] | None

# Work that takes as long as one more launch: a few microseconds of arithmetic on one core.
LAUNCH_OPERATIONS = 50_000


def checked_optimize(optimize: Any) -> Optimize:
    """The `optimize` argument as a hashable value.

    Raises PathError for what is neither True, False, None, a name, a name with a limit on the
    elements of intermediates, nor a path that begins with "einsum_path".
    """
    given: object = optimize
    if optimize is None or isinstance(optimize, str):
        return optimize
    if type(optimize) in (bool, np.bool_):
        return bool(optimize)
    stages: tuple[Any, ...] = ()
    if isinstance(optimize, list | tuple):
        stages = tuple(cast("Sequence[Any]", optimize))
    if stages and isinstance(stages[0], str):
        if stages[0] == "einsum_path":
            return "einsum_path", *_positions(stages[1:])
        if len(stages) == 2 and isinstance(stages[1], int | float) and 0 <= stages[1] < math.inf:
            return stages
    raise PathError(
        f"{shown(given)} is no path",
        hint="give a name, (name, limit) or ['einsum_path', (0, 1), …]",
    )


def _positions(stages: Sequence[Any]) -> Path:
    try:
        return tuple(tuple(operator.index(p) for p in stage) for stage in stages)
    except TypeError:
        raise PathError(
            f"{shown(list(stages))} is no path", hint="a path is a list of tuples of ints"
        ) from None


def given_path(optimize: Optimize) -> Path | None:
    """The stages of an explicit path; None for other values of `optimize`."""
    if isinstance(optimize, tuple) and optimize[0] == "einsum_path":
        return cast("Path", optimize[1:])
    return None


def check_path(path: Sequence[Sequence[int]], operands: int) -> None:
    """Raises PathError where a path does not contract all operands to one array."""
    left = operands
    for positions in path:
        if not all(0 <= p < left for p in positions) or len({*positions}) < len(positions):
            raise PathError(
                f"the path contracts operands {shown(tuple(positions))} where {left} are left"
            )
        left += 1 - len(positions)
    if left != 1 or not path:
        raise PathError(
            "the path does not end with one array",
            notes=[f"path: {shown(list(path))}"],
            hint=f"contract all {operands} operands, and what comes of them",
        )


def contraction_path(
    contraction: Contraction, shapes: Sequence[Sequence[int]], optimize: Optimize
) -> Path:
    """The stages of a contraction, each the positions of its operands in the list of those left.

    The result of a stage goes to the end of the list. A path that the caller gives as
    `["einsum_path", (0, 1), …]` is taken as it is; a name, or a name and a limit on the elements of
    intermediates, selects one of opt_einsum's algorithms; True, False and None leave the choice
    to mdtensor.

    Raises PathError for a name that nobody knows, and for stages that are none.
    """
    whole = (tuple(range(len(shapes))),)
    if (path := given_path(optimize)) is not None:
        check_path(path, len(shapes))
        return path
    if isinstance(optimize, Sequence) and not isinstance(optimize, str):
        name, limit = optimize
        return _found(contraction, name, int(limit)) if len(shapes) > 2 else whole
    if len(shapes) <= 2:
        return whole
    if isinstance(optimize, str):
        return _found(contraction, optimize, None)
    path = _found(contraction, "auto", None)
    return whole if prefers_fused(contraction, path) else path


def prefers_fused(contraction: Contraction, path: Path) -> bool:
    """Whether a single `md_hom` over all dims takes no more work than a staged path.

    It needs no intermediate arrays and one launch; the path saves arithmetic.
    """
    staged = 0
    terms = [frozenset(names) for names in contraction.inputs]
    for positions in path:
        chosen = [terms[position] for position in positions]
        terms = [term for n, term in enumerate(terms) if n not in positions]
        touched = frozenset[str]().union(*chosen)
        needed = frozenset(contraction.output).union(*terms)
        terms.append(touched & needed)
        staged += _points(touched, contraction.extents) * len(chosen) + LAUNCH_OPERATIONS
    fused = _points(contraction.extents, contraction.extents) * len(contraction.inputs)
    return fused + LAUNCH_OPERATIONS <= staged


def _points(
    names: Sequence[str] | frozenset[str] | Mapping[str, int], extents: Mapping[str, int]
) -> int:
    return math.prod(extents[name] for name in names)


def unknown_path(name: str) -> PathError:
    """The error for an unknown name of a path."""
    return PathError(
        f"unknown path {shown(name)}", hint="'greedy', 'optimal', 'auto' and others of opt_einsum"
    )


def _found(contraction: Contraction, name: str, limit: int | None) -> Path:
    from opt_einsum.paths import get_path_fn

    try:
        find = get_path_fn(name)
    except KeyError:
        raise unknown_path(name) from None
    found = find(
        [frozenset(names) for names in contraction.inputs],
        frozenset(contraction.output),
        dict(contraction.extents),
        limit,
    )
    return tuple(tuple(sorted(stage)) for stage in found)
