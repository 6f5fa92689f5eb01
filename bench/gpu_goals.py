"""What is demanded of cases on an H200, and which of it the results reach.

`python -m bench.gpu_goals` prints a row for each demanded case, from the newest result files.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.results import CaseResult, geomean


@dataclass(frozen=True, slots=True)
class Goal:
    """Least ratios of cases, by a pattern of their names: to the best peer, and to the limit."""

    cases: str
    ratio: float | None
    limit: float | None = None

    def missed_by(self, row: CaseResult) -> bool:
        """Whether a case's result falls short."""
        pairs = ((self.ratio, row.ratio), (self.limit, row.limit_ratio))
        return any(least is not None and (value or 0.0) < least for least, value in pairs)


GOALS = (
    Goal("matmul-4096x4096x4096", 0.95),
    Goal("matmul-8192x8192x8192", 0.95),
    Goal("matmul-1024x1024x1024", 1.05),
    Goal("matmul-10x500x64", 1.3),
    Goal("bmatmul-16x10x500x64", 1.3),
    Goal("matmul-16x1000x2048", 1.1),
    Goal("matmul-1x1000x2048", 1.0),
    Goal("matmul-16x4096x25088", 1.4),
    Goal("matmul-1x4096x25088", 1.0),
    Goal("table6-*", 1.0),
    Goal("dot-2^24", 1.1, 0.9),
    Goal("jacobi3d-512^3", 1.1, 0.95),
    Goal("jacobi3d-256^3", 1.1, 0.88),
    Goal("matvec-4096", 1.1, 0.85),
    Goal("scan-add-2^24", 1.1, 0.65),
    Goal("ccsdt-*", 1.4),
    Goal("mcc-1x7x7x512-512x3x3", 5.0),
    Goal("mcc-*", 1.0),
    Goal("capsule-*", 3.0),
    Goal("prl-*", 2.0),
    Goal("histogram-*", 2.0),
    Goal("argmax-*", 2.0),
    Goal("min-plus-*", 2.0),
)
"""A case's goal is the first that its name fits."""
# Least geometric means over all cases of a pattern: to the best peer, and untuned to tuned.
TABLE6, TABLE6_RATIO, UNTUNED = "table6-*", 1.3, 0.6


def goal_of(name: str) -> Goal | None:
    """What is demanded of a case; None where nothing is.

    >>> goal_of("mcc-vgg-1x224x224x3-64x3x3")
    Goal(cases='mcc-*', ratio=1.0, limit=None)
    """
    return next((goal for goal in GOALS if fnmatch.fnmatchcase(name, goal.cases)), None)


def table_of(cases: Sequence[str], rows: Mapping[str, CaseResult]) -> Iterator[str]:
    """A line for each of the cases of which something is demanded, then the geometric means."""
    yield "| case | measured | best peer | ratio | wanted | of the limit | wanted | |"
    yield "|---|---|---|--:|--:|--:|--:|---|"
    for name in cases:
        goal, row = goal_of(name), rows.get(name)
        if goal is None:
            continue
        if row is None:
            cells = ["never", "", "", _said(goal.ratio), "", _said(goal.limit), "missing"]
        else:
            peer = f"{row.peer.engine} {row.peer.call}" if row.peer else ""
            short = "falls short" if goal.missed_by(row) else ""
            of_limit = _said(row.limit_ratio)
            cells = [row.date[:10], peer, _said(row.ratio), _said(goal.ratio), of_limit]
            cells += [_said(goal.limit), short]
        yield f"| {name} | " + " | ".join(cells) + " |"
    found = [rows[name] for name in cases if name in rows]
    networks = [row.ratio for row in found if fnmatch.fnmatchcase(row.name, TABLE6)]
    yield ""
    if networks:
        yield f"{TABLE6}: geomean {_said(geomean(networks))}, wanted {TABLE6_RATIO}"
    untuned = geomean(row.untuned_ratio for row in found)
    yield f"untuned to tuned: geomean {_said(untuned)}, wanted {UNTUNED}"


def _said(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> None:
    from bench.cuda_cases import CASES
    from bench.gpu_plan import newest_rows

    for family, workloads in CASES.items():
        names = [workload.name for workload in workloads]
        print(f"{family}\n", *table_of(names, newest_rows(family)), "", sep="\n")


if __name__ == "__main__":
    main()
