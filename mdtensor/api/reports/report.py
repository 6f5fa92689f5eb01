"""`report`: an HTML page on computations, from the store and from records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from mdtensor.api.engine.tuning_mode import RecordedCall, Recording
from mdtensor.api.reports.report_page import figures_of, page_of
from mdtensor.api.reports.report_subject import (
    Subject,
    checked_peers,
    subject_of_recorded,
    subjects_in_store,
)
from mdtensor.api.reports.svg_writer import COLOURS
from mdtensor.api.tuning.tune import recorded_items
from mdtensor.errors import ArgumentError, ReportError, shown
from mdtensor.paths import write_whole


def report(
    file: str | os.PathLike[str],
    work: Recording | RecordedCall | Iterable[RecordedCall] | None = None,
    *,
    peers: Mapping[str, float] | None = None,
    pictures: str | os.PathLike[str] | None = None,
) -> None:
    """Writes an HTML page with pictures, on recorded computations or on the whole store.

    `work` is what `with mdtensor.tuning("record") as seen:` gave, or some of it; None stands for
    all that the store has. The page has a table of untuned and tuned times and, for each
    computation, the trials of its search and what its tuning parameters explain; for `work` also
    the (de/re)-composition, the roofline, the `md_hom` and the kernel's source. `peers` are
    seconds that other libraries take for the one computation, by their names. The file needs
    nothing beside it, is written whole or not at all, and replaces what was there. In the folder
    `pictures` each picture is a file of SVG too, such as `0-roofline.svg` of the first computation.

    Raises ReportError where a file cannot be written, TuningError for what was not recorded,
    ArgumentError for what is no path and for peers' times that are none.

    >>> import mdtensor, numpy as np, tempfile
    >>> with mdtensor.tuning("record") as seen:
    ...     _ = mdtensor.einsum("ij,j->i", np.ones((3, 4), "f4"), np.ones(4, "f4"))
    >>> page = Path(tempfile.mkdtemp(), "report.html")
    >>> report(page, seen, peers={"numpy.einsum": 2e-6})
    >>> "md_hom[i:3, j:4]" in page.read_text(encoding="utf-8")
    True
    """
    place = _checked_path(file)
    if work is None:
        if peers is not None:
            raise ArgumentError("peers are for one computation, and the report is on the store")
        write_page(place, "all that was tuned", subjects_in_store(), pictures)
        return
    items = recorded_items(work)
    times = checked_peers(peers, len(items))
    title = items[0].label if len(items) == 1 else f"{len(items)} computations"
    write_page(place, title, [subject_of_recorded(item, times) for item in items], pictures)


def write_page(
    file: str | os.PathLike[str],
    title: str,
    subjects: Sequence[Subject],
    pictures: str | os.PathLike[str] | None = None,
) -> None:
    """Writes the page on some subjects, and its pictures to a folder, created if needed.

    Raises ReportError where a file cannot be written.
    """
    place = _checked_path(file)
    folder = None if pictures is None else _checked_path(pictures)
    write_whole(place, page_of(title, subjects), ReportError)
    if folder is None:
        return
    try:
        folder.mkdir(exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ReportError(f"cannot make the folder {folder}: {reason}") from error
    for number, subject in enumerate(subjects):
        for figure in figures_of(subject):
            picture = folder / f"{number}-{figure.name}.svg"
            write_whole(picture, figure.picture.svg(COLOURS), ReportError)


def _checked_path(given: object) -> Path:
    if not isinstance(given, str | os.PathLike):
        raise ArgumentError(f"{shown(given)} is no path", hint='such as "report.html"')
    path = os.fspath(cast("str | os.PathLike[Any]", given))
    if not isinstance(path, str):
        raise ArgumentError(f"{shown(path)} is no path", hint="a path that is a str")
    return Path(path)
