"""What a run found, as values and as a JSON file."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.engines import OURS, UNTUNED
from bench.workload import CALL, PLAN, Workload

VERSION = 1


@dataclass(frozen=True)
class Measurement:
    """One call of one engine: the median of the batches' medians, in seconds."""

    engine: str
    call: str
    seconds: float
    spread: float
    batches: tuple[float, ...]
    error: float


@dataclass(frozen=True)
class Limit:
    """The least seconds that the device allows, what bounds them, and the rates measured."""

    seconds: float
    bound: str
    fma_flops: float | None
    read_bytes: float | None
    write_bytes: float | None


@dataclass(frozen=True)
class CaseResult:
    """A case: what was measured in one run, and why a call is missing.

    `subscripts` is the einsum string, or what a case beyond einsum computes, and `dtype` the type
    of its first operand. `load` is the number of threads that wanted a core in the minute before,
    this run's included; `refused` says by engine and call what was wrong with those left out.
    """

    name: str
    subscripts: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    flops: int
    bytes: int
    date: str
    processes: str
    measurements: tuple[Measurement, ...]
    refused: dict[str, str] = field(default_factory=dict[str, str])
    load: float = 0.0
    tuning: dict[str, Any] | None = None
    limit: Limit | None = None
    host: dict[str, Any] | None = None
    floor: float | None = None
    limit_floor: float | None = None

    def best(self, engine: str, call: str | None = None) -> Measurement | None:
        """The fastest call of an engine, or the one of that name."""
        found = [m for m in self.measurements if m.engine == engine and call in (None, m.call)]
        return min(found, key=lambda m: m.seconds, default=None)

    @property
    def ours(self) -> Measurement | None:
        """The tuned plan, or call."""
        return self.best(OURS, PLAN) or self.best(OURS, CALL)

    @property
    def untuned(self) -> Measurement | None:
        """The plan or call before tuning."""
        return self.best(UNTUNED, PLAN) or self.best(UNTUNED, CALL)

    @property
    def peer(self) -> Measurement | None:
        """The fastest call of all peers."""
        found = [m for m in self.measurements if m.engine not in (OURS, UNTUNED)]
        return min(found, key=lambda m: m.seconds, default=None)

    @property
    def ratio(self) -> float | None:
        """How many times faster than the best peer mdtensor is when tuned."""
        return _quotient(self.peer, self.ours)

    @property
    def untuned_ratio(self) -> float | None:
        """The speed without tuning as a share of the speed with it."""
        return _quotient(self.ours, self.untuned)

    @property
    def limit_ratio(self) -> float | None:
        """The speed when tuned as a share of the limit."""
        if self.limit is None or self.ours is None:
            return None
        return self.limit.seconds / self.ours.seconds

    @property
    def ok(self) -> bool | None:
        """Whether the floors are reached; None where there are none."""
        if self.floor is None and self.limit_floor is None:
            return None
        return not self.missed

    @property
    def missed(self) -> list[str]:
        """The floors that are not reached, in words."""
        demands = {
            "the best peer": (self.floor, self.ratio),
            "the limit": (self.limit_floor, self.limit_ratio),
        }
        return [
            f"below {floor:g} of {what}"
            for what, (floor, value) in demands.items()
            if floor is not None and (value is None or value < floor)
        ]


@dataclass(frozen=True)
class Run:
    """All cases of a run, and where and with what they were measured."""

    date: str
    device: dict[str, Any]
    system: dict[str, Any]
    versions: dict[str, str]
    settings: dict[str, Any]
    cases: tuple[CaseResult, ...] = ()
    first_calls: dict[str, Any] | None = None
    version: int = VERSION

    def summary(self) -> dict[str, float]:
        """The geometric means over cases, and the times of small calls, as far as measured."""
        small = [c for c in self.cases if c.flops < 1_000_000]
        large = [c for c in self.cases if c.flops >= 1_000_000]
        untuned = [c.untuned_ratio for c in self.cases if c.untuned_ratio]
        found = {
            "geomean to best peer, from 1 MFLOP": geomean(c.ratio for c in large),
            "geomean to best peer, below 1 MFLOP": geomean(c.ratio for c in small),
            **_to_numpy("below 1 MFLOP", small),
            **_to_numpy("Table 6", [c for c in self.cases if c.name.startswith("table6-")]),
            "geomean untuned to tuned": geomean(untuned),
            "least untuned to tuned": min(untuned, default=None),
        }
        return {name: value for name, value in found.items() if value is not None}

    def with_case(self, case: CaseResult) -> Run:
        """The run with one more case, in place of an earlier result of the same name."""
        names = [c.name for c in self.cases]
        cases = list(self.cases)
        if case.name in names:
            cases[names.index(case.name)] = case
        else:
            cases.append(case)
        return dataclasses.replace(self, cases=tuple(cases))


def geomean(values: Iterable[float | None]) -> float | None:
    """The geometric mean of what is there, or None.

    >>> geomean([2.0, None, 8.0])
    4.0
    """
    logs = [math.log(value) for value in values if value]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _quotient(above: Measurement | None, below: Measurement | None) -> float | None:
    return above.seconds / below.seconds if above is not None and below is not None else None


def _to_numpy(group: str, cases: Sequence[CaseResult]) -> dict[str, float | None]:
    """How calls and plans compare with NumPy's plain einsum and its product, over a group."""
    return {
        f"{group}, {ours} to numpy.{peer}": geomean(
            _quotient(case.best("numpy", peer), case.best(OURS, ours)) for case in cases
        )
        for peer in ("einsum", "matmul")
        for ours in ("einsum", PLAN)
    }


def case_of(workload: Workload, **found: Any) -> CaseResult:
    """The result of a case from what was measured."""
    return CaseResult(
        name=workload.name,
        subscripts=workload.formula,
        shapes=tuple(spec.shape for spec in workload.inputs),
        dtype=str(workload.inputs[0].dtype),
        flops=workload.flops,
        bytes=workload.bytes_read + workload.bytes_written,
        floor=workload.floor,
        limit_floor=workload.limit_floor,
        **found,
    )


def to_json(run: Run) -> str:
    """The text of a result file: the values, and what is derived from them for other readers."""
    document = dataclasses.asdict(run)
    document["summary"] = run.summary()
    for entry, case in zip(document["cases"], run.cases, strict=True):
        entry["derived"] = {
            "seconds": case.ours and case.ours.seconds,
            "untuned_seconds": case.untuned and case.untuned.seconds,
            "best_peer": case.peer and f"{case.peer.engine} {case.peer.call}",
            "ratio_to_best_peer": case.ratio,
            "ratio_to_limit": case.limit_ratio,
            "untuned_to_tuned": case.untuned_ratio,
            "ok": case.ok,
        }
    return json.dumps(document, indent=1) + "\n"


def from_json(text: str) -> Run:
    """The run of a result file; ValueError where it is none, TypeError for unknown fields."""
    document = json.loads(text)
    if document.get("version") != VERSION:
        raise ValueError(f"no result file of version {VERSION}")
    document.pop("summary", None)
    document["cases"] = tuple(_case(entry) for entry in document.get("cases", ()))
    return Run(**document)


def _case(entry: dict[str, Any]) -> CaseResult:
    entry = {name: value for name, value in entry.items() if name != "derived"}
    for measured in entry["measurements"]:
        measured["batches"] = tuple(measured["batches"])
    entry["measurements"] = tuple(Measurement(**measured) for measured in entry["measurements"])
    entry["shapes"] = tuple(tuple(shape) for shape in entry["shapes"])
    entry["limit"] = entry.get("limit") and Limit(**entry["limit"])
    return CaseResult(**entry)


def read(path: Path) -> Run:
    """The run in a file."""
    return from_json(path.read_text(encoding="utf-8"))


def write(run: Run, path: Path) -> None:
    """Writes a run's file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(to_json(run), encoding="utf-8")
    draft.replace(path)
