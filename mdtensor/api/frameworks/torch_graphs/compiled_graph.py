"""A torch graph with groups of nodes replaced by planned steps."""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdtensor.api.arrays import invalidation
from mdtensor.api.frameworks.torch_graphs.aten_elements import ELEMENTWISE
from mdtensor.api.frameworks.torch_graphs.aten_functions import FUNCTIONS
from mdtensor.api.frameworks.torch_graphs.buffer_lifetimes import Lifetime, numbered_buffers, reach
from mdtensor.api.frameworks.torch_graphs.graph_groups import PlannedCalls, planned_calls
from mdtensor.api.frameworks.torch_graphs.graph_trials import GraphTrials
from mdtensor.api.frameworks.torch_graphs.node_facts import Node, name_of
from mdtensor.api.frameworks.torch_graphs.planned_step import Buffers, PlannedStep
from mdtensor.api.frameworks.torch_graphs.step_memory import HOST, StepMemory, timed_on_device
from mdtensor.scoped import ContextSettings

Graph = Any

_ROOT = re.compile(r"^L\['\w+'\]\.?")  # how Dynamo names the module whose function it traces
_MOST_BUFFERS = 4  # sets of them, for runs at the same time
_VIEWS = frozenset(
    (
        *("t", "transpose", "permute", "view", "_unsafe_view", "unsqueeze", "squeeze", "detach"),
        *("alias", "expand", "select", "slice", "split", "split_with_sizes", "unbind"),
    )
)
# Functions of torch's whose results have memory of their own, besides those that have a meaning.
_NEW_MEMORY = frozenset(
    (
        *("_scaled_dot_product_flash_attention_for_cpu", "cat", "embedding", "nll_loss_forward"),
        *("_scaled_dot_product_flash_attention_for_cpu_backward", "nll_loss_backward"),
        *("max_pool2d_with_indices_backward", "avg_pool2d_backward", "embedding_dense_backward"),
        *("_adaptive_avg_pool2d", "upsample_nearest2d", "upsample_nearest2d_backward"),
    )
)


class CompiledGraph:
    """A torch graph in which planned steps replace groups of nodes.

    `steps` are in order; `refused` says why nodes whose functions are known stay torch's. What runs
    may be at work in `memory` when a call returns. Of a graph that will be captured, what the
    device takes is timed alone.
    """

    def __init__(self, module: Any, name: str = "graph", *, is_captured: bool = False) -> None:
        self.name = name
        self.steps: list[PlannedStep] = []
        self.memory: StepMemory = HOST
        self.module: Any = None
        graph = module.graph
        planned, self.refused = planned_calls(list(graph.nodes))
        if is_captured:
            planned = [replace(each, memory=timed_on_device(each.memory)) for each in planned]
        self._count = 0
        self._trials, self._tried, self._is_torchs = GraphTrials(), -1, False
        self._by_torch = _as_it_is(module)
        self._free: list[Buffers] = []
        self._forward = self._rewritten(module, planned)
        invalidation.register(self)

    def __call__(self, *arguments: Any) -> Any:
        """Run the graph, by trials until its fastest way is known."""
        buffers = self._free.pop() if self._free else [None] * self._count
        if timed := timers.values:
            results = timed[-1](self)(buffers, *arguments)
        elif self.is_tried or not self.memory.is_timed():
            results = self._run(buffers, arguments)
        else:
            results = self._tried_out(buffers, arguments)
        if len(self._free) < _MOST_BUFFERS:
            self._free.append(buffers)
        return results

    @property
    def is_tried(self) -> bool:
        """Whether the trials are over and their kernels are still current."""
        return self._trials.is_over and self._generation() == self._tried

    def _tried_out(self, buffers: Buffers, arguments: Sequence[Any]) -> Any:
        """Run the graph by the way that is due for timing."""
        before = self._generation()
        if before != self._tried:
            self._trials.begin_again()
            self._tried = before
        way = self._trials.way
        self._go(way)
        results, seconds = self.memory.timed(lambda: self._run(buffers, arguments))
        if self._generation() == before:  # else steps were timed meanwhile
            self._trials.took(way, seconds)
            if self._trials.is_over:
                self._go(self._trials.way)
        return results

    def _run(self, buffers: Buffers, arguments: Sequence[Any]) -> Any:
        if self._is_torchs and not invalidation.watchers:
            return self._by_torch(*arguments)
        return self._forward(buffers, *arguments)

    def drop(self, is_stale: invalidation.IsStale) -> None:
        """Restarts the trials, where better kernels replaced some of a step."""
        if any(step.is_any(is_stale) for step in self.steps):
            self._tried = -1

    def _go(self, way: bool | None) -> None:
        self._is_torchs = way is False
        for step in self.steps:
            step.by = way

    def _generation(self) -> int:
        """A number that grows whenever a step times its kernels."""
        return sum([step.generation for step in self.steps])

    def _rewritten(self, module: Any, planned: Sequence[PlannedCalls]) -> Callable[..., Any]:
        fx = importlib.import_module("torch.fx")
        graph = module.graph
        first = next(iter(graph.nodes))
        with graph.inserting_before(first):
            buffers = graph.placeholder("buffers")
        self.steps = [
            PlannedStep(each, _by_torch(fx, module, each), layers_of(each.nodes))
            for each in planned
        ]
        replaced: dict[Node, Node] = {}
        for each, step in zip(planned, self.steps, strict=True):
            sources = [replaced.get(node, node) for node in each.sources]
            replaced |= _replaced(graph, each, step, (buffers, *sources))
        graph.eliminate_dead_code()
        graph.lint()
        on_device = [s.planned.memory for s in self.steps if not s.planned.memory.has_buffers]
        self.memory = on_device[0] if on_device else HOST
        if self.memory.ahead is not None:
            self.memory = timed_on_device(self.memory)  # a whole graph takes the host longer
        numbers: Mapping[Any, int] = {} if on_device else _buffers_of(list(graph.nodes))
        for step in self.steps:
            step.buffer = numbers.get(step)
        self._count = 1 + max(numbers.values(), default=-1)
        self.module = fx.GraphModule(module, graph)
        return self.module.forward


# What runs graphs of this context in another way than by their code: node by node, timed.
Timer = Callable[[CompiledGraph], Callable[..., Any]]
timers = ContextSettings[Timer]("timers")


def _replaced(
    graph: Graph, planned: PlannedCalls, step: PlannedStep, arguments: tuple[Node, ...]
) -> dict[Node, Node]:
    """Replaces nodes by a step in the graph; returns the substitute of each node."""
    last = planned.nodes[-1]
    with graph.inserting_after(last):
        node = graph.call_function(step, arguments)
    node.meta = dict(last.meta)
    found: dict[Node, Node] = {}
    for number, output in enumerate(planned.outputs):
        found[output] = node
        if len(step.planned.results) > 1:
            with graph.inserting_before(output):
                found[output] = graph.call_function(operator.getitem, (node, number))
            found[output].meta = dict(output.meta)
        output.replace_all_uses_with(found[output])
    return found


def _as_it_is(module: Any) -> Callable[..., Any]:
    """A copy of the graph's function, from before it is modified."""
    fx = importlib.import_module("torch.fx")
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return fx.GraphModule(module, graph).forward


def _by_torch(fx: Any, module: Any, planned: PlannedCalls) -> Callable[..., Any]:
    """A group's function of tensors, computed by torch."""
    graph = fx.Graph()
    values = {node: graph.placeholder(f"operand{n}") for n, node in enumerate(planned.sources)}

    def copied(node: Node) -> Node:
        if node not in values:
            for argument in node.all_input_nodes:
                copied(argument)
            values[node] = graph.node_copy(node, values.__getitem__)
        return values[node]

    results = [copied(node) for node in planned.outputs]
    graph.output(results[0] if len(results) == 1 else tuple(results))
    return fx.GraphModule(module, graph).forward


def layers_of(nodes: Sequence[Node]) -> str:
    """The names of the modules that nodes belong to."""
    found: dict[str, None] = {}
    for node in nodes:
        stack: Any = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
        if stack:
            found[_ROOT.sub("", str([*stack.values()][-1][0]))] = None
    return ", ".join(filter(None, found))


def _buffers_of(nodes: Sequence[Node]) -> Mapping[Any, int]:
    """The buffers, by step, of results that do not outlive the graph.

    None where symbols are in the graph, or operators that may call it again.
    """
    places = {node: n for n, node in enumerate(nodes)}
    steps = {node: node.target for node in nodes if isinstance(node.target, PlannedStep)}
    if any(step.planned.is_symbolic for step in steps.values()) or any(map(_may_call, nodes)):
        return {}
    aliases: dict[Any, list[Any]] = {}
    kept: set[Any] = set()
    for node in nodes:
        if node.op == "output":
            kept.update(node.all_input_nodes)
        elif node.op == "call_function" and node not in steps:
            if name_of(node) in _VIEWS or node.target is operator.getitem:
                for source in node.all_input_nodes:
                    aliases.setdefault(source, []).append(node)
            elif not _is_new(node):
                kept.update(node.all_input_nodes)
    lifetimes: list[Lifetime] = []
    for node, step in steps.items():
        every: list[Any] = reach(node, aliases)
        result, *others = step.planned.results
        if others or any(each in kept for each in every):
            continue
        end = max(places[user] for each in every for user in each.users)
        lifetimes.append(Lifetime(step, result, places[node], end))
    return numbered_buffers(lifetimes)


def _is_new(node: Node) -> bool:
    """Whether an ATen function is known to return freshly allocated memory."""
    name = name_of(node)
    return name in ELEMENTWISE or name in FUNCTIONS or name in _NEW_MEMORY


def _may_call(node: Node) -> bool:
    """Whether a node may call the user's code, and so reenter this graph."""
    if node.op == "call_function":
        target = str(node.target)
        is_known = isinstance(node.target, PlannedStep) or node.target is operator.getitem
        return not (is_known or target.startswith(("aten.", "prims.", "mdtensor.")))
    return node.op in ("call_module", "call_method")
