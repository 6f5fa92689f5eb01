"""What calls on torch's tensors take of the host, beside torch's own.

`python -m bench.torch_calls [--device cuda] [--out FILE]`

A line has microseconds of a call with a new result, with `out`, of torch's, and of a call whose
gradient is asked for with the gradient, beside torch's. On a CUDA device it is the time until calls
of a short row return, which nothing waits for. Medians of turns by turns, after warm-up; results
and gradients of the calls that are timed are compared with float64 before and after.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import commit, now, processor, tell

CALLS, TURNS, WARM_SECONDS = 200, 21, 2.0
# Of the largest result, for each square root of so many terms.
MOST_WRONG = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2}
Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A call on tensors of these shapes, and torch's of the same."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    terms: int
    call: Callable[..., Any]
    torch: Callable[..., Any]


def cases(torch: Any, mdt: Any) -> list[Case]:
    """The calls."""
    nhwc, nchw = (0, 2, 3, 1), (0, 3, 1, 2)

    def conv(image: Any, weights: Any) -> Any:
        image, weights = image.permute(nchw), weights.permute(nchw)
        return torch.nn.functional.conv2d(image, weights, padding=1).permute(nhwc)

    return [
        Case(
            f"einsum ij,jk->ik {m}x{k}x{n}",
            ((m, k), (k, n)),
            k,
            lambda a, b, **out: mdt.einsum("ij,jk->ik", a, b, **out),
            torch.mm,
        )
        for m, k, n in ((16, 16, 16), (8, 512, 256))
    ] + [
        Case(
            "einsum bhqd,bhkd->bhqk 2x4x32x16",
            ((2, 4, 32, 16), (2, 4, 32, 16)),
            16,
            lambda a, b, **out: mdt.einsum("bhqd,bhkd->bhqk", a, b, **out),
            lambda a, b: torch.matmul(a, b.transpose(-1, -2)),
        ),
        Case(
            "sum along rows 64x100",
            ((64, 100),),
            100,
            lambda a, **out: mdt.sum(a, axis=1, **out),
            lambda a: a.sum(1),
        ),
        Case(
            "conv NHWC 1x14x14x16, 16 of 3x3, padding 1",
            ((1, 14, 14, 16), (16, 3, 3, 16)),
            144,
            lambda a, b, **out: mdt.conv(a, b, padding=1, **out),
            conv,
        ),
    ]


def timed(torch: Any, case: Case, device: str, dtype: str) -> str:
    """A case's line."""
    generator = torch.Generator().manual_seed(0)
    given = [
        torch.randn(shape, generator=generator).to(device, getattr(torch, dtype))
        for shape in case.shapes
    ]
    exact = [each.double().requires_grad_() for each in given]
    due = case.torch(*exact)
    result = case.call(*given)
    out, wanted = torch.empty_like(result), [each.clone().requires_grad_() for each in given]
    cotangent = torch.ones_like(result)
    ways: dict[str, Call] = {
        "new": lambda: case.call(*given),
        "out": lambda: case.call(*given, out=out),
        "torch": lambda: case.torch(*given),
        "gradient": lambda: torch.autograd.grad(case.call(*wanted), wanted, cotangent),
        "torch's": lambda: torch.autograd.grad(case.torch(*wanted), wanted, cotangent),
    }
    gradients = torch.autograd.grad(due, exact, cotangent.double())

    def wrong() -> float:
        """The greatest difference, as a part of the largest element and of what is allowed."""
        pairs = [(ways["new"](), due.detach()), (ways["out"](), due.detach())]
        pairs += zip(ways["gradient"](), gradients, strict=True)
        most = MOST_WRONG[dtype] * case.terms**0.5
        return max(
            float((found.double() - right).abs().max() / right.abs().max()) / most
            for found, right in pairs
        )

    far = wrong()
    medians: dict[str, list[float]] = {name: [] for name in ways}
    until = time.perf_counter() + WARM_SECONDS
    while time.perf_counter() < until:
        for way in ways.values():
            _batch(torch, way, device)
    for _ in range(TURNS):
        for name, way in ways.items():
            medians[name].append(_batch(torch, way, device))
    if (far := max(far, wrong())) > 1:
        return f"{case.name:<46} {dtype:<9} wrong by {far:.1f} times what is allowed"
    shown = " ".join(f"{statistics.median(times) * 1e6:8.2f}" for times in medians.values())
    return f"{case.name:<46} {dtype:<9} {shown}"


def _batch(torch: Any, call: Call, device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    taken = time.perf_counter() - begin
    if device == "cuda":
        torch.cuda.synchronize()
    return taken / CALLS


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; 1 where a result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.torch_calls", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, help="the file to which all is appended")
    options = parser.parse_args(arguments)
    torch: Any = importlib.import_module("torch")
    mdt: Any = importlib.import_module("mdtensor")
    where = torch.cuda.get_device_name() if options.device == "cuda" else processor()
    tell(f"{now()}, {where}, commit {commit()}, torch {torch.__version__}", options.out)
    ways = " ".join(f"{name:>8}" for name in ("new", "out", "torch", "gradient", "torch's"))
    tell(f"{'µs of the host':<46} {'':<9} {ways}", options.out)
    lines: list[str] = []
    for dtype in ("float32",) if options.device == "cpu" else MOST_WRONG:
        for case in cases(torch, mdt):
            lines.append(timed(torch, case, options.device, dtype))
            tell(lines[-1], options.out)
    return int(any(" wrong by " in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
