"""Parameters of a directive's function: its buffers, and the binding of a call's arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.memory_overlap import check_distinct, is_apart
from mdtensor.api.arrays.operands import (
    Array,
    array_module,
    as_array,
    check_mask,
    check_types,
    holds,
    spec_of,
)
from mdtensor.api.arrays.sparse_arrays import check_dense
from mdtensor.api.arrays.unaligned_arrays import addressable
from mdtensor.api.calls.function_fingerprint import function_key
from mdtensor.api.frontends.loops.buffer_types import BufferType
from mdtensor.dataclass import dataclass
from mdtensor.errors import ArgumentError, DTypeError, ShapeError, TranslationError
from mdtensor.forks import cached_property
from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.loop_arguments import program_of, stored


@dataclass(frozen=True)
class Bound:
    """A call's bound arguments: arrays by parameter, and the values of the other parameters."""

    arrays: dict[str, Array]
    values: dict[str, Any]
    blank: tuple[str, ...]
    in_place: tuple[str, ...]

    @property
    def key(self) -> Hashable:
        """The cache key of the call's computation."""
        layouts = tuple((n, a.dtype.str, a.shape, a.strides) for n, a in self.arrays.items())
        constants = tuple((n, _constant(v)) for n, v in self.values.items())
        return layouts, constants, self.blank, self.in_place

    @property
    def specs(self) -> dict[str, TensorSpec]:
        """The specs of the arrays."""
        return {name: spec_of_operand(array) for name, array in self.arrays.items()}

    @property
    def numbers(self) -> dict[str, float | complex]:
        """The numbers that are passed to kernels at run time."""
        return {n: v for n, v in self.values.items() if _is_number(v)}


class DirectiveParameters:
    """The parameters of a function, with the buffers declared by its clauses.

    `is_point` says that its body computes one point, since operators combine the loops.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        outputs: Mapping[str, BufferType],
        inputs: Mapping[str, BufferType],
        *,
        is_point: bool,
    ) -> None:
        self._function = function
        self._outputs = outputs
        self._inputs = inputs
        self._is_point = is_point
        self._signature = inspect.signature(function)
        self._parameters = tuple(self._signature.parameters)
        # The parameter of every buffer that clauses name.
        self.names = self._named_buffers()

    def _named_buffers(self) -> dict[str, str]:
        """The parameter of each buffer: by name, or by position where names differ."""
        declared = list(dict.fromkeys((*self._outputs, *self._inputs)))
        unknown = [name for name in declared if name not in self._parameters]
        if not unknown:
            return {name: name for name in declared}
        if len(declared) > len(self._parameters):
            raise TranslationError(
                f"mdh names buffers {', '.join(declared)}, but {self._function.__name__} has"
                f" parameters {', '.join(self._parameters)}"
            )
        return dict(zip(declared, self._parameters, strict=False))

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
        """Bind a call's arguments. Outputs may be left out; ArgumentError for missing others."""
        outputs = [self.names[name] for name in self._outputs]
        given = len(args) + len(kwargs)
        omitted = [n for n in outputs if n not in kwargs] if self._omits(given, outputs) else []
        positional = [name for name in self._parameters if name not in omitted]
        if len(args) > len(positional):
            raise ArgumentError(
                f"{self._function.__name__}() takes {len(self._parameters)} arguments, or"
                f" {len(self._parameters) - len(outputs)} without its outputs, not {given}"
            )
        values = dict(zip(positional, args, strict=False))
        try:
            bound = self._signature.bind_partial(**values, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self._function.__name__}(): {error}") from None
        bound.apply_defaults()
        missing = [n for n in self._parameters if n not in bound.arguments and n not in omitted]
        if missing:
            raise ArgumentError(f"{self._function.__name__}() lacks an argument for {missing[0]!r}")
        return self._sorted(bound.arguments, tuple(omitted))

    def _omits(self, given: int, outputs: Sequence[str]) -> bool:
        parameters = self._signature.parameters.values()
        required = [p for p in parameters if p.default is p.empty]
        return bool(outputs) and given < len(required)

    def _sorted(self, arguments: Mapping[str, Any], omitted: tuple[str, ...]) -> Bound:
        types = {self.names[n]: t for n, t in {**self._inputs, **self._outputs}.items()}
        xp = array_module(arguments.values())
        arrays: dict[str, Array] = {}
        values: dict[str, Any] = {}
        for name, value in arguments.items():
            if name in types or _is_array(value):
                _check_argument(name, value, name in self.written, xp)
                dtype = None if _is_array(value) else types[name].dtype
                array = as_array(name, value, xp, dtype)
                if name in types and name not in self.written:
                    array = types[name].taken(array)
                if array.dtype.kind not in "SUV":  # strings and records are read by their parts
                    check_types([array.dtype])
                arrays[name] = array
                if name in types:
                    types[name].check(name, spec_of_operand(array))
            else:
                values[name] = value
        if not self._is_point:
            _check_apart(arrays, self.written, xp)
        in_place = tuple(n for n in arrays if n in self.written and _may_be_kept(arrays, n, xp))
        return Bound(arrays, values, omitted, in_place)

    @cached_property
    def written(self) -> set[str]:
        """The parameters whose elements the function may store to."""
        if self._is_point:
            return {self.names[name] for name in self._outputs}
        return stored(program_of(self._function).source)


def _is_array(value: Any) -> bool:
    """Whether a value is an array, or a NumPy floating-point scalar, which keeps its type."""
    return (
        hasattr(value, "shape")
        and hasattr(value, "dtype")
        and not isinstance(value, np.integer | np.bool_)
    )


def _check_argument(name: str, value: Any, is_written: bool, xp: Any) -> None:
    """Raises DTypeError for masked and sparse arrays, and for outputs that are no arrays."""
    check_mask(name, value)
    check_dense(name, value)
    if is_written and not isinstance(value, xp.ndarray):
        raise DTypeError(
            f"{name} is written, but is no array of {xp.__name__}: {type(value).__name__}",
            hint=f"pass an array, such as {xp.__name__}.asarray({name}) if it shares its memory",
        )
    if is_written and xp is np and not value.flags.writeable:
        raise ShapeError(f"{name} is written, but read-only", hint=f"pass {name}.copy()")
    if is_written:
        check_distinct(name, value)


def _is_number(value: Any) -> bool:
    """Whether a value is a Python number that is passed to kernels at run time."""
    return isinstance(value, float | complex)


def _constant(value: Any) -> Hashable:
    return value.__class__.__name__ if _is_number(value) else function_key(value)


def spec_of_operand(array: Array) -> TensorSpec:
    """The spec of an array as kernels read it: of a contiguous copy, where they need one."""
    if array.dtype.names is None and addressable(array) and array.dtype.isnative:
        return spec_of(array)
    return TensorSpec.of(array.shape, array.dtype.newbyteorder("="))


def _check_apart(arrays: Mapping[str, Array], written: Collection[str], xp: Any) -> None:
    """Raises ShapeError where a written array shares memory with another one."""
    for name in arrays.keys() & written:
        for other, array in arrays.items():
            if other != name and not is_apart(arrays[name], [array], xp):
                raise ShapeError(
                    f"{name} is written, and shares memory with {other}",
                    hint=f"pass a copy: {other}.copy()",
                )


def _may_be_kept(arrays: Mapping[str, Array], name: str, xp: Any) -> bool:
    """Whether kernels can write an array directly: contiguous, and apart from all others."""
    array = arrays[name]
    others = [other for n, other in arrays.items() if n != name]
    in_order = TensorSpec.of(array.shape, array.dtype.newbyteorder("="))
    return array.dtype.names is None and holds(array, in_order, others, xp)
