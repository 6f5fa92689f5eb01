"""Random md_homs on float64 that have gradients, and their gradients by central differences.

Inputs are read at affine indices: permuted, at diagonals, at windows, stepped and reversed;
and now and then at computed ones. Scalar functions are random expressions that are smooth, or
select; operators are all that have derivatives, of one value or of two; dims are concatenated,
reduced or scanned; an epilogue may follow.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import (
    CC,
    Combine,
    Operator,
    Pointwise,
    PrefixSum,
    named,
    operator_from_function,
)
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.scalar import F64, Expr, apply, cast, index_of, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex

_SMOOTH = ("sin", "cos", "tanh", "atan", "erf", "exp", "abs")


def random_md_hom(seed: int) -> MDHom:
    """The md_hom of a seed."""
    rng = random.Random(seed)
    names = [*"ijk"[: rng.randint(1, 3)]]
    extents = {name: rng.randint(1, 4) for name in names}
    operator = _operator(rng)
    width = len(operator.dtypes)
    dims = [Dim(name, extents[name], _combine(rng, operator)) for name in names]
    scanned = [n for n, dim in enumerate(dims) if isinstance(dim.combine, PrefixSum)]
    for n in scanned[1:]:
        dims[n] = Dim(names[n], dims[n].extent, CC)
    inputs, view = _inputs(rng, extents)
    types = tuple(inputs[access.buffer].spec.dtype for access in view)
    leaves = [param(n, t) for n, t in enumerate(types) if t == F64]
    results = tuple(_expression(rng, leaves, names) for _ in range(width))
    kept = [dim for dim in dims if not isinstance(dim.combine, Pointwise)]
    epilogue = None
    if rng.random() < 0.3:
        finished = [param(n, F64) for n in range(width)]
        values = tuple(_expression(rng, finished, [dim.name for dim in kept]) for _ in finished)
        epilogue = Epilogue(ScalarFunction((F64,) * width, values, "g"))
    outputs: list[BufferSpec] = []
    out_view: list[BufferAccess] = []
    for n in range(width):
        order = rng.sample(kept, len(kept))
        shape = tuple(dim.extent for dim in order)
        outputs.append(BufferSpec(f"out{n}", TensorSpec.of(shape, F64)))
        out_view.append(BufferAccess.at(n, [dim.name for dim in order]))
    return MDHom(
        tuple(dims),
        ScalarFunction(types, results, "f"),
        tuple(inputs),
        tuple(outputs),
        tuple(view),
        tuple(out_view),
        epilogue,
    )


def _combine(rng: random.Random, operator: Operator) -> Combine:
    return rng.choices((CC, Pointwise(operator), PrefixSum(operator)), (4, 4, 2))[0]


def _operator(rng: random.Random) -> Operator:
    name = rng.choice(("add", "add", "add", "mul", "min", "max", "logaddexp", "own", "pair"))
    if name == "own":
        return operator_from_function(lambda a, b: a + b + a * b, ["f8"], 0.0)
    if name == "pair":
        return operator_from_function(
            lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), ["f8", "f8"], (1.0, 0.0)
        )
    return named(name, ["f8"])


def _inputs(
    rng: random.Random, extents: dict[str, int]
) -> tuple[list[BufferSpec], list[BufferAccess]]:
    inputs: list[BufferSpec] = []
    view: list[BufferAccess] = []
    names = list(extents)
    for number in range(rng.randint(1, 3)):
        rank = rng.randint(0, 3)
        indices = [_index(rng, extents) for _ in range(rank)]
        shape = [_length(index, extents) for index in indices]
        index: list[AffineIndex | ComputedIndex] = [*indices]
        if rank and rng.random() < 0.15:
            axis = rng.randrange(rank)
            index[axis] = ComputedIndex(index_of(rng.choice(names)) * 2 - 3)
        inputs.append(BufferSpec(f"in{number}", TensorSpec.of(tuple(shape), F64)))
        view.append(BufferAccess(number, tuple(index)))
        if indices and rng.random() < 0.3:
            reduced = tuple(AffineIndex((), rng.randrange(extent)) for extent in shape)
            view.append(BufferAccess(number, reduced))
    return inputs, view


def _index(rng: random.Random, extents: dict[str, int]) -> AffineIndex:
    names = list(extents)
    count = rng.choices((0, 1, 2), (1, 6, 3))[0]
    dims = rng.sample(names, min(count, len(names)))
    coefficients = tuple((dim, rng.choice((1, 1, 1, 2, -1, 3))) for dim in dims)
    least = sum(c * (extents[dim] - 1) for dim, c in coefficients if c < 0)
    return AffineIndex(coefficients, rng.randint(0, 2) - least)


def _length(index: AffineIndex, extents: dict[str, int]) -> int:
    """An extent with which an index stays inside."""
    return max(1, index.bounds(extents)[1] + 1)


def _expression(rng: random.Random, leaves: Sequence[Expr], names: Sequence[str]) -> Expr:
    terms = [*leaves]
    if names and rng.random() < 0.3:
        terms.append(cast(index_of(rng.choice(names)), F64) * 0.25)
    for _ in range(rng.randint(0, 4)):
        first, second = rng.choice(terms), rng.choice(terms)
        match rng.randint(0, 5):
            case 0:
                terms.append(first + second)
            case 1:
                terms.append(first * second)
            case 2:
                terms.append(first - second * 0.5)
            case 3:
                terms.append(apply(rng.choice(_SMOOTH), apply("tanh", first)))
            case 4:
                terms.append(first / (second * second + 1))
            case _:
                terms.append(select(apply("lt", first, second), first * 2, second))
    return cast(terms[-1], F64) if rng.random() < 0.7 else cast(rng.choice(leaves) * 1.5, F64)
