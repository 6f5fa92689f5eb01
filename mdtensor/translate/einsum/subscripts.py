"""Einsum strings: parsed, and given a meaning on the shapes of operands.

The classic grammar is that of `numpy.einsum`: letters, commas, an ellipsis per term, one arrow,
blanks. In a string with affine indices (`is_affine`) blanks separate the indices of a term, which
are sums (see `affine_index.py`) with names of any length; `index_space.py` gives it a meaning.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from mdtensor.errors import SubscriptError
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.affine_index import AffineSum, is_name, parse_sum

LETTERS = frozenset(string.ascii_letters)
ELLIPSIS = "..."
# What no classic string with an arrow has.
_OF_SUMS = frozenset(string.digits + "+-*@_")


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a term as it is written: a letter, an ellipsis or a sum, and its column."""

    name: str
    column: int

    @property
    def sum(self) -> AffineSum:
        """What a letter or a sum stands for."""
        return parse_sum(self.name, self.name, 0)


Term = tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Subscripts:
    """An einsum string in its parts; `output` is None where it has no arrow.

    `finish` are the terms after a semicolon: the operands of an epilogue.

    >>> parse("ij, jk")
    ij,jk
    >>> parse("2h+r  c, r->h c")
    2h+r c, r -> h c
    """

    text: str
    inputs: tuple[Term, ...]
    output: Term | None
    finish: tuple[Term, ...] = ()

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of all operands, also of those of the epilogue."""
        return (*self.inputs, *self.finish)

    @property
    def is_affine(self) -> bool:
        """Whether indices are sums, separated by blanks."""
        return is_affine(self.text)

    def __repr__(self) -> str:
        blank, comma, arrow, semicolon = (
            (" ", ", ", " -> ", "; ") if self.is_affine else ("", ",", "->", ";")
        )

        def terms(several: Sequence[Term]) -> str:
            return comma.join(blank.join(index.name for index in term) for term in several)

        text = terms(self.inputs)
        if self.output is not None:
            text += arrow + terms([self.output])
        return text + semicolon + terms(self.finish) if self.finish else text


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


def is_affine(text: str) -> bool:
    """Whether a string has affine indices: an arrow, and a digit or one of `+ - * @ _` in a term.

    >>> is_affine("h+r, r -> h"), is_affine("ij,jk->ik"), is_affine("i+j")
    (True, False, False)
    """
    return "->" in text and not _OF_SUMS.isdisjoint(text.replace("->", ""))


def parse(text: str, *, extended: bool = False) -> Subscripts:
    """The parts of an einsum string.

    An extended string may have operands of an epilogue after a semicolon, and dims in its output
    that no operand has.

    Raises SubscriptError at a wrong character, a lone dot, a second arrow or ellipsis, a sum that
    is none, or an index that the output repeats or that no operand has.
    """
    if not isinstance(cast("object", text), str):
        raise SubscriptError(f"{text!r} is no einsum string", hint="such as 'ij,jk->ik'")
    arrow = text.find("->")
    if arrow >= 0 and (second := text.find("->", arrow + 2)) >= 0:
        raise SubscriptError(
            "an einsum string has at most one '->'", text=text, carets=(arrow, second)
        )
    stop = text.find(";") if extended else -1
    last = len(text) if stop < 0 else stop
    inputs = _terms(text, 0, last if arrow < 0 else arrow)
    output = None if arrow < 0 else _term(text, arrow + 2, last)
    finish = () if stop < 0 else _terms(text, stop + 1, len(text))
    subscripts = Subscripts(text, inputs, output, finish)
    if output is not None:
        _check_output(subscripts, output, extended=extended)
    return subscripts


def _terms(text: str, start: int, end: int) -> tuple[Term, ...]:
    terms: list[Term] = []
    for part in text[start:end].split(","):
        terms.append(_term(text, start, start + len(part)))
        start += len(part) + 1
    return tuple(terms)


def _term(text: str, start: int, end: int) -> Term:
    indices = _sums(text, start, end) if is_affine(text) else _letters(text, start, end)
    ellipses = [index.column for index in indices if index.name == ELLIPSIS]
    if len(ellipses) > 1:
        raise SubscriptError("a term has at most one ellipsis", text=text, carets=ellipses)
    return indices


def _sums(text: str, start: int, end: int) -> Term:
    words = [Index(m.group(), start + m.start()) for m in re.finditer("[^ ]+", text[start:end])]
    for word in words:
        if word.name != ELLIPSIS:
            parse_sum(word.name, text, word.column)
    return tuple(words)


def _letters(text: str, start: int, end: int) -> Term:
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
    return tuple(indices)


def _check_output(subscripts: Subscripts, output: Term, *, extended: bool) -> None:
    if subscripts.is_affine:
        _check_names(subscripts, output)
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
        if index.name not in known and not (extended or subscripts.is_affine):
            letters = sorted(known - {ELLIPSIS})
            raise SubscriptError(
                f"index {index.name!r} of the output is in no operand",
                text=subscripts.text,
                carets=(index.column,),
                hint="the operands have " + ", ".join(map(repr, letters)) if letters else None,
            )


def _check_names(subscripts: Subscripts, output: Term) -> None:
    for index in output:
        if index.name != ELLIPSIS and not is_name(index.name):
            raise SubscriptError(
                f"index {index.name!r} of the output is a sum",
                text=subscripts.text,
                carets=(index.column,),
                hint="the output has one name per axis; sums stand in operands",
            )


def resolve(
    subscripts: Subscripts, specs: Sequence[TensorSpec], out: TensorSpec | None = None
) -> Contraction:
    """What the subscripts mean on operands (and an output) of the given shapes.

    Raises SubscriptError where number of operands, number of axes or extents do not fit.
    """
    notes = (note_of(specs),)
    if len(subscripts.inputs) != len(specs):
        raise miscounted(subscripts, len(specs), notes if specs else ())
    spans = [
        ellipsis_span(subscripts, number, len(spec.shape), notes)
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


def count_of(number: int, one: str, many: str) -> str:
    """A number with its noun."""
    return f"{number} {one if number == 1 else many}"


def note_of(specs: Sequence[TensorSpec]) -> str:
    """The shapes and types of the operands, for an error."""
    shapes = (f"operand {n}: {spec.shape} {spec.dtype.name}" for n, spec in enumerate(specs))
    return "    ".join(shapes)


def ellipsis_span(subscripts: Subscripts, number: int, axes: int, notes: tuple[str, ...]) -> int:
    """Number of dims that the ellipsis of an operand stands for."""
    term = subscripts.terms[number]
    letters = [index for index in term if index.name != ELLIPSIS]
    if axes == len(letters) or (axes > len(letters) and len(letters) < len(term)):
        return axes - len(letters)
    few = axes < len(letters)
    raise SubscriptError(
        f"operand {number} has {count_of(axes, 'axis', 'axes')} but"
        f" {count_of(len(letters), 'index', 'indices')}",
        text=subscripts.text,
        carets=[index.column for index in (letters[axes:] if few else letters)],
        notes=notes,
        hint="one index for each axis" if few else _one_for_each(subscripts, number),
    )


def miscounted(subscripts: Subscripts, operands: int, notes: tuple[str, ...]) -> SubscriptError:
    """The error of a string that has more or fewer terms than there are operands."""
    text = subscripts.text
    end = text.find("->") if "->" in text else len(text)
    starts = [0, *(n + 1 for n, character in enumerate(text[:end]) if character == ",")]
    if subscripts.finish:
        after = text.index(";")
        commas = (n for n, character in enumerate(text) if character == "," and n > after)
        starts += [after + 1, *(n + 1 for n in commas)]
    return SubscriptError(
        f"the string has {count_of(len(starts), 'term', 'terms')} for"
        f" {count_of(operands, 'operand', 'operands')}",
        text=text,
        carets=starts[operands:] if len(starts) > operands else (end,),
        notes=notes,
        hint="terms are separated by commas, one for each operand",
    )


def _one_for_each(subscripts: Subscripts, number: int) -> str:
    """A hint for an operand with more axes than indices."""
    words = [index.name for index in subscripts.terms[number]]
    joined = next((word for word in words if len(word) > 1 and word.isalpha()), None)
    if joined is None:
        return _broadcasting(subscripts, number)
    apart = " ".join(joined)
    return f"{joined!r} is one name; where indices are sums, blanks separate them: {apart!r}"


def _broadcasting(subscripts: Subscripts, number: int) -> str:
    """A hint: the string with an ellipsis for the axes that have no index."""
    dots = Index(ELLIPSIS, 0)
    terms = list(subscripts.terms)
    terms[number] = (dots, *terms[number])
    output = subscripts.output
    if output is not None and all(index.name != ELLIPSIS for index in output):
        output = (dots, *output)
    count = len(subscripts.inputs)
    shown = Subscripts(subscripts.text, tuple(terms[:count]), output, tuple(terms[count:]))
    return f"{str(shown)!r} broadcasts over the other axes"


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
            f"the output lacks the ellipsis, which stands for {count_of(longest, 'dim', 'dims')}",
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
        notes=(note_of(specs),),
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
