"""`grad`, `value_and_grad` and `vjp`: gradients of functions that call mdtensor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from mdtensor.api.arrays.operands import as_array, as_computed
from mdtensor.api.arrays.sparse_arrays import check_dense
from mdtensor.api.calls import call_cache
from mdtensor.api.frontends.lazy.lazy import lazy
from mdtensor.api.frontends.lazy.lazy_array import LazyArray
from mdtensor.api.gradients.tape import Tape
from mdtensor.errors import ArgumentError, GradientError, ShapeError, shown
from mdtensor.options import beginning, is_iterable, whole
from mdtensor.specs import kind_of
from mdtensor.translate.python.expr_from_function import no_function

Array = Any

_MOST_ARGUMENTS = 256
_OF_NUMPY: tuple[type, ...] = (np.ndarray, np.generic, LazyArray)


def vjp(
    function: Callable[..., Any], *args: Any, **options: Any
) -> tuple[Any, Callable[..., tuple[Array, ...]]]:
    """The result of a function, and its pullback from cotangents of results to those of arguments.

    `function` is one of mdtensor's, or one of your own that calls them and NumPy's functions of
    lazy arrays. The floating-point arrays among `args` are what it is differentiated by; it gets
    them as lazy arrays, and all other arguments as they are. The pullback takes an array of the
    shape of the result, or one for each of several results, and gives a tuple with the cotangent
    of each floating-point array, in order. What it runs are computations like all others.

    Raises GradientError where the function does what has no gradient, ShapeError for a cotangent
    of another shape.

    >>> from mdtensor.api.frontends.einsum.einsum import einsum
    >>> a, b = np.arange(6.0).reshape(2, 3), np.ones((3, 4))
    >>> product, pullback = vjp(einsum, "ij,jk->ik", a, b)
    >>> product[0]
    array([3., 3., 3., 3.])
    >>> for_a, for_b = pullback(np.ones((2, 4)))
    >>> for_b[:, 0]
    array([3., 5., 7.])
    """
    _check_function(function)
    numbers = [n for n, value in enumerate(args) if _is_real(value)]
    if not numbers:
        for number, value in enumerate(args):
            check_dense(f"argument {number}", value)
        raise GradientError(
            "no argument is an array of floating point, and only these have gradients",
            hint="convert one by a.astype(float)",
        )
    returned, pulled = _recorded(function, args, numbers, options)
    return returned, pulled


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The gradient of a function with one real result, as a function of the same arguments.

    `function` may call mdtensor and NumPy's functions of lazy arrays (see `vjp`). `argnums` says
    by which arguments it is differentiated; for several, the gradients are a tuple. Gradients have
    the shapes and types of their arguments, and may be differentiated again.

    Raises GradientError for an argument that is no floating-point array, and where the function
    does what has no gradient; ShapeError where its result has several elements.

    >>> def energy(x):
    ...     return (x * x * x).sum()
    >>> grad(energy)(np.array([1.0, 2.0]))
    array([ 3., 12.])
    >>> grad(lambda x: grad(energy)(x).sum())(np.array([1.0, 2.0]))
    array([ 6., 12.])
    """
    both = value_and_grad(function, argnums)

    def gradient(*args: Any, **options: Any) -> Any:
        return both(*args, **options)[1]

    return functools.update_wrapper(gradient, function)


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0
) -> Callable[..., tuple[Any, Any]]:
    """A function of the same arguments that returns the result and the gradient.

    The result is computed once for both. Arguments and errors are those of `grad`.

    >>> def energy(x):
    ...     return (x * x * x).sum()
    >>> value_and_grad(energy)(np.array([1.0, 2.0]))
    (np.float64(9.0), array([ 3., 12.]))
    """
    _check_function(function)
    several = is_iterable(argnums)
    listed: Any = beginning(cast("Any", argnums), _MOST_ARGUMENTS) if several else (argnums,)
    numbers = tuple(whole("argnums", number) for number in listed)

    def both(*args: Any, **options: Any) -> tuple[Any, Any]:
        for number in numbers:
            _check_argument(args, number)
        result, pulled = _recorded(function, args, numbers, options)
        shape = getattr(result, "shape", ())
        if isinstance(result, tuple) or shape != ():
            what = "several results" if isinstance(result, tuple) else f"a result of shape {shape}"
            raise ShapeError(
                f"a gradient is of one number, and the function has {what}",
                hint="add it up, result.sum(), or use mdtensor.vjp",
            )
        found = pulled(np.ones((), result.dtype))
        return result, found if several else found[0]

    return functools.update_wrapper(both, function)


def _recorded(
    function: Callable[..., Any],
    args: Sequence[Any],
    numbers: Sequence[int],
    options: dict[str, Any],
) -> tuple[Any, Callable[..., tuple[Array, ...]]]:
    """Run a function on a tape: its result, and its pullback to the numbered arguments."""
    arrays = _leaves([args[n] for n in numbers])
    tape = Tape()
    given = list(args)
    for number, array in zip(numbers, arrays, strict=True):
        tape.track(array)
        given[number] = lazy(array)

    def valued() -> tuple[list[Array], bool]:
        returned = function(*given, **options)
        several = isinstance(returned, tuple)
        listed = cast("tuple[Any, ...]", returned) if several else (returned,)
        return [_value(tape, each) for each in listed], several

    values, several = tape.recorded(valued)

    def finished(value: Array) -> Any:
        if tape.around is not None and tape.around.varies(value):
            return lazy(value)
        return value[()] if value.ndim == 0 else value

    def pulled(*cotangents: Any) -> tuple[Array, ...]:
        if len(cotangents) == 1 and isinstance(cotangents[0], tuple):
            cotangents = cast("tuple[Any, ...]", cotangents[0])
        if len(cotangents) != len(values):
            raise ArgumentError(f"{len(cotangents)} cotangents for {len(values)} results")
        pairs = [_pair(value, each) for value, each in zip(values, cotangents, strict=True)]
        return tuple(map(finished, tape.cotangents(arrays, pairs)))

    results = tuple(map(finished, values))
    return (results if several else results[0]), pulled


def _check_function(function: object) -> None:
    if not callable(function):
        raise no_function(function)


def _leaves(values: Sequence[Any]) -> list[Array]:
    """The arrays to differentiate with respect to, each as a distinct object."""
    found: list[Array] = []
    for number, value in enumerate(values):
        if not isinstance(value, LazyArray):
            array = as_array(f"argument {number}", value, np).view(np.ndarray)
            found += as_computed([array], np)  # a copy where no kernel reads it
            continue
        outer = call_cache.tracer.get()
        array = value.array if outer is None else outer.__self__.value_of(value)  # pyright: ignore
        array = value.evaluate() if array is None else array
        found.append(array)
    return found


def _pair(value: Array, cotangent: Any) -> tuple[Array, Array]:
    """A result and its cotangent, cast to the result's type."""
    if isinstance(cotangent, LazyArray):
        cotangent = cotangent.evaluate()
    if kind_of(value.dtype) != "f":
        raise GradientError(f"a result is {value.dtype.name}, which has no gradient")
    array = as_array("a cotangent", cotangent, np)
    if array.shape != value.shape:
        raise ShapeError(f"a cotangent has shape {array.shape} but the result {value.shape}")
    return value, array.astype(value.dtype, copy=False)


def _value(tape: Tape, returned: Any) -> Array:
    if not isinstance(returned, LazyArray):
        raise GradientError(
            f"the function returns {shown(returned)}, which does not depend on its arguments",
            hint="return what mdtensor's and NumPy's functions give for them",
        )
    return tape.value_of(returned)


def _is_real(value: Any) -> bool:
    dtype: Any = getattr(value, "dtype", None)
    return isinstance(value, np.ndarray | LazyArray) and kind_of(dtype) == "f"


def _check_argument(args: Sequence[Any], number: int) -> None:
    if not -len(args) <= number < len(args):
        raise ArgumentError(f"there is no argument {number} to differentiate by")
    value: Any = args[number]
    if _is_real(value) or isinstance(value, float):
        return
    check_dense(f"argument {number}", value)
    if type(value) not in (int, complex) and not isinstance(value, _OF_NUMPY):
        raise GradientError(
            f"argument {number} is {shown(value)}, and only NumPy's arrays have gradients",
            hint="numpy.asarray(a); torch's tensors and calls of mdtensor.jax have their own",
        )
    dtype = getattr(value, "dtype", type(value).__name__)
    raise GradientError(
        f"argument {number} is {dtype}, and only floating-point arrays have gradients",
        hint="convert it by a.astype(float)",
    )
