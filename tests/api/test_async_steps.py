"""Steps in flight: what may run beside what, and that nothing is left running."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.async_steps import Begun, launched, run_all
from mdtensor.specs import TensorSpec
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Step
from mdtensor.translate.programs.step_dependences import are_apart
from mdtensor.translate.stencils.borders import Border
from mdtensor.translate.stencils.md_hom_from_stencil import md_homs_from_stencil
from mdtensor.translate.stencils.stencil_from_function import stencil_from_function


def mean(u):
    return (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]) / 4


def blocks(mode: str = "constant") -> list[MDHom]:
    made = stencil_from_function(mean, [TensorSpec.of((40, 50))])
    return list(md_homs_from_stencil(made, Border(mode)))


def step(md_hom: MDHom, operands=(0,), results=(1,)):
    return SimpleNamespace(md_hom=md_hom, operands=operands, results=results)


def test_blocks_of_a_border_are_apart():
    inside, *borders = blocks()
    assert len(borders) > 1
    for n, one in enumerate([inside, *borders]):
        for other in borders[n:]:
            assert are_apart(step(one), step(other))


def test_steps_that_meet_are_not_apart():
    inside, border, *_ = blocks()
    assert not are_apart(step(inside), step(inside)), "both write the same elements"
    assert not are_apart(step(inside), step(border, operands=(1,), results=(2,)))
    assert not are_apart(step(inside, operands=(1,), results=(2,)), step(border))
    assert are_apart(step(inside), step(inside, results=(2,)))


class Device:
    """Two ways to run: begun and waited for, or at once; remembers what happened."""

    def __init__(self) -> None:
        self.happened: list[str] = []

    def finish(self) -> None:
        self.happened.append("finish")

    def begun(self, name: str, *, begins: bool) -> Begun:
        def run(*arrays: object) -> None:
            self.happened.append(name)
            if name == "raises":
                raise ValueError(name)

        return run, self.finish if begins else None

    def run_all(self, names: Sequence[str], steps: Sequence[Step]) -> None:
        """Those that are begun have names with b, others with r; capitals stay what they are."""
        by_step = dict(zip(map(id, steps), names, strict=True))

        def begun(step: Step, *, behind: bool = False) -> Begun:
            name = by_step[id(step)]
            begins = name.lower().startswith("b") or (behind and name == "r")
            return self.begun(f"behind-{name}" if behind else name, begins=begins)

        run_all(launched(steps, begun), [None] * 8)


def ran(kinds: str, steps) -> str:
    """What happens with steps that are begun (b) or run at once (r, and R behind others too)."""
    device = Device()
    device.run_all(kinds, steps)
    return " ".join(device.happened)


def test_one_wait_for_all_that_is_apart():
    steps = [step(md_hom) for md_hom in blocks()[:4]]
    assert ran("bbbb", steps) == "b b b b finish"
    assert ran("brrr", steps) == "b r r r finish"
    assert ran("rbrb", steps) == "b b r r finish", "the calling thread has work meanwhile"
    assert ran("rrrr", steps) == "r r r r"


def test_a_wait_before_what_needs_a_result():
    first = blocks()[0]
    chain = [step(first, (n,), (n + 1,)) for n in range(3)]
    assert ran("bbb", chain) == "b b b finish", "threads of the device keep the order themselves"
    assert ran("bRb", chain) == "b finish behind-R b finish"
    assert ran("bRR", chain) == "b finish behind-R R"
    assert ran("rrb", chain) == "r r b finish"


def test_what_needs_a_result_in_flight_is_begun_behind_it():
    first = blocks()[0]
    chain = [step(first, (n,), (n + 1,)) for n in range(3)]
    assert ran("brb", chain) == "b behind-r b finish"
    assert ran("brr", chain) == "b behind-r behind-r finish", "nobody waits between them"
    other = step(first, (4,), (5,))
    assert ran("brr", [*chain[:2], other]) == "b behind-r r finish", "the calling thread is free"


def test_nothing_is_in_flight_after_an_error():
    device = Device()
    steps = [step(md_hom) for md_hom in blocks()[:3]]
    with pytest.raises(ValueError, match="raises"):
        device.run_all(["b-one", "raises", "b-other"], steps)
    assert device.happened == ["b-one", "b-other", "raises", "finish"]


@pytest.mark.parametrize("shape", [(6, 7), (64, 65), (700, 900)])
def test_borders_beside_the_inside(shape):
    smoothed = mdt.stencil(border="constant", cval=0.0)(mean)
    u = np.random.default_rng(0).random(shape).astype("f4")
    padded = np.pad(u.astype("f8"), 1)
    expected = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    for _ in range(20):
        out = np.full(shape, np.nan, "f4")
        smoothed(u, out=out)
        np.testing.assert_allclose(out, expected / 4, rtol=1e-5)
