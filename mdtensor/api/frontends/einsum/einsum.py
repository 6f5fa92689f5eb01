"""`einsum` and `einsum_path` with NumPy's words and NumPy's results."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.api.arrays import invalidation
from mdtensor.api.arrays.bfloat16 import are_short, in_single
from mdtensor.api.arrays.memory_overlap import is_apart
from mdtensor.api.arrays.operands import (
    COMPUTED,
    Array,
    addressable,
    addressable_copy,
    allocate,
    array_module,
    as_arrays,
    as_output,
    computed_by_numpy,
    no_kernels,
    read_only,
    reason_of_classes,
    reason_of_types,
    spec_of,
    split,
)
from mdtensor.api.calls import call_cache, statistics
from mdtensor.api.calls.call_cache import recalled
from mdtensor.api.calls.launchers import Launch, scalar_result
from mdtensor.api.engine import registry, tuning_mode
from mdtensor.api.frontends.einsum.contraction_path import (
    Optimize,
    check_path,
    checked_optimize,
    given_path,
    unknown_path,
)
from mdtensor.api.frontends.einsum.einsum_families import Family, order_of
from mdtensor.api.frontends.einsum.einsum_launches import Launches, launches_of
from mdtensor.api.frontends.einsum.einsum_options import (
    Options,
    checked_casting,
    checked_order,
    checked_precision,
)
from mdtensor.api.frontends.einsum.einsum_planner import Prepared, computation_dtype
from mdtensor.bounded import Bounded
from mdtensor.errors import SubscriptError
from mdtensor.options import is_one_of
from mdtensor.originals import original
from mdtensor.specs import TensorSpec
from mdtensor.stage_timer import stage
from mdtensor.translate.einsum.contraction import resolve
from mdtensor.translate.einsum.subscripts import is_affine, parse
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.scalar_function import PRECISIONS

Compute = Callable[[MDHom, tuple[Array, ...], tuple[Array, ...]], None]

_numpy_einsum = original("numpy.einsum")
_numpy_einsum_path = original("numpy.einsum_path")

_TABLE_SIZE = 4096

# Fills the outputs of an `md_hom`. None stands for the compiled kernels; tests put the reference
# interpreter here.
executor: Compute | None = None

_table = Bounded[tuple[object, ...], Prepared](_TABLE_SIZE)
_families = Bounded[tuple[object, ...], "Family | None"](_TABLE_SIZE)
_ndarray = np.ndarray


def _at_once(args: Sequence[Any], options: Mapping[str, Any]) -> Launch | None:
    """The launch of a known family's call on a new shape; None where it needs a translation.

    Families are of processors, to which a precision means nothing.
    """
    if options and (len(options) > 1 or type(options.get("optimize")) is not bool):
        return None
    if not _are_plain(args) or _watched():
        return None
    family = _families.get(_family_key(args))
    if family is None or family.engine is not registry.engine_for():
        return None
    return family.launch(args[1:])


def _family_key(args: Sequence[Any]) -> tuple[object, ...]:
    """The key of a call's family: the string, and rank, type and order of every array."""
    return args[0], *[(array.ndim, array.dtype, order_of(array)) for array in args[1:]]


@functools.partial(recalled, at_once=_at_once)
def einsum(
    *operands: object,
    out: Array | None = None,
    dtype: object = None,
    order: str | None = "K",
    casting: str = "safe",
    optimize: Optimize = False,
    acc_dtype: object = None,
    precision: str | None = None,
    semiring: str | None = None,
    f: Callable[..., Any] | None = None,
    combine: Any = None,
    epilogue: Callable[..., Any] | str | None = None,
    extents: Mapping[str, int] | None = None,
) -> Array:
    """Evaluate the Einstein summation convention, as `numpy.einsum` does.

    `operands` are a string and arrays, or arrays each followed by a list of indices. `out`,
    `dtype`, `order` and `casting` mean what they mean for NumPy. `acc_dtype` is the type of
    products and sums, by default float32 for float16 and the result's type for all others.
    `precision="tf32"` lets a GPU's tensor cores round factors in float32 to the ten bits after the
    point that they take; sums stay float32. `optimize` takes NumPy's values and the names of
    opt_einsum's paths; with True and False the path is mdtensor's choice.

    The string may have sums for indices, `"n 2h+r 2w+s c, k r s c -> n h w k"`, and operands of
    an `epilogue`, `"ij,jk->ik; k"`, as `mdtensor.reduce` explains them. `semiring` puts other
    operations in the places of product and sum: `min_plus`, `max_plus`, `max_times`, `logsumexp`
    (sums of values combined by logaddexp) or `bool` (whether any pair has no 0); so do `f` and
    `combine`, as for `mdtensor.reduce`.

    A single operand without summation gives NumPy's view. Types without kernels (object,
    longdouble, other byte orders and the like) are handed to NumPy; `stats()` counts them.

    Raises SubscriptError (a ValueError), DTypeError (a TypeError), PathError (a RuntimeError).

    >>> a, b = np.arange(6.0).reshape(2, 3), np.ones((3, 4))
    >>> einsum("ij,jk->ik", a, b)
    array([[ 3.,  3.,  3.,  3.],
           [12., 12., 12., 12.]])
    >>> einsum(a, [0, 1], [0])                   # indices as lists
    array([ 3., 12.])
    >>> einsum("i h+r, r -> i h", a, [1, 1])     # a window of two along the second axis
    array([[1., 3.],
           [7., 9.]])
    >>> einsum("ij,jk->ik", a, b, semiring="max_plus")[:, 0]
    array([3., 6.])
    """
    classic = semiring is f is combine is epilogue is extents is None
    plain = (
        classic
        and dtype is acc_dtype is None
        and is_one_of(order, ("K",))
        and is_one_of(casting, ("safe",))
        and (optimize is False or optimize is True)
        and (precision is None or is_one_of(precision, PRECISIONS))
    )
    if classic:
        return _einsum(
            operands, out, dtype, order, casting, optimize, acc_dtype, precision, plain=plain
        )
    from mdtensor.api.frontends.einsum.generalized_einsum import Said, einsum_reduction

    said = Said(
        semiring,
        f,
        combine,
        epilogue,
        extents,
        dtype,
        acc_dtype,
        checked_order(order),
        checked_casting(casting),
        checked_optimize(optimize),
        checked_precision(precision),
    )
    return einsum_reduction(operands, said, out)


def _einsum(
    operands: tuple[object, ...],
    out: Array | None,
    dtype: object,
    order: str | None,
    casting: str,
    optimize: Optimize,
    acc_dtype: object,
    precision: str | None,
    *,
    plain: bool,
) -> Array:
    """`einsum` for a call that is made in full."""
    text, given = split(operands)
    options = Options.of(dtype, order, casting, optimize, acc_dtype, precision)
    xp = array_module(given if out is None else (*given, out))
    if out is not None and (written := as_output("out", out, xp)) is not out:
        _einsum(
            operands, written, dtype, order, casting, optimize, acc_dtype, precision, plain=plain
        )
        return out

    overriding = reason_of_classes(given, optimized=options.optimize not in (False, None))
    arrays = [] if overriding else as_arrays(given, xp)
    if len(arrays) == 1 and out is None and _is_view(text, arrays[0]):
        statistics.tally(statistics.VIEW, arrays[0].dtype).calls += 1
        native = xp.einsum if xp is not np else _numpy_einsum
        return native(text, arrays[0])
    types = [array.dtype for array in (arrays if out is None else [*arrays, out])]
    types += [] if options.dtype is None else [options.dtype]
    if xp is np and not overriding and are_short(types):
        return _in_single(text, arrays, out, options)
    if reason := overriding or reason_of_types(types, on_gpu=xp is not np):
        if is_affine(text):
            raise no_kernels(reason, ", and NumPy has no sums for indices")
        if all(isinstance(array, np.ndarray) for array in arrays or given):
            shapes = [TensorSpec.of(array.shape, np.int8) for array in arrays or given]
            resolve(parse(text), shapes)
        if (path := given_path(options.optimize)) is not None:
            check_path(path, len(given))
        count_for_numpy(types, reason)
        return computed_by_numpy(
            lambda: _numpy_einsum(
                *operands,
                out=out,
                dtype=dtype,
                order=options.order,
                casting=casting,
                optimize=optimize,
            ),
            reason,
            (*(arrays or given), out),
        )
    arrays = [a if addressable(a) else addressable_copy(a, xp) for a in arrays]
    kind = "numpy" if xp is np else "cupy"
    if xp is not np:
        invalidation.knows_cupy(xp)
    if out is None:
        prepared = lookup_or_prepare(text, arrays, None, options)
        if prepared.steps and not _watched():
            launches = launches_of(prepared, kind, xp)
            if xp is np and not prepared.result.shape:
                launches = replace(launches, new=scalar_result(launches.new))
            with stage("run"):
                result = launches.new(*arrays)
            if plain:
                _found_family(operands)
            return _noted(launches, arrays, None, result)
        result = execute(prepared, arrays, None, xp)
        return result[()] if xp is np and result.ndim == 0 else result
    prepared = _fill(text, arrays, out, options, xp)
    if prepared is not None and prepared.steps and not _watched() and call_cache.is_noting():
        _noted(launches_of(prepared, kind, xp), arrays, out, out)
    return out


def _in_single(text: str, arrays: list[Array], out: Array | None, options: Options) -> Array:
    """`einsum` of bfloat16 on a processor: computed in float32, the result is rounded once."""
    if out is not None and not out.flags.writeable:
        raise read_only("out")
    specs = [TensorSpec.of(array.shape, array.dtype) for array in arrays]
    to = None if out is None else out.dtype
    computed = computation_dtype(specs, options.dtype, to, options.casting)
    arrays, single = in_single(arrays, computed)
    target = None if out is None else np.empty(out.shape, single)
    given = replace(options, dtype=single, casting="unsafe")
    result = _einsum((text, *arrays), target, *given.in_order, plain=False).astype(computed)
    if out is None:
        return result
    np.copyto(out, result, casting="unsafe")
    return out


def _noted(launches: Launches, arrays: Sequence[Array], out: Array | None, result: Array) -> Array:
    """The result of a call that can be recalled."""
    targets = () if out is None else (out,)
    served_by = launches.served_by
    call_cache.note(
        call_cache.Noted(launches.new, launches.into, arrays, targets, result, (), served_by)
    )
    return result


def _found_family(operands: Sequence[Any]) -> None:
    """Registers the family of a valid call, so that later shapes skip translation."""
    if not _are_plain(operands):
        return
    arrays, engine = operands[1:], registry.engine_for()
    key = _family_key(operands)
    known = _families.get(key)
    if key in _families and (known is None or known.engine is engine):
        return
    if None not in map(order_of, arrays):
        _families.keep(key, Family.of(operands[0], arrays, engine))


def _are_plain(operands: Sequence[Any]) -> bool:
    """Whether operands are a string and arrays of NumPy."""
    if len(operands) < 2 or type(operands[0]) is not str:
        return False
    return {*map(type, operands[1:])} == {_ndarray}


def _watched() -> bool:
    """Whether calls must be seen one by one, or are computed otherwise."""
    return executor is not None or tuning_mode.is_watching()


def lookup_or_prepare(
    text: str, arrays: Sequence[Array], out: Array | None, options: Options
) -> Prepared:
    """The plan of a call, from the table or made now."""
    touched = arrays if out is None else (*arrays, out)
    layouts = tuple((array.shape, array.strides, array.dtype) for array in touched)
    key = (text, layouts, out is None, options)
    prepared = _table.get(key)
    if prepared is None:
        specs = [spec_of(array) for array in arrays]
        with stage("translate"):
            prepared = options.prepared(text, specs, None if out is None else spec_of(out))
        _table.keep(key, prepared)
    return prepared


def execute(
    prepared: Prepared,
    arrays: Sequence[Array],
    out: Array | None,
    xp: Any,
    compute: Compute | None = None,
) -> Array:
    """Run a plan; the result is `out` where there is one that shares no memory with `arrays`."""
    if not prepared.steps:
        result = out if out is not None else allocate(prepared.result, xp)
        result.fill(0)
        statistics.tally(statistics.FILLED, prepared.dtype).calls += 1
        return result
    run = compute or executor or importlib.import_module("mdtensor.api.engine.registry").compute
    slots = dict(enumerate(arrays))
    for number, dtype in prepared.converted:
        slots[number] = slots[number].astype(dtype, order="C")
    result = slots[0]
    if tuning_mode.is_watching():
        registry.saw_call(prepared.chain.steps, "numpy" if xp is np else "cupy")
    for number, step in enumerate(prepared.steps, start=1):
        direct = number == len(prepared.steps) and prepared.into_out and out is not None
        result = out if direct else allocate(step.result, xp)
        run(step.md_hom, tuple(slots.pop(slot) for slot in step.operands), (result,))
        slots[len(arrays) + number - 1] = result
    if out is not None and result is not out:
        xp.copyto(out, result, casting="unsafe")
        result = out
    statistics.tally(statistics.GENERATED, prepared.dtype).calls += 1
    return result


def _fill(text: str, arrays: list[Array], out: Array, options: Options, xp: Any) -> Prepared | None:
    """Compute into `out`; by way of a new array where it shares memory with an operand.

    Returns the plan where its last step writes to `out` itself.
    """
    if xp is np and not out.flags.writeable:
        raise read_only("out")
    if addressable(out) and is_apart(out, arrays, xp):
        base: Any = np.asarray(out) if xp is np else out
        prepared = lookup_or_prepare(text, arrays, base, options)
        execute(prepared, arrays, base, xp)
        return prepared if prepared.into_out else None
    shape_of_out = TensorSpec.of(out.shape, out.dtype)
    checked = options.prepared(text, [spec_of(array) for array in arrays], shape_of_out)
    free = replace(options, dtype=checked.dtype, casting="unsafe")
    result = execute(lookup_or_prepare(text, arrays, None, free), arrays, None, xp)
    xp.copyto(out, result, casting="unsafe")
    return None


def einsum_path(*operands: object, optimize: Optimize = "greedy") -> tuple[list[Any], str]:
    """The path of `numpy.einsum_path`, and its printed form.

    What `einsum` does with optimize=True or False is mdtensor's own choice; the path found here
    can be given to it as `optimize=`. Operands count by their shapes alone.

    Raises PathError for an `optimize` that is none, SubscriptError where string and shapes do not
    fit, DTypeError for what is no array.

    >>> path, text = einsum_path("ij,jk,kl->il", np.ones((9, 2)), np.ones((2, 9)), np.ones((9, 2)))
    >>> path
    ['einsum_path', (1, 2), (0, 1)]
    """
    checked = checked_optimize(optimize)
    text, given = split(operands)
    arrays = as_arrays(given, array_module(given))
    specs = [TensorSpec.of(array.shape, array.dtype) for array in arrays]
    subscripts = parse(text)
    if subscripts.is_affine:
        raise SubscriptError(
            "sums for indices have no path",
            text=text,
            hint="mdtensor computes such a string as a whole",
        )
    resolve(subscripts, specs)
    if (path := given_path(checked)) is not None:
        check_path(path, len(specs))
    stages = list(checked) if isinstance(checked, tuple) else checked
    try:
        shaped = [np.broadcast_to(np.int8(0), spec.shape) for spec in specs]
        return _numpy_einsum_path(text, *shaped, optimize=stages)
    except KeyError:
        raise unknown_path(stages[0] if isinstance(stages, list) else str(stages)) from None


def _is_view(text: str, array: Array) -> bool:
    subscripts = parse(text)
    shape = TensorSpec.of(array.shape, array.dtype)
    return not subscripts.is_affine and resolve(subscripts, [shape]).is_view


def count_for_numpy(types: Sequence[np.dtype], reason: str) -> None:
    """Counts a call that NumPy computes, by its type without kernels, if any."""
    strange = [given for given in types if given.char not in COMPUTED]
    dtype = np.result_type(*types) if types and not strange else np.dtype(object)
    statistics.tally(statistics.NUMPY, strange[0] if strange else dtype, reason).calls += 1
