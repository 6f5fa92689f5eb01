"""Reports of compiled graphs: the backend and the seconds of each node."""

from __future__ import annotations

import importlib
import operator
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from mdtensor.api.frameworks.torch_graphs.compiled_graph import (
    CompiledGraph,
    layers_of,
    timers,
)
from mdtensor.api.frameworks.torch_graphs.node_facts import writes
from mdtensor.api.frameworks.torch_graphs.planned_step import PlannedStep
from mdtensor.api.frameworks.torch_graphs.step_memory import HOST
from mdtensor.autotune.progress import format_time
from mdtensor.dataclass import dataclass
from mdtensor.errors import ArgumentError

OURS, TORCHS = "mdtensor", "torch"


@dataclass(frozen=True, slots=True)
class LayerReport:
    """A row: one step of a graph, or all calls of one ATen function in a layer.

    `seconds` are those of one run, `share` their part of all steps' in all graphs, and `other`
    what the way took that was not chosen. `gain` is how many times as fast as at first our kernels
    are, which tuning or compilation in the background brought; None where they were not timed.
    """

    graph: str
    layer: str
    functions: str
    ran_by: str
    seconds: float
    share: float
    other: float | None = None
    gain: float | None = None


class GraphReport(list[LayerReport]):
    """The rows of a report, in the order in which they ran; as a text it is a table.

    >>> row = LayerReport("forward", "fc", "addmm + relu", "mdtensor", 2e-6, 1.0, 3e-6, 1.5)
    >>> print(GraphReport([row]))
    graph    layer  functions     ran by    time     share  the other way  gained
    forward  fc     addmm + relu  mdtensor  2.00 µs  100 %  3.00 µs        1.50
    by mdtensor: 100 % of 2.00 µs
    """

    def __str__(self) -> str:
        rows = [
            ("graph", "layer", "functions", "ran by", "time", "share", "the other way", "gained")
        ]
        rows += [
            (
                each.graph,
                each.layer,
                each.functions,
                each.ran_by,
                format_time(each.seconds),
                f"{100 * each.share:.0f} %",
                "" if each.other is None else format_time(each.other),
                "" if each.gain is None else f"{each.gain:.2f}",
            )
            for each in self
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        total = format_time(sum(each.seconds for each in self))
        return "\n".join((*lines, f"by mdtensor: {100 * self.share_of_ours:.0f} % of {total}"))

    @property
    def share_of_ours(self) -> float:
        """The share of the time that mdtensor's kernels take."""
        return sum(each.share for each in self if each.ran_by == OURS)


def measured(function: Callable[..., Any], arguments: Sequence[Any], repeats: int) -> GraphReport:
    """The report of a compiled function, timed over repeated calls.

    Raises ArgumentError for fewer repeats than one, and where no graph was run.
    """
    if repeats < 1:
        raise ArgumentError(f"repeats is {repeats}", hint="at least 1")
    function(*arguments)
    seconds: dict[tuple[CompiledGraph, Any], list[float]] = defaultdict(list)

    def timed(graph: CompiledGraph) -> Callable[..., Any]:
        return _interpreter(graph, seconds).run

    block = timers.enter(timed)
    try:
        for _ in range(repeats):
            function(*arguments)
    finally:
        del block
    if not seconds:
        raise ArgumentError(
            "the call ran no compiled graph",
            hint='call what torch.compile(model, backend="mdtensor") gave',
        )
    return _report({key: min(each) for key, each in seconds.items()})


def _interpreter(graph: CompiledGraph, seconds: dict[Any, list[float]]) -> Any:
    """An interpreter of a graph that times each node."""
    fx = importlib.import_module("torch.fx")

    interpreter = fx.Interpreter(graph.module)
    run_node, found = interpreter.run_node, None

    def timed(node: Any) -> Any:
        nonlocal found

        def run() -> None:
            nonlocal found
            found = run_node(node)

        if node.op != "call_function" or node.target is operator.getitem:
            run()
        else:
            memory = HOST if writes(node) else graph.memory  # what writes is called once
            graph.memory.wait()
            seconds[graph, node].append(memory.seconds(run))
        return found

    interpreter.run_node = timed
    return interpreter


def _report(seconds: dict[tuple[CompiledGraph, Any], float]) -> GraphReport:
    total = sum(seconds.values())
    rows: list[LayerReport] = []
    rest: dict[tuple[str, str, str], float] = defaultdict(float)
    for (graph, node), taken in seconds.items():
        step = node.target
        if not isinstance(step, PlannedStep):
            rest[graph.name, layers_of([node]), str(node.target)] += taken
            continue
        timing = next(iter(reversed(step.timings.values())), None)
        is_ours = timing is not None and (timing.is_ours if step.by is None else step.by)
        other = None if timing is None else timing.torch if is_ours else timing.ours
        gain = None if timing is None or not timing.ours else (timing.first or 0) / timing.ours
        rows.append(
            LayerReport(
                graph.name,
                step.layers,
                step.planned.group.label,
                OURS if is_ours else TORCHS,
                taken,
                taken / total,
                other,
                gain,
            )
        )
    rows += [LayerReport(*key, TORCHS, taken, taken / total) for key, taken in rest.items()]
    return GraphReport(rows)
