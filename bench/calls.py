"""What a call costs the host, in every front end: hot calls, plans, first calls on new shapes.

`python -m bench.calls [--out FILE] [--only PART] [--count]` makes small calls, whose kernels take a
few microseconds or less. A hot call and a plan's take turns with the enqueue of their kernels alone
and with the peer. `--count` counts the functions that a hot call enters, instead of timing it.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import platform
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import now
from bench.timing import batch
from bench.workload import Call
from mdtensor.api.engine.launch_counter import AroundProgram
from mdtensor.backends.host.aligned_memory import aligned_empty

ROUNDS = 9
BATCH_SECONDS = 0.01
WAYS = ("call", "plan", "enqueue", "peer")


@dataclass(frozen=True)
class Case:
    """A call, and what another library makes of the same arrays."""

    name: str
    function: Callable[..., Any]
    given: Sequence[Any]
    peer: Call | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    has_plan: bool = True

    def call(self) -> Any:
        """The call of the public interface."""
        return self.function(*self.given, **self.options)

    @property
    def planned(self) -> Any:
        """The plan of the call; None where it has none."""
        import mdtensor as mdt

        if not self.has_plan:
            return None
        options = {name: value for name, value in self.options.items() if name != "out"}
        return mdt.compile(self.function, *self.given, **options)

    @property
    def plan(self) -> Call | None:
        """The call of a plan, into the caller's array where the call has one."""
        if (planned := self.planned) is None:
            return None
        given = (*self.given, *self.options.values())
        operands = [value for value in given if type(value) is np.ndarray]
        if (out := self.options.get("out")) is None:
            return functools.partial(planned, *operands)
        operands = [operand for operand in operands if operand is not out]
        return functools.partial(planned, *operands, out=out)


def _drawn(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(0.5, 1.5, shape).astype(dtype)


def _einsums() -> Iterator[Case]:
    import mdtensor as mdt

    a, b, out = _drawn(10, 64), _drawn(64, 500), np.empty((10, 500), "f4")
    product = ("ik,kj->ij", a, b)
    yield Case("einsum", mdt.einsum, product, lambda: a @ b)
    into = lambda: np.matmul(a, b, out=out)  # noqa: E731
    yield Case("einsum, out", mdt.einsum, product, into, {"out": out})
    yield Case("einsum, order", mdt.einsum, product, lambda: a @ b, {"order": "C"})
    small, matrix = _drawn(24, 24), _drawn(24, 24, dtype="f4")
    chain = lambda: small @ matrix @ small  # noqa: E731
    yield Case("einsum, three operands", mdt.einsum, ("ij,jk,kl->il", small, matrix, small), chain)
    x, taps = _drawn(1024), _drawn(5)
    yield Case("einsum, affine", mdt.einsum, ("h+r,r->h", x, taps), lambda: np.correlate(x, taps))
    paths = ("ij,jk->ik", small, matrix)
    slow = lambda: (small[:, :, None] + matrix[None]).min(1)  # noqa: E731
    yield Case("einsum, min_plus", mdt.einsum, paths, slow, {"semiring": "min_plus"})
    biased = ("ij,jk->ik;k", small, matrix, _drawn(24))
    peer = lambda: np.maximum(small @ matrix + biased[-1], 0)  # noqa: E731
    yield Case("einsum, epilogue", mdt.einsum, biased, peer, {"epilogue": "bias_relu"})
    pair = (small, matrix)
    yield Case("tensordot", mdt.tensordot, (*pair, 1), lambda: np.tensordot(*pair, 1), {}, False)


def _reductions() -> Iterator[Case]:
    import mdtensor as mdt

    a, x = _drawn(64, 64), _drawn(1024)
    rows = ("ij->i", a)
    yield Case("reduce, max", mdt.reduce, rows, lambda: a.max(1), {"combine": "max"})
    out = np.empty(64, "f4")
    into = lambda: a.max(1, out=out)  # noqa: E731
    yield Case("reduce, max, out", mdt.reduce, rows, into, {"combine": "max", "out": out})
    yield Case("reduce, argmax", mdt.reduce, rows, lambda: a.argmax(1), {"combine": "argmax"})
    squares = {"f": lambda element: element * element}
    yield Case("reduce, f", mdt.reduce, rows, lambda: (a * a).sum(1), squares)
    both = {"combine": {"j": "add", "i": mdt.ps("add")}}
    yield Case("reduce, dict", mdt.reduce, rows, lambda: a.sum(1).cumsum(), both)
    yield Case("scan", mdt.scan, ("i->i", x), lambda: np.cumsum(x))


def _convolutions() -> Iterator[Case]:
    import mdtensor as mdt

    torch: Any = importlib.import_module("torch")

    img, flt = _drawn(1, 16, 16, 4), _drawn(4, 3, 3, 4)
    nchw = torch.from_numpy(img.transpose(0, 3, 1, 2).copy())
    kcrs = torch.from_numpy(flt.transpose(0, 3, 1, 2).copy())
    torched = functools.partial(torch.nn.functional.conv2d, nchw, kcrs)
    yield Case("conv", mdt.conv, (img, flt), torched)
    padded = functools.partial(torched, padding=1)
    yield Case("conv, padding", mdt.conv, (img, flt), padded, {"padding": 1})
    strided = functools.partial(torched, padding=1, stride=2)
    options = {"padding": (1, 1), "stride": [2, 2], "epilogue": "relu"}
    yield Case("conv, tuples, relu", mdt.conv, (img, flt), strided, options)
    x, taps = _drawn(1024), _drawn(9)
    for name in ("convolve", "correlate"):
        numpys = functools.partial(getattr(np, name), x, taps)
        yield Case(name, getattr(mdt, name), (x, taps), numpys)
    signal = importlib.import_module("scipy.signal")
    u, window = _drawn(32, 32), _drawn(3, 3)
    peer = lambda: signal.correlate(u, window, "same", "direct")  # noqa: E731
    yield Case("correlate, 2-D", mdt.correlate, (u, window, "same"), peer)


def _stencils() -> Iterator[Case]:
    import mdtensor as mdt

    ndimage = importlib.import_module("scipy.ndimage")
    u, out = _drawn(34, 34), np.empty((32, 32), "f4")

    def jacobi(u: Any) -> Any:
        return 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])

    def scaled(u: Any, c: Any) -> Any:
        return c * (u[-1, 0] + u[1, 0])

    def sliced(u: Any) -> Any:
        return 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])

    inside = mdt.stencil(jacobi)
    yield Case("stencil", inside, (u,), lambda: sliced(u))
    yield Case("stencil, out", inside, (u,), lambda: sliced(u), {"out": out})
    yield Case("stencil, number", mdt.stencil(scaled), (u, 0.5), lambda: 0.5 * (u[:-2] + u[2:]))
    cross = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], "f4") / 4
    peer = lambda: ndimage.correlate(u, cross, mode="constant")  # noqa: E731
    yield Case("stencil, border", mdt.stencil(jacobi, border="constant"), (u,), peer)
    yield Case("ndimage.correlate", mdt.ndimage.correlate, (u, cross), peer, {"mode": "constant"})
    gauss = lambda: ndimage.gaussian_filter(u, 1.0)  # noqa: E731
    yield Case("ndimage.gaussian", mdt.ndimage.gaussian_filter, (u, 1.0), gauss)

    def lazy(array: Any) -> np.ndarray:
        return np.asarray(sliced(mdt.lazy(array)))

    yield Case("lazy", lazy, (u,), lambda: sliced(u), {}, False)


def _directives() -> Iterator[Case]:
    import mdtensor as mdt
    from mdtensor.directive import Buffer, add, cc, combine_ops, fp32, inp, out, pw

    matrix, vector, result = _drawn(32, 32), _drawn(32), np.zeros(32, "f4")

    buffer: Any = Buffer
    floats = buffer[fp32]

    @mdt.mdh(out(w=floats), inp(M=floats, v=floats), combine_ops(cc, pw(add)))
    def matvec(w: Any, M: Any, v: Any) -> None:  # noqa: N803
        for i in range(32):
            for k in range(32):
                w[i] = M[i, k] * v[k]

    @mdt.mdh
    def loops(w: Any, m: Any, v: Any) -> None:
        for i in range(32):
            w[i] = 0
            for k in range(32):
                w[i] += m[i, k] * v[k]

    product = lambda: matrix @ vector  # noqa: E731
    yield Case("mdh, operators", matvec, (matrix, vector), product)
    yield Case("mdh, loops", loops, (result, matrix, vector), product, {}, False)


def cases() -> list[Case]:
    """All calls, in the order of the table."""
    makers = (_einsums, _reductions, _convolutions, _stencils, _directives)
    return [case for maker in makers for case in maker()]


def enqueue_of(planned: Any) -> Call:
    """The enqueue of all kernels of a plan, on arrays of its own."""
    calls: list[Call] = []
    for md_hom, choice in zip(planned.md_homs, planned.choices(), strict=True):
        specs = [buffer.spec for buffer in (*md_hom.inputs, *md_hom.outputs)]
        counted = choice.program  # until its launches were many
        program = counted.program if isinstance(counted, AroundProgram) else counted
        calls.append(functools.partial(program.launcher(), *map(_held, specs)))

    def several() -> None:
        for each in calls:
            each()

    return calls[0] if len(calls) == 1 else several


def _held(spec: Any) -> np.ndarray:
    """An array of ones that lies as a spec says."""
    array = aligned_empty(spec.shape, spec.dtype, spec.strides)
    array[...] = 1
    return array


def timed(case: Case) -> dict[str, float]:
    """Seconds of a hot call, the plan's, the enqueue and the peer, as far as there are such."""
    plan, planned = case.plan, case.planned
    ways: dict[str, Call | None] = {
        "call": case.call,
        "plan": plan,
        "enqueue": enqueue_of(planned) if planned is not None else None,
        "peer": case.peer,
    }
    known = {name: way for name, way in ways.items() if way is not None}
    for way in known.values():
        way()
        way()
    medians: dict[str, list[float]] = {name: [] for name in known}
    for _ in range(ROUNDS):
        for name, way in known.items():
            medians[name].append(statistics.median(batch(way, BATCH_SECONDS)))
    return {name: statistics.median(found) for name, found in medians.items()}


def entered(call: Call) -> int:
    """The number of functions of Python and C that a call enters.

    >>> entered(lambda: len("a"))
    2
    """
    count = 0

    def noted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(noted)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count - 1  # setprofile itself


def line_of(name: str, found: Mapping[str, float]) -> str:
    """A case's times for people.

    >>> line_of("scan", {"call": 5e-6, "enqueue": 2e-6})
    'scan                      call   5.0 µs   enqueue   2.0 µs'
    """
    shown = (f"{way} {found[way] * 1e6:5.1f} µs" for way in WAYS if way in found)
    return "   ".join((f"{name:<23}", *shown))


def main(arguments: list[str] | None = None) -> None:
    """Measures all cases, prints them and writes them where a file is named."""
    parser = argparse.ArgumentParser(prog="python -m bench.calls", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--count", action="store_true", help="count functions instead of timing")
    parser.add_argument("--out", type=Path, help="a file of JSON to write")
    options = parser.parse_args(arguments)
    chosen = [case for case in cases() if options.only in case.name]
    if options.count:
        for case in chosen:
            for _ in range(3):
                case.call()
            print(f"{case.name:<24} {entered(case.call):4d} functions")
        return
    from mdtensor.api.engine import registry

    for case in chosen:  # kernels are compiled, and what the background finds better
        case.call()
    registry.engine_for().settle()
    found: dict[str, dict[str, float]] = {}
    for case in chosen:
        found[case.name] = timed(case)
        print(line_of(case.name, found[case.name]), flush=True)
    if options.out is not None:
        target = registry.engine_for().target
        report = {
            "date": now(),
            "device": {"name": target.name, "cores": target.cores, "driver": target.driver},
            "python": platform.python_version(),
            "numpy": np.__version__,
            "seconds": found,
        }
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
