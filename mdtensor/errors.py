"""All exceptions and the warning of mdtensor, with one base class that renders them."""

from __future__ import annotations

import inspect
import reprlib
import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

_WIDEST = 160  # columns of a text that are shown
_LONGEST = 2000  # characters of any other line


class MdtensorError(Exception):
    """Base class of mdtensor's exceptions: a message, where it applies, and a hint.

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
    """A text and a line of carets below it, cropped around the first caret where it is long."""
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
    """An einsum string is invalid, or does not fit the operands' shapes."""


class ShapeError(MdtensorError, ValueError):
    """An argument has the wrong shape, axis or layout."""


class AxisError(ShapeError, IndexError):
    """An axis that an array does not have; a subclass of both bases of NumPy's AxisError."""


class AlignmentError(MdtensorError, ValueError):
    """Arrays with named axes do not align: their names or coordinates differ."""


class IndexingError(MdtensorError, IndexError):
    """An index that an array does not support."""


class FilterError(MdtensorError, ValueError, RuntimeError):
    """An invalid argument of a filter; a ValueError and a RuntimeError, as scipy raises either."""


class DTypeError(MdtensorError, TypeError):
    """An argument has a type that cannot be used or cast as asked."""


class ArgumentError(MdtensorError, TypeError):
    """Missing, surplus or unknown arguments."""


class PathError(MdtensorError, RuntimeError, KeyError, TypeError):
    """A contraction order is unknown, or does not end in a single result."""


class TranslationError(MdtensorError, ValueError):
    """A computation is not a well-formed `md_hom` instance."""


class ProgramError(TranslationError):
    """A Python function contains something that cannot be translated; `text` is the line."""


class PassedOverError(ProgramError):
    """A statement of a Python function would run once, while it is traced, or never."""


class OperatorError(TranslationError):
    """An operator lacks a required property; `notes` show a counter-example."""


class GradientError(MdtensorError, TypeError):
    """A gradient is requested of something not differentiable; the message names it."""


class FieldError(TranslationError, AttributeError):
    """A record has no such field, or a field is used as something else than it is."""


class LazyError(MdtensorError, AttributeError):
    """An attribute of arrays that lazy arrays lack."""


class LoweringError(MdtensorError):
    """A schedule does not fit an `md_hom` or a target."""


class CompileError(MdtensorError):
    """A generated kernel did not compile; `notes` show its numbered source."""


CompilerFailure: TypeAlias = Literal["crashed", "hung", "cut off"]


class CompilerFailedError(CompileError):
    """A compiler crashed, hung or was cut off on a kernel; `failure` and `detail` say how.

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
    """A memory limit is not a number of bytes, or too small even for a computation in parts."""


class StoreError(MdtensorError):
    """The store of tuning results cannot be read or written."""


class ReportError(MdtensorError):
    """A report cannot be written, or its data is missing."""


class NotPrivateError(StoreError):
    """A cache folder is not used, since other users may have written to it."""


class StoreWarning(UserWarning):
    """Reading or writing the store failed; `error` says why."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


_told: set[str] = set()


def tell(error: StoreError) -> None:
    """Warns of a store error, once per process and message."""
    if error.message not in _told:
        _told.add(error.message)
        warn(StoreWarning(error))


def warn(warning: Warning) -> None:
    """Issue a warning at the user's line that called mdtensor, the first frame outside of it."""
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
    """Whether a value's class is defined in mdtensor."""
    return _is_own(type(value).__module__)


def _is_own(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == __name__.partition(".")[0]


class DeviceError(MdtensorError, ValueError):
    """Devices of one call conflict: arrays lie on several, or wrong ones are named."""


class NoDeviceError(MdtensorError):
    """No device, driver or package to compute on; the hint says what to install or to set."""


def shown(value: object) -> str:
    """A short repr of a value for error messages; an array by its shape and type.

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
    """A `reprlib.Repr` with larger limits, which abbreviates huge integers."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 8
        self.maxtuple = self.maxlist = self.maxarray = self.maxdict = 40
        self.maxset = self.maxfrozenset = self.maxdeque = 40
        self.maxstring = self.maxother = 200

    def repr_int(self, x: int, level: int) -> str:
        """The digits of an int; its bit length above 256 bits, since Python refuses huge ones."""
        return repr(x) if x.bit_length() <= 256 else f"an int of {x.bit_length()} bits"


_repr = _Repr()


def count_of(number: int, one: str, many: str) -> str:
    """A count with its noun in singular or plural, for error messages.

    >>> count_of(1, "axis", "axes"), count_of(2, "axis", "axes")
    ('1 axis', '2 axes')
    """
    return f"{number} {one if number == 1 else many}"
