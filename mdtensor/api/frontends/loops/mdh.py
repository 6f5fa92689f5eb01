"""The directive: plain Python loops as parallel kernels (003, section 4).

With an operator for each loop, the body computes one point; without, the loops are what they
say, and their dependences are analysed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from operator import attrgetter
from typing import Any, overload

import numpy as np

from mdtensor.api.arrays.operands import Array, array_module
from mdtensor.api.arrays.unaligned_arrays import copy_into
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.calls.function_fingerprint import function_key
from mdtensor.api.calls.program_calls import call, made
from mdtensor.api.frontends.loops.buffer_types import BufferType
from mdtensor.api.frontends.loops.clauses import CombineOps, Inp, Out
from mdtensor.api.frontends.loops.dsl import Dsl, dsl_of
from mdtensor.api.frontends.loops.loop_operands import BeginCheck, as_operand, with_fields
from mdtensor.api.frontends.loops.loops_in_order import run_in_order
from mdtensor.api.frontends.loops.mdh_parameters import Bound, DirectiveParameters
from mdtensor.dataclass import dataclass
from mdtensor.decorated import Decorated
from mdtensor.errors import ProgramError, TranslationError, shown
from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.loop_arguments import program_of
from mdtensor.translate.loops.loop_program import LoopProgram, LoopStep
from mdtensor.translate.loops.loop_steps import copying
from mdtensor.translate.loops.md_hom_from_assignment import writes_all
from mdtensor.translate.loops.md_hom_from_loops import md_hom_from_loops
from mdtensor.translate.loops.md_homs_from_loops import md_homs_from_loops
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.programs.other_operands import with_layouts
from mdtensor.translate.python.local_functions import LocalFunction
from mdtensor.translate.python.tuples import as_tuple


@overload
def mdh(function: Callable[..., Any], /) -> Directive: ...


@overload
def mdh(
    *clauses: Out | Inp | CombineOps,
    outputs: Mapping[str, BufferType] | None = None,
    inputs: Mapping[str, BufferType] | None = None,
) -> Callable[[Callable[..., Any]], Directive]: ...


def mdh(*clauses: Any, outputs: Any = None, inputs: Any = None) -> Any:
    """Makes a kernel from a function of loops.

    `@mdh(out(w=Buffer[T]), inp(M=Buffer[T], v=Buffer[T]), combine_ops(cc, pw(add)))` names an
    operator for every loop of a perfect nest; the body assigns what one point contributes.

    Bare, or without `combine_ops`, the loops mean what they mean in Python: sums, products,
    minima and maxima of a loop are recognised, everything else that an iteration takes from
    another one is refused with its line and the reason. Bounds of loops may be elements of arrays
    of integers, and so may indices of elements that an operator updates. Loops of at most 64
    iterations that no operator describes are written out; longer ones run in order, with at most
    4096 stores in all. Floats are added in another order than Python would, a constant factor after
    the sum; a minimum or maximum with NaN is NaN.

    The function is called like the one that it was. Arrays that it writes are changed in place,
    and it returns what its `return` says. Outputs that `out(…)` names may be left out of the
    call; they begin as zeros and are returned.

    A function without parameters that returns views and an `md_hom` is a program of the DSL, see
    `md_hom`; `outputs` and `inputs` are its buffers (002, Listing 42).

    Raises ProgramError at the first call for what cannot be translated, and at each call where a
    loop whose bounds are data begins below 0.

    >>> from mdtensor.directive import Buffer, add, cc, combine_ops, fp64, inp, out, pw
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
                    f"{shown(clause)} is no clause of mdh", hint="out(…), inp(…) or combine_ops(…)"
                )

    def decorated(function: Callable[..., Any]) -> Directive:
        return Directive(function, outputs, inputs, combinations)

    return decorated


@dataclass
class Directive(Decorated):
    """A function of loops that runs as kernels; `steps` shows its `md_hom`s."""

    function: Callable[..., Any]
    outputs: Mapping[str, BufferType] = field(default_factory=dict[str, BufferType])
    inputs: Mapping[str, BufferType] = field(default_factory=dict[str, BufferType])
    combinations: tuple[Combination, ...] | None = None

    def __post_init__(self) -> None:
        if not inspect.isroutine(self.function) or inspect.isbuiltin(self.function):
            raise TranslationError(
                f"{shown(self.function)} is no function of Python's",
                hint="mdh takes a function of loops that is written by def",
            )
        functools.update_wrapper(self, self.function)
        buffers = (*self.outputs.items(), *self.inputs.items())
        self._clauses = len(self.outputs), tuple((name, repr(t)) for name, t in buffers)
        self._is_dsl = not inspect.signature(self.function).parameters
        if not self._is_dsl:
            is_point = self.combinations is not None
            self._parameters = DirectiveParameters(
                self.function, self.outputs, self.inputs, is_point=is_point
            )

    # Calls of directives that compute the same have the key in common.
    @functools.partial(with_call_cache, of=attrgetter("key"), numbers=True, front_end="mdh")
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the loops on arrays."""
        if self._is_dsl:
            return self._dsl()(*args, **kwargs)
        bound = self._parameters.bound(args, kwargs)
        loops, key = self._program(bound)
        results = self._run(bound, loops, key)
        if loops.returned:
            found = tuple(results.get(n, bound.arrays.get(n)) for n in loops.returned)
        elif bound.blank:
            found = tuple(results[self._parameters.names.get(n, n)] for n in self.outputs)
        else:
            return None
        return found[0] if len(found) == 1 else found

    def steps(self, *args: Any, **kwargs: Any) -> tuple[MDHom, ...]:
        """The `md_hom`s that a call with these arguments computes, in order."""
        if self._is_dsl:
            return (self._dsl().md_hom(*args, **kwargs),)
        loops, _ = self._program(self._parameters.bound(args, kwargs))
        return tuple(step.md_hom for step in loops.program.steps)

    def _dsl(self) -> Dsl:
        return dsl_of(self.function(), self.function, self.outputs, self.inputs)

    # Programs.

    def _program(self, bound: Bound) -> tuple[LoopProgram, Hashable]:
        key = ("mdh", self.key, bound.key)
        return made(key, lambda: self._translated(bound)), key

    @property
    def key(self) -> Hashable:
        """The cache key of a directive: the function's fingerprint, and its clauses."""
        return function_key(self.function), self._clauses, function_key(self.combinations)

    def _translated(self, bound: Bound) -> LoopProgram:
        program = program_of(self.function)
        given = {**bound.specs, **bound.values}
        if self.combinations is not None:
            return self._combined(program, given, bound)
        given |= {n: self._blank_spec(n) for n in bound.blank}
        return md_homs_from_loops(program, given, blank=bound.blank, in_place=bound.in_place)

    def _blank_spec(self, name: str) -> TensorSpec:
        declared = {self._parameters.names[n]: t for n, t in self.outputs.items()}[name]
        if declared.shape is None:
            raise ProgramError(
                f"output {name} is neither passed nor declared with its size",
                hint=f"pass an array, or declare {name}=Buffer[{declared.dtype.name}, extents…]",
            )
        return TensorSpec.of(declared.shape, declared.dtype)

    def _combined(
        self, program: LocalFunction, given: Mapping[str, Any], bound: Bound
    ) -> LoopProgram:
        """The program of a loop nest with operators: one `md_hom`, after copies if needed."""
        assert self.combinations is not None
        outputs: dict[str, TensorSpec | np.dtype] = {}
        for name, declared in self.outputs.items():
            parameter = self._parameters.names[name]
            passed = given.get(parameter)
            if isinstance(passed, TensorSpec):
                outputs[parameter] = TensorSpec.of(passed.shape, passed.dtype)
            elif declared.shape is not None:
                outputs[parameter] = TensorSpec.of(declared.shape, declared.dtype)
            else:
                outputs[parameter] = declared.dtype
        inputs = {self._parameters.names[name] for name in self.inputs}
        arguments = {n: v for n, v in given.items() if n not in outputs or n in inputs}
        md_hom, begins = md_hom_from_loops(program, arguments, outputs, self.combinations)
        results = {buffer.name: f"{buffer.name}#1" for buffer in md_hom.outputs}
        step = LoopStep(md_hom, tuple(b.name for b in md_hom.inputs), tuple(results.values()))
        arrays = {results[buffer.name]: buffer.spec for buffer in md_hom.outputs}
        copies = [
            copying(n, given[n], results[n], arrays[results[n]])
            for n in results
            if n in given and n not in bound.in_place and not writes_all(md_hom, n)
        ]
        steps = (*copies, step)
        operands = dict.fromkeys(name for step in steps for name in step.inputs)
        partial = [n in bound.blank and not writes_all(md_hom, n) for n in results]
        fills = tuple(0 if is_partial else None for is_partial in partial)
        return LoopProgram.of(steps, operands, results, arrays, fills, begins=begins)

    # Running.

    def _run(self, bound: Bound, loops: LoopProgram, key: Hashable) -> dict[str, Array]:
        """Runs a program; returns the arrays of all written parameters."""
        arrays = with_fields(bound.arrays) | bound.numbers
        points = max((step.md_hom.points for step in loops.program.steps), default=0)
        operands = [as_operand(arrays[name], points) for name in loops.operands]
        xp = array_module(bound.arrays.values())
        targets: list[Array | None] = [arrays.get(name) for name in loops.results]
        if any(target is not None for target in targets):
            specs = loops.program.results
            targets = [
                xp.zeros(spec.shape, spec.dtype) if target is None else target
                for target, spec in zip(targets, specs, strict=True)
            ]

        def build(specs: tuple[TensorSpec, ...]) -> Program:
            return with_layouts(loops.program, specs)

        if not targets:
            return {}
        check = BeginCheck(loops.begins, loops.operands) if loops.begins else None
        if loops.windows:
            if check is not None:
                check(*operands)
            found = dict(zip(loops.results, run_in_order(loops, operands, xp), strict=True))
            for name, target in zip(loops.results, targets, strict=True):
                if target is not None:
                    copy_into(target, found[name], xp)
                    found[name] = target
            return found
        whole = tuple(targets) if targets[0] is not None else None
        results = as_tuple(call(key, operands, build, whole, check=check))
        return dict(zip(loops.results, results, strict=True))
