"""Combine operators and how dims are combined by them, as users import them."""

from __future__ import annotations

from mdtensor.translate.operators.combination import cc, ps, pw
from mdtensor.translate.operators.combine_operators import operator, operator_of

__all__ = ["cc", "operator", "operator_of", "ps", "pw"]
