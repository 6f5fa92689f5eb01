"""Kernels whose text is kept: one for each thing that the lowering can do."""

from __future__ import annotations

from mdtensor.kernels.dialect import Dialect
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.kernels.program import program_of
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Operator, Pointwise, PrefixSum, named
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.scalar import Expr, apply, cast, index_of, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex
from tests.lower.fuzz import Case
from tests.lower.md_hom_cases import MDHomCase, single_case
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


_CPU: dict[str, Case | MDHomCase] = {
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
    "transposed_rows": Case(
        einsum("ij,jk->ki", {"i": 7, "j": 9, "k": 13}),
        _cpu_matmul(loop_order=(2, 0), registers=(4, 1, 8), transposed=True),
    ),
    "transposed_rows_streaming": Case(
        einsum("ij,jk->ki", {"i": 8, "j": 3, "k": 8}),
        _cpu_matmul(registers=(4, 1, 4), transposed=True, streaming=True),
    ),
    "transposed_rows_general": Case(
        einsum("ij,jk->ki", {"i": 7, "j": 9, "k": 13}),
        _cpu_matmul(registers=(2, 1, 4), parts=(0, 1, 0), transposed=True),
        general=True,
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

_GPU: dict[str, Case | MDHomCase] = {
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

_A, _B, _C, _D = (param(n, "f4") for n in range(4))
_FLAT = (AffineIndex.of("i"),)
_ROW_MAJOR = (AffineIndex.of("i"), AffineIndex.of("j"))


def _buffer(name: str, shape: tuple[int, ...], dtype: str = "f4") -> BufferSpec:
    return BufferSpec(name, TensorSpec.of(shape, dtype))


def _function(*results: Expr) -> ScalarFunction:
    """A function of as many parameters as its results take."""
    found = {e.value: e.dtype for r in results for e in _params(r)}
    return ScalarFunction(tuple(found[n] for n in sorted(found)), results, "f")


def _params(expr: Expr) -> list[Expr]:
    return [expr] if expr.op == "param" else [p for arg in expr.args for p in _params(arg)]


def prefix_sums(rows: int, columns: int, dim: str) -> MDHom:
    """Prefix sums of a matrix along one of its dims, doubled, plus a row."""
    sums = PrefixSum(named("add", ["f4"]))
    x, y = (_buffer(name, (rows, columns)) for name in "xy")
    return MDHom(
        tuple(
            Dim(name, extent, sums if name == dim else CC)
            for name, extent in (("i", rows), ("j", columns))
        ),
        _function(_A),
        (x, _buffer("b", (columns,))),
        (y,),
        (BufferAccess(0, _ROW_MAJOR),),
        (BufferAccess(0, _ROW_MAJOR),),
        Epilogue(_function(_A * 2 + _B), (BufferAccess(1, (AffineIndex.of("j"),)),)),
    )


def compositions(count: int) -> MDHom:
    """Prefixes of a chain of affine maps, whose operator does not commute."""
    a, b, c, d = (param(n, "i4") for n in range(4))
    then = Operator((a.dtype, b.dtype), (a * c, b * c + d), (1, 0), False, "then")
    outputs = (_buffer("a", (count,), "i4"), _buffer("b", (count,), "i4"))
    return MDHom(
        (Dim("i", count, PrefixSum(then)),),
        _function(a, cast(index_of("i"), "i4")),
        (_buffer("x", (count,), "i4"),),
        outputs,
        (BufferAccess(0, _FLAT),),
        (BufferAccess(0, _FLAT), BufferAccess(1, _FLAT)),
    )


def largest(rows: int, columns: int) -> MDHom:
    """The largest element of every row and its place, of equal ones the first."""
    value, other = _A, _C
    place, its_place = param(1, "i8"), param(3, "i8")
    tied = apply("eq", other, value) & (its_place < place)
    better = (other > value) | tied
    largest = Operator(
        (value.dtype, place.dtype),
        (select(better, other, value), select(better, its_place, place)),
        (float("-inf"), 1 << 62),
        True,
        "argmax",
    )
    return MDHom(
        (Dim("i", rows, CC), Dim("j", columns, Pointwise(largest))),
        _function(_A, index_of("j")),
        (_buffer("x", (rows, columns)),),
        (_buffer("y", (rows,)), _buffer("at", (rows,), "i8")),
        (BufferAccess(0, _ROW_MAJOR),),
        (BufferAccess(0, _FLAT), BufferAccess(1, _FLAT)),
    )


def dense_layer(i: int, j: int, k: int) -> MDHom:
    """max(2 A B + 3 C + b, 0): a matrix product that is finished before it is written."""
    contracted, bias = (AffineIndex.of("i"), AffineIndex.of("k")), (AffineIndex.of("j"),)
    return MDHom(
        (Dim("i", i, CC), Dim("k", k, Pointwise(named("add", ["f4"]))), Dim("j", j, CC)),
        _function(_A * _B),
        (
            _buffer("A", (i, k)),
            _buffer("B", (k, j)),
            _buffer("C", (i, j)),
            _buffer("b", (j,)),
        ),
        (_buffer("y", (i, j)),),
        (BufferAccess(0, contracted), BufferAccess(1, (AffineIndex.of("k"), AffineIndex.of("j")))),
        (BufferAccess(0, _ROW_MAJOR),),
        Epilogue(
            _function(apply("max", _A * 2 + _B * 3 + _C, 0)),
            (BufferAccess(2, _ROW_MAJOR), BufferAccess(3, bias)),
        ),
    )


def _rows_of(i: int, j: int) -> MDHom:
    """Rows of a matrix at places that an array tells."""
    place = param(0, "i4")
    return MDHom(
        (Dim("i", i, CC), Dim("j", j, CC)),
        ScalarFunction((place.dtype, _B.dtype), (_B,), "take"),
        (_buffer("at", (i,), "i4"), _buffer("x", (7, j))),
        (_buffer("y", (i, j)),),
        (
            BufferAccess(0, _FLAT),
            BufferAccess(1, (ComputedIndex(cast(place, "i8")), AffineIndex.of("j"))),
        ),
        (BufferAccess(0, _ROW_MAJOR),),
    )


def _smoothed(i: int, j: int) -> MDHom:
    """Each row's elements and their left neighbours, with what is nearest beyond the border."""
    left = ComputedIndex(apply("max", index_of("j") - 1, 0))
    return MDHom(
        (Dim("i", i, CC), Dim("j", j, CC)),
        _function(_A + _B * 2),
        (_buffer("x", (i, j)),),
        (_buffer("y", (i, j)),),
        (BufferAccess(0, _ROW_MAJOR), BufferAccess(0, (AffineIndex.of("i"), left))),
        (BufferAccess(0, _ROW_MAJOR),),
    )


def _blurred(i: int, j: int) -> MDHom:
    """The elements below two neighbours and their own, of an array that is one larger each way."""

    def at(row: int, column: int) -> BufferAccess:
        return BufferAccess(
            0, (AffineIndex.of("i", offset=row), AffineIndex.of("j", offset=column))
        )

    return MDHom(
        (Dim("i", i, CC), Dim("j", j, CC)),
        _function(_A + _B * 2 + _C),
        (_buffer("x", (i + 1, j + 1)),),
        (_buffer("y", (i, j)),),
        (at(0, 0), at(0, 1), at(1, 0)),
        (BufferAccess(0, _ROW_MAJOR),),
    )


_SMALL = (-9, 9)
_UNSTAGED = ("",) * 2
_CPU |= {
    "scan_lanes": single_case(
        prefix_sums(3, 21, "j"),
        cpu(2, (1,), registers=(1, 8), lane=1, width=4, staged=_UNSTAGED),
        (_SMALL, _SMALL),
    ),
    "scan_columns": single_case(
        prefix_sums(7, 10, "i"),
        cpu(2, (0,), registers=(2, 4), lane=1, width=4, staged=_UNSTAGED),
        (_SMALL, _SMALL),
    ),
    "scan_split": single_case(
        prefix_sums(2, 61, "j"),
        cpu(2, (1,), parts=(1, 3), registers=(1, 8), lane=1, width=8, staged=_UNSTAGED),
        (_SMALL, _SMALL),
    ),
    "scan_in_turn": single_case(
        prefix_sums(4, 61, "j"),
        cpu(
            2,
            (1,),
            parts=(2, 3),
            registers=(1, 8),
            lane=1,
            width=8,
            staged=_UNSTAGED,
            in_turn=True,
        ),
        (_SMALL, _SMALL),
    ),
    "scan_general": single_case(
        prefix_sums(7, 10, "i"),
        cpu(2, (0,), parts=(0, 0), registers=(2, 4), lane=1, width=4, staged=_UNSTAGED),
        (_SMALL, _SMALL),
        general=True,
    ),
    "scan_in_order": single_case(
        compositions(23), cpu(1, (0,), registers=(4,), lane=0, width=4, staged=("",)), (_SMALL,)
    ),
    "argmax_lanes": single_case(
        largest(3, 21), cpu(2, (1,), registers=(1, 8), lane=1, width=4, staged=("",)), (_SMALL,)
    ),
    "epilogue_tiles": single_case(
        dense_layer(5, 6, 9),
        _cpu_matmul(tiles=(0, 4, 0), registers=(2, 1, 4), staged=("",) * 4),
        (_SMALL,) * 4,
    ),
    "gather_lanes": single_case(
        _rows_of(6, 7),
        cpu(2, (), registers=(4, 1), lane=0, width=4, staged=_UNSTAGED),
        (_SMALL,) * 2,
    ),
    "peeled_stencil": single_case(
        _blurred(3, 37),
        cpu(
            2,
            (),
            registers=(1, 16),
            lane=1,
            width=8,
            staged=("",),
            streaming=True,
            peel=True,
            ahead=2,
        ),
        (_SMALL,),
    ),
    "peeled_rows": single_case(
        _blurred(5, 32),
        cpu(2, (), parts=(2, 1), registers=(2, 4), lane=1, width=4, staged=("",), peel=True),
        (_SMALL,),
    ),
    "joined_stencil": single_case(
        _blurred(7, 37),
        cpu(
            2,
            (),
            registers=(3, 16),
            lane=1,
            width=8,
            staged=("",),
            streaming=True,
            peel=True,
            ahead=2,
        ),
        (_SMALL,),
    ),
    "joined_product": single_case(
        matmul(7, 5, 27).md_hom(),
        _cpu_matmul(
            tiles=(0, 2, 0),
            registers=(3, 1, 4),
            staged=("", ""),
            loop_order=(0, 2),
            streaming=True,
            peel=True,
        ),
        (_SMALL,) * 2,
    ),
    "peeled_general": single_case(
        _blurred(3, 37),
        cpu(
            2,
            (),
            parts=(0, 1),
            registers=(1, 8),
            lane=1,
            width=8,
            staged=("",),
            streaming=True,
            peel=True,
            ahead=1,
        ),
        (_SMALL,),
        general=True,
    ),
    "border_lanes": single_case(
        _smoothed(2, 11), cpu(2, (), registers=(1, 4), lane=1, width=4, staged=_UNSTAGED), (_SMALL,)
    ),
}
_GPU |= {
    "gpu_scan_columns": single_case(
        prefix_sums(7, 10, "i"),
        gpu(2, (0,), threads=(1, 4), registers=(2, 1), staged=_UNSTAGED),
        (_SMALL, _SMALL),
    ),
    "gpu_scan_split": single_case(
        compositions(23), gpu(1, (0,), parts=(3,), registers=(2,), staged=("",)), (_SMALL,)
    ),
    "gpu_scan_general": single_case(
        prefix_sums(7, 10, "i"),
        gpu(2, (0,), parts=(0, 0), threads=(1, 4), staged=_UNSTAGED),
        (_SMALL, _SMALL),
        general=True,
    ),
    "gpu_argmax_items": single_case(
        largest(3, 21), gpu(2, (1,), threads=(1, 4), registers=(1, 2), staged=("",)), (_SMALL,)
    ),
    "gpu_epilogue_local": single_case(
        dense_layer(5, 6, 9),
        _gpu_matmul(tiles=(4, 4, 8), staged=("local", "local", "", "")),
        (_SMALL,) * 4,
    ),
    "gpu_epilogue_split": single_case(
        dense_layer(5, 6, 9), _gpu_matmul(parts=(1, 2, 1), staged=("",) * 4), (_SMALL,) * 4
    ),
    "gpu_gather": single_case(
        _rows_of(6, 7), gpu(2, (), threads=(2, 4), staged=_UNSTAGED), (_SMALL,) * 2
    ),
    "gpu_border": single_case(
        _smoothed(2, 11), gpu(2, (), threads=(1, 4), staged=_UNSTAGED), (_SMALL,)
    ),
}

CASES = _CPU | _GPU
GPU_CASES = _GPU


def source(name: str, dialect: Dialect) -> KernelSource:
    """The program of a case in a dialect, with what it is in a comment at its head."""
    case = CASES[name]
    head = f"{case.md_hom().describe()}\n{case.schedule.describe(case.problem())}"
    return program_of(case.problem(), case.schedule, dialect, head)
