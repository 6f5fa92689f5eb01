"""Runs the statements of a Python function on symbolic values, branches merged by selection.

Where a condition is known only when the kernel runs, both branches are run, and each variable that
they leave different gets the value of the one that the condition selects; so do the values that
they return. Loops run over what is known and are unrolled.
"""

from __future__ import annotations

import ast
import builtins
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any, TypeGuard

import numpy as np

from mdtensor.errors import MdtensorError, ProgramError
from mdtensor.translate.python_functions import (
    conjunction,
    disjunction,
    equality,
    inequality,
    is_scalar,
    is_sequence,
    is_symbolic,
    meaning,
    negation,
    ordering,
)
from mdtensor.translate.scalar import Expr, SymbolError, as_expr, select, truth
from mdtensor.translate.source import Source, source_of

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
LONGEST_LOOP = 4096
"""Iterations of a loop that are unrolled at most."""

_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.MatMult: "matmul",
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_ORDERINGS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_REFUSED = {
    ast.While: (
        "'while' has no known number of steps",
        "write 'for … in range(…)' with a constant",
    ),
    ast.Try: ("'try' cannot be traced: kernels raise nothing", "test with if instead"),
    ast.With: ("'with' cannot be traced", "leave it out of the traced function"),
    ast.Raise: ("'raise' cannot be traced: kernels raise nothing", "return a value such as nan"),
    ast.Global: ("'global' cannot be traced: kernels change no variables of Python", "return it"),
    ast.Nonlocal: (
        "'nonlocal' cannot be traced: kernels change no variables of Python",
        "return it",
    ),
    ast.Import: ("'import' cannot be traced", "import at the top of the module"),
    ast.ImportFrom: ("'import' cannot be traced", "import at the top of the module"),
    ast.Delete: ("'del' cannot be traced", "leave it out"),
    ast.ClassDef: ("classes cannot be defined in traced functions", "use tuples"),
    ast.Match: ("'match' cannot be traced", "write it with if"),
    ast.AsyncFunctionDef: ("'async' cannot be traced", None),
    ast.Yield: ("generators cannot be traced", "return a tuple"),
    ast.YieldFrom: ("generators cannot be traced", "return a tuple"),
    ast.Await: ("'await' cannot be traced", None),
}


class _BreakSignal(Exception):  # noqa: N818
    """Leaves the innermost loop."""


class _ContinueSignal(Exception):  # noqa: N818
    """Goes on with the next step of the innermost loop."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """What a variable is after branches of which only one sets it, or that set what has no choice.

    `why` goes to the message of the error that its use is.
    """

    why: str


@dataclass(slots=True)
class _Flow:
    """Where the run is: the variables, the values returned so far, whether all paths returned.

    A value is returned where its condition holds and none of an earlier value does.
    """

    environment: dict[str, Any]
    returned: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])
    finished: bool = False


@dataclass(frozen=True, slots=True)
class LocalFunction:
    """A function that is defined inside of an interpreted one."""

    source: Source
    namespace: Mapping[str, Any]
    defaults: tuple[Any, ...]
    keyword_defaults: Mapping[str, Any]


class Interpreter:
    """Runs statements of one function; `namespace` has what is no variable of its own.

    `callers` are the functions that led here, so that recursion is noticed.
    """

    def __init__(
        self, source: Source, namespace: Mapping[str, Any], callers: tuple[object, ...] = ()
    ) -> None:
        self.source = source
        self.namespace = namespace
        self.callers = callers
        self._conditions: list[Any] = []

    def execute(self, statements: Sequence[ast.stmt], environment: dict[str, Any]) -> Any:
        """Runs statements on the variables, which it changes; returns what they return.

        Raises ProgramError for what cannot be traced, at the statement that says it.
        """
        flow = _Flow(environment)
        self._run(statements, flow)
        environment.update(flow.environment)
        return self._returned(flow)

    def evaluate(self, expression: ast.expr, environment: dict[str, Any]) -> Any:
        """The value of one expression."""
        return self._value(expression, environment)

    @property
    def _is_conditional(self) -> bool:
        return any(condition is not True for condition in self._conditions)

    # ---- statements

    def _run(self, statements: Sequence[ast.stmt], flow: _Flow) -> None:
        for statement in statements:
            if flow.finished:
                return
            self._statement(statement, flow)

    def _statement(self, statement: ast.stmt, flow: _Flow) -> None:
        variables = flow.environment
        match statement:
            case ast.Return(value=value):
                result = None if value is None else self._value(value, variables)
                flow.returned.append((True, result))
                flow.finished = True
            case ast.Assign(targets=targets, value=value):
                result = self._value(value, variables)
                for target in targets:
                    self._assign(target, result, flow)
            case ast.AugAssign():
                self._update(statement, flow)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self._assign(target, self._value(value, variables), flow)
            case ast.If():
                self._branch(statement, flow)
            case ast.For():
                self._loop(statement, flow)
            case ast.Expr(value=value):
                self._value(value, variables)
            case ast.Assert(test=test):
                if not self._known(test, variables, "an assertion"):
                    raise self._error(statement, "the assertion fails")
            case ast.FunctionDef():
                variables[statement.name] = self._function(statement, variables)
            case ast.Pass():
                pass
            case ast.Break():
                raise self._unless_conditional(statement, _BreakSignal())
            case ast.Continue():
                raise self._unless_conditional(statement, _ContinueSignal())
            case _:
                raise self._refused(statement)

    def _assign(self, target: ast.expr, value: Any, flow: _Flow) -> None:
        variables = flow.environment
        match target:
            case ast.Name(id=name):
                variables[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(target, targets, value, flow)
            case ast.Subscript(value=owner, slice=index):
                holder = self._value(owner, variables)
                self._store(target, holder, self._value(index, variables), value, flow)
            case _:
                raise self._error(
                    target,
                    "attributes cannot be assigned to in a traced function",
                    "use a variable",
                )

    def _unpack(self, node: ast.expr, targets: Sequence[ast.expr], value: Any, flow: _Flow) -> None:
        values = list(self._iterated(node, value))
        if any(isinstance(target, ast.Starred) for target in targets):
            raise self._error(node, "a starred target cannot be traced", "name every element")
        if len(values) != len(targets):
            raise self._error(node, f"{len(values)} values for {len(targets)} variables")
        for target, element in zip(targets, values, strict=True):
            self._assign(target, element, flow)

    def _store(self, node: ast.expr, holder: Any, index: Any, value: Any, flow: _Flow) -> None:
        """`holder[index] = value`; under a condition by the holder's own `set_where`."""
        if not self._is_conditional and not flow.returned:
            self._guarded(node, operator.setitem, holder, index, value)
        elif hasattr(holder, "set_where"):
            condition = reduce(conjunction, self._conditions, True)
            self._guarded(node, holder.set_where, condition, index, value)
        else:
            raise self._error(
                node,
                "an element is set under a condition that is known only when the kernel runs",
                "set it in any case, to a value chosen by 'a if condition else b'",
            )

    def _update(self, statement: ast.AugAssign, flow: _Flow) -> None:
        variables, target = flow.environment, statement.target
        if isinstance(target, ast.Subscript):
            holder = self._value(target.value, variables)
            index = self._value(target.slice, variables)
            before = self._guarded(target, operator.getitem, holder, index)
            result = self._updated(statement, before, variables)
            self._store(target, holder, index, result, flow)
            return
        before = self._value(_loaded(target), variables)
        self._assign(target, self._updated(statement, before, variables), flow)

    def _updated(self, statement: ast.AugAssign, before: Any, variables: dict[str, Any]) -> Any:
        value = self._value(statement.value, variables)
        return self._guarded(statement, _binary(statement.op), before, value)

    def _branch(self, statement: ast.If, flow: _Flow) -> None:
        condition = self._truth(statement.test, self._value(statement.test, flow.environment))
        if not isinstance(condition, Expr):
            self._run(statement.body if condition else statement.orelse, flow)
            return
        then = self._run_under(condition, statement.body, flow)
        otherwise = self._run_under(negation(condition), statement.orelse, flow)
        flow.returned += [(conjunction(condition, where), v) for where, v in then.returned]
        # Where the first branch always returns, what follows it needs no condition of its own.
        unless = True if then.finished else negation(condition)
        flow.returned += [(conjunction(unless, where), v) for where, v in otherwise.returned]
        flow.finished = then.finished and otherwise.finished
        if then.finished:
            merged = otherwise.environment
        elif otherwise.finished:
            merged = then.environment
        else:
            merged = self._merged_variables(statement, condition, then, otherwise)
        flow.environment.clear()
        flow.environment.update(merged)

    def _run_under(self, condition: Any, statements: Sequence[ast.stmt], flow: _Flow) -> _Flow:
        branch = _Flow(dict(flow.environment))
        self._conditions.append(condition)
        try:
            self._run(statements, branch)
        finally:
            self._conditions.pop()
        return branch

    def _merged_variables(
        self, node: ast.If, condition: Expr, then: _Flow, otherwise: _Flow
    ) -> dict[str, Any]:
        line = f"line {node.lineno}"
        merged: dict[str, Any] = {}
        for name in (*then.environment, *otherwise.environment):
            if name not in then.environment or name not in otherwise.environment:
                merged[name] = Undecided(f"{name!r} is set in one branch only of the if in {line}")
                continue
            values = then.environment[name], otherwise.environment[name]
            try:
                merged[name] = self._guarded(node, merge, condition, *values)
            except _NoMergeError as error:
                merged[name] = Undecided(f"{name!r} is {error} after the if in {line}")
        return merged

    def _loop(self, statement: ast.For, flow: _Flow) -> None:
        if statement.orelse:
            raise self._error(statement, "'else' of a loop cannot be traced", "use a variable")
        # Conditions outside of the loop do not make its break or continue conditional.
        outer, self._conditions = self._conditions, [*self._conditions, True]
        try:
            for value in self._iterated(
                statement.iter, self._value(statement.iter, flow.environment)
            ):
                self._assign(statement.target, value, flow)
                try:
                    self._run(statement.body, flow)
                except _ContinueSignal:
                    continue
                except _BreakSignal:
                    break
                if flow.finished:
                    break
        finally:
            self._conditions = outer

    def _iterated(self, node: ast.expr, value: Any) -> Iterable[Any]:
        if isinstance(value, Expr):
            raise self._error(node, f"{value!r} is one number and cannot be iterated")
        iterator = iter(self._guarded(node, iter, value))
        values: list[Any] = []
        for element in iterator:
            if len(values) == LONGEST_LOOP:
                raise self._error(
                    node,
                    f"a loop of more than {LONGEST_LOOP} steps would be unrolled",
                    "make it a dim of the computation",
                )
            values.append(element)
        return values

    def _unless_conditional(self, node: ast.stmt, leave: Exception) -> Exception:
        if not self._conditions or self._conditions[-1] is True:
            return leave
        word = "break" if isinstance(leave, _BreakSignal) else "continue"
        return self._error(
            node,
            f"'{word}' under a condition that is known only when the kernel runs",
            "let a variable say whether the rest still counts",
        )

    def _returned(self, flow: _Flow) -> Any:
        if not flow.returned:
            return None
        if not flow.finished:
            raise self._error(
                self.source.node,
                f"{self.source.name} returns a value on some paths only",
                "end it with a return",
            )
        *before, (_, result) = flow.returned
        for condition, value in reversed(before):
            try:
                if condition is True:
                    result = value
                else:
                    result = self._guarded(self.source.node, merge, condition, value, result)
            except _NoMergeError as error:
                message = f"what {self.source.name} returns is {error}"
                raise self._error(self.source.node, message) from None
        return result

    # ---- expressions

    def _value(self, node: ast.expr, variables: dict[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._variable(node, name, variables)
            case ast.BinOp(left=left, op=op, right=right):
                operands = self._value(left, variables), self._value(right, variables)
                return self._guarded(node, _binary(op), *operands)
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(node, op, self._value(operand, variables))
            case ast.BoolOp():
                return self._logic(node, variables)
            case ast.Compare():
                return self._comparison(node, variables)
            case ast.IfExp():
                return self._choice(node, variables)
            case ast.Call():
                return self._called(node, variables)
            case ast.Attribute(value=owner, attr=name):
                return self._guarded(node, getattr, self._value(owner, variables), name)
            case ast.Subscript(value=owner, slice=index):
                holder = self._value(owner, variables)
                return self._guarded(node, operator.getitem, holder, self._value(index, variables))
            case ast.Tuple(elts=elements):
                return tuple(self._elements(elements, variables))
            case ast.List(elts=elements):
                return self._elements(elements, variables)
            case ast.Slice(lower=lower, upper=upper, step=step):
                parts = (lower, upper, step)
                return slice(*(p if p is None else self._value(p, variables) for p in parts))
            case ast.NamedExpr(target=target, value=value):
                variables[target.id] = self._value(value, variables)
                return variables[target.id]
            case ast.Lambda():
                return self._function(node, variables)
            case ast.ListComp() | ast.GeneratorExp():
                return self._comprehension(node.elt, node.generators, variables)
            case ast.Dict(keys=keys, values=values) if None not in keys:
                names = self._elements([key for key in keys if key is not None], variables)
                return dict(zip(names, self._elements(values, variables), strict=True))
            case _:
                raise self._refused(node)

    def _variable(self, node: ast.expr, name: str, variables: Mapping[str, Any]) -> Any:
        for space in (variables, self.namespace, vars(builtins)):
            if name in space:
                value = space[name]
                break
        else:
            raise self._error(node, f"name {name!r} is not defined")
        if isinstance(value, CellType):
            value = value.cell_contents
        if isinstance(value, Undecided):
            raise self._error(node, value.why, "set it before the if")
        return value

    def _unary(self, node: ast.expr, op: ast.unaryop, value: Any) -> Any:
        if isinstance(op, ast.Not):
            return negation(self._truth(node, value))
        return self._guarded(node, _UNARY[type(op)], value)

    def _logic(self, node: ast.BoolOp, variables: dict[str, Any]) -> Any:
        """`and` and `or` give one of their operands, as in Python; of conditions, a condition."""
        is_and = isinstance(node.op, ast.And)
        result = self._value(node.values[0], variables)
        for operand in node.values[1:]:
            condition = self._truth(operand, result)
            if not isinstance(condition, Expr):
                if bool(condition) is is_and:
                    result = self._value(operand, variables)
                continue
            value = self._value(operand, variables)
            other = value if isinstance(value, bool) else self._truth(operand, value)
            if _is_condition(result) and (_is_condition(value) or isinstance(value, bool)):
                result = (conjunction if is_and else disjunction)(condition, other)
            else:
                choices = (value, result) if is_and else (result, value)
                result = self._merged(node, condition, *choices)
        return result

    def _comparison(self, node: ast.Compare, variables: dict[str, Any]) -> Any:
        left = self._value(node.left, variables)
        result: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self._value(right_node, variables)
            compared = self._guarded(node, _compared, op, left, right)
            if len(node.ops) == 1:
                return compared
            result = conjunction(result, self._truth(node, compared))
            left = right
        return result

    def _choice(self, node: ast.IfExp, variables: dict[str, Any]) -> Any:
        condition = self._truth(node.test, self._value(node.test, variables))
        if not isinstance(condition, Expr):
            return self._value(node.body if condition else node.orelse, variables)
        then = self._value(node.body, variables)
        return self._merged(node, condition, then, self._value(node.orelse, variables))

    def _merged(self, node: ast.expr, condition: Expr, then: Any, otherwise: Any) -> Any:
        try:
            return self._guarded(node, merge, condition, then, otherwise)
        except _NoMergeError as error:
            raise self._error(node, f"the value is {error}") from None

    def _elements(self, nodes: Sequence[ast.expr], variables: dict[str, Any]) -> list[Any]:
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values += self._iterated(node, self._value(node.value, variables))
            else:
                values.append(self._value(node, variables))
        return values

    def _comprehension(
        self,
        element: ast.expr,
        generators: Sequence[ast.comprehension],
        variables: dict[str, Any],
    ) -> list[Any]:
        if not generators:
            return [self._value(element, variables)]
        first, *inner = generators
        scope = _Flow(dict(variables))
        values: list[Any] = []
        for value in self._iterated(first.iter, self._value(first.iter, variables)):
            self._assign(first.target, value, scope)
            if all(self._known(c, scope.environment, "a filter") for c in first.ifs):
                values += self._comprehension(element, inner, scope.environment)
        return values

    def _truth(self, node: ast.AST, value: Any) -> Any:
        """A condition: a node of booleans, or what is known."""
        if isinstance(value, Expr):
            return truth(value)
        return self._guarded(node, bool, value)

    def _known(self, node: ast.expr, variables: dict[str, Any], what: str) -> bool:
        value = self._truth(node, self._value(node, variables))
        if isinstance(value, Expr):
            raise self._error(node, f"the condition of {what} is known only when the kernel runs")
        return value

    # ---- calls

    def _called(self, node: ast.Call, variables: dict[str, Any]) -> Any:
        function = self._value(node.func, variables)
        args = self._elements(node.args, variables)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self._value(keyword.value, variables)
            kwargs |= value if keyword.arg is None else {keyword.arg: value}
        if self._is_conditional and isinstance(function, BuiltinFunctionType):
            owner: object = function.__self__
            kind = next((kind for kind in (list, dict, set) if isinstance(owner, kind)), None)
            if kind is not None:
                raise self._error(
                    node,
                    f"a {kind.__name__} is changed under a condition that may not hold",
                    "use tuples, and choose values by 'a if condition else b'",
                )
        return self.call(node, function, args, kwargs)

    def call(
        self, node: ast.AST, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """What a function returns for values, of which some may be symbolic."""
        if isinstance(function, partial):
            given = (*function.args, *args), {**function.keywords, **kwargs}
            return self.call(node, function.func, *given)
        if isinstance(function, LocalFunction):
            return self._interpreted(node, function, args, kwargs)
        symbolic = is_symbolic(args) or is_symbolic(list(kwargs.values()))
        special = meaning(function) if symbolic else None
        if special is not None:
            return self._guarded(node, special, *args, **kwargs)
        if symbolic and _is_method(function):
            return self.call(node, function.__func__, [function.__self__, *args], kwargs)
        if isinstance(function, FunctionType) and not _is_own(function) and not _is_plain(args):
            local = local_function(function)
            if local is not None:
                return self._interpreted(node, local, args, kwargs, function.__code__)
        called = [self._callable(node, arg) for arg in args]
        return self._guarded(node, function, *called, **kwargs)

    def _callable(self, node: ast.AST, value: Any) -> Any:
        """A function that is handed to one that is no Python, such as `map`, is run here too."""
        if not isinstance(value, LocalFunction | FunctionType):
            return value

        def called(*args: Any, **kwargs: Any) -> Any:
            return self.call(node, value, args, kwargs)

        return called

    def _interpreted(
        self,
        node: ast.AST,
        function: LocalFunction,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        code: object = None,
    ) -> Any:
        mark = code or function.source.node
        if mark in self.callers:
            raise self._error(
                node, f"{function.source.name} calls itself", "write the recursion as a loop"
            )
        inner = Interpreter(function.source, function.namespace, (*self.callers, mark))
        inner._conditions = list(self._conditions)
        try:
            variables = bound(function, args, kwargs)
        except TypeError as error:
            raise self._error(node, str(error)) from None
        return inner.execute(function.source.statements, variables)

    def _function(
        self, node: ast.FunctionDef | ast.Lambda, variables: dict[str, Any]
    ) -> LocalFunction:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            raise self._error(node, "a decorated function cannot be traced in another one")
        name = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
        keyword_only = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        return LocalFunction(
            Source(name, self.source.file, node),
            _Scopes(variables, self.namespace),
            tuple(self._elements(node.args.defaults, variables)),
            {arg.arg: self._value(d, variables) for arg, d in keyword_only if d is not None},
        )

    # ---- errors

    def _guarded(self, node: ast.AST, function: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """The function's result; its error at the node."""
        try:
            return function(*args, **kw)
        except (ProgramError, _NoMergeError):
            raise
        except SymbolError as error:
            raise self._error(node, error.message, error.hint) from error
        except MdtensorError as error:
            raise self._error(node, str(error.args[0]), error.hint) from error
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            raise self._error(node, message) from error

    def _error(self, node: ast.AST, message: str, hint: str | None = None) -> ProgramError:
        return self.source.error(node, message, hint)

    def _refused(self, node: ast.AST) -> ProgramError:
        unknown = (f"{type(node).__name__} cannot be traced", "write it in simpler Python")
        return self._error(node, *_REFUSED.get(type(node), unknown))  # type: ignore[arg-type]


class _Scopes(Mapping[str, Any]):
    """The variables of a function, as they are when they are read, then what lies around it."""

    def __init__(self, inner: Mapping[str, Any], outer: Mapping[str, Any]) -> None:
        self._inner, self._outer = inner, outer

    def __getitem__(self, name: str) -> Any:
        return self._inner[name] if name in self._inner else self._outer[name]

    def __iter__(self) -> Any:
        return iter({*self._inner, *self._outer})

    def __len__(self) -> int:
        return len({*self._inner, *self._outer})


class _NoMergeError(ValueError):
    """Two values of which no condition can choose one; the message says what they are."""


def merge(condition: Expr, then: Any, otherwise: Any) -> Any:
    """The value that a condition chooses; tuples are chosen element by element.

    Raises a ValueError where the two cannot be brought together.
    """
    if then is otherwise:
        return then
    if isinstance(then, Undecided) or isinstance(otherwise, Undecided):
        return then if isinstance(then, Undecided) else otherwise
    if is_sequence(then) and is_sequence(otherwise):
        if len(then) != len(otherwise):
            raise _NoMergeError(f"a tuple of {len(then)} or of {len(otherwise)} values")
        merged = [merge(condition, a, b) for a, b in zip(then, otherwise, strict=True)]
        return merged if isinstance(then, list) else tuple(merged)
    if isinstance(then, dict) and isinstance(otherwise, dict) and then.keys() == otherwise.keys():
        return {name: merge(condition, then[name], otherwise[name]) for name in then}
    if is_scalar(then) and is_scalar(otherwise):
        if (
            not isinstance(then, Expr)
            and not isinstance(otherwise, Expr)
            and _same(then, otherwise)
        ):
            return then
        return select(condition, as_expr(then), as_expr(otherwise))
    if type(then) is type(otherwise) and then == otherwise:
        return then
    raise _NoMergeError(f"{_described(then)} or {_described(otherwise)}")


def _same(lhs: Any, rhs: Any) -> bool:
    return type(lhs) is type(rhs) and repr(lhs) == repr(rhs)


def _described(value: Any) -> str:
    if value is None:
        return "None"
    if is_sequence(value):
        return f"a tuple of {len(value)}"
    return "a number" if is_scalar(value) else f"a {type(value).__name__}"


def _is_condition(value: object) -> bool:
    return isinstance(value, Expr) and value.dtype.kind == "b"


def _is_plain(args: Sequence[Any]) -> bool:
    """Whether a function is called on known values only, so that it can simply run."""
    return all(isinstance(arg, bool | int | float | complex | str | np.generic) for arg in args)


def _is_method(function: object) -> TypeGuard[MethodType]:
    """Whether a function is a method that was written in Python, outside of mdtensor."""
    held = getattr(function, "__func__", None)
    return isinstance(held, FunctionType) and not _is_own(held)


def _is_own(function: FunctionType) -> bool:
    return function.__code__.co_filename.startswith(_PACKAGE)


def _binary(op: ast.operator) -> Callable[[Any, Any], Any]:
    return getattr(operator, _BINARY[type(op)])


def _loaded(target: ast.expr) -> ast.expr:
    """The expression that reads what a target writes."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return target


def _compared(op: ast.cmpop, lhs: Any, rhs: Any) -> Any:
    match op:
        case ast.Eq():
            return equality(lhs, rhs)
        case ast.NotEq():
            return inequality(lhs, rhs)
        case ast.Is():
            return lhs is rhs
        case ast.IsNot():
            return lhs is not rhs
        case ast.In():
            return _contains(rhs, lhs)
        case ast.NotIn():
            return negation(_contains(rhs, lhs))
        case _:
            return ordering(_ORDERINGS[type(op)], lhs, rhs)


def _contains(holder: Any, value: Any) -> Any:
    if not is_symbolic(value) and not is_sequence(holder):
        return value in holder
    return reduce(disjunction, (equality(value, element) for element in holder), False)


def local_function(function: FunctionType) -> LocalFunction | None:
    """A function of Python with its source and what it refers to; None without source."""
    source = source_of(function)
    if source is None:
        return None
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return LocalFunction(
        source,
        _Scopes(dict(cells), function.__globals__),
        function.__defaults__ or (),
        function.__kwdefaults__ or {},
    )


def bound(
    function: LocalFunction, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The parameters of a call with their values; TypeError where they do not fit."""
    name, given = function.source.name, function.source.node.args
    positional = [arg.arg for arg in (*given.posonlyargs, *given.args)]
    keyword_only = [arg.arg for arg in given.kwonlyargs]
    if len(args) > len(positional) and given.vararg is None:
        raise TypeError(f"{name} takes {len(positional)} values, not {len(args)}")
    values: dict[str, Any] = dict(function.keyword_defaults)
    values |= dict(zip(positional[::-1], function.defaults[::-1], strict=False))
    values |= dict(zip(positional, args, strict=False))
    unknown = [key for key in kwargs if key not in (*positional, *keyword_only)]
    if unknown and given.kwarg is None:
        raise TypeError(f"{name} has no parameter {unknown[0]!r}")
    values |= {key: value for key, value in kwargs.items() if key not in unknown}
    missing = [key for key in (*positional, *keyword_only) if key not in values]
    if missing:
        raise TypeError(f"{name} is called without a value for {missing[0]!r}")
    if given.vararg is not None:
        values[given.vararg.arg] = tuple(args[len(positional) :])
    if given.kwarg is not None:
        values[given.kwarg.arg] = {key: kwargs[key] for key in unknown}
    return values
