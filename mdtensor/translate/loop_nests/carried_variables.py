"""Loop-carried local variables, which must be reductions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.translate.loop_nests.accesses import AccessCollector
from mdtensor.translate.loop_nests.carried import CarriedError, as_carried
from mdtensor.translate.loop_nests.reductions import reduction
from mdtensor.translate.loop_nests.source_loop_nest import Carried, SourceLoop
from mdtensor.translate.loop_nests.updates import identity, update_of
from mdtensor.translate.python.branches import Undecided
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.scalar import Expr, apply, as_expr, select


class CarriedVariables:
    """The local variables that a loop's body sets, while that is traced once.

    While it runs, an entry of the nest stands for each of them; `settle` gives them the values
    that they have after the loop. Raises CarriedError where a variable is no reduction.
    """

    def __init__(
        self,
        source: FunctionSource,
        loop: SourceLoop,
        statement: ast.For,
        accesses: AccessCollector,
        environment: dict[str, Any],
    ) -> None:
        self._source = source
        self._loop = loop
        self._statement = statement
        self._accesses = accesses
        self._nest = accesses.nest
        self._first_store = len(self._nest.stores)
        # The entry of each, and its value before the loop.
        self._before: dict[str, tuple[int, Expr]] = {}
        for name in sorted(assigned(statement.body)):
            value = environment.get(name)
            if not isinstance(value, Expr | int | float | complex | np.generic):
                continue
            initial = as_expr(value)
            held = self._nest.add(Carried(name, loop, initial.dtype))
            self._before[name] = (held.number, initial)
            environment[name] = self._entry(held.number, initial)

    def settle(self, environment: dict[str, Any]) -> None:
        """Set the variables to their values after the loop."""
        stores = self._nest.stores[self._first_store :]
        used = [store.value for store in stores]
        used += [axis for store in stores for axis in store.index]
        needed = set(self._nest.entries_of(*used))
        after = {name: environment.get(name) for name in self._before}
        for name, (held, initial) in self._before.items():
            value = after[name]
            if isinstance(value, Expr) and value.op == "param" and value.value == held:
                environment[name] = initial
                continue
            others = [v for n, v in after.items() if n != name and isinstance(v, Expr)]
            if held in needed or held in self._nest.entries_of(*others):
                raise self._refused(name, "other statements use it")
            if not isinstance(value, Expr) or held not in self._nest.entries_of(value):
                environment[name] = _last_value(name, self._loop)
                continue
            for test in self._loop.tests:
                value = select(test, value, self._entry(held, initial))
            environment[name] = self._reduced(name, value, held, initial)
        for name in assigned([self._statement]) - self._before.keys():
            if isinstance(environment.get(name), Expr):
                environment[name] = _last_value(name, self._loop)

    def _entry(self, held: int, initial: Expr) -> Expr:
        return Expr("param", (), initial.dtype, held, weak=initial.weak)

    def _reduced(self, name: str, value: Expr, held: int, initial: Expr) -> Expr:
        """The value after the loop of a variable that is updated by an operator."""
        update = update_of(value, held)
        if update is None:
            raise self._refused(name, "it follows from itself by no operator")
        if update.term is None:
            return initial
        assert update.op is not None
        carried = {position for position, _ in self._before.values()}
        if carried & set(self._nest.entries_of(update.term)):
            raise self._refused(name, "it depends on another variable that it carries")
        outer = self._accesses.loops
        reduced = reduction(self._nest, update.op, update.term, (self._loop,), outer)
        neutral = initial.op == "const" and initial.value == identity(update.op, reduced)
        if neutral and initial.weak:
            return reduced
        return apply(update.op, initial, reduced)

    def _refused(self, name: str, why: str) -> CarriedError:
        node = next(
            (
                statement
                for statement in ast.walk(self._source.node)
                if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
                and statement.lineno > self._loop.line
                and name in assigned([statement])
            ),
            self._accesses.node,
        )
        error = self._source.error(
            node,
            f"loop {self._loop.variable!r} carries {name!r} to the next iteration, and {why}",
            "a reduction is s += x, s *= x, s = min(s, x) or s = max(s, x); prefix sums and other"
            " operators are named by combine_ops(ps(add)), combine_ops(pw(operator))",
        )
        carried = as_carried(error, self._loop)
        carried.is_by_variable = True
        return carried


def assigned(statements: Sequence[ast.stmt]) -> set[str]:
    """Names assigned by statements."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _last_value(name: str, loop: SourceLoop) -> Undecided:
    return Undecided(
        f"{name!r} is what the last iteration of loop {loop.variable!r} left in it",
        "compute it after the loop, or reduce it by +=, *=, min or max",
    )
