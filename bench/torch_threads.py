"""Kernels between functions of torch: on torch's threads, and on threads of their own, by turns.

`python -m bench.torch_threads` needs torch that computes with OpenMP. A line for each program:
microseconds on torch's threads and on own ones, and the median of their ratio in one turn.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

import mdtensor as mdt
from bench.machine import commit, now, processor
from mdtensor.api.engine import registry
from mdtensor.backends.host.openmp_team import parallel_of_torch

TURNS, BEFORE, CALLS, REST = 15, 5, 60, 0.01  # seconds of rest, so that threads fall asleep
Program = Callable[[], Any]


def programs() -> Iterator[tuple[str, Program]]:
    """Names of programs, and what runs them once."""
    torch.manual_seed(0)
    x, w, last = torch.randn(64, 512), torch.randn(512, 512), torch.randn(512, 10)
    wide, square = torch.randn(256, 1024), torch.randn(1024, 1024)
    small, large = torch.empty(64, 512), torch.empty(256, 1024)
    first = mdt.compile(mdt.einsum, "ij,jk->ik", x, w)
    second = mdt.compile(mdt.einsum, "ij,jk->ik", wide, square)
    for plan, given, out in ((first, (x, w), small), (second, (wide, square), large)):
        plan(*given, out=out)
        exact = given[0].double() @ given[1].double()
        np.testing.assert_allclose(out.numpy(), exact.numpy(), atol=2e-3)

    def layers() -> Any:
        first(x, w, out=small)
        return torch.mm(small, last)

    def normed() -> Any:
        first(x, w, out=small)
        torch.relu_(small)
        first(x, w, out=small)
        return F.layer_norm(small, (512,))

    def softmax() -> Any:
        second(wide, square, out=large)
        torch.relu_(large)
        return torch.softmax(large, 1)

    yield "64×512×512, torch.mm 64×512×10", layers
    yield "twice 64×512×512, relu and layer norm between", normed
    yield "256×1024×1024, relu, softmax", softmax
    yield "64×512×512 alone", lambda: first(x, w, out=small)
    yield "256×1024×1024 alone", lambda: second(wide, square, out=large)


def sample(program: Program) -> float:
    """Seconds of a run, after a rest and the first runs."""
    time.sleep(REST)
    for _ in range(BEFORE):
        program()
    begin = time.perf_counter()
    for _ in range(CALLS):
        program()
    return (time.perf_counter() - begin) / CALLS


def main() -> int:
    """Prints the table."""
    team = parallel_of_torch()
    if not team:
        print("torch has no OpenMP here", file=sys.stderr)
        return 1
    launches: Any = registry.engine_for().device.launches  # pyright: ignore[reportAttributeAccessIssue]
    print(f"{now()}, commit {commit()}, {processor()}, load {os.getloadavg()[0]:.1f}")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; µs")
    print(f"{'':48}{'torch':>10}{'own':>10}{'ratio':>8}")
    for name, program in programs():
        for _ in range(CALLS):
            program()
        registry.engine_for().settle()
        turns: list[tuple[float, float]] = []
        for _ in range(TURNS):
            launches.join_team(team)
            shared = sample(program)
            launches.join_team(0)
            turns.append((shared, sample(program)))
        ratio = statistics.median(own / shared for shared, own in turns)
        shared, own = (statistics.median(each) for each in zip(*turns, strict=True))
        print(f"{name:48}{shared * 1e6:10.1f}{own * 1e6:10.1f}{ratio:8.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
