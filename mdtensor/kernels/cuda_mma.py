"""CUDA device functions for matrix products of a warp: fragment loads and `mma.sync`."""

from __future__ import annotations

# Fragments as PTX describes them for mma.m16n8k16 and ldmatrix (ISA, sections 9.7.14 and 9.7.15),
# and for mma.m16n8k8 of tf32, whose floats are where pairs of half floats are. Those of float64 are
# elements one by one, of which the larger shapes have those of m16n8k4 after each other, and that
# those of m8n8k4, the only one before compute capability 9.0, one above the other.
MATRIX_FUNCTIONS = """\
template <bool turned>
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const unsigned short* from) {
  const unsigned place = __cvta_generic_to_shared(from);
  if (turned) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(place) : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(place) : "memory");
  }
}
template <bool turned>
__device__ __forceinline__ void load_matrices(unsigned (&to)[2], const unsigned short* from) {
  const unsigned place = __cvta_generic_to_shared(from);
  if (turned) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1]) : "r"(place) : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1]) : "r"(place) : "memory");
  }
}
__device__ __forceinline__ void multiply_add(float& a, float& b, float& c, float& d,
                                             const unsigned (&rows)[4], unsigned x, unsigned y) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
      " {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(a), "+f"(b), "+f"(c), "+f"(d)
      : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(x), "r"(y));
}
__device__ __forceinline__ void multiply_add_bfloats(float& a, float& b, float& c, float& d,
                                                     const unsigned (&rows)[4], unsigned x,
                                                     unsigned y) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
      " {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(a), "+f"(b), "+f"(c), "+f"(d)
      : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(x), "r"(y));
}
template <int count>
__device__ __forceinline__ void round_floats(unsigned (&held)[count]) {
  #pragma unroll
  for (int n = 0; n < count; n++) {
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(held[n]) : "f"(__uint_as_float(held[n])));
  }
}
__device__ __forceinline__ void multiply_add_floats(float& a, float& b, float& c, float& d,
                                                    const unsigned (&rows)[4], unsigned x,
                                                    unsigned y) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
      " {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(a), "+f"(b), "+f"(c), "+f"(d)
      : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(x), "r"(y));
}
#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void multiply_add_doubles(double& a, double& b, double& c, double& d,
                                                     const double (&rows)[2], double x) {
  asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6},"
      " {%0, %1, %2, %3};"
      : "+d"(a), "+d"(b), "+d"(c), "+d"(d) : "d"(rows[0]), "d"(rows[1]), "d"(x));
}
__device__ __forceinline__ void multiply_add_doubles(double& a, double& b, double& c, double& d,
                                                     const double (&rows)[4], double x, double y) {
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
      " {%8, %9}, {%0, %1, %2, %3};"
      : "+d"(a), "+d"(b), "+d"(c), "+d"(d)
      : "d"(rows[0]), "d"(rows[1]), "d"(rows[2]), "d"(rows[3]), "d"(x), "d"(y));
}
__device__ __forceinline__ void multiply_add_doubles(double& a, double& b, double& c, double& d,
                                                     const double (&rows)[8], double x, double y,
                                                     double z, double w) {
  asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9,"
      " %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(a), "+d"(b), "+d"(c), "+d"(d)
      : "d"(rows[0]), "d"(rows[1]), "d"(rows[2]), "d"(rows[3]), "d"(rows[4]), "d"(rows[5]),
        "d"(rows[6]), "d"(rows[7]), "d"(x), "d"(y), "d"(z), "d"(w));
}
#else
template <int count, class... Columns>
__device__ __forceinline__ void multiply_add_doubles(double& a, double& b, double& c, double& d,
                                                     const double (&rows)[count],
                                                     Columns... columns) {
  const double each[] = {columns...};
  #pragma unroll
  for (int n = 0; n < count / 2; n++) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(a), "+d"(b) : "d"(rows[2 * n]), "d"(each[n]));
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c), "+d"(d) : "d"(rows[2 * n + 1]), "d"(each[n]));
  }
}
#endif"""
