from __future__ import annotations

import sys
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mdtensor.api.arrays.operands import (
    allocate,
    allocator,
    array_module,
    as_arrays,
    reason_of_classes,
    reason_of_types,
    spec_of,
    split,
)
from mdtensor.api.arrays.unaligned_arrays import addressable
from mdtensor.errors import DTypeError
from mdtensor.specs import TensorSpec


class Duck:
    """Stands for an array of CuPy, which is known by the module of its class."""


Duck.__module__ = "cupy.core"


def test_specs_count_strides_in_elements() -> None:
    array = np.zeros((6, 8), "f4")[::-2, 1::3]
    assert spec_of(array) == TensorSpec.of((3, 3), "f4", (-16, 3))


def test_of_the_types_of_ml_dtypes_bfloat16_has_kernels() -> None:
    types = [np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)]
    assert reason_of_types(types) == ""
    assert reason_of_types([np.dtype(ml_dtypes.float8_e5m2)]) == "dtype float8_e5m2"
    unlucky = np.dtype(ml_dtypes.int4)
    assert reason_of_types([unlucky]) == "dtype int4", f"whose letter is {unlucky.char}"


def test_addressable_means_whole_elements_and_aligned() -> None:
    records = np.zeros(3, np.dtype([("a", "u1"), ("b", "f8")]))
    assert addressable(records["a"])
    assert not addressable(records["b"])
    shifted = np.zeros(17, "u1")[1:].view("f8")
    assert not addressable(shifted)
    assert addressable(np.zeros((2, 3)).T[::-1])


@pytest.mark.parametrize("strides", [(12, 4, 1), (1, 2, 6), (4, 8, 1), (1, 8, 2)])
def test_new_arrays_have_the_order_of_axes_of_their_spec(strides: tuple[int, ...]) -> None:
    spec = TensorSpec.of((2, 3, 4), "f4", strides)
    assert spec_of(allocate(spec, np)) == spec


@pytest.mark.parametrize("strides", [(300, 1), (1, 200)])
def test_large_arrays_begin_on_a_boundary_wherever_their_memory_does(
    strides: tuple[int, int],
) -> None:
    spec = TensorSpec.of((200, 300), "f4", strides)
    make = allocator(spec, np)
    arrays = [make() for _ in range(20)]
    assert all(array.ctypes.data % 64 == 0 and spec_of(array) == spec for array in arrays)
    for number, array in enumerate(arrays):
        array.fill(number)
    assert [array.min() for array in arrays] == [array.max() for array in arrays] == [*range(20)]


def test_the_library_of_the_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy: Any = types.ModuleType("cupy")
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert array_module([[1], np.ones(2)]) is np
    assert array_module([1, Duck()]) is cupy
    assert not reason_of_classes([Duck(), 1, [2]], optimized=True)
    with pytest.raises(DTypeError, match=r"^arrays of NumPy and of cupy in one call"):
        as_arrays([Duck(), np.ones(2)], cupy)


def test_split_of_both_forms() -> None:
    a, b = np.ones(2), np.ones(3)
    assert split(("i,j", a, b)) == ("i,j", (a, b))
    assert split((a, [0], b, [..., 26]))[0] == "A,...a"
    assert split((a, [0], b, [1], [1, 0]))[0] == "A,B->BA"
