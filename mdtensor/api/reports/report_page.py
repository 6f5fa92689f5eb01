"""The page of a report: self-contained HTML, with style and pictures inline."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import mdtensor
from mdtensor.api.reports.decomposition_picture import decomposition_picture
from mdtensor.api.reports.parameter_importance import (
    LEAST_TRIALS,
    importance,
    importance_picture,
)
from mdtensor.api.reports.report_subject import ReportSubject, Subject
from mdtensor.api.reports.search_pictures import roofline_picture, trials_picture
from mdtensor.api.reports.svg_writer import COLOURS, NARROW, Picture, cut, escaped
from mdtensor.autotune.progress import format_time
from mdtensor.dataclass import dataclass
from mdtensor.errors import count_of

# Of a kernel's text; `explain` prints all of it.
_MOST_SOURCE = 200_000
# Computations whose parts are open when the page is.
_MOST_OPEN = 4
# Characters of labels, of which those of functions may be pages.
_LONGEST = 400

_STYLE = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 20px 16px 48px; }
h1 { font-size: 1.45rem; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0; display: inline; overflow-wrap: anywhere; }
h3 { font-size: .9rem; margin: 14px 0 6px; } figure h3 { margin-top: 0; }
p { margin: 4px 0; } .note { color: var(--soft); font-size: .85rem; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; margin: 12px 0; }
th, td { text-align: right; padding: 5px 8px; border-bottom: 1px solid var(--rule);
  white-space: nowrap; vertical-align: top; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 11rem;
  padding-left: 0; overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; }
details.subject { border-top: 1px solid var(--rule); padding: 14px 0; }
summary { cursor: pointer; }
.pictures { display: grid; gap: 14px; margin-top: 12px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); }
figure { margin: 0; padding: 12px; background: var(--card); border-radius: 8px; min-width: 0; }
figure svg { display: block; width: 100%; height: auto; max-width: 560px; margin: 0 auto; }
figcaption { color: var(--soft); font-size: .8rem; margin-top: 6px; }
pre { background: var(--card); border-radius: 8px; padding: 12px; margin: 8px 0; font-size: .78rem;
  overflow: auto; max-height: 30rem; }
a { color: var(--accent); }
@media (max-width: 640px) {
  figure { padding: 8px; }
  thead { display: none; } tr { display: block; border-bottom: 1px solid var(--rule); }
  th, td { border: 0; } td { display: inline-block; padding: 3px 12px 3px 0; }
  td:first-child { display: block; }
  td:not(:first-child)::before { content: attr(data-head) " "; color: var(--soft); }
}
"""
# Whatever is in a label, a browser runs nothing and asks for nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture with its title and caption; `name` is its file name."""

    name: str
    title: str
    picture: Picture
    caption: str


def page_of(title: str, subjects: Sequence[Subject]) -> str:
    """The text of the whole page, in HTML 5."""
    parts = [_table(subjects)] if subjects else ["<p>Nothing is tuned or computed yet.</p>"]
    for number, subject in enumerate(subjects):
        parts.append(_section(subject, number, is_open=number < _MOST_OPEN))
    environments = dict.fromkeys(subject.environment for subject in subjects)
    devices = escaped("; ".join(environments))
    made = time.strftime("%Y-%m-%d %H:%M")
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(cut(title, _LONGEST))} – mdtensor</title>\n"
        f"<style>{COLOURS}{_STYLE}</style>\n</head>\n"
    )
    return (
        f"{head}<body>\n<main>\n<h1>{escaped(cut(title, _LONGEST))}</h1>\n"
        f'<p class="note">mdtensor {escaped(mdtensor.__version__)}, {made}'
        f"{'; ' if devices else ''}{devices}</p>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _table(subjects: Sequence[Subject]) -> str:
    """The table of untuned and tuned times of all computations, with speed-ups."""
    heads = ["untuned", "tuned", "gain", "saved a call", "trials"]
    if any(subject.calls != 1 for subject in subjects):
        heads.insert(0, "calls")
    rows: list[str] = []
    for number, subject in enumerate(subjects):
        untuned, tuned, gain = subject.untuned, subject.tuned, subject.gain
        saved = untuned - tuned if untuned and tuned else None
        cells = {
            "calls": str(subject.calls),
            "untuned": _time(untuned),
            "tuned": _time(tuned),
            "gain": "–" if gain is None else f"{gain:.2f} ×",
            "saved a call": "–" if saved is None or saved < 0 else format_time(saved),
            "trials": str(len(subject.trials)),
        }
        texts = [f'<td data-head="{head}">{escaped(cells[head])}</td>' for head in heads]
        label = f'<a href="#c{number}">{escaped(cut(subject.label, _LONGEST))}</a>'
        rows.append(f"<tr><td>{label}</td>{''.join(texts)}</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("computation", *heads))
    note = (
        "Untuned is what would run without the search, as it took turns with the winner at the end,"
        " or in the first trial; tuned is the winner."
    )
    whole = _in_all(subjects)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n'
        + "\n".join(rows)
        + f'\n</tbody></table></div>\n<p class="note">{escaped(note + whole)}</p>'
    )


def _in_all(subjects: Sequence[Subject]) -> str:
    """The speed-up of all calls together, over the computations with both times known."""
    known = [s for s in subjects if s.untuned and s.tuned]
    if len(known) < 2:
        return ""
    before = sum(s.calls * (s.untuned or 0.0) for s in known)
    after = sum(s.calls * (s.tuned or 0.0) for s in known)
    return f" All calls together: {before / after:.2f} × as fast as untuned."


def _section(subject: Subject, number: int, *, is_open: bool) -> str:
    figures = [*map(_figure, figures_of(subject))]
    if subject.trials and not importance(subject.trials):
        text = f"A search of {LEAST_TRIALS} trials or more tells which parameters matter."
        figures.append(f"<figure><figcaption>{text}</figcaption></figure>\n")
    keys = f"{escaped(subject.problem)}<br>{escaped(subject.environment)}"
    # Where the table leads: within the folded part, which browsers unfold then.
    opened = " open" if is_open else ""
    return (
        f'<details class="subject"{opened}>\n'
        f"<summary><h2>{escaped(cut(subject.label, _LONGEST))}</h2></summary>\n"
        f'<p class="note" id="c{number}">{keys}</p>\n'
        f'<div class="pictures">\n{"".join(figures)}</div>\n'
        f"{'' if subject.kernel is None else _texts(subject.kernel)}</details>"
    )


def figures_of(subject: Subject) -> Iterator[Figure]:
    """Yields the figures that a subject's data allow."""
    kernel = subject.kernel
    labels: Sequence[str] = ()
    if kernel is not None:
        problem, schedule = kernel.choice.problem, kernel.choice.schedule
        labels = problem.labels
        yield Figure(
            "decomposition",
            "(De/re)-composition",
            decomposition_picture(kernel.md_hom, problem, schedule),
            "Layers of the device from top to bottom: parts of each dim, and points of a part; in"
            " boxes the order of the steps; shaded: tuning parameters that divide a dim.",
        )
        roofline = roofline_picture(problem, kernel.target, _times(subject), subject.peers)
        if roofline is not None:
            yield Figure(
                "roofline",
                "Roofline",
                roofline,
                "Rates are those by which the cost model ranks schedules; arrays that fit into"
                " caches may be above memory's slope.",
            )
    trials = trials_picture(subject.trials, subject.tuned)
    if trials is not None:
        text = "Time of each trial; pauses between searches are left out."
        yield Figure("search", "Search", trials, text)
    shares = importance(subject.trials, labels)
    if shares:
        yield Figure(
            "importance",
            "Importance of tuning parameters",
            importance_picture(shares),
            "Share of the variance of log time that a parameter's value explains alone (epsilon"
            " squared). Parameters that change together share what they explain.",
        )


def _times(subject: Subject) -> dict[str, float]:
    """The seconds untuned and tuned, or the cost model's estimate if nothing was measured."""
    found = {"untuned": subject.untuned, "tuned": subject.tuned}
    times = {name: seconds for name, seconds in found.items() if seconds}
    if not times and subject.kernel is not None and subject.kernel.choice.seconds:
        times["expected"] = subject.kernel.choice.seconds
    return times


def _figure(figure: Figure) -> str:
    width = figure.picture.width
    # Below its own width a picture is not shrunk, so that it stays legible, but scrolled.
    least = f' style="min-width:{width:g}px"' if width > NARROW else ""
    return (
        f'<figure><h3>{escaped(figure.title)}</h3><div class="scroll"><div{least}>\n'
        f"{figure.picture.svg()}\n</div></div>"
        f"<figcaption>{escaped(figure.caption)}</figcaption></figure>\n"
    )


def _texts(kernel: ReportSubject) -> str:
    """The definition, the schedule and the source, which is collapsed."""
    choice = kernel.choice
    source = choice.source.text
    left = len(source) - _MOST_SOURCE
    note = f"\n… {count_of(left, 'character', 'characters')} more" if left > 0 else ""
    lines = count_of(source.count("\n") + 1, "line", "lines")
    origin = "store: tuned" if choice.origin == "tuned" else choice.origin
    return (
        f"<h3>md_hom</h3>\n<pre>{escaped(kernel.md_hom.describe())}</pre>\n"
        f"<h3>Schedule, from the {escaped(origin)}</h3>\n"
        f"<pre>{escaped(choice.schedule.describe(choice.problem))}</pre>\n"
        f"<details><summary>Source in {escaped(choice.source.dialect)}, {lines}</summary>\n"
        f"<pre>{escaped(source[:_MOST_SOURCE] + note)}</pre></details>\n"
    )


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else format_time(seconds)
