"""The backend of `torch.compile`: graphs of torch's, forward and backward, with planned steps."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mdtensor.api.frameworks.torch_graphs.compiled_graph import CompiledGraph
from mdtensor.backends.host.openmp_team import share_threads_of_torch
from mdtensor.errors import ArgumentError


def compiled(graph: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that computes a graph of torch's, by graphs of its functions and gradients.

    Raises ArgumentError for options, of which there are none.
    """
    if options:
        raise ArgumentError(
            f"the backend has no option {next(iter(options))!r}",
            hint='torch.compile(model, backend="mdtensor")',
        )
    share_threads_of_torch()
    common = importlib.import_module("torch._dynamo.backends.common")
    boxed = importlib.import_module("functorch.compile").make_boxed_func

    def compiler(kind: str) -> Callable[..., Any]:
        def compile_graph(module: Any, _: Any) -> Any:
            return boxed(CompiledGraph(module, kind))

        return compile_graph

    backend = common.aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
    )
    return backend(graph, inputs)
