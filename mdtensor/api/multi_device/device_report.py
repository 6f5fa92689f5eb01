"""Reports of a division over devices: the boxes that each reads and writes, and their bytes."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.api.multi_device.tasks import SlotBox, Tasks, spec_of_view
from mdtensor.byte_counts import in_words
from mdtensor.translate.rewrites.parts import Box


def report_of(tasks: Tasks, names: Sequence[str]) -> str:
    """A paragraph per device: the boxes that it reads and writes, task by task."""
    return "\n".join(
        line for device, name in enumerate(names) for line in _of_device(tasks, device, name)
    )


def _of_device(tasks: Tasks, device: int, name: str) -> list[str]:
    own = [task for task in tasks.tasks if task.device == device]
    if not own:
        return [f"{name}: nothing"]
    read = [view for task in own for view in task.reads]
    written = [view for task in own for view in task.writes]
    said = f"{name}: reads {_size(tasks, read)}, writes {_size(tasks, written)}"
    to, back = (
        [view for view in views if not tasks.is_there(view, device)] for views in (read, written)
    )
    if to or back:
        said += f"; {_size(tasks, to)} copied to it, {_size(tasks, back)} back"
    lines = [said]
    for task in own:
        lines += [
            f"  {task.md_hom!r}",
            f"    reads {_said(tasks, task.reads)}",
            f"    writes {_said(tasks, task.writes)}",
        ]
    return lines


def _size(tasks: Tasks, views: Sequence[SlotBox]) -> str:
    return in_words(sum(spec_of_view(tasks.specs, view).nbytes for view in views))


def _said(tasks: Tasks, views: Sequence[SlotBox]) -> str:
    said = [f"{tasks.names[view.slot]}{box_text(view.box)}" for view in views]
    return ", ".join(said) or "nothing"


def box_text(box: Box) -> str:
    """A box as the text of a slice.

    >>> box_text((slice(0, 352, 1), slice(1, 300, 2)))
    '[0:352, 1:300:2]'
    """
    axes = [f"{a.start}:{a.stop}" + (f":{a.step}" if a.step != 1 else "") for a in box]
    return f"[{', '.join(axes)}]"
