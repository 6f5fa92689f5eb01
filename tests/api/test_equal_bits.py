"""One kernel gives the same bits wherever its results lie, on processors that fuse products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdtensor.api.engine import registry
from mdtensor.backends.host import hardware
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum

ROWS, COLUMNS, TAPS = 37, 203, 9


def test_results_at_any_place_of_a_cache_line_have_the_same_bits() -> None:
    specs = TensorSpec.of((ROWS, COLUMNS + TAPS - 1), "f8"), TensorSpec.of((TAPS,), "f8")
    problem = problem_from_md_hom(md_hom_from_einsum("h w+s, s -> h w", specs))
    rows, columns, taps = range(3)
    schedule = replace(
        plain(problem),
        registers=(1, 16, 1),
        lane=columns,
        width=8,
        loop_order=(rows, columns),
        group_order=(rows, taps, columns),
        streaming=True,
        peel=True,
    )
    program = registry.engine_for().specialised(problem, schedule, "test", 0.0).program
    rng = np.random.default_rng(0)
    operands = [rng.standard_normal(spec.shape) for spec in specs]
    memory = np.empty(ROWS * COLUMNS + 8)
    found = []
    for begin in range(8):
        out = memory[begin : begin + ROWS * COLUMNS].reshape(ROWS, COLUMNS)
        program(*operands, out)
        found.append(out.copy())
    windows = np.lib.stride_tricks.sliding_window_view(operands[0], TAPS, axis=1)
    np.testing.assert_allclose(found[0], windows @ operands[1], rtol=0, atol=1e-13)
    for each in found if hardware.has_fma() else ():
        np.testing.assert_array_equal(each, found[0])
