"""What arrays have and lazy arrays lack is said with a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.errors import DTypeError, LazyError, MdtensorError

CALLS: dict[str, tuple[Callable[[Any], Any], type[MdtensorError], str]] = {
    "a method": (lambda u: u.sort(), LazyError, "lazy arrays have no 'sort', which arrays have"),
    "a function": (np.sort, DTypeError, "np.sort takes no lazy arrays"),
    "too few arguments": (
        lambda u: np.where(u > 1),
        DTypeError,
        "np.where of lazy arrays: missing 2 required positional arguments: 'x' and 'y'",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_lazy_arrays_lack(name: str) -> None:
    call, error, message = CALLS[name]
    with pytest.raises(error) as caught:
        call(mdt.lazy(np.ones((2, 3))))
    hint = "\n  hint: np.asarray(y) evaluates a lazy array y first"
    assert str(caught.value) == message + hint


def test_attributes_are_asked_for_as_of_other_objects() -> None:
    u = mdt.lazy(np.ones((2, 3)))
    assert not hasattr(u, "sort")
    with pytest.raises(AttributeError, match=r"^lazy arrays have no attribute 'shap'$"):
        _ = u.shap
