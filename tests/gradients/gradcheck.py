"""Gradients compared with central differences, in float64.

`python -m tests.gradients.gradcheck --count 1000 --seed 0` checks random md_homs, computed by the
reference; with `--compiled`, by kernels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mdtensor as mdt
from mdtensor.api.calls import program_calls as computations
from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.gradients.pullback import pullback
from mdtensor.translate.md_hom_program import Program
from tests.gradients.random_md_homs import random_md_hom

_STEP = 1e-6


def gradcheck(
    function: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    tolerance: float = 1e-6,
    seed: int = 0,
) -> None:
    """Asserts that a function's pullback gives its directional derivatives along each element.

    `function` takes arrays of NumPy and gives one or several; `arrays` are float64.
    """
    random = np.random.default_rng(seed)
    results, pullback = mdt.vjp(function, *arrays)
    results = results if isinstance(results, tuple) else (results,)
    cotangents = [random.standard_normal(np.shape(result)) for result in results]
    found = pullback(*cotangents)
    assert [np.shape(each) for each in found] == [array.shape for array in arrays]

    def total(given: Sequence[np.ndarray]) -> float:
        values = function(*given)
        values = values if isinstance(values, tuple) else (values,)
        return float(
            sum(np.vdot(c, np.asarray(v)) for c, v in zip(cotangents, values, strict=True))
        )

    for n, array in enumerate(arrays):
        expected = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            sides: list[float] = []
            for step in (_STEP, -_STEP):
                moved = [each.copy() for each in arrays]
                moved[n][place] += step
                sides.append(total(moved))
            expected[place] = (sides[0] - sides[1]) / (2 * _STEP)
        np.testing.assert_allclose(found[n], expected, rtol=tolerance, atol=tolerance * 10)


def check_random(seed: int, *, compiled: bool) -> None:
    """Asserts that the pullback of a random md_hom gives its directional derivatives."""
    md_hom = random_md_hom(seed)
    random = np.random.default_rng(seed)
    arrays = [_distinct(random, buffer.spec.shape) for buffer in md_hom.inputs]
    results = reference.run(md_hom, arrays)
    cotangents = [random.standard_normal(result.shape) for result in results]
    wanted, given = list(range(len(arrays))), list(range(len(results)))
    forward = computations.staged(Program.of(md_hom))
    operands = [*arrays, *results, *cotangents]

    def build(specs: Sequence[TensorSpec]) -> computations.Program:
        return pullback(forward, specs, wanted, given)

    before = computations.executor
    computations.executor = None if compiled else reference.compute
    try:
        returned = computations.call(("gradcheck", seed), operands, build)
    finally:
        computations.executor = before
    found = returned if isinstance(returned, tuple) else (returned,)
    for n in wanted:
        direction = random.standard_normal(arrays[n].shape)
        sides: list[float] = []
        for step in (_STEP, -_STEP):
            moved = [*arrays]
            moved[n] = arrays[n] + step * direction
            values = reference.run(md_hom, moved)
            pairs = zip(cotangents, values, strict=True)
            sides.append(sum(float(np.vdot(c, v)) for c, v in pairs))
        expected = (sides[0] - sides[1]) / (2 * _STEP)
        scale = float(np.vdot(np.abs(found[n]), np.abs(direction))) + max(map(abs, sides))
        actual = float(np.vdot(found[n], direction))
        assert abs(actual - expected) <= 1e-6 * (1 + scale), (
            f"seed {seed}, input {n}: {actual} instead of {expected}\n{md_hom.describe()}"
        )


def _distinct(random: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Elements that are so far apart that no difference changes their order."""
    size = int(np.prod(shape))
    values = random.permutation(size) / max(1, size) * 3 - 1.5 + random.random() * 0.1
    return values.reshape(shape)


def main() -> None:
    """Checks as many as asked for; ends with 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", action="store_true")
    asked = parser.parse_args()
    wrong = 0
    for seed in range(asked.seed, asked.seed + asked.count):
        try:
            check_random(seed, compiled=asked.compiled)
        except Exception as error:
            wrong += 1
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
    print(f"{asked.count} md_homs from seed {asked.seed}: {wrong} wrong")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
