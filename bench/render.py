"""The tables of all result files, and their plots: `python -m bench.render` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import plots
from bench.families import BEYOND, EINSUM
from bench.results import CaseResult, Run, read

RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parents[1] / "README.md"


@dataclass(frozen=True, slots=True)
class Quote:
    """What the README quotes of a kind of result file: where, and how its cases read there."""

    mark: str
    header: str
    cases: tuple[tuple[str, str], ...]


# By the ends of the files' names.
QUOTES = {
    EINSUM: Quote(
        "bench",
        "| einsum, float32 | tuned plan | best of NumPy, opt_einsum, torch | ratio |",
        (
            ("matrix product 1024³", "matmul-1024x1024x1024"),
            ("matrix product 64×800×500", "matmul-64x800x500"),
            ("matrix product 16×1000×2048", "matmul-16x1000x2048"),
            ("batched product 16×(10×500×64)", "bmatmul-16x10x500x64"),
            ("matrix times vector 4096²", "matvec-4096"),
            ("dot product 2²⁴", "dot-2^24"),
            ("CCSD(T) abcdef-gdab-efgc", "ccsdt-abcdef-gdab-efgc"),
            ("a layer of a small network, 50×64×500", "table6-01-50x64x500"),
        ),
    ),
    BEYOND: Quote(
        "bench-kernels",
        "| float32 | tuned call | best of NumPy, SciPy, numba, torch, jax | ratio |",
        (
            ("Gaussian blur 5×5, 4096²", "gaussian-4096x4096"),
            ("Jacobi 3-D, 256³", "jacobi3d-256^3"),
            ("prefix sum 2²⁴", "scan-add-2^24"),
            ("first convolution of ResNet-50", "mcc-resnet-1x230x230x3-64x7x7-s2"),
            ("the same on capsules", "capsule-resnet-1x230x230x3-64x7x7-s2-4x4"),
            ("min-plus product 1024³", "min-plus-1024x1024x1024"),
            ("log-sum-exp product 512³", "logsumexp-512x512x512"),
            ("argmax of rows 4096²", "argmax-rows-4096x4096"),
        ),
    ),
    f"{EINSUM}-cuda": Quote(
        "bench-cuda",
        "| einsum, float32 without tf32 | tuned plan | best of CuPy, torch, XLA | ratio |",
        (
            ("matrix product 1024³", "matmul-1024x1024x1024"),
            ("matrix product 4096³", "matmul-4096x4096x4096"),
            ("matrix product 8192³", "matmul-8192x8192x8192"),
            ("matrix product 16×4096×25088", "matmul-16x4096x25088"),
            ("matrix times vector 4096²", "matvec-4096"),
            ("CCSD(T) abcdef-gdab-efgc", "ccsdt-abcdef-gdab-efgc"),
            ("a layer of a small network, 50×64×500", "table6-01-50x64x500"),
        ),
    ),
    f"{BEYOND}-cuda": Quote(
        "bench-kernels-cuda",
        "| float32 | tuned call | best of CuPy, torch, XLA | ratio |",
        (
            ("Jacobi 3-D, 512³", "jacobi3d-512^3"),
            ("prefix sum 2²⁴", "scan-add-2^24"),
            ("argmax of rows 4096²", "argmax-rows-4096x4096"),
            ("first convolution of ResNet-50", "mcc-resnet-1x230x230x3-64x7x7-s2"),
            ("first convolution of VGG-16", "mcc-vgg-1x224x224x3-64x3x3"),
            ("last convolution of ResNet-50", "mcc-1x7x7x512-512x3x3"),
        ),
    ),
}
_TITLES = {EINSUM: "contractions", BEYOND: "beyond einsum"}
HEADER = """# Results

`make bench` measures these on the machine at hand. Every engine computes the same operands, is
checked against a float64 reference, and takes turns with the others in one run; times are medians
of the batches' medians. *Ratio*: time of the best peer / time of mdtensor when tuned: a plan for
contractions, a call of the public interface with `out=` for all else. *Limit*: the least time that
the multiply-adds and the memory of this device allow, as measured in the same run and process /
time of mdtensor. *Untuned*: time of mdtensor / its time before tuning.

On GPUs a time is that between two events on the stream, medians of calls that take turns, each
after more memory was read than the L2 cache holds; torch, CuPy and XLA compute float32 without
tf32. XLA has streams of its own: its times are the host's, less that of an empty call. *Limit* is
that of a copy of a gibibyte and of multiply-adds in registers, both measured in the same run; each
case begins with nothing in the caches. `torch compiled` is `torch.compile` with `max-autotune`.

`python -m bench.gpu_goals` says which demands the rows of GPUs reach, and `python -m bench.gpu_all
--out DIR --gpus 0,1 --within 560` measures them again, a process on each GPU with its share of the
cores; a second call goes on where the first one ended. `--missing`, `--stale DATE` and `--without
PEER` choose rows, `--what` other tools and the checks, `--dry-run` prints the plan; `--merge` takes
the rows of such a directory into the files here.
"""


def rendered(run: Run, name: str, drawn: Sequence[str] = ()) -> str:
    """The section of a run, with plots by their files' names."""
    return "\n".join(_lines(run, name, drawn)) + "\n"


def title_of(run: Run, name: str) -> str:
    """What a run measured, on what, and when."""
    device = f"{run.device['name']} × {run.device['cores']}"
    return f"{_TITLES[_family(name)]}: {device}, {days_of(run.cases) or run.date[:10]}"


def days_of(cases: Iterable[CaseResult]) -> str:
    """The day of some cases, or the first and the last one."""
    days = sorted({case.date[:10] for case in cases})
    return " to ".join(days[:1] + days[1:][-1:])


def _lines(run: Run, name: str, drawn: Sequence[str]) -> Iterator[str]:
    versions = ", ".join(f"{package} {version}" for package, version in run.versions.items())
    yield f"## {title_of(run, name)}"
    yield ""
    yield f"[{name}]({name}); {run.device['driver']}; Python {run.system['python']}, {versions}."
    yield ""
    if drawn:
        yield "Plots: " + ", ".join(f"[{_kind_of(plot)}]({plot})" for plot in drawn) + "."
        yield ""
    yield "| case | GFLOP | MB | mdtensor | best peer | ratio | floor | limit | untuned |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for case in run.cases:
        yield _row(case)
    yield ""
    for label, value in run.summary().items():
        yield f"- {label}: {value:.2f}"
    if host := run.system.get("host_seconds"):
        calls = ", ".join(f"{call} {_time(seconds)}" for call, seconds in host.items())
        yield f"- what a call on matrices of 10×64 and 64×500 costs the host: {calls}"
    if first := run.first_calls:
        yield (
            f"- first call on a new shape of a known structure: {_time(first['alone'])} alone, "
            f"{_time(first['in_a_row'])} where they follow each other; "
            f"at most {_time(first['largest'])}; {first['compilations']} calls compiled"
        )
    profiled = [case for case in run.cases if case.host is not None]
    if profiled:
        yield ""
        yield from _host_lines(profiled)


def _kind_of(plot: str) -> str:
    return plot.removesuffix(".svg").rpartition("-")[2]


def _family(name: str) -> str:
    """The family of a result file, by its name."""
    return BEYOND if f"-{BEYOND}" in name else EINSUM


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


def quote_in(readme: Path, quote: Quote, run: Run, name: str) -> None:
    """Puts the quoted cases of a run between their marks in a README that has them."""
    begin, end = (f"<!-- {quote.mark}:{place} -->" for place in ("begin", "end"))
    text = readme.read_text(encoding="utf-8")
    if begin not in text:
        return
    before, rest = text.split(begin)
    _, after = rest.split(end)
    table = "\n".join(_quoted(quote, run, name))
    readme.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")


def _quoted(quote: Quote, run: Run, name: str) -> Iterator[str]:
    cases = {case.name: case for case in run.cases}
    yield quote.header
    yield "|---|--:|--:|--:|"
    for label, wanted in quote.cases:
        case = cases.get(wanted)
        if case is not None and case.ours and case.peer and case.ratio:
            ours, peer = _time(case.ours.seconds), _time(case.peer.seconds)
            yield f"| {label} | {ours} | {peer} ({case.peer.engine}) | **{case.ratio:.2f}** |"
    days = days_of(cases[wanted] for _, wanted in quote.cases if wanted in cases)
    yield ""
    yield (
        f"{run.device['name']}, {run.device['cores']} cores, {run.device['driver']},"
        f" {days or run.date[:10]}, with `out=` where a call has it: [file](bench/results/{name})."
    )


def result_files(family: str = "*") -> list[Path]:
    """The result files of a family, or of all, the newest first."""
    return sorted(RESULTS.glob(f"*-{family}.json"), reverse=True)


def main() -> None:
    """Renders all result files."""
    sections: list[str] = []
    for path in result_files():
        run = read(path)
        drawn = plots.draw(run, path, title_of(run, path.name))
        sections.append(rendered(run, path.name, [plot.name for plot in drawn]))
    text = "\n".join([HEADER, *sections])
    (RESULTS / "README.md").write_text(text, encoding="utf-8")
    for kind, quote in QUOTES.items():
        for path in result_files(kind)[:1]:
            quote_in(README, quote, read(path), path.name)


if __name__ == "__main__":
    main()
