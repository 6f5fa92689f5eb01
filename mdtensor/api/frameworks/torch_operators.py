"""The torch operator of calls by text: `torch.ops.mdtensor.call`.

It takes a text and tensors (see `call_text`), and the rest follows from these: what it computes,
the shapes of its results, its gradient and its batches, which are calls of the same operator.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from mdtensor.api.arrays.torch_tensors import (
    in_graph,
    is_differentiated,
    is_followed,
    is_functional,
    is_legacy_batched,
    is_wrapped,
)
from mdtensor.api.frameworks.call_text import (
    batched_text,
    held_by,
    pullback_text,
    tangents_text,
)
from mdtensor.api.frameworks.tensor_calls import (
    Tensor,
    empty_results,
    has_apart_results,
    keeps_results,
    run_on,
)
from mdtensor.backends.host.openmp_team import share_threads_of_torch

_NAME = "mdtensor::call"
_MOST_LEVELS = 64  # of torch's first vmap
# Libraries of torch, which are held since their registrations end with them.
_fragments: list[Any] = []


@cache
def register() -> Any:
    """Registers the operator once; returns `torch.ops.mdtensor`."""
    torch = importlib.import_module("torch")
    share_threads_of_torch()
    library = torch.library

    def compute(text: str, operands: Sequence[Tensor]) -> list[Tensor]:
        return run_on(text, operands)

    def setup(ctx: Any, inputs: tuple[str, Sequence[Tensor]], output: Sequence[Tensor]) -> None:
        _keep(ctx, *inputs, output)

    def backward(ctx: Any, grads: Sequence[Tensor | None]) -> tuple[None, list[Tensor | None]]:
        return None, _cotangents(ctx, ctx.needs_input_grad[1], grads)

    def batch(info: Any, in_dims: Any, text: str, operands: Sequence[Tensor]) -> Any:
        dims: Any = in_dims[1]
        each = dims if isinstance(dims, list | tuple) else [dims] * len(operands)  # pyright: ignore
        results = call(*_batched(text, operands, each))  # pyright: ignore
        return results, [0] * len(results)

    def legacy_batch(text: str, operands: Sequence[Tensor]) -> list[Tensor]:
        are_batched = [*map(torch._C._functorch.is_legacy_batchedtensor, operands)]
        batches = [t for t, is_batched in zip(operands, are_batched, strict=True) if is_batched]
        level = _level_of(torch, batches)
        whole = [
            torch._remove_batch_dim(tensor, level, 0, 0) if is_batched else tensor
            for tensor, is_batched in zip(operands, are_batched, strict=True)
        ]
        results = torch.ops.mdtensor.call(batched_text(text, are_batched), whole)
        return [torch._add_batch_dim(result, 0, level) for result in results]

    schema = "(str text, Tensor[] operands) -> Tensor[]"
    made = library.custom_op(_NAME, compute, mutates_args=(), schema=schema)
    made.register_fake(empty_results)
    made.register_autograd(backward, setup_context=setup)
    made.register_vmap(batch)
    # torch's first vmap, by which `autograd.grad(is_grads_batched=True)` still goes.
    if hasattr(torch._C, "_vmapmode_increment_nesting"):
        fragment = library.Library("mdtensor", "FRAGMENT")
        fragment.impl("call", legacy_batch, "Batched")
        _fragments.append(fragment)
    return torch.ops.mdtensor


def _level_of(torch: Any, batches: Sequence[Tensor]) -> int:
    """The innermost level of torch's legacy vmap at which a tensor is batched."""
    torch._C._vmapmode_increment_nesting()  # there is no function that only tells the level
    level = torch._C._vmapmode_decrement_nesting()
    # The threads that compute gradients on a GPU are not told. What is no batch of a level is
    # expanded, here to no elements.
    return level or next(
        level
        for level in range(_MOST_LEVELS, 0, -1)
        if any(torch._remove_batch_dim(tensor, level, 0, 0).shape[0] for tensor in batches)
    )


def call(text: str, operands: Sequence[Tensor]) -> Sequence[Tensor]:
    """Run the call of a text on tensors, with torch tracking the results.

    In graphs, and where a mode of torch's traces operators, it is the operator; others take a
    function of autograd's, for which torch has gradients within `torch.func`, forward ones too.
    """
    if not any(map(is_followed, operands)):
        return run_on(text, operands)
    wrapped = [tensor for tensor in operands if is_wrapped(tensor)]
    is_in_torch = any(in_graph(t) or is_legacy_batched(t) or is_functional(t) for t in wrapped)
    if is_in_torch or not (wrapped or any(map(is_differentiated, operands))):
        return register().call(text, list(operands))
    plain, transformed = _functions()
    return (transformed if wrapped else plain).apply(text, *operands)


@cache
def _functions() -> tuple[Any, Any]:
    """The autograd functions of calls: for plain tensors, and for `torch.func`."""
    torch = importlib.import_module("torch")
    share_threads_of_torch()

    class Transformed(torch.autograd.Function):
        """The autograd function of a text, in the form that `torch.func` can transform."""

        @staticmethod
        def forward(text: str, *operands: Tensor) -> tuple[Tensor, ...]:
            return tuple(run_on(text, operands))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            text, *operands = inputs
            _keep(ctx, text, operands, output)
            if not all(map(_is_differentiable, output)):
                ctx.mark_non_differentiable(*[r for r in output if not _is_differentiable(r)])
            ctx.set_materialize_grads(False)
            ctx.save_for_forward(*operands, *output)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
            return None, *_cotangents(ctx, ctx.needs_input_grad[1:], grads)

        @staticmethod
        def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
            return tuple(_tangents(ctx, tangents))

        @staticmethod
        def vmap(info: Any, in_dims: Any, text: str, *operands: Tensor) -> Any:
            results = call(*_batched(text, operands, in_dims[1:]))
            return tuple(results), (0,) * len(results)

    class ProgramFunction(torch.autograd.Function):
        """The autograd function of a text for plain tensors; skips `inspect`'s argument binding."""

        @staticmethod
        def forward(ctx: Any, text: str, *operands: Tensor) -> tuple[Tensor, ...]:
            results = Transformed.forward(text, *operands)
            Transformed.setup_context(ctx, (text, *operands), results)
            return results

        backward, jvp = staticmethod(Transformed.backward), staticmethod(Transformed.jvp)

    return ProgramFunction, Transformed


def _is_differentiable(tensor: Tensor) -> bool:
    return tensor.is_floating_point()


def _batched(
    text: str, operands: Sequence[Tensor], dims: Sequence[int | None]
) -> tuple[str, list[Tensor]]:
    """The batched call's text, and operands with their batch axes in front."""
    moved = [
        tensor if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip(operands, dims, strict=True)
    ]
    return batched_text(text, [dim is not None for dim in dims]), moved


def _keep(ctx: Any, text: str, operands: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Saves for backward the operands, and the results if the pullback reads them."""
    ctx.text, ctx.count, ctx.held = text, len(operands), held_by(text)
    ctx.keeps = keeps_results(text, operands)
    ctx.save_for_backward(*operands, *(results if ctx.keeps else ()))


def _cotangents(
    ctx: Any, needs: Sequence[bool], grads: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The cotangent of each operand; None where none is required."""
    saved = ctx.saved_tensors
    operands, results = list(saved[: ctx.count]), list(saved[ctx.count :])
    needs = needs[: ctx.count] if len(needs) > ctx.count else needs
    wanted = [n for n, tensor in enumerate(operands) if needs[n] and _is_differentiable(tensor)]
    due = [grad if grad is not None and _is_differentiable(grad) else None for grad in grads]
    given = [n for n, grad in enumerate(due) if grad is not None]
    found: list[Tensor | None] = [None] * ctx.count
    if not wanted or not given:
        return found
    every = [*operands, *results, *(grad for grad in due if grad is not None)]
    text = pullback_text(ctx.text, ctx.count, wanted, given, results=ctx.keeps)
    # Known calls of one kernel cost the least.
    for numbers in [[n] for n in wanted] if has_apart_results(text, every) else [wanted]:
        text = pullback_text(ctx.text, ctx.count, numbers, given, results=ctx.keeps)
        for number, part in zip(numbers, call(text, every), strict=True):
            found[number] = part
    return found


def _tangents(ctx: Any, tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The tangent of each result."""
    saved = ctx.saved_tensors
    operands, results = list(saved[: ctx.count]), list(saved[ctx.count :])
    given = [n for n, each in enumerate(tangents) if each is not None]
    wanted = [n for n, each in enumerate(results) if _is_differentiable(each)]
    found: list[Tensor | None] = [None] * len(results)
    if not wanted or not given:
        return found
    text = tangents_text(ctx.text, ctx.count, given, wanted, results=len(results))
    anything = [results[n] for n in wanted]
    due = [each for each in tangents if each is not None]
    parts = call(text, [*operands, *results, *anything, *due])
    for number, part in zip(wanted, parts, strict=True):
        found[number] = part
    return found
