"""The options of `einsum`: what they are read as, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.frontends.einsum.einsum_options import Options
from mdtensor.errors import DTypeError, PathError, ShapeError


def test_options_are_equal_where_callers_mean_the_same() -> None:
    assert Options.of() == Options()
    assert Options.of("f4", None, acc_dtype=np.float64) == Options.of(
        np.float32, "k", acc_dtype="d"
    )
    assert hash(Options.of("f4")) == hash(Options.of(np.dtype("f4")))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"order": "Q"}, ShapeError, r"^order is 'Q'"),
        ({"casting": "never"}, ShapeError, r"^casting is 'never'"),
        ({"precision": "f4"}, ShapeError, r"^precision is 'f4'"),
        ({"dtype": "no type"}, DTypeError, r"no type"),
        ({"acc_dtype": object}, DTypeError, r"object"),
        ({"optimize": (0, 1)}, PathError, r"^\(0, 1\) is no path"),
    ],
)
def test_what_is_no_option_is_refused(
    wrong: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Options.of(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["i1", "u1"])
@pytest.mark.parametrize("out", ["f4", "i2", "i8"])
def test_bytes_have_eight_bits_before_they_become_wider(dtype: str, out: str) -> None:
    a = (np.arange(4000) % 11).astype("f4").reshape(40, 100)
    given: Any = {"dtype": dtype, "casting": "unsafe"}
    for text, operands in (("ij->i", (a,)), ("ij,ij->i", (a, a))):
        expected = np.zeros(40, out)
        np.einsum(text, *operands, out=expected, **given)
        found = mdt.einsum(text, *operands, out=np.zeros(40, out), **given)
        np.testing.assert_array_equal(found, expected)
