"""Operators of torch that compute by mdtensor: `torch.ops.mdtensor.*`.

Every operator has a text and tensors (see `call_text`), and the rest follows from these: what it
computes, the shapes of its results, its gradient and its batches. Gradients and batches are calls
of one more operator, `torch.ops.mdtensor.call`, which so has gradients and batches of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from mdtensor.api.frameworks.call_text import batched_text, pullback_text, reads_results
from mdtensor.api.frameworks.front_end_texts import conv_text, einsum_text, reduce_text, scan_text
from mdtensor.api.frameworks.tensor_calls import Tensor, results_on, run_on, specs_of
from mdtensor.backends.host.openmp_team import share_threads_of_torch
from mdtensor.dataclass import dataclass

_NAMESPACE = "mdtensor"
# Libraries of torch, which are held since their registrations end with them.
_fragments: list[Any] = []


@dataclass(frozen=True, slots=True)
class _Operator:
    """One operator: its schema, and how its arguments are a text and tensors.

    `tensors` are the positions of arguments that are tensors, lists of them, or None.
    """

    name: str
    schema: str
    text: Callable[..., str]
    tensors: tuple[int, ...]

    @property
    def has_one_result(self) -> bool:
        """Whether it returns a tensor, and no list."""
        return not self.schema.endswith("[]")

    def operands(self, arguments: Sequence[Any]) -> list[Any]:
        """What stands at the places of tensors, lists taken apart."""
        found: list[Any] = []
        for position in self.tensors:
            given = arguments[position]
            if isinstance(given, list | tuple):
                found.extend(given)  # pyright: ignore[reportUnknownArgumentType]
            elif given is not None:
                found.append(given)
        return found


def _conv_text(img: Any, flt: Any, bias: Any, *rest: Any) -> str:
    stride, padding, dilation, groups, layout, transposed, output_padding = rest
    return conv_text(
        bias=bias is not None,
        stride=_ints(stride),
        padding=_sides(_ints(padding), len(stride)),
        dilation=_ints(dilation),
        groups=int(groups),
        layout=layout,
        transposed=transposed,
        output_padding=_ints(output_padding),
    )


def _sides(padding: list[int], rank: int) -> list[Any]:
    """Numbers for both sides, or pairs where there are twice as many numbers as axes."""
    if rank and len(padding) == 2 * rank:
        return [padding[n : n + 2] for n in range(0, 2 * rank, 2)]
    return padding


def _own_text(text: str, operands: Any) -> str:
    return text


def _einsum_text(equation: str, operands: Any) -> str:
    return einsum_text(equation)


# torch leaves out arguments that equal the defaults of a schema.


def _reduce_text(subscripts: str, operands: Any, combine: str = "add") -> str:
    return reduce_text(subscripts, combine)


def _scan_text(
    subscripts: str,
    operands: Any,
    dim: str,
    combine: str = "add",
    exclusive: bool = False,
    reverse: bool = False,
) -> str:
    return scan_text(subscripts, dim, combine, exclusive, reverse)


def _ints(given: Sequence[Any]) -> list[int]:
    return [int(number) for number in given]


_OPERATORS = (
    _Operator("call", "(str text, Tensor[] operands) -> Tensor[]", _own_text, (1,)),
    _Operator(
        "einsum",
        "(str equation, Tensor[] operands) -> Tensor",
        _einsum_text,
        (1,),
    ),
    _Operator(
        "reduce",
        '(str subscripts, Tensor[] operands, str combine="add") -> Tensor',
        _reduce_text,
        (1,),
    ),
    _Operator(
        "scan",
        '(str subscripts, Tensor[] operands, str dim, str combine="add", bool exclusive=False,'
        " bool reverse=False) -> Tensor",
        _scan_text,
        (1,),
    ),
    _Operator(
        "conv",
        "(Tensor img, Tensor flt, Tensor? bias, int[] stride, int[] padding, int[] dilation,"
        " int groups, str layout, bool transposed, int[] output_padding) -> Tensor",
        _conv_text,
        (0, 1, 2),
    ),
)


def text_of_call(
    target: str, arguments: Sequence[Any], named: Mapping[str, Any]
) -> tuple[str, list[Any]]:
    """The text of a call of an operator that a graph names, and its tensors."""
    name = target.split(".")[1]
    operator = next(each for each in _OPERATORS if each.name == name)
    return operator.text(*arguments, **named), operator.operands(arguments)


def in_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Has `torch.compile` put calls of a function into its graphs, where they are operators."""
    torch = importlib.import_module("torch")
    return torch.compiler.allow_in_graph(function)


@cache
def register() -> Any:
    """Registers the operators, once; returns `torch.ops.mdtensor`."""
    torch = importlib.import_module("torch")
    share_threads_of_torch()
    for operator in _OPERATORS:
        _register(torch, operator)
    return getattr(torch.ops, _NAMESPACE)


def _register(torch: Any, operator: _Operator) -> None:
    library = torch.library

    def shaped(results: list[Tensor]) -> Any:
        return results[0] if operator.has_one_result else results

    def compute(*arguments: Any) -> Any:
        return shaped(run_on(operator.text(*arguments), operator.operands(arguments)))

    def fake(*arguments: Any) -> Any:
        operands = operator.operands(arguments)
        due = results_on(operator.text(*arguments), operands)
        return shaped([operands[0].new_empty(shape, dtype=dtype) for shape, dtype in due])

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        _save(ctx, operator, inputs, [output] if operator.has_one_result else output)

    def backward(ctx: Any, *grads: Any) -> Any:
        listed = grads if operator.has_one_result else grads[0]
        placed = _placed(operator, ctx, _cotangents(torch, ctx, operator, listed))
        return placed[: len(ctx.needs_input_grad)]  # older ones want none for defaults

    def batch(info: Any, in_dims: Any, *arguments: Any) -> Any:
        pairs = zip(operator.operands(arguments), _dims(operator, arguments, in_dims), strict=True)
        pairs = list(pairs)
        moved = [tensor if dim is None else tensor.movedim(dim, 0) for tensor, dim in pairs]
        results = along_first(arguments, moved, [dim is not None for _, dim in pairs])
        return shaped(results), 0 if operator.has_one_result else [0] * len(results)

    def along_first(arguments: Any, tensors: Sequence[Tensor], are_batched: list[bool]) -> Any:
        return torch.ops.mdtensor.call(
            batched_text(operator.text(*arguments), are_batched), list(tensors)
        )

    def legacy_batch(*arguments: Any) -> Any:
        tensors = operator.operands(arguments)
        are_batched = [*map(torch._C._functorch.is_legacy_batchedtensor, tensors)]
        torch._C._vmapmode_increment_nesting()  # there is no function that only tells the level
        level = torch._C._vmapmode_decrement_nesting()
        whole = [
            torch._remove_batch_dim(tensor, level, 0, 0) if is_batched else tensor
            for tensor, is_batched in zip(tensors, are_batched, strict=True)
        ]
        results = along_first(arguments, whole, are_batched)
        return shaped([torch._add_batch_dim(result, 0, level) for result in results])

    name = f"{_NAMESPACE}::{operator.name}"
    made = library.custom_op(name, compute, mutates_args=(), schema=operator.schema)
    made.register_fake(fake)
    made.register_autograd(backward, setup_context=setup)
    made.register_vmap(batch)
    # torch's first vmap, by which `autograd.grad(is_grads_batched=True)` still goes.
    if hasattr(torch._C, "_vmapmode_increment_nesting"):
        fragment = library.Library(_NAMESPACE, "FRAGMENT")
        fragment.impl(operator.name, legacy_batch, "Batched")
        _fragments.append(fragment)


def _save(ctx: Any, operator: _Operator, inputs: Any, results: Sequence[Tensor]) -> None:
    """Keeps what the gradient reads, which may not be the results."""
    operands = operator.operands(inputs)
    ctx.text, ctx.count = operator.text(*inputs), len(operands)
    ctx.inputs = [_number_of(given) for given in inputs]
    ctx.keeps = reads_results(ctx.text, specs_of(operands))
    ctx.save_for_backward(*operands, *(results if ctx.keeps else ()))


def _number_of(given: Any) -> int | None:
    """The length of a list, or None where no list was given."""
    return len(given) if isinstance(given, list | tuple) else None  # pyright: ignore


def _cotangents(torch: Any, ctx: Any, operator: _Operator, grads: Any) -> list[Tensor | None]:
    """The cotangent of each operand, None for those that want none."""
    saved = ctx.saved_tensors
    operands, results = list(saved[: ctx.count]), list(saved[ctx.count :])
    needs = operator.operands(ctx.needs_input_grad)
    needs = needs[: ctx.count] if len(needs) > ctx.count else needs
    wanted = [n for n, tensor in enumerate(operands) if needs[n] and tensor.is_floating_point()]
    given = [n for n, grad in enumerate(grads) if grad is not None and grad.is_floating_point()]
    found: list[Tensor | None] = [None] * ctx.count
    if not wanted or not given:
        return found
    text = pullback_text(ctx.text, ctx.count, wanted, given, results=ctx.keeps)
    parts = torch.ops.mdtensor.call(text, [*operands, *results, *(grads[n] for n in given)])
    for number, part in zip(wanted, parts, strict=True):
        found[number] = part
    return found


def _placed(operator: _Operator, ctx: Any, cotangents: list[Tensor | None]) -> tuple[Any, ...]:
    """Cotangents where an operator's arguments stand."""
    left = iter(cotangents)
    placed: list[Any] = []
    for position, number in enumerate(ctx.inputs):
        if position not in operator.tensors:
            placed.append(None)
        elif number is not None:
            placed.append([next(left) for _ in range(number)])
        else:
            placed.append(next(left, None))
    return tuple(placed)


def _dims(operator: _Operator, arguments: Sequence[Any], in_dims: Any) -> list[int | None]:
    """The batch axis of each tensor among the arguments; None for one without."""
    found: list[int | None] = []
    for position in operator.tensors:
        given, dims = arguments[position], in_dims[position]
        if isinstance(given, list | tuple):
            several = isinstance(dims, list | tuple)
            found.extend(cast("list[int | None]", dims if several else [dims] * len(given)))  # pyright: ignore
        elif given is not None:
            found.append(dims)
    return found
