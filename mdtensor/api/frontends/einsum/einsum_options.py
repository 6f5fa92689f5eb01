"""The options of `einsum`, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import check_types
from mdtensor.api.frontends.einsum.contraction_path import Optimize, checked_optimize
from mdtensor.api.frontends.einsum.einsum_planner import prepare
from mdtensor.dataclass import dataclass
from mdtensor.errors import ShapeError, shown
from mdtensor.options import is_one_of, one_of
from mdtensor.specs import TensorSpec, as_dtype
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.scalar_function import PRECISIONS

_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


@dataclass(frozen=True, slots=True)
class Options:
    """The checked, hashable options of `einsum` that affect a plan."""

    dtype: np.dtype | None = None
    order: str = "K"
    casting: str = "safe"
    optimize: Optimize = False
    acc_dtype: np.dtype | None = None
    precision: str | None = None

    @classmethod
    def of(
        cls,
        dtype: object = None,
        order: str | None = "K",
        casting: str = "safe",
        optimize: Optimize = False,
        acc_dtype: object = None,
        precision: object = None,
    ) -> Options:
        """The options from a caller's arguments; raises DTypeError or ShapeError for wrong ones."""
        order = checked_order(order)
        checked_casting(casting)
        wanted, accumulated = (
            None if given is None else as_dtype(given) for given in (dtype, acc_dtype)
        )
        if accumulated is not None:
            check_types([accumulated])
        checked = checked_precision(precision)
        return cls(wanted, order, casting, checked_optimize(optimize), accumulated, checked)

    def program(
        self, text: str, specs: Sequence[TensorSpec], out_spec: TensorSpec | None
    ) -> Program:
        """The computation of a string on operands of these specs, with these options."""
        return prepare(
            text,
            specs,
            dtype=self.dtype,
            order=self.order,
            casting=self.casting,
            acc_dtype=self.acc_dtype,
            precision=self.precision,
            optimize=self.optimize,
            out_spec=out_spec,
        )


def checked_order(order: str | None) -> str:
    """The `order` argument; raises ShapeError for an unknown one."""
    letter = order.upper() if isinstance(order, str) else order
    return "K" if letter is None else one_of("order", letter, ("C", "F", "A", "K"))


def checked_casting(casting: str) -> str:
    """The `casting` argument; raises ShapeError for an unknown one."""
    return one_of("casting", casting, _CASTINGS)


def checked_precision(precision: Any) -> str | None:
    """The `precision` argument; raises ShapeError for an unknown one."""
    if precision is not None and not is_one_of(precision, PRECISIONS):
        words = ", ".join(map(repr, PRECISIONS))
        raise ShapeError(
            f"precision is {shown(precision)}", hint=f"one of {words}, or None: float32"
        )
    return precision
