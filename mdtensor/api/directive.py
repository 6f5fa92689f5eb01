"""The directive: plain Python loops as parallel kernels (003, section 4).

With an operator for each loop, the body computes one point; without, the loops are what they
say, and their dependences are analysed.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdtensor.api.buffers import (
    BufferType,
)
from mdtensor.api.computation import Computation, Step, call
from mdtensor.api.dsl import Dsl, dsl_of
from mdtensor.api.function_key import function_key
from mdtensor.api.operands import Array, addressable, array_module, spec_of
from mdtensor.errors import ProgramError, ShapeError, TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.loop_arguments import program_of, stored
from mdtensor.translate.loops.loop_steps import LoopProgram, LoopStep, copying
from mdtensor.translate.loops.md_hom_from_assignment import writes_all
from mdtensor.translate.loops.md_hom_from_loops import md_hom_from_loops
from mdtensor.translate.loops.md_homs_from_loops import md_homs_from_loops
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.operators.operators import OperatorFunction
from mdtensor.translate.python.interpreter import LocalFunction
from mdtensor.translate.python.tuples import as_tuple
from mdtensor.translate.records.columns import words_of
from mdtensor.translate.reductions.reduction_of_records import WORTH_COPIES

add, mul, minimum, maximum = "add", "mul", "min", "max"
"""Operators by name, for `pw(add)`."""


@dataclass(frozen=True)
class Out:
    """The outputs of a directive."""

    buffers: Mapping[str, BufferType]


@dataclass(frozen=True)
class Inp:
    """The inputs of a directive."""

    buffers: Mapping[str, BufferType]


@dataclass(frozen=True)
class CombineOps:
    """The operators of a directive, one for each loop."""

    combinations: tuple[Combination, ...]


def out(**buffers: BufferType) -> Out:
    """The outputs: `out(w=Buffer[T])`."""
    return Out(buffers)


def inp(**buffers: BufferType) -> Inp:
    """The inputs: `inp(M=Buffer[T], v=Buffer[T])`."""
    return Inp(buffers)


def combine_ops(*combinations: Combination) -> CombineOps:
    """The operators of the loops, from the outermost: `combine_ops(cc, pw(add))`."""
    for given in combinations:
        combination: Any = given
        if not isinstance(combination, Combination):
            raise TranslationError(
                f"{combination!r} does not say how a loop is combined",
                hint="cc, pw(add) or ps(add)",
            )
    return CombineOps(combinations)


def pw_custom_func(
    identity: Any = None, *, commutative: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Marks a function `(res, lhs, rhs)` as an operator for `pw` (003, Listing 11)."""

    def marked(function: Callable[..., Any]) -> Any:
        neutral = None if identity is None else as_tuple(identity)
        return OperatorFunction(function, neutral, commutative)

    return marked


def mdh(*clauses: Any, outputs: Any = None, inputs: Any = None) -> Any:
    """Makes a kernel of a function of loops.

    `@mdh(out(w=Buffer[T]), inp(M=Buffer[T], v=Buffer[T]), combine_ops(cc, pw(add)))` names an
    operator for every loop of a perfect nest; the body assigns what one point contributes.

    Bare, or without `combine_ops`, the loops mean what they mean in Python: sums, products,
    minima and maxima of a loop are recognised, everything else that an iteration takes from
    another one is refused with its line and the reason. Loops of at most 32 iterations that no
    operator describes are written out. Floats are added in another order than Python would, a
    constant factor after the sum; a minimum or maximum with NaN is NaN.

    The function is called like the one that it was. Arrays that it writes are changed in place,
    and it returns what its `return` says. Outputs that `out(…)` names may be left out of the
    call; they begin as zeros and are returned.

    A function without parameters that returns views and an `md_hom` is a program of the DSL, see
    `md_hom`; `outputs` and `inputs` are its buffers (002, Listing 42).

    Raises ProgramError at the first call for what cannot be translated.

    >>> from mdtensor.directive import Buffer, cc, fp64, pw
    >>> @mdh(out(w=Buffer[fp64]), inp(M=Buffer[fp64], v=Buffer[fp64]), combine_ops(cc, pw(add)))
    ... def matvec(w, M, v):
    ...     for i in range(M.shape[0]):
    ...         for k in range(len(v)):
    ...             w[i] = M[i, k] * v[k]
    >>> matvec(np.ones((2, 3)), np.arange(3.0))
    array([3., 3.])
    """
    if len(clauses) == 1 and callable(clauses[0]) and outputs is None and inputs is None:
        return Directive(clauses[0])
    outputs, inputs = dict(outputs or {}), dict(inputs or {})
    combinations: tuple[Combination, ...] | None = None
    for clause in clauses:
        match clause:
            case Out(buffers):
                outputs |= buffers
            case Inp(buffers):
                inputs |= buffers
            case CombineOps(given):
                combinations = given
            case _:
                raise TranslationError(
                    f"{clause!r} is no clause of mdh", hint="out(…), inp(…) or combine_ops(…)"
                )

    def decorated(function: Callable[..., Any]) -> Directive:
        return Directive(function, outputs, inputs, combinations)

    return decorated


@dataclass(frozen=True)
class _Bound:
    """A call: arrays by the names of parameters, and the values of the other parameters."""

    arrays: dict[str, Array]
    values: dict[str, Any]
    blank: tuple[str, ...]
    in_place: tuple[str, ...]

    @property
    def key(self) -> Hashable:
        """All of the call that shapes the computation."""
        layouts = tuple((n, a.dtype.str, a.shape, a.strides) for n, a in self.arrays.items())
        numbers = tuple((n, _constant(v)) for n, v in self.values.items())
        return layouts, numbers, self.blank, self.in_place


@dataclass
class Directive:
    """A function of loops that runs as kernels; `steps` shows its `md_hom`s."""

    function: Callable[..., Any]
    outputs: Mapping[str, BufferType] = field(default_factory=dict[str, BufferType])
    inputs: Mapping[str, BufferType] = field(default_factory=dict[str, BufferType])
    combinations: tuple[Combination, ...] | None = None

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function)
        self._programs: dict[Hashable, LoopProgram] = {}
        self._signature = inspect.signature(self.function)
        self._parameters = tuple(self._signature.parameters)
        self._is_dsl = not self._parameters
        if self._is_dsl:
            return
        self._names = self._named_buffers()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the loops on arrays."""
        if self._is_dsl:
            return self._dsl()(*args, **kwargs)
        bound = self._bound(args, kwargs)
        program, key = self._program(bound)
        results = self._run(bound, program, key)
        if program.returned:
            found = tuple(results.get(n, bound.arrays.get(n)) for n in program.returned)
        elif bound.blank:
            found = tuple(results[self._names.get(n, n)] for n in self.outputs)
        else:
            return None
        return found[0] if len(found) == 1 else found

    def steps(self, *args: Any, **kwargs: Any) -> tuple[MDHom, ...]:
        """The `md_hom`s that a call with these arguments computes, in order."""
        if self._is_dsl:
            return (self._dsl().md_hom(*args, **kwargs),)
        program, _ = self._program(self._bound(args, kwargs))
        return tuple(step.md_hom for step in program.steps)

    def _dsl(self) -> Dsl:
        return dsl_of(self.function(), self.function, self.outputs, self.inputs)

    # Arguments.

    def _named_buffers(self) -> dict[str, str]:
        """The parameter of every buffer that clauses name; by position where names differ."""
        declared = list(dict.fromkeys((*self.outputs, *self.inputs)))
        unknown = [name for name in declared if name not in self._parameters]
        if not unknown:
            return {name: name for name in declared}
        if len(declared) > len(self._parameters):
            raise TranslationError(
                f"mdh names buffers {', '.join(declared)}, but {self.function.__name__} has"
                f" parameters {', '.join(self._parameters)}"
            )
        return dict(zip(declared, self._parameters, strict=False))

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Bound:
        outputs = [self._names[name] for name in self.outputs]
        given = len(args) + len(kwargs)
        omitted = [n for n in outputs if n not in kwargs] if self._omits(given, outputs) else []
        positional = [name for name in self._parameters if name not in omitted]
        if len(args) > len(positional):
            raise TypeError(
                f"{self.function.__name__}() takes {len(self._parameters)} arguments, or"
                f" {len(self._parameters) - len(outputs)} without its outputs, not {given}"
            )
        bound = self._signature.bind_partial(**dict(zip(positional, args, strict=False)), **kwargs)
        bound.apply_defaults()
        missing = [n for n in self._parameters if n not in bound.arguments and n not in omitted]
        if missing:
            raise TypeError(f"{self.function.__name__}() lacks an argument for {missing[0]!r}")
        return self._sorted(bound.arguments, tuple(omitted))

    def _omits(self, given: int, outputs: Sequence[str]) -> bool:
        parameters = self._signature.parameters.values()
        required = [p for p in parameters if p.default is p.empty]
        return bool(outputs) and given < len(required)

    def _sorted(self, arguments: Mapping[str, Any], omitted: tuple[str, ...]) -> _Bound:
        types = {self._names[n]: t for n, t in {**self.inputs, **self.outputs}.items()}
        xp = array_module(arguments.values())
        arrays: dict[str, Array] = {}
        values: dict[str, Any] = {}
        for name, value in arguments.items():
            if name in types or _is_array(value):
                array = xp.asarray(value, dtype=None if _is_array(value) else types[name].dtype)
                arrays[name] = array
                if name in types:
                    types[name].check(name, _any_spec(array))
            else:
                values[name] = value
        if self.combinations is None:
            _check_apart(arrays, self._written, xp)
        in_place = tuple(n for n in arrays if n in self._written and _may_be_kept(arrays, n, xp))
        return _Bound(arrays, values, omitted, in_place)

    @functools.cached_property
    def _written(self) -> set[str]:
        """Parameters into whose elements the function may store."""
        if self.combinations is not None:
            return {self._names[name] for name in self.outputs}
        return stored(program_of(self.function).source)

    # Programs.

    def _program(self, bound: _Bound) -> tuple[LoopProgram, Hashable]:
        key = ("mdh", self._key, bound.key)
        program = self._programs.get(key)
        if program is None:
            specs = {name: _any_spec(array) for name, array in bound.arrays.items()}
            program = self._programs[key] = self._translated(bound, specs)
        return program, key

    @property
    def _key(self) -> Hashable:
        clauses = tuple(
            (name, repr(t)) for name, t in (*self.outputs.items(), *self.inputs.items())
        )
        return function_key(self.function), clauses, function_key(self.combinations)

    def _translated(self, bound: _Bound, specs: Mapping[str, TensorSpec]) -> LoopProgram:
        program = program_of(self.function)
        given = {**specs, **bound.values}
        if self.combinations is not None:
            return self._combined(program, given, bound)
        given |= {n: self._blank_spec(n) for n in bound.blank}
        return md_homs_from_loops(program, given, blank=bound.blank, in_place=bound.in_place)

    def _blank_spec(self, name: str) -> TensorSpec:
        declared = {self._names[n]: t for n, t in self.outputs.items()}[name]
        if declared.shape is None:
            raise ProgramError(
                f"output {name} is neither passed nor declared with its size",
                hint=f"pass an array, or declare {name}=Buffer[{declared.dtype.name}, extents…]",
            )
        return TensorSpec.of(declared.shape, declared.dtype)

    def _combined(
        self, program: LocalFunction, given: Mapping[str, Any], bound: _Bound
    ) -> LoopProgram:
        """The program of a nest with operators: one `md_hom`, after a copy where it needs one."""
        assert self.combinations is not None
        outputs: dict[str, TensorSpec | np.dtype] = {}
        for name, declared in self.outputs.items():
            parameter = self._names[name]
            passed = given.get(parameter)
            if isinstance(passed, TensorSpec):
                outputs[parameter] = TensorSpec.of(passed.shape, passed.dtype)
            elif declared.shape is not None:
                outputs[parameter] = TensorSpec.of(declared.shape, declared.dtype)
            else:
                outputs[parameter] = declared.dtype
        inputs = {self._names[name] for name in self.inputs}
        arguments = {n: v for n, v in given.items() if n not in outputs or n in inputs}
        md_hom = md_hom_from_loops(program, arguments, outputs, self.combinations)
        results = {buffer.name: f"{buffer.name}#1" for buffer in md_hom.outputs}
        step = LoopStep(md_hom, tuple(b.name for b in md_hom.inputs), tuple(results.values()))
        arrays = {results[buffer.name]: buffer.spec for buffer in md_hom.outputs}
        copies = [
            copying(n, given[n], results[n], arrays[results[n]])
            for n in results
            if n in given and n not in bound.in_place and not writes_all(md_hom, n)
        ]
        steps = (*copies, step)
        operands = tuple(dict.fromkeys(name for step in steps for name in step.inputs))
        return LoopProgram(steps, operands, results, arrays)

    # Running.

    def _run(self, bound: _Bound, program: LoopProgram, key: Hashable) -> dict[str, Array]:
        """Runs a program; the arrays of all parameters that it writes."""
        arrays = _with_fields(bound.arrays)
        arrays |= {n: np.asarray(v) for n, v in bound.values.items() if _is_number(v)}
        points = max((step.md_hom.points for step in program.steps), default=0)
        operands = [_as_operand(arrays[name], points) for name in program.operands]
        xp = array_module(bound.arrays.values())
        targets: list[Array | None] = [arrays.get(name) for name in program.results]
        if any(target is not None for target in targets):
            specs = [program.arrays[name] for name in program.results.values()]
            targets = [
                xp.zeros(spec.shape, spec.dtype) if target is None else target
                for target, spec in zip(targets, specs, strict=True)
            ]

        def build(specs: tuple[TensorSpec, ...]) -> Computation:
            known = dict(zip(program.operands, specs, strict=True))
            return _computation(program, known, self._fills(bound, program))

        if not targets:
            return {}
        whole = tuple(targets) if targets[0] is not None else None
        results = as_tuple(call(key, operands, build, whole))
        return dict(zip(program.results, results, strict=True))

    def _fills(self, bound: _Bound, program: LoopProgram) -> tuple[float | None, ...]:
        """Zeros for outputs that a nest with operators writes in part, and nobody passed."""
        if self.combinations is None:
            return ()
        md_hom = program.steps[-1].md_hom
        return tuple(
            0 if n in bound.blank and not writes_all(md_hom, n) else None for n in program.results
        )


def _is_array(value: Any) -> bool:
    """Whether a value is an array, or a floating scalar of NumPy, which keeps its type."""
    return (
        hasattr(value, "shape")
        and hasattr(value, "dtype")
        and not isinstance(value, np.integer | np.bool_)
    )


def _is_number(value: Any) -> bool:
    """Whether a value is a number of Python that is handed to kernels when they run."""
    return isinstance(value, float | complex)


def _constant(value: Any) -> Hashable:
    return value.__class__.__name__ if _is_number(value) else function_key(value)


def _any_spec(array: Array) -> TensorSpec:
    """The spec of an array; of one that is copied before it is used, that of the copy."""
    if array.dtype.names is None and addressable(array):
        return spec_of(array)
    return TensorSpec.of(array.shape, array.dtype)


def _with_fields(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays, and for records also those of their fields."""
    found: dict[str, Any] = dict(arrays)
    for name, array in arrays.items():
        fields: tuple[str, ...] = array.dtype.names or ()
        found |= _with_fields({f"{name}.{field}": array[field] for field in fields})
    return found


def _as_operand(array: Array, points: int) -> Array:
    """What kernels read of an array: words of strings; fields that are read often apart."""
    if array.dtype.kind in "SU":
        return words_of(array)
    is_apart = array.flags.c_contiguous or points < WORTH_COPIES * array.size
    around = getattr(array.base, "dtype", None)
    is_field = getattr(around, "names", None) is not None
    return array if is_apart or not is_field else np.ascontiguousarray(array)


def _check_apart(arrays: Mapping[str, Array], written: Collection[str], xp: Any) -> None:
    """Loops that mean what they mean in Python need arrays that are not parts of each other."""
    for name in arrays.keys() & written:
        for other, array in arrays.items():
            if other != name and xp.may_share_memory(arrays[name], array):
                raise ShapeError(
                    f"{name} is written, and shares memory with {other}",
                    hint=f"pass a copy: {other}.copy()",
                )


def _may_be_kept(arrays: Mapping[str, Array], name: str, xp: Any) -> bool:
    """Whether kernels can write to an array itself: it lies in order, apart from all others."""
    array = arrays[name]
    return (
        array.dtype.names is None
        and bool(array.flags.c_contiguous)
        and addressable(array)
        and not any(xp.may_share_memory(array, a) for n, a in arrays.items() if n != name)
    )


def _computation(
    program: LoopProgram, operands: Mapping[str, TensorSpec], fills: tuple[float | None, ...]
) -> Computation:
    """The steps over slots: operands, results, then all other arrays."""
    names = list(operands)
    names += program.results.values()
    count = len(operands)
    inner = dict.fromkeys(
        name
        for step in program.steps
        for name in (*step.inputs, *step.outputs)
        if name not in names
    )
    names += inner
    slots = {name: slot for slot, name in enumerate(names)}
    steps = tuple(
        Step(
            _with_specs(step, operands),
            tuple(slots[name] for name in step.inputs),
            tuple(slots[name] for name in step.outputs),
        )
        for step in program.steps
    )
    results = tuple(program.arrays[name] for name in program.results.values())
    temporaries = tuple(program.arrays[name] for name in inner)
    return Computation(count, results, temporaries, steps, fills)


def _with_specs(step: LoopStep, operands: Mapping[str, TensorSpec]) -> MDHom:
    """The `md_hom` of a step on operands as they lie in memory."""
    inputs = tuple(
        dataclasses.replace(buffer, spec=operands.get(name, buffer.spec))
        for buffer, name in zip(step.md_hom.inputs, step.inputs, strict=True)
    )
    return dataclasses.replace(step.md_hom, inputs=inputs)
