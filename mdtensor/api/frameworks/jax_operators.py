"""Calls by a text in programs of JAX: with shapes, gradients and batches.

A call is a callback of XLA that reads and writes its buffers in place. Its gradient is a call
again, and so is its batch, so both may be differentiated and batched as well.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from mdtensor.api.frameworks.call_text import (
    batched_text,
    pullback_text,
    reads_results,
    results_of,
    run,
)
from mdtensor.dataclass import dataclass
from mdtensor.errors import ArgumentError, DeviceError, DTypeError, GradientError, shown
from mdtensor.specs import TensorSpec, is_computed, kind_of

# An array of JAX or NumPy, a number, or what stands for an array while a program is traced.
Array = Any

_HOST = 1  # processors, as DLPack counts devices
_SHORT = "bfloat16"


def call(text: str, operands: Sequence[Array]) -> list[Array]:
    """The results of a call on these arrays, in the program that is traced if there is one.

    bfloat16 is computed in float32 and rounded once. Raises ArgumentError for what is no array,
    DTypeError for arrays that have no kernels, and what the call raises.
    """
    dtypes = _dtypes(operands)
    jnp = _jax().numpy
    is_short = {dtype.name for dtype in dtypes if _is_real(dtype)} == {_SHORT}
    given = [
        jnp.asarray(operand, np.float32) if dtype.name == _SHORT else operand
        for operand, dtype in zip(operands, dtypes, strict=True)
    ]
    results = _operator()(text, *given)
    return [
        each.astype(_SHORT) if is_short and each.dtype == np.float32 else each for each in results
    ]


def of_one_type(operands: Sequence[Array]) -> list[Array]:
    """Operands in their common type, by JAX's rules."""
    _dtypes(operands)
    jnp = _jax().numpy
    if len(operands) < 2:
        return list(operands)
    common = jnp.result_type(*operands)
    return [each if _dtype(each) == common else jnp.asarray(each, common) for each in operands]


def shape_of(operand: Array) -> tuple[int, ...]:
    """The shape of an operand; raises ArgumentError for what is no array."""
    _dtypes([operand])
    return np.shape(operand)


def _jax() -> Any:
    return importlib.import_module("jax")


def _dtypes(operands: Sequence[Array]) -> list[np.dtype]:
    """The type of each operand, as JAX has it."""
    found: list[np.dtype] = []
    for number, operand in enumerate(operands):
        if not _is_array(operand):
            raise ArgumentError(
                f"operand {number} is {shown(operand)}",
                hint="an array of JAX or NumPy, or a number",
            )
        dtype = _dtype(operand)
        if _is_numpys(dtype) and not dtype.isnative:
            raise DTypeError(
                f"operand {number} is {dtype.str}, in another byte order than the machine's",
                hint="a.astype(a.dtype.newbyteorder('='))",
            )
        if not _is_numpys(dtype) or (not is_computed(dtype) and dtype.name != _SHORT):
            raise DTypeError(f"operand {number} is {dtype}, and no kernels compute with that")
        found.append(dtype)
    return found


def _is_array(operand: Any) -> bool:
    if type(operand) is np.ndarray or isinstance(operand, np.generic | int | float | complex):
        return True
    return isinstance(operand, _jax().Array)


def _dtype(operand: Any) -> Any:
    """NumPy's type of an operand, of 32 bits where JAX has no more; or one of JAX's own."""
    given: Any = getattr(operand, "dtype", None)
    if given is None:
        return _dtype_of_number(operand)
    if not _is_numpys(given) or not is_computed(given) or not given.isnative:
        return given
    return _jax().dtypes.canonicalize_dtype(given)


def _dtype_of_number(number: float | complex) -> Any:
    """JAX's type of a number of Python's; raises DTypeError where it has none for one as large."""
    try:
        dtype: Any = _jax().numpy.result_type(number)
    except OverflowError:
        dtype = None
    if dtype is None or (isinstance(number, int) and not _holds(dtype, number)):
        raise DTypeError(f"{shown(number)} is larger than any number of an array")
    return dtype


def _holds(dtype: Any, number: int) -> bool:
    if dtype.kind not in "iu":
        return True
    limits = np.iinfo(dtype)
    return int(limits.min) <= number <= int(limits.max)


def _is_numpys(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype)


def _is_real(dtype: np.dtype) -> bool:
    return kind_of(dtype) == "f" or dtype.name == _SHORT


def _specs(arrays: Sequence[Array]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec.of(np.shape(array), _dtype(array)) for array in arrays)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Launch:
    """What XLA calls with its buffers: the kernels of a text, on arrays around them.

    `dtypes` are those of results that JAX has in fewer bits; they are computed beside the buffers.
    """

    text: str
    dtypes: tuple[np.dtype | None, ...]

    def __call__(self, _: Any, out: Sequence[Any], *operands: Any) -> None:
        if out[0].__dlpack_device__()[0] != _HOST:
            raise DeviceError(
                "a program that calls mdtensor runs on another device than the processor",
                hint='with jax.default_device(jax.devices("cpu")[0]): …',
            )
        arrays = [np.asarray(buffer) for buffer in operands]
        results = [np.asarray(buffer) for buffer in out]
        written = [
            each if dtype is None else np.empty(each.shape, dtype)
            for each, dtype in zip(results, self.dtypes, strict=True)
        ]
        run(self.text, *arrays, out=written[0] if len(written) == 1 else tuple(written))
        for result, computed in zip(results, written, strict=True):
            if result is not computed:
                np.copyto(result, computed, casting="unsafe")


def _computed(text: str, operands: Sequence[Array]) -> tuple[Array, ...]:
    """The results of a call, which may be batched and not differentiated."""
    jax = _jax()
    callback = importlib.import_module("jax.experimental.buffer_callback").buffer_callback
    batching = importlib.import_module("jax.custom_batching")

    @batching.custom_vmap
    def launched(*operands: Array) -> tuple[Array, ...]:
        due = results_of(text, _specs(operands))
        held = [jax.dtypes.canonicalize_dtype(spec.dtype) for spec in due]
        pairs = list(zip(due, held, strict=True))
        launch = _Launch(text, tuple(s.dtype if s.dtype != dtype else None for s, dtype in pairs))
        shapes = tuple(jax.ShapeDtypeStruct(spec.shape, dtype) for spec, dtype in pairs)
        return callback(launch, shapes)(*operands)

    @launched.def_vmap
    def _(_: int, are_batched: Sequence[bool], *operands: Array) -> Any:
        results = _computed(batched_text(text, are_batched), operands)
        return results, (True,) * len(results)

    return launched(*operands)


@dataclass(frozen=True, slots=True)
class _Differentiated:
    """What the gradient of a call knows without arrays."""

    wanted: tuple[int, ...]
    real_results: tuple[int, ...]


@cache
def _operator() -> Callable[..., tuple[Array, ...]]:
    """The function of a text and arrays that calls are, compiled for each text."""
    jax = _jax()
    jax.tree_util.register_static(_Differentiated)

    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def called(text: str, *operands: Array) -> tuple[Array, ...]:
        return _computed(text, operands)

    def forward(text: str, *primals: Any) -> Any:
        operands = [each.value for each in primals]
        perturbed = [n for n, each in enumerate(primals) if each.perturbed]
        wanted = _wanted(perturbed, operands)
        results = compiled(text, *operands)  # which another gradient may differentiate
        specs = _specs(operands)
        _check_widths(results, results_of(text, specs))
        real = tuple(n for n, result in enumerate(results) if _is_real(result.dtype))
        keeps = bool(wanted and real) and reads_results(text, specs, wanted)
        kept = results if keeps else ()
        return results, (tuple(operands), kept, _Differentiated(wanted, real))

    def backward(text: str, residuals: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
        operands, results, known = residuals
        zero = jax.custom_derivatives.SymbolicZero
        given = [n for n in known.real_results if not isinstance(cotangents[n], zero)]
        found: list[Any] = [None] * len(operands)
        if known.wanted and given:
            back = pullback_text(text, len(operands), known.wanted, given, results=bool(results))
            parts = compiled(back, *operands, *results, *(cotangents[n] for n in given))
            for number, part in zip(known.wanted, parts, strict=True):
                found[number] = part
        return tuple(found)

    called.defvjp(forward, backward, symbolic_zeros=True)
    compiled = jax.jit(called, static_argnums=0, inline=True)
    return compiled


def _wanted(perturbed: Sequence[int], operands: Sequence[Array]) -> tuple[int, ...]:
    """The operands whose cotangents are asked for; integers have none."""
    for number in perturbed:
        if operands[number].dtype.kind == "c":
            raise GradientError(
                f"operand {number} is {operands[number].dtype.name}, and has no gradient",
                hint="compute real and imaginary parts as arrays of their own",
            )
    return tuple(n for n in perturbed if _is_real(operands[n].dtype))


def _check_widths(results: Sequence[Array], due: Sequence[TensorSpec]) -> None:
    """Raises GradientError for results that JAX lacks the type of, whose cotangents it rounds."""
    for result, spec in zip(results, due, strict=True):
        if _is_real(result.dtype) and result.dtype != spec.dtype:
            raise GradientError(
                f"a result is {spec.dtype.name} and JAX holds it as {result.dtype.name}",
                hint='jax.config.update("jax_enable_x64", True), or compute it in float32',
            )
