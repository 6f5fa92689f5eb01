"""What loops without named operators become: steps over named arrays."""

from __future__ import annotations

from collections.abc import Mapping

from mdtensor.dataclass import dataclass
from mdtensor.errors import ProgramError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom


@dataclass(frozen=True, slots=True)
class LoopStep:
    """One `md_hom`, and the names of the arrays that it reads and writes."""

    md_hom: MDHom
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A box of an array in C order: first index and one after the last, for each axis."""

    array: str
    bounds: tuple[tuple[int, int], ...]

    @property
    def slices(self) -> tuple[slice, ...]:
        """The box as an index of NumPy's."""
        return tuple(slice(*bound) for bound in self.bounds)


@dataclass(frozen=True, slots=True)
class WindowStep:
    """An `md_hom`, and the windows that it reads and writes.

    `first` and `last` name the arrays between the steps that it is the first or the last to use.
    """

    md_hom: MDHom
    inputs: tuple[Window, ...]
    outputs: tuple[Window, ...]
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeBegin:
    """A step that computes the least begin of a loop, or 0, and the error where it is below 0.

    None of `arrays` has elements below 0 where no begin is; with None, only the step tells.
    """

    step: LoopStep
    arrays: tuple[str, ...] | None
    error: ProgramError


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """Steps over named arrays.

    `results` says which array holds the final contents of a parameter that is written; `operands`
    are the other parameters that are read. `returned` names the parameters that the function
    returns, in order. `windows` are the steps once more where they are to run one after the other,
    on arrays in C order; some write to arrays that others have read. `begins` are looked at before.
    """

    steps: tuple[LoopStep, ...]
    operands: tuple[str, ...]
    results: Mapping[str, str]
    arrays: Mapping[str, TensorSpec]
    returned: tuple[str, ...] = ()
    windows: tuple[WindowStep, ...] = ()
    begins: tuple[RangeBegin, ...] = ()
