"""Contraction of products and sums to fused multiply-adds, which round once."""

from __future__ import annotations

from mdtensor.lower.ir.values import Calc, Value


def fused_terms(calc: Calc) -> tuple[Value, Value, Value] | None:
    """The factors and the addend of a float sum or difference that fuses with a product."""
    if calc.op not in ("add", "sub") or calc.dtype.name not in ("float32", "float64"):
        return None
    first, second = calc.args
    if factors := _factors(second, calc):
        x, y = factors
        return _negated(x) if calc.op == "sub" else x, y, first
    if factors := _factors(first, calc):
        return *factors, _negated(second) if calc.op == "sub" else second
    return None


def _factors(value: Value, total: Calc) -> tuple[Value, Value] | None:
    """The factors of a product whose type and lanes equal those of `total`; else None."""
    if not isinstance(value, Calc) or value.op != "mul":
        return None
    x, y = value.args
    return (x, y) if (value.dtype, value.lanes) == (total.dtype, total.lanes) else None


def _negated(value: Value) -> Value:
    return Calc("neg", (value,), value.dtype, value.lanes)
