"""Modules by `torch.compile(backend="mdtensor")` beside eager and inductor, by turns.

`python -m bench.torch_models [--tune SECONDS] [--only NAME]` needs torch. It prints milliseconds
of forward passes and of training steps, errors of results or gradients beside float64, and the
share of our kernels. `--device cuda --dtype bfloat16 --batch 16` have networks elsewhere, of other
floats, for so many times as many inputs, with `--mode reduce-overhead` as CUDA graphs, and
`--channels-last` in that layout.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import bench.machine as machines
import mdtensor as mdt
import mdtensor.torch
from bench.torch_networks import NETWORKS
from mdtensor.api.engine import registry

# Rounds by turns and calls in each, of networks whose calls take milliseconds; and the seconds
# after which those of larger ones come to an end, with the rounds that they have at least.
ROUNDS, CALLS, LONGEST_S, LEAST_ROUNDS = 15, 5, 20.0, 5
# Calls before: our steps and graphs are timed meanwhile.
WARM_CALLS, WARM_S, LEAST_CALLS = 60, 10.0, 25


def by_turns(ways: dict[str, Callable[[], Any]], wait: Callable[[], None]) -> dict[str, float]:
    """The median milliseconds of each way; all take turns, each in a run of its own."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    started = time.perf_counter()
    for number in range(ROUNDS):
        for name, way in ways.items():
            way()  # threads of the other libraries go to sleep meanwhile
            wait()
            begin, calls = time.perf_counter(), 0
            while calls < CALLS and (not calls or time.perf_counter() - begin < 0.5):
                way()
                calls += 1
            wait()
            taken[name].append((time.perf_counter() - begin) / calls)
        if number + 1 >= LEAST_ROUNDS and time.perf_counter() - started > LONGEST_S:
            break
    return {name: 1e3 * statistics.median(each) for name, each in taken.items()}


def warmed(run: Callable[[], Any], arrays: str) -> None:
    """Calls until kernels are compiled, and what is timed in calls has been timed."""
    run()
    registry.engine_for(arrays).settle()
    begin = time.perf_counter()
    for number in range(WARM_CALLS):
        run()
        if number + 1 >= LEAST_CALLS and time.perf_counter() - begin > WARM_S:
            break


def error(found: Any, due: Any) -> float:
    return ((found.double() - due).abs().max() / due.abs().max()).item()


def error_of_gradients(model: Any, wide: Any) -> float:
    """The largest of all parameters' gradients, of those of one network beside float64's."""
    pairs = zip(model.parameters(), wide.parameters(), strict=True)
    return max(error(one.grad, due.grad) for one, due in pairs)


def measured(name: str, given_by: argparse.Namespace) -> None:
    tuned, dtype = given_by.tune, getattr(torch, given_by.dtype)
    make, inputs = NETWORKS[name]
    torch.manual_seed(0)
    model, x = make().to(given_by.device, dtype), inputs().to(given_by.device)
    x = torch.cat([x] * given_by.batch)
    x = x.to(dtype) if x.is_floating_point() else x
    if given_by.channels_last:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    arrays = "cupy" if x.is_cuda else "numpy"
    wait = torch.cuda.synchronize if x.is_cuda else lambda: None
    wide = copy.deepcopy(model).double()
    compiled = {
        "eager": model,
        "inductor": torch.compile(model, mode=given_by.mode),
        "mdtensor": torch.compile(model, backend="mdtensor", mode=given_by.mode),
    }
    if not given_by.inductor:
        del compiled["inductor"]

    def forward(way: Any) -> Any:
        return way(x)

    def step(way: Any) -> Any:
        model.zero_grad()
        loss = way(x).square().mean()
        loss.backward()
        return loss

    given = x.double() if x.is_floating_point() else x

    def off_by(way: Any) -> float:
        """The error of a way: of the gradients of a step, or of results."""
        if not model.training:
            return error(way(x), wide(given))
        step(way)
        wide.zero_grad()
        wide(given).square().mean().backward()
        return error_of_gradients(model, wide)

    for mode in given_by.modes.split(","):
        model.train(mode == "training")
        wide.train(mode == "training")
        is_training = mode == "training"
        with torch.set_grad_enabled(is_training):
            run = step if is_training else forward
            for way in compiled.values():
                warmed(partial(run, way), arrays)
            if tuned:
                with mdt.tuning("record") as seen:
                    run(compiled["mdtensor"])
                print(mdt.tune(seen, budget=tuned, quiet=True).summary())
                warmed(partial(run, compiled["mdtensor"]), arrays)
            found = by_turns({n: partial(run, way) for n, way in compiled.items()}, wait)
            off = {name: off_by(compiled[name]) for name in ("mdtensor", "eager")}
            report = mdtensor.torch.report(run, compiled["mdtensor"])
        times = ", ".join(f"{way} {each:.3f}" for way, each in found.items())
        ratios = ", ".join(
            f"{found[way] / found['mdtensor']:.2f} of {way}" for way in found if way != "mdtensor"
        )
        share = f"{100 * report.share_of_ours:.0f} % in our kernels"
        print(
            f"{name}, {mode}: ms {times}; as fast as {ratios}; {share}; "
            f"error {off['mdtensor']:.1e}, of eager {off['eager']:.1e}"
        )
        print(report, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", type=float, default=0.0, help="seconds for each model and mode")
    parser.add_argument("--only", default="")
    parser.add_argument("--modes", default="forward,training")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--mode", choices=("default", "reduce-overhead"), default="default")
    parser.add_argument("--batch", type=int, default=1, help="times as many inputs")
    parser.add_argument("--channels-last", action="store_true", help="of images and filters")
    parser.add_argument("--no-inductor", dest="inductor", action="store_false")
    given = parser.parse_args()
    print(f"python -m bench.torch_models, {machines.now()}, {machines.processor()}")
    print(f"torch {torch.__version__}, mdtensor {mdt.__version__}, commit {machines.commit()}")
    print(
        f"{given.device}, {given.dtype}, batches times {given.batch}, mode {given.mode}"
        + (", channels last" if given.channels_last else "")
    )
    print(f"{torch.get_num_threads()} threads; load {os.getloadavg()[0]:.1f}", flush=True)
    for name in NETWORKS:
        if given.only in name:
            measured(name, given)


if __name__ == "__main__":
    main()
