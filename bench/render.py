"""The Markdown table of all result files: `python -m bench.render` writes results/README.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.results import CaseResult, Run, read

RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parents[1] / "README.md"
# What the README quotes: how it reads there, and the case's name.
QUOTED = (
    ("matrix product 1024³", "matmul-1024x1024x1024"),
    ("matrix product 64×800×500", "matmul-64x800x500"),
    ("matrix product 16×1000×2048", "matmul-16x1000x2048"),
    ("batched product 16×(10×500×64)", "bmatmul-16x10x500x64"),
    ("matrix times vector 4096²", "matvec-4096"),
    ("dot product 2²⁴", "dot-2^24"),
    ("CCSD(T) abcdef-gdab-efgc", "ccsdt-abcdef-gdab-efgc"),
    ("a layer of a small network, 50×64×500", "table6-01-50x64x500"),
)
HEADER = """# Results

`make bench` measures these on the machine at hand. Every engine computes the same operands, is
checked against a float64 reference, and takes turns with the others in one run; times are medians
of the batches' medians. *Ratio*: time of the best peer / time of the tuned plan. *Limit*: the
least time that the multiply-adds and the memory of this device allow, as measured in the same
run / time of the tuned plan. *Untuned*: time of the tuned plan / time before tuning.
"""


def rendered(run: Run, name: str) -> str:
    """The section of a run."""
    return "\n".join(_lines(run, name)) + "\n"


def _lines(run: Run, name: str) -> Iterator[str]:
    versions = ", ".join(f"{package} {version}" for package, version in run.versions.items())
    yield f"## {run.device['name']} × {run.device['cores']}, {run.date[:10]}"
    yield ""
    yield f"[{name}]({name}); {run.device['driver']}; Python {run.system['python']}, {versions}."
    yield ""
    yield "| case | GFLOP | MB | mdtensor | best peer | ratio | floor | limit | untuned |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for case in run.cases:
        yield _row(case)
    yield ""
    for label, value in run.summary().items():
        yield f"- {label}: {value:.2f}"
    if first := run.first_calls:
        yield (
            f"- first call on a new shape of a known structure: {_time(first['alone'])}; "
            f"{_time(first['in_a_row'])} while better kernels are compiled in the background; "
            f"at most {_time(first['largest'])}; {first['compilations']} calls compiled"
        )
    profiled = [case for case in run.cases if case.host is not None]
    if profiled:
        yield ""
        yield from _host_lines(profiled)


def _row(case: CaseResult) -> str:
    ours, peer, limit = case.ours, case.peer, case.limit
    floor = "" if case.floor is None else f"{case.floor:g}{_missed(case.ratio, case.floor)}"
    cells = (
        case.name,
        f"{case.flops / 1e9:.3g}",
        f"{case.bytes / 1e6:.3g}",
        _time(ours.seconds) if ours else "–",
        f"{_time(peer.seconds)} {peer.engine} {peer.call}" if peer else "–",
        f"**{case.ratio:.2f}**" if case.ratio else "–",
        floor,
        f"{case.limit_ratio:.0%} {limit.bound}{_missed(case.limit_ratio, case.limit_floor)}"
        if limit and case.limit_ratio
        else "–",
        f"{case.untuned_ratio:.2f}" if case.untuned_ratio else "–",
    )
    return f"| {' | '.join(cells)} |"


def _missed(value: float | None, floor: float | None) -> str:
    return "" if floor is None or (value is not None and value >= floor) else " missed"


def _host_lines(cases: list[CaseResult]) -> Iterator[str]:
    yield "Small cases: a call after another, a call after a pause, and the time beyond the"
    yield "enqueue of the kernel and the wait for it."
    yield ""
    yield "| case | enqueue | plan | beyond | einsum | beyond | plan, asleep | einsum, asleep |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for case in cases:
        profile: dict[str, Any] = case.host or {}
        hot, beyond, asleep = profile["hot"], profile["beyond_enqueue"], profile["asleep"]
        times = (
            hot["enqueue"],
            hot["plan"],
            beyond["plan"],
            hot["einsum"],
            beyond["einsum"],
            asleep["plan"],
            asleep["einsum"],
        )
        yield f"| {case.name} | {' | '.join(map(_time, times))} |"


def _time(seconds: float) -> str:
    """A time in a unit that fits.

    >>> _time(2.5e-6), _time(0.0123)
    ('2.50 µs', '12.3 ms')
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if abs(seconds) * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.2f} µs" if abs(seconds) < 1e-4 else f"{seconds * 1e6:.0f} µs"


def quote_in(readme: Path, run: Run, name: str) -> None:
    """Puts the cases of `QUOTED` between the marks in a README."""
    begin, end = "<!-- bench:begin -->", "<!-- bench:end -->"
    before, rest = readme.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    table = "\n".join(_quoted(run, name))
    readme.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")


def _quoted(run: Run, name: str) -> Iterator[str]:
    cases = {case.name: case for case in run.cases}
    yield "| einsum, float32 | tuned plan | best of NumPy, opt_einsum, torch | ratio |"
    yield "|---|--:|--:|--:|"
    for label, wanted in QUOTED:
        case = cases.get(wanted)
        if case is not None and case.ours and case.peer and case.ratio:
            ours, peer = _time(case.ours.seconds), _time(case.peer.seconds)
            yield f"| {label} | {ours} | {peer} ({case.peer.engine}) | **{case.ratio:.2f}** |"
    yield ""
    yield (
        f"{run.device['name']}, {run.device['cores']} cores, {run.date[:10]}; all cases, limits and"
        f" versions: [bench/results](bench/results/README.md), from `{name}`."
    )


def main() -> None:
    """Renders all result files, the newest first."""
    paths = sorted(RESULTS.glob("*-einsum.json"), reverse=True)
    sections = [rendered(read(path), path.name) for path in paths]
    text = "\n".join([HEADER, *sections])
    (RESULTS / "README.md").write_text(text, encoding="utf-8")
    if paths:
        quote_in(README, read(paths[0]), paths[0].name)


if __name__ == "__main__":
    main()
