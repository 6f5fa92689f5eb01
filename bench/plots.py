"""Plots of the newest result files as SVG: `python -m bench.render` draws them beside the files.

A plot of a file's ratios to the best peer, one bar a case, and a roofline: how many operations a
second a case reaches at its intensity, under what multiply-adds and memory allow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from bench.results import CaseResult, Run

_BAR, _LEFT, _WIDTH, _TOP, _RIGHT = 13, 270, 900, 46, 60
_FONT = 'font-family="sans-serif" font-size="10"'
_BLUE, _RED, _GREY = "#3b6ea5", "#b5483a", "#999999"
_SIDE, _EDGE = 620, 60


def ratios(run: Run, title: str) -> str:
    """The ratio of every case to its best peer, on a logarithmic scale; below 1 in red."""
    cases = [case for case in run.cases if case.ratio]
    values = [float(case.ratio or 1.0) for case in cases]
    low, high = min([0.5, *values]), max([2.0, *values])
    first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
    scale = (_WIDTH - _LEFT - _RIGHT) / (last - first)

    def place(value: float) -> float:
        return _LEFT + (math.log2(value) - first) * scale

    height = _TOP + _BAR * len(cases) + 16
    lines = [_text(10, 16, title, "start"), _text(10, 30, "time of the best peer / ours", "start")]
    for exponent in range(first, last + 1):
        x = place(2.0**exponent)
        lines.append(_line(x, _TOP - 4, x, height - 12, _GREY if exponent else "black"))
        lines.append(_text(x, _TOP - 8, f"{2.0**exponent:g}", "middle"))
    for number, (case, value) in enumerate(zip(cases, values, strict=True)):
        y, one, x = _TOP + number * _BAR, place(1.0), place(value)
        colour = _BLUE if value >= 1 else _RED
        lines.append(_box(min(one, x), y + 1, abs(x - one), _BAR - 3, colour))
        lines.append(_text(_LEFT - 6, y + _BAR - 4, case.name, "end"))
        peer = case.peer
        said = f"{value:.2f} {peer.engine if peer else ''}"
        lines.append(_text(max(one, x) + 4, y + _BAR - 4, said, "start"))
    return _svg(_WIDTH, height, lines)


def roofline(run: Run, title: str) -> str | None:
    """Operations a second over operations a byte; None where no limits were measured."""
    cases = [case for case in run.cases if case.limit and case.ours]
    rates = [case.limit.fma_flops for case in cases if case.limit and case.limit.fma_flops]
    memory = [case.limit.read_bytes for case in cases if case.limit and case.limit.read_bytes]
    if not rates or not memory:
        return None
    peak, bandwidth = max(rates), max(memory)
    points = [(_intensity(case), _rate(case), case) for case in cases]
    left, right = _decades([x for x, _, _ in points] + [peak / bandwidth])
    bottom, top = _decades([y for _, y, _ in points] + [peak])

    def x_of(value: float) -> float:
        return _EDGE + (math.log10(value) - left) / (right - left) * (_SIDE - 2 * _EDGE)

    def y_of(value: float) -> float:
        return _SIDE - _EDGE - (math.log10(value) - bottom) / (top - bottom) * (_SIDE - 2 * _EDGE)

    lines = [
        _text(10, 16, title, "start"),
        _text(
            10,
            30,
            f"operations/s over operations/byte; {peak / 1e12:.3g} TFLOP/s float32,"
            f" {bandwidth / 1e9:.4g} GB/s",
            "start",
        ),
    ]
    for exponent in range(left, right + 1):
        x = x_of(10.0**exponent)
        lines.append(_line(x, _EDGE, x, _SIDE - _EDGE, "#dddddd"))
        lines.append(_text(x, _SIDE - _EDGE + 14, f"1e{exponent}", "middle"))
    for exponent in range(bottom, top + 1):
        y = y_of(10.0**exponent)
        lines.append(_line(_EDGE, y, _SIDE - _EDGE, y, "#dddddd"))
        lines.append(_text(_EDGE - 4, y + 3, f"1e{exponent}", "end"))
    knee = peak / bandwidth
    start = max(10.0**left, 10.0**bottom / bandwidth)
    lines.append(_line(x_of(start), y_of(start * bandwidth), x_of(knee), y_of(peak), "black"))
    lines.append(_line(x_of(knee), y_of(peak), x_of(10.0**right), y_of(peak), "black"))
    for x, y, case in points:
        colour = _BLUE if (case.ratio or 1) >= 1 else _RED
        lines.append(
            f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colour}">'
            f"<title>{escape(case.name)}</title></circle>"
        )
    return _svg(_SIDE, _SIDE, lines)


def draw(run: Run, path: Path, title: str) -> Iterator[Path]:
    """Writes the plots of a result file beside it; the paths of those that there are."""
    for kind, text in (("ratios", ratios(run, title)), ("roofline", roofline(run, title))):
        if text is not None:
            plot = path.with_name(f"{path.stem}-{kind}.svg")
            plot.write_text(text, encoding="utf-8")
            yield plot


def _intensity(case: CaseResult) -> float:
    return case.flops / case.bytes


def _rate(case: CaseResult) -> float:
    return case.flops / case.ours.seconds if case.ours else 0.0


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten between which values lie.

    >>> _decades([3.0, 250.0])
    (0, 3)
    """
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {_FONT} text-anchor="{anchor}">{escape(text)}</text>'


def _line(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}"/>'


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    size = f'width="{width:.1f}" height="{height:.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{colour}"/>'


def _svg(width: int, height: int, lines: Sequence[str]) -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join((head, _box(0, 0, width, height, "white"), *lines, "</svg>")) + "\n"
