"""What stands for graphs of torch.fx: nodes with arguments, users and values as those have."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdtensor.specs import contiguous_strides


class Target(str):
    """A function of torch's, by its name."""

    __slots__ = ()
    is_mutable = False

    @property
    def _schema(self) -> Any:
        return self


class Writing(Target):
    """One that writes into what it is given."""

    __slots__ = ()
    is_mutable = True


@dataclass(frozen=True)
class Device:
    type: str = "cpu"

    def __str__(self) -> str:
        return self.type


class DType(str):
    __slots__ = ()


FLOAT = DType("torch.float32")


@dataclass(frozen=True)
class Value:
    """What a node has of a tensor: all but the elements."""

    shape: tuple[int, ...]
    dtype: DType = FLOAT
    strides: tuple[int, ...] | None = None
    device: Device = Device()
    layout: str = "torch.strided"

    def stride(self) -> tuple[int, ...]:
        return contiguous_strides(self.shape) if self.strides is None else self.strides


@dataclass(eq=False)
class Node:
    name: str
    op: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    meta: dict[str, Any]
    users: dict[Node, None] = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.name


@dataclass
class Graph:
    """Nodes in order; each call adds one."""

    nodes: list[Node] = field(default_factory=list)

    def _add(self, op: str, target: Any, args: Any, kwargs: Any, value: Any) -> Node:
        node = Node(f"n{len(self.nodes)}", op, target, args, kwargs, {"val": value})
        self.nodes.append(node)
        for each in (*args, *kwargs.values()):
            for one in each if isinstance(each, list) else [each]:
                if isinstance(one, Node):
                    one.users[node] = None
        return node

    def given(self, *shape: int, **more: Any) -> Node:
        return self._add("placeholder", "given", (), {}, Value(shape, **more))

    def call(self, name: str, *args: Any, shape: Any, **kwargs: Any) -> Node:
        several = isinstance(shape, list)
        value = [Value(each) for each in shape] if several else Value(shape)
        return self._add("call_function", Target(f"aten.{name}.default"), args, kwargs, value)

    def view(self, name: str, of: Node, *args: Any, shape: tuple[int, ...]) -> Node:
        """A view whose strides follow from those of an array of NumPy."""
        before = of.meta["val"]
        pairs = zip(before.shape, before.stride(), strict=True)
        memory = np.zeros(1 + sum((n - 1) * s for n, s in pairs))
        array = np.lib.stride_tricks.as_strided(
            memory, before.shape, tuple(8 * s for s in before.stride())
        )
        if name in ("t", "transpose", "permute"):
            order = list(range(array.ndim))
            if name == "permute":
                order = args[0]
            else:
                first, second = args or (0, 1)
                order[first], order[second] = order[second], order[first]
            array = array.transpose(order)
        else:
            array = array.reshape(shape)
            assert math.prod(shape) == 0 or np.shares_memory(array, memory)
        assert array.shape == shape
        node = self.call(name, of, *args, shape=shape)
        strides = tuple(s // 8 for s in array.strides)
        node.meta["val"] = Value(shape, before.dtype, strides)
        return node

    def taken(self, of: Node, number: int) -> Node:
        value = of.meta["val"][number]
        return self._add("call_function", operator.getitem, (of, number), {}, value)

    def writes(self, into: Node, value: Node) -> Node:
        target = Writing("aten.copy_.default")
        return self._add("call_function", target, (into, value), {}, into.meta["val"])

    def returns(self, *nodes: Node) -> Graph:
        self._add("output", "output", (list(nodes),), {}, None)
        return self
