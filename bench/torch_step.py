"""A training step of a small network on digits of 8×8 pixels, by mdtensor's calls and by torch's.

`python -m bench.torch_step [--seconds 20] [--out FILE]`

Two padded convolutions with biases and ReLU, two poolings, a linear layer, cross entropy, and their
gradients: milliseconds of the first step, then of a step before and after the calls were tuned,
by turns with torch's own, medians. The optimizer is torch's in both, with a rate of 0, so that
gradients stay those of the first step; they are compared with float64 before and after.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.machine import commit, now, processor, tell

BATCH, TURNS, STEPS, BEFORE, WARM_STEPS = 64, 9, 50, 20, 60
MOST_WRONG = 1e-4


def network(torch: Any) -> dict[str, Any]:
    """The parameters, by name."""
    torch.manual_seed(0)
    shapes = {
        "first": (16, 1, 3, 3),
        "first_bias": (16,),
        "second": (32, 16, 3, 3),
        "second_bias": (32,),
        "last": (10, 32 * 4),
        "last_bias": (10,),
    }
    return {
        name: (torch.randn(shape) / max(1, torch.tensor(shape[1:]).prod()) ** 0.5).requires_grad_()
        for name, shape in shapes.items()
    }


def by_mdtensor(mdt: Any, p: dict[str, Any], images: Any, labels: Any) -> Any:
    """The loss by mdtensor's calls."""
    conv = mdt.torch.conv
    x = conv(images, p["first"], p["first_bias"], padding=1, epilogue="relu")
    x = conv(mdt.max_pool(x, 2), p["second"], p["second_bias"], padding=1, epilogue="relu")
    x = mdt.max_pool(x, 2).flatten(1)
    return mdt.cross_entropy(mdt.einsum("ni,ki->nk", x, p["last"]) + p["last_bias"], labels)


def by_torch(functional: Any, p: dict[str, Any], images: Any, labels: Any) -> Any:
    """The loss by torch's."""
    x = functional.conv2d(images, p["first"], p["first_bias"], padding=1).relu()
    x = functional.conv2d(functional.max_pool2d(x, 2), p["second"], p["second_bias"], padding=1)
    x = functional.max_pool2d(x.relu(), 2).flatten(1)
    return functional.cross_entropy(functional.linear(x, p["last"], p["last_bias"]), labels)


def timed(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Milliseconds of a step among others, by turns."""
    medians: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, way in ways.items():
            for _ in range(BEFORE):
                way()
            begin = time.perf_counter()
            for _ in range(STEPS):
                way()
            medians[name].append((time.perf_counter() - begin) / STEPS * 1e3)
            time.sleep(0.15)
    return {name: statistics.median(times) for name, times in medians.items()}


def main(arguments: list[str] | None = None) -> int:
    """Prints the steps; 1 where a gradient is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.torch_step", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of tuning")
    parser.add_argument("--out", type=Path, help="the file to which all is appended")
    options = parser.parse_args(arguments)
    torch: Any = importlib.import_module("torch")
    mdt: Any = importlib.import_module("mdtensor")
    functional = torch.nn.functional
    found: Any = importlib.import_module("sklearn.datasets").load_digits()
    images = torch.tensor(found.images[:BATCH], dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(found.target[:BATCH])
    mine, theirs = network(torch), network(torch)
    exact = {
        name: value.detach().double().requires_grad_() for name, value in network(torch).items()
    }

    def step(
        loss: Callable[..., Any], library: Any, p: dict[str, Any], rate: Any
    ) -> Callable[[], Any]:
        optimizer = torch.optim.SGD(p.values(), lr=rate)

        def once() -> None:
            optimizer.zero_grad()
            loss(library, p, images, labels).backward()
            optimizer.step()

        return once

    ways = {
        "mdtensor": step(by_mdtensor, mdt, mine, 0.0),
        "torch": step(by_torch, functional, theirs, 0.0),
    }
    tell(f"{now()}, {processor()}, commit {commit()}, torch {torch.__version__}", options.out)
    begin = time.perf_counter()
    ways["mdtensor"]()
    first = (time.perf_counter() - begin) * 1e3
    by_torch(functional, exact, images.double(), labels).backward()

    def wrong(p: dict[str, Any]) -> float:
        return max(
            float((p[name].grad - due.grad).abs().max() / due.grad.abs().max())
            for name, due in exact.items()
        )

    ways["torch"]()
    found_first = max(wrong(mine), wrong(theirs))
    tell(f"first step {first:.0f} ms, gradients within {found_first:.1e} of float64", options.out)
    for _ in range(WARM_STEPS):
        for way in ways.values():
            way()
    time.sleep(3)
    before = timed(ways)
    tell("untuned " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in before.items()), options.out)
    with mdt.tuning("record") as seen:
        ways["mdtensor"]()
    mdt.tune(seen, options.seconds, quiet=True)
    for _ in range(WARM_STEPS):
        ways["mdtensor"]()
    after = timed(ways)
    tell("tuned   " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in after.items()), options.out)
    found_last = max(wrong(mine), wrong(theirs))
    tell(f"gradients within {found_last:.1e} of float64", options.out)
    return int(max(found_first, found_last) > MOST_WRONG)


if __name__ == "__main__":
    sys.exit(main())
