"""From a user's `combine` argument to the combination and the order of all dims."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from mdtensor.errors import SubscriptError, TranslationError
from mdtensor.options import is_one_of
from mdtensor.translate.combine import NAMES, PAIR_NAMES
from mdtensor.translate.einsum.index_space import IndexSpace
from mdtensor.translate.operators.combination import Combination, cc, ps, pw
from mdtensor.translate.operators.combine_operators import OperatorFunction, operator_name

# A name, a function or an Operator for all dims, or one (or a Combination) for each of some dims.
Said = Any


def combinations_of_dims(
    said: Said, text: str, space: IndexSpace, *, scans: bool = False
) -> dict[str, Combination]:
    """The combination of every dim, in the order of an `md_hom`: the last is applied first.

    `said` is an operator for all dims that the output lacks, or for the one that is scanned, or a
    mapping from dims to operators or Combinations, which are applied in its order. With `scans`,
    an operator of a dim that stays scans it. Dims stand in the order of their first use in the
    string where nothing says another one, or none makes a difference.

    Raises SubscriptError where a dim that the output lacks has no operator, or one that the output
    has would be reduced, and TranslationError for operators of dims in no order.

    >>> from mdtensor.translate.einsum.index_space import index_space
    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.subscripts import parse
    >>> space = index_space(parse("ij->i"), [TensorSpec.of((2, 3))])
    >>> combinations_of_dims("max", "ij->i", space)
    {'i': cc, 'j': pw('max')}
    >>> space = index_space(parse("ij->"), [TensorSpec.of((2, 3))])
    >>> combinations_of_dims({"i": "add", "j": "max"}, "ij->", space)
    {'j': pw('max'), 'i': pw('add')}
    """
    if isinstance(said, set | frozenset | list | tuple):
        raise _in_no_order(said, space)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(said, Mapping):
        if scans:
            said = {_only_dim(text, space): said}
        else:
            return {d: cc if d in space.output else pw(said) for d in space.extents}
    by_dim: Mapping[str, object] = dict(said)  # pyright: ignore[reportUnknownArgumentType]
    for name in by_dim:
        if name not in space.extents:
            raise SubscriptError(
                f"combine names dim {name!r}, which the string does not have",
                text=text,
                hint=f"its dims are {', '.join(map(repr, space.extents))}",
            )
    found = {
        name: _combination(text, name, by_dim.get(name), name in space.output, scans)
        for name in space.extents
    }
    applied = [name for name in by_dim if found[name].kind != "cc"]
    return _with_last_applied_first(found, applied)


def _with_last_applied_first(
    combinations: Mapping[str, Combination], applied: Sequence[str]
) -> dict[str, Combination]:
    """Reorder dims so that the operators are applied in the order `applied`.

    Dims of one operator that commutes stay in their order, and so does what is not combined.
    """
    places = {name: place for place, name in enumerate(combinations)}
    runs = [list(run) for _, run in itertools.groupby(applied, lambda n: _alike(combinations[n]))]
    for run in runs:
        is_any_order = _commutes(combinations[run[0]].operator)
        run.sort(key=lambda name: places[name] if is_any_order else -applied.index(name))
    combined = iter([name for run in reversed(runs) for name in run])
    order = [next(combined) if name in applied else name for name in combinations]
    return {name: combinations[name] for name in order}


def _alike(combination: Combination) -> object:
    """A key that is equal for combinations with the same operator."""
    said = combination.operator
    # By identity: what was given for an operator may be an array, which compares its elements.
    return operator_name(said) or (said if isinstance(said, OperatorFunction) else id(said))


def _commutes(said: object) -> bool:
    if isinstance(said, OperatorFunction):
        return said.commutative
    return operator_name(said) in (*NAMES, *PAIR_NAMES)


def _in_no_order(said: Any, space: IndexSpace) -> TranslationError:
    """The error for operators given without an order."""
    names = [name for name in space.extents if name not in space.output]
    first, second = (names * 2)[:2] if names else ("i", "j")
    return TranslationError(
        f"combine is a {type(said).__name__}, which does not say what is combined first",
        hint=f"a dict from dims to operators, in order: {{{first!r}: 'add', {second!r}: 'min'}} is"
        f" the minimum along {second} of the sums along {first},"
        f" {{{second!r}: 'min', {first!r}: 'add'}} the sum along {first} of the minima along"
        f" {second}",
    )


def _only_dim(text: str, space: IndexSpace) -> str:
    if len(space.output) == 1:
        return space.output[0]
    if not space.output:
        raise SubscriptError(
            "no dim is left to be scanned", text=text, hint="the output names the dims that stay"
        )
    raise SubscriptError(
        "several dims could be scanned",
        text=text,
        hint=f"say which: combine={{{space.output[-1]!r}: …}}",
    )


def _combination(text: str, name: str, said: object, stays: bool, scans: bool) -> Combination:
    """The combination of one dim; `said` is None if none was given."""
    if said is None or said is cc or is_one_of(said, ("cc",)):
        if stays:
            return cc
        raise SubscriptError(
            f"dim {name!r} is not in the output, but no operator combines it",
            text=text,
            hint=f"combine={{{name!r}: 'add', …}}, or let the output have it",
        )
    if not isinstance(said, Combination):
        said = ps(said) if stays and scans else pw(said)
    if stays and said.kind == "pw":
        raise SubscriptError(
            f"dim {name!r} is in the output, but {said!r} would reduce it",
            text=text,
            hint=f"leave it out of the output, or scan it: combine={{{name!r}: ps(…)}}",
        )
    if not stays and said.kind == "ps":
        raise SubscriptError(
            f"dim {name!r} is scanned by {said!r}, but the output does not have it",
            text=text,
            hint="a scan keeps its dim",
        )
    return said


def operator_names(combinations: Mapping[str, Combination]) -> list[str | None]:
    """Operator names of all combined dims; None for unnamed ones."""
    return [operator_name(c.operator) for c in combinations.values() if c.kind != "cc"]
