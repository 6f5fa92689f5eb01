"""Problems of einsum strings, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum


def einsum_problem(
    text: str, *shapes: tuple[int, ...], dtype: Any = "f4", precision: str | None = None
) -> Problem:
    """The problem of a string on operands of these shapes."""
    specs = [TensorSpec.of(shape, dtype) for shape in shapes]
    return problem_from_md_hom(md_hom_from_einsum(text, specs, precision=precision))
