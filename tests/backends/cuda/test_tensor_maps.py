"""Tensor maps: what the driver is asked to encode."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mdtensor.backends.cuda.tensor_maps import TensorMaps
from mdtensor.errors import LaunchError
from mdtensor.lower.ir.tma_statements import TensorMap

HALF = np.dtype(np.float16)
MAPS = (
    TensorMap("T0", "I0", HALF, 8, (128, 40, 3), (1, 128, 5120), (64, 40, 1)),
    TensorMap("T1", "I1", HALF, 0, (24, 128), (1, 24), (64, 64)),
)


class Driver:
    """Notes what it encodes."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.encoded: list[tuple[Any, ...]] = []

    def __call__(self, to: Any, kind: int, rank: int, begin: Any, *given: Any) -> int:
        extents, strides, box, steps, *how = given
        ctypes.memset(to.value, len(self.encoded) + 1, 128)
        arrays = (tuple(extents), tuple(strides), tuple(box), tuple(steps))
        self.encoded.append((to.value, kind, rank, begin.value, *arrays, *how))
        return self.status


def test_a_map_is_encoded_in_bytes_from_its_first_element_on():
    driver = Driver()
    maps = TensorMaps(MAPS, (0, 1), driver)
    maps.encode([4096, 8192])
    first, second = driver.encoded
    assert first[1:4] == (6, 3, 4096 + 16)
    assert first[4:8] == ((128, 40, 3), (256, 10240), (64, 40, 1), (1, 1, 1))
    assert first[8:] == (0, 3, 3, 0)
    assert second[1:8] == (6, 2, 8192, (24, 128), (48,), (64, 64), (1, 1))


def test_what_is_read_as_tf32_is_rounded_on_its_way():
    driver, floats = Driver(), np.dtype(np.float32)
    as_it_is = TensorMap("T0", "I0", floats, 4, (128, 40), (1, 128), (32, 40))
    maps = TensorMaps((as_it_is, replace(as_it_is, tf32=True)), (0, 0), driver)
    maps.encode([4096])
    assert [call[1:4] for call in driver.encoded] == [(7, 2, 4096 + 16), (11, 2, 4096 + 16)]


def test_the_driver_counts_what_a_box_spans():
    driver = Driver()
    box = {"box": (64, 4, 1), "steps": (1, 2, 1)}
    sparse = TensorMap("T0", "I0", HALF, 0, (64, 9, 3), (1, 64, 640), **box)
    TensorMaps([sparse], (0,), driver).encode([4096])
    assert driver.encoded[0][6:8] == ((64, 7, 1), (1, 2, 1))


def test_maps_lie_in_memory_of_their_own_at_multiples_of_64_bytes():
    driver = Driver()
    maps = TensorMaps(MAPS, (0, 1), driver)
    maps.encode([4096, 8192])
    assert [call[0] for call in driver.encoded] == maps.addresses
    assert all(address % 64 == 0 for address in maps.addresses)
    assert [ctypes.string_at(a, 128) for a in maps.addresses] == [b"\1" * 128, b"\2" * 128]


def test_what_the_driver_refuses_is_an_error():
    maps = TensorMaps(MAPS, (0, 1), Driver(status=1))
    with pytest.raises(LaunchError, match=r"CUDA's driver refuses the tensor map .*T0.*: error 1"):
        maps.encode([4096, 8192])
