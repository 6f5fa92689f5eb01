"""Programs of loop nests: steps on named arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mdtensor.dataclass import dataclass
from mdtensor.errors import ProgramError
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program, Step
from mdtensor.translate.rewrites.parts import Box


@dataclass(frozen=True, slots=True)
class LoopStep:
    """One `md_hom`, with the names of its input and output arrays."""

    md_hom: MDHom
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RangeBegin:
    """A check that a data-dependent loop begins at 0 or later: the step that computes it.

    None of `arrays` has elements below 0 where no begin is; with None, only the step tells.
    """

    step: LoopStep
    arrays: tuple[str, ...] | None
    error: ProgramError


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """A program with a function's parameter names for its operands and results.

    `returned` names the parameters that the function returns, in order. Where the steps are to run
    one after the other, on arrays in C order, `windows` has the boxes of the arrays that each reads
    and writes; some write to arrays that others have read. `begins` are looked at before.
    """

    program: Program
    operands: tuple[str, ...]
    results: tuple[str, ...]
    returned: tuple[str, ...] = ()
    windows: tuple[tuple[Box, ...], ...] = ()
    begins: tuple[RangeBegin, ...] = ()

    @classmethod
    def of(
        cls,
        steps: Sequence[LoopStep],
        operands: Collection[str],
        results: Mapping[str, str],
        specs: Mapping[str, TensorSpec],
        fills: tuple[float | None, ...] = (),
        **fields: Any,
    ) -> LoopProgram:
        """Build the program of steps; `results` maps parameters to the arrays that hold them."""
        inner = [name for step in steps for name in (*step.inputs, *step.outputs)]
        names = list(dict.fromkeys((*operands, *results.values(), *inner)))
        slots = {name: slot for slot, name in enumerate(names)}
        numbered = [
            Step(
                step.md_hom,
                tuple([slots[n] for n in step.inputs]),
                tuple([slots[n] for n in step.outputs]),
            )
            for step in steps
        ]
        between = names[len(operands) + len(results) :]
        made, temporaries = ([specs[n] for n in each] for each in (results.values(), between))
        program = Program(len(operands), tuple(made), tuple(temporaries), tuple(numbered), fills)
        return cls(program, tuple(operands), tuple(results), **fields)
