"""Random calls of einsum, with NumPy's as reference."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Any

import numpy as np

import mdtensor as mdt
from tests.api.fronts.drawing import DTYPES, INTEGERS, Draw, outcome_of, same_outcome, same_values
from tests.workers import MismatchError

_POINTS = 20000


@dataclass(frozen=True)
class Structure:
    """A string, which of the operands' axes are of extent 1 whatever the letter, and types."""

    terms: tuple[str, ...]
    output: str | None
    broadcast: frozenset[tuple[int, int]]
    dtypes: tuple[str, ...]
    interleaved: bool

    @property
    def text(self) -> str:
        terms = ",".join(self.terms)
        return terms if self.output is None else f"{terms}->{self.output}"


def check(draw: Draw) -> None:
    """One string, called on several shapes in a row, in several layouts each."""
    rng = draw.rng
    structure = _structure(draw)
    draw.say(repr(structure.text))
    for _ in range(rng.choice((1, 2, 3, 6))):
        shapes = _shapes(draw, structure)
        options = _options(draw, structure)
        odd = rng.choice((0, 0, 0.3, 0.8))
        for _ in range(rng.choice((1, 2, 3))):
            operands = [
                draw.array(shape, dtype, small=_is_small(structure, options), odd=odd)
                for shape, dtype in zip(shapes, structure.dtypes, strict=True)
            ]
            _check_call(draw, structure, operands, options)


def _structure(draw: Draw) -> Structure:
    rng = draw.rng
    count = rng.choice((1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 4))
    letters = rng.sample(string.ascii_letters, rng.choice((1, 2, 3, 3, 4, 4, 5, 6)))
    terms = []
    for _ in range(count):
        term = rng.sample(letters, rng.randint(0 if draw.chance(0.1) else 1, min(4, len(letters))))
        if term and draw.chance(0.07):
            term.insert(rng.randint(0, len(term)), rng.choice(term))
        terms.append("".join(term))
    used = list(dict.fromkeys("".join(terms)))
    output = None
    if draw.chance(0.85):
        output = "".join(rng.sample(used, rng.randint(0, len(used))))
    if draw.chance(0.1):
        chosen = [draw.chance(0.7) for _ in terms]
        terms = [_with_ellipsis(draw, t) if c else t for t, c in zip(terms, chosen, strict=True)]
        if any(chosen) and output is not None:
            output = _with_ellipsis(draw, output)
    axes = [(n, axis) for n, term in enumerate(terms) for axis in range(len(term))]
    broadcast = frozenset(place for place in axes if draw.chance(0.05))
    return Structure(tuple(terms), output, broadcast, tuple(draw.dtypes(count)), draw.chance(0.07))


def _with_ellipsis(draw: Draw, term: str) -> str:
    place = draw.rng.randint(0, len(term))
    return f"{term[:place]}...{term[place:]}"


def _shapes(draw: Draw, structure: Structure) -> list[tuple[int, ...]]:
    letters = sorted({c for term in structure.terms for c in term if c.isalpha()})
    extents = dict(zip(letters, draw.extents(len(letters), _POINTS, zero=0.01), strict=True))
    dots = [draw.rng.choice((1, 2, 3)) for _ in range(draw.rng.choice((0, 1, 2)))]
    shapes = []
    for n, term in enumerate(structure.terms):
        shape: list[int] = []
        for axis, part in enumerate(term.replace("...", ".")):
            if part == ".":
                kept = dots[draw.rng.randint(0, len(dots)) :]
                shape += [1 if draw.chance(0.2) else extent for extent in kept]
            else:
                shape.append(1 if (n, axis) in structure.broadcast else extents[part])
        shapes.append(tuple(shape))
    if draw.chance(0.02):
        n = draw.rng.randrange(len(shapes))
        shapes[n] = tuple(extent + draw.rng.choice((0, 1)) for extent in shapes[n])
    return shapes


def _options(draw: Draw, structure: Structure) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if draw.chance(0.75):
        return options
    rng = draw.rng
    if draw.chance(0.4):
        options["order"] = rng.choice(("C", "F", "A", "K"))
    if draw.chance(0.3):
        options["dtype"] = rng.choice((*DTYPES, "f8", "f4"))
    if draw.chance(0.4):
        options["casting"] = rng.choice(("no", "equiv", "safe", "same_kind", "unsafe"))
    if draw.chance(0.4):
        options["optimize"] = rng.choice((True, False, "greedy", "optimal"))
    return options


def _is_small(structure: Structure, options: dict[str, Any]) -> bool:
    """Whether results may be floats, of which only small ones are exact."""
    computed = np.result_type(
        *structure.dtypes, *([options["dtype"]] if "dtype" in options else [])
    )
    return computed.kind in "fc" or "dtype" in options


def _check_call(
    draw: Draw, structure: Structure, operands: list[np.ndarray], options: dict[str, Any]
) -> None:
    draw.say(f"einsum({structure.text!r}, … {options})")
    arguments = _arguments(structure, operands)
    theirs = outcome_of(lambda: _reference(structure, operands, options))
    if theirs.error is not None or draw.chance(0.7):
        ours = outcome_of(lambda: mdt.einsum(*arguments, **options))
        if same_outcome(ours, theirs):
            # With a path, some of NumPy's results without axes are arrays.
            kind = np.asarray if options.get("optimize") else lambda value: value
            same_values(kind(ours.value), kind(theirs.value))
            _same_order(draw, ours.value, operands, arguments, options)
        draw.finished()
        return
    out = _target(draw, np.asarray(theirs.value), operands)
    if options.get("optimize") and not out.ndim:
        options = {**options, "optimize": False}  # NumPy assigns to it without regard to casting
    draw.say(f"out={out.dtype}{out.shape} {out.strides}")
    options = {**options, "out": out}
    copies = [operand.copy() for operand in operands]
    aside = {**options, "out": out.copy()}
    theirs = outcome_of(lambda: _reference(structure, copies, aside))
    ours = outcome_of(lambda: mdt.einsum(*arguments, **options))
    draw.may_change(out)
    if same_outcome(ours, theirs):
        if ours.value is not out:
            raise MismatchError("the result is not the array that was given")
        same_values(np.asarray(out), np.asarray(theirs.value))
    draw.finished()


def _target(draw: Draw, like: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
    """An array for the result: one of its own, an operand, or one that overlaps an operand."""
    fitting = [o for o in operands if o.shape == like.shape and o.flags.writeable]
    fitting = [o for o in fitting if 0 not in o.strides or 0 in o.shape]
    if fitting and draw.chance(0.5):
        return draw.rng.choice(fitting)
    flat = [
        o for o in operands if o.flags.writeable and o.size > like.size and o.flags.c_contiguous
    ]
    if flat and like.size and draw.chance(0.5):
        chosen = draw.rng.choice(flat).reshape(-1)
        start = draw.rng.randint(0, chosen.size - like.size)
        return chosen[start : start + like.size].reshape(like.shape)
    # Sums of large integers would not be exact in floats.
    others = DTYPES if like.dtype.kind in "fc" else ("?", *INTEGERS)
    dtype = like.dtype.str[1:] if draw.chance(0.8) else draw.rng.choice(others)
    return draw.array(like.shape, dtype, target=True)


def _arguments(structure: Structure, operands: list[np.ndarray]) -> list[Any]:
    if not structure.interleaved:
        return [structure.text, *operands]
    arguments: list[Any] = []
    for term, operand in zip(structure.terms, operands, strict=True):
        arguments += [operand, _numbers(term)]
    return arguments if structure.output is None else [*arguments, _numbers(structure.output)]


def _numbers(term: str) -> list[Any]:
    letters = string.ascii_uppercase + string.ascii_lowercase
    return [Ellipsis if c == "." else letters.index(c) for c in term.replace("...", ".")]


def _reference(structure: Structure, operands: list[np.ndarray], options: dict[str, Any]) -> Any:
    """NumPy's result, with sums of floats in double precision, rounded once.

    It is that without a path: with one, NumPy adds small integers up in their own type before
    others widen them, and looks at casting for some of the steps only.
    """
    arguments = _arguments(structure, operands)
    options = {name: value for name, value in options.items() if name != "optimize"}
    result = np.einsum(*arguments, **options)
    computed = np.dtype(options.get("dtype") or np.result_type(*operands, *_outs(options)))
    is_view = "out" not in options and result.dtype != computed  # whatever the type asked for
    if is_view or computed.name not in ("float16", "float32", "complex64"):
        return result
    wide = np.complex128 if computed.kind == "c" else np.float64
    brought = [operand.astype(computed).astype(wide) for operand in operands]
    exact = np.einsum(*_arguments(structure, brought)).astype(computed)
    if "out" in options:
        options["out"][...] = exact.astype(options["out"].dtype)
        return options["out"]
    return exact if isinstance(result, np.ndarray) else exact[()]


def _outs(options: dict[str, Any]) -> list[Any]:
    return [options["out"]] if "out" in options else []


def _same_order(
    draw: Draw,
    found: Any,
    operands: list[np.ndarray],
    arguments: list[Any],
    options: dict[str, Any],
) -> None:
    """Compares strides with those of NumPy's result."""
    if options.get("optimize") or not isinstance(found, np.ndarray) or not found.size:
        return
    with np.errstate(all="ignore"):
        expected = np.einsum(*arguments, **options)
    for extent, one, other in zip(found.shape, found.strides, expected.strides, strict=True):
        if extent > 1 and one != other:
            raise MismatchError(f"strides {found.strides} where NumPy has {expected.strides}")
