"""The `torch.compile` backend: forward and backward graphs with planned steps."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mdtensor.api.frameworks.torch_graphs.compiled_graph import CompiledGraph
from mdtensor.api.frameworks.torch_graphs.graph_capture import CapturedGraph, LastForward, capturing
from mdtensor.backends.host.openmp_team import share_threads_of_torch
from mdtensor.errors import ArgumentError

_MODES = ("default", "reduce-overhead")


def compiled(graph: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    """The compiled function of a torch graph, through forward and backward graphs.

    Its `mode` is "default" or "reduce-overhead". Raises ArgumentError for another, and for options,
    of which there are none.
    """
    captures = _captures(options)
    share_threads_of_torch()
    common = importlib.import_module("torch._dynamo.backends.common")
    boxed = importlib.import_module("functorch.compile").make_boxed_func
    last = LastForward()

    def compiler(kind: str) -> Callable[..., Any]:
        def compile_graph(module: Any, given: Sequence[Any]) -> Any:
            is_on_gpu = any(each.is_cuda for each in given if hasattr(each, "is_cuda"))
            capture = None
            if captures and is_on_gpu:
                capture = capturing(module, kind, len(inputs), given)
            made = CompiledGraph(module, kind, is_captured=capture is not None)
            return boxed(made) if capture is None else CapturedGraph(made, last, capture, kind)

        return compile_graph

    backend = common.aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
    )
    return backend(graph, inputs)


def _captures(options: Mapping[str, Any]) -> bool:
    """Whether CUDA graphs are captured, by the options of `torch.compile`."""
    others = {name: value for name, value in options.items() if name != "mode"}
    if others:
        raise ArgumentError(
            f"the backend has no option {next(iter(others))!r}",
            hint='torch.compile(model, backend="mdtensor")',
        )
    mode = options.get("mode") or "default"
    if mode not in _MODES:
        raise ArgumentError(
            f"the backend has no mode {mode!r}", hint=f"one of {', '.join(map(repr, _MODES))}"
        )
    return mode == "reduce-overhead"
