"""Expressions of Python, drawn with what is known of their values."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tests.translate.programs.ranges import (
    BOOL,
    FLOATS,
    LITERAL,
    LONG,
    NARROW,
    WHOLE,
    Range,
    chosen,
    combined,
    comparable,
    quotient,
    remainder,
    settled,
)


@dataclass(frozen=True)
class Number:
    """An expression of one number, in parentheses where it needs them."""

    text: str
    range: Range


@dataclass(frozen=True)
class Part:
    """An expression of a record, a sub-array or a string, of a type of NumPy."""

    text: str
    dtype: np.dtype


@dataclass
class Scope:
    """What the names in a place of a program stand for.

    `reads` draw elements of arrays; `functions` are helpers, by what they were drawn for.
    """

    numbers: list[Number] = field(default_factory=list[Number])
    parts: list[Part] = field(default_factory=list[Part])
    tuples: list[tuple[str, tuple[Number, ...]]] = field(
        default_factory=list[tuple[str, tuple[Number, ...]]]
    )
    reads: list[Callable[[], Number | Part]] = field(
        default_factory=list[Callable[[], "Number | Part"]]
    )
    helpers: list[tuple[str, tuple[Range, ...], Range]] = field(
        default_factory=list[tuple[str, tuple[Range, ...], Range]]
    )

    def copy(self) -> Scope:
        return Scope(*map(list, (self.numbers, self.parts, self.tuples, self.reads, self.helpers)))


VALUES = {"u1": (0, 9), "i2": (-9, 9), "i4": (-9, 9), "i8": (-9, 9), "f4": (-4, 4), "f8": (-4, 4)}
GRAIN = 2  # elements that are floats are multiples of 1/4
LETTERS = b"abc"


def element_range(dtype: np.dtype) -> Range:
    """The range of the elements that `data` draws."""
    if dtype.kind == "b":
        return BOOL
    low, high = VALUES[dtype.str[1:]]
    return Range(dtype.str[1:], low, high, GRAIN if dtype.kind == "f" else 0)


def fields_of(part: Part, rng: random.Random) -> Part | Number:
    """A part of a record or of a sub-array, down to a number or a string."""
    dtype, text = part.dtype, part.text
    if dtype.names is not None:
        name = rng.choice(dtype.names)
        by_name = (f'["{name}"]', f'["{name}"]', f".{name}", f"[{dtype.names.index(name)}]")
        return entity(text + rng.choice(by_name), dtype[name])
    assert dtype.subdtype is not None
    place = rng.randrange(-dtype.shape[0], dtype.shape[0])
    return entity(f"{text}[{place}]", np.dtype((dtype.base, dtype.shape[1:])))


def entity(text: str, dtype: np.dtype) -> Part | Number:
    """A number or a part, by its type."""
    if dtype.names is not None or dtype.subdtype is not None or dtype.kind == "S":
        return Part(text, dtype)
    return Number(text, element_range(dtype))


class Expressions:
    """Draws expressions over a scope; every method gives a number, or a text of a condition."""

    def __init__(self, rng: random.Random, scope: Scope) -> None:
        self.rng = rng
        self.scope = scope

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    # ---- numbers

    def number(self, depth: int) -> Number:
        """Any number."""
        if depth <= 0 or self.chance(0.15):
            return self.atom()
        draws = (
            *(self.arithmetic,) * 6,
            *(self.choice,) * 2,
            *(self.extremum,) * 2,
            self.function,
            self.division,
            self.bits,
            self.called,
            self.folded,
            self.logic,
            self.counted,
        )
        for _ in range(8):
            if (found := self.rng.choice(draws)(depth - 1)) is not None:
                return found
        return self.atom()

    def atom(self) -> Number:
        """An element, a variable or a constant."""
        for _ in range(4):
            kind = self.rng.random()
            if kind < 0.2:
                return self.literal()
            if kind < 0.45 and self.scope.numbers:
                return self.rng.choice(self.scope.numbers)
            if kind < 0.55 and self.scope.tuples:
                name, items = self.rng.choice(self.scope.tuples)
                place = self.rng.randrange(len(items))
                return replace(items[place], text=f"{name}[{place}]")
            if (found := self.read()) is not None:
                return found
        return self.literal()

    def read(self) -> Number | None:
        """A number that lies in an operand."""
        if not self.scope.reads and not self.scope.parts:
            return None
        found = self.rng.choice([*self.scope.reads, *self.scope.parts])
        entity = found if isinstance(found, Part) else found()
        while isinstance(entity, Part):
            if entity.dtype.kind == "S":
                place = self.rng.randrange(entity.dtype.itemsize)
                return Number(f"{entity.text}[{place}]", Range(LONG, 0, 127, pure=False))
            entity = fields_of(entity, self.rng)
        return entity

    def literal(self) -> Number:
        if self.chance(0.7):
            value = self.rng.choice((0, 1, 1, 2, 2, 3, 5, 7, -1, -2))
            return Number(f"({value})" if value < 0 else str(value), Range(LITERAL, value, value))
        value = self.rng.choice((0.5, 1.0, 1.5, 2.0, 0.25, -0.5, -1.5))
        text = f"({value})" if value < 0 else str(value)
        return Number(text, Range("float", value, value, 2))

    def known(self, value: int) -> Number:
        return Number(f"({value})" if value < 0 else str(value), Range(LITERAL, value, value))

    def arithmetic(self, depth: int) -> Number | None:
        a, b = self.number(depth), self.number(depth)
        op = self.rng.choice("++--*")
        found = combined(op, a.range, b.range)
        return None if found is None else Number(f"({a.text} {op} {b.text})", found)

    def division(self, depth: int) -> Number | None:
        a = self.number(depth)
        op = self.rng.choice(("/", "//", "%"))
        if self.chance(0.7):
            b = self.known(self.rng.choice((2, 3, 4, 5, -2, -3)))
        elif (raised := self.at_least_one(self.number(depth - 1))) is not None:
            b = raised
        else:
            return None
        if op == "/":
            found = quotient(a.range, b.range)
            return None if found is None else Number(f"({a.text} / {b.text})", found)
        found = remainder(op, a.range, b.range)
        if found is None:
            return None
        if self.chance(0.3):
            return Number(f"divmod({a.text}, {b.text})[{'//%'.index(op) // 2}]", found)
        return Number(f"({a.text} {op} {b.text})", found)

    def at_least_one(self, value: Number) -> Number | None:
        """`abs(x) + 1`."""
        size = self.absolute(value)
        found = None if size is None else combined("+", size.range, Range(LITERAL, 1, 1))
        if size is None or found is None or found.low < 1:
            return None
        return Number(f"({size.text} + 1)", found)

    def absolute(self, value: Number) -> Number | None:
        a = value.range
        if a.kind == "?" or -a.low > a.limits[1]:
            return None
        low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
        text = self.rng.choice(("abs({})", "abs({})", "np.abs({})")).format(value.text)
        return Number(text, replace(a, low=low, high=a.bound))

    def choice(self, depth: int) -> Number | None:
        a, b = self.number(depth), self.number(depth)
        found = chosen((a.range, b.range))
        if found is None:
            return None
        condition = self.condition(depth)
        if self.chance(0.2) and found.pure and found.kind != "?":
            # Of an array without axes, which `+=` would change in place, a number.
            return Number(f"(np.where({condition}, {a.text}, {b.text}) + 0)", found.impure())
        return Number(f"({a.text} if {condition} else {b.text})", found)

    def logic(self, depth: int) -> Number | None:
        """`a or b` of numbers, which is one of them."""
        a, b = self.number(depth), self.number(depth)
        found = chosen((a.range, b.range))
        if found is None or not a.range.is_exact:
            return None
        return Number(f"({a.text} {self.rng.choice(('or', 'and'))} {b.text})", found)

    def extremum(self, depth: int) -> Number | None:
        values = [self.number(depth) for _ in range(self.rng.choice((2, 2, 3)))]
        found = chosen([value.range for value in values])
        if found is None or found.kind == "?":
            return None
        name = self.rng.choice(("min", "max"))
        pick = min if name == "min" else max
        found = replace(
            found,
            low=pick(value.range.low for value in values),
            high=pick(value.range.high for value in values),
        )
        listed = ", ".join(value.text for value in values)
        if len(values) == 2 and self.chance(0.25):
            return Number(f"np.{name}imum({listed})", found)
        if self.chance(0.2):
            return Number(f"{name}([{listed}])", found)
        return Number(f"{name}({listed})", found)

    def function(self, depth: int) -> Number | None:
        a = self.number(depth)
        kind, exact = a.range.kind, a.range.is_exact
        name = self.rng.choice(
            (
                "abs",
                "neg",
                "int",
                "float",
                "round",
                "floor",
                "power",
                "root",
                "wave",
                "sign",
                "cast",
            )
        )
        match name:
            case "abs":
                return self.absolute(a)
            case "neg":
                if kind == "?" or (a.range.low > 0 and kind == "u1") or kind == "u1":
                    return None
                low, high = -a.range.high, -a.range.low
                found = replace(a.range, low=low, high=high)
                return Number(f"(-{a.text})", found) if found.fits() else None
            case "int" if exact:
                low, high = int(a.range.low), int(a.range.high)
                return Number(f"int({a.text})", Range(LONG, low, high, pure=False))
            case "float" if exact and kind in ("f8", "i8", LONG, "i4"):
                found = settled("f8", a.range.low, a.range.high, a.range.grain, 0)
                return Number(f"float({a.text})", found.impure())
            case "round" if exact and kind in FLOATS:
                low, high = np.floor(a.range.low), np.ceil(a.range.high)
                text = self.rng.choice(("round({})", "math.floor({})", "math.ceil({})"))
                return Number(text.format(a.text), Range(LONG, low, high, pure=False))
            case "floor" if exact and kind in ("f4", "f8") and a.range.pure:
                text = self.rng.choice(("np.floor({})", "np.ceil({})", "np.rint({})"))
                low, high = np.floor(a.range.low), np.ceil(a.range.high)
                return Number(text.format(a.text), Range(kind, low, high, 0))
            case "power" if kind != "?":
                found = combined("*", a.range, a.range)
                if found is None:
                    return None
                return Number(f"({a.text} ** 2)", replace(found, low=min(found.low, 0)))
            case "root":
                size = self.absolute(a) if exact else None
                if size is None:
                    return None
                name = self.rng.choice(("math.sqrt", "np.sqrt"))
                return self.rounded_function(name, size, 0, max(1, a.range.bound))
            case "wave":
                name = self.rng.choice(("math.sin", "np.sin", "math.tanh", "np.cos", "math.atan"))
                return self.rounded_function(name, a, -2, 2)
            case "sign" if exact and a.range.pure and kind in ("i8", "f8", "f4", "i4"):
                return Number(f"np.sign({a.text})", Range(kind, -1, 1))
            case "cast" if exact and a.range.pure and kind in (*NARROW, "i8", "f4", "f8", "?"):
                return self.cast(a)
        return None

    def rounded_function(self, name: str, a: Number, low: float, high: float) -> Number | None:
        if a.range.kind == "?" or a.range.bound > 1e4:
            return None
        if a.range.kind in ("u1", "i2"):  # of which NumPy's functions are float16 or float32
            a = replace(a, text=f"np.int64({a.text})")
        kind = "f4" if a.range.kind == "f4" else "f8"
        bound = max(abs(low), abs(high))
        found = Range(kind, low, high, None, a.range.error + a.range.bound + bound, False)
        return Number(f"{name}({a.text})", found)

    def cast(self, a: Number) -> Number | None:
        to = self.rng.choice(("int64", "float64", "int64", "int32", "float32"))
        kind = np.dtype(to).str[1:]
        if kind in WHOLE:
            low, high, grain = int(a.range.low), int(a.range.high), 0
        else:
            low, high, grain = a.range.low, a.range.high, a.range.grain
        found = settled(kind, low, high, grain, 0)
        if not found.fits() or not found.is_exact:
            return None
        return Number(f"np.{to}({a.text})", found)

    def bits(self, depth: int) -> Number | None:
        a, b = self.number(depth), self.number(depth)
        kinds = (LONG, "i8", LITERAL)
        if a.range.kind not in kinds or b.range.kind not in kinds:
            return None
        kind = "i8" if "i8" in (a.range.kind, b.range.kind) else LONG
        if self.chance(0.4):
            op, places = self.rng.choice((("<<", 2), (">>", 1), (">>", 3)))
            factor = 2**places if op == "<<" else 1
            found = Range(
                a.range.kind, a.range.low * factor - 1, a.range.high * factor, pure=a.range.pure
            )
            return Number(f"({a.text} {op} {places})", found) if found.fits() else None
        size = 2 ** int(max(a.range.bound, b.range.bound)).bit_length()
        op = self.rng.choice("&|^")
        return Number(f"({a.text} {op} {b.text})", Range(kind, -size, size, pure=False))

    def called(self, depth: int) -> Number | None:
        """A call of a helper on values that it was drawn for."""
        if not self.scope.helpers:
            return None
        name, parameters, result = self.rng.choice(self.scope.helpers)
        given: list[str] = []
        for wanted in parameters:
            fitting = [n for n in self.scope.numbers if within(n.range, wanted)]
            fitting += [n for _ in range(6) if within((n := self.number(depth - 1)).range, wanted)]
            if not fitting:
                return None
            given.append(self.rng.choice(fitting).text)
        return Number(f"{name}({', '.join(given)})", result)

    def folded(self, depth: int) -> Number | None:
        """A sum, a minimum or a maximum of several values."""
        arrays = [p for p in self.scope.parts if p.dtype.subdtype is not None and p.dtype.ndim == 1]
        numeric = [p for p in arrays if p.dtype.base.kind in "iuf"]
        if numeric and self.chance(0.5):
            part = self.rng.choice(numeric)
            inside = element_range(part.dtype.base)
            name, count = self.rng.choice(("sum", "min", "max", "len")), part.dtype.shape[0]
            if name == "len":
                return Number(f"len({part.text})", Range(LITERAL, count, count))
            if name != "sum":
                return Number(f"{name}({part.text})", inside)
            found = replace(inside, low=inside.low * count, high=inside.high * count)
            return Number(f"sum({part.text})", found) if found.fits() else None
        name, count = f"k{self.rng.randrange(100)}", self.rng.choice((2, 3))
        step = Number(name, Range(LONG, 0, count - 1, pure=False))
        inner = Expressions(self.rng, self.scope.copy())
        inner.scope.numbers.append(step)
        term = inner.number(depth - 1)
        total: Range | None = term.range
        for _ in range(count - 1):
            total = None if total is None else combined("+", total, term.range)
        if total is None or total.kind == "?":
            return None
        brackets = self.rng.choice(("[{}]", "{}"))
        many = brackets.format(f"{term.text} for {name} in range({count})")
        return Number(f"sum({many})", total)

    def counted(self, depth: int) -> Number | None:
        """A condition as a number."""
        condition = self.condition(depth)
        text = self.rng.choice(("int({})", "(1 if {} else 0)", "sum([{}, {}])"))
        if "sum" in text:
            other = self.condition(depth - 1)
            return Number(f"sum([{condition}, {other}])", Range(LONG, 0, 2, pure=False))
        return Number(text.format(condition), Range(LONG, 0, 1, pure=False))

    # ---- conditions

    def condition(self, depth: int) -> str:
        """A condition, which is true or false whatever rounds."""
        if depth > 0 and self.chance(0.35):
            return self.rng.choice((self.connected, self.negated, self.several))(depth - 1)
        if self.chance(0.3) and (found := self.of_parts()) is not None:
            return found
        return self.comparison(depth - 1)

    def comparison(self, depth: int) -> str:
        for _ in range(6):
            chain = self.chance(0.2)
            values = [self.exact(depth) for _ in range(3 if chain else 2)]
            pairs = itertools.pairwise(values)
            if all(comparable(a.range, b.range) for a, b in pairs):
                break
        else:
            values = [self.known(1), self.known(2)]
        op = self.rng.random()
        if len(values) == 2 and op < 0.1:
            return self.membership(values[0])
        if len(values) == 2 and op < 0.16:
            others = [self.exact(depth - 1) for _ in range(2)]
            if comparable(others[0].range, others[1].range):
                sides = [f"({v.text}, {o.text})" for v, o in zip(values, others, strict=True)]
                return f"({sides[0]} {self.order()} {sides[1]})"
        text = values[0].text
        for value in values[1:]:
            text += f" {self.order()} {value.text}"
        return f"({text})"

    def order(self) -> str:
        return self.rng.choice(("<", "<=", ">", ">=", "==", "!="))

    def membership(self, value: Number) -> str:
        if not comparable(value.range, Range("i8", -9, 9)):
            return f"({value.text} == {value.text})"
        listed = ", ".join(str(n) for n in self.rng.sample(range(-3, 6), 3))
        brackets = self.rng.choice(("({})", "[{}]", "{{{}}}")).format(listed)
        return f"({value.text} {self.rng.choice(('in', 'not in'))} {brackets})"

    def exact(self, depth: int) -> Number:
        for _ in range(4):
            if (found := self.number(depth)).range.is_exact:
                return found
        return self.known(self.rng.choice((0, 1, 2)))

    def connected(self, depth: int) -> str:
        word = self.rng.choice((" and ", " or "))
        return f"({word.join(self.condition(depth) for _ in range(self.rng.choice((2, 2, 3))))})"

    def negated(self, depth: int) -> str:
        if self.chance(0.3):
            value = self.exact(depth)
            return f"(not {value.text})"
        return f"(not {self.condition(depth)})"

    def several(self, depth: int) -> str:
        listed = ", ".join(self.condition(depth - 1) for _ in range(2))
        return f"{self.rng.choice(('any', 'all'))}([{listed}])"

    def of_parts(self) -> str | None:
        """A comparison of records, strings or sub-arrays."""
        part = self.part()
        if part is None:
            return None
        op, dtype = self.rng.choice(("==", "==", "!=")), part.dtype
        peers = [peer for _ in range(6) if (peer := self.part()) and peer.dtype == dtype]
        if dtype.kind == "S":
            return self.of_strings(part, op)
        if dtype.subdtype is not None and dtype.base.kind in "iu" and self.chance(0.4):
            return f"({self.rng.randrange(10)} {self.rng.choice(('in', 'not in'))} {part.text})"
        if not peers:
            return None
        other = self.rng.choice(peers)
        if self.chance(0.15):
            return f"(({part.text}, 1) {op} ({other.text}, 1))"
        return f"({part.text} {op} {other.text})"

    def of_strings(self, part: Part, op: str) -> str:
        length = part.dtype.itemsize
        peers = [p for _ in range(6) if (p := self.part()) and p.dtype.kind == "S"]
        if peers and self.chance(0.4):
            return f"({part.text} {op} {self.rng.choice(peers).text})"
        words = [bytes(self.rng.choices(LETTERS, k=self.rng.randint(1, length))) for _ in range(2)]
        if self.chance(0.25):
            return f"({part.text} {self.rng.choice(('in', 'not in'))} ({words[0]!r}, {words[1]!r}))"
        if length > 1 and self.chance(0.25):
            return f"({part.text}[:{length - 1}] {op} {words[0][: length - 1]!r})"
        return f"({part.text} {op} {words[0]!r})"

    def part(self) -> Part | None:
        """A record, a sub-array or a string."""
        for _ in range(4):
            choices: Sequence[Callable[[], Number | Part] | Part] = [
                *self.scope.reads,
                *self.scope.parts,
            ]
            if not choices:
                return None
            found = self.rng.choice(choices)
            entity = found if isinstance(found, Part) else found()
            while isinstance(entity, Part) and entity.dtype.kind != "S" and self.chance(0.5):
                entity = fields_of(entity, self.rng)
            if isinstance(entity, Part):
                return entity
        return None


def within(inner: Range, outer: Range) -> bool:
    """Whether a value may stand where another one was expected."""
    if inner.kind != outer.kind or inner.pure != outer.pure:
        return False
    if outer.grain is not None and (inner.grain is None or inner.grain > outer.grain):
        return False
    fits = outer.low <= inner.low and inner.high <= outer.high
    return fits and inner.error <= outer.error
