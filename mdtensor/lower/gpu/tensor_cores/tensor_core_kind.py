"""Registry entry of matrix products on tensor cores.

Candidates are ranked with those of reductions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from mdtensor.lower.codegen.kernel_sequence import kernels_of
from mdtensor.lower.gpu.base.device_limits import can_stream
from mdtensor.lower.gpu.base.gpu_kind import MATRICES, GpuKind
from mdtensor.lower.gpu.base.open_choices import (
    DEPTHS,
    EITHER,
    NO,
    NONE,
    ONE,
    STAGES,
    WHOLE,
    Choices,
    Counts,
    by_dim,
    last_dims,
    only,
    parts_along,
    swaths_of,
)
from mdtensor.lower.gpu.tensor_cores.tensor_core_candidates import matrix_dims, padding_of
from mdtensor.lower.gpu.tensor_cores.tensor_core_cost import (
    local_bytes_of_matrices,
    matrix_estimate,
)
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import (
    COLUMNS,
    MATRIX_BLOCKS,
    ROWS,
    matrices_of,
    validate_tensor,
)
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.rules.register_blocking_rules import validate_resident
from mdtensor.specs import Target


def matrix_choices(problem: Problem, target: Target, dims: tuple[int, int, int]) -> Choices:
    """The choices of products on tensor cores, along rows, columns and a reduction."""
    row, column, along = dims
    factors = matrices_of(problem, dims)
    extents = {d: problem.extent(d) for d in dims}

    steps, owners = factors.steps, ((factors.rows, row), (factors.columns, column))

    def of_warps(d: int, one: int) -> Counts:
        return tuple(one * n for n in (1, 2, 4, 8) if one * (n // 2) < extents[d])

    tiles: dict[int, Counts] = dict.fromkeys(problem.contracted, ONE)
    tiles[along] = tuple(n for n in DEPTHS if n >= steps[0] and extents[along] % n == 0)
    return Choices(
        points=only(problem, {row: (2, 4, 8, 16), column: (2, 4, 8, 16), along: steps}, ONE),
        items=only(problem, {row: of_warps(row, ROWS), column: of_warps(column, COLUMNS)}, ONE),
        chunks=only(problem, {column: (2,), along: (WHOLE,)}, ONE),
        tiles=only(problem, tiles, NONE),
        parts=only(problem, {along: parts_along(problem, target, along)}, ONE),
        blocks=by_dim(problem, lambda d: ONE),
        staged=tuple(
            ("local",) if n in (factors.rows, factors.columns) else ("",)
            for n in range(len(problem.streams))
        ),
        last=last_dims(problem),
        padding=tuple(sorted({padding_of(problem, factors, n, own) for n, own in owners})),
        as_source=(True,),
        stages=tuple(n for n in STAGES if n),
        warp=tuple({row: ROWS, column: COLUMNS}.get(d, 1) for d in problem.dims),
        swaths=swaths_of(problem),
        streaming=EITHER if can_stream(problem) else NO,
        last_group=EITHER if target.counts_groups else NO,
        clusters=EITHER if target.clusters else NO,
        tensor=dims,
        before=(row, column),
    )


def _has_matrices(problem: Problem, target: Target) -> bool:
    return target.matrices and bool(_of_matrices(problem, target))


def _of_matrices(problem: Problem, target: Target) -> Mapping[str, Choices]:
    dims = matrix_dims(problem)
    if dims is None:
        return {}
    matrices = matrix_choices(problem, target, dims)
    return {MATRICES: matrices} if matrices.tiles[dims[2]] else {}


MATRICES_KIND = GpuKind(
    name=MATRICES,
    applies=_has_matrices,
    owns=lambda _, s: bool(s.tensor) and not s.bulk and not s.scatter,
    space=_of_matrices,
    rules=(validate_resident, validate_tensor),
    cost=matrix_estimate,
    local=local_bytes_of_matrices,
    emit=partial(kernels_of, structure=MATRIX_BLOCKS),
)
