"""Parsing of shapes and einsum expressions on the command line, into specs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import digits
from typing import TYPE_CHECKING, Any

from mdtensor.dataclass import dataclass
from mdtensor.errors import MdtensorError, ShapeError, SubscriptError, shown

if TYPE_CHECKING:
    from mdtensor.specs import TensorSpec

SHAPE_HELP = "extents such as 64,128 (or 64,128:f8 with a type of its own, () for a scalar)"
_EXTENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<extent>.*)")
_MOST_DIGITS = 18  # of an extent
_SEMIRING = "semiring="
_SHAPE = re.compile(r"\(?(?P<extents>\d*(?:,\d+)*),?\)?(?::(?P<dtype>.+))?")


@dataclass(frozen=True, slots=True)
class Expression:
    """An einsum string with operand specs, explicit extents, and a semiring.

    It is printed as it is typed.
    """

    subscripts: str
    specs: tuple[TensorSpec, ...]
    extents: tuple[tuple[str, int], ...] = ()
    semiring: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The expression's options of `einsum`."""
        given = {"extents": dict(self.extents), "semiring": self.semiring}
        return {name: option for name, option in given.items() if option}

    @property
    def words(self) -> tuple[str, ...]:
        """The command-line words after the string: shapes, extents, and the semiring."""
        extents = (f"{name}={extent}" for name, extent in self.extents)
        semiring = () if self.semiring is None else (f"{_SEMIRING}{self.semiring}",)
        return (*map(text_from_spec, self.specs), *extents, *semiring)

    def __str__(self) -> str:
        return " ".join((self.subscripts, *self.words))


def text_from_spec(spec: TensorSpec) -> str:
    """A spec as command-line text: its shape, and its type unless float32.

    >>> text_from_spec(spec_from_text("64,128")), text_from_spec(spec_from_text("():f8"))
    ('64,128', '():f8')
    """
    kind = spec.dtype.str[1:]
    return (",".join(map(str, spec.shape)) or "()") + ("" if kind == "f4" else f":{kind}")


def spec_from_text(text: str, dtype: str = "f4") -> TensorSpec:
    """The spec of a shape in C order.

    >>> spec_from_text("64,128"), spec_from_text("8:f8"), spec_from_text("()", "i4")
    (float32[64, 128], float64[8], int32[])

    Raises ShapeError for what is no shape, DTypeError for what is no type.
    """
    from mdtensor.specs import TensorSpec, as_dtype

    match = _SHAPE.fullmatch(text.replace(" ", ""))
    if match is None or text == "":
        raise ShapeError(f"{text!r} is no shape", hint=SHAPE_HELP)
    shape = [_extent(extent) for extent in match["extents"].split(",") if extent]
    return TensorSpec.of(shape, as_dtype(match["dtype"] or dtype))


def _extent(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ShapeError(f"{shown(digits)} is larger than any array", hint=SHAPE_HELP)
    return int(digits)


def expression_from_words(
    words: Sequence[str], dtype: str = "f4", semiring: str | None = None
) -> Expression:
    """The expression of an einsum string, a shape per operand, extents by name, and a semiring.

    `dtype` and `semiring` are for words that name none.

    >>> print(expression_from_words(["ij,jk->ik", "64,128", "128,32"]))
    ij,jk->ik 64,128 128,32
    >>> print(expression_from_words(["2h+r, r -> h", "64", "3"]))
    2h+r, r -> h 64 3
    >>> expression_from_words(["h+r -> h", "64", "r=3"]).options
    {'extents': {'r': 3}}
    >>> expression_from_words(["ij,jk->ik", "8,8", "8,8", "semiring=min_plus"]).options
    {'semiring': 'min_plus'}

    Raises SubscriptError where the shapes do not fit the string, or leave an extent open, and
    TranslationError for a semiring that is none.
    """
    from mdtensor.api.frontends.einsum.semiring import semiring_of
    from mdtensor.translate.einsum.contraction import resolve
    from mdtensor.translate.einsum.index_space import index_space
    from mdtensor.translate.einsum.subscripts import parse

    subscripts, *others = words
    # A dim may have any name; what is not its extent is the name of a semiring.
    named = [w for w in others if w.startswith(_SEMIRING) and not w.endswith(tuple(digits))]
    others = [word for word in others if word not in named]
    for word in named:
        semiring = word.removeprefix(_SEMIRING)
    semiring_of(semiring, None, None)
    extents = dict(extent_from_text(word) for word in others if "=" in word)
    specs = tuple(spec_from_text(word, dtype) for word in others if "=" not in word)
    parsed = parse(subscripts)
    try:
        if parsed.is_affine or extents:
            index_space(parsed, specs, extents)
        else:
            resolve(parsed, specs)
    except SubscriptError as error:
        if error.hint is not None:
            error.hint = re.sub(r"extents=\{'(\w+)': …\}", r"\1=…", error.hint)
        raise
    return Expression(subscripts, specs, tuple(extents.items()), semiring)


def extent_from_text(text: str) -> tuple[str, int]:
    """The name of a dim and its extent.

    >>> extent_from_text("r=3")
    ('r', 3)
    """
    match = _EXTENT.fullmatch(text.replace(" ", ""))
    if match is None or not match["extent"].isdecimal():
        raise ShapeError(f"{text!r} is no extent", hint="a dim's name and a number, such as r=3")
    return match["name"], _extent(match["extent"])


def expressions_from_lines(
    lines: Iterable[str], dtype: str = "f4", semiring: str | None = None, file: Path | None = None
) -> list[Expression]:
    """One expression with its shapes a line; blank lines and what follows a `#` are left out.

    >>> [str(each) for each in expressions_from_lines(["# a layer", "bi,ij->bj 32,64 64,10"])]
    ['bi,ij->bj 32,64 64,10']

    Raises what `expression_from_words` raises, with the file, if any, and the number of the line.
    """
    where = "line " if file is None else f"{file}, line "
    expressions: list[Expression] = []
    for number, line in enumerate(lines, 1):
        try:
            words = shlex.split(line, comments=True)
            if words:
                expressions.append(expression_from_words(words, dtype, semiring))
        except MdtensorError as error:
            error.args = (f"{where}{number}: {error.message}",)
            raise
        except ValueError as error:  # an open quotation
            raise ShapeError(f"{where}{number}: {error}", text=line.rstrip()) from None
    return expressions


def expressions_from_file(
    file: Path, dtype: str = "f4", semiring: str | None = None
) -> list[Expression]:
    """The expressions of a text file, as `expressions_from_lines` reads them: all or none."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()  # editors begin with a mark
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ShapeError(f"cannot read {file}: {reason}") from error
    expressions = expressions_from_lines(lines, dtype, semiring, file)
    if not expressions:
        raise ShapeError(f"{file} has no expression", hint="ij,jk->ik 64,128 128,32")
    return expressions
