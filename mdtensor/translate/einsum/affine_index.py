"""Parsing of affine indices such as `2h+r-1`, where `@n` is an element of operand n."""

from __future__ import annotations

import re
from functools import lru_cache

from mdtensor.dataclass import dataclass
from mdtensor.errors import SubscriptError, shown

_NAME = r"[A-Za-z_][A-Za-z_0-9]*"
_SUMMAND = re.compile(rf"([+-]?)(?:(\d+)\*?(?={_NAME}|@))?({_NAME}|@\d+|\d+)")
_DIGITS = 18  # what fits an index of 64 bits


@dataclass(frozen=True, slots=True)
class AffineSum:
    """An affine index: coefficients by dim name and by operand number, and an offset."""

    dims: tuple[tuple[str, int], ...] = ()
    elements: tuple[tuple[int, int], ...] = ()
    offset: int = 0

    @property
    def name(self) -> str | None:
        """The dim, if the sum is a single dim with coefficient 1; else None."""
        if len(self.dims) != 1 or self.elements or self.offset or self.dims[0][1] != 1:
            return None
        return self.dims[0][0]


def _is_too_large(word: str) -> bool:
    return len(word) > _DIGITS and word.isdigit()


def is_name(word: str) -> bool:
    """Whether a word is a valid dim name."""
    return re.fullmatch(_NAME, word) is not None


@lru_cache(1024)
def parse_sum(word: str, text: str, column: int) -> AffineSum:
    """Parse an affine index `word`, which is at `column` of `text`.

    Raises SubscriptError where it is no sum.

    >>> parse_sum("2h+r-1", "2h+r-1", 0)
    AffineSum(dims=(('h', 2), ('r', 1)), elements=(), offset=-1)
    >>> parse_sum("@1", "@1", 0)
    AffineSum(dims=(), elements=((1, 1),), offset=0)
    """
    dims: dict[str, int] = {}
    elements: dict[int, int] = {}
    offset = place = 0
    while place < len(word):
        found = _SUMMAND.match(word, place)
        if found is None or (place and not found.group(1)):
            raise SubscriptError(
                f"{shown(word)} is no index",
                text=text,
                carets=(column + place,),
                hint="an index is a sum like 'i', 'h+r' or '2h+r-1' without blanks inside;"
                " '@1' is the element of operand 1",
            )
        sign, number, atom = found.groups()
        if _is_too_large(number or "") or _is_too_large(atom.removeprefix("@")):
            raise SubscriptError(
                f"a number in {shown(word)} is larger than any array",
                text=text,
                carets=(column + place,),
                hint=f"numbers have at most {_DIGITS} digits",
            )
        coefficient = int(number or 1) * (-1 if sign == "-" else 1)
        if atom.isdigit():
            offset += coefficient * int(atom)
        elif atom.startswith("@"):
            elements[int(atom[1:])] = elements.get(int(atom[1:]), 0) + coefficient
        else:
            dims[atom] = dims.get(atom, 0) + coefficient
        place = found.end()
    return AffineSum(
        tuple((name, c) for name, c in dims.items() if c), tuple(elements.items()), offset
    )
