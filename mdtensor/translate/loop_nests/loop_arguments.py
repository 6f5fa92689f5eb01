"""Source and arguments of a function of loop nests."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdtensor.errors import ProgramError
from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.loop_nest_from_source import Tracer
from mdtensor.translate.loop_nests.symbolic_buffers import SymbolicBuffer
from mdtensor.translate.python.function_source import FunctionSource
from mdtensor.translate.python.local_functions import LocalFunction, local_function


def program_of(function: Callable[..., Any]) -> LocalFunction:
    """A function's source and namespace; ProgramError if there is no source."""
    found = local_function(function)
    if found is None:
        raise ProgramError(
            f"the source of {getattr(function, '__name__', function)!r} was not found",
            hint="define the function in a file or a notebook",
        )
    return found


def bind(tracer: Tracer, arguments: Mapping[str, Any]) -> dict[str, SymbolicBuffer]:
    """Bind a function's parameters in the tracer; returns its buffers by name."""
    buffers: dict[str, SymbolicBuffer] = {}
    for name, value in arguments.items():
        bound = value
        if isinstance(value, TensorSpec):
            bound = buffers[name] = tracer.buffer(name, value)
            if not value.shape and not is_indexed(tracer.source, name):
                bound = bound[()]
        elif isinstance(value, float | complex) and not isinstance(value, np.generic):
            # A number is an operand of its own, so that all its values share a kernel.
            spec = TensorSpec.of((), np.result_type(type(value)))
            buffers[name] = tracer.buffer(name, spec, is_weak=True)
            bound = buffers[name][()]
        tracer.bind(name, bound)
    return buffers


def is_indexed(source: FunctionSource, name: str) -> bool:
    """Whether a function indexes a variable, instead of using it as a number."""
    return any(
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for node in ast.walk(source.node)
    )


def stored(source: FunctionSource) -> set[str]:
    """Names of the variables into whose elements a function stores."""
    found: set[str] = set()
    for node in ast.walk(source.node):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            holder: ast.expr = node
            while isinstance(holder, ast.Subscript | ast.Attribute):
                holder = holder.value
            found |= {holder.id} if isinstance(holder, ast.Name) else set()
    return found
