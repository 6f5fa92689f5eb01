"""From the source of a function to its loop nest: statements run on symbolic buffers."""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import numpy as np

from mdtensor.errors import ProgramError, TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.affine_conditions import (
    affine_conditions,
    at_least_zero,
    difference,
)
from mdtensor.translate.loop_nests.affine_from_expr import added, affine_from_expr
from mdtensor.translate.loop_nests.carried import CarriedError, as_carried
from mdtensor.translate.loop_nests.loop_nest import Carried, Loop, Nest, Read, Store
from mdtensor.translate.loop_nests.reductions import reduction
from mdtensor.translate.loop_nests.symbolic_buffers import Record, Row, SymbolicBuffer
from mdtensor.translate.loop_nests.updates import identity, update_of
from mdtensor.translate.python.cases import Cases
from mdtensor.translate.python.functions import conjunction, negation
from mdtensor.translate.python.interpreter import Interpreter, Undecided, merge
from mdtensor.translate.python.source import Source
from mdtensor.translate.python.tuples import as_tuple
from mdtensor.translate.scalar import (
    I64,
    Expr,
    apply,
    as_expr,
    select,
)
from mdtensor.translate.views import AffineIndex

UNROLLED = 4096
"""Iterations of loops that are written out, at most."""
_ALLOCATIONS = {
    np.zeros: 0,
    np.ones: 1,
    np.empty: None,
    np.full: "given",
    np.zeros_like: 0,
    np.ones_like: 1,
    np.empty_like: None,
    np.full_like: "given",
}


_ELEMENT = "element of a loop"


class _Returned(Exception):  # noqa: N818
    """A return statement was met."""


def _last_value(name: str, loop: Loop) -> Undecided:
    return Undecided(
        f"{name!r} is what the last iteration of loop {loop.variable!r} left in it",
        "compute it after the loop, or reduce it by +=, *=, min or max",
    )


def _taken(target: ast.expr) -> ast.stmt:
    """The statement that gives the target of a loop its next value."""
    statement = ast.Assign([target], ast.Name(_ELEMENT, ast.Load()))
    return ast.fix_missing_locations(ast.copy_location(statement, target))


class Tracer:
    """Runs a function's statements once; loops become dims, or are written out.

    `namespace` has the names around the function; `bind` gives its parameters values.

    `depth` is the number of nested loops that become dims; with None all do, and what they carry
    from iteration to iteration must be reductions. `unrolled` are the lines of loops that are
    written out all the same. `outputs` are buffers of which `results` gets the values of a point,
    since operators say what becomes of them; those in `sealed` have no contents to be read.
    """

    def __init__(
        self,
        source: Source,
        namespace: Mapping[str, Any],
        *,
        depth: int | None = None,
        unrolled: frozenset[int] = frozenset(),
        outputs: Collection[str] = (),
        sealed: Collection[str] = (),
    ) -> None:
        self.source = source
        self.nest = Nest()
        self.returned: Any = None
        self.locals: dict[str, tuple[SymbolicBuffer, Any]] = {}
        self.results: dict[tuple[str, tuple[Expr, ...]], tuple[Cases, ast.AST]] = {}
        self.loops: tuple[Loop, ...] = ()
        self._outputs = outputs
        self._sealed = sealed
        self._environment: dict[str, Any] = {}
        self._interpreter = Interpreter(source, namespace)
        self._depth = depth
        self._unrolled = unrolled
        self._loops: list[Loop] = []
        self._guards: list[tuple[Expr, tuple[AffineIndex, ...]]] = []
        self._names: set[str] = set()
        self._seen: dict[Any, Expr] = {}
        self._node: ast.AST = source.node
        self._iterations = 0

    def buffer(self, name: str, spec: TensorSpec, *, is_weak: bool = False) -> SymbolicBuffer:
        """A buffer whose elements this tracer notes; see `Expr` for what is weak."""
        return SymbolicBuffer(name, spec, self, is_weak=is_weak)

    def bind(self, name: str, value: Any) -> None:
        """Gives a parameter of the function its value."""
        self._environment[name] = value

    def run(self) -> Nest:
        """The nest of the whole function."""
        with suppress(_Returned):
            self._run(self.source.statements)
        return self.nest

    # What buffers note.

    def read(self, buffer: SymbolicBuffer, index: tuple[Expr, ...]) -> Expr:
        """The parameter of an element as it is now."""
        if buffer.name in self._sealed:
            return self._result(buffer, index)
        loops, conditions = tuple(self._loops), self._conditions()
        last = max(
            (n + 1 for n, s in enumerate(self.nest.stores) if s.buffer == buffer.name), default=0
        )
        key = (buffer.name, index, last, loops, conditions)
        if key not in self._seen:
            time = len(self.nest.stores)
            read = Read(buffer.name, index, buffer.dtype, time, loops, conditions, self._node)
            element = self.nest.add(read)
            if buffer.is_weak:
                element = Expr("param", (), buffer.dtype, element.value, weak=True)
            self._seen[key] = element
        return self._seen[key]

    def store(
        self, buffer: SymbolicBuffer, index: tuple[Expr, ...], value: Any, where: Any = True
    ) -> None:
        """Notes that a value is stored; where a condition does not hold, the old value stays."""
        if isinstance(value, SymbolicBuffer | Row | Record | tuple | list):
            raise TranslationError(
                f"a whole array or record is stored in {buffer.name}",
                hint="loop over the elements and store each",
            )
        node = as_expr(value)
        condition = conjunction(self._condition(), where)
        if self._depth is not None:
            self._set_result(buffer, index, node, condition)
            return
        if isinstance(condition, Expr):
            node = select(condition, node, self.read(buffer, index))
        loops, conditions = tuple(self._loops), self._conditions()
        self.nest.stores.append(Store(buffer.name, index, node, loops, conditions, self._node))

    def _result(self, buffer: SymbolicBuffer, index: tuple[Expr, ...]) -> Expr:
        """What an output got at the point at hand, where it got something."""
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
        self.loops = self.loops or tuple(self._loops)
        key = (buffer.name, index)
        cases, _ = self.results.get(key, (None, None))
        after = Cases(value, condition) if cases is None else cases.then(condition, value)
        self.results[key] = (after, self._node)

    def _condition(self) -> Any:
        """What must hold for the statement at hand to run, in this iteration."""
        tests: list[Any] = [at_least_zero(c) for loop in self._loops for c in loop.conditions]
        return functools.reduce(conjunction, [*tests, *(test for test, _ in self._guards)], True)

    def _conditions(self) -> tuple[AffineIndex, ...]:
        of_loops = [c for loop in self._loops for c in loop.conditions]
        return (*of_loops, *(c for _, affine in self._guards for c in affine))

    # Statements.

    def _run(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._node = statement
            with self._located(statement):
                self._run_one(statement)

    @contextmanager
    def _located(self, node: ast.AST) -> Generator[None]:
        """Errors that know no line get this one."""
        try:
            yield
        except ProgramError:
            raise
        except TranslationError as error:
            raise self.source.error(node, error.message, error.hint) from error

    def _run_one(self, statement: ast.stmt) -> None:
        match statement:
            case ast.For():
                self._for(statement)
            case ast.If() if _is_about_buffers(statement):
                self._if(statement)
            case ast.Return():
                self._return(statement)
            case ast.Break() | ast.Continue():
                word = "break" if isinstance(statement, ast.Break) else "continue"
                raise self.source.error(
                    statement,
                    f"'{word}' changes how often a loop runs",
                    "put what depends on the condition into if and else",
                )
            case ast.While():
                raise self.source.error(
                    statement,
                    "a while loop runs an unknown number of times",
                    "use for … in range(…) with bounds that the arguments fix",
                )
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if (
                allocation := self._allocation(call)
            ):
                self._allocate(name, allocation, call)
            case _:
                self._interpreter.execute([statement], self._environment)

    def _return(self, statement: ast.Return) -> None:
        if self._loops:
            raise self.source.error(
                statement, "a return inside of a loop ends it early", "return after the loops"
            )
        if statement.value is not None:
            self.returned = self._interpreter.evaluate(statement.value, self._environment)
        raise _Returned

    def _allocation(self, call: ast.Call) -> Callable[..., Any] | None:
        if not isinstance(call.func, ast.Attribute | ast.Name):
            return None
        if not isinstance(call.func, ast.Name) and not isinstance(call.func.value, ast.Name):
            return None
        function = self._interpreter.evaluate(call.func, self._environment)
        try:
            return function if function in _ALLOCATIONS else None
        except TypeError:  # not hashable
            return None

    def _allocate(self, name: str, function: Callable[..., Any], call: ast.Call) -> None:
        """A local array: a buffer that the function itself fills."""
        if self._loops:
            raise self.source.error(
                call,
                "an array is made inside of a loop",
                "make it before the loops, with an axis for each loop, or use a local scalar",
            )
        given = [self._interpreter.evaluate(arg, self._environment) for arg in call.args]
        named = {
            word.arg: self._interpreter.evaluate(word.value, self._environment)
            for word in call.keywords
            if word.arg
        }
        first = given[0]
        example = isinstance(first, SymbolicBuffer | Row)
        fill = _ALLOCATIONS[function]
        if fill == "given":
            fill = given.pop(1) if len(given) > 1 else named.pop("fill_value")
        shape = cast(Any, first.shape if example else first)
        extents = as_tuple(shape)
        by_default = first.dtype if example else np.result_type(fill) if fill else np.float64
        dtype = named.get("dtype", given[1] if len(given) > 1 else None) or by_default
        buffer = self.buffer(f"{name}'", TensorSpec.of(extents, np.dtype(dtype)))
        self.locals[buffer.name] = (buffer, fill)
        self._environment[name] = buffer

    # Loops.

    def _for(self, statement: ast.For) -> None:
        if statement.orelse:
            raise self.source.error(statement, "a loop with else", "write it after the loop")
        bounds = self._range(statement)
        is_dim = self._depth is None or len(self._loops) < self._depth
        if bounds is None or not is_dim or statement.lineno in self._unrolled:
            self._write_out(statement, bounds)
            return
        if not isinstance(statement.target, ast.Name):
            raise self.source.error(statement.target, "the variable of a loop must be a name")
        loop, variable = self._loop(statement, statement.target.id, bounds)
        self._environment[statement.target.id] = variable
        if self._depth is not None:
            self._within(loop, statement.body)
            return
        self._reduce(loop, statement)

    def _within(self, loop: Loop, body: Sequence[ast.stmt]) -> None:
        self._loops.append(loop)
        self._run(body)
        self._loops.pop()

    def _range(self, statement: ast.For) -> tuple[Any, ...] | None:
        """The arguments of the range that a loop goes over, None where it goes over a sequence."""
        call = statement.iter
        if not isinstance(call, ast.Call):
            return None
        function = self._interpreter.evaluate(call.func, self._environment)
        if function is not builtins.range:
            raise self.source.error(
                call,
                "a loop that goes over something else than range(…)",
                "for i in range(n): ..., and indices inside",
            )
        with self._located(call):
            bounds = [self._interpreter.evaluate(arg, self._environment) for arg in call.args]
            # range(A) counts the rows of A, as Listing 13 of 003 has it.
            return tuple(len(b) if isinstance(b, SymbolicBuffer | Row) else b for b in bounds)

    def _loop(self, statement: ast.For, name: str, bounds: Sequence[Any]) -> tuple[Loop, Expr]:
        """The loop, and its variable as a function of the number of the iteration."""
        start, stop, step = _three(bounds)
        first, last = self._bound(start, statement), self._bound(stop, statement)
        if not isinstance(step, int) or step == 0:
            raise self.source.error(statement.iter, "the step of a range must be a constant")
        dim = self._dim(name)
        count = Expr("index", (), I64, dim, weak=True)
        if not first.coefficients and not last.coefficients:
            extent = len(range(first.offset, last.offset, step))
            loop = Loop(dim, extent, (), name, statement.lineno)
            return loop, _counted(count, step, first.offset)
        if abs(step) != 1:
            raise self.source.error(
                statement.iter,
                "bounds that depend on other loops need a step of 1 or -1",
                "count the iterations from 0 and compute the index from the count",
            )
        extents = {loop.name: loop.extent for loop in self._loops}
        low, high = (first, last) if step == 1 else (added(last, _ONE), added(first, _ONE))
        assert low is not None and high is not None
        lowest, highest = low.bounds(extents)[0], high.bounds(extents)[1]
        extent = max(0, highest - lowest)
        begin = lowest if step == 1 else highest - 1
        value = AffineIndex(((dim, step),), begin)
        inside = (difference(value, low), difference(high, value, -1))
        conditions = tuple(c for c in inside if len(c.coefficients) > 1)
        return Loop(dim, extent, conditions, name, statement.lineno), _counted(count, step, begin)

    def _bound(self, bound: Any, statement: ast.For) -> AffineIndex:
        try:
            affine = affine_from_expr(as_expr(bound))
        except TranslationError:
            affine = None
        if affine is None:
            raise self.source.error(
                statement.iter,
                "the bound of a loop is not known before the loops run",
                "bounds are integers from arguments and shapes, or sums of outer loops' variables",
            )
        return affine

    def _dim(self, name: str) -> str:
        dim, number = name, 1
        while dim in self._names:
            number += 1
            dim = f"{name}_{number}"
        self._names.add(dim)
        return dim

    def _write_out(self, statement: ast.For, bounds: tuple[Any, ...] | None) -> None:
        """Runs a loop's body once for every value of its variable."""
        values = (
            self._interpreter.evaluate(statement.iter, self._environment)
            if bounds is None
            else self._known_range(statement, bounds)
        )
        if isinstance(values, SymbolicBuffer | Row):
            raise self.source.error(
                statement.iter,
                "a loop goes over the elements of an array",
                "go over indices: for i in range(len(x)): … x[i]",
            )
        if not isinstance(values, Sequence):
            raise self.source.error(
                statement.iter, "a loop goes over something that is no sequence of known length"
            )
        for value in cast(Sequence[Any], values):
            self._iterations += 1
            if self._iterations > UNROLLED:
                raise self.source.error(
                    statement, f"loops that are written out run more than {UNROLLED} times"
                )
            self._environment[_ELEMENT] = value
            self._interpreter.execute([_taken(statement.target)], self._environment)
            self._run(statement.body)

    def _known_range(self, statement: ast.For, bounds: tuple[Any, ...]) -> range:
        try:
            return range(*bounds)
        except (TypeError, TranslationError) as error:
            raise self.source.error(
                statement.iter,
                "the bound of a loop that is written out is not a known integer",
                "bounds are integers from arguments and shapes",
            ) from error

    def _reduce(self, loop: Loop, statement: ast.For) -> None:
        """Runs the body of a loop once, in which variables set before are carried along."""
        before = self._carried(loop, statement)
        stores = len(self.nest.stores)
        self._within(loop, statement.body)
        entries = self.nest.entries
        begun = {n: name for name, (n, _) in before.items()}
        used = [store.value for store in self.nest.stores[stores:]]
        used += [axis for store in self.nest.stores[stores:] for axis in store.index]
        needed = set(self.nest.entries_of(*used))
        after = {name: self._environment.get(name) for name in before}
        for name, (held, initial) in before.items():
            value = after[name]
            if isinstance(value, Expr) and value.op == "param" and value.value == held:
                self._environment[name] = initial
                continue
            others = [v for n, v in after.items() if n != name and isinstance(v, Expr)]
            if held in needed or held in self.nest.entries_of(*others):
                raise self._carries(loop, name, "other statements use it")
            if not isinstance(value, Expr) or held not in self.nest.entries_of(value):
                self._environment[name] = _last_value(name, loop)
                continue
            for condition in loop.conditions:
                previous = Expr("param", (), entries[held].dtype, held, weak=initial.weak)
                value = select(at_least_zero(condition), value, previous)
            self._environment[name] = self._reduced(loop, name, value, held, initial, begun)
        for name in _assigned([statement]) - before.keys():
            if isinstance(self._environment.get(name), Expr):
                self._environment[name] = _last_value(name, loop)

    def _carried(self, loop: Loop, statement: ast.For) -> dict[str, tuple[int, Expr]]:
        """Puts entries in the place of variables that the body sets; those, and their values."""
        found: dict[str, tuple[int, Expr]] = {}
        for name in sorted(_assigned(statement.body)):
            value = self._environment.get(name)
            if not isinstance(value, Expr | int | float | complex | np.generic):
                continue
            initial = as_expr(value)
            held = self.nest.add(Carried(name, loop, initial.dtype))
            assert isinstance(held.value, int)
            found[name] = (held.value, initial)
            self._environment[name] = Expr(
                "param", (), initial.dtype, held.value, weak=initial.weak
            )
        return found

    def _reduced(
        self,
        loop: Loop,
        name: str,
        value: Expr,
        held: int,
        initial: Expr,
        begun: Mapping[int, str],
    ) -> Expr:
        """A variable after a loop that updates it by an operator."""
        update = update_of(value, held)
        if update is None:
            raise self._carries(loop, name, "it follows from itself by no operator")
        if update.term is None:
            return initial
        assert update.op is not None
        if set(self.nest.entries_of(update.term)) & begun.keys():
            raise self._carries(loop, name, "it depends on another variable that it carries")
        reduced = reduction(self.nest, update.op, update.term, (loop,), tuple(self._loops))
        neutral = initial.op == "const" and initial.value == identity(update.op, reduced)
        if neutral and initial.weak:
            return reduced
        return apply(update.op, initial, reduced)

    def _carries(self, loop: Loop, name: str, why: str) -> CarriedError:
        node = next(
            (
                statement
                for statement in ast.walk(self.source.node)
                if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
                and statement.lineno > loop.line
                and name in _assigned([statement])
            ),
            self._node,
        )
        error = self.source.error(
            node,
            f"loop {loop.variable!r} carries {name!r} to the next iteration, and {why}",
            "a reduction is s += x, s *= x, s = min(s, x) or s = max(s, x); prefix sums and other"
            " operators are named by combine_ops(ps(add)), combine_ops(pw(operator))",
        )
        return as_carried(error, loop)

    # Conditions.

    def _if(self, statement: ast.If) -> None:
        test = self._interpreter.evaluate(statement.test, self._environment)
        if not isinstance(test, Expr):
            self._run(statement.body if test else statement.orelse)
            return
        before = dict(self._environment)
        self._run_under(test, affine_conditions(test), statement.body)
        then, self._environment = self._environment, dict(before)
        negated = negation(test)
        self._run_under(negated, affine_conditions(negated), statement.orelse)
        for name in _assigned(statement.body) | _assigned(statement.orelse):
            self._environment[name] = self._merged(name, test, then, self._environment)

    def _run_under(
        self, test: Expr, affine: tuple[AffineIndex, ...], statements: Sequence[ast.stmt]
    ) -> None:
        self._guards.append((test, affine))
        self._run(statements)
        self._guards.pop()

    def _merged(
        self, name: str, test: Expr, then: Mapping[str, Any], otherwise: Mapping[str, Any]
    ) -> Any:
        first, second = then.get(name), otherwise.get(name)
        missing = Undecided(f"{name!r} is set under a condition only")
        try:
            return merge(
                test, missing if first is None else first, missing if second is None else second
            )
        except ValueError as error:
            return Undecided(f"{name!r} is {error}")


_ONE = AffineIndex((), 1)


def _three(bounds: Sequence[Any]) -> tuple[Any, Any, Any]:
    if len(bounds) == 1:
        return 0, bounds[0], 1
    return (bounds[0], bounds[1], bounds[2] if len(bounds) > 2 else 1)


def _counted(count: Expr, step: int, start: int) -> Expr:
    value = count if step == 1 else count * step
    return value + start if start else value


def _assigned(statements: Sequence[ast.stmt]) -> set[str]:
    """Names that statements set."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _is_about_buffers(statement: ast.If) -> bool:
    """Whether an if holds loops or assignments to elements."""
    return any(
        isinstance(node, ast.For | ast.While | ast.Return)
        or (isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store))
        for node in ast.walk(statement)
    )
