"""Calls and plans on torch's CUDA tensors against torch: host and device apart, untuned and tuned.

`python -m bench.torch_cuda --out FILE` takes products of language models, attention and
convolutions, with `--family rows` softmaxes and norms; products of any shape, untuned and tuned by
turns, has `bench.never_slower`. Host time is that of a call on an idle device until it returns.
Device time is between events, L2 flushed, the host ahead. All turns alternate with torch's; a
result further from float64 than `MOST_WRONG` has no time.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import commit, now, tell

MOST_WRONG = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-5}  # of the largest result
ROUNDS, CALLS = 21, 200
Run = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A call of a front end on tensors of these shapes, and how torch says it."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    front_end: str
    first: tuple[str, ...]  # arguments before the tensors
    options: tuple[tuple[str, int], ...]
    torch: Callable[..., Any]
    exact: Callable[..., Any]

    def call(self, *tensors: Any) -> Any:
        """The call."""
        import mdtensor as mdt

        return getattr(mdt, self.front_end)(*self.first, *tensors, **dict(self.options))

    def plan(self, *tensors: Any) -> Any:
        """A plan of the call."""
        import mdtensor as mdt

        front_end = getattr(mdt, self.front_end)
        return mdt.compile(front_end, *self.first, *tensors, **dict(self.options))


def product(name: str, text: str, first: tuple[int, ...], second: tuple[int, ...]) -> Case:
    """An einsum of two tensors, which torch says by matmul."""
    torch: Any = importlib.import_module("torch")
    is_turned = text in ("ik,jk->ij", "bhqd,bhkd->bhqk")

    def exact(a: Any, b: Any) -> Any:
        return torch.einsum(text, a.double(), b.double())

    whole = _turned if is_turned else torch.matmul
    return Case(f"{name} {text}", (first, second), "einsum", (text,), (), whole, exact)


def _turned(a: Any, b: Any) -> Any:
    return a @ b.mT


def convolution(
    name: str, image: tuple[int, ...], taps: tuple[int, ...], padding: int, **more: int
) -> Case:
    """A convolution, NHWC, with filters as K R S C; torch gets channels_last."""
    torch: Any = importlib.import_module("torch")
    options = {"padding": padding, **more}

    def by_torch(x: Any, w: Any) -> Any:
        image, taps = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
        return torch.nn.functional.conv2d(image, taps, **options).permute(0, 2, 3, 1)

    def exact(x: Any, w: Any) -> Any:
        return by_torch(x.double(), w.double())

    return Case(name, (image, taps), "conv", (), tuple(options.items()), by_torch, exact)


def cases() -> Iterator[Case]:
    """What language models and residual networks call."""
    for rows in (1, 8, 128):
        yield product(f"{rows} rows", "ik,jk->ij", (rows, 4096), (14336, 4096))
        yield product(f"{rows} rows", "ik,kj->ij", (rows, 4096), (4096, 14336))
    heads = (4, 16, 1024, 128)
    yield product("scores", "bhqd,bhkd->bhqk", heads, heads)
    yield product("values", "bhqk,bhkd->bhqd", (4, 16, 1024, 1024), heads)
    yield product("experts", "eik,ekj->eij", (8, 128, 4096), (8, 4096, 1536))
    yield convolution("3x3 of 64", (32, 56, 56, 64), (64, 3, 3, 64), 1)
    yield convolution("3x3 of 512", (32, 7, 7, 512), (512, 3, 3, 512), 1)
    yield convolution("1x1 of 256", (32, 56, 56, 256), (64, 1, 1, 256), 0)
    yield convolution("7x7 of 3", (32, 224, 224, 3), (64, 7, 7, 3), 3, stride=2)
    yield convolution("3x3 of 128", (32, 28, 28, 128), (128, 3, 3, 128), 1)
    yield convolution("3x3 of 256", (32, 14, 14, 256), (256, 3, 3, 256), 1)
    yield convolution("1x1 of 64", (32, 56, 56, 64), (256, 1, 1, 64), 0)
    yield convolution("1x1 of 1024", (32, 14, 14, 1024), (256, 1, 1, 1024), 0)
    yield convolution("depthwise of 32", (32, 112, 112, 32), (32, 3, 3, 1), 1, groups=32)
    yield convolution("depthwise of 512", (32, 14, 14, 512), (512, 3, 3, 1), 1, groups=512)


def rows(name: str, shape: tuple[int, ...], axis: int = -1) -> Case:
    """A softmax or a norm along an axis."""
    torch: Any = importlib.import_module("torch")
    functions: dict[str, Callable[[Any], Any]] = {
        "softmax": lambda x: torch.softmax(x, axis),
        "log_softmax": lambda x: torch.log_softmax(x, axis),
        "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
        "rms_norm": lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:], eps=1e-5),
    }
    function = functions[name]
    label = f"{name} of {'x'.join(map(str, shape))} along {axis}"
    return Case(
        label, (shape,), name, (), (("axis", axis),), function, lambda x: function(x.double())
    )


def row_cases() -> Iterator[Case]:
    """What reads rows several times: one kernel has all of it (docs/adr/0056)."""
    for shape in (4096, 1000), (32768, 64), (512, 32000), (96, 12, 128, 128), (96, 12, 512, 512):
        yield rows("softmax", shape)
    yield rows("softmax", (16, 256, 64, 64), 1)
    yield rows("log_softmax", (4096, 50304))
    for name in "layer_norm", "rms_norm":
        for shape in (64, 4096), (4096, 768), (8192, 4096):
            yield rows(name, shape)


FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {"products": cases, "rows": row_cases}


class Device:
    """The first GPU, and its clock."""

    def __init__(self) -> None:
        import ml_dtypes  # noqa: F401  # gives NumPy the name bfloat16

        from mdtensor.api.engine import registry
        from mdtensor.backends.cuda.cuda_timer import CudaClock

        self.engine: Any = registry.engine_for("cupy")
        self.clock = CudaClock(self.engine.device)
        self.torch: Any = importlib.import_module("torch")
        self.torch.backends.cuda.matmul.allow_tf32 = False

    def tensors(self, case: Case, dtype: str) -> list[Any]:
        """Operands with elements between -1 and 1."""
        self.torch.manual_seed(0)
        made = (self.torch.rand(shape, device="cuda") * 2 - 1 for shape in case.shapes)
        return [tensor.to(getattr(self.torch, dtype)) for tensor in made]

    def wrong(self, case: Case, tensors: Sequence[Any], result: Any) -> float:
        """The greatest difference from float64, as a part of the largest result."""
        if not self.torch.is_tensor(result):
            is_short = result.dtype.name == "bfloat16"
            result = self.torch.from_dlpack(result.view("i2") if is_short else result)
            result = result.view(self.torch.bfloat16) if is_short else result
        exact = case.exact(*tensors)
        return float((result.cuda().double() - exact).abs().max() / exact.abs().max())

    def host_us(self, run: Run) -> float:
        """Microseconds of a call until it returns, on an idle device: the median."""
        found: list[float] = []
        for _ in range(CALLS):
            self.torch.cuda.synchronize()
            begun = time.perf_counter()
            run()
            found.append(time.perf_counter() - begun)
        return statistics.median(found) * 1e6

    def device_us(self, runs: Sequence[Run]) -> list[float]:
        """Microseconds on the device, by turns: medians."""
        return [statistics.median(t) * 1e6 for t in self.clock.times(runs, ROUNDS, ahead=True)]

    def told(self, name: str, case: Case, tensors: Sequence[Any], run: Run) -> str:
        """What a way to call takes beside torch."""
        for _ in range(8):
            result = run()
        wrong = self.wrong(case, tensors, result)
        dtype = str(tensors[0].dtype).rpartition(".")[2]
        if not wrong <= MOST_WRONG[dtype]:
            return f"{name} WRONG by {wrong:.1e}"
        theirs, ours = self.device_us([lambda: case.torch(*tensors), run])
        host = self.host_us(run)
        return f"{name} {ours:.1f} us ({theirs / ours:.2f} of torch), host {host:.1f}"

    def measure(self, case: Case, dtype: str, seconds: float) -> Iterator[str]:
        """Lines of what a case takes: calls and plans, untuned and tuned."""
        import mdtensor as mdt

        tensors = self.tensors(case, dtype)
        theirs = self.host_us(lambda: case.torch(*tensors))
        yield f"{dtype} {case.name}: torch's host {theirs:.1f} us"
        with mdt.tuning("record") as seen:
            case.call(*tensors)
        for _ in range(3):
            case.call(*tensors)
            self.engine.settle()
        ways = (("call", lambda: case.call(*tensors)), ("plan", self.planned(case, tensors)))
        for name, run in ways:
            yield self.told(f"  {name}, untuned", case, tensors, run)
        if seconds:
            mdt.tune(seen, seconds, quiet=True)
            for name, run in ways:
                yield self.told(f"  {name}, tuned", case, tensors, run)

    def planned(self, case: Case, tensors: Sequence[Any]) -> Run:
        """A call of a plan of tensors."""
        plan = case.plan(*tensors)
        return lambda: plan(*tensors)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints, also to a file."""
    parser = argparse.ArgumentParser(prog="python -m bench.torch_cuda", description=__doc__)
    parser.add_argument("--dtype", nargs="*", default=["bfloat16", "float16"])
    parser.add_argument("--family", choices=FAMILIES, default="products")
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--seconds", type=float, default=6.0, help="of a search; 0 for none")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MDTENSOR_CACHE_DIR"] = folder
        device = Device()
        name = device.torch.cuda.get_device_name()
        tell(f"{now()}, {name}, torch {device.torch.__version__}, commit {commit()}", options.out)
        for dtype, case in itertools.product(options.dtype, FAMILIES[options.family]()):
            if options.only in case.name:
                for line in device.measure(case, dtype, options.seconds):
                    tell(line, options.out)


if __name__ == "__main__":
    sys.exit(main())
