"""A case beyond einsum: its reference, and the words that each library has for it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.workload import Arrays, Call, Outs, Workload
from mdtensor.specs import TensorSpec

# Makes the calls of a library, by name, from the operands and the arrays for the results.
Say = Callable[[list[np.ndarray], Arrays], Mapping[str, Call]]
Draw = Callable[[np.random.Generator, TensorSpec], np.ndarray]

# A function of torch's tensors on a GPU, by torch's compiler.
COMPILED = "compiled"

# A pass of numba's loops over more than this takes seconds.
LOOPS_FLOPS = 4_000_000_000


def normal(generator: np.random.Generator, spec: TensorSpec) -> np.ndarray:
    """Normally distributed numbers."""
    return generator.standard_normal(spec.shape, np.float32)


def whole(generator: np.random.Generator, spec: TensorSpec) -> np.ndarray:
    """Whole numbers around 0: millions of them have the same float32 sum in every order.

    A tolerance for long sums of others would hide an element that is missing.
    """
    return generator.integers(-100, 101, spec.shape)


@dataclass(frozen=True, eq=False)
class Kernel(Workload):
    """A case said in each library's own words.

    `exact` computes the results from floating-point operands in float64, integers as they are.
    `says` has the ways by word of a library: a library that cannot say the case is left out.
    mdtensor's way is a call of its public interface that writes into the results, named
    `engines.CALL`. Without results to write into, calls make them; those of `fillers`, libraries
    whose ways can only fill arrays, get new ones each time.
    """

    name: str
    formula: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    reduction: int
    flops: int
    exact: Callable[..., Any]
    says: Mapping[str, Say]
    draw: tuple[Draw, ...] = ()
    floor: float | None = None
    limit_floor: float | None = None
    shared: bool = False
    fillers: tuple[str, ...] = ("numba",)

    @property
    def words(self) -> tuple[str, ...]:
        """The libraries that can say the case."""
        return tuple(self.says)

    def calls(self, word: str, operands: list[np.ndarray], outs: Outs) -> Mapping[str, Call]:
        """The ways of a library to compute the case."""
        say: Callable[[list[np.ndarray], Any], Mapping[str, Call]] = self.says[word]
        if outs[0] is not None or word not in self.fillers:
            return say(operands, outs)

        def filled(name: str) -> Any:
            made = tuple(np.empty(spec.shape, spec.dtype) for spec in self.outputs)
            return say(operands, made)[name]()

        names = say(operands, self.empty_outputs())
        return {name: functools.partial(filled, name) for name in names}

    def drawn(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Normally distributed numbers, where `draw` says nothing else."""
        draws = self.draw or (normal,) * len(self.inputs)
        return [draw(generator, spec) for draw, spec in zip(draws, self.inputs, strict=True)]

    def reference(self, operands: list[np.ndarray]) -> Arrays:
        """The results, floating-point ones in float64."""
        results = self.exact(*map(_widened, operands))
        return results if isinstance(results, tuple) else (np.asarray(results),)


def _widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def without_slow_loops(says: Mapping[str, Say], flops: int) -> Mapping[str, Say]:
    """The ways less numba's, where its loops would take seconds and be no rival."""
    if flops <= LOOPS_FLOPS:
        return says
    return {word: say for word, say in says.items() if word != "numba"}


def xla(function: Callable[..., Any], operands: list[np.ndarray]) -> Call:
    """A call of a function of arrays, compiled by jax; it returns when the result is there."""
    import jax

    compiled: Any = jax.jit(function)
    arrays = [
        jax.numpy.asarray(operand)
        if isinstance(operand, np.ndarray)
        else jax.dlpack.from_dlpack(operand)
        for operand in operands
    ]
    return lambda: jax.block_until_ready(compiled(*arrays))


def compiled_by_torch(function: Callable[..., Any], *tensors: Any) -> dict[str, Call]:
    """On a GPU, a function as torch's compiler makes it, which may write kernels in Triton."""
    if not tensors[0].is_cuda:
        return {}
    import torch

    compiled: Any = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
    return {COMPILED: lambda: compiled(*tensors)}


def tensor_of(array: Any) -> Any:
    """A tensor of torch on an array's memory; None for None."""
    return None if array is None else importlib.import_module("torch").from_dlpack(array)


def library_for(operand: Any, name: str) -> Any:
    """A module of SciPy, or CuPy's of the same functions for an array of CuPy."""
    on_gpu = not isinstance(operand, np.ndarray)
    return importlib.import_module(name.replace("scipy", "cupyx.scipy", 1) if on_gpu else name)


def like(array: np.ndarray, operand: Any) -> Any:
    """An array where an operand is, which may be CuPy's."""
    if isinstance(operand, np.ndarray):
        return array
    return importlib.import_module("cupy").asarray(array)
