"""The clauses of a directive: outputs, inputs, and an operator for each loop (003, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mdtensor.api.frontends.loops.buffer_types import BufferType
from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError, shown
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.operators.combine_operators import OperatorFunction
from mdtensor.translate.python.tuples import as_tuple

add, mul, minimum, maximum = "add", "mul", "min", "max"
"""Operators by name, for `pw(add)`."""


@dataclass(frozen=True)
class Out:
    """The outputs of a directive."""

    buffers: Mapping[str, BufferType]


@dataclass(frozen=True)
class Inp:
    """The inputs of a directive."""

    buffers: Mapping[str, BufferType]


@dataclass(frozen=True)
class CombineOps:
    """The operators of a directive, one for each loop."""

    combinations: tuple[Combination, ...]


def out(**buffers: BufferType) -> Out:
    """The outputs: `out(w=Buffer[T])`."""
    return Out(buffers)


def inp(**buffers: BufferType) -> Inp:
    """The inputs: `inp(M=Buffer[T], v=Buffer[T])`."""
    return Inp(buffers)


def combine_ops(*combinations: Combination) -> CombineOps:
    """The operators of the loops, from the outermost: `combine_ops(cc, pw(add))`."""
    for given in combinations:
        combination: Any = given
        if not isinstance(combination, Combination):
            raise TranslationError(
                f"{shown(combination)} does not say how a loop is combined",
                hint="cc, pw(add) or ps(add)",
            )
    return CombineOps(combinations)


def pw_custom_func(
    identity: Any = None, *, commutative: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Marks a function `(res, lhs, rhs)` as an operator for `pw` (003, Listing 11)."""

    def marked(function: Callable[..., Any]) -> Any:
        neutral = None if identity is None else as_tuple(identity)
        return OperatorFunction(function, neutral, commutative)

    return marked
