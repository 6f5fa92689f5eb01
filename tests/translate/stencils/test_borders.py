from __future__ import annotations

import numpy as np
import pytest

from mdtensor.errors import DTypeError, TranslationError
from mdtensor.translate.scalar import const
from mdtensor.translate.stencils.borders import Border, outside


def test_unknown_border() -> None:
    with pytest.raises(TranslationError) as caught:
        Border("clamp")
    assert str(caught.value) == (
        "unknown border 'clamp'\n"
        "  hint: one of valid, fixed, constant, nearest, reflect, mirror, wrap"
    )


@pytest.mark.parametrize(
    ("cval", "dtype", "expected"),
    [(7.0, "i2", 7), (0.1, "f4", 0.1), (1, "?", True), (2, "f8", 2.0), (1.5, "c8", 1.5)],
)
def test_the_value_outside_takes_the_type_of_the_elements(
    cval: float, dtype: str, expected: float
) -> None:
    assert outside(Border("constant", cval), np.dtype(dtype)) == const(expected, dtype)


@pytest.mark.parametrize(
    ("cval", "dtype"), [(0.5, "int16"), (300, "int8"), (-1, "uint8"), (2, "bool"), (1j, "float64")]
)
def test_values_that_do_not_fit(cval: float, dtype: str) -> None:
    with pytest.raises(DTypeError) as caught:
        outside(Border("constant", cval), np.dtype(dtype))
    assert str(caught.value) == (
        f"the border's value {cval!r} does not go into {dtype}\n"
        "  hint: convert the array, or give another cval="
    )
