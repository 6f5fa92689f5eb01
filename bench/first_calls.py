"""First calls on shapes that nobody used, of structures that are known.

`python -m bench.first_calls [--out FILE]` measures several structures; those of the einsum results
are measured with them. Calls "in a row" follow each other; one "alone" comes after a pause in
which other memory went through the caches, so that all code it runs must come from memory again.
NumPy evaluates a structure until a kernel of it pays: `--after 600` calls it on as many shapes
before, and without `--after` it is on two.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import now

SAMPLES = 40
PAUSE_SECONDS = 0.05
OTHER_BYTES = 64 << 20
Call = Callable[[], Any]
# Makes the next call, on a shape of its own; `draw` draws an extent between two numbers.
Maker = Callable[[Callable[[int, int], int]], Call]


def _ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def _matmul(draw: Callable[[int, int], int]) -> Call:
    import mdtensor as mdt

    m, n, k = (draw(17, 200) for _ in range(3))
    a, b = _ones(m, k), _ones(k, n)
    return lambda: mdt.einsum("ik,kj->ij", a, b)


def _batched(draw: Callable[[int, int], int]) -> Call:
    import mdtensor as mdt

    b, m, n, k = (draw(4, 40) for _ in range(4))
    lhs, rhs = _ones(b, m, k), _ones(b, k, n)
    return lambda: mdt.einsum("bik,bkj->bij", lhs, rhs)


def _contraction(draw: Callable[[int, int], int]) -> Call:
    import mdtensor as mdt

    a, b, c, d, e, f, g = (draw(3, 6) for _ in range(7))
    lhs, rhs = _ones(g, d, a, b), _ones(e, f, c, g)
    return lambda: mdt.einsum("gdab,efcg->abcdef", lhs, rhs)


def _transposed(draw: Callable[[int, int], int]) -> Call:
    import mdtensor as mdt

    m, n, k = (draw(17, 100) for _ in range(3))
    a, b = _ones(k, m).T, _ones(k, n)
    return lambda: mdt.einsum("ik,kj->ij", a, b)


def _reduce(draw: Callable[[int, int], int]) -> Call:
    import mdtensor as mdt

    a = _ones(draw(30, 300), draw(30, 300))
    return lambda: mdt.reduce("ij->i", a, combine="max")


def _conv(draw: Callable[[int, int], int]) -> Call:
    import mdtensor as mdt

    images, filters = _ones(1, draw(20, 60), draw(20, 60), 8), _ones(8, 3, 3, 8)
    return lambda: mdt.conv(images, filters)


def _stencil(draw: Callable[[int, int], int]) -> Call:
    u = _ones(draw(40, 200), draw(40, 200))
    return lambda: _jacobi()(u)


def _softmax(draw: Callable[[int, int], int]) -> Call:
    import mdtensor as mdt

    x = _ones(12, draw(20, 30), draw(20, 300))
    return lambda: mdt.softmax(x)


def _lazy(draw: Callable[[int, int], int]) -> Call:
    import mdtensor as mdt

    a = _ones(draw(40, 200), draw(40, 200))

    def gelu() -> Any:
        x = mdt.lazy(a)
        return (x * (1 + np.tanh(x + 0.044715 * x * x * x))).evaluate()

    return gelu


_made: list[Any] = []


def _jacobi() -> Any:
    import mdtensor as mdt

    def jacobi(u: Any) -> Any:
        return 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])

    if not _made:
        _made.append(mdt.stencil(border="valid")(jacobi))
    return _made[0]


EINSUMS: dict[str, Maker] = {
    "ik,kj->ij": _matmul,
    "bik,bkj->bij": _batched,
    "gdab,efcg->abcdef": _contraction,
}
OTHERS: dict[str, Maker] = {
    "ik,kj->ij, transposed": _transposed,
    "reduce": _reduce,
    "conv": _conv,
    "stencil": _stencil,
    "softmax": _softmax,
    "lazy": _lazy,
}


def first_calls(
    makers: dict[str, Maker] | None = None, samples: int = SAMPLES, after: int = 2
) -> dict[str, Any]:
    """Seconds of first calls, medians and worst ones, of each structure and of all together.

    Each structure is called on `after` shapes before. `compilations` counts those that a call
    waited for.
    """
    from mdtensor.api.engine import registry

    compiled = 0
    here = threading.get_ident()
    engine = registry.engine_for()
    device: Any = engine.device
    owner, function = (device.jit, "object_code") if hasattr(device, "jit") else (device, "build")
    build = getattr(owner, function)

    def counted(text: str, **options: Any) -> Any:
        nonlocal compiled
        compiled += threading.get_ident() == here
        return build(text, **options)

    other = np.ones(OTHER_BYTES, np.uint8)
    draw = random.Random(samples).randint
    times: dict[str, dict[str, list[float]]] = {}
    for name, maker in (EINSUMS if makers is None else makers).items():
        for shape in range(after):
            maker(draw)()
            if shape % 10 == 0:
                engine.settle()
        engine.settle()
        setattr(owner, function, counted)
        try:
            in_a_row = [_seconds(maker(draw)) for _ in range(samples)]
            alone: list[float] = []
            for _ in range(samples):
                call = maker(draw)
                engine.settle()
                time.sleep(PAUSE_SECONDS)
                other[::64] += 1
                alone.append(_seconds(call))
        finally:
            setattr(owner, function, build)
        times[name] = {"alone": alone, "in_a_row": in_a_row}
        print(line_of(name, _summary(times[name])), file=sys.stderr, flush=True)
    together = {way: [t for found in times.values() for t in found[way]] for way in _WAYS}
    return {
        **{way: statistics.median(together[way]) for way in _WAYS},
        "largest": max(max(found) for found in together.values()),
        "samples": samples,
        "compilations": compiled,
        "structures": {name: _summary(found) for name, found in times.items()},
    }


_WAYS = ("alone", "in_a_row")


def _seconds(call: Call) -> float:
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def _summary(found: dict[str, list[float]]) -> dict[str, float]:
    summary = {way: statistics.median(found[way]) for way in _WAYS}
    return summary | {f"{way}_worst": max(found[way]) for way in _WAYS}


def line_of(name: str, summary: dict[str, float]) -> str:
    """A structure's times for people.

    >>> line_of("reduce", {"alone": 9e-4, "alone_worst": 2e-3, "in_a_row": 3e-4,
    ...                    "in_a_row_worst": 1e-3})
    'reduce                   in a row  300 µs (worst  1000)   alone  900 µs (worst  2000)'
    """
    row, worst_row, alone, worst_alone = (
        summary[key] * 1e6 for key in ("in_a_row", "in_a_row_worst", "alone", "alone_worst")
    )
    return (
        f"{name:<24} in a row {row:4.0f} µs (worst {worst_row:5.0f})"
        f"   alone {alone:4.0f} µs (worst {worst_alone:5.0f})"
    )


def main(arguments: list[str] | None = None) -> None:
    """Measures all structures, prints them and writes them where a file is named."""
    parser = argparse.ArgumentParser(prog="python -m bench.first_calls", description=__doc__)
    parser.add_argument("--only", help="a part of the names of structures")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="calls of each kind")
    parser.add_argument("--after", type=int, default=2, help="shapes that are called before")
    parser.add_argument("--out", type=Path, help="a file of JSON to write")
    options = parser.parse_args(arguments)
    makers = {n: m for n, m in (EINSUMS | OTHERS).items() if (options.only or "") in n}
    found = first_calls(makers, options.samples, options.after)
    print(f"compilations: {found['compilations']}")
    if options.out is not None:
        from mdtensor.api.engine import registry

        target = registry.engine_for().target
        found |= {
            "date": now(),
            "device": {"name": target.name, "cores": target.cores, "driver": target.driver},
            "python": platform.python_version(),
        }
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
