"""What callers pass by mistake: values, arrays, texts and functions that fit nowhere.

What a value's own methods and a caller's own functions raise here is the caller's own error.
"""

from __future__ import annotations

import array
import datetime
import decimal
import fractions
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

import mdtensor as mdt
from mdtensor.directive import Buffer, fp64

Make = Callable[[random.Random], Any]


def as_callers(function: Any) -> Any:
    """A function of NumPy or Python as one of the caller's, which calls it; others as they are."""
    if not callable(function) or "mdtensor" in str(getattr(function, "__module__", "")):
        return function

    def called(*args: Any, **named: Any) -> Any:
        return function(*args, **named)

    return called


class OwnError(Exception):
    """What a caller's own code raises."""


class Anything:
    """Has every attribute, and each is such an object again."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other


class Refusing:
    """Raises whatever is asked of it."""

    def _refuse(self, *_: object, **__: object) -> Any:
        raise OwnError("asked too much")

    __array__ = __index__ = __iter__ = __len__ = __bool__ = __float__ = __call__ = _refuse
    __add__ = __mul__ = __radd__ = __rmul__ = __getitem__ = _refuse


class Silent:
    """Has no `repr`."""

    def __repr__(self) -> str:
        raise OwnError("no words")


class Wrong:
    """Answers with what nobody may answer."""

    shape, dtype, strides, ndim = (2, "x"), "f8", None, -1

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": "x", "version": 3}

    def __index__(self) -> Any:
        return str(self)


class Odd(np.ndarray):
    """A subclass of arrays."""


class Overriding(np.ndarray):
    """A subclass that answers NumPy's functions by itself."""

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return NotImplemented


def circular(kind: type = list) -> Any:
    """What holds itself."""
    if kind is dict:
        mapping: dict[str, Any] = {}
        mapping["i"] = mapping
        return mapping
    whole: list[Any] = []
    whole.append(whole if kind is list else (whole,))
    return whole if kind is list else tuple(whole)


def nested(depth: int) -> list[Any]:
    """A list in a list, and so on."""
    whole: list[Any] = []
    for _ in range(depth):
        whole = [whole]
    return whole


def numbers() -> Iterator[int]:
    """What can be gone through but once."""
    yield from range(3)


def closed() -> memoryview:
    """A view of memory that was given back."""
    view = memoryview(bytearray(8))
    view.release()
    return view


NUMBERS: list[Make] = [
    lambda _: -1,
    lambda _: 0,
    lambda _: 1,
    lambda _: 2,
    lambda _: 3,
    lambda _: 7,
    lambda _: 10**20,
    lambda _: -(10**20),
    lambda _: 10**5000,
    lambda _: 2**31,
    lambda _: 2**63 - 1,
    lambda _: 2**63,
    lambda _: 1.5,
    lambda _: 2.0,
    lambda _: 1e300,
    lambda _: math.nan,
    lambda _: math.inf,
    lambda _: -0.0,
    lambda _: 1j,
    lambda _: True,
    lambda _: np.int8(2),
    lambda _: np.uint64(2**64 - 1),
    lambda _: np.float16(1),
    lambda _: np.bool_(True),
    lambda _: decimal.Decimal("1.5"),
    lambda _: fractions.Fraction(1, 3),
    lambda _: "2",
]

WORDS: list[Make] = [
    lambda _: "",
    lambda _: " ",
    lambda _: "x",
    lambda _: "ij,jk->ik",
    lambda _: "é",
    lambda _: "\0",
    lambda _: "\ud800",
    lambda _: "🙂 -> 🙂",
    lambda _: "K",
    lambda _: "float32",
    lambda _: "add",
    lambda _: "same",
    lambda _: "n" * 10_000,
    lambda _: "," * 3_000,
    lambda _: "i " * 1_000 + "-> j1",
    lambda _: "(" * 500,
    lambda _: "9" * 5_000,
    lambda _: "%s{}{0}\\",
    lambda _: b"ij,jk->ik",
    lambda _: b"\xff\xfe",
    lambda _: np.str_("ij->i"),
    lambda _: ["i", "j"],
]

ANYTHING: list[Make] = [
    lambda _: None,
    lambda _: ...,
    lambda _: NotImplemented,
    lambda _: object(),
    lambda _: object,
    lambda _: int,
    lambda _: type,
    lambda _: np.float32,
    lambda _: np.dtype("f4"),
    lambda _: np.ndarray,
    lambda _: np.add,
    lambda _: np,
    lambda _: mdt,
    lambda _: mdt.einsum,
    lambda _: mdt.spec((3,)),
    lambda _: mdt.spec((2, 3), "f8"),
    lambda _: mdt.lazy(np.ones((2, 3))),
    lambda _: mdt.cc,
    lambda _: mdt.pw("add"),
    lambda _: Buffer[fp64],
    lambda _: slice(None),
    lambda _: slice("a", 2.5, 0),
    lambda _: (),
    lambda _: [],
    lambda _: {},
    lambda _: set(),
    lambda _: {1, 2},
    lambda _: {"i": 3},
    lambda _: {"i": "add", 3: None},
    lambda _: (None,),
    lambda _: (1, "a"),
    lambda _: ([1, 2], [3]),
    lambda _: range(3),
    lambda _: numbers(),
    lambda _: iter([1, 2]),
    lambda _: zip("ab", "cd", strict=True),
    lambda _: circular(),
    lambda _: circular(dict),
    lambda _: circular(tuple),
    lambda _: nested(30),
    lambda _: nested(70),
    lambda _: nested(3000),
    lambda _: Anything(),
    lambda _: Anything,
    lambda _: Unhashable(),
    lambda _: Refusing(),
    lambda _: Silent(),
    lambda _: Wrong(),
    lambda _: bytearray(b"12345678"),
    lambda _: memoryview(b"12345678"),
    lambda _: closed(),
    lambda _: array.array("d", [1, 2, 3]),
    lambda _: datetime.date(2020, 1, 1),
    lambda _: np.datetime64("2020-01-01"),
    lambda _: np.ma.array([1.0, 2.0], mask=[True, False]),
    lambda _: ValueError("x"),
    lambda _: random.Random(0),
    lambda _: np.random.default_rng,
]


def recursive(*elements: Any) -> Any:
    return recursive(*elements)


def deep(*elements: Any) -> Any:
    return deep(elements[0] + 1)


def raising(*elements: Any) -> Any:
    raise OwnError("within")


def raising_typed(*elements: Any) -> Any:
    raise KeyError("a caller's own")


async def waiting(*elements: Any) -> Any:
    return elements[0]


def yielding(*elements: Any) -> Any:
    yield elements[0]


def branching(x: Any) -> Any:
    if x > 1:
        return x
    while x < 3:
        x = x + 1
    return None


def naming(x: Any, *, unknown: Any) -> Any:
    return x + unknown


class Called:
    def __call__(self, *elements: Any) -> Any:
        return elements[0]

    def method(self, x: Any) -> Any:
        return x * 2


FUNCTIONS: list[Make] = [
    lambda _: lambda: 1,
    lambda _: lambda x: x,
    lambda _: lambda x, y: x,
    lambda _: lambda x, y: None,
    lambda _: lambda x, y: "word",
    lambda _: lambda x, y: x / 0,
    lambda _: lambda x, y: x + "a",
    lambda _: lambda x, y: (x, y, x),
    lambda _: lambda *xs: (),
    lambda _: lambda *xs: [],
    lambda _: lambda *xs: {},
    lambda _: lambda *xs: [xs],
    lambda _: lambda *xs: ((xs[0],),),
    lambda _: lambda *xs: {"a": xs[0]},
    lambda _: lambda *xs: {xs[0]: 1},
    lambda _: lambda *xs: lambda: xs,
    lambda _: lambda *xs: np.ones(3),
    lambda _: lambda *xs: np.array([xs[0]], object),
    lambda _: lambda *xs: 1e400,
    lambda _: lambda *xs: 10**400,
    lambda _: lambda *xs: xs[0] + 10**400,
    lambda _: lambda *xs: xs[0] << 200,
    lambda _: lambda *xs: xs[0] ** 10**6,
    lambda _: lambda *xs: int(xs[0]),
    lambda _: lambda *xs: float(xs[0]),
    lambda _: lambda *xs: xs[0] or xs[-1],
    lambda _: lambda *xs: xs[0].missing,
    lambda _: lambda *xs: xs[0][5],
    lambda _: lambda *xs: xs[0][0, 0, 0, 0, 0],
    lambda _: lambda *xs: xs[0]["field"],
    lambda _: lambda *xs: len(xs[0]),
    lambda _: lambda *xs: sum(xs[0]),
    lambda _: lambda *xs: sorted(xs),
    lambda _: lambda *xs: f"{xs[0]:5.2f}",
    lambda _: lambda *xs: hash(xs[0]),
    lambda _: lambda *xs: math.sin(xs[0]),
    lambda _: lambda *xs: np.sin(xs[0]),
    lambda _: lambda *xs: np.linalg.inv(xs[0]),
    lambda _: lambda *xs: NotImplemented,
    lambda _: lambda *xs: ...,
    lambda _: lambda *xs: type,
    lambda _: lambda *xs: Anything(),
    lambda _: lambda *xs: circular(),
    lambda _: recursive,
    lambda _: deep,
    lambda _: raising,
    lambda _: raising_typed,
    lambda _: waiting,
    lambda _: yielding,
    lambda _: branching,
    lambda _: naming,
    lambda _: Called(),
    lambda _: Called().method,
    lambda _: Called,
    lambda _: len,
    lambda _: print,
    lambda _: max,
    lambda _: int.__add__,
    lambda _: np.add,
    lambda _: np.sum,
    lambda _: np.vectorize(lambda x: x),
    lambda _: staticmethod(lambda x: x),
    lambda _: property(lambda x: x),
    lambda _: mdt.reduce,
    lambda _: "no function",
]

_MOST_ELEMENTS = 1 << 20
DTYPES = (
    "?", "b", "B", "h", "i8", "u8", "f2", "f4", "f8", "g", "F", "D", "G", "O", "M8[s]", "m8[ns]",
    "S3", "U2", "V4", ">f8", ">i4", "i4,f8", "(2,)f4", "S0", "U0", "V0",
)  # fmt: skip


def converted(value: np.ndarray, dtype: Any) -> np.ndarray:
    """Elements of another type, whatever they are then."""
    try:
        return value.astype(dtype)
    except (TypeError, ValueError):
        return np.zeros(value.shape, dtype)


def _unaligned(value: np.ndarray) -> np.ndarray:
    memory = np.zeros(value.nbytes + 1, "u1")
    return memory[1:].view(value.dtype).reshape(value.shape) if value.size else value


def _read_only(value: np.ndarray) -> np.ndarray:
    value = value.copy()
    value.flags.writeable = False
    return value


def _with_objects(value: np.ndarray) -> np.ndarray:
    value = value.astype(object)
    if value.size:
        value.flat[0] = None
    return value


ARRAYS: list[Callable[[random.Random, np.ndarray], Any]] = [
    lambda r, a: converted(a, r.choice(DTYPES)),
    lambda r, a: converted(a, r.choice(DTYPES)),
    lambda r, a: a.astype(ml_dtypes.bfloat16),
    lambda r, a: a[()] if not a.ndim else a[0],
    lambda r, a: a[None],
    lambda r, a: a[..., None],
    lambda r, a: a.T,
    lambda r, a: a[:0],
    lambda r, a: np.concatenate([a, a]) if a.ndim else a,
    lambda r, a: a[..., 1:] if a.ndim else a,
    lambda r, a: a[::-1] if a.ndim else a,
    lambda r, a: np.repeat(a, 2, -1)[..., ::2] if a.ndim else a,
    lambda r, a: a.ravel(),
    lambda r, a: np.float64(2),
    lambda r, a: np.ones((1,) * 33),
    lambda r, a: np.ones((1,) * 64),
    lambda r, a: np.broadcast_to(np.int8(1), (2**40,)),
    lambda r, a: np.broadcast_to(a.ravel()[:1][0] if a.size else np.float64(0), a.shape),
    lambda r, a: _read_only(a),
    lambda r, a: _unaligned(a),
    lambda r, a: _with_objects(a),
    lambda r, a: a.view(Odd),
    lambda r, a: a.view(Overriding),
    lambda r, a: np.ma.masked_array(a, mask=np.ones(a.shape, bool)),
    lambda r, a: a.tolist(),
    lambda r, a: [a.tolist(), [1]],
    lambda r, a: (a, a),
    lambda r, a: memoryview(np.ascontiguousarray(a)),
    lambda r, a: np.full(a.shape, np.nan),
    lambda r, a: mdt.lazy(a),
    lambda r, a: mdt.spec(a.shape, a.dtype),
    lambda r, a: np.zeros(a.shape, [("a", "f4"), ("b", "O")]),
    lambda r, a: np.zeros(a.shape, [("a", "f4"), ("s", "S3")]),
    lambda r, a: np.rec.array(np.zeros(a.shape, [("a", "f4")])),
    lambda r, a: a.dtype,
    lambda r, a: a.shape,
    lambda r, a: type(a),
]

_CHARACTERS = "ijklmnhr,,,->->...+-*@;_ 0123459é\n\t\0[](){}\"'%"


def odd_word(rng: random.Random, word: str) -> Any:
    """A text with characters that are missing, wrong or too many, or another one."""
    if rng.random() < 0.25:
        return rng.choice(WORDS)(rng)
    letters = [*word]
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(letters))
        action = rng.random()
        if action < 0.4:
            letters.insert(at, rng.choice(_CHARACTERS))
        elif action < 0.7:
            del letters[at : at + rng.randint(1, 2)]
        elif action < 0.9:
            letters[at : at + 1] = rng.choice(_CHARACTERS)
        else:
            letters *= rng.choice((2, 2, 50))
    return "".join(letters)


def odd_function(rng: random.Random) -> Any:
    """A function that cannot be what was asked for, or hardly."""
    return rng.choice(FUNCTIONS)(rng)


def odd_array(rng: random.Random, value: np.ndarray) -> Any:
    """An array with something wrong about it; None where it cannot have that."""
    if value.size > _MOST_ELEMENTS:  # which stand on few, and would be copied
        return value[:3]
    try:
        return rng.choice(ARRAYS)(rng, value)
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError):
        return None
    except mdt.errors.MdtensorError:
        return None


def odd(rng: random.Random, value: Any) -> Any:
    """Something else in the place of a value, mostly of its kind."""
    if rng.random() < 0.25:
        return rng.choice(ANYTHING)(rng)
    if isinstance(value, np.ndarray):
        return odd_array(rng, value)
    if isinstance(value, str):
        return odd_word(rng, value)
    if isinstance(value, int | float | np.generic):
        return rng.choice(NUMBERS)(rng)
    if isinstance(value, tuple | list):
        return _odd_sequence(rng, value)
    if isinstance(value, dict):
        return _odd_mapping(rng, value)
    if callable(value):
        return odd_function(rng)
    return rng.choice((*ANYTHING, *NUMBERS, *WORDS))(rng)


def _odd_sequence(rng: random.Random, value: Any) -> Any:
    parts = list(value)
    action = rng.random()
    at = rng.randrange(len(parts)) if parts else 0
    if action < 0.5 and parts:
        parts[at] = odd(rng, parts[at])
    elif action < 0.65 and parts:
        del parts[at]
    elif action < 0.8:
        parts.insert(at, odd(rng, parts[at] if parts else 0))
    elif action < 0.9:
        parts *= rng.choice((2, 40))
    else:
        return rng.choice((iter, np.array, set, str, len))(parts) if _is_plain(parts) else parts
    return type(value)(parts) if type(value) in (tuple, list) else parts


def _is_plain(parts: list[Any]) -> bool:
    """Whether all can be written, which Python refuses for integers of thousands of digits."""
    is_written = (type(p) in (float, str) or (type(p) is int and p < 10**99) for p in parts)
    return all(is_written)


def _odd_mapping(rng: random.Random, value: dict[Any, Any]) -> Any:
    changed = dict(value)
    action = rng.random()
    if changed and action < 0.5:
        name = rng.choice([*changed])
        changed[name] = odd(rng, changed[name])
    elif changed and action < 0.7:
        changed[odd_key(rng)] = changed.pop(rng.choice([*changed]))
    else:
        changed[odd_key(rng)] = rng.choice((*ANYTHING, *NUMBERS))(rng)
    return changed


def odd_key(rng: random.Random) -> Any:
    """What a mapping may have for a key, and should not."""
    return rng.choice((None, 0, 3.5, "zz", "", ("i", "j"), "i", "j", b"i", "é", "n" * 1000))
