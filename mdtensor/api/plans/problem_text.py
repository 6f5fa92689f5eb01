"""Problems as text: a line for the dims, and one for each read and write."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.lower.ir.index import Index, as_index, name, total
from mdtensor.lower.problem.problem import Problem, Read


def problem_text(problem: Problem) -> str:
    """A problem as readable text; addresses count elements, `+` marks combined dims.

    >>> from mdtensor.lower.problem.problem import problem_from_md_hom
    >>> from mdtensor.specs import TensorSpec
    >>> from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
    >>> specs = TensorSpec.of((64, 32)), TensorSpec.of((32, 128))
    >>> print(problem_text(problem_from_md_hom(md_hom_from_einsum("ij,jk->ik", specs))))
    dims i:64 j:32+ k:128
    read p0 = float32 I0[j + 32*i]
    read p1 = float32 I1[k + 128*j]
    compute (p0 * p1)
    combine add: (p0 + p1), from 0
    write float32 O0[k + 128*i]
    """
    dims = zip(_names(problem), problem.extents, problem.reduced, strict=True)
    lines = ["dims " + " ".join(f"{dim}:{n}{'+' * is_reduced}" for dim, n, is_reduced in dims)]
    lines += [f"read p{n} = {_read(problem, read)}" for n, read in enumerate(problem.reads)]
    if (bounds := problem.bounds) is not None:
        lines.append(f"from {bounds.begin} up to {bounds.end} along {_names(problem)[bounds.dim]}")
    lines.append("compute " + _listed(problem.scalar.results))
    if (operator := problem.operator) is not None:
        identity = "" if operator.identity is None else f", from {_listed(operator.identity)}"
        lines.append(f"combine {operator!r}: {_listed(operator.results)}{identity}")
    if problem.scanned >= 0:
        lines[-1] += f", as a prefix sum along {_names(problem)[problem.scanned]}"
    if (finish := problem.finish) is not None:
        first = len(problem.scalar.results)
        lines += [f"read p{first + n} = {_read(problem, r)}" for n, r in enumerate(finish.reads)]
        lines.append("finish " + _listed(finish.function.results))
    for write in problem.writes:
        address = _address(problem, write.strides, write.offset)
        lines.append(f"write {problem.outputs[write.buffer].name} O{write.buffer}[{address}]")
    return "\n".join(lines)


def _names(problem: Problem) -> list[str]:
    """The dims' labels; `d0`, `d1`, … for numbered dims."""
    return [label if label.isidentifier() else f"d{label}" for label in problem.labels]


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))


def _read(problem: Problem, read: Read) -> str:
    stream = problem.streams[read.stream]
    parts = [repr(_address(problem, stream.strides, read.offset))]
    parts += [f"{each.stride} * ({each.expr} within {each.extent})" for each in read.computed]
    dtype = problem.inputs[stream.buffer].name
    guards = [
        f"{_address(problem, tuple(map(as_index, axis.coefficients)), axis.offset)} in"
        f" 0..{axis.extent - 1}"
        for axis in stream.axes
    ]
    guard = f", zero unless {' and '.join(guards)}" if guards else ""
    return f"{dtype} I{stream.buffer}[{' + '.join(parts)}]{guard}"


def _address(problem: Problem, strides: Sequence[Index], offset: Index | int) -> Index:
    walked = zip(strides, map(name, _names(problem)), strict=True)
    return total([stride * dim for stride, dim in walked]) + offset
