"""Comparison of arrays on a GPU, by one kernel that NVRTC compiles quickly.

CuPy compiles a kernel for each operation of a comparison and each type of elements, which takes it
five seconds: as long as a short search may last.
"""

from __future__ import annotations

from typing import Any

from mdtensor.backends.cuda.cupy_device import CupyDevice

_ITEMS, _GROUPS_PER_CORE = 256, 8
# By the names of types; complex numbers are two elements each.
_NAMES = {
    "float16": "differ_half",
    "bfloat16": "differ_bfloat",
    "float32": "differ_float",
    "float64": "differ_double",
    "complex64": "differ_float",
    "complex128": "differ_double",
}
_BYTES = "differ_bytes"
_SOURCE = """
struct half_bits {
  unsigned short bits;
  __device__ operator double() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
struct bfloat_bits {
  unsigned short bits;
  __device__ operator double() const { return __uint_as_float((unsigned)bits << 16); }
};
template <typename T>
__device__ void compare(const T* a, const T* b, long long count, double tolerance, int* result) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long n = (long long)blockIdx.x * blockDim.x + threadIdx.x; n < count; n += step) {
    const double x = a[n], y = b[n];
    const bool same = fabs(x - y) <= tolerance || x == y || (x != x && y != y);
    if (!same) *result = 1;
  }
}
#define COMPARISON(name, type) \\
  extern "C" __global__ void name( \\
      const type* a, const type* b, long long count, double tolerance, int* result) { \\
    compare(a, b, count, tolerance, result); \\
  }
COMPARISON(differ_half, half_bits)
COMPARISON(differ_bfloat, bfloat_bits)
COMPARISON(differ_float, float)
COMPARISON(differ_double, double)
COMPARISON(differ_bytes, unsigned char)
"""


class CudaComparison:
    """Compares arrays of one device."""

    def __init__(self, device: CupyDevice) -> None:
        self.cupy = device.cupy
        self._module = device.cupy.cuda.function.Module()
        self._module.load(device.nvrtc.kept(_SOURCE).code)
        self._groups = device.target.cores * _GROUPS_PER_CORE

    def differ(self, one: Any, other: Any, tolerance: float) -> bool:
        """Whether elements of two one-dimensional arrays differ by more than `tolerance`.

        Elements that are no numbers of floating point are compared byte by byte, complex ones part
        by part.
        """
        name = _NAMES.get(one.dtype.name, _BYTES)
        elements = one.nbytes if name == _BYTES else one.size
        count = 2 * elements if one.dtype.kind == "c" else elements
        result = self.cupy.zeros(1, "i4")
        arguments = (
            *(one, other, self.cupy.int64(count), self.cupy.float64(tolerance)),
            result,
        )
        self._module.get_function(name)((self._groups,), (_ITEMS,), arguments)
        return bool(result.get()[0])
