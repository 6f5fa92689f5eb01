"""Every error that mdtensor raises: one base class, rendered in one place; and its warning."""

from __future__ import annotations

import inspect
import reprlib
import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

_WIDEST = 160  # columns of a text that are shown
_LONGEST = 2000  # characters of any other line


class MdtensorError(Exception):
    """Base of all errors of mdtensor: what is wrong, where, and a way out.

    `text` is the expression or source concerned, `carets` the positions in it, `notes` further
    lines (operand shapes, numbered source), `hint` the way out. All are plain fields; `str()`
    renders them.

    >>> print(MdtensorError("unknown index", text="ij->k", carets=(4,), hint="use 'i' or 'j'"))
    unknown index
      ij->k
          ^
      hint: use 'i' or 'j'
    """

    def __init__(
        self,
        message: str,
        *,
        text: str | None = None,
        carets: Sequence[int] = (),
        notes: Sequence[str] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.carets = tuple(carets)
        self.notes = tuple(notes)
        self.hint = hint

    def __str__(self) -> str:
        # Callers add context to an error that passes through by replacing its args.
        lines = [_cut(str(self.args[0]))]
        if self.text is not None:
            lines += ["  " + line for line in _excerpt(self.text, self.carets)]
        lines += ["  " + _cut(note) for note in self.notes]
        if self.hint is not None:
            lines.append("  hint: " + _cut(self.hint))
        return "\n".join(lines)


def _excerpt(text: str, carets: Sequence[int]) -> list[str]:
    """A text, and marks below it; of a long one, what lies around the first mark."""
    first = max(0, min(min(carets, default=0) - _WIDEST // 2, len(text) - _WIDEST))
    last = first + _WIDEST
    before, after = "…" if first else "", "…" if last < len(text) else ""
    shift = len(before) - first
    marked = {column + shift for column in carets if column <= last}
    columns = range(max(marked, default=-1) + 1)
    marks = "".join("^" if column in marked else " " for column in columns)
    shown = f"{before}{text[first:last]}{after}"
    return [shown, marks] if marks else [shown]


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


class SubscriptError(MdtensorError, ValueError):
    """An einsum string, or the shapes that it meets, make no sense."""


class ShapeError(MdtensorError, ValueError):
    """An argument has the wrong shape, axis or layout."""


class AxisError(ShapeError, IndexError):
    """An axis that an array does not have; NumPy's error of this name has both classes."""


class AlignmentError(MdtensorError, ValueError):
    """Arrays with names of axes do not go together: their names or their coordinates differ."""


class IndexingError(MdtensorError, IndexError):
    """An index that an array cannot be read at."""


class FilterError(MdtensorError, ValueError, RuntimeError):
    """An argument of a filter makes no sense; scipy has both classes for these."""


class DTypeError(MdtensorError, TypeError):
    """An argument has a type that cannot be used or cast as asked."""


class ArgumentError(MdtensorError, TypeError):
    """Arguments are missing or too many, or have names that a function does not know."""


class PathError(MdtensorError, RuntimeError, KeyError, TypeError):
    """An order of contraction is unknown, or leads to no single result."""


class TranslationError(MdtensorError, ValueError):
    """A computation is not a well-formed `md_hom` instance."""


class ProgramError(TranslationError):
    """A Python function says something that cannot be translated; `text` is the line."""


class PassedOverError(ProgramError):
    """A Python function says what would be done once, while it is translated, or never."""


class OperatorError(TranslationError):
    """An operator lacks a property that it must have; `notes` show a counter-example."""


class GradientError(MdtensorError, TypeError):
    """A gradient is asked for of what has none; the message names it."""


class FieldError(TranslationError, AttributeError):
    """A record has no such field, or a part of it is used as what it is not."""


class LazyError(MdtensorError, AttributeError):
    """What an array has, and a lazy array lacks."""


class LoweringError(MdtensorError):
    """A schedule does not fit an `md_hom` or a target."""


class CompileError(MdtensorError):
    """A generated kernel did not compile; `notes` show its numbered source."""


CompilerFailure: TypeAlias = Literal["crashed", "hung", "cut off"]


class CompilerFailedError(CompileError):
    """A compiler failed on a generated kernel by its own fault; `failure` and `detail` say how.

    It "crashed", or it "hung" and was killed, in a process of its own. Or it was "cut off": a
    process ended while it compiled the kernel, which may have been killed for another reason.
    """

    def __init__(self, failure: CompilerFailure, detail: str) -> None:
        was = "was " if failure == "cut off" else ""
        super().__init__(f"a compiler {was}{failure} on a generated kernel: {detail}")
        self.failure: CompilerFailure = failure
        self.detail = detail


class LaunchError(MdtensorError):
    """A compiled kernel could not be run."""


class SpaceError(MdtensorError, ValueError):
    """A space of tuning parameters is ill-formed, or a configuration lies outside of it."""


class TuningError(MdtensorError):
    """Tuning could not be carried out."""


class MemoryLimitError(MdtensorError, ValueError):
    """A memory limit is no number of bytes, or less than a computation in parts takes."""


class StoreError(MdtensorError):
    """The store of tuning results cannot be read or written."""


class ReportError(MdtensorError):
    """A report for people cannot be written, or of what it should be made is not there."""


class NotPrivateError(StoreError):
    """A folder of the cache is not used, since another user may have put there what it holds."""


class StoreWarning(UserWarning):
    """The store could not be used as it should; `error` says why."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


_told: set[str] = set()


def tell(error: StoreError) -> None:
    """Warns of an error of the store, in a process once."""
    if error.message not in _told:
        _told.add(error.message)
        warn(StoreWarning(error))


def warn(warning: Warning) -> None:
    """Warns of the user's line that called mdtensor, however deep inside of it that is noticed."""
    frame = inspect.currentframe()
    assert frame is not None, "Python has frames"
    while frame.f_back is not None and _is_own(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    warnings.warn_explicit(
        warning,
        type(warning),
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def is_ours(value: object) -> bool:
    """Whether a value is of a class of mdtensor's."""
    return _is_own(type(value).__module__)


def _is_own(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == __name__.partition(".")[0]


class DeviceError(MdtensorError, ValueError):
    """Devices of one call do not go together: its arrays lie on several, or it names wrong ones."""


class NoDeviceError(MdtensorError):
    """No device, driver or package to compute on; the hint says what to install or to set."""


def shown(value: object) -> str:
    """A value for the text of an error: an array by its type and shape, others in one line.

    >>> import numpy as np
    >>> shown(np.zeros((3, 4))), shown("abc"), len(shown([0] * 1000))
    ('an array (3, 4) of float64', "'abc'", 80)
    """
    try:
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    except Exception:  # memory that was given back
        return f"a {type(value).__name__}"
    if isinstance(shape, tuple) and dtype is not None and not is_ours(value):
        return f"an array {shape} of {dtype}"
    text = " ".join(_repr.repr(value).split())
    return text if len(text) <= 80 else f"{text[:79]}…"


class _Repr(reprlib.Repr):
    """Leaves out what is large, and names by its class what has no `repr`."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 8
        self.maxtuple = self.maxlist = self.maxarray = self.maxdict = 40
        self.maxset = self.maxfrozenset = self.maxdeque = 40
        self.maxstring = self.maxother = 200

    def repr_int(self, x: int, level: int) -> str:
        """A number; Python refuses to spell very large ones."""
        return repr(x) if x.bit_length() <= 256 else f"an int of {x.bit_length()} bits"


_repr = _Repr()


def count_of(number: int, one: str, many: str) -> str:
    """A number with its noun, for the text of an error.

    >>> count_of(1, "axis", "axes"), count_of(2, "axis", "axes")
    ('1 axis', '2 axes')
    """
    return f"{number} {one if number == 1 else many}"
