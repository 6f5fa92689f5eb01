"""Convolutions by bulk copies: named cases, and what they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from mdtensor.lower.gpu.tensor_cores.tensor_core_candidates import matrix_dims
from mdtensor.lower.gpu.tma.tma_candidates import bulk_blocked, spreads
from mdtensor.lower.problem.problem import Problem, problem_from_md_hom
from mdtensor.lower.problem.zero_padding import zero_filled
from mdtensor.lower.schedule.schedule import Schedule
from mdtensor.specs import TensorSpec
from mdtensor.translate.convolutions.convolution_layout import (
    Geometry,
    convolution_from_layout,
    parse_layout,
)
from mdtensor.translate.convolutions.md_hom_from_convolution import md_homs_from_convolution

CORES = 132
BFLOAT = np.dtype(ml_dtypes.bfloat16).name


@dataclass(frozen=True)
class Convolution:
    """Images NHWC, filters KRSC and a schedule of their convolution, which is one kernel."""

    image: tuple[int, int, int, int]
    filter: tuple[int, int, int, int]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    dtype: str = "f2"
    out: str = ""
    groups: int = 1
    precision: str | None = None
    schedule: Schedule = None  # type: ignore[assignment]

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Specs of image and filter."""
        return TensorSpec.of(self.image, self.dtype), TensorSpec.of(self.filter, self.dtype)

    @property
    def result(self) -> np.dtype:
        """The type of the result."""
        return np.dtype(self.out or self.dtype)

    def problem(self) -> Problem:
        two = (self.stride,) * 2, ((self.padding,) * 2,) * 2, (self.dilation,) * 2
        geometry = Geometry(*two, self.groups, False, (0, 0))
        convolution = convolution_from_layout(
            parse_layout("NHWC,KRSC->NPQK"), geometry, self.inputs, dtype=self.result,
            acc_dtype=np.dtype(np.float32),
        )  # fmt: skip
        blocks = md_homs_from_convolution(convolution)
        return problem_from_md_hom(blocks.whole or blocks.md_homs[0])

    def exact(self, xp: Any, arrays: Sequence[Any]) -> Any:
        """The result in float64, tap after tap."""
        image, taps = (array.astype("f8") for array in arrays)
        pad = (self.padding,) * 2
        image = xp.pad(image, ((0, 0), pad, pad, (0, 0)))
        span = [1 + self.dilation * (n - 1) for n in self.filter[1:3]]
        p, q = ((n - s) // self.stride + 1 for n, s in zip(image.shape[1:3], span, strict=True))
        found = xp.zeros((image.shape[0], p, q, taps.shape[0]))
        inner, own = taps.shape[3], taps.shape[0] // self.groups
        for r, s, g in np.ndindex(*self.filter[1:3], self.groups):
            rows, columns = (
                slice(n * self.dilation, n * self.dilation + (m - 1) * self.stride + 1, self.stride)
                for n, m in ((r, p), (s, q))
            )
            part = image[:, rows, columns, g * inner : (g + 1) * inner]
            of_group = slice(g * own, (g + 1) * own)
            found[..., of_group] += part @ taps[of_group, r, s].T
        return found


def case(what: Convolution, block: tuple[int, int], stages: int = 4, **changes: object) -> Any:
    """A convolution by rows and columns of a block, rows along the dims that fit the best."""
    problem = zero_filled(what.problem())
    dims = matrix_dims(problem)
    assert dims is not None
    found = spreads(problem, dims, block[0])
    spread = next((each for each in found if len(each) > 1), found[0])
    schedule = bulk_blocked(problem, dims, block, stages, CORES, spread)
    return replace(what, schedule=replace(schedule, **changes))  # type: ignore[arg-type]


LOCAL = {"results": "local"}
MIDDLE = Convolution((16, 28, 28, 128), (128, 3, 3, 128), padding=1, dtype=BFLOAT)
SMALL = Convolution((4, 10, 12, 64), (64, 3, 3, 64), padding=1)
CASES: dict[str, Convolution] = {
    "bfloat16 of ResNet's middle": case(MIDDLE, (128, 128), 6, **LOCAL),
    "rows of a few images": case(SMALL, (64, 64), **LOCAL),
    "results one by one": case(SMALL, (128, 64)),
    "without padding": case(Convolution((4, 12, 14, 64), (64, 3, 3, 64)), (64, 64), **LOCAL),
    "without padding, channels and taps as one": case(
        Convolution((2, 12, 14, 72), (72, 3, 3, 72)), (64, 64)
    ),
    "a stride of 2": case(replace(SMALL, image=(4, 20, 24, 64), stride=2), (64, 64), **LOCAL),
    "a stride of 2, bfloat16, an odd image": case(
        replace(SMALL, image=(3, 17, 15, 64), stride=2, dtype=BFLOAT), (64, 64), **LOCAL
    ),
    "a stride of 2, one tap": case(
        Convolution((4, 20, 24, 64), (128, 1, 1, 64), stride=2), (64, 128), **LOCAL
    ),
    "a dilation of 2": case(replace(SMALL, dilation=2, padding=2), (64, 64), **LOCAL),
    "a padding of 3, 5 by 5": case(
        Convolution((2, 9, 9, 64), (64, 5, 5, 64), padding=3, dtype=BFLOAT), (128, 64), **LOCAL
    ),
    "7 by 7, as many rows as lie in the image": case(
        Convolution((16, 7, 7, 128), (256, 3, 3, 128), padding=1), (128, 256), **LOCAL
    ),
    "ragged channels": case(
        Convolution((3, 11, 13, 72), (136, 3, 3, 72), padding=1, dtype=BFLOAT), (128, 192), **LOCAL
    ),
    "channels that boxes cannot take": case(
        Convolution((3, 11, 13, 64), (100, 3, 3, 64), padding=1, dtype=BFLOAT), (128, 64)
    ),
    "results in float32": case(replace(SMALL, out="f4"), (64, 64), **LOCAL),
    "groups": case(
        Convolution((4, 10, 12, 128), (128, 3, 3, 64), padding=1, groups=2), (64, 64), **LOCAL
    ),
    "several blocks a group": case(
        Convolution((32, 14, 14, 64), (128, 3, 3, 64), padding=1), (64, 64), **LOCAL,
        parts=(8, 2, 2, 2, 1, 1, 1),
    ),
    "parts of the taps": case(SMALL, (64, 64), parts=(4, 1, 5, 12, 1, 3, 1)),
    "192 rows": case(MIDDLE, (192, 64), **LOCAL),
}  # fmt: skip
