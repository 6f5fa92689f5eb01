"""Cache keys of problems, equal for problems that lower alike, on any machine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.problem.problem import Bounds, Finish, Problem, Read
from mdtensor.translate.combine import Operator
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import dims_in

# Counts changes of the code generator that make old timings worthless.
CODE_GENERATION = 3


def problem_key(problem: Problem) -> str:
    """The cache key of a problem: one readable line.

    Extents with `+` are reduced; each access has its type and its stride per dim.

    >>> from mdtensor.lower.problem.problem import problem_from_md_hom
    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> specs = TensorSpec.of((64, 32)), TensorSpec.of((32, 128))
    >>> problem_key(problem_from_md_hom(md_hom_from_einsum("ij,jk->ik", specs)))
    'mul/add 64,32+,128 float32(32,1,0) float32(0,128,1) -> float32(128,0,1) #469112ed'
    """
    return _line(problem, repr)


def key_pattern(structure: Problem) -> str | None:
    """A `str.format` template of the keys of a structure's problems, by numbers of sizes; or None.

    None where more than extents and strides differ from problem to problem.

    >>> from mdtensor.lower.problem.generic_problem import generalised
    >>> from mdtensor.lower.problem.problem import problem_from_md_hom
    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> specs = TensorSpec.of((64, 32)), TensorSpec.of((32, 128))
    >>> made = generalised(problem_from_md_hom(md_hom_from_einsum("ij,jk->ik", specs)))
    >>> key_pattern(made[0])
    'mul/add {0},{1}+,{2} float32({3},1,0) float32(0,{4},1) -> float32({5},0,1) #469112ed'
    >>> key_pattern(made[0]).format(*made[1])
    'mul/add 64,32+,128 float32(32,1,0) float32(0,128,1) -> float32(128,0,1) #469112ed'
    """
    walks = (*structure.streams, *structure.writes)
    shown = [*structure.extents, *(stride for walk in walks for stride in walk.strides)]
    named = {repr(index) for index in shown if index.constant is None}
    functions = [structure.scalar]
    if structure.finish is not None:
        functions.append(structure.finish.function)
    offsets = [access.offset for access in (*structure.all_reads, *structure.writes)]
    if (
        named != set(structure.sizes)
        or any(as_index(offset).constant is None for offset in offsets)
        or (structure.bounds is not None)
        or any(dims_in(result) for function in functions for result in function.results)
    ):
        return None

    def numbered(index: Index) -> str:
        text = repr(index)
        return text if index.constant is not None else f"\0{structure.sizes.index(text)}\1"

    line = _line(structure, numbered).replace("{", "{{").replace("}", "}}")
    return line.replace("\0", "{").replace("\1", "}")


def key_form(structure: Problem) -> re.Pattern[str]:
    """A regular expression that matches the keys of a structure's problems, and few others.

    Its groups are what differs, the extents first.

    >>> from mdtensor.lower.problem.generic_problem import generalised
    >>> from mdtensor.lower.problem.problem import problem_from_md_hom
    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> problem = problem_from_md_hom(md_hom_from_einsum("ij->i", [TensorSpec.of((64, 32))]))
    >>> form = key_form(generalised(problem)[0])
    >>> form.fullmatch(problem_key(problem)).groups()
    ('64', '32', '32')
    >>> form.fullmatch("id/add 64,32+ float64(32,1) -> float64(1,0) #469112ed") is None
    True
    """
    line = _line(structure, lambda index: "\0" if index.constant is None else repr(index))
    shown, _, _ = line.rpartition("#")
    return re.compile(re.escape(shown).replace("\0", r"(-?\d+)") + "#[0-9a-f]+")


def structure_in_key(key: str) -> str:
    """The readable structure in a key, with stars for extents and most strides.

    >>> structure_in_key("mul/add 64,32+,128 float32(32,1,0) float32(0,128,1) -> float32(128,0,1)")
    'mul/add *,*+,* float32(*,1,0) float32(0,*,1) -> float32(*,0,1)'
    >>> structure_in_key("something else")
    'something else'
    """
    parts = _KEY.fullmatch(key)
    if parts is None:
        return key
    functions, dims, accesses = parts.groups()
    strides = re.sub(r"(?<=[(,])-?\d+(?=[,)])", lambda s: s[0] if s[0] in _NEAR else "*", accesses)
    return f"{functions} {re.sub(r'[0-9]+', '*', dims)} {strides.strip()}"


_NEAR = ("-1", "0", "1")
_KEY = re.compile(r"(.*) ([\d,+]*) ((?:\w+\([-\d,]*\) )*-> (?:\w+\([-\d,]*\) ?)+)(?:#[0-9a-f]+)?")


def _line(problem: Problem, shown: Callable[[Index], str]) -> str:
    """The key, with extents and strides formatted by `shown`."""
    dims = ",".join(
        [
            shown(extent) + "+" * reduced
            for extent, reduced in zip(problem.extents, problem.reduced, strict=True)
        ]
    )

    def access(dtype: np.dtype, strides: tuple[Index, ...]) -> str:
        return f"{dtype.name}({','.join(map(shown, strides))})"

    reads = " ".join([access(problem.inputs[s.buffer], s.strides) for s in problem.streams])
    writes = " ".join([access(problem.outputs[w.buffer], w.strides) for w in problem.writes])
    operator = "" if problem.operator is None else f"/{problem.operator!r}"
    if problem.scanned >= 0:
        operator += " prefix sum"
    if problem.finish is not None:
        operator += f" then {problem.finish.function!r}"
    return f"{problem.scalar!r}{operator} {dims} {reads} -> {writes} #{_digest(problem)}"


def _digest(problem: Problem) -> str:
    """Eight hexadecimal digits that hash what the line omits: functions, offsets, buffers."""
    return _digits(
        problem.scalar,
        problem.operator,
        tuple([stream.buffer for stream in problem.streams]),
        problem.reads,
        tuple([(write.buffer, write.offset) for write in problem.writes]),
        problem.scanned,
        problem.finish,
        problem.bounds,
    )


@lru_cache(4096)
def _digits(
    scalar: ScalarFunction,
    operator: Operator | None,
    streams: tuple[int, ...],
    reads: tuple[Read, ...],
    writes: tuple[tuple[int, Index | int], ...],
    scanned: int,
    finish: Finish | None,
    bounds: Bounds | None,
) -> str:
    hidden: tuple[object, ...] = (
        scalar.params,
        scalar.results,
        None if operator is None else (operator.results, operator.identity, operator.commutative),
        [*streams],
        reads,
        [*writes],
    )
    if scanned >= 0:
        hidden += (f"scan of {scanned}",)
    if finish is not None:
        hidden += (finish,)
    if bounds is not None:
        hidden += (bounds,)
    return hashlib.sha256(repr(hidden).encode()).hexdigest()[:8]
