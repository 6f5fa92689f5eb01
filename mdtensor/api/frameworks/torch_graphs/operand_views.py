"""Operands of groups: the tensor whose memory each is in, and the view of it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.api.frameworks.torch_graphs.call_group import OperandView
from mdtensor.api.frameworks.torch_graphs.node_facts import (
    Node,
    is_symbolic,
    name_of,
    spec_of_node,
)
from mdtensor.api.parts.placeholders import reserved
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec

Steps = tuple[tuple[str, tuple[int, ...]], ...]

_SHAPES = frozenset(("view", "_unsafe_view", "unsqueeze", "squeeze"))
_VIEWS = _SHAPES | {"t", "transpose", "permute", "detach", "alias", "expand", "slice"}


def read_operand(
    node: Node, shape: tuple[int, ...] | None, *, is_pure: bool
) -> tuple[Node, Steps, TensorSpec]:
    """The base tensor of an operand, the view's steps from it, and the view's spec.

    Copies are passed by where nothing is written in between. Raises TranslationError where the
    operand would be a copy.
    """
    for through in (True, False) if is_pure else (False,):
        base, steps = _viewed(node, through=through)
        spec = spec_of_node(base)
        if spec is None:
            continue
        if shape is not None:
            steps = (*steps, ("reshape", shape))
        simple = _simplified(spec.shape, steps)
        if (found := _spec_of_view(OperandView(0, simple), spec)) is not None:
            return base, simple, found
    raise TranslationError(f"{node.name} would be copied, or kernels do not take it")


def _viewed(node: Node, *, through: bool) -> tuple[Node, Steps]:
    """The base tensor of a node's view, and the steps from it; `through` skips clones."""
    steps: list[tuple[str, tuple[int, ...]]] = []
    while True:
        if through and name_of(node) == "clone":
            node = node.args[0]
            continue
        before = _part_of(node)
        step = _step(node, before)
        if step is None:
            return node, tuple(reversed(steps))
        steps += [step] if step[1] or step[0] == "reshape" else []
        node = before


def _part_of(node: Node) -> Node:
    """The tensor that a node views, or takes a part of."""
    is_taken = node.target is operator.getitem and name_of(node.args[0]) in ("split", "unbind")
    return node.args[0].args[0] if is_taken else node.args[0] if node.args else node


def _step(node: Node, before: Node) -> tuple[str, tuple[int, ...]] | None:
    """The step of a view's axes relative to its tensor; None where it is left to torch."""
    name = name_of(node)
    is_taken = before is not node and not name and before is not node.args[0]
    if name not in _VIEWS and not is_taken:
        return None
    if name in ("detach", "alias"):
        return "transpose", ()
    rank = len(before.meta["val"].shape)
    if name in ("t", "transpose", "permute"):
        order = list(range(rank))
        if name == "permute":
            order = [n % rank for n in node.args[1]]
        elif rank > 1:
            first, second = (0, 1) if name == "t" else (n % rank for n in node.args[1:])
            order[first], order[second] = second, first
        return "transpose", tuple(order)
    spec, given = spec_of_node(node), spec_of_node(before)
    if spec is None or given is None or is_symbolic(node) or is_symbolic(before):
        return None
    if name in _SHAPES:
        return "reshape", spec.shape
    if name == "expand":
        return ("transpose", ()) if spec.shape == given.shape else None
    if name == "slice":
        return _part(node.args, given, spec)
    if is_taken and name_of(node.args[0]) == "split":
        _, size, *axis = node.args[0].args
        if isinstance(size, int):
            begin = size * node.args[1]
            return _narrow(axis[0] if axis else 0, begin, begin + size, given)
    return None


def _part(
    arguments: Sequence[Any], given: TensorSpec, spec: TensorSpec
) -> tuple[str, tuple[int, ...]] | None:
    """The narrow step of a slice of unit step, from torch's arguments; None for others."""
    axis = int(arguments[1]) if len(arguments) > 1 else 0
    begin: Any = arguments[2] if len(arguments) > 2 else 0
    if len(arguments) > 4 and arguments[4] != 1:
        return None
    extent = given.shape[axis]
    begin = 0 if begin is None else begin
    begin = max(0, begin + extent) if begin < 0 else begin
    return _narrow(axis, begin, begin + spec.shape[axis], given)


def _narrow(axis: int, begin: int, end: int, given: TensorSpec) -> tuple[str, tuple[int, ...]]:
    return "narrow", (axis % len(given.shape), begin, end)


def _simplified(shape: tuple[int, ...], steps: Steps) -> Steps:
    """The steps from a shape, without redundant ones."""
    found: list[tuple[str, tuple[int, ...]]] = []
    before = [shape]  # each of the steps
    for name, numbers in steps:
        if name == "reshape" and found and found[-1][0] == "reshape":
            found.pop()
            before.pop()
        last = before[-1]
        if name == "reshape":
            if numbers == last:
                continue
            after = numbers
        elif name == "transpose":
            after = tuple(last[n] for n in numbers)
        else:
            axis, begin, end = numbers
            after = (*last[:axis], min(end, last[axis]) - begin, *last[axis + 1 :])
        found.append((name, numbers))
        before.append(after)
    return tuple(found)


def _spec_of_view(view: OperandView, spec: TensorSpec) -> TensorSpec | None:
    """The spec of an operand's view; None where it would be a copy."""
    if not view.steps:
        return spec
    array = reserved(spec)
    found = view.of(array)
    if not np.may_share_memory(found, array):
        return None
    strides = tuple(stride // found.itemsize for stride in found.strides)
    return TensorSpec(spec.dtype, tuple(found.shape), strides)
