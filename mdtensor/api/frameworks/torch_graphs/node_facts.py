"""Facts about torch.fx nodes: their functions, and their tensors' specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.api.arrays.torch_tensors import dtype_of
from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec

Node = Any
"""A node of torch.fx."""
BY_TEXT = "mdtensor"
"""The name of operators of mdtensor, whose calls are said by a text."""


def name_of(node: Node) -> str:
    """The name of a node's function without its overload; "" where it has none.

    Nor has a view of the bits in another type, which is no view of elements.
    The operator of mdtensor has the name of calls that are said by a text.
    """
    if node.op != "call_function":
        return ""
    space, _, rest = str(node.target).partition(".")
    if space == "mdtensor" and rest:
        return BY_TEXT
    name, _, overload = rest.rpartition(".")
    return name if space == "aten" and (name, overload) != ("view", "dtype") else ""


def spec_of_node(node: Node, number: int | None = None) -> TensorSpec | None:
    """The spec of a node's tensor, or of one of several; None if kernels cannot take it.

    Symbols of extents and strides stand for their examples.
    """
    value: Any = node.meta.get("val")
    if number is not None:
        value = value[number] if has_several(node) else None
    if getattr(value, "device", None) is None or str(value.layout) != "torch.strided":
        return None
    if value.device.type not in ("cpu", "cuda"):
        return None
    try:
        dtype = dtype_of(value.dtype)
    except TypeError:
        return None
    shape, strides = (tuple(map(_example, part)) for part in (value.shape, value.stride()))
    if None in (*shape, *strides) or 0 in shape:
        return None
    return TensorSpec(dtype, shape, strides)  # pyright: ignore[reportArgumentType]


def device_of(node: Node) -> str:
    """The device of a node's tensor, or of the first of several."""
    value: Any = node.meta["val"]
    return str((value[0] if has_several(node) else value).device)


def has_several(node: Node) -> bool:
    """Whether a node's result is a tuple of tensors."""
    return isinstance(node.meta.get("val"), list | tuple)


def is_symbolic(node: Node) -> bool:
    """Whether any extent of a node's tensors is symbolic."""
    value: Any = node.meta.get("val")
    several: Sequence[Any] = value if has_several(node) else [value]
    return any(type(n) is not int for each in several for n in getattr(each, "shape", ()))


def _example(extent: Any) -> int | None:
    if type(extent) is int:
        return extent
    found = getattr(getattr(extent, "node", None), "hint", None)
    return found if type(found) is int else None


def result_of(node: Node) -> TensorSpec | None:
    """The spec of a node's result, or of the first of several that it computes."""
    if not has_several(node):
        return spec_of_node(node)
    numbers = range(len(node.meta["val"]))
    return next(filter(None, (spec_of_node(node, number) for number in numbers)), None)


def shape_of(node: Node) -> tuple[int, ...]:
    """The shape of a node's tensor; raises TranslationError if kernels cannot take it."""
    spec = spec_of_node(node)
    if spec is None:
        raise TranslationError(f"kernels do not take {node.name}")
    return spec.shape


def writes(node: Node) -> bool:
    """Whether a node mutates one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and bool(getattr(schema, "is_mutable", False))
