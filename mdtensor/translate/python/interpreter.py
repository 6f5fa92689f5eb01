"""An interpreter of Python functions on symbolic values; branches are merged by selection.

Where a condition is known only when the kernel runs, both branches are run, and each variable that
they leave different gets the value of the one that the condition selects; so do the values that
they return. Loops run over what is known and are unrolled.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import reduce
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.translate.python.branches import NoChoiceError, Undecided, merge
from mdtensor.translate.python.calls import Calls
from mdtensor.translate.python.functions import conjunction, negation
from mdtensor.translate.python.local_functions import LocalFunction, bound
from mdtensor.translate.python.python_operators import binary
from mdtensor.translate.scalar import Expr


class _LeaveSignal(Exception):  # noqa: N818
    """Signals `break` or `continue` out of the innermost loop's body."""

    def __init__(self, statement: ast.Break | ast.Continue) -> None:
        super().__init__(statement)
        self.statement = statement

    @property
    def is_last(self) -> bool:
        """Whether the signal is a `break`."""
        return isinstance(self.statement, ast.Break)

    @property
    def word(self) -> str:
        return "break" if self.is_last else "continue"


@dataclass(slots=True)
class _Flow:
    """The interpreter's state: variables, values returned so far, and if all paths returned.

    A value is returned where its condition holds and none of an earlier value does.
    """

    environment: dict[str, Any]
    returned: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])
    finished: bool = False
    left_before: bool = False

    @property
    def may_have_left(self) -> bool:
        """Whether a conditional return came before."""
        return self.left_before or bool(self.returned)


class Interpreter(Calls):
    """Runs statements of one function, and the functions that they call."""

    def execute(self, statements: Sequence[ast.stmt], environment: dict[str, Any]) -> Any:
        """Run statements, updating the variables; returns their return value.

        Raises ProgramError for what cannot be traced, at the statement that says it.
        """
        flow = _Flow(environment)
        try:
            self._run(statements, flow)
        except _LeaveSignal as leave:
            raise self._error(
                leave.statement,
                f"'{leave.word}' changes how often a loop runs",
                "put what depends on the condition into if and else",
            ) from None
        environment.update(flow.environment)
        return self._returned(flow)

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
            case ast.With(items=items) if self._is_harmless(items, variables):
                self._run(statement.body, flow)
            case ast.Raise(exc=exc) if exc is not None and not self._is_conditional:
                raise self._error(statement, f"the function raises {self._value(exc, variables)!r}")
            case ast.Break() | ast.Continue():
                raise self._unless_conditional(_LeaveSignal(statement))
            case _:
                raise self._refused(statement)

    def _assign(self, target: ast.expr, value: Any, flow: _Flow) -> None:
        variables = flow.environment
        match target:
            case ast.Name(id=name):
                variables[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for inner, element in self._unpacked(target, targets, value):
                    self._assign(inner, element, flow)
            case ast.Subscript(value=owner, slice=index):
                holder = self._value(owner, variables)
                self._store(target, holder, self._value(index, variables), value, flow)
            case ast.Attribute(value=owner):
                self._check_change(target, self._value(owner, variables))
                raise self._error(
                    target,
                    "attributes cannot be assigned to in a traced function",
                    "use a variable",
                )
            case _:
                raise self._error(target, "a starred target cannot be traced", "name every element")

    def _store(self, node: ast.Subscript, holder: Any, index: Any, value: Any, flow: _Flow) -> None:
        """Execute `holder[index] = value`; under a condition by `set_where`."""
        self._check_change(node, holder)
        self._check_place(node, holder, index)
        if flow.may_have_left:
            raise self._error(
                node,
                "an element is set after a return under a condition",
                "let the other branch set it, or return at the end only",
            )
        if not self._is_conditional:
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
            before = self._item(target, holder, index)
            result = self._updated(statement, before, variables)
            self._store(target, holder, index, result, flow)
            return
        before = self._value(_loaded(target), variables)
        self._assign(target, self._updated(statement, before, variables), flow)

    def _updated(self, statement: ast.AugAssign, before: Any, variables: dict[str, Any]) -> Any:
        value = self._value(statement.value, variables)
        return self._guarded(statement, binary(statement.op), before, value)

    def _is_harmless(self, items: Sequence[ast.withitem], variables: dict[str, Any]) -> bool:
        """Whether a `with` has only `np.errstate`, which kernels ignore."""
        contexts = [item.context_expr for item in items]
        return all(
            isinstance(context, ast.Call) and self._value(context.func, variables) is np.errstate
            for context in contexts
        )

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
        branch = _Flow(dict(flow.environment), left_before=flow.may_have_left)
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
            except NoChoiceError as error:
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
                except _LeaveSignal as leave:
                    if leave.is_last:
                        break
                    continue
                if flow.finished:
                    break
        finally:
            self._conditions = outer

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
        callers = (*self.callers, mark)
        inner = Interpreter(function.source, function.namespace, callers, self.around)
        inner._conditions = list(self._conditions)
        try:
            variables = bound(function, args, kwargs)
        except TypeError as error:
            raise self._error(node, str(error)) from None
        return inner.execute(function.source.statements, variables)

    def _unless_conditional(self, leave: _LeaveSignal) -> Exception:
        if not self._conditions or self._conditions[-1] is True:
            return leave
        return self._error(
            leave.statement,
            f"'{leave.word}' under a condition that is known only when the kernel runs",
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
            except NoChoiceError as error:
                message = f"what {self.source.name} returns is {error}"
                raise self._error(self.source.node, message) from None
        return result


def _loaded(target: ast.expr) -> ast.expr:
    """The expression that reads an assignment target."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return target
