"""Random stencils, against their functions run by Python at every point of padded arrays."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

import mdtensor as mdt
from tests.translate.programs import data
from tests.translate.programs.comparing import same, tolerance
from tests.translate.programs.expressions import Number, Part, Scope, entity
from tests.translate.programs.reductions import summable
from tests.translate.programs.statements import INDENT, Body, Names

_REACH = 2
# The borders of mdtensor and of `np.pad`.
_BORDERS = {"constant": "constant", "nearest": "edge", "reflect": "symmetric", "wrap": "wrap"}


@dataclass
class Around:
    """An array by indices relative to a point."""

    padded: np.ndarray
    point: tuple[int, ...] = ()

    def __getitem__(self, offset: Any) -> Any:
        offsets = offset if isinstance(offset, tuple) else (offset,)
        return self.padded[tuple(p + n + _REACH for p, n in zip(self.point, offsets, strict=True))]


def check(rng: random.Random, name: str) -> None:
    """One function of one to three arrays with a border that keeps their shape."""
    ndim, border = rng.choice((1, 1, 2, 3)), rng.choice(list(_BORDERS))
    dtypes = {
        operand: data.drawn_dtype(rng, records=False) for operand in "uvw"[: rng.randint(1, 3)]
    }

    def read(operand: str) -> Number | Part:
        offset = ", ".join(str(rng.randint(-_REACH, _REACH)) for _ in range(ndim))
        return entity(f"{operand}[{offset}]", dtypes[operand])

    scope = Scope(reads=[lambda operand=operand: read(operand) for operand in dtypes])
    body = Body(rng, scope, Names())
    body.statements(rng.choice((0, 1, 2, 3)))
    value = summable(body, 1)
    centre = f"u[{', '.join('0' * ndim)}]"  # of which the result has the shape in any case
    result = f"{value.text} if {centre} == {centre} else {value.text}"
    body.lines.append(f"return {value.text if 'u[' in value.text else result}")
    lines = [f"def f({', '.join(dtypes)}):", *(INDENT + line for line in body.lines)]
    text = "\n\n".join([*body.around, "\n".join(lines)]) + "\n"
    made = data.module(name, text)
    shape = [rng.choice((2, 3, 4, 5)) for _ in range(ndim)]
    arrays = [data.drawn_array(rng, shape, dtype) for dtype in dtypes.values()]
    around = [Around(np.pad(array, _REACH, mode=_BORDERS[border])) for array in arrays]  # type: ignore[call-overload]
    expected = np.zeros(shape)
    for point in np.ndindex(*shape):
        for one in around:
            one.point = point
        expected[point] = made.f(*around)
    found = mdt.stencil(made.f, border=border)(*arrays)
    short = "float32" in text or any(dtype == np.float32 for dtype in dtypes.values())
    same(found, expected, tolerance(value.range, short=short))
