"""Evaluation of Python expressions on symbolic and concrete values."""

from __future__ import annotations

import ast
import builtins
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import CellType
from typing import Any

import numpy as np

from mdtensor.errors import MdtensorError, PassedOverError, ProgramError, count_of, shown
from mdtensor.translate.arithmetic import Aggregate
from mdtensor.translate.python.branches import NoChoiceError, Undecided, merge
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.python.functions import (
    conjunction,
    disjunction,
    is_symbolic,
    negation,
)
from mdtensor.translate.python.python_operators import binary, compared, unary
from mdtensor.translate.python.refusals import refusal_of
from mdtensor.translate.scalar import ATTRIBUTES, Expr, truth
from mdtensor.translate.tracing import SymbolError, while_tracing

LONGEST_LOOP = 4096
"""Iterations of a loop that are unrolled at most."""
_CHANGEABLE: Any = (list, dict, set, np.ndarray)


class Expressions(ABC):
    """Evaluates expressions of one function; `namespace` has its non-local names.

    `callers` are the functions that led here, so that recursion is noticed; `around` are the
    objects that functions found around them, which no kernel changes.
    """

    def __init__(
        self,
        source: FunctionSource,
        namespace: Mapping[str, Any],
        callers: tuple[object, ...] = (),
        around: dict[int, object] | None = None,
    ) -> None:
        self.source = source
        self.namespace = namespace
        self.callers = callers
        self.around: dict[int, object] = {} if around is None else around
        self._conditions: list[Any] = []

    def evaluate(self, expression: ast.expr, environment: dict[str, Any]) -> Any:
        """Evaluate one expression."""
        return self._value(expression, environment)

    @property
    def _is_conditional(self) -> bool:
        return any(condition is not True for condition in self._conditions)

    def _value(self, node: ast.expr, variables: dict[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._variable(node, name, variables)
            case ast.BinOp(left=left, op=op, right=right):
                operands = self._value(left, variables), self._value(right, variables)
                computed = self._printed if isinstance(operands[0], str) else self._guarded
                return computed(node, binary(op), *operands)
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
                holder = self._value(owner, variables)
                self._check_attribute(node, holder, name)
                return self._part(holder, self._guarded(node, getattr, holder, name))
            case ast.Subscript(value=owner, slice=index):
                holder = self._value(owner, variables)
                return self._part(holder, self._item(node, holder, self._value(index, variables)))
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
            case ast.JoinedStr(values=values):
                return "".join(self._elements(values, variables))
            case ast.FormattedValue():
                return self._formatted(node, variables)
            case ast.Lambda():
                return self._function(node, variables)
            case ast.ListComp() | ast.GeneratorExp():
                return self._comprehension(node.elt, node.generators, variables)
            case ast.DictComp(key=key, value=ast.expr() as value):
                pair = ast.copy_location(ast.Tuple([key, value], ast.Load()), node)
                pairs = self._comprehension(pair, node.generators, variables)
                return self._hashed(node, dict, pairs)
            case ast.Set(elts=elements):
                return self._hashed(node, set, self._elements(elements, variables))
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
        if space is not variables:
            value = self._from_around(value.cell_contents if isinstance(value, CellType) else value)
        if isinstance(value, Undecided):
            raise self._error(node, value.why, value.hint)
        return value

    def _from_around(self, value: Any) -> Any:
        """Record an object that existed before the function ran, and return it."""
        if isinstance(value, _CHANGEABLE) or hasattr(value, "__dict__"):
            self.around[id(value)] = value
        return value

    def _part(self, holder: Any, value: Any) -> Any:
        """Return a part of an object, recorded as existing before if the object was."""
        return self._from_around(value) if id(holder) in self.around else value

    def _check_change(self, node: ast.AST, holder: Any) -> None:
        """Refuse mutation of objects that existed before the function ran."""
        if id(holder) in self.around:
            raise self._passed_over(
                node,
                f"a {type(holder).__name__} from around the function would be changed once, while"
                " it is translated",
                "return the value; kernels change no variables of Python",
            )

    def _check_attribute(self, node: ast.AST, holder: Any, name: str) -> None:
        """Refuse an expression's attributes that numbers lack."""
        if isinstance(holder, Expr) and name not in ATTRIBUTES:
            raise self._passed_over(
                node,
                f"an element is a number, which has no {name!r} here",
                "it has astype, dtype, real, imag, conjugate() and NumPy's functions of numbers;"
                " a sum over a dim is combine='add'",
            )

    def _item(self, node: ast.Subscript, holder: Any, index: Any) -> Any:
        self._check_place(node, holder, index)
        if isinstance(holder, dict):
            return self._hashed(node, operator.getitem, holder, index)
        return self._guarded(node, operator.getitem, holder, index)

    def _check_place(self, node: ast.Subscript, holder: Any, index: Any) -> None:
        """Refuse symbolic indices into lists, tuples, strings and arrays."""
        kind = type(holder).__name__
        name = ast.unparse(node.value)
        if isinstance(holder, np.ndarray) and is_symbolic(index):
            raise self._error(
                node,
                f"{name} is an array from around the function, which it cannot index by"
                f" {shown(index)}",
                "make it an operand: loops index it, and '@1, i -> i' reads it at operand 1",
            )
        if isinstance(holder, list | tuple | str) and is_symbolic(index):
            raise self._error(
                node,
                f"{name} is a {kind}, which no kernel can index by {shown(index)}",
                f"make it an array: numpy.asarray({name})",
            )

    def _formatted(self, node: ast.FormattedValue, variables: dict[str, Any]) -> str:
        """A formatted field of an f-string; refused for symbolic values."""
        value = self._value(node.value, variables)
        converted = {ord("s"): str, ord("r"): repr, ord("a"): ascii}.get(node.conversion)
        spec = "" if node.format_spec is None else self._value(node.format_spec, variables)
        if isinstance(value, Expr | Aggregate):
            self._printed(node.value, str, value)
        return self._printed(node.value, format, converted(value) if converted else value, spec)

    def _printed(self, node: ast.AST, function: Callable[..., Any], *args: Any) -> Any:
        """Convert values to text by a function; refused for symbolic values."""
        try:
            return while_tracing(self._guarded, node, function, *args)
        except ProgramError as error:
            if not isinstance(error.__cause__, MdtensorError):
                raise
            raise self._passed_over(node, error.message, error.hint) from error

    def _hashed(self, node: ast.AST, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that hashes its arguments; symbolic values refuse to be hashed."""
        return while_tracing(self._guarded, node, function, *args)

    def _unary(self, node: ast.expr, op: ast.unaryop, value: Any) -> Any:
        if isinstance(op, ast.Not):
            return negation(self._truth(node, value))
        return self._guarded(node, unary(op), value)

    def _logic(self, node: ast.BoolOp, variables: dict[str, Any]) -> Any:
        """Evaluate `and` or `or`, to one of the operands as in Python, or a condition."""
        is_and = isinstance(node.op, ast.And)
        result = self._value(node.values[0], variables)
        for before, operand in pairwise(node.values):
            condition = self._truth(before, result)
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
            self._check_identity(node, op, left, right)
            holds = self._guarded(node, compared, op, left, right)
            if len(node.ops) == 1:
                return holds
            result = conjunction(result, self._truth(node, holds))
            left = right
        return result

    def _check_identity(self, node: ast.Compare, op: ast.cmpop, lhs: Any, rhs: Any) -> None:
        """Refuse `is` on symbolic values, except against None."""
        values = [value for value in (lhs, rhs) if isinstance(value, Expr | Aggregate)]
        if isinstance(op, ast.Is | ast.IsNot) and values and lhs is not None and rhs is not None:
            raise self._passed_over(
                node,
                f"whether {values[0]!r} is the same object is known to Python only",
                "compare values by == or !=",
            )

    def _choice(self, node: ast.IfExp, variables: dict[str, Any]) -> Any:
        condition = self._truth(node.test, self._value(node.test, variables))
        if not isinstance(condition, Expr):
            return self._value(node.body if condition else node.orelse, variables)
        then = self._value(node.body, variables)
        return self._merged(node, condition, then, self._value(node.orelse, variables))

    def _merged(self, node: ast.expr, condition: Expr, then: Any, otherwise: Any) -> Any:
        try:
            return self._guarded(node, merge, condition, then, otherwise)
        except NoChoiceError as error:
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
            return self._elements([element], variables)
        first, *inner = generators
        scope = dict(variables)
        values: list[Any] = []
        for value in self._iterated(first.iter, self._value(first.iter, variables)):
            self._bind(first.target, value, scope)
            if all(self._known(c, scope, "a filter") for c in first.ifs):
                values += self._comprehension(element, inner, scope)
        return values

    def _truth(self, node: ast.AST, value: Any) -> Any:
        """The truth value of a value: a boolean expression, or a bool."""
        if isinstance(value, Expr):
            return truth(value)
        return self._guarded(node, bool, value)

    def _known(self, node: ast.expr, variables: dict[str, Any], what: str) -> bool:
        value = self._truth(node, self._value(node, variables))
        if isinstance(value, Expr):
            raise self._error(node, f"the condition of {what} is known only when the kernel runs")
        return value

    @abstractmethod
    def _called(self, node: ast.Call, variables: dict[str, Any]) -> Any:
        """Evaluate a call."""

    @abstractmethod
    def _function(self, node: ast.Lambda, variables: dict[str, Any]) -> Any:
        """Evaluate a lambda."""

    def _iterated(self, node: ast.AST, value: Any) -> Iterable[Any]:
        if isinstance(value, Expr):
            raise self._error(node, f"{shown(value)} is one number and cannot be iterated")
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

    def _bind(self, target: ast.expr, value: Any, variables: dict[str, Any]) -> None:
        """Bind a value to a target, with tuple unpacking."""
        match target:
            case ast.Name(id=name):
                variables[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for inner, element in self._unpacked(target, targets, value):
                    self._bind(inner, element, variables)
            case _:
                raise self._error(target, "only names can be set here", "use a variable")

    def _unpacked(
        self, node: ast.expr, targets: Sequence[ast.expr], value: Any
    ) -> list[tuple[ast.expr, Any]]:
        values = list(self._iterated(node, value))
        if any(isinstance(target, ast.Starred) for target in targets):
            raise self._error(node, "a starred target cannot be traced", "name every element")
        if len(values) != len(targets):
            raise self._error(
                node,
                f"{count_of(len(values), 'value', 'values')} for"
                f" {count_of(len(targets), 'variable', 'variables')}",
            )
        return list(zip(targets, values, strict=True))

    # ---- errors

    def _guarded(self, node: ast.AST, function: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """Call a function; errors are reported at the node."""
        try:
            return function(*args, **kw)
        except (ProgramError, NoChoiceError):
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

    def _passed_over(self, node: ast.AST, message: str, hint: str | None) -> ProgramError:
        return self.source.error(node, message, hint, PassedOverError)

    def _refused(self, node: ast.AST) -> ProgramError:
        return self.source.error(node, *refusal_of(node))


def _is_condition(value: object) -> bool:
    return isinstance(value, Expr) and value.dtype.kind == "b"
