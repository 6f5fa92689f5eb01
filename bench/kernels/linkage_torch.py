"""Record linkage in torch's words, as its users would say it on a GPU.

torch has neither records nor strings: columns are made before anything is timed, names as three
words of 64 bits each. What is timed compares blocks of new persons with the whole register.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.workload import Arrays, Call

_WORDS = 3  # of a name of 24 characters
_BLOCKS = (64, 256)
Columns = Mapping[str, Any]
Weights = Mapping[str, float]


def linkage_calls(
    operands: list[Any], same: Weights, other: Weights, same_id: int
) -> Mapping[str, Call]:
    """Blocks of rows, and on a GPU all rows at once by a kernel that torch compiles."""
    torch: Any = importlib.import_module("torch")
    new, known = (_columns(torch, operand) for operand in operands)
    match = _match(torch, same, other, same_id)

    def in_blocks(size: int) -> Call:
        count = new["id"].shape[0]

        def call() -> Arrays:
            found = [
                match({name: column[start : start + size] for name, column in new.items()}, known)
                for start in range(0, count, size)
            ]
            return tuple(torch.cat(parts) for parts in zip(*found, strict=True))

        return call

    calls = {f"blocks of {size} rows": in_blocks(size) for size in _BLOCKS}
    if new["id"].is_cuda:
        compiled = torch.compile(match, dynamic=False)
        calls["compiled"] = lambda: compiled(new, known)
    return calls


def _columns(torch: Any, records: Any) -> Columns:
    """The fields of records as tensors, where the records are."""
    size = records.dtype.itemsize
    raw = records.view(np.uint8).reshape(-1, size)
    found: dict[str, Any] = {}
    for name in records.dtype.names:
        dtype, offset = records.dtype.fields[name][:2]
        own = raw[:, offset : offset + dtype.itemsize].copy()
        column = own.view("i8") if dtype.kind == "S" else own.view(dtype)[:, 0]
        found[name] = torch.from_dlpack(column)
    return found


def _match(torch: Any, same: Weights, other: Weights, same_id: int) -> Callable[..., Any]:
    """The best match of every new person: id, weight and measure."""

    def match(new: Columns, known: Columns) -> Any:
        weight: Any = 0.0
        agreeing: Any = 0
        for name in same:
            equal = _equal(new[name], known[name])
            weight = weight + torch.where(equal, same[name], other[name]).to(torch.float64)
            agreeing = agreeing + equal.to(torch.int32)
        exact = _equal(new["id"], known["id"])
        agreeing = torch.where(exact, same_id, agreeing)
        best = torch.argmax(weight + 1000.0 * exact, dim=1)
        where = best[:, None]
        return known["id"][best], weight.gather(1, where)[:, 0], agreeing.gather(1, where)[:, 0]

    return match


def _equal(left: Any, right: Any) -> Any:
    """Which elements of two columns are equal, for all pairs."""
    if left.ndim == 1:
        return left[:, None] == right
    pairs = (left[:, None, word] == right[:, word] for word in range(_WORDS))
    first, second, third = pairs
    return first & second & third
