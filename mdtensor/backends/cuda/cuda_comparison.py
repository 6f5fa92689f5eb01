"""Whether two arrays on a GPU differ, by one kernel that is compiled in a moment.

CuPy compiles a kernel for each operation of such an expression and each type of elements, which
takes it seconds: as long as a short search may last.
"""

from __future__ import annotations

from typing import Any

from mdtensor.backends.cuda.cupy_device import CupyDevice

_ITEMS, _GROUPS_PER_CORE = 256, 8
_NAMES = {"f4": "differ_float", "f8": "differ_double"}
_BYTES = "differ_bytes"
_SOURCE = """
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

    def differ(self, one: Any, other: Any, tolerance: float) -> bool | None:
        """Whether an element of one-dimensional memory lies further than that from the other's.

        Elements that are no numbers of floating point are compared byte by byte. None for floating
        point that the kernel does not read.
        """
        code = one.dtype.str[1:]
        name = _NAMES.get(code, "" if one.dtype.kind in "fc" else _BYTES)
        if not name:
            return None
        count = one.size if code in _NAMES else one.nbytes
        result = self.cupy.zeros(1, "i4")
        arguments = (
            *(one, other, self.cupy.int64(count), self.cupy.float64(tolerance)),
            result,
        )
        self._module.get_function(name)((self._groups,), (_ITEMS,), arguments)
        return bool(result.get()[0])
