"""Computation of a part by the kernels of the process that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array
from mdtensor.api.calls.program_calls import call
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program


def run_part(md_hom: MDHom, arrays: Sequence[Array], begins: Sequence[int]) -> tuple[Array, ...]:
    """Compute an `md_hom` on a part's arrays; `begins` become its last inputs.

    It is a call like any other: kernels are generic, specialised or tuned, and kept on disk.
    """
    numbers = [np.asarray(number, np.int64) for number in begins]

    def build(specs: tuple[TensorSpec, ...]) -> Program:
        pairs = zip(md_hom.inputs, specs, strict=True)
        return Program.of(replace(md_hom, inputs=tuple(replace(b, spec=s) for b, s in pairs)))

    results = call(("part", md_hom), [*arrays, *numbers], build)
    several: tuple[Any, ...] = results if len(md_hom.outputs) > 1 else (results,)
    return tuple(map(np.asarray, several))
