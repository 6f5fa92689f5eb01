"""Random arrays for programs, their types, and modules of drawn text."""

from __future__ import annotations

import linecache
import math
import random
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

import mdtensor as mdt
from mdtensor import directive
from tests.translate.programs.expressions import GRAIN, LETTERS, VALUES

# Texts that stand for those that are drawn for a name, while a failure is made shorter.
replaced: dict[str, str] = {}
NUMBERS = ("f8", "f8", "f4", "i8", "i8", "i4", "i2", "u1", "?")
_FIELDS: Sequence[tuple[Any, ...]] = (
    ("id", "i8"),
    ("weight", "f4"),
    ("size", "i4"),
    ("mark", "f8"),
    ("name", "S3"),
    ("word", "S6"),
    ("code", "u1", (4,)),
    ("marks", "f8", (2,)),
    ("counts", "i4", (3,)),
    ("inner", [("left", "i4"), ("right", "f8")]),
)


def drawn_dtype(rng: random.Random, *, records: bool = True) -> np.dtype:
    """A type of elements: a number, a record, or a string."""
    share = rng.random()
    if share < 0.55 or not records:
        return np.dtype(rng.choice(NUMBERS))
    if share < 0.93:
        return record_dtype(rng)
    return np.dtype(rng.choice(("S3", "S5")))


def record_dtype(rng: random.Random) -> np.dtype:
    """A structured type with two to five fields."""
    return np.dtype(sorted(rng.sample(_FIELDS, rng.randint(2, 5)), key=lambda field: field[0]))


def drawn_array(rng: random.Random, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Random elements in the ranges that expressions are drawn for."""
    array = np.zeros(shape, dtype)
    _fill(np.random.default_rng(rng.getrandbits(32)), array)
    return array


def _fill(rng: np.random.Generator, array: np.ndarray) -> None:
    dtype = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            _fill(rng, array[name])
        # Records that are equal are as likely as others.
        flat = array.reshape(-1)
        flat[rng.random(flat.size) < 0.4] = flat[:1]
    elif dtype.kind == "S":
        lengths = rng.integers(1, dtype.itemsize + 1, array.shape)
        words = [bytes(rng.choice(list(LETTERS), n).tolist()) for n in lengths.reshape(-1)]
        array[...] = np.array(words, dtype).reshape(array.shape)
    elif dtype.kind == "b":
        array[...] = rng.integers(0, 2, array.shape)
    else:
        low, high = VALUES[dtype.str[1:]]
        if dtype.kind == "f":
            array[...] = rng.integers(low << GRAIN, (high << GRAIN) + 1, array.shape) / 2**GRAIN
        else:
            array[...] = rng.integers(low, high + 1, array.shape)


def module(name: str, text: str, extra: Mapping[str, Any] | None = None) -> ModuleType:
    """A module of drawn text, whose lines errors and the interpreter find."""
    file, text = f"<{name}>", replaced.get(name, text)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    made = ModuleType(name)
    names = {n: getattr(directive, n) for n in directive.__all__}
    vars(made).update(names, np=np, math=math, mdt=mdt, **(extra or {}))
    exec(compile(text, file, "exec"), vars(made))
    return made
