"""Tracing of a function's source to a loop nest, on symbolic buffers."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

from mdtensor.errors import ProgramError, TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.accesses import AccessCollector
from mdtensor.translate.loop_nests.allocations import allocated, is_allocation
from mdtensor.translate.loop_nests.carried import LengthyError, retyped
from mdtensor.translate.loop_nests.carried_variables import CarriedVariables, assigned
from mdtensor.translate.loop_nests.loop_from_range import loop_from_range
from mdtensor.translate.loop_nests.loop_pieces import pieces_of
from mdtensor.translate.loop_nests.source_loop_nest import Nest, SourceLoop
from mdtensor.translate.loop_nests.symbolic_buffers import (
    SymbolicBuffer,
    SymbolicRecord,
    SymbolicRow,
)
from mdtensor.translate.python.branches import Undecided, merge
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.python.functions import negation
from mdtensor.translate.python.interpreter import Interpreter
from mdtensor.translate.scalar import Expr

UNROLLED = 4096
"""Iterations of loops that are written out, at most."""
_ELEMENT = "element of a loop"


class _Returned(Exception):  # noqa: N818
    """Raised by a return statement to end the trace."""


def _taken(target: ast.expr) -> ast.stmt:
    """An assignment of the current element to the target of an unrolled loop."""
    statement = ast.Assign([target], ast.Name(_ELEMENT, ast.Load()))
    return ast.fix_missing_locations(ast.copy_location(statement, target))


class Tracer:
    """Traces a function's statements once; loops become dims, or are unrolled.

    `namespace` has the names around the function; `bind` gives its parameters values.

    `depth` is the number of nested loops that become dims; with None all do, and what they carry
    from iteration to iteration must be reductions. `unrolled` are the lines of loops that are
    written out all the same, `cut` those of loops that run in pieces (`loop_pieces`). They
    may store so many times as `stores` says. `outputs` and `sealed`: see `AccessCollector`.
    """

    def __init__(
        self,
        source: FunctionSource,
        namespace: Mapping[str, Any],
        *,
        depth: int | None = None,
        unrolled: frozenset[int] = frozenset(),
        cut: frozenset[int] = frozenset(),
        stores: int = UNROLLED,
        outputs: Collection[str] = (),
        sealed: Collection[str] = (),
    ) -> None:
        self.source = source
        self.accesses = AccessCollector(
            source.node, is_point=depth is not None, outputs=outputs, sealed=sealed
        )
        self.returned: Any = None
        self.locals: dict[str, tuple[SymbolicBuffer, Any]] = {}
        self._environment: dict[str, Any] = {}
        self._interpreter = Interpreter(source, namespace)
        self._depth = depth
        self._unrolled = unrolled
        self._cut = cut
        self._stores = stores
        self._names: set[str] = set()
        self._iterations = 0

    def buffer(self, name: str, spec: TensorSpec, *, is_weak: bool = False) -> SymbolicBuffer:
        """A symbolic buffer whose accesses are recorded; see `Expr` for `is_weak`."""
        return SymbolicBuffer(name, spec, self.accesses, is_weak=is_weak)

    def bind(self, name: str, value: Any) -> None:
        """Bind a parameter of the function to a value."""
        self._environment[name] = value

    def run(self) -> Nest:
        """Trace the whole function to a nest."""
        with suppress(_Returned):
            self._run(self.source.statements)
        self.accesses.settle_extents()
        return self.accesses.nest

    # Statements.

    def _run(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.accesses.node = statement
            with self._located(statement):
                self._run_one(statement)

    @contextmanager
    def _located(self, node: ast.AST) -> Generator[None]:
        """Context manager that adds a line to errors without one."""
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
        if self.accesses.loops:
            raise self.source.error(
                statement, "a return inside of a loop ends it early", "return after the loops"
            )
        if statement.value is not None:
            self.returned = self._value(statement.value)
        raise _Returned

    def _allocation(self, call: ast.Call) -> Callable[..., Any] | None:
        if not isinstance(call.func, ast.Attribute | ast.Name):
            return None
        if not isinstance(call.func, ast.Name) and not isinstance(call.func.value, ast.Name):
            return None
        function = self._value(call.func)
        return function if is_allocation(function) else None

    def _allocate(self, name: str, function: Callable[..., Any], call: ast.Call) -> None:
        """Bind a local array: a buffer with a fill value."""
        if self.accesses.loops:
            raise self.source.error(
                call,
                "an array is made inside of a loop",
                "make it before the loops, with an axis for each loop, or use a local scalar",
            )
        given = [self._value(arg) for arg in call.args]
        named = {word.arg: self._value(word.value) for word in call.keywords if word.arg}
        spec, fill = allocated(function, given, named)
        buffer = self.buffer(f"{name}'", spec)
        self.locals[buffer.name] = (buffer, fill)
        self._environment[name] = buffer

    # Loops.

    def _for(self, statement: ast.For) -> None:
        if statement.orelse:
            raise self.source.error(statement, "a loop with else", "write it after the loop")
        bounds = self._range(statement)
        is_dim = self._depth is None or len(self.accesses.loops) < self._depth
        if bounds is None or not is_dim or statement.lineno in self._unrolled:
            self._write_out(statement, bounds)
            return
        if not isinstance(statement.target, ast.Name):
            raise self.source.error(statement.target, "the variable of a loop must be a name")
        name, pieces = statement.target.id, [bounds]
        if self._depth is None and statement.lineno in self._cut:
            pieces = pieces_of(statement, bounds, self._value)
        for piece in pieces:
            loop = self._enter(statement, name, piece)
            if self._depth is not None:
                self._within(loop, statement.body)
                return
            carried = CarriedVariables(
                self.source, loop, statement, self.accesses, self._environment
            )
            self._within(loop, statement.body)
            carried.settle(self._environment)

    def _value(self, expression: ast.expr) -> Any:
        return self._interpreter.evaluate(expression, self._environment)

    def _within(self, loop: SourceLoop, body: Sequence[ast.stmt]) -> None:
        with self.accesses.within(loop):
            self._run(body)

    def _range(self, statement: ast.For) -> tuple[Any, ...] | None:
        """The arguments of a loop's range; None if the loop iterates over a sequence."""
        call = statement.iter
        if not isinstance(call, ast.Call):
            return None
        function = self._value(call.func)
        if function is not builtins.range:
            raise self.source.error(
                call,
                "a loop that goes over something else than range(…)",
                "for i in range(n): ..., and indices inside",
            )
        with self._located(call):
            bounds = [self._value(arg) for arg in call.args]
            # range(A) counts the rows of A, as Listing 13 of 003 has it.
            return tuple(
                len(b) if isinstance(b, SymbolicBuffer | SymbolicRow) else b for b in bounds
            )

    def _enter(self, statement: ast.For, name: str, bounds: Sequence[Any]) -> SourceLoop:
        """Create the loop of a `for`, and bind its variable."""
        dim, outer = self._dim(name), self.accesses.loops
        with self._located(statement.iter):
            loop, variable = loop_from_range(bounds, dim, outer, name, statement.lineno)
        self._environment[name] = variable
        return loop

    def _dim(self, name: str) -> str:
        dim, number = name, 1
        while dim in self._names:
            number += 1
            dim = f"{name}_{number}"
        self._names.add(dim)
        return dim

    def _write_out(self, statement: ast.For, bounds: tuple[Any, ...] | None) -> None:
        """Unroll a loop: trace its body for every value of its variable."""
        values = (
            self._value(statement.iter) if bounds is None else self._known_range(statement, bounds)
        )
        if isinstance(values, SymbolicRecord) or (
            isinstance(values, SymbolicRow) and values.is_sub_array
        ):
            values = list(values)
        if isinstance(values, SymbolicBuffer | SymbolicRow):
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
            if self._iterations > UNROLLED or len(self.accesses.nest.stores) > self._stores:
                most = f"run more than {UNROLLED} times, or store more than {self._stores} times"
                error = self.source.error(statement, f"loops that are written out {most}")
                raise retyped(LengthyError, error)
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

    # Conditions.

    def _if(self, statement: ast.If) -> None:
        test = self._value(statement.test)
        if not isinstance(test, Expr):
            self._run(statement.body if test else statement.orelse)
            return
        before = dict(self._environment)
        with self.accesses.under(test):
            self._run(statement.body)
        then, self._environment = self._environment, dict(before)
        with self.accesses.under(negation(test)):
            self._run(statement.orelse)
        for name in assigned(statement.body) | assigned(statement.orelse):
            self._environment[name] = self._merged(name, test, then, self._environment)

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


def _is_about_buffers(statement: ast.If) -> bool:
    """Whether an `if` contains loops, returns or assignments to elements."""
    return any(
        isinstance(node, ast.For | ast.While | ast.Return)
        or (isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store))
        for node in ast.walk(statement)
    )
