"""Operators of torch beside torch's own checks: opcheck, gradcheck, and the samples of OpInfo.

`python -m bench.torch_ops [--quick] [--only NAME] [--out FILE]` needs torch, and prints what
passed, what failed, and what is out of scope, by operator. It ends with 1 where something failed.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import bench.machine as machines

Outcome = tuple[str, str]
LETTERS = "abcdefghijklmnop"


class OutOfScope(Exception):  # noqa: N818 — no error
    """A sample that our operators do not claim to compute."""


def opchecks(torch: Any, device: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """`torch.library.opcheck` of the operator, with texts of several calls."""
    import mdtensor as mdt
    from mdtensor.api.frameworks.call_text import Held, batched_text, held_call, pullback_text
    from mdtensor.api.frameworks.torch_operators import register

    def randn(*shape: int, dtype: Any = torch.float64) -> Any:
        grad = dtype.is_floating_point
        return torch.randn(shape, dtype=dtype, device=device, requires_grad=grad)

    kept: list[Held] = []

    def text_of(function: Callable[..., Any], *given: Any, **options: Any) -> str:
        placed = [mdt.spec(g, "f8") if isinstance(g, tuple) else g for g in given]
        kept.append(held_call(function, *placed, **options))
        return kept[-1].text

    text = text_of(mdt.einsum, "ij,jk->ik", (3, 4), (4, 5))
    image, filters = randn(2, 3, 6, 7), randn(4, 3, 3, 2)
    a, b, c = randn(3, 4), randn(4, 5), randn(3, 5)
    options: dict[str, Any] = {
        "stride": (1, 2),
        "padding": (1, 0),
        "layout": "NCHW,KCRS->NKPQ",
    }
    shapes = tuple(image.shape), tuple(filters.shape)
    with_bias = text_of(mdt.conv, *shapes, bias=mdt.spec((4,), "f8"), **options)
    calls: dict[str, tuple[str, list[Any]]] = {
        "einsum ij,jk->ik": (text, [a, b]),
        "einsum ij,jk,kl->il": (
            text_of(mdt.einsum, "ij,jk,kl->il", (3, 4), (4, 5), (5, 2)),
            [a, b, randn(5, 2)],
        ),
        "einsum h+r, r -> h": (
            text_of(mdt.einsum, "h+r, r -> h", (9,), (3,)),
            [randn(9), randn(3)],
        ),
        "conv": (with_bias, [image, filters, randn(4)]),
        "conv without bias": (text_of(mdt.conv, *shapes, **options), [image, filters]),
        "softmax": (text_of(mdt.softmax, (3, 4)), [a]),
        "gradient": (pullback_text(text, 2, [0, 1], [0]), [a, b, c, c]),
        "batch": (batched_text(text, [True, False]), [randn(6, 3, 4), b]),
    }
    for combine in ("add", "mul", "max", "min", "logaddexp"):
        calls[f"reduce {combine}"] = (text_of(mdt.reduce, "ij->i", (3, 4), combine=combine), [a])
        scan = text_of(mdt.scan, "ij->ij", (3, 4), combine={"j": combine})
        calls[f"scan {combine}"] = (scan, [a])
    for combine in ("argmax", "argmin"):
        reduced = text_of(mdt.reduce, "ij->i", (3, 4), combine=combine)
        calls[f"reduce {combine}"] = (reduced, [a.detach()])
    for name, arguments in calls.items():

        def check(arguments: tuple[str, list[Any]] = arguments) -> Any:
            return torch.library.opcheck(register().call.default, arguments)

        yield name, check


def gradchecks(torch: Any, device: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """`gradcheck` and `gradgradcheck` in float64 of every operator."""
    import mdtensor as mdt
    import mdtensor.torch as ours

    @mdt.stencil(border="nearest")
    def mean(u: Any) -> Any:
        return (u[-1] + u[0] * u[0] + u[1]) / 3

    def randn(*shape: int) -> Any:
        return torch.randn(shape, dtype=torch.float64, device=device, requires_grad=True)

    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    for text, shapes in {
        "ij,jk->ik": ((3, 4), (4, 2)),
        "ij->ji": ((3, 4),),
        "ii->i": ((3, 3),),
        "ij,ij->": ((3, 4), (3, 4)),
        "i,j,k->ijk": ((2,), (3,), (2,)),
        "bij,bjk->bik": ((2, 2, 3), (2, 3, 2)),
        "...i,ij->...j": ((2, 2, 3), (3, 2)),
        "n 2h+r c, k r c -> n h k": ((1, 7, 2), (2, 3, 2)),
    }.items():
        calls[f"einsum {text}"] = (
            lambda *given, text=text: ours.einsum(text, *given),
            tuple(randn(*shape) for shape in shapes),
        )
    for rank in (1, 2, 3):
        shape, window = (5, 4, 4)[:rank], (3, 2, 2)[:rank]
        for options in ({}, {"stride": 2}, {"padding": 1}, {"dilation": 2}):
            if options.get("dilation") and rank == 3:
                continue
            calls[f"conv{rank}d {options or ''}"] = (
                lambda *given, options=options: ours.conv(*given, **options),
                (randn(1, 2, *shape), randn(2, 2, *window), randn(2)),
            )
        calls[f"conv{rank}d transposed"] = (
            lambda *given: ours.conv(*given, stride=2, transposed=True),
            (randn(1, 2, *shape), randn(2, 1, *window)),
        )
    calls["conv2d groups"] = (
        lambda *given: ours.conv(*given, groups=2),
        (randn(1, 4, 4, 3), randn(2, 2, 2, 2)),
    )
    for combine in ("add", "mul", "max", "min", "logaddexp"):
        calls[f"reduce {combine}"] = (
            lambda a, combine=combine: ours.reduce("ijk->j", a, combine=combine),
            (randn(2, 3, 2),),
        )
        for reverse in (False, True):
            calls[f"scan {combine}{' reverse' if reverse else ''}"] = (
                lambda a, combine=combine, reverse=reverse: ours.scan(
                    "ij->ij", a, dim="j", combine=combine, reverse=reverse
                ),
                (randn(3, 4),),
            )
    calls["stencil"] = (ours.operator(mean), (randn(7),))
    plan = mdt.compile("ij,jk->ik", mdt.spec((3, 4), "f8"), mdt.spec((4, 2), "f8"))
    calls["plan"] = (ours.operator(plan), (randn(3, 4), randn(4, 2)))
    # Another kernel may have compiled meanwhile, which rounds otherwise.
    options: dict[str, Any] = {"check_batched_grad": True, "nondet_tol": 1e-10}
    for name, (function, arguments) in calls.items():

        def check(function: Any = function, arguments: Any = arguments) -> None:
            assert torch.autograd.gradcheck(function, arguments, **options)

        def check_again(function: Any = function, arguments: Any = arguments) -> None:
            assert torch.autograd.gradgradcheck(function, arguments, **options)

        def check_batch(function: Any = function, arguments: Any = arguments) -> None:
            several = [torch.stack([a.detach(), 2 * a.detach()], -1) for a in arguments]
            found = torch.vmap(function, in_dims=-1)(*several)
            for n in range(2):
                due = function(*(each.select(-1, n).contiguous() for each in several))
                torch.testing.assert_close(found[n], due)

        yield name, check
        yield f"{name}, second order", check_again
        yield f"{name}, vmap", check_batch


def by_ours(torch: Any) -> dict[str, Callable[..., Any]]:
    """torch's functions, of the arguments of its samples, by our operators."""
    import mdtensor as mdt
    import mdtensor.torch as ours

    def einsum(operands: Any, equation: str) -> Any:
        given, _, result = equation.partition("->")
        if "->" in equation and "..." in given and "..." not in result:
            raise OutOfScope("an ellipsis that the result lacks, which NumPy's words refuse")
        return ours.einsum(equation, *operands)

    def matmul(a: Any, b: Any) -> Any:
        first, second = max(a.dim() - 2, 0), max(b.dim() - 2, 0)
        batch = LETTERS[: max(first, second)]
        left = batch[len(batch) - first :] + ("xy" if a.dim() > 1 else "y")
        right = batch[len(batch) - second :] + ("yz" if b.dim() > 1 else "y")
        result = batch + "x" * (a.dim() > 1) + "z" * (b.dim() > 1)
        return ours.einsum(f"{left},{right}->{result}", a, b)

    def bmm(a: Any, b: Any) -> Any:
        return ours.einsum("bij,bjk->bik", a, b)

    def conv(rank: int, transposed: bool = False) -> Callable[..., Any]:
        last = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")

        def convolved(
            img: Any,
            flt: Any,
            bias: Any = None,
            stride: Any = 1,
            padding: Any = 0,
            *more: Any,
            **options: Any,
        ) -> Any:
            options = dict(zip(last, more, strict=False)) | options
            several = img.dim() == rank + 2
            found = ours.conv(
                img if several else img[None],
                flt,
                bias,
                stride=stride,
                padding=padding,
                transposed=transposed,
                **options,
            )
            return found if several else found[0]

        return convolved

    def axes(a: Any, dim: Any) -> tuple[str, str, list[int]]:
        listed = range(a.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
        gone = [each % a.dim() for each in listed]
        names = LETTERS[: a.dim()]
        return names, "".join(n for k, n in enumerate(names) if k not in gone), sorted(gone)

    def reduction(combine: str) -> Callable[..., Any]:
        def reduced(a: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
            a = a if dtype is None else a.to(dtype)
            if not a.dtype.is_floating_point and combine == "logaddexp":
                a = a.to(torch.float32)
            if a.dim() == 0:
                return ours.reduce("a->", a[None], combine=combine)
            if dim == () or dim == []:
                dim = None
            names, left, gone = axes(a, dim)
            found = ours.reduce(f"{names}->{left}", a, combine=combine)
            for axis in gone if keepdim else ():
                found = found.unsqueeze(axis)
            return found

        return reduced

    def cumulative(combine: str) -> Callable[..., Any]:
        def scanned(a: Any, dim: int, *, dtype: Any = None) -> Any:
            a = a if dtype is None else a.to(dtype)
            if a.dim() == 0:
                return scanned(a[None], 0)[0]
            names, _, (axis,) = axes(a, dim)
            return ours.scan(f"{names}->{names}", a, dim=names[axis], combine=combine)

        return scanned

    def softmax(a: Any, dim: int, dtype: Any = None, **_: Any) -> Any:
        a = a if dtype is None else a.to(dtype)
        return softmax(a[None], 0)[0] if a.dim() == 0 else mdt.softmax(a, axis=dim)

    def layer_norm(
        a: Any, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
    ) -> Any:
        found = mdt.layer_norm(a, axis=tuple(range(-len(shape), 0)), eps=eps)
        found = found if weight is None else found * weight
        return found if bias is None else found + bias

    return {
        "einsum": einsum,
        "matmul": matmul,
        "bmm": bmm,
        "nn.functional.conv1d": conv(1),
        "nn.functional.conv2d": conv(2),
        "nn.functional.conv3d": conv(3),
        "nn.functional.conv_transpose1d": conv(1, True),
        "nn.functional.conv_transpose2d": conv(2, True),
        "nn.functional.conv_transpose3d": conv(3, True),
        "softmax": softmax,
        "nn.functional.layer_norm": layer_norm,
        "logsumexp": reduction("logaddexp"),
        "sum": reduction("add"),
        "amax": reduction("max"),
        "amin": reduction("min"),
        "cumsum": cumulative("add"),
        "cumprod": cumulative("mul"),
        "logcumsumexp": cumulative("logaddexp"),
    }


def samples(torch: Any, device: str, quick: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """OpInfo's samples by our operators, beside what torch gives for them; gradients in float64."""
    from torch.testing._internal.common_methods_invocations import op_db

    functions = by_ours(torch)
    types = (torch.float64,) if quick else (torch.float64, torch.float32, torch.int64)
    for info in op_db:
        if info.name not in functions or info.variant_test_name:
            continue
        ours = functions[info.name]
        for dtype in types:
            if dtype not in info.supported_dtypes(torch.device(device).type):
                continue
            grad = dtype == torch.float64
            given = list(info.sample_inputs(torch.device(device), dtype, requires_grad=grad))
            for number, sample in enumerate(given[:8] if quick else given):

                def check(info: Any = info, sample: Any = sample, ours: Any = ours) -> None:
                    arguments = (sample.input, *sample.args)
                    found = ours(*arguments, **sample.kwargs)
                    due = info.op(*arguments, **sample.kwargs)
                    if found.dtype == torch.float32:
                        compare_single(torch, info, sample, found, due)
                        return
                    torch.testing.assert_close(found, due)
                    compare_gradients(torch, arguments, found, due)

                name = str(dtype).removeprefix("torch.")
                yield f"{info.name} {name} {number}", check


def compare_single(torch: Any, info: Any, sample: Any, found: Any, due: Any) -> None:
    """Whether float32 results are those of float64, as far as the largest one's rounding goes."""
    exact = sample.transform(
        lambda t: t.double() if torch.is_tensor(t) and t.is_floating_point() else t
    )
    if "dtype" in exact.kwargs:
        exact.kwargs["dtype"] = torch.float64
    reference = info.op(exact.input, *exact.args, **exact.kwargs).double()
    finite = reference[reference.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    assert found.shape == due.shape
    assert found.dtype == due.dtype
    torch.testing.assert_close(found.double(), reference, rtol=1e-5, atol=1e-6 * largest)


def compare_gradients(torch: Any, arguments: Any, found: Any, due: Any) -> None:
    """Whether both results have the same gradients."""
    from torch.utils._pytree import tree_leaves

    leaves = [t for t in tree_leaves(arguments) if torch.is_tensor(t) and t.requires_grad]
    if not leaves or not due.requires_grad:
        return
    cotangent = torch.randn_like(due)
    ours = torch.autograd.grad(found, leaves, cotangent, allow_unused=True)
    theirs = torch.autograd.grad(due, leaves, cotangent, allow_unused=True)
    for one, other, leaf in zip(ours, theirs, leaves, strict=True):
        zeros = torch.zeros_like(leaf)
        torch.testing.assert_close(*(zeros if each is None else each for each in (one, other)))


def outcome(check: Callable[[], Any]) -> Outcome:
    """What became of a check, and why."""
    try:
        check()
    except OutOfScope as reason:
        return "out of scope", str(reason)
    except Exception as error:
        lines = f"{type(error).__name__}: {error}".strip().splitlines()
        return "failed", " ".join(lines[:3])[:300]
    return "passed", ""


def report(torch: Any, device: str, quick: bool, only: str = "") -> Iterator[str]:
    """The lines of the report; the last one counts."""
    torch.manual_seed(0)
    total = Counter[str]()
    families = {
        "opcheck": opchecks(torch, device),
        "gradients and batches": gradchecks(torch, device),
        "samples of torch": samples(torch, device, quick),
    }
    for family, checks in families.items():
        counts: dict[str, Counter[str]] = {}
        notes: list[str] = []
        for name, check in checks:
            if not name.startswith(only) and not family.startswith(only):
                continue
            found, reason = outcome(check)
            group = name.split()[0].rstrip(",")
            counts.setdefault(group, Counter())[found] += 1
            total[found] += 1
            if found != "passed":
                notes.append(f"  {found}: {name}: {reason}")
        yield f"{family}:"
        for group, count in counts.items():
            said = ", ".join(f"{number} {what}" for what, number in sorted(count.items()))
            yield f"  {group}: {said}"
        yield from dict.fromkeys(notes)
    yield (
        f"{total['passed']} passed, {total['failed']} failed, {total['out of scope']} out of scope"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the first samples, in float64 alone")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="checks whose names, or families, begin so")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    import torch

    began = time.perf_counter()
    where = torch.cuda.get_device_name() if asked.device == "cuda" else machines.processor()
    what = f"Python {platform.python_version()}, torch {torch.__version__}"
    machines.tell(f"{machines.now()}, {where}, commit {machines.commit()}, {what}", asked.out)
    line = ""
    for line in report(torch, asked.device, asked.quick, asked.only):
        machines.tell(line, asked.out)
    machines.tell(f"in {time.perf_counter() - began:.0f} s", asked.out)
    return int(" 0 failed" not in line)


if __name__ == "__main__":
    sys.exit(main())
