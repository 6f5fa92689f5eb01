"""Random schedules of what work-items of GPUs do together, and products of matrices for them."""

from __future__ import annotations

import random

from mdtensor.lower.gpu.scatter.scatter_candidates import can_scatter_together, scattered_dim
from mdtensor.lower.gpu.tensor_cores.tensor_core_candidates import matrix_blocked, matrix_dims
from mdtensor.lower.gpu.tensor_cores.tensor_core_tile import matrices_of
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.schedule import Schedule
from tests.lower.fuzz_cuda import of_cluster
from tests.lower.md_hom_cases import UNROLLED
from tests.lower.random_problems import Einsum, Operand
from tests.lower.random_resident import random_gpu_schedule
from tests.lower.random_schedules import random_schedule

_PRODUCTS = (("ij", "jk", "ik"), ("bij", "bjk", "bik"), ("ij", "bjk", "bik"))


def random_product(rng: random.Random) -> Einsum:
    """A product of matrices of a type that warps multiply, in C order."""
    dtype = rng.choice(("f2", "f4", "f8"))
    extents = {
        "b": rng.choice((1, 2)),
        "i": rng.choice((4, 8, 16, 17)),
        "j": rng.choice((8, 16, 24)),
        "k": rng.choice((8, 9, 16)),
    }
    first, second, out = ("".join(rng.sample(t, len(t))) for t in rng.choice(_PRODUCTS))

    def array(term: str, of: str) -> Operand:
        rank = len(term)
        shape = tuple(extents[letter] for letter in term)
        return Operand(of, shape, tuple(range(rank)), (1,) * rank, (0,) * rank)

    return Einsum(
        f"{first},{second}->{out}",
        (array(first, dtype), array(second, dtype)),
        array(out, "f4" if dtype == "f2" else dtype),
        "f4" if dtype == "f2" else None,
        "tf32" if dtype == "f4" else None,
    )


def random_schedule_of_gpu(rng: random.Random, problem: Problem) -> Schedule:
    """A schedule of any kind; by products of matrices where the problem is one of these."""
    if not problem.is_general:
        dims = matrix_dims(problem)
        if dims is not None and rng.random() < 0.7:
            return _of_matrices(rng, problem, dims)
        if can_scatter_together(problem) and rng.random() < 0.5:
            return _scattering_together(rng, problem)
    if rng.random() < 0.4:
        return random_schedule(rng, problem, "gpu", UNROLLED)
    return of_cluster(rng, problem, random_gpu_schedule(rng, problem))


def _of_matrices(rng: random.Random, problem: Problem, dims: tuple[int, int, int]) -> Schedule:
    tile = rng.choice(((16, 8), (16, 16), (32, 8), (32, 16)))
    warps = rng.choice(((1, 1), (2, 1), (1, 2)))
    depth = rng.choice((32, 64)) // matrices_of(problem, dims).memory.itemsize
    return matrix_blocked(problem, dims, warps, tile, depth, rng.choice((1, 2, 3)))


def _scattering_together(rng: random.Random, problem: Problem) -> Schedule:
    shared = scattered_dim(problem)
    chunk = rng.choice((1, 2, 4))
    kept = tuple(rng.sample(problem.kept, len(problem.kept)))

    def along(value: int) -> tuple[int, ...]:
        return tuple(value if d == shared else 1 for d in problem.dims)

    return Schedule(
        asm="gpu",
        parts=along(rng.choice((1, 2, 3))),
        tiles=(0,) * len(problem.dims),
        threads=along(rng.choice((1, 2, 4, 32))),
        registers=along(chunk * rng.choice((1, 2))),
        lane=-1,
        width=1,
        group_order=(*kept, *problem.contracted),
        loop_order=kept,
        reduce_order=problem.contracted,
        staged=("",) * len(problem.streams),
        scatter=True,
        resident=True,
        chunks=along(chunk),
    )
