"""Partitioning of a torch graph: the groups of nodes that mdtensor computes together."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any, cast

import numpy as np

from mdtensor.api.frameworks.torch_graphs.aten_elements import (
    BATCH_NORM,
    CONVERSION,
    ELEMENTWISE,
    OperandPosition,
)
from mdtensor.api.frameworks.torch_graphs.aten_functions import CONVOLUTION, FUNCTIONS, PRODUCTS
from mdtensor.api.frameworks.torch_graphs.call_group import (
    AtenCall,
    CallGroup,
    GroupValue,
    OperandView,
)
from mdtensor.api.frameworks.torch_graphs.node_facts import (
    BY_TEXT,
    Node,
    device_of,
    has_several,
    is_symbolic,
    name_of,
    result_of,
    shape_of,
    spec_of_node,
    writes,
)
from mdtensor.api.frameworks.torch_graphs.operand_views import read_operand
from mdtensor.api.frameworks.torch_graphs.step_memory import StepMemory, memory_at
from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError
from mdtensor.options import is_sequence
from mdtensor.specs import TensorSpec, kind_of

_MOST_CALLS = 24  # of a group, so that its kernels stay short
_BETWEEN = frozenset(("view", "_unsafe_view"))


@dataclass(frozen=True, slots=True)
class PlannedCalls:
    """A group of nodes computed together, with the sources and destinations of its tensors.

    `sources` are the nodes of the tensors that it reads, `outputs` those that stand for its
    results; they lie in one `memory`. `specs` are those of the operands, `results` those
    of the results; `is_symbolic` says that some of their extents are symbols, and the specs an
    example.
    """

    group: CallGroup
    nodes: tuple[Node, ...]
    sources: tuple[Node, ...]
    outputs: tuple[Node, ...]
    specs: tuple[TensorSpec, ...]
    results: tuple[TensorSpec, ...]
    is_symbolic: bool
    memory: StepMemory


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """A node left to torch although its function is supported, with the reason."""

    node: Node
    reason: str


def planned_calls(nodes: Sequence[Node]) -> tuple[list[PlannedCalls], list[NodeRefusal]]:
    """The groups of a graph's nodes, in order, and the nodes that fit in none."""
    found: list[PlannedCalls] = []
    refused: list[NodeRefusal] = []
    is_pure = not any(map(writes, nodes))
    for members in _grouped(nodes):
        # Whatever cannot be computed, or not together, is torch's.
        try:
            found.append(_planned(members, is_pure=is_pure))
            continue
        except Exception as error:
            refused.append(NodeRefusal(members[-1], _said(error)))
        for node in members if len(members) > 1 else ():
            if not _has_meaning(node):
                continue
            try:
                found.append(_planned([node], is_pure=is_pure))
            except Exception as error:
                refused.append(NodeRefusal(node, _said(error)))
    return found, refused


def _said(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


@dataclass(eq=False, slots=True)
class _Members:
    """The nodes of a group so far, of which the last gives the result."""

    nodes: list[Node] = field(default_factory=list[Node])
    era: int = 0  # how many nodes before wrote into tensors

    @property
    def combining(self) -> Node | None:
        """The group's only node that is not elementwise; None without one."""
        return next((n for n in self.nodes if name_of(n) in FUNCTIONS), None)


def _grouped(nodes: Sequence[Node]) -> list[list[Node]]:
    """The supported nodes, in groups that may become one computation each."""
    of_node: dict[Node, _Members] = {}
    era = 0
    for node in nodes:
        era += writes(node)
        if not _has_meaning(node) or _is_of_several(node):
            continue
        made = _Members(era=era)
        for source in dict.fromkeys(_tensors(node)):
            is_between = name_of(source) in _BETWEEN or _is_normalised(source)
            view = source if is_between else None
            last = source if view is None else view.args[0]
            before = of_node.get(last)
            if before is None or not _joins(before, last, view, node, made):
                continue
            made.nodes += [*before.nodes, *([] if view is None else [view])]
            for each in before.nodes:
                of_node[each] = made
        made.nodes.append(node)
        of_node[node] = made
    every = {id(members): members for members in of_node.values()}
    places = {node: n for n, node in enumerate(nodes)}
    return [sorted(members.nodes, key=lambda n: places[n]) for members in every.values()]


def _joins(before: _Members, last: Node, view: Node | None, node: Node, made: _Members) -> bool:
    """Whether a node's group can be merged with the one that makes its operand."""
    name, combining = name_of(node), before.combining
    if before.nodes[-1] is not last or len(last.users) != 1 or before.era != made.era:
        return False
    if name == "clone":  # others pass it by, and read what it copies
        return False
    if len(before.nodes) + len(made.nodes) >= _MOST_CALLS:
        return False
    if view is not None and len(view.users) != 1:
        return False
    if view is not None and not _is_normalised(view):
        is_split = len(before.nodes) == 1 and _splits(last, view)
        if name not in ELEMENTWISE or not is_split:
            return False
    if name not in ELEMENTWISE:
        return combining is None and name in FUNCTIONS and FUNCTIONS[name].before
    if combining is None:
        return True
    if made.combining is not None or not FUNCTIONS[name_of(combining)].behind:
        return False
    if name_of(combining) not in (*PRODUCTS, CONVOLUTION):
        return True
    spec, given = result_of(node), result_of(last if view is None else view)
    if spec is None or given is None:
        return False
    return (spec.shape, spec.dtype) == (given.shape, given.dtype)


def _is_normalised(node: Node) -> bool:
    """Whether a node is the only output read of a batch norm by stored statistics."""
    is_first = node.target is operator.getitem and node.args[1] == 0
    return is_first and name_of(node.args[0]) == BATCH_NORM and len(node.args[0].users) == 1


def _splits(product: Node, view: Node) -> bool:
    """Whether a view splits the rows or the batch of a matrix product into several axes."""
    name, spec, whole = name_of(product), spec_of_node(view), spec_of_node(product)
    if is_symbolic(view) or spec is None or whole is None:
        return False
    if name == "bmm":
        return len(spec.shape) > 2 and spec.shape[-2:] == whole.shape[-2:]
    added = spec_of_node(product.args[0]) if name == "addmm" else None
    if name not in ("mm", "addmm") or (added is not None and len(added.shape) > 1):
        return False
    return len(spec.shape) > 1 and spec.shape[-1] == whole.shape[-1]


def _is_of_several(node: Node) -> bool:
    """Whether a node converts one of several results, which nothing else reads.

    The group that computes these gives it in their place.
    """
    if name_of(node) != CONVERSION or node.args[0].target is not operator.getitem:
        return False
    [computed, _] = node.args[0].args
    return len(node.args[0].users) == 1 and name_of(computed) in FUNCTIONS


def _has_meaning(node: Node) -> bool:
    """Whether a node has a supported function, and tensors that kernels take."""
    name = name_of(node)
    if name not in ELEMENTWISE and name not in FUNCTIONS and name != BY_TEXT:
        return False
    tensors, found = list(_tensors(node)), result_of(node)
    if name == CONVERSION and (found is None or kind_of(found.dtype) != "f"):
        return False
    if not tensors or (name == BATCH_NORM and not all(map(_is_normalised, node.users))):
        return False
    specs = [spec_of_node(each) for each in tensors]
    if None in specs or len({*map(device_of, tensors)}) > 1:
        return False
    kinds = {spec.dtype for spec in specs if spec is not None and spec.dtype.kind != "b"}
    # Statistics of short floats are wide.
    is_mixed = len(kinds) == 2 and {kind.itemsize for kind in kinds} == {2, 4}
    return (len(kinds) <= 1 or is_mixed) and all(kind_of(kind) == "f" for kind in kinds)


def _tensors(node: Node) -> Iterator[Node]:
    """The nodes among a call's arguments."""
    for value in (*node.args, *node.kwargs.values()):
        several = cast("list[Any] | tuple[Any, ...]", value if is_sequence(value) else (value,))
        for each in several:
            if hasattr(each, "users"):
                yield each


def _planned(nodes: Sequence[Node], *, is_pure: bool) -> PlannedCalls:
    """The planned group of nodes; raises an error where they have no joint computation."""
    sources: list[Node] = []
    operands: list[OperandView] = []
    specs: list[TensorSpec] = []
    calls: list[AtenCall] = []
    results: dict[Node, GroupValue] = {}
    shapes = {n.args[0]: shape_of(n) for n in nodes if name_of(n) in _BETWEEN}  # of split products

    def operand(node: Node, shape: tuple[int, ...] | None) -> OperandPosition:
        base, steps, spec = read_operand(node, shape, is_pure=is_pure)
        if base not in sources:
            sources.append(base)
        view = OperandView(sources.index(base), steps)
        if view not in operands:
            operands.append(view)
            specs.append(spec)
        return OperandPosition(operands.index(view))

    def placed(value: Any, shape: tuple[int, ...] | None = None) -> Any:
        if hasattr(value, "users"):
            return results.get(value) or operand(value, shape)
        if isinstance(value, list | tuple):
            return tuple(map(placed, value))  # pyright: ignore[reportUnknownArgumentType]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if type(value).__module__.startswith("torch") and "Sym" not in type(value).__name__:
            return None  # a type of elements, a layout, a format of memory: what is due is known
        raise TranslationError(f"{value!r} is no number")

    for node in nodes:
        name = name_of(node)
        if not _has_meaning(node):
            results[node] = results[node.args[0]]
            continue
        lifted = _lifted(node, shapes.get(node))
        arguments = tuple(placed(v, lifted.get(n)) for n, v in enumerate(node.args))
        named = tuple((key, placed(value)) for key, value in node.kwargs.items())
        if name == BY_TEXT:
            text, tensors = node.args
            arguments = (text, *map(placed, tensors))
        results[node] = GroupValue(len(calls))
        calls.append(AtenCall(name, arguments, named, _dtype_of(node)))
    outputs = list(_outputs(nodes[-1]))
    # A text gives a list of one result as that result.
    is_one = outputs[0] is nodes[-1] or calls[-1].name == BATCH_NORM
    is_one = is_one or (calls[-1].name == BY_TEXT and len(nodes[-1].meta["val"]) == 1)
    given = [GroupValue(len(calls) - 1, None if is_one else each.args[1]) for each in outputs]
    for n, each in enumerate(outputs):
        user = next(iter(each.users), None)
        if user is not None and _has_meaning(user) and _is_of_several(user):
            outputs[n] = user
    due = [spec_of_node(each) for each in outputs]
    group = CallGroup(tuple(operands), tuple(calls), tuple(given), tuple(map(_order_of, due)))
    found = group.program(specs).results
    # Of mixed operands torch says other types of statistics than it computes.
    are_mixed = len({spec.dtype for spec in specs}) > 1
    changed = [n for n, each in enumerate(outputs) if _is_of_several(each) or not are_mixed]
    group = _with_dtypes(group, changed, found, due)
    found = group.program(specs).results
    if not all(map(_is_like, found, due)):
        raise TranslationError(f"the results are {found}, where torch has {due}")
    symbolic = any(map(is_symbolic, (*sources, *outputs)))
    device, *others = {*map(device_of, (*sources, *outputs))}
    if others:
        raise TranslationError(f"tensors are on {device} and on {others[0]}")
    return PlannedCalls(
        group,
        tuple(nodes),
        tuple(sources),
        tuple(outputs),
        tuple(specs),
        found,
        symbolic,
        memory_at(device),
    )


def _dtype_of(node: Node) -> np.dtype:
    """The type of a node's result, the first one; TranslationError where kernels compute none."""
    spec = result_of(node)
    if spec is None:
        raise TranslationError("the result is none that kernels compute")
    return spec.dtype


def _with_dtypes(
    group: CallGroup,
    numbers: Sequence[int],
    found: Sequence[TensorSpec],
    due: Sequence[TensorSpec | None],
) -> CallGroup:
    """The group with some results, floats, converted to the types that are due."""
    calls, given = list(group.calls), list(group.results)
    for n in numbers:
        spec = due[n]
        if spec is None or spec.dtype == found[n].dtype:
            continue
        if kind_of(spec.dtype) == kind_of(found[n].dtype) == "f":
            calls.append(AtenCall(CONVERSION, (given[n],), (), spec.dtype))
            given[n] = GroupValue(len(calls) - 1)
    return replace(group, calls=tuple(calls), results=tuple(given))


def _order_of(due: TensorSpec | None) -> tuple[int, ...]:
    """The axes of an expected result as they lie in memory; TranslationError for one with gaps."""
    order = None if due is None else due.axis_order
    if order is None:
        raise TranslationError(f"the result is {due}, which kernels do not write")
    return order


def _is_like(found: TensorSpec, due: TensorSpec | None) -> bool:
    """Whether a result has the expected shape and type."""
    return due is not None and (found.shape, found.dtype) == (due.shape, due.dtype)


def _outputs(node: Node) -> tuple[Node, ...]:
    """The nodes of a node's results: itself, or the `getitem`s of a tuple."""
    if not has_several(node):
        return (node,)
    taken = list(node.users)
    if any(user.target is not operator.getitem for user in taken):
        raise TranslationError("several results are read as one")
    if len({user.args[1] for user in taken}) < len(taken) or not taken:
        raise TranslationError("a result is taken twice, or none is")
    return tuple(sorted(taken, key=lambda user: user.args[1]))


def _lifted(node: Node, shape: tuple[int, ...] | None) -> dict[int, tuple[int, ...]]:
    """New shapes for some tensor arguments of a node, by position.

    `shape` is what a product's result is divided into, if it is: so are its factors then.
    """
    name, args = name_of(node), node.args
    if name == BATCH_NORM:
        rank = len(args[0].meta["val"].shape)
        return {n: (-1, *(1,) * (rank - 2)) for n in range(1, 5) if args[n] is not None}
    if shape is None:
        return {}
    if name == "bmm":
        return {n: (*shape[:-2], *shape_of(args[n])[-2:]) for n in range(2)}
    first = len(args) - 2
    return {first: (*shape[:-1], shape_of(args[first])[-1])}
