"""Einsum strings: parsed, and given a meaning on the shapes of operands.

The grammar is that of `numpy.einsum`: letters, commas, an ellipsis per term, one arrow, blanks.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mdtensor.errors import SubscriptError
from mdtensor.specs import TensorSpec

LETTERS = frozenset(string.ascii_letters)
ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a term as it is written: a letter or an ellipsis, and its column."""

    name: str
    column: int


Term = tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Subscripts:
    """An einsum string in its parts; `output` is None where it has no arrow.

    >>> parse("ij, jk")
    ij,jk
    """

    text: str
    inputs: tuple[Term, ...]
    output: Term | None

    def __repr__(self) -> str:
        inputs = ",".join(_written(term) for term in self.inputs)
        return inputs if self.output is None else f"{inputs}->{_written(self.output)}"


@dataclass(frozen=True, slots=True)
class Contraction:
    """The names of the dims of every operand and of the output, and the dims' extents.

    Dims of an ellipsis are named e0, e1, … from left to right. An operand's axis of extent 1 may
    stand for a dim of any extent.
    """

    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]
    extents: Mapping[str, int]

    @property
    def is_view(self) -> bool:
        """Whether the result is its only operand with axes permuted, merged or broadcast."""
        return len(self.inputs) == 1 and set(self.inputs[0]) <= set(self.output)


def _written(term: Term) -> str:
    return "".join(index.name for index in term)


def parse(text: str) -> Subscripts:
    """The parts of an einsum string.

    Raises SubscriptError at a wrong character, a lone dot, a second arrow or ellipsis, or an
    index that the output repeats or that no operand has.
    """
    arrow = text.find("->")
    if arrow >= 0 and (second := text.find("->", arrow + 2)) >= 0:
        raise SubscriptError(
            "an einsum string has at most one '->'", text=text, carets=(arrow, second)
        )
    end = len(text) if arrow < 0 else arrow
    inputs: list[Term] = []
    start = 0
    for part in text[:end].split(","):
        inputs.append(_term(text, start, start + len(part)))
        start += len(part) + 1
    output = None if arrow < 0 else _term(text, arrow + 2, len(text))
    subscripts = Subscripts(text, tuple(inputs), output)
    if output is not None:
        _check_output(subscripts, output)
    return subscripts


def _term(text: str, start: int, end: int) -> Term:
    indices: list[Index] = []
    column = start
    while column < end:
        character = text[column]
        if character == ".":
            if text[column:end][:3] != ELLIPSIS:
                raise SubscriptError(
                    "a '.' that is not part of an ellipsis",
                    text=text,
                    carets=(column,),
                    hint="write '...' for the dims that broadcast",
                )
            indices.append(Index(ELLIPSIS, column))
            column += 3
            continue
        if character in LETTERS:
            indices.append(Index(character, column))
        elif character != " ":
            raise SubscriptError(
                f"{character!r} is no index",
                text=text,
                carets=(column,),
                hint="indices are the letters a-z and A-Z; between them stand ',', '->' and '...'",
            )
        column += 1
    ellipses = [index.column for index in indices if index.name == ELLIPSIS]
    if len(ellipses) > 1:
        raise SubscriptError("a term has at most one ellipsis", text=text, carets=ellipses)
    return tuple(indices)


def _check_output(subscripts: Subscripts, output: Term) -> None:
    known = {index.name for term in subscripts.inputs for index in term} | {ELLIPSIS}
    first: dict[str, int] = {}
    for index in output:
        if index.name in first:
            raise SubscriptError(
                f"index {index.name!r} appears twice in the output",
                text=subscripts.text,
                carets=(first[index.name], index.column),
                hint="a result has one axis per index; write a diagonal with an index of its own",
            )
        first[index.name] = index.column
        if index.name not in known:
            letters = sorted(known - {ELLIPSIS})
            raise SubscriptError(
                f"index {index.name!r} of the output is in no operand",
                text=subscripts.text,
                carets=(index.column,),
                hint="the operands have " + ", ".join(map(repr, letters)) if letters else None,
            )


def resolve(
    subscripts: Subscripts, specs: Sequence[TensorSpec], out: TensorSpec | None = None
) -> Contraction:
    """What the subscripts mean on operands (and an output) of the given shapes.

    Raises SubscriptError where number of operands, number of axes or extents do not fit.
    """
    notes = (_note(specs),)
    if len(subscripts.inputs) != len(specs):
        raise _miscounted(subscripts, len(specs), notes if specs else ())
    spans = [
        _ellipsis_span(subscripts, number, len(spec.shape), notes)
        for number, spec in enumerate(specs)
    ]
    longest = max(spans, default=0)
    inputs = [
        _expanded(term, span, longest) for term, span in zip(subscripts.inputs, spans, strict=True)
    ]
    output = _output(subscripts, longest, notes)
    extents: dict[str, int] = {}
    sites: dict[str, tuple[int, int]] = {}
    for number, (names, spec) in enumerate(zip(inputs, specs, strict=True)):
        within: dict[str, int] = {}
        for axis, (name, extent) in enumerate(zip(names, spec.shape, strict=True)):
            if within.setdefault(name, extent) != extent:
                raise SubscriptError(
                    f"index {name!r} has extents {within[name]} and {extent} in operand {number}",
                    text=subscripts.text,
                    carets=[i.column for i in subscripts.inputs[number] if i.name == name],
                    notes=notes,
                    hint="a diagonal needs axes of one extent",
                )
            known = extents.get(name, 1)
            if known == 1:
                extents[name], sites[name] = extent, (number, axis)
            elif extent not in (1, known):
                raise _clash(subscripts, specs, name, sites[name], (number, axis))
    if out is not None:
        _broadcast_to(subscripts, output, extents, out)
    return Contraction(tuple(inputs), output, extents)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _note(specs: Sequence[TensorSpec]) -> str:
    shapes = (f"operand {n}: {spec.shape} {spec.dtype.name}" for n, spec in enumerate(specs))
    return "    ".join(shapes)


def _ellipsis_span(subscripts: Subscripts, number: int, axes: int, notes: tuple[str, ...]) -> int:
    """Number of dims that the ellipsis of an operand stands for."""
    term = subscripts.inputs[number]
    letters = [index for index in term if index.name != ELLIPSIS]
    if axes == len(letters) or (axes > len(letters) and len(letters) < len(term)):
        return axes - len(letters)
    few = axes < len(letters)
    raise SubscriptError(
        f"operand {number} has {_count(axes, 'axis', 'axes')} but"
        f" {_count(len(letters), 'index', 'indices')}",
        text=subscripts.text,
        carets=[index.column for index in (letters[axes:] if few else letters)],
        notes=notes,
        hint="one index for each axis" if few else _broadcasting(subscripts, number),
    )


def _miscounted(subscripts: Subscripts, operands: int, notes: tuple[str, ...]) -> SubscriptError:
    text = subscripts.text
    end = text.find("->") if "->" in text else len(text)
    starts = [0, *(n + 1 for n, character in enumerate(text[:end]) if character == ",")]
    return SubscriptError(
        f"the string has {_count(len(starts), 'term', 'terms')} for"
        f" {_count(operands, 'operand', 'operands')}",
        text=text,
        carets=starts[operands:] if len(starts) > operands else (end,),
        notes=notes,
        hint="terms are separated by commas, one for each operand",
    )


def _broadcasting(subscripts: Subscripts, number: int) -> str:
    """A hint: the string with an ellipsis for the axes that have no index."""
    dots = Index(ELLIPSIS, 0)
    inputs = list(subscripts.inputs)
    inputs[number] = (dots, *inputs[number])
    output = subscripts.output
    if output is not None and all(index.name != ELLIPSIS for index in output):
        output = (dots, *output)
    return f"'{Subscripts('', tuple(inputs), output)!r}' broadcasts over the other axes"


def _expanded(term: Term, span: int, longest: int) -> tuple[str, ...]:
    names: list[str] = []
    for index in term:
        if index.name == ELLIPSIS:
            names += [f"e{n}" for n in range(longest - span, longest)]
        else:
            names.append(index.name)
    return tuple(names)


def _output(subscripts: Subscripts, longest: int, notes: tuple[str, ...]) -> tuple[str, ...]:
    if subscripts.output is None:
        letters = Counter(index.name for term in subscripts.inputs for index in term)
        once = sorted(name for name, uses in letters.items() if uses == 1 and name != ELLIPSIS)
        return (*(f"e{n}" for n in range(longest)), *once)
    if longest and all(index.name != ELLIPSIS for index in subscripts.output):
        kept = repr(Subscripts("", subscripts.inputs, (Index(ELLIPSIS, 0), *subscripts.output)))
        raise SubscriptError(
            f"the output lacks the ellipsis, which stands for {_count(longest, 'dim', 'dims')}",
            text=subscripts.text,
            carets=[i.column for term in subscripts.inputs for i in term if i.name == ELLIPSIS],
            notes=notes,
            hint=f"{kept!r} keeps them; to sum over them, give them letters",
        )
    return _expanded(subscripts.output, longest, longest)


def _broadcast_to(
    subscripts: Subscripts, output: tuple[str, ...], extents: dict[str, int], out: TensorSpec
) -> None:
    """Let `out` stretch dims of extent 1, as NumPy does."""
    shape = tuple(extents[name] for name in output)
    if len(out.shape) != len(shape) or any(
        have not in (1, want) for have, want in zip(shape, out.shape, strict=True)
    ):
        raise SubscriptError(
            f"out has shape {out.shape} but the result {shape}",
            text=subscripts.text,
            carets=[index.column for index in subscripts.output or ()],
        )
    extents.update(zip(output, out.shape, strict=True))


def _clash(
    subscripts: Subscripts,
    specs: Sequence[TensorSpec],
    name: str,
    first: tuple[int, int],
    second: tuple[int, int],
) -> SubscriptError:
    extents = [specs[number].shape[axis] for number, axis in (first, second)]
    shown = "the ellipsis" if len(name) > 1 else f"index {name!r}"
    written = ELLIPSIS if len(name) > 1 else name
    return SubscriptError(
        f"{shown} has extent {extents[0]} in operand {first[0]} but {extents[1]} in operand"
        f" {second[0]}",
        text=subscripts.text,
        carets=[
            index.column
            for number in (first[0], second[0])
            for index in subscripts.inputs[number]
            if index.name == written
        ],
        notes=(_note(specs),),
        hint=_transposed(subscripts, specs, second[0]) or _transposed(subscripts, specs, first[0]),
    )


def _transposed(subscripts: Subscripts, specs: Sequence[TensorSpec], number: int) -> str | None:
    """A hint: the string with two indices of one operand exchanged, where that fits."""
    term = subscripts.inputs[number]
    for left in range(len(term)):
        for right in range(left + 1, len(term)):
            exchanged = list(term)
            exchanged[left], exchanged[right] = term[right], term[left]
            inputs = list(subscripts.inputs)
            inputs[number] = tuple(exchanged)
            candidate = Subscripts(subscripts.text, tuple(inputs), subscripts.output)
            if _fits(candidate, specs):
                return f"'{candidate!r}' fits these shapes"
    return None


def _fits(subscripts: Subscripts, specs: Sequence[TensorSpec]) -> bool:
    extents: dict[str, set[int]] = {}
    for term, spec in zip(subscripts.inputs, specs, strict=True):
        if len(term) != len(spec.shape) or any(index.name == ELLIPSIS for index in term):
            return False
        for index, extent in zip(term, spec.shape, strict=True):
            extents.setdefault(index.name, set()).add(extent)
    return all(len(found - {1}) <= 1 for found in extents.values())
