"""Kernels whose text is kept: one for each thing that the lowering can do."""

from __future__ import annotations

from mdtensor.kernels.cstyle import render
from mdtensor.kernels.dialect import Dialect
from mdtensor.kernels.source import KernelSource
from mdtensor.lower.lowering import lowered
from mdtensor.lower.schedule import Schedule
from tests.lower.fuzz import Case
from tests.lower.random_problems import Einsum, Operand

Extents = dict[str, int]


def einsum(text: str, extents: Extents, dtype: str = "f4", out: str | None = None) -> Einsum:
    """An einsum on C-ordered arrays of one type."""
    inputs, output = text.split("->")
    operands = [_contiguous(term, extents, dtype) for term in inputs.split(",")]
    return Einsum(text, tuple(operands), _contiguous(output, extents, out or dtype))


def _contiguous(term: str, extents: Extents, dtype: str) -> Operand:
    rank = len(term)
    shape = tuple(extents[letter] for letter in term)
    return Operand(dtype, shape, tuple(range(rank)), (1,) * rank, (0,) * rank)


def matmul(i: int, j: int, k: int, dtype: str = "f4", out: str | None = None) -> Einsum:
    return einsum("ij,jk->ik", {"i": i, "j": j, "k": k}, dtype, out)


def cpu(rank: int, reduced: tuple[int, ...], **values: object) -> Schedule:
    """A CPU schedule that does nothing special, but for the given values."""
    return _schedule("cpu", rank, reduced, values)


def gpu(rank: int, reduced: tuple[int, ...], **values: object) -> Schedule:
    """The same for GPUs."""
    return _schedule("gpu", rank, reduced, values)


def _schedule(asm: str, rank: int, reduced: tuple[int, ...], values: dict[str, object]) -> Schedule:
    plain = {
        "asm": asm,
        "parts": (1,) * rank,
        "tiles": (0,) * rank,
        "threads": (1,) * rank,
        "registers": (1,) * rank,
        "lane": -1,
        "width": 1,
        "group_order": tuple(range(rank)),
        "loop_order": tuple(d for d in range(rank) if d not in reduced),
        "reduce_order": reduced,
        "staged": ("", ""),
    }
    return Schedule(**(plain | values))  # type: ignore[arg-type]


def _cpu_matmul(**values: object) -> Schedule:
    plain = {"lane": 2, "width": 4, "registers": (2, 1, 8)}
    return cpu(3, (1,), **(plain | values))


def _gpu_matmul(**values: object) -> Schedule:
    plain = {"threads": (4, 1, 4), "registers": (1, 1, 2)}
    return gpu(3, (1,), **(plain | values))


_CPU = {
    "matmul_remainder": Case(matmul(5, 9, 21), _cpu_matmul(parts=(2, 1, 1))),
    "matmul_tail_pad": Case(matmul(4, 9, 15), _cpu_matmul(tail="pad")),
    "matmul_tail_overlap": Case(matmul(4, 9, 15), _cpu_matmul(tail="overlap")),
    "matmul_staged": Case(
        matmul(5, 9, 21),
        _cpu_matmul(tiles=(0, 4, 16), staged=("private", "scratch"), group_order=(2, 1, 0)),
    ),
    "matmul_streaming": Case(matmul(4, 3, 16), _cpu_matmul(streaming=True)),
    "matmul_complex": Case(matmul(3, 5, 6, "c8"), _cpu_matmul(registers=(1, 1, 4))),
    "matmul_half": Case(matmul(3, 5, 9, "f2"), _cpu_matmul()),
    "matmul_int8": Case(matmul(3, 5, 9, "i1"), _cpu_matmul()),
    "matmul_bool": Case(matmul(3, 5, 9, "?"), _cpu_matmul()),
    "matmul_general": Case(matmul(5, 9, 21), _cpu_matmul(parts=(0, 1, 0)), general=True),
    "transposed_output": Case(
        einsum("ij,jk->ki", {"i": 5, "j": 9, "k": 13}), _cpu_matmul(loop_order=(2, 0))
    ),
    "dot_split": Case(
        einsum("i,i->", {"i": 203}),
        cpu(1, (0,), parts=(3,), registers=(16,), lane=0, width=8),
    ),
    "matvec_split_groups": Case(
        einsum("ij,j->i", {"i": 6, "j": 40}),
        cpu(2, (1,), parts=(1, 3), registers=(4, 2), lane=0, width=4),
    ),
    "matvec_reduced_lane": Case(
        einsum("ij,j->i", {"i": 6, "j": 37}),
        cpu(2, (1,), registers=(2, 16), lane=1, width=8),
    ),
}

_GPU = {
    "gpu_matmul_local": Case(
        matmul(9, 10, 19), _gpu_matmul(tiles=(4, 4, 8), staged=("local", "local"))
    ),
    "gpu_matmul_complex": Case(matmul(3, 5, 6, "c8"), _gpu_matmul()),
    "gpu_matmul_half": Case(matmul(3, 5, 9, "f2"), _gpu_matmul()),
    "gpu_matmul_int8": Case(matmul(3, 5, 9, "i1"), _gpu_matmul()),
    "gpu_matmul_bool": Case(matmul(3, 5, 9, "?"), _gpu_matmul()),
    "gpu_matmul_uint64_to_float16": Case(matmul(3, 5, 9, "u8", "f2"), _gpu_matmul()),
    "gpu_matmul_general": Case(
        matmul(5, 9, 21),
        _gpu_matmul(parts=(0, 1, 0), tiles=(4, 4, 8), staged=("local", "")),
        general=True,
    ),
    "gpu_transposed_output": Case(
        einsum("ij,jk->ki", {"i": 5, "j": 9, "k": 13}, "f8"), _gpu_matmul()
    ),
    "gpu_dot_items": Case(einsum("i,i->", {"i": 203}), gpu(1, (0,), threads=(8,), registers=(2,))),
    "gpu_dot_split": Case(
        einsum("i,i->", {"i": 203}), gpu(1, (0,), parts=(3,), threads=(8,), registers=(2,))
    ),
    "gpu_outer": Case(
        einsum("i,j->ij", {"i": 7, "j": 11}),
        gpu(2, (), parts=(2, 1), threads=(2, 4), registers=(1, 2)),
    ),
}

CASES = _CPU | _GPU
GPU_CASES = _GPU


def source(name: str, dialect: Dialect) -> KernelSource:
    """The program of a case in a dialect, with what it is in a comment at its head."""
    case = CASES[name]
    head = f"{case.einsum.md_hom().describe()}\n{case.schedule.describe(case.problem())}"
    nests = lowered(case.problem(), case.schedule, head)
    return render(nests, dialect, inline=case.schedule.inline, streaming=case.schedule.streaming)
