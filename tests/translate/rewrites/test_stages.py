"""Chains of stages, computed by the reference, against the whole."""

from __future__ import annotations

import numpy as np
import pytest

from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Combine, Pointwise, PrefixSum, named
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.reference import run
from mdtensor.translate.rewrites.stages import stages
from mdtensor.translate.rewrites.total_operators import with_total_operators
from mdtensor.translate.scalar import param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec

ADD, MAX = named("add", ["f8"]), named("max", ["f8"])
SHAPE = (5, 4, 3)
CASES: list[tuple[tuple[Combine, ...], int]] = [
    ((CC, CC, CC), 1),
    ((Pointwise(ADD), CC, Pointwise(ADD)), 1),
    ((Pointwise(MAX), CC, Pointwise(ADD)), 2),
    ((Pointwise(ADD), Pointwise(MAX), Pointwise(ADD)), 3),
    ((PrefixSum(ADD), CC, Pointwise(ADD)), 2),
    ((PrefixSum(ADD), PrefixSum(ADD), CC), 2),
    ((PrefixSum(MAX), Pointwise(MAX), PrefixSum(ADD)), 3),
]


def _md_hom(combines: tuple[Combine, ...], epilogue: bool) -> MDHom:
    names = "ijk"
    dims = tuple(Dim(n, e, c) for n, e, c in zip(names, SHAPE, combines, strict=True))
    kept = [dim for dim in dims if not isinstance(dim.combine, Pointwise)]
    x = BufferSpec("x", TensorSpec.of(SHAPE, "f8"))
    bias = BufferSpec("bias", TensorSpec.of((SHAPE[1],), "f8"))
    y = BufferSpec("y", TensorSpec.of([dim.extent for dim in kept], "f8"))
    place = BufferAccess(0, tuple(AffineIndex.of(dim.name) for dim in kept))
    after = None
    if epilogue:
        of_bias = BufferAccess(1, (AffineIndex.of("j") if dims[1] in kept else AffineIndex(),))
        function = ScalarFunction(
            (x.spec.dtype,) * 2, (param(0, "f8") * 2 + param(1, "f8"),), "scaled"
        )
        after = Epilogue(function, (of_bias,))
    return MDHom(
        dims,
        ScalarFunction((x.spec.dtype,), (param(0, "f8"),), "id"),
        (x, bias),
        (y,),
        (BufferAccess(0, tuple(AffineIndex.of(n) for n in names)),),
        (place,),
        after,
    )


@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize(("combines", "count"), CASES)
def test_a_chain_computes_what_the_whole_does(
    combines: tuple[Combine, ...], count: int, epilogue: bool
) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(SHAPE), rng.standard_normal(SHAPE[1])]
    whole = _md_hom(combines, epilogue)
    program = stages(whole)
    assert len(program.steps) == count
    slots = dict(enumerate(inputs))
    for step in program.steps:
        assert len(step.md_hom.operators) <= 1
        slots |= zip(step.results, run(step.md_hom, [slots[n] for n in step.operands]), strict=True)
    np.testing.assert_allclose(slots[2], run(whole, inputs)[0], rtol=1e-12)


@pytest.mark.parametrize("epilogue", [False, True])
def test_a_flag_stands_in_for_an_identity(epilogue: bool) -> None:
    left = named("add", ["f8"])
    first = Pointwise(type(left)(left.dtypes, (param(0, "f8"),), None, False, "first"))
    md_hom = _md_hom((CC, first, first), epilogue)
    total = with_total_operators(md_hom)
    assert total.operators[0].identity == (0, False)
    inputs = [np.random.default_rng(0).standard_normal(SHAPE), np.arange(4.0)]
    np.testing.assert_array_equal(run(total, inputs)[0], run(md_hom, inputs)[0])
