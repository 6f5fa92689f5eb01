"""Operators of torch that mdtensor computes, in the memory and on the device of torch's tensors.

Importing this module registers `torch.ops.mdtensor.einsum`, `conv`, `reduce`, `scan` and `call`;
the functions here call these. They have gradients of any order, batches by `torch.vmap`, and
stand in the graphs of `torch.compile`. Without torch, they raise ModuleNotFoundError. See
docs/torch.md.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

from mdtensor.api.frameworks import torch_operators
from mdtensor.api.frameworks.call_text import kept_text
from mdtensor.api.frameworks.front_end_texts import layout_of
from mdtensor.api.frameworks.torch_graphs import torch_backend
from mdtensor.api.frameworks.torch_graphs.graph_report import GraphReport, measured
from mdtensor.api.plans.plan import Plan
from mdtensor.errors import ShapeError
from mdtensor.options import is_iterable, whole

__all__ = ["backend", "conv", "einsum", "operator", "reduce", "report", "scan"]

Tensor = Any
PerAxis = int | Sequence[int]


def einsum(equation: str, *operands: Tensor) -> Tensor:
    """The sum of products that an einsum string says, of torch's tensors.

    Strings are those of `mdtensor.einsum`, also with sums for indices; the result is a new tensor
    in C order, on the device of the operands. Raises what `mdtensor.einsum` raises, and
    DeviceError for tensors on several devices.
    """
    return torch_operators.register().einsum(equation, operands)


def reduce(subscripts: str, *operands: Tensor, combine: str = "add") -> Tensor:
    """Combines the products of elements along the dims that the output lacks.

    `combine` is the name of an operator: `add`, `mul`, `max`, `min`, `logaddexp` and the others of
    `mdtensor.reduce`, whose strings these are.
    """
    return torch_operators.register().reduce(subscripts, operands, combine)


def scan(
    subscripts: str,
    *operands: Tensor,
    dim: str,
    combine: str = "add",
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Combines every element along a dim with all elements before it, as `mdtensor.scan` does."""
    ops = torch_operators.register()
    return ops.scan(subscripts, operands, dim, combine, exclusive, reverse)


def conv(
    img: Tensor,
    flt: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: PerAxis | str = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    layout: str | None = None,
    transposed: bool = False,
    output_padding: PerAxis = 0,
) -> Tensor:
    """Convolves images with filters as torch does; options are those of `mdtensor.conv`.

    The layout is torch's by default: `NCHW,KCRS->NKPQ` for images, `NCW` and `NCDHW` likewise. Of
    transposed convolutions, the filter has its axes in torch's order too, `CKRS`. `padding` is a
    number, one for each axis, twice as many (before and after each), "valid" or "same". Raises
    ShapeError for images of another rank without a layout, and what `mdtensor.conv` raises.
    """
    if layout is None:
        layout = layout_of(len(img.shape), transposed)
    rank = len(img.shape) - 2

    def numbers(given: PerAxis) -> list[int]:
        return list(given) if is_iterable(given) else [given] * rank  # pyright: ignore

    if isinstance(padding, str):
        padding = _padding(padding, numbers(dilation), [flt.shape[n] for n in _window(layout)])
    return torch_operators.register().conv(
        img,
        flt,
        bias,
        numbers(stride),
        numbers(padding),
        numbers(dilation),
        groups,
        layout,
        transposed,
        numbers(output_padding),
    )


def _window(layout: str) -> list[int]:
    """The axes of a window in its filter: those that are neither channels nor filters."""
    letters = layout.replace("->", ",").split(",")[1]
    return [n for n, letter in enumerate(letters) if letter not in "KC"]


def _padding(name: str, dilation: Sequence[int], window: Sequence[int]) -> list[int]:
    """The zeros before and after each axis for torch's names; the odd one comes after."""
    if name == "valid":
        return [0] * len(window)
    if name != "same":
        raise ShapeError(f"padding is {name!r}", hint="'valid', 'same', or numbers")
    totals = [step * (extent - 1) for step, extent in zip(dilation, window, strict=True)]
    return [zeros for total in totals for zeros in (total // 2, total - total // 2)]


def operator(what: Plan | Callable[..., Any]) -> Callable[..., Any]:
    """A plan, or a function of arrays that is one call of mdtensor, as a function of tensors.

    A plan keeps the shapes and types that it was made for, on any strides. What it returns is a
    tensor, or a tuple of several. The function is kept as long as the process lives; make one
    operator of it, and use that again. Raises TranslationError when it is called, where the call
    runs several computations.
    """
    call = torch_operators.register().call
    text = kept_text(what)

    def computed(*operands: Tensor) -> Any:
        results = call(text, operands)
        return results[0] if len(results) == 1 else tuple(results)

    computed.__name__ = getattr(what, "__name__", "plan")
    return torch_operators.in_graphs(computed)


def backend(graph: Any, inputs: Sequence[Tensor], **options: Any) -> Callable[..., Any]:
    """The backend of `torch.compile(model, backend="mdtensor")`.

    Products, convolutions, poolings, normalisations, reductions and elementwise functions of a
    graph, forward and backward, become plans; all else stays torch's. On the first call each is
    timed beside torch's function, and the next 24 calls are by what took less time, by our kernels
    alone and by torch alone, in turns: what takes least is kept. Takes no options: raises
    ArgumentError for one.
    """
    return torch_backend.compiled(graph, inputs, options)


def report(function: Callable[..., Any], *arguments: Any, repeats: int = 5) -> GraphReport:
    """What ran where in compiled graphs that a call runs, and what it took.

    The function is called with the arguments, `repeats` times after a first one; it may compute
    gradients, too. The report has a row for each layer and function: whether mdtensor or torch
    computes it, its share of the time, what the other way takes, and what tuning gained. It is
    printed as a table. Raises ArgumentError where the call runs no graph of this backend.
    """
    return measured(function, arguments, whole("repeats", repeats))


if importlib.util.find_spec("torch") is not None:
    torch_operators.register()
    for function in (conv, einsum, reduce, scan):
        torch_operators.in_graphs(function)
