"""The name of a problem in the store: the same for all that lower alike, on any machine."""

from __future__ import annotations

import hashlib

import numpy as np

from mdtensor.lower.index import Index
from mdtensor.lower.problem import Problem

# Counts changes of the code generator that make old timings worthless.
CODE_GENERATION = 1


def problem_key(problem: Problem) -> str:
    """A line that people can read and that tells problems apart.

    Extents with `+` are reduced; each access has its type and its stride per dim.

    >>> from mdtensor.lower.problem import problem_from_md_hom
    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> specs = TensorSpec.of((64, 32)), TensorSpec.of((32, 128))
    >>> problem_key(problem_from_md_hom(md_hom_from_einsum("ij,jk->ik", specs)))
    'mul/add 64,32+,128 float32(32,1,0) float32(0,128,1) -> float32(128,0,1) #469112ed'
    """
    dims = ",".join(
        f"{extent!r}{'+' if reduced else ''}"
        for extent, reduced in zip(problem.extents, problem.reduced, strict=True)
    )
    reads = " ".join(
        _access(problem.inputs[stream.buffer], stream.strides) for stream in problem.streams
    )
    writes = " ".join(
        _access(problem.outputs[write.buffer], write.strides) for write in problem.writes
    )
    operator = "" if problem.operator is None else f"/{problem.operator!r}"
    if problem.scanned >= 0:
        operator += " prefix sum"
    if problem.finish is not None:
        operator += f" then {problem.finish.function!r}"
    return f"{problem.scalar!r}{operator} {dims} {reads} -> {writes} #{_digest(problem)}"


def _access(dtype: np.dtype, strides: tuple[Index, ...]) -> str:
    return f"{dtype.name}({','.join(map(repr, strides))})"


def _digest(problem: Problem) -> str:
    """Eight hexadecimal digits for what the line does not show: functions, offsets, buffers."""
    operator = problem.operator
    hidden: tuple[object, ...] = (
        problem.scalar.params,
        problem.scalar.results,
        None if operator is None else (operator.results, operator.identity, operator.commutative),
        [stream.buffer for stream in problem.streams],
        problem.reads,
        [(write.buffer, write.offset) for write in problem.writes],
    )
    if problem.scanned >= 0:
        hidden += (f"scan of {problem.scanned}",)
    if problem.finish is not None:
        hidden += (problem.finish,)
    return hashlib.sha256(repr(hidden).encode()).hexdigest()[:8]
