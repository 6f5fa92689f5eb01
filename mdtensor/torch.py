"""mdtensor's functions for torch tensors, with torch's layouts, and a `torch.compile` backend.

All of mdtensor's functions take tensors and give tensors, with gradients, batches, and a place in
graphs; those here are the ones whose defaults differ. See docs/torch.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mdtensor import torch_compile
from mdtensor.api.frameworks.image_layouts import layout_of
from mdtensor.api.frameworks.torch_graphs import torch_backend
from mdtensor.api.frameworks.torch_graphs.graph_report import GraphReport, measured
from mdtensor.api.frontends.convolution import conv as mdtensor_conv
from mdtensor.api.frontends.einsum.einsum import einsum
from mdtensor.api.frontends.reduce import reduce
from mdtensor.api.frontends.reduce import scan as mdtensor_scan
from mdtensor.api.plans.plan import Plan
from mdtensor.errors import ArgumentError, shown
from mdtensor.options import whole

__all__ = ["backend", "conv", "einsum", "operator", "reduce", "report", "scan"]

Tensor = Any


def scan(
    subscripts: str,
    *operands: Tensor,
    dim: str,
    combine: Any = "add",
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Combines every element along one dim with all elements before it, as `mdtensor.scan` does."""
    return mdtensor_scan(
        subscripts, *operands, combine={dim: combine}, exclusive=exclusive, reverse=reverse
    )


def conv(
    img: Tensor,
    flt: Tensor,
    bias: Tensor | None = None,
    *operands: Tensor,
    layout: str | None = None,
    transposed: bool = False,
    **options: Any,
) -> Tensor:
    """Convolves images with filters as torch does; options are those of `mdtensor.conv`.

    The layout is torch's by default: `NCHW,KCRS->NKPQ` for images, `NCW` and `NCDHW` likewise. Of
    transposed convolutions, the filter has its axes in torch's order too, `CKRS`. Raises ShapeError
    for images of another rank without a layout, and what `mdtensor.conv` raises.
    """
    if layout is None:
        layout = layout_of(len(img.shape), transposed)
    return mdtensor_conv(
        img, flt, *operands, bias=bias, layout=layout, transposed=transposed, **options
    )


def operator(what: Plan | Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a plan, or a function that calls mdtensor, as a node of torch's graphs.

    `torch.compile` does not look into it: what it calls besides has to be torch's or mdtensor's.
    A plan keeps the shapes and types that it was made for. Raises ArgumentError for what is no
    function.
    """
    if not callable(what):
        raise ArgumentError(
            f"{shown(what)} is no function", hint="a plan, or a function of tensors"
        )

    def computed(*operands: Tensor) -> Any:
        return what(*operands)

    computed.__name__ = getattr(what, "__name__", "plan")
    torch_compile.in_graphs(computed)
    return computed


def backend(graph: Any, inputs: Sequence[Tensor], **options: Any) -> Callable[..., Any]:
    """The backend of `torch.compile(model, backend="mdtensor")`.

    Products, convolutions, poolings, normalisations, reductions and elementwise functions of a
    graph, forward and backward, become plans; all else stays torch's. On the first call each is
    timed beside torch's function, and the next 24 calls are by what took less time, by our kernels
    alone and by torch alone, in turns: what takes least is kept. With `mode="reduce-overhead"`
    graphs on a CUDA device are captured then, and each is launched as one; results are there until
    the next call. Raises ArgumentError for other modes, and for options.
    """
    return torch_backend.compiled(graph, inputs, options)


def report(function: Callable[..., Any], *arguments: Any, repeats: int = 5) -> GraphReport:
    """Time the layers of compiled graphs that a call runs, by mdtensor and by torch.

    The function is called with the arguments, `repeats` times after a first one; it may compute
    gradients, too. The report has a row for each layer and function: whether mdtensor or torch
    computes it, its share of the time, what the other way takes, and what tuning gained. It is
    printed as a table. Raises ArgumentError where the call runs no graph of this backend.
    """
    return measured(function, arguments, whole("repeats", repeats))


for function in (conv, scan):
    torch_compile.in_graphs(function)
