"""Calls on JAX arrays: kernels on their memory, or operations in a traced program."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from mdtensor.api.arrays import cupy_arrays
from mdtensor.api.arrays.dlpack import cupy_for, shared
from mdtensor.api.arrays.nested_arguments import mapped_call
from mdtensor.api.frameworks import jax_operators
from mdtensor.api.frameworks.call_text import Held, held_as_text
from mdtensor.api.parts.foreign_call import ForeignCall
from mdtensor.api.parts.placeholders import reserved
from mdtensor.errors import GradientError
from mdtensor.specs import TensorSpec, is_computed
from mdtensor.translate.md_hom_program import Program

Array = Any

# Computations of programs that were traced, which nobody tells when they go.
_in_programs: dict[str, Held] = {}


def called(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    described: object = None,
) -> Any:
    """Run a front end's call with JAX arrays among its arguments; its results are JAX's.

    What is traced becomes operations of the program; others are computed where they lie. NumPy's
    arrays may stand beside them, in the types that JAX has. Raises DTypeError for what has no
    kernels, GradientError where more is done to traced arrays than to compute with them.
    """
    jax = importlib.import_module("jax")
    given = [_canonical(jax, argument) for argument in args]
    named = {name: _canonical(jax, option) for name, option in options.items()}
    traced: list[Array] = []
    on_gpu: list[Array] = []

    def held(argument: Any) -> Any:
        """An array over the memory of a JAX array; other arguments unchanged."""
        if isinstance(argument, jax.core.Tracer):
            traced.append(argument)
        elif isinstance(argument, jax.Array):
            jax_operators.dtypes_of([argument])
            if jax_operators.is_on_host(argument):
                return np.asarray(argument)
            on_gpu.append(shared("an array of JAX", argument, cupy_for(argument)))
            return on_gpu[-1]
        return argument

    def moved(argument: Any) -> Any:
        """A NumPy array copied to the GPU; other arguments unchanged."""
        is_numpys = type(argument) is np.ndarray
        return cupy_for(on_gpu[0]).asarray(argument) if is_numpys else argument

    arrays, held_options = mapped_call(held, given, named)
    if traced:
        return _JaxCall(jax, function).run(function, given, named)
    if not on_gpu:
        return _returned(jax, function(*arrays, **held_options))
    arrays, held_options = mapped_call(moved, arrays, held_options)
    try:
        return _returned(jax, function(*arrays, **held_options))
    finally:
        # JAX frees its arrays in the order of its own streams, which do not wait for this one.
        with on_gpu[0].device:
            cupy_for(on_gpu[0]).cuda.get_current_stream().synchronize()


def _canonical(jax: Any, argument: Any) -> Any:
    """A NumPy array in JAX's canonical type."""
    if type(argument) is not np.ndarray or not is_computed(argument.dtype):
        return argument
    return argument.astype(jax.dtypes.canonicalize_dtype(argument.dtype), copy=False)


def _returned(jax: Any, result: Any) -> Any:
    """A NumPy or CuPy result as a JAX array."""
    if isinstance(result, tuple):
        several = cast("tuple[Any, ...]", result)
        return tuple([_returned(jax, each) for each in several])
    if type(result) is cupy_arrays.array_class:
        return jax.dlpack.from_dlpack(result if result.flags.c_contiguous else result.copy("C"))
    is_array = type(result) is np.ndarray or issubclass(type(result), np.generic)
    return jax.numpy.asarray(result) if is_array and is_computed(result.dtype) else result


class _JaxCall(ForeignCall):
    """A call whose programs become operations of a traced JAX program."""

    joins = True

    def __init__(self, jax: Any, function: Callable[..., Any]) -> None:
        super().__init__()
        self._jax = jax
        self._name = getattr(function, "__name__", "the function")

    def is_foreign(self, argument: Any) -> bool:
        return isinstance(argument, self._jax.Array)

    def placeholder(self, array: Array) -> np.ndarray:
        [dtype] = jax_operators.dtypes_of([array])
        if not isinstance(array, self._jax.core.Tracer):
            return self.placeholders.stands(np.array(array), array)
        return self.placeholders.stands(reserved(TensorSpec.of(array.shape, dtype)), array)

    def constant(self, array: np.ndarray) -> Array:
        return self._jax.numpy.asarray(array)

    def computed(self, planned: Program, operands: Sequence[Array]) -> Sequence[Array]:
        held = held_as_text(planned)
        _in_programs[held.text] = held
        return jax_operators.call(held.text, operands)

    def refused(self) -> GradientError:
        return GradientError(
            f"this call of {self._name} does more to arrays than JAX can follow",
            hint="call it outside of what jax.jit, grad or vmap trace",
        )
