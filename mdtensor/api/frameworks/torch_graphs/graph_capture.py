"""CUDA graphs of compiled graphs, for torch's mode "reduce-overhead".

A graph whose kernels are found is captured by torch's CUDA graph trees, which have the memory of
what it gives until the next call, and replayed as one launch. Where better kernels come, it runs by
its functions again until these are timed, and is captured anew.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from mdtensor.api.arrays import invalidation
from mdtensor.api.frameworks.torch_graphs.compiled_graph import CompiledGraph, timers
from mdtensor.dataclass import dataclass

_MOST_CAPTURES = 8  # of one graph: each has memory of its own
Boxed = Callable[[list[Any]], Any]
Capture = Callable[[Boxed, list[Any]], Boxed]


@dataclass(slots=True)
class LastForward:
    """Whether the last forward pass of a compiled function ran as a CUDA graph."""

    is_captured: bool = False


class CapturedGraph:
    """A compiled graph that runs as a CUDA graph while its kernels stay the same.

    `capture` makes a function of a list of tensors captured as it runs with the first ones.
    """

    def __init__(
        self, graph: CompiledGraph, last: LastForward, capture: Capture, kind: str
    ) -> None:
        self._graph, self._last, self._capture = graph, last, capture
        self._is_backward = kind == "backward"
        self._captured: Boxed | None = None
        self._captures = 0
        self._boxed_call = True  # says that it takes a list, which it may empty

    def __call__(self, inputs: list[Any]) -> Any:
        """Run the graph; a captured one's results are valid until its next call."""
        captured = self._found(inputs)
        if not self._is_backward:
            self._last.is_captured = captured is not None
        elif not self._last.is_captured:
            captured = None
        elif captured is None:
            _begin_backward(inputs)
        return (captured or self._run)(inputs)

    def _found(self, inputs: list[Any]) -> Boxed | None:
        """The captured graph; None while kernels are tried, or calls are observed."""
        if not self._graph.is_tried:
            self._captured = None
            return None
        if timers.values or invalidation.watchers:
            return None
        if self._captured is None and self._captures < _MOST_CAPTURES:
            self._captures += 1
            self._captured = self._capture(self._run, inputs)
        return self._captured

    def _run(self, inputs: list[Any]) -> Any:
        given = tuple(inputs)
        inputs.clear()
        return self._graph(*given)


def _begin_backward(inputs: Sequence[Any]) -> None:
    """Tells torch's CUDA graph trees that a backward pass runs outside of them."""
    trees = importlib.import_module("torch._inductor.cudagraph_trees")
    device = next(each.device.index for each in inputs if hasattr(each, "device"))
    manager = trees.get_manager(device, create_if_none_exists=False)
    if manager is not None:
        manager.set_to_running_backward()


def capturing(module: Any, kind: str, inputs: int, given: Sequence[Any]) -> Capture | None:
    """A function that captures a graph; `inputs` of the arguments are the user's.

    None where torch would not capture it, which it logs: nodes that write to inputs, that are on
    the processor, or that no graph can hold.
    """
    backends = importlib.import_module("torch._dynamo.backends.cudagraphs")
    utils = importlib.import_module("torch._inductor.utils")
    trees = importlib.import_module("torch._inductor.cudagraph_trees")
    graphs = importlib.import_module("torch._inductor.cudagraph_utils")
    is_backward = kind == "backward"
    fixed = (
        utils.count_tangents(module)
        if is_backward
        else utils.num_fw_fixed_arguments(inputs, len(given))
    )
    reason = backends.check_for_skip(module, fixed)
    if reason:
        logging.getLogger("mdtensor").info("a graph is not captured: %s", reason)
        return None
    facts = {
        "device_index": backends.get_device_index(module),
        "is_backward": is_backward,
        "is_inference": kind == "inference",
        "stack_traces": backends.get_stack_traces(module),
        "placeholders": graphs.get_placeholder_info(module.graph),
        "mutated_input_idxs": backends.find_input_mutations(module.graph),
    }

    def capture(run: Boxed, tensors: list[Any]) -> Boxed:
        return trees.cudagraphify_impl(run, tensors, range(fixed), **facts)

    return capture
