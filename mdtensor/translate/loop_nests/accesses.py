"""The buffer accesses of a traced program: reads and stores of a loop nest or a point."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import Any

from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.translate.loop_nests.affine_conditions import affine_conditions
from mdtensor.translate.loop_nests.data_range_extents import Statement, settle_extents
from mdtensor.translate.loop_nests.source_loop_nest import (
    Loops,
    Nest,
    SourceLoop,
    SourceRead,
    SourceStore,
)
from mdtensor.translate.loop_nests.symbolic_buffers import (
    SymbolicBuffer,
    SymbolicRecord,
    SymbolicRow,
)
from mdtensor.translate.python.cases import Cases
from mdtensor.translate.python.functions import conjunction
from mdtensor.translate.scalar import Expr, as_expr, select
from mdtensor.translate.views import AffineIndex


@dataclass(frozen=True, slots=True)
class RangeAt:
    """A loop with data-dependent bounds, its outer loops, and the conditions around it."""

    loop: SourceLoop
    outer: Loops
    guards: tuple[Expr, ...]
    node: ast.AST


class AccessCollector:
    """Records accesses, with the loops and conditions around the current statement, `node`.

    Stores become those of `nest`; where `is_point`, they give the buffers in `outputs` the values
    of a point, `results`, since operators say what becomes of them. Buffers in `sealed` have no
    contents to be read.
    """

    def __init__(
        self,
        node: ast.AST,
        *,
        is_point: bool,
        outputs: Collection[str],
        sealed: Collection[str],
    ) -> None:
        self.node = node
        self.nest = Nest()
        self.loops: Loops = ()
        self.ranges: list[RangeAt] = []
        self.results: dict[tuple[str, tuple[Expr, ...]], tuple[Cases, ast.AST]] = {}
        self.loops_of_results: Loops = ()
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._is_point = is_point
        self._outputs = outputs
        self._sealed = sealed
        self._guards: list[tuple[Expr, tuple[AffineIndex, ...]]] = []
        self._seen: dict[Any, Expr] = {}
        self._last: dict[str, int] = {}  # for each buffer, the number of stores up to its last one

    @contextmanager
    def within(self, loop: SourceLoop) -> Generator[None]:
        """Context manager for the body of a loop."""
        if loop.range is not None:
            guards = tuple([test for test, _ in self._guards])
            self.ranges.append(RangeAt(loop, self.loops, guards, self.node))
        self.loops = (*self.loops, loop)
        yield
        self.loops = self.loops[:-1]

    @contextmanager
    def under(self, test: Expr) -> Generator[None]:
        """Context manager for statements under a condition."""
        self._guards.append((test, affine_conditions(test)))
        yield
        self._guards.pop()

    def read(self, buffer: SymbolicBuffer, index: tuple[Expr, ...]) -> Expr:
        """Record a read of an element's current value; the parameter that stands for it."""
        if buffer.name in self._sealed:
            return self._result(buffer, index)
        self._shapes[buffer.name] = buffer.spec.shape
        conditions = self._conditions()
        key = (buffer.name, index, self._last.get(buffer.name, 0), self.loops, conditions)
        if key not in self._seen:
            time = len(self.nest.stores)
            read = SourceRead(
                buffer.name, index, buffer.dtype, time, self.loops, conditions, self.node
            )
            element = self.nest.add(read)
            if buffer.is_weak:
                element = Expr("param", (), buffer.dtype, element.value, weak=True)
            self._seen[key] = element
        return self._seen[key]

    def store(
        self, buffer: SymbolicBuffer, index: tuple[Expr, ...], value: Any, where: Any = True
    ) -> None:
        """Record a store; where a condition is false, the old value stays."""
        if isinstance(value, SymbolicBuffer | SymbolicRow | SymbolicRecord | tuple | list):
            raise TranslationError(
                f"a whole array or record is stored in {buffer.name}",
                hint="loop over the elements and store each",
            )
        self._shapes[buffer.name] = buffer.spec.shape
        node = as_expr(value)
        if self._is_point:
            self._set_result(buffer, index, node, self._under(where))
            return
        # What the loops say comes apart from what a statement asks of the old value.
        tests = [test for loop in self.loops for test in loop.tests]
        for condition in (self._under(where), functools.reduce(conjunction, tests, True)):
            if isinstance(condition, Expr):
                node = select(condition, node, self.read(buffer, index))
        conditions = self._conditions()
        store = SourceStore(buffer.name, index, node, self.loops, conditions, self.node)
        self.nest.stores.append(store)
        self._last[buffer.name] = len(self.nest.stores)

    def settle_extents(self) -> None:
        """Infer the extents of loops with data-dependent bounds, after tracing."""
        loops = self.loops_of_results
        tests = tuple([test for loop in loops for test in loop.tests])
        results = [
            Statement(loops, as_expr(cases.value), name, index, tests=tests)
            for (name, index), (cases, _) in self.results.items()
            if cases.is_set
        ]
        known = settle_extents(self.nest, self._shapes, results)
        found = [known.get(loop.name, loop) for loop in self.loops_of_results]
        self.loops_of_results = tuple(found)

    def _result(self, buffer: SymbolicBuffer, index: tuple[Expr, ...]) -> Expr:
        """An output's value at the current point; an error before it is written."""
        cases, _ = self.results.get((buffer.name, index), (None, None))
        if cases is None or not cases.is_set:
            raise TranslationError(
                f"output {buffer.name} is read before it is written",
                hint=f"write {buffer.name}[…] = …: operators combine the points' values;"
                f" name {buffer.name} in inp(…) too if its old contents are meant",
            )
        return as_expr(cases.value)

    def _set_result(
        self, buffer: SymbolicBuffer, index: tuple[Expr, ...], value: Expr, condition: Any
    ) -> None:
        if buffer.name not in self._outputs:
            raise TranslationError(
                f"{buffer.name} is an input, but it is written",
                hint=f"name it in out(…): out({buffer.name}=Buffer[…])",
            )
        self.loops_of_results = self.loops_of_results or self.loops
        key = (buffer.name, index)
        cases, _ = self.results.get(key, (None, None))
        after = Cases(value, condition) if cases is None else cases.then(condition, value)
        self.results[key] = (after, self.node)

    def _under(self, where: Any) -> Any:
        """The conjunction of all current conditions and `where`."""
        return functools.reduce(conjunction, [*(test for test, _ in self._guards), where], True)

    def _conditions(self) -> tuple[AffineIndex, ...]:
        of_loops = [c for loop in self.loops for c in loop.conditions]
        return (*of_loops, *(c for _, affine in self._guards for c in affine))
