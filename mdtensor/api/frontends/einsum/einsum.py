"""`einsum` and `einsum_path` with NumPy's signatures and results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.api.arrays.memory_overlap import is_apart
from mdtensor.api.arrays.operands import (
    Array,
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
from mdtensor.api.arrays.unaligned_arrays import addressable, addressable_copy
from mdtensor.api.calls import program_calls, statistics
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.calls.launchers import Launch
from mdtensor.api.calls.ragged_operands import RaggedOperands, call_on_ragged, ragged_operands
from mdtensor.api.calls.stored_operands import (
    StoredOperands,
    call_on_stored,
    stored_operands,
)
from mdtensor.api.devices import Devices
from mdtensor.api.frontends.einsum.contraction_path import (
    Optimize,
    check_path,
    checked_optimize,
    given_path,
    unknown_path,
)
from mdtensor.api.frontends.einsum.einsum_options import (
    Options,
    checked_casting,
    checked_order,
    checked_precision,
)
from mdtensor.api.frontends.parted import in_parts
from mdtensor.errors import SubscriptError
from mdtensor.originals import original
from mdtensor.specs import TensorSpec, common_dtype, is_computed
from mdtensor.translate.einsum.contraction import resolve
from mdtensor.translate.einsum.subscripts import is_affine, parse, with_output
from mdtensor.translate.md_hom_program import Program

_numpy_einsum = original("numpy.einsum")
_numpy_einsum_path = original("numpy.einsum_path")

_ndarray = np.ndarray
_BY_DEFAULT = {optimize: Options(optimize=optimize) for optimize in (False, True)}


def _at_once(args: Sequence[Any], options: Mapping[str, Any]) -> Launch | None:
    """The launch of a known family's call on a new shape; None where it must be translated."""
    optimize = options.get("optimize", False)
    if len(options) > ("optimize" in options) or type(optimize) is not bool:
        return None
    if len(args) < 2 or type(args[0]) is not str or {*map(type, args[1:])} != {_ndarray}:
        return None
    arrays = args[1:]
    if not all(is_computed(array.dtype) and addressable(array) for array in arrays):
        return None
    return program_calls.at_once(_key(args[0], _BY_DEFAULT[optimize], None), arrays)


def _key(text: str, options: Options, out: TensorSpec | None) -> Hashable:
    """The cache key of a call's computation, without the operands' layouts."""
    return "einsum", text, options, out


@functools.partial(with_call_cache, at_once=_at_once)
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
    memory_limit: int | str | None = None,
    devices: Devices | None = None,
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

    `memory_limit`, such as "1GB", has operands read part by part, from maps of files larger than
    memory too (see `mdtensor.stream`). `devices`, a list of names as `mdtensor.devices` has them or
    "all", has the parts of the computation computed by several devices (docs/devices.md).

    One operand may be a sparse array of scipy: its stored elements take part, and no others.
    Operands may be ragged batches (`mdtensor.ragged`), and results are where they keep sequences.

    A single operand without summation gives NumPy's view. Types without kernels (object,
    longdouble, other byte orders and the like) are handed to NumPy; `stats()` counts them.

    Raises SubscriptError (a ValueError), DTypeError (a TypeError), PathError (a RuntimeError), and
    DeviceError (a ValueError) for `devices` that are none.

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
    if memory_limit is not None or devices is not None:
        options = {"dtype": dtype, "order": order, "casting": casting, "optimize": optimize}
        options |= {"acc_dtype": acc_dtype, "precision": precision, "semiring": semiring, "f": f}
        options |= {"combine": combine, "epilogue": epilogue, "extents": extents, "out": out}
        return in_parts(einsum, operands, options, devices, memory_limit)
    if semiring is f is combine is epilogue is extents is None:
        return _einsum(operands, out, dtype, order, casting, optimize, acc_dtype, precision)
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
) -> Array:
    """The body of `einsum`, for calls that the cache does not serve."""
    text, given = split(operands)
    options = Options.of(dtype, order, casting, optimize, acc_dtype, precision)
    if (batches := ragged_operands(given)) is not None:
        return _on_ragged(text, batches, out, options)
    xp = array_module(given if out is None else (*given, out))
    if out is not None and (written := as_output("out", out, xp)) is not out:
        _einsum(operands, written, dtype, order, casting, optimize, acc_dtype, precision)
        return out

    if (stored := stored_operands(given, distinct=lambda: False)) is not None:
        return _on_stored(text, stored, out, options)
    is_planned = program_calls.planner.get() is not None  # plans have kernels: they copy
    optimized = options.optimize not in (False, None) and not is_planned
    overriding = reason_of_classes(given, optimized=optimized)
    arrays = [] if overriding else as_arrays(given, xp)
    if len(arrays) == 1 and out is None and not is_planned and _is_view(text, arrays[0]):
        statistics.count(statistics.VIEW, arrays[0].dtype)
        native = xp.einsum if xp is not np else _numpy_einsum
        return native(text, arrays[0])
    types = [array.dtype for array in (arrays if out is None else [*arrays, out])]
    types += [] if options.dtype is None else [options.dtype]
    if reason := overriding or reason_of_types(types):
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
    if xp is np and out is not None and not out.flags.writeable:
        raise read_only("out")
    arrays = [a if addressable(a) else addressable_copy(a, xp) for a in arrays]
    target = None if out is None else _spec_of_target(out, arrays, xp)

    def build(specs: tuple[TensorSpec, ...]) -> Program:
        return options.program(text, specs, target)

    return program_calls.call(_key(text, options, target), arrays, build, out, casting="unsafe")


def _on_stored(text: str, stored: StoredOperands, out: Array | None, options: Options) -> Array:
    """`einsum` of a sparse operand, over its stored elements."""
    xp = array_module(stored.dense)
    target = None if out is None else _spec_of_target(out, as_arrays(stored.dense, xp), xp)
    at_once = replace(options, optimize=("einsum_path", tuple(range(len(stored.given)))))

    def build(specs: tuple[TensorSpec, ...]) -> Program:
        return options.program(text, specs, target)

    def otherwise(specs: tuple[TensorSpec, ...]) -> Program:
        return at_once.program(text, specs, target)

    key = _key(text, options, target)
    return call_on_stored(key, stored, build, out, otherwise=otherwise, casting="unsafe")


def _on_ragged(text: str, operands: RaggedOperands, out: Array | None, options: Options) -> Any:
    """`einsum` of ragged batches, over the values of all their sequences."""
    text = with_output(text)
    if reason := reason_of_types([] if options.dtype is None else [options.dtype]):
        raise no_kernels(reason)

    def build(specs: tuple[TensorSpec, ...]) -> Program:
        return options.program(text, specs, None)

    at_once = replace(options, optimize=("einsum_path", tuple(range(len(operands.given)))))

    def otherwise(specs: tuple[TensorSpec, ...]) -> Program:
        return at_once.program(text, specs, None)

    key, casting = _key(text, options, None), options.casting
    return call_on_ragged(
        key, operands, parse(text), build, out, otherwise=otherwise, casting=casting
    )


def _spec_of_target(out: Array, arrays: Sequence[Array], xp: Any) -> TensorSpec:
    """The spec of `out` if kernels may write it directly, else of a new array of its shape."""
    if addressable(out) and is_apart(out, arrays, xp):
        return spec_of(out)
    return TensorSpec.of(out.shape, out.dtype)


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
    """Counts a fallback to NumPy, under the type that has no kernels, if any."""
    strange = [given for given in types if not is_computed(given)]
    dtype = common_dtype(types) if types and not strange else np.dtype(object)
    statistics.count(statistics.NUMPY, strange[0] if strange else dtype, reason)
