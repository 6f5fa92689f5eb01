"""JAX operators for calls by text, with shapes, gradients and batches.

A call is a primitive, which is lowered to a callback of XLA that reads and writes its buffers in
place, on processors and on CUDA's stream. Its derivatives and its batches are calls again, so they
have these as well.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from mdtensor.api.arrays import cupy_arrays
from mdtensor.api.arrays.device_scope import at
from mdtensor.api.arrays.dlpack import cupy_for
from mdtensor.api.frameworks.call_text import (
    batched_text,
    pullback_text,
    reads_results,
    results_of,
    run,
    tangents_text,
)
from mdtensor.dataclass import dataclass
from mdtensor.errors import ArgumentError, DTypeError, GradientError, shown
from mdtensor.specs import TensorSpec, is_computed, kind_of

# An array of JAX or NumPy, a number, or what stands for an array while a program is traced.
Array = Any

_MOST = 4096  # programs of one call
_HOST = 1  # processors, as DLPack counts devices
_SHORT = "bfloat16"


def call(text: str, operands: Sequence[Array]) -> list[Array]:
    """Bind the call of a text to arrays: traced if a trace is active, else run.

    Raises ArgumentError for what is no array, DTypeError for arrays that have no kernels, and what
    the call raises.
    """
    dtypes_of(operands)
    return _bound(text, list(map(_jax().numpy.asarray, operands)))


def of_one_type(operands: Sequence[Array]) -> list[Array]:
    """Operands promoted to a common type by JAX's rules."""
    dtypes_of(operands)
    jnp = _jax().numpy
    common = jnp.result_type(*operands) if operands else None
    return [jnp.asarray(each, common) for each in operands]


def shape_of(operand: Array) -> tuple[int, ...]:
    """The shape of an operand; raises ArgumentError if it is no array."""
    dtypes_of([operand])
    return np.shape(operand)


def is_on_host(array: Array) -> bool:
    """Whether a concrete array is in host memory."""
    return all(device.platform == "cpu" for device in array.devices())


def _jax() -> Any:
    return importlib.import_module("jax")


def dtypes_of(operands: Sequence[Array]) -> list[np.dtype]:
    """The canonical JAX type of each operand.

    Raises ArgumentError for what is no array, DTypeError for one that has no kernels.
    """
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
    """The canonical type of an operand: of 32 bits unless x64 is enabled, or one of JAX's own."""
    given: Any = getattr(operand, "dtype", None)
    if given is None:
        return _dtype_of_number(operand)
    if not _is_numpys(given) or not is_computed(given) or not given.isnative:
        return given
    return _jax().dtypes.canonicalize_dtype(given)


def _dtype_of_number(number: float | complex) -> Any:
    """The JAX type of a Python number; raises DTypeError where the number overflows it."""
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
    """The XLA callback of a text: wraps XLA's buffers in arrays and runs the kernels.

    `dtypes` are those of results that JAX has in fewer bits; they are computed beside the buffers.
    """

    text: str
    dtypes: tuple[np.dtype | None, ...]

    def __call__(self, context: Any, out: Sequence[Any], *operands: Any) -> None:
        kind, device = out[0].__dlpack_device__()
        if kind == _HOST:
            self._run(list(map(np.asarray, operands)), list(map(np.asarray, out)), np)
            return
        cupy = cupy_for(None)
        cupy_arrays.knows(cupy)
        library = cupy_arrays.library()

        def array(buffer: Any) -> Array:
            spec = TensorSpec.of(buffer.shape, np.dtype(buffer.dtype))
            if 0 in spec.shape:
                return cupy.empty(spec.shape, spec.dtype)
            place = buffer.__cuda_array_interface__["data"][0]
            return library.array_at(place, spec.shape, spec.strides, spec.dtype, device)

        with at(device), library.on_stream(context.stream):
            self._run(list(map(array, operands)), list(map(array, out)), cupy)

    def _run(self, operands: Sequence[Array], results: Sequence[Array], xp: Any) -> None:
        """Runs the text on NumPy or CuPy arrays, the latter on the current stream."""
        written = [
            each if dtype is None else xp.empty(each.shape, dtype)
            for each, dtype in zip(results, self.dtypes, strict=True)
        ]
        run(self.text, *operands, out=written[0] if len(written) == 1 else tuple(written))
        for result, computed in zip(results, written, strict=True):
            if result is not computed:
                xp.copyto(result, computed, casting="unsafe")


@dataclass(frozen=True, slots=True)
class _Tangents:
    """A JVP call, linear in its last operands, which are tangents.

    The call has the `text` and so many operands; tangents are those of the operands `given`, and
    what it gives are those of the results `wanted`.
    """

    text: str
    operands: int
    given: tuple[int, ...]
    wanted: tuple[int, ...]


@cache
def _primitive() -> Any:
    """The JAX primitive of calls by text, with its JVP, transpose, batching and lowering rules.

    Its derivative is a call that is linear in tangents, as the gradient of the gradient is; that
    one is transposed to the gradient itself.
    """
    made = importlib.import_module("jax.extend.core").Primitive("mdtensor")
    ad, batching, mlir = (
        importlib.import_module(f"jax.interpreters.{name}") for name in ("ad", "batching", "mlir")
    )
    made.multiple_results = True
    made.def_impl(_alone)
    made.def_abstract_eval(_shapes)
    mlir.register_lowering(made, mlir.lower_fun(_launched))
    ad.primitive_jvps[made] = partial(_differentiated, ad)
    ad.primitive_transposes[made] = partial(_transposed, ad)
    batching.primitive_batchers[made] = _batched
    return made


def _bound(text: str, operands: Sequence[Array], linear: _Tangents | None = None) -> list[Array]:
    return _primitive().bind(*operands, text=text, linear=linear)


@lru_cache(_MOST)
def _compiled(text: str, linear: _Tangents | None) -> Callable[..., list[Array]]:
    """A jitted program of a single call."""

    def program(*operands: Array) -> list[Array]:
        return _bound(text, operands, linear)

    return _jax().jit(program)


def _alone(*operands: Array, text: str, linear: _Tangents | None) -> list[Array]:
    return _compiled(text, linear)(*operands)


def _held(spec: TensorSpec) -> np.dtype:
    """The canonical JAX type for results of a spec."""
    return _jax().dtypes.canonicalize_dtype(spec.dtype)


def _shapes(*operands: Any, text: str, linear: _Tangents | None) -> list[Any]:
    shaped = _jax().core.ShapedArray
    return [shaped(spec.shape, _held(spec)) for spec in results_of(text, _specs(operands))]


def _launched(*operands: Array, text: str, linear: _Tangents | None) -> tuple[Array, ...]:
    """The results of a call, through an XLA buffer callback."""
    callback = importlib.import_module("jax.experimental.buffer_callback").buffer_callback
    due = [(spec, _held(spec)) for spec in results_of(text, _specs(operands))]
    launch = _Launch(text, tuple([s.dtype if s.dtype != dtype else None for s, dtype in due]))
    shapes = tuple([_jax().ShapeDtypeStruct(spec.shape, dtype) for spec, dtype in due])
    return tuple(callback(launch, shapes)(*operands))


def _batched(
    operands: Sequence[Array], axes: Sequence[int | None], *, text: str, linear: _Tangents | None
) -> tuple[list[Array], list[int]]:
    are_batched = [axis is not None for axis in axes]
    moved = [
        each if axis is None else _jax().numpy.moveaxis(each, axis, 0)
        for each, axis in zip(operands, axes, strict=True)
    ]
    results = _bound(batched_text(text, are_batched), moved)
    return results, [0] * len(results)


def _differentiated(
    ad: Any, primals: Sequence[Array], tangents: Sequence[Any], *, text: str, linear: Any
) -> tuple[list[Array], list[Any]]:
    """The JVP rule: a call's results and their tangents."""
    results = _bound(text, primals, linear)
    found = [ad.Zero(_jax().typeof(result).to_tangent_aval()) for result in results]
    given = _wanted([n for n, each in enumerate(tangents) if type(each) is not ad.Zero], primals)
    wanted = tuple(n for n, result in enumerate(results) if _is_real(result.dtype))
    if not given or not wanted:
        return results, found
    specs = _specs(primals)
    _check_widths(results, results_of(text, specs))
    keeps = reads_results(text, specs, given)
    count, kept = len(primals), results if keeps else ()
    forward = tangents_text(text, count, given, wanted, results=len(kept))
    anything = [results[n] for n in wanted]
    along = [tangents[n] for n in given]
    parts = _bound(
        forward, [*primals, *kept, *anything, *along], _Tangents(text, count, given, wanted)
    )
    for number, part in zip(wanted, parts, strict=True):
        found[number] = part
    return results, found


def _transposed(
    ad: Any, cotangents: Sequence[Any], *operands: Any, text: str, linear: _Tangents | None
) -> list[Any]:
    """The transpose rule: cotangents of the operands that a call is linear in."""
    if linear is None:
        raise GradientError("this call of mdtensor is not linear in what it is transposed by")
    fixed = operands[: len(operands) - len(linear.given) - len(linear.wanted)]
    pairs = zip(linear.wanted, cotangents, strict=True)
    due = {n: each for n, each in pairs if type(each) is not ad.Zero}
    found: list[Any] = [None] * (len(operands) - len(linear.given))
    back = pullback_text(
        linear.text,
        linear.operands,
        linear.given,
        list(due),
        results=len(fixed) > linear.operands,
    )
    return found + _bound(back, [*fixed, *due.values()])


def _wanted(perturbed: Sequence[int], operands: Sequence[Array]) -> tuple[int, ...]:
    """The perturbed operands of real types; integers have no tangents. GradientError if complex."""
    for number in perturbed:
        if operands[number].dtype.kind == "c":
            raise GradientError(
                f"operand {number} is {operands[number].dtype.name}, and has no gradient",
                hint="compute real and imaginary parts as arrays of their own",
            )
    return tuple(n for n in perturbed if _is_real(operands[n].dtype))


def _check_widths(results: Sequence[Array], due: Sequence[TensorSpec]) -> None:
    """Raises GradientError where JAX truncates a result's type and so its cotangents."""
    for result, spec in zip(results, due, strict=True):
        if _is_real(result.dtype) and result.dtype != spec.dtype:
            raise GradientError(
                f"a result is {spec.dtype.name} and JAX holds it as {result.dtype.name}",
                hint='jax.config.update("jax_enable_x64", True), or compute it in float32',
            )
