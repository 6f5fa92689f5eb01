"""Random functions of loop nests as source text: most of them carry dependences."""

from __future__ import annotations

import itertools
import linecache
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

VARIABLES = "ijk"
EXTENT = 14
_numbers = itertools.count()


@dataclass
class Writer:
    """Writes statements; `loops` are the variables of the loops around."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)

    def function(self) -> str:
        """The text of a function of two matrices and two vectors."""
        self.line("def nest(A, B, x, y):")
        for _ in range(self.rng.choice([1, 1, 2, 2, 3])):
            self.loop(1)
        return "\n".join(self.lines) + "\n"

    def line(self, text: str, depth: int = 0) -> None:
        self.lines.append("    " * depth + text)

    def loop(self, depth: int) -> None:
        variable = VARIABLES[len(self.loops)]
        self.line(f"for {variable} in {self.bounds()}:", depth)
        self.loops.append(variable)
        known = list(self.scalars)
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            self.statement(depth + 1)
        self.scalars = known
        self.loops.pop()

    def bounds(self) -> str:
        if self.loops and self.rng.random() < 0.2:
            outer = self.rng.choice(self.loops)
            return self.rng.choice([f"range({outer}, 4)", f"range(1, {outer} + 1)"])
        return self.rng.choice(["range(1, 4)", "range(1, 4)", "range(2, 5)", "range(3, 0, -1)"])

    def statement(self, depth: int) -> None:
        deepest = len(self.loops) == len(VARIABLES)
        kind = self.rng.choices(["loop", "store", "if", "scalar"], [0 if deepest else 4, 5, 1, 1])[
            0
        ]
        if kind == "loop":
            self.loop(depth)
        elif kind == "store":
            self.line(self.store(), depth)
        elif kind == "if":
            self.line(f"if {self.condition()}:", depth)
            self.line(self.store(), depth + 1)
            if self.rng.random() < 0.5:
                self.line("else:", depth)
                self.line(self.store(), depth + 1)
        else:
            self.scalar(depth, deepest)

    def scalar(self, depth: int, deepest: bool) -> None:
        """A sum over a loop of its own, used after it."""
        name = f"s{len(self.lines)}"
        self.line(f"{name} = {self.rng.choice(['0.0', '1.0', self.element()])}", depth)
        if not deepest and self.rng.random() < 0.8:
            variable = VARIABLES[len(self.loops)]
            self.line(f"for {variable} in {self.bounds()}:", depth)
            self.loops.append(variable)
            update = self.rng.choice(
                ["{0} += {1}", "{0} = {0} + {1}", "{0} = max({0}, {1})", "{0} -= {1}", "{0} = {1}"]
            )
            self.line(update.format(name, self.expression()), depth + 1)
            self.loops.pop()
        self.scalars.append(name)
        self.line(self.store(), depth)

    def store(self) -> str:
        target = self.element()
        if self.rng.random() < 0.4:
            return f"{target} {self.rng.choice(['+=', '+=', '*=', '-='])} {self.expression()}"
        if self.rng.random() < 0.2:
            return f"{target} = {self.rng.choice(['min', 'max'])}({target}, {self.expression()})"
        if self.rng.random() < 0.2:
            return f"{target} = {target} + {self.expression()}"
        return f"{target} = {self.expression()}"

    def expression(self) -> str:
        terms = [self.element() for _ in range(self.rng.choice([1, 1, 2]))]
        terms += self.rng.choices([*self.scalars, "0.5", "2"], k=self.rng.choice([0, 0, 1]))
        return self.rng.choice([" + ", " * "]).join(terms)

    def condition(self) -> str:
        if len(self.loops) > 1 and self.rng.random() < 0.6:
            return f"{self.loops[0]} {self.rng.choice(['<', '<=', '>', '=='])} {self.loops[1]}"
        return f"{self.element()} > 0"

    def element(self) -> str:
        if self.rng.random() < 0.4:
            return f"{self.rng.choice('xy')}[{self.index()}]"
        return f"{self.rng.choice('AB')}[{self.index()}, {self.index()}]"

    def index(self) -> str:
        v, w = self.rng.choice(self.loops), self.rng.choice(self.loops)
        plain = [v] * 8
        return self.rng.choice([*plain, f"{v} + 1", f"{v} - 1", f"{v} + {w}", f"2 * {v}", "3"])


def function_of(text: str) -> Callable[..., None]:
    """The function of a source text, which `inspect` and tracebacks find."""
    name = f"<random loops {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace: dict[str, Callable[..., None]] = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace["nest"]


def random_text(seed: int) -> str:
    return Writer(random.Random(seed)).function()


def arrays(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [(EXTENT, EXTENT), (EXTENT, EXTENT), (EXTENT,), (EXTENT,)]
    return [rng.choice([-1.0, -0.5, 0.5, 1.0, 2.0], shape) for shape in shapes]
