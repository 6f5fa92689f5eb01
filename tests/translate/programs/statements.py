"""Bodies of functions: variables, conditions, loops, tuples, dicts, and helpers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.translate.programs.expressions import Expressions, Number, Part, Scope
from tests.translate.programs.ranges import BOOL, LITERAL, LONG, Range, chosen, combined

INDENT = "    "


@dataclass
class Names:
    """Names that no other part of a program has."""

    taken: int = 0

    def new(self, prefix: str) -> str:
        self.taken += 1
        return f"{prefix}{self.taken}"


@dataclass
class Body:
    """Statements that compute in a scope, and the functions that they call.

    `lines` have the depth of the function's first statement; `around` are functions before it. Only
    its `own` variables are changed later: of others, what is known would hold no longer.
    """

    rng: random.Random
    scope: Scope
    names: Names
    lines: list[str] = field(default_factory=list[str])
    around: list[str] = field(default_factory=list[str])
    own: set[str] = field(default_factory=set[str])

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    @property
    def draw(self) -> Expressions:
        return Expressions(self.rng, self.scope)

    def inside(self) -> Body:
        """A block in this one: what it names is not seen behind it."""
        return Body(self.rng, self.scope.copy(), self.names, [], self.around)

    def indented(self, block: Body) -> None:
        self.lines += [INDENT + line for line in block.lines]

    def statements(self, count: int, depth: int = 2) -> None:
        """So many statements, each of which may set a variable."""
        kinds: list[Callable[[int], None]] = [
            *(self.variable,) * 3,
            *(self.branch,) * 4,
            *(self.update,) * 2,
            *(self.loop,) * 2,
            self.pair,
            self.unpacked,
            self.table,
            self.condition,
            self.part,
            self.helper,
            self.helper,
            self.local_function,
        ]
        for _ in range(count):
            self.rng.choice(kinds)(depth)

    def bind(self, name: str, range_: Range) -> None:
        self.scope.numbers = [n for n in self.scope.numbers if n.text != name]
        self.scope.numbers.append(Number(name, range_))
        self.own.add(name)

    def variable(self, depth: int) -> None:
        value, name = self.draw.number(depth), self.names.new("v")
        if self.chance(0.1):
            self.lines.append(f"{name}: float = {value.text}")
        else:
            self.lines.append(f"{name} = {value.text}")
        self.bind(name, value.range)

    def condition(self, depth: int) -> None:
        name = self.names.new("c")
        self.lines.append(f"{name} = {self.draw.condition(depth)}")
        self.bind(name, BOOL)

    def part(self, depth: int) -> None:
        if (part := self.draw.part()) is not None:
            name = self.names.new("p")
            self.lines.append(f"{name} = {part.text}")
            self.scope.parts.append(Part(name, part.dtype))

    def pair(self, depth: int) -> None:
        values = tuple(self.draw.number(depth - 1) for _ in range(self.rng.choice((2, 3))))
        listed = ", ".join(value.text for value in values)
        name = self.names.new("t")
        self.lines.append(f"{name} = {self.rng.choice(('({})', '[{}]')).format(listed)}")
        self.scope.tuples.append((name, values))
        if self.chance(0.3):
            total: Range | None = Range(LITERAL, 0, 0)
            for value in values:
                total = None if total is None else combined("+", total, value.range)
            if total is not None and total.kind != "?":
                summed, item = self.names.new("v"), self.names.new("w")
                self.lines += [
                    f"{summed} = 0",
                    f"for {item} in {name}:",
                    f"{INDENT}{summed} += {item}",
                ]
                self.bind(summed, total)

    def unpacked(self, depth: int) -> None:
        values = [self.draw.number(depth - 1) for _ in range(2)]
        names = [self.names.new("v") for _ in range(2)]
        text = ", ".join(value.text for value in values)
        self.lines.append(f"{', '.join(names)} = {text}")
        for name, value in zip(names, values, strict=True):
            self.bind(name, value.range)
        if self.chance(0.3):
            self.lines.append(f"{names[0]}, {names[1]} = {names[1]}, {names[0]}")
            self.bind(names[0], values[1].range)
            self.bind(names[1], values[0].range)

    def table(self, depth: int) -> None:
        name, keys = self.names.new("d"), ("x", "y", "z")[: self.rng.choice((2, 3))]
        values = {key: self.draw.number(depth - 1) for key in keys}
        listed = ", ".join(f'"{key}": {value.text}' for key, value in values.items())
        self.lines.append(f"{name} = {{{listed}}}")
        if self.chance(0.3):
            values["w"] = self.draw.number(depth - 1)
            self.lines.append(f'{name}["w"] = {values["w"].text}')
        for key, value in values.items():
            self.scope.numbers.append(Number(f'{name}["{key}"]', value.range))

    # ---- what depends on conditions

    def branch(self, depth: int) -> None:
        """if, elif and else that give one or two variables their values."""
        name = self.names.new("v")
        has_other = self.chance(0.6)
        ranges: list[Range] = []
        lines: list[str] = []
        if not has_other:
            value = self.draw.number(depth)
            lines.append(f"{name} = {value.text}")
            ranges.append(value.range)
        count = self.rng.choice((1, 1, 1, 2, 3))
        for number in range(count):
            lines.append(f"{'elif' if number else 'if'} {self.draw.condition(depth)}:")
            self.branch_body(name, depth, ranges, lines)
        if has_other:
            lines.append("else:")
            self.branch_body(name, depth, ranges, lines)
        found = chosen(ranges)
        if found is not None:
            self.lines += lines
            self.bind(name, found)

    def branch_body(self, name: str, depth: int, ranges: list[Range], lines: list[str]) -> None:
        block = self.inside()
        if depth > 0 and self.chance(0.4):
            block.statements(1, depth - 1)
        value = self.alike(block, depth, ranges)
        block.lines.append(f"{name} = {value.text}")
        ranges.append(value.range)
        lines += [INDENT + line for line in block.lines]

    def alike(self, block: Body, depth: int, ranges: list[Range]) -> Number:
        """A number whose type goes together with those of other branches, where one is found."""
        value = block.draw.number(depth)
        for _ in range(8):
            if chosen([*ranges, value.range]) is not None:
                break
            value = block.draw.number(self.rng.randint(0, max(depth, 0)))
        return value

    def update(self, depth: int) -> None:
        """`v += x` of a variable, perhaps under a condition."""
        held = [n for n in self.scope.numbers if n.text in self.own and n.range.kind != "?"]
        if not held:
            return self.variable(depth)
        target, value = self.rng.choice(held), self.draw.number(depth)
        op = self.rng.choice("++-*")
        found = combined(op, target.range, value.range)
        if found is None:
            return None
        if self.chance(0.5):
            merged = chosen((found, target.range))
            if merged is None:
                return None
            self.lines += [f"if {self.draw.condition(depth)}:"]
            self.lines += [f"{INDENT}{target.text} {op}= {value.text}"]
            return self.bind(target.text, merged)
        self.lines.append(f"{target.text} {op}= {value.text}")
        return self.bind(target.text, found)

    def loop(self, depth: int) -> None:
        """A loop of known length that adds to a variable, or takes the best."""
        count = self.rng.choice((2, 3, 3, 4))
        total, step = self.names.new("v"), self.names.new("k")
        first, last = self.rng.choice(((0, count), (1, count + 1), (-1, count - 1)))
        block = self.inside()
        block.scope.numbers.append(Number(step, Range(LONG, first, last - 1, pure=False)))
        if self.chance(0.4):
            block.statements(1, depth - 1)
        term, op = block.draw.number(depth - 1), self.rng.choice(("+", "+", "max", "min", "-"))
        start = self.draw.literal()
        if op in ("min", "max"):
            found = chosen((start.range, term.range))
            block.lines.append(f"{total} = {op}({total}, {term.text})")
        else:
            found = start.range
            for _ in range(count):
                found = None if found is None else combined(op, found, term.range)
            if found is not None:  # each partial sum is one of its values
                found = chosen((found, start.range))
            add = f"{total} {op}= {term.text}"
            if self.chance(0.4):
                block.lines += [f"if {block.draw.condition(depth)}:", INDENT + add]
            else:
                block.lines.append(add)
        if found is None or found.kind == "?":
            return
        self.lines.append(f"{total} = {start.text}")
        self.lines.append(f"for {step} in {self.steps(first, last)}:")
        if self.chance(0.15):
            self.lines.append(f"{INDENT}if {step} == {first + 1}:")
            self.lines.append(f"{INDENT * 2}{self.rng.choice(('continue', 'break'))}")
        self.indented(block)
        self.bind(total, found)

    def steps(self, first: int, last: int) -> str:
        listed = ", ".join(map(str, range(first, last)))
        if self.chance(0.7):
            return f"range({last})" if first == 0 else f"range({first}, {last})"
        return f"({listed})"

    # ---- helpers

    def helper(self, depth: int) -> None:
        """A function beside the program's, drawn for values of this scope, and called."""
        given = [self.draw.number(1) for _ in range(self.rng.choice((1, 2, 2, 3)))]
        name, parameters = self.names.new("h"), [self.names.new("x") for _ in given]
        scope = Scope([Number(p, g.range) for p, g in zip(parameters, given, strict=True)])
        inner = Body(self.rng, scope, self.names, [], self.around)
        texts = [g.text for g in given]
        if self.chance(0.3) and (part := self.draw.part()) is not None:
            parameters.append(self.names.new("q"))
            texts.append(part.text)
            scope.parts.append(Part(parameters[-1], part.dtype))
        result = self.returning(inner, depth)
        if result is None:
            return
        lines = [f"def {name}({', '.join(parameters)}):"]
        lines += [INDENT + line for line in inner.lines]
        self.around.append("\n".join(lines))
        if len(parameters) == len(given):
            self.scope.helpers.append((name, tuple(g.range for g in given), result))
        variable = self.names.new("v")
        call = f"{name}({', '.join(texts)})"
        self.lines.append(f"{variable} = {call}")
        self.bind(variable, result)

    def returning(self, inner: Body, depth: int) -> Range | None:
        """Fills the body of a helper; returns the range of what it returns."""
        inner.statements(self.rng.choice((0, 1, 1, 2)), depth - 1)
        ranges: list[Range] = []
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            value = self.alike(inner, depth - 1, ranges)
            inner.lines.append(f"if {inner.draw.condition(depth - 1)}:")
            inner.lines.append(f"{INDENT}return {value.text}")
            ranges.append(value.range)
        value = self.alike(inner, depth, ranges)
        inner.lines.append(f"return {value.text}")
        return chosen([*ranges, value.range])

    def local_function(self, depth: int) -> None:
        """A function inside of this one, which sees its variables."""
        given, name, parameter = self.draw.number(1), self.names.new("g"), self.names.new("x")
        inner = self.inside()
        inner.scope.numbers.append(Number(parameter, given.range))
        if self.chance(0.5):
            value = inner.draw.number(depth)
            self.lines.append(f"{name} = lambda {parameter}: {value.text}")
            result: Range | None = value.range
        else:
            result = self.returning(inner, depth)
            if result is None:
                return
            self.lines.append(f"def {name}({parameter}):")
            self.indented(inner)
        variable = self.names.new("v")
        self.lines.append(f"{variable} = {name}({given.text})")
        self.bind(variable, result)

    def result(self, depth: int) -> Number:
        """A number that a program gives back."""
        for _ in range(20):
            found = self.draw.number(depth)
            if found.range.kind != "?":
                return found
        return self.draw.known(1)
