"""Parsing of einsum strings.

The classic grammar is that of `numpy.einsum`: letters, commas, an ellipsis per term, one arrow,
blanks. In a string with affine indices (`is_affine`) blanks separate the indices of a term, which
are sums (see `affine_index.py`) with names of any length; `index_space.py` gives it a meaning
on shapes, `contraction.py` gives one to classic strings.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

from mdtensor.dataclass import dataclass
from mdtensor.errors import SubscriptError, shown
from mdtensor.translate.einsum.affine_index import AffineSum, is_name, parse_sum

LETTERS = frozenset(string.ascii_letters)
ELLIPSIS = "..."
# What no classic string with an arrow has.
_OF_SUMS = frozenset(string.digits + "+-*@_")
_KEPT = 10_000  # characters of a string whose parts are kept
_MOST_OF_TERM = 1 << 14  # characters of a term


class SubscriptIndex(NamedTuple):
    """An index of a term as written (letter, ellipsis or affine index), and its column."""

    name: str
    column: int

    @property
    def sum(self) -> AffineSum:
        """The affine index of a letter or a sum."""
        return parse_sum(self.name, self.name, 0)


Term = tuple[SubscriptIndex, ...]
# From a string and the columns of a term in it to its indices.
_Indices = Callable[[str, int, int], Term]


@dataclass(frozen=True, slots=True)
class Subscripts:
    """A parsed einsum string; `output` is None if it has no arrow.

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
        """The terms of all operands, including the epilogue's."""
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


def is_affine(text: str) -> bool:
    """Whether a string has affine indices: an arrow, and a digit or one of `+ - * @ _` in a term.

    >>> is_affine("h+r, r -> h"), is_affine("ij,jk->ik"), is_affine("i+j")
    (True, False, False)
    """
    return "->" in text and not _OF_SUMS.isdisjoint(text.replace("->", ""))


def parse(text: str, *, extended: bool = False) -> Subscripts:
    """Parse an einsum string.

    An extended string may have operands of an epilogue after a semicolon, and dims in its output
    that no operand has.

    Raises SubscriptError at a wrong character, a lone dot, a second arrow or ellipsis, a sum that
    is none, or an index that the output repeats or that no operand has.
    """
    if not isinstance(cast("object", text), str):
        raise no_string(text)
    return _parsed(text, extended) if len(text) <= _KEPT else _parsed.__wrapped__(text, extended)


def with_output(text: str) -> str:
    """The string with einsum's implicit output made explicit.

    >>> with_output("ij,jk"), with_output("ij->i")
    ('ij,jk->ik', 'ij->i')
    """
    subscripts = parse(text, extended=True)
    if subscripts.output is not None:
        return text
    uses = Counter(index.name for term in subscripts.inputs for index in term)
    names = sorted(name for name, count in uses.items() if count == 1 and name != ELLIPSIS)
    if ELLIPSIS in uses:
        names.insert(0, ELLIPSIS)
    output = tuple(SubscriptIndex(name, 0) for name in names)
    return repr(Subscripts(text, subscripts.inputs, output, subscripts.finish))


def no_string(text: object) -> SubscriptError:
    """The error for an argument that is no einsum string."""
    is_array = hasattr(text, "shape") or type(text) in (list, tuple)
    hint = "the string comes first, then the arrays: 'ij,jk->ik', A, B"
    return SubscriptError(
        f"{shown(text)} is no einsum string", hint=hint if is_array else "such as 'ij,jk->ik'"
    )


@lru_cache(1024)
def _parsed(text: str, extended: bool) -> Subscripts:
    arrow = text.find("->")
    if arrow >= 0 and (second := text.find("->", arrow + 2)) >= 0:
        raise SubscriptError(
            "an einsum string has at most one '->'", text=text, carets=(arrow, second)
        )
    stop = text.find(";") if extended else -1
    last = len(text) if stop < 0 else stop
    read = _sums if is_affine(text) else _letters
    inputs = _terms(text, 0, last if arrow < 0 else arrow, read)
    output = None if arrow < 0 else _term(text, arrow + 2, last, read)
    finish = () if stop < 0 else _terms(text, stop + 1, len(text), read)
    subscripts = Subscripts(text, inputs, output, finish)
    if output is not None:
        _check_output(subscripts, output, extended=extended)
    return subscripts


def _terms(text: str, start: int, end: int, read: _Indices) -> tuple[Term, ...]:
    terms: list[Term] = []
    for part in text[start:end].split(","):
        terms.append(_term(text, start, start + len(part), read))
        start += len(part) + 1
    return tuple(terms)


def _term(text: str, start: int, end: int, read: _Indices) -> Term:
    if end - start > _MOST_OF_TERM:
        raise SubscriptError(
            f"a term has {end - start} characters, and may have {_MOST_OF_TERM}",
            hint="a term has an index for each axis of an operand, of which there are at most 64",
        )
    indices = read(text, start, end)
    if not text.count(".", start, end):
        return indices
    ellipses = [index.column for index in indices if index.name == ELLIPSIS]
    if len(ellipses) > 1:
        raise SubscriptError("a term has at most one ellipsis", text=text, carets=ellipses)
    return indices


def _sums(text: str, start: int, end: int) -> Term:
    words = [
        SubscriptIndex(m.group(), start + m.start()) for m in re.finditer("[^ ]+", text[start:end])
    ]
    for word in words:
        if word.name != ELLIPSIS:
            parse_sum(word.name, text, word.column)
    return tuple(words)


def _letters(text: str, start: int, end: int) -> Term:
    term = text[start:end]
    if term.isascii() and term.isalpha():
        return tuple(map(SubscriptIndex, term, range(start, end)))
    indices: list[SubscriptIndex] = []
    column = start
    while column < end:
        character = text[column]
        if character == ".":
            if not text.startswith(ELLIPSIS, column, end):
                raise SubscriptError(
                    "a '.' that is not part of an ellipsis",
                    text=text,
                    carets=(column,),
                    hint="write '...' for the dims that broadcast",
                )
            indices.append(SubscriptIndex(ELLIPSIS, column))
            column += 3
            continue
        if character in LETTERS:
            indices.append(SubscriptIndex(character, column))
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
    if is_sums := subscripts.is_affine:
        _check_names(subscripts, output)
    known = {index.name for term in subscripts.inputs for index in term} | {ELLIPSIS}
    first: dict[str, int] = {}
    for index in output:
        if index.name in first:
            raise SubscriptError(
                f"index {shown(index.name)} appears twice in the output",
                text=subscripts.text,
                carets=(first[index.name], index.column),
                hint="a result has one axis per index; write a diagonal with an index of its own",
            )
        first[index.name] = index.column
        if index.name not in known and not (extended or is_sums):
            letters = sorted(known - {ELLIPSIS})
            raise SubscriptError(
                f"index {shown(index.name)} of the output is in no operand",
                text=subscripts.text,
                carets=(index.column,),
                hint="the operands have " + ", ".join(map(repr, letters)) if letters else None,
            )


def _check_names(subscripts: Subscripts, output: Term) -> None:
    for index in output:
        if index.name != ELLIPSIS and not is_name(index.name):
            raise SubscriptError(
                f"index {shown(index.name)} of the output is a sum",
                text=subscripts.text,
                carets=(index.column,),
                hint="the output has one name per axis; sums stand in operands",
            )
