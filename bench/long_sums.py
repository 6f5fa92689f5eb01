"""Errors of long sums, ours beside those of NumPy, or of torch where arrays are on a GPU.

`python -m bench.long_sums [--cuda] [--log FILE]` prints the largest relative error of each sum, in
units of its type's machine epsilon, against long double (float64 for torch), and how many times
that of the peer it is; errors below half a unit count as half a unit. The numbers are around 1000,
of one sign, so that errors are those of the additions.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import mdtensor as mdt
from bench.machine import commit, now, processor, tell

COUNTS = (10_000, 1_000_000, 10_000_000)
ROWS = 100
# Our function and the peer's, of an array of numbers.
SUMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sum": (mdt.sum, lambda x: x.sum()),
    "mean": (mdt.mean, lambda x: x.mean()),
    "einsum": (lambda x: mdt.einsum("i->", x), lambda x: x.sum()),
    "reduce": (lambda x: mdt.reduce("i->", x), lambda x: x.sum()),
    "dot": (lambda x: mdt.einsum("i,i->", x, x), lambda x: x @ x),
    "lazy squares": (lambda x: (mdt.lazy(x) ** 2).sum().evaluate(), lambda x: (x**2).sum()),
    "var": (mdt.var, lambda x: x.var(**_population(x))),
    "rows": (lambda x: mdt.einsum("ij->i", _rows(x)), lambda x: _rows(x).sum(1)),
    "columns": (lambda x: mdt.einsum("ij->j", _rows(x).T), lambda x: _rows(x).T.sum(0)),
    "product": (
        lambda x: mdt.einsum("ij,kj->ik", _rows(x), _rows(x)),
        lambda x: _rows(x) @ _rows(x).T,
    ),
}


def _rows(x: Any) -> Any:
    return x.reshape(ROWS, -1)


def _population(x: Any) -> dict[str, int]:
    return {} if isinstance(x, np.ndarray) else {"correction": 0}


def _of_numpy(dtype: str, count: int) -> Iterator[tuple[str, Any, Any]]:
    x = (1000 + np.random.default_rng(0).random(count)).astype(dtype)
    for name, given in (("", x), (" of one number", np.broadcast_to(x[:1], count))):
        yield name, given, given.astype(np.longdouble)


def _of_torch(dtype: str, count: int) -> Iterator[tuple[str, Any, Any]]:
    torch: Any = importlib.import_module("torch")

    torch.manual_seed(0)
    x = (1000 + torch.rand(count, device="cuda", dtype=torch.float64)).to(getattr(torch, dtype))
    for name, given in (("", x), (" of one number", x[:1].expand(count))):
        yield name, given, given.double()


def _on_host(value: Any) -> Any:
    """A NumPy array, of a tensor of torch or an array of CuPy too."""
    return np.asarray(getattr(value, "cpu", getattr(value, "get", lambda: value))())


def _error(found: Any, exact: Any) -> float:
    found, exact = _on_host(found), _on_host(exact)
    return float(np.max(np.abs(found.astype(exact.dtype) - exact) / np.abs(exact)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cuda", action="store_true", help="tensors of torch on a GPU")
    parser.add_argument("--log", type=Path, help="a file to write the lines to")
    options = parser.parse_args()
    arrays, where = (_of_torch, "torch's GPU") if options.cuda else (_of_numpy, processor())
    tell(f"{now()}, commit {commit()}, {where}", options.log)
    tell(f"{'':34}{'ours':>10}{'peer':>10}{'times':>8}", options.log)
    for dtype in ("float32", "float64"):
        half = float(np.finfo(dtype).eps) / 2
        for count in COUNTS:
            for kind, x, wide in arrays(dtype, count):
                for name, (ours, peers) in SUMS.items():
                    if kind and name == "var":
                        continue  # zero
                    exact = peers(wide)
                    errors = [max(half, _error(f(x), exact)) for f in (ours, peers)]
                    row = "".join(f"{error / half / 2:10.1f}" for error in errors)
                    head = f"{dtype} {count} {name}{kind}"
                    tell(f"{head:34}{row}{errors[0] / errors[1]:8.1f}", options.log)


if __name__ == "__main__":
    main()
