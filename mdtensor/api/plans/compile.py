"""`compile`: plans of einsum strings, and of calls of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mdtensor.api.arrays.device_scope import device_of_call
from mdtensor.api.arrays.operands import (
    array_module,
    as_array,
    check_mask,
    has_layout,
    no_kernels,
    reason_of_types,
)
from mdtensor.api.frontends.einsum.einsum import einsum
from mdtensor.api.plans.bound_arguments import ArgumentSlots, specs_of
from mdtensor.api.plans.plan import Plan
from mdtensor.errors import ArgumentError, DTypeError, TranslationError, shown
from mdtensor.specs import TensorSpec

if TYPE_CHECKING:
    from mdtensor.api.plans.call_plan import CallPlan

Array = Any

# Modules whose public functions are calls that can be planned.
_FRONT_ENDS = "mdtensor.api.frontends."
# Options of einsum, and those that make a call of it a reduction.
_OPTIONS = ("dtype", "order", "casting", "optimize", "acc_dtype", "precision")
_REDUCING = ("semiring", "f", "combine", "epilogue", "extents")


def compile(what: str | Callable[..., Any], *operands: Any, **options: Any) -> Plan:  # noqa: A001
    """A reusable plan for an einsum string, or for a call of a function of mdtensor.

    `operands` are arrays or specs (see `spec`); the plan takes arrays of their shapes, strides and
    types. With a string, options are those of `einsum`, and the result is in C order by default.
    With a function, all arguments are those of the function: `reduce`, `conv`, `softmax`, a filter
    of `ndimage`, any other of mdtensor's, a stencil or a directive. The plan takes what is an array
    or a spec among them, in order, options last, and has everything else as it is now. With
    `devices`, a list of names as `mdtensor.devices` has them or "all", each of these computes a
    part (docs/devices.md).

    Raises what the call would raise, TranslationError for what cannot be planned, and DeviceError
    for arrays of several CUDA devices and for `devices` that are none.

    >>> from mdtensor.api.arrays.array_spec import spec
    >>> plan = compile("ij,jk->ik", spec((64, 128)), spec((128, 32)))
    >>> plan
    Plan('ij,jk->ik', float32[64, 128], float32[128, 32])
    >>> plan(np.ones((64, 128), "f4"), np.ones((128, 32), "f4"))[0, 0]
    np.float32(128.0)
    >>> shortest = compile("ij,jk->ik", spec((9, 9)), spec((9, 9)), semiring="min_plus")
    >>> shortest.md_homs
    (md_hom[i:9, j:9, k:9](total, (cc, pw(lesser), cc)),)
    >>> from mdtensor.api.frontends.reduce import scan
    >>> compile(scan, "i->i", spec((3,)), combine="max")(np.array([1, 3, 2], "f4"))
    array([1., 3., 3.], dtype=float32)
    """
    devices = options.pop("devices", None)
    if "out" in options:
        raise TranslationError("out is no option of a plan", hint="plan(…, out=array)")
    for operand in operands:
        check_mask("an operand", operand)
    if what is einsum and operands and isinstance(operands[0], str):
        what, operands = operands[0], operands[1:]
    xp = array_module((*operands, *options.values()))
    plan = _plan(what, operands, options, xp if devices is None else np)
    if devices is not None:
        plan = _spread(plan, devices, (*operands, *options.values()))
    if xp is not np:
        plan.arrays, plan.device = "cupy", device_of_call(operands, options)
    return plan


def _spread(plan: CallPlan, devices: Any, given: Sequence[Any]) -> Plan:
    """The plan of the same call over several devices."""
    from mdtensor.api.multi_device.device_list import DeviceList
    from mdtensor.api.plans.spread_plan import SpreadPlan

    return SpreadPlan(
        plan, DeviceList.of(devices, "numpy" if array_module(given) is np else "cupy")
    )


def _plan(
    what: str | Callable[..., Any], operands: Sequence[Any], options: dict[str, Any], xp: Any
) -> CallPlan:
    if not isinstance(what, str):
        return _plan_of_call(what, operands, options, xp)
    arrays = [op if isinstance(op, TensorSpec) else _array(op) for op in operands]
    if any(options.get(name) is not None for name in _REDUCING):
        return _plan_of_call(einsum, (what, *arrays), options, xp, label=what)
    return _plan_of_einsum(what, arrays, options)


def _plan_of_einsum(text: str, operands: Sequence[Any], options: Mapping[str, Any]) -> CallPlan:
    """The plan of an einsum string."""
    from mdtensor.api.plans.call_plan import CallPlan

    unknown = [name for name in options if name not in (*_OPTIONS, *_REDUCING)]
    if unknown:
        raise ArgumentError(
            f"einsum has no option {shown(unknown[0])}",
            hint=f"it has {', '.join((*_OPTIONS, *_REDUCING))}",
        )
    given = {name: options[name] for name in _OPTIONS if name in options}
    specs = specs_of(operands)
    if reason := reason_of_types([spec.dtype for spec in specs]):
        raise no_kernels(reason, ", and a plan is for what they compute")
    said = [repr(text), *map(repr, specs), *(f"{name}={shown(given[name])}" for name in given)]
    arguments = ArgumentSlots.of(einsum, (text, *operands), {"order": "C", **given})
    return CallPlan(text, ", ".join(said), arguments)


def _plan_of_call(
    function: Any,
    operands: Sequence[Any],
    options: Mapping[str, Any],
    xp: Any,
    label: str | None = None,
) -> CallPlan:
    """The plan of a call of a function; `label` is its string, if it has one."""
    from mdtensor.api.frontends.loops.mdh import Directive
    from mdtensor.api.frontends.stencil import StencilFunction
    from mdtensor.api.plans.call_plan import CallPlan

    is_stencil = isinstance(function, StencilFunction)
    is_ours = str(getattr(function, "__module__", "")).startswith(_FRONT_ENDS)
    if not (is_ours or is_stencil or isinstance(function, Directive) or function is einsum):
        raise TranslationError(
            f"{shown(function)} is neither an einsum string nor a function that can be planned",
            hint="reduce, scan, conv, a stencil, …; whole programs: with mdtensor.tuning('record')",
        )
    arguments = ArgumentSlots.of(function, operands, options)
    words = arguments.words
    if label is not None:
        return CallPlan(label, ", ".join(words), arguments, xp)
    said = [operand for operand in operands[:1] if isinstance(operand, str)]
    called = getattr(function, "__name__", "the function")
    return CallPlan(" ".join((called, *said)), ", ".join((called, *words)), arguments, xp)


def _array(operand: Any) -> Array:
    if _is_shape(operand):
        raise DTypeError(
            f"{operand} is no array",
            hint=f"a shape with its type: mdtensor.spec({operand}, 'f4')",
        )
    return (
        operand if has_layout(operand) else as_array("an operand", operand, array_module([operand]))
    )


def _is_shape(operand: object) -> bool:
    """Whether an operand is a bare shape, where an array or a spec is expected."""
    extents = cast("tuple[object, ...]", operand) if isinstance(operand, tuple) else ()
    return bool(extents) and all(type(extent) is int for extent in extents)
