"""Random calls of reduce, scan and einsum with sums for indices, against NumPy on whole spaces."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce as fold
from typing import Any

import numpy as np

import mdtensor as mdt
from tests.api.fronts.drawing import Draw, outcome_of, same_outcome, same_values
from tests.workers import MismatchError

_POINTS = 20000
_UFUNCS: Mapping[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "fmin": np.fmin,
    "fmax": np.fmax,
    "lesser": np.minimum,
    "greater": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "logaddexp": np.logaddexp,
}
_ORDERED = ("min", "max", "fmin", "fmax", "lesser", "greater")


def _product(*elements: Any) -> Any:
    return fold(lambda a, b: a * b, elements)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "product": _product,
    "sum": lambda *elements: fold(lambda a, b: a + b, elements),
    "larger": lambda *elements: fold(np.maximum, elements),
    "first if positive": lambda *elements: np.where(elements[0] > 0, elements[0], elements[-1]),
}


@dataclass(frozen=True)
class Sum:
    """An index: dims by coefficients, an offset, and the operand that holds another part of it."""

    coefficients: tuple[tuple[str, int], ...]
    offset: int = 0
    gathered: int | None = None

    def __str__(self) -> str:
        parts = [f"{c if c > 1 else ''}{name}" for name, c in self.coefficients]
        parts += [] if self.gathered is None else [f"@{self.gathered}"]
        parts += [str(self.offset)] if self.offset or not parts else []
        return "+".join(parts)

    def at(self, grid: Mapping[str, np.ndarray]) -> Any:
        return self.offset + sum(c * grid[name] for name, c in self.coefficients)


@dataclass(frozen=True)
class Structure:
    """A string: indices of the operands, of which the last ones may hold indices of others."""

    dims: tuple[str, ...]
    terms: tuple[tuple[Sum, ...], ...]
    output: tuple[str, ...]
    indices: int  # so many of the operands are indices

    @property
    def text(self) -> str:
        terms = ", ".join(" ".join(map(str, term)) for term in self.terms)
        return f"{terms} -> {' '.join(self.output)}"


def check(draw: Draw) -> None:
    """One string and operator, on several shapes in a row."""
    rng = draw.rng
    scans = draw.chance(0.4)
    structure = _structure(draw, scans)
    factors = len(structure.terms) - structure.indices
    operator, dtypes = _operator(draw, factors)
    function = "product"
    if operator not in ("and", "or", "xor", "argmin", "argmax") and not any(
        np.dtype(d).kind in "bc" for d in dtypes
    ):
        function = rng.choice(["product", "product", *_FUNCTIONS])
    options = {"exclusive": draw.chance(0.4), "reverse": draw.chance(0.4)} if scans else {}
    draw.say(f"{structure.text!r} {operator} of {function} {options}")
    for _ in range(rng.choice((1, 2, 3, 5))):
        extents = dict(
            zip(structure.dims, draw.extents(len(structure.dims), _POINTS, 0.01), strict=True)
        )
        for _ in range(rng.choice((1, 2))):
            arrays = _operands(draw, structure, extents, dtypes, operator)
            _check_call(draw, structure, extents, arrays, operator, function, options)


def check_affine(draw: Draw) -> None:
    """The same for einsum, with sums of products."""
    rng = draw.rng
    structure = _structure(draw, scans=False)
    dtypes = draw.dtypes(len(structure.terms) - structure.indices)
    draw.say(structure.text)
    for _ in range(rng.choice((1, 2, 3, 5))):
        extents = dict(
            zip(structure.dims, draw.extents(len(structure.dims), _POINTS, 0.01), strict=True)
        )
        for _ in range(rng.choice((1, 2))):
            arrays = _operands(draw, structure, extents, dtypes, "add")
            _check_einsum(draw, structure, extents, arrays)


def _structure(draw: Draw, scans: bool) -> Structure:
    rng = draw.rng
    plain = draw.chance(0.5)
    pool = ["i", "j", "k", "h"] if plain or draw.chance(0.6) else ["n_2", "h", "row_1", "col_1"]
    dims = tuple(pool[: rng.choice((1, 2, 2, 3, 3, 4))])
    terms: list[tuple[Sum, ...]] = []
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        names = rng.sample(dims, rng.randint(1, min(3, len(dims))))
        terms.append(tuple(Sum(((n, 1),)) if plain else _sum(draw, dims, n) for n in names))
    indices = 0
    if not plain and draw.chance(0.4):
        indices = 1
        n = rng.randrange(len(terms))
        axis = rng.randrange(len(terms[n]))
        taken = terms[n][axis]
        alone = draw.chance(0.6)
        gathered = Sum(() if alone else taken.coefficients, 0, len(terms))
        terms[n] = (*terms[n][:axis], gathered, *terms[n][axis + 1 :])
        held = rng.sample(dims, rng.randint(1, min(2, len(dims))))
        terms.append(tuple(Sum(((name, 1),)) for name in held))
    used = dict.fromkeys(n for term in terms for index in term for n, _ in index.coefficients)
    dims = tuple(used)
    kept = rng.sample(dims, rng.randint(1 if scans else 0, len(dims)))
    return Structure(dims, tuple(terms), tuple(kept), indices)


def _sum(draw: Draw, dims: Sequence[str], name: str) -> Sum:
    rng = draw.rng
    if draw.chance(0.4):
        return Sum(((name, 1),))
    names = [name, *([rng.choice(dims)] if draw.chance(0.7) else [])]
    found = {n: rng.choice((1, 1, 2, 3)) for n in names}
    return Sum(tuple(found.items()), rng.choice((0, 0, 1, 2)))


def _operator(draw: Draw, count: int) -> tuple[str, list[str]]:
    rng = draw.rng
    operator = rng.choice(("add", "add", *_UFUNCS, "argmin", "argmax"))
    while True:
        dtypes = draw.dtypes(count)
        kind = np.result_type(*dtypes).kind
        if operator in ("and", "or", "xor") and kind not in "biu":
            continue
        if operator == "logaddexp" and kind != "f":
            continue
        if operator not in ("add", "mul") and kind == "c":
            continue
        return operator, dtypes


def _operands(
    draw: Draw,
    structure: Structure,
    extents: Mapping[str, int],
    dtypes: Sequence[str],
    operator: str,
) -> list[np.ndarray]:
    rng = draw.rng
    arrays: list[np.ndarray] = []
    odd = rng.choice((0, 0, 0.5))
    common = np.result_type(*dtypes)
    for n, term in enumerate(structure.terms):
        shape = []
        for index in term:
            last = index.at({name: extents[name] - 1 for name in structure.dims})
            simple = len(index.coefficients) == 1 and not index.offset and index.gathered is None
            simple = simple and index.coefficients[0][1] == 1
            more = 0 if simple else rng.choice((0, 0, 1))
            more += rng.choice((1, 3, 9)) if index.gathered is not None else 0
            shape.append(max(0, last + 1) + more)
        if n >= len(dtypes):
            array = draw.array(shape, rng.choice(("i4", "i8", "u1", "i2")), odd=odd)
        else:
            array = draw.array(shape, dtypes[n], small=common.kind in "fc", odd=odd)
            if common.kind in "fc":
                _alter(draw, array, operator)
        arrays.append(array)
    for memory in draw.memories:
        memory.before[...] = memory.data
    return arrays


def _alter(draw: Draw, array: np.ndarray, operator: str) -> None:
    """Elements of which products are exact, and sometimes NaN."""
    if not array.flags.writeable or not array.size:
        return
    if operator == "mul":
        array[...] = np.where(array.real > 0, 1, -1)
    nan = operator not in ("lesser", "greater", "logaddexp")
    if array.dtype.kind == "f" and nan and draw.chance(0.2):
        places = np.random.default_rng(draw.rng.getrandbits(32)).random(array.shape) < 0.1
        array[places] = np.nan


def _check_call(
    draw: Draw,
    structure: Structure,
    extents: Mapping[str, int],
    arrays: Sequence[np.ndarray],
    operator: str,
    function: str,
    options: dict[str, Any],
) -> None:
    theirs = outcome_of(lambda: _reference(structure, extents, arrays, operator, function, options))
    if isinstance(theirs.error, Exception) and not isinstance(theirs.error, ValueError):
        raise theirs.error
    keywords: dict[str, Any] = {"combine": operator, **options}
    scanned = list(structure.output)
    if options:
        if operator in ("argmin", "argmax"):
            return
        reduced = [name for name in structure.dims if name not in structure.output]
        if len(scanned) > 1 or reduced:
            keywords["combine"] = dict.fromkeys((*scanned, *reduced), operator)
    if function != "product":
        keywords["f"] = _FUNCTIONS[function]
    if any(0 in array.shape for array in arrays) and operator not in ("add", "mul", "or", "xor"):
        return
    keywords["extents"] = dict(extents)
    expected = theirs.value
    if theirs.error is None and draw.chance(0.25):
        keywords["out"] = _target(draw, expected, arrays)
        draw.may_change(keywords["out"])
    call = mdt.scan if options else mdt.reduce
    draw.say(f"{call.__name__}({structure.text!r}, {keywords})")
    ours = outcome_of(lambda: call(structure.text, *arrays, **keywords))
    if same_outcome(ours, theirs):
        bound = None
        is_rounded = np.asarray(expected).dtype.kind in "fc" and not all(
            array.flags.writeable
            for array in arrays  # others were altered, to give exact products
        )
        if operator == "logaddexp":
            finite = np.abs(np.where(np.isfinite(expected), expected, 0)) + 1
            bound = 200 * np.finfo(expected.dtype).eps * finite
        elif operator == "mul" and is_rounded:
            terms = math.prod(extents.values())
            bound = 2 * terms * np.finfo(expected.dtype).eps * np.abs(expected)
        if "out" in keywords and ours.value is not keywords["out"]:
            raise MismatchError("the result is not the array that was given")
        found = np.asarray(ours.value) if "out" in keywords else ours.value
        same_values(found, expected if expected.ndim or "out" in keywords else expected[()], bound)
    draw.finished()


def _target(draw: Draw, like: np.ndarray, arrays: Sequence[np.ndarray]) -> np.ndarray:
    fitting = [
        a
        for a in arrays
        if a.shape == like.shape
        and a.dtype == like.dtype
        and a.flags.writeable
        and not (0 in a.strides and a.size > 1)
    ]
    if fitting and draw.chance(0.7):
        return draw.rng.choice(fitting)
    return draw.array(like.shape, like.dtype, target=True)


def _space(
    structure: Structure, extents: Mapping[str, int], arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The elements of each factor at every point of all dims."""
    shape = [extents[name] for name in structure.dims]
    grid = dict(zip(structure.dims, np.ogrid[tuple(map(slice, shape))], strict=True))
    if len(structure.dims) == 1:
        grid = {structure.dims[0]: np.arange(shape[0])}
    found: list[np.ndarray] = []
    for array, term in zip(arrays, structure.terms, strict=True):
        places = []
        for axis, index in enumerate(term):
            place = np.asarray(index.at(grid))
            if index.gathered is not None:
                held = structure.terms[index.gathered]
                values = arrays[index.gathered][tuple(one.at(grid) for one in held)]
                place = place + values.astype(np.int64)
                extent = array.shape[axis]
                place = np.clip(np.where(place < 0, place + extent, place), 0, extent - 1)
            places.append(place)
        found.append(np.broadcast_to(array[tuple(places)] if places else array, shape))
    return found[: len(found) - structure.indices]


def _reference(
    structure: Structure,
    extents: Mapping[str, int],
    arrays: Sequence[np.ndarray],
    operator: str,
    function: str,
    options: dict[str, Any],
) -> np.ndarray:
    elements = _space(structure, extents, arrays)
    if function == "product":  # factors are brought to their common type first
        elements = [element.astype(np.result_type(*elements)) for element in elements]
    values = np.asarray(_FUNCTIONS[function](*elements))
    stored = values.dtype
    if operator in ("argmin", "argmax"):
        return _positions(structure, values, operator)
    if (
        stored.kind == "b"
        and operator in ("add", "mul")
        and (options or len(structure.output) < len(structure.dims))
    ):
        stored = np.dtype(np.int64)
    if stored.kind in "fc":
        values = values.astype(np.float64 if stored.kind == "f" else np.complex128)
    else:
        values = values.astype(stored)
    ufunc = _UFUNCS[operator]
    places = {name: axis for axis, name in enumerate(structure.dims)}
    for name in reversed(structure.dims):
        axis = places[name]
        if name not in structure.output:
            initial = {} if values.shape[axis] else {"initial": _identity(operator, stored)}
            values = ufunc.reduce(values, axis=axis, keepdims=True, dtype=values.dtype, **initial)
        elif options:
            values = _scanned(ufunc, values, axis, operator, stored, options)
    gone = tuple(places[name] for name in structure.dims if name not in structure.output)
    left = [name for name in structure.dims if name in structure.output]
    result = values.squeeze(gone).transpose([left.index(name) for name in structure.output])
    return np.array(result.astype(stored))


def _scanned(
    ufunc: np.ufunc,
    values: np.ndarray,
    axis: int,
    operator: str,
    stored: np.dtype,
    options: dict[str, Any],
) -> np.ndarray:
    turned = np.flip(values, axis) if options["reverse"] else values
    if turned.shape[axis]:
        turned = ufunc.accumulate(turned, axis=axis, dtype=values.dtype)
    if options["exclusive"] and turned.shape[axis]:
        turned = np.roll(turned, 1, axis)
        first = (slice(None),) * axis + (0,)
        turned[first] = _identity(operator, stored)
    return np.flip(turned, axis) if options["reverse"] else turned


def _identity(operator: str, dtype: np.dtype) -> Any:
    if operator in ("add", "or", "xor"):
        return 0
    if operator == "mul":
        return 1
    if operator == "and":
        return (
            True
            if dtype.kind == "b"
            else dtype.type(-1)
            if dtype.kind == "i"
            else np.iinfo(dtype).max
        )
    if operator == "logaddexp":
        return -np.inf
    if operator in ("fmin", "fmax") and dtype.kind == "f":
        return np.nan
    least = operator in ("max", "greater", "fmax")
    if dtype.kind == "f":
        return -np.inf if least else np.inf
    if dtype.kind == "b":
        return not least
    return np.iinfo(dtype).min if least else np.iinfo(dtype).max


def _positions(structure: Structure, values: np.ndarray, operator: str) -> np.ndarray:
    reduced = [axis for axis, name in enumerate(structure.dims) if name not in structure.output]
    kept = [structure.dims.index(name) for name in structure.output]
    if not reduced:
        return np.zeros([values.shape[axis] for axis in kept], np.int64)
    moved = values.transpose(kept + reduced)
    flat = moved.reshape(*moved.shape[: len(kept)], int(np.prod(moved.shape[len(kept) :])))
    if not flat.shape[-1]:
        raise ValueError("the position of the best of no elements")
    return np.asarray(getattr(np, operator)(flat, axis=-1), np.int64)


def _check_einsum(
    draw: Draw,
    structure: Structure,
    extents: Mapping[str, int],
    arrays: Sequence[np.ndarray],
) -> None:
    def reference() -> np.ndarray:
        values = _space(structure, extents, arrays)
        common = np.result_type(*values)
        wide = {"f": np.float64, "c": np.complex128}.get(common.kind, common)
        letters = [chr(97 + n) for n in range(len(structure.dims))]
        of = dict(zip(structure.dims, letters, strict=True))
        text = ",".join(["".join(letters)] * len(values))
        text += "->" + "".join(of[name] for name in structure.output)
        return np.asarray(np.einsum(text, *(v.astype(wide) for v in values))).astype(common)

    theirs = outcome_of(reference)
    if theirs.error is not None:
        raise theirs.error
    keywords: dict[str, Any] = {"extents": dict(extents)}
    if draw.chance(0.2):
        keywords["out"] = _target(draw, theirs.value, arrays)
        draw.may_change(keywords["out"])
    draw.say(f"einsum({structure.text!r}, {keywords})")
    ours = outcome_of(lambda: mdt.einsum(structure.text, *arrays, **keywords))
    if same_outcome(ours, theirs):
        same_values(np.asarray(ours.value), theirs.value)
    draw.finished()
