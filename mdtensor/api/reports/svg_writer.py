"""A small SVG writer, coloured by CSS classes, so that pages have a dark mode."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from itertools import pairwise

# What XML cannot hold, however it is escaped: controls, and halves of surrogate pairs.
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Units of pictures, so that a phone shows them without making them smaller.
NARROW = 360
_POINT = 11  # of the font, in units of the picture
_RADIUS = 3.2

# Of pages and of pictures that stand alone; pictures name these classes and no colours.
COLOURS = """
:root { --ink: #1d2330; --soft: #5d6677; --rule: #c9cfda; --cell: #e6e9ef; --paper: #ffffff;
  --card: #f6f7fa; --accent: #1f5fbf; --other: #b4552d; --good: #1d7a4c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7eaf0; --soft: #a3acbd; --rule: #3b4354; --cell: #303848; --paper: #12161f;
    --card: #1a202c; --accent: #7db0ff; --other: #f0a077; --good: #6fd3a2; }
}
svg .paper { fill: var(--paper); }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
svg .soft { fill: var(--soft); } svg .small { font-size: 10px; }
svg .strong { font-weight: 600; } svg .line { stroke: var(--rule); fill: none; }
svg .roof, svg .best { stroke: var(--accent); fill: none; stroke-width: 1.6; }
svg .dotted { stroke: var(--soft); stroke-dasharray: 1.5 3; fill: none; }
svg .dashed { stroke: var(--good); stroke-dasharray: 5 3; fill: none; }
svg .cell { fill: var(--cell); } svg .bar { fill: var(--accent); }
svg .trial { fill: var(--soft); fill-opacity: .55; } svg .ours { fill: var(--accent); }
svg .before { fill: var(--soft); } svg .peer { fill: var(--other); }
svg .failed { stroke: var(--other); fill: none; } svg .badge { fill: var(--ink); }
svg .onbadge { fill: var(--paper); font-size: 9px; font-weight: 600; }
"""


def escaped(text: object) -> str:
    r"""A text escaped for HTML and XML, inside or outside of quotes.

    >>> escaped("<i & j>\x00"), escaped("\ud800")
    ('&lt;i &amp; j&gt;�', '�')
    """
    return html.escape(_UNSPEAKABLE.sub("\ufffd", str(text)))


def cut(text: str, characters: int) -> str:
    """A text truncated to a number of characters.

    >>> cut("reduction", 5)
    'redu…'
    """
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


class Picture:
    """An SVG picture that grows element by element; `title` is for screen readers.

    Every element belongs to a class of COLOURS.
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._elements: list[str] = []

    def text(
        self, x: float, y: float, text: str, kind: str = "", anchor: str = "start", most: int = 60
    ) -> None:
        """Draws a line of text; a truncated one has the whole as its tooltip."""
        shown = cut(text, most)
        whole = f"<title>{escaped(text)}</title>" if shown != text else ""
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        self._elements.append(f'<text {place} class="{kind}">{escaped(shown)}{whole}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """Draws a filled rectangle."""
        size = f'width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
        self._elements.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} rx="3" class="{kind}"/>')

    def path(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Draws straight lines from point to point."""
        steps = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self._elements.append(f'<path d="M{steps}" class="{kind}"/>')

    def dot(self, x: float, y: float, kind: str, title: str, radius: float = _RADIUS) -> None:
        """Draws a point, with its title as a tooltip."""
        place = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"'
        title = f"<title>{escaped(title)}</title>"
        self._elements.append(f'<circle {place} class="{kind}">{title}</circle>')

    def cross(self, x: float, y: float, title: str) -> None:
        """Draws a cross for a failed trial."""
        strokes = f"M{x - 2.5:.1f} {y - 2.5:.1f} l5 5 m0 -5 l-5 5"
        title = f"<title>{escaped(title)}</title>"
        self._elements.append(f'<path d="{strokes}" class="failed">{title}</path>')

    def svg(self, style: str = "") -> str:
        """The text of the picture; with COLOURS as its `style` it can stand alone."""
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        title = f"<title>{escaped(self.title)}</title>"
        own: list[str] = []
        if style:  # with a ground of its own, whatever it lies on
            own = [f"<style>{style}</style>", '<rect width="100%" height="100%" class="paper"/>']
        return "\n".join((head, title, *own, *self._elements, "</svg>"))


class LogScale:
    """A logarithmic axis from `begin` to `end`, with ticks."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self._low, self._high = math.log10(low), math.log10(high)
        if self._high - self._low < 1e-9:
            self._low, self._high = self._low - 0.5, self._high + 0.5
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        """The position of a value."""
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._begin + share * (self._end - self._begin)

    def ticks(self) -> list[float]:
        """Powers of ten; with 2 and 5 of each where these are few, and every other of many.

        >>> LogScale(1, 20, 0, 1).ticks()
        [1.0, 2.0, 5.0, 10.0, 20.0]
        """
        first, last = math.floor(self._low), math.ceil(self._high)
        few = self._high - self._low < 2.5
        step = 1 + round((self._high - self._low) // 7)
        steps = (1.0, 2.0, 5.0) if few else (1.0,)
        found = [m * 10.0**e for e in range(first, last + 1, step) for m in steps]
        slack = 1e-9
        return [v for v in found if self._low - slack <= math.log10(v) <= self._high + slack]


def spread(places: Sequence[float], least: float = _POINT) -> list[float]:
    """Positions moved apart along an axis to a distance of at least `least`.

    >>> spread([5, 4, 30], 11)
    [15, 4, 30]
    """
    order = sorted(range(len(places)), key=lambda n: places[n])
    found = list(places)
    for before, n in pairwise(order):
        found[n] = max(found[n], found[before] + least)
    return found
