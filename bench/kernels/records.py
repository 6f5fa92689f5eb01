"""Records: probabilistic record linkage (PRL), which finds persons that a register knows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from bench.kernels.kernel import Draw, Kernel, Say
from bench.workload import CALL, Arrays, Call, Outs
from mdtensor.specs import TensorSpec

PERSON = np.dtype(
    [
        ("id", "i8"),
        ("last", "S24"),
        ("first", "S24"),
        ("city", "S24"),
        ("postcode", "i4"),
        ("year", "i2"),
        ("month", "i1"),
        ("day", "i1"),
    ]
)
# Weights where an attribute agrees and where it differs: logarithms of how often that happens for
# one person, and for two. Multiples of 1/8, so that sums are exact in every order.
SAME = {
    "last": 9.5,
    "first": 6.125,
    "city": 4.25,
    "postcode": 5.625,
    "year": 6.25,
    "month": 3.5,
    "day": 4.875,
}
OTHER = {
    "last": -3.25,
    "first": -2.75,
    "city": -1.5,
    "postcode": -1.25,
    "year": -4.5,
    "month": -3.875,
    "day": -4.125,
}
# What listing 11 of 003 calls two records with the same number of insurance.
SAME_ID = 14
_SYLLABLES = ("an", "ber", "chri", "do", "el", "fin", "ger", "ha", "ko", "lin", "mar", "ro")
_ROWS = 64
# Some 30 ns a pair; a GPU compares some hundred in that time.
_NUMPY_PAIRS = 1 << 26


def linkage(
    new: int, known: int, label: str, floor: float | None = None, *, on_gpu: bool = False
) -> Kernel:
    """The best match of every new person among those of a register (003, listing 11).

    Libraries that would take a processor half a minute a call take no part, but for torch on a GPU.
    """
    pairs = new * known
    says: dict[str, Say] = {"mdtensor": _mdtensor, "numba": _numba}
    if pairs <= _NUMPY_PAIRS:
        says |= {"numpy": _numpy, "torch": _torch}
    elif on_gpu:
        says["torch"] = _torch
    return Kernel(
        name=f"prl-{label}",
        formula="(id, weight, measure)[n] = best match of new[n] among known[e]",
        inputs=(TensorSpec.of((new,), PERSON), TensorSpec.of((known,), PERSON)),
        outputs=tuple(TensorSpec.of((new,), dtype) for dtype in ("int64", "float64", "int32")),
        reduction=len(SAME),
        flops=pairs * len(SAME),
        exact=best_matches,
        says=says,
        draw=(_new_persons(known), _register),
        floor=floor,
    )


def _names(count: int, step: int) -> np.ndarray:
    """Distinct names of two to four syllables."""
    base = len(_SYLLABLES)
    made: list[str] = []
    for number in range(count):
        rest, name = number * step + base, ""
        while rest:
            rest, digit = divmod(rest, base)
            name += _SYLLABLES[digit]
        made.append(name.capitalize())
    return np.array(made, "S24")


def persons(numbers: np.ndarray) -> np.ndarray:
    """The same records for the same numbers of persons, without typing errors."""
    records = np.zeros(numbers.shape, PERSON)
    last, first, cities = _names(1500, 7), _names(300, 5), _names(120, 11)
    scattered = numbers * 2654435761 % 2**32
    records["id"] = numbers * 3 + 1000
    records["last"] = last[scattered % len(last)]
    records["first"] = first[scattered // 7 % len(first)]
    records["city"] = cities[scattered // 131 % len(cities)]
    records["postcode"] = 10_000 + scattered // 131 % 900
    records["year"] = 1920 + scattered // 17 % 100
    records["month"] = 1 + scattered // 29 % 12
    records["day"] = 1 + scattered // 37 % 28
    return records


def _register(generator: np.random.Generator, spec: TensorSpec) -> np.ndarray:
    return persons(np.arange(spec.size))


def _new_persons(known: int) -> Draw:
    def drawn(generator: np.random.Generator, spec: TensorSpec) -> np.ndarray:
        # Half of them are known, but few with their number, and some with typing errors.
        records = persons(generator.integers(0, 2 * known, spec.size))
        records["id"][generator.random(spec.size) < 0.8] = -1
        for field, other in (("last", b"Berlinko"), ("first", b"Elan"), ("city", b"Haro")):
            records[field][generator.random(spec.size) < 0.15] = other
        return records

    return drawn


def best_matches(new: np.ndarray, known: np.ndarray) -> Arrays:
    """The best matches by NumPy: names become numbers, then blocks of rows are compared."""
    codes = {field: _codes(new[field], known[field]) for field in SAME}
    matches = tuple(np.empty(new.shape, dtype) for dtype in (np.int64, np.float64, np.int32))
    for start in range(0, len(new), _ROWS):
        rows = slice(start, start + _ROWS)
        weight = np.zeros((len(new[rows]), len(known)))
        agreeing = np.zeros(weight.shape, np.int32)
        for field, (left, right) in codes.items():
            equal = left[rows, None] == right
            weight += np.where(equal, SAME[field], OTHER[field])
            agreeing += equal
        exact = new["id"][rows, None] == known["id"]
        agreeing[exact] = SAME_ID
        # The first of the best; registers are ordered by id.
        best = np.argmax(weight + 1000.0 * exact, axis=1)
        which = np.arange(len(best)), best
        found = known["id"][best], weight[which], agreeing[which]
        for match, values in zip(matches, found, strict=True):
            match[rows] = values
    return matches


def _codes(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _, codes = np.unique(np.concatenate([left, right]), return_inverse=True)
    codes = codes.astype(np.int32)
    return codes[: len(left)], codes[len(left) :]


def _numpy(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    return {"blocks of rows": lambda: best_matches(*operands)}


def _numba(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    from bench.kernels import loops

    # The same memory; numba compares words faster than strings.
    words = np.dtype([(name, *_in_words(PERSON[name])) for name in PERSON.names or ()])
    new, known = (operand.view(words) for operand in operands)
    return {"prange": lambda: loops.linkage(new, known, *outs)}


def _torch(operands: list[np.ndarray], outs: Arrays) -> Mapping[str, Call]:
    from bench.kernels.linkage_torch import linkage_calls

    return linkage_calls(operands, SAME, OTHER, SAME_ID)


def _in_words(dtype: np.dtype) -> tuple[Any, ...]:
    return ("u8", (dtype.itemsize // 8,)) if dtype.kind == "S" else (dtype,)


def _linked(new: Any, known: Any) -> Any:
    last, first = new["last"] == known["last"], new["first"] == known["first"]
    city, postcode = new["city"] == known["city"], new["postcode"] == known["postcode"]
    year, month = new["year"] == known["year"], new["month"] == known["month"]
    day = new["day"] == known["day"]
    weight = SAME["last"] if last else OTHER["last"]
    weight = weight + (SAME["first"] if first else OTHER["first"])
    weight = weight + (SAME["city"] if city else OTHER["city"])
    weight = weight + (SAME["postcode"] if postcode else OTHER["postcode"])
    weight = weight + (SAME["year"] if year else OTHER["year"])
    weight = weight + (SAME["month"] if month else OTHER["month"])
    weight = weight + (SAME["day"] if day else OTHER["day"])
    agreeing = (1 if last else 0) + (1 if first else 0) + (1 if city else 0)
    agreeing = agreeing + (1 if postcode else 0) + (1 if year else 0)
    agreeing = agreeing + (1 if month else 0) + (1 if day else 0)
    measure = SAME_ID if new["id"] == known["id"] else agreeing
    return known["id"], weight, np.int32(measure)


@cache
def _better() -> Any:
    import mdtensor as mdt

    @mdt.operator(identity=(2**63 - 1, -np.inf, 0), commutative=True)
    def better(lhs: Any, rhs: Any) -> Any:
        if lhs[2] == SAME_ID and rhs[2] != SAME_ID:
            return lhs
        if rhs[2] == SAME_ID and lhs[2] != SAME_ID:
            return rhs
        if lhs[1] > rhs[1] or (lhs[1] == rhs[1] and lhs[0] < rhs[0]):
            return lhs
        return rhs

    return better


def _mdtensor(operands: list[np.ndarray], outs: Outs) -> Mapping[str, Call]:
    import mdtensor as mdt

    reduce: Any = mdt.reduce
    out = None if outs[0] is None else outs
    options = {"f": _linked, "combine": _better(), "out": out}
    return {CALL: lambda: reduce("n,e->n", *operands, **options)}


RECORDS = (
    linkage(2**10, 2**15, "2^10x2^15", floor=2.0),
    linkage(2**15, 2**15, "2^15x2^15"),
)
