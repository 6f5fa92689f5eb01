from __future__ import annotations

import numpy as np

from mdtensor.translate.scalar import cast, const, index_of, param
from mdtensor.translate.trees import dims_in, evaluate, params_in, substitute, with_dims

A, B, Z = param(0, "f4"), param(1, "f4"), param(0, "c8")


def test_casts_of_complex_and_huge_values_are_silent() -> None:
    z = cast(cast(Z, "f4"), "i1")
    assert evaluate(z, [np.complex64(3 + 4j)]) == 3
    assert evaluate(cast(Z, "?"), [np.complex64(4j)])


def test_substitute_replaces_parameters() -> None:
    assert repr(substitute(A * B + 1, [B, const(2, "f4")])) == "((p1 * 2) + 1)"
    assert params_in(B * A + B) == (1, 0)
    assert dims_in(with_dims(A + index_of("i"), {"i": "j"})) == ("j",)
