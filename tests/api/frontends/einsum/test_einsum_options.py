"""The options of `einsum`: what they are read as, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from mdtensor.api.frontends.einsum.einsum_options import Options
from mdtensor.errors import DTypeError, PathError, ShapeError


def test_options_are_equal_where_callers_mean_the_same() -> None:
    assert Options.of() == Options()
    assert Options.of("f4", None, acc_dtype=np.float64) == Options.of(
        np.float32, "k", acc_dtype="d"
    )
    assert hash(Options.of("f4")) == hash(Options.of(np.dtype("f4")))


def test_options_in_order_are_those_that_they_were_made_of() -> None:
    said = Options.of("f4", "F", "unsafe", "greedy", "f8", "tf32")
    assert Options.of(*said.in_order) == said


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
