// out_view(out: float64[13, 5] (i, j, k) -> (k, i))
// md_hom[i:5, j:9, k:13](mul, (cc, pw(add), cc))
// inp_view(A: float64[5, 9] (i, j, k) -> (i, j); B: float64[9, 13] (i, j, k) -> (j, k))
// gpu: parts i:1 j:1 k:1; threads i:4 j:1 k:4
// tiles i:0 j:0 k:0; registers i:1 j:1 k:2; lanes none
// order i j k | i k | j
// staged nothing
// tail split; streaming False; inline False
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
// Counts after all that the group wrote, and before all that it reads then.
__device__ __forceinline__ unsigned count_one(unsigned* counter) {
  unsigned before;
  asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}
template <int bytes>
__device__ __forceinline__ void copy_async(void* to, const void* from) {
  const unsigned place = __cvta_generic_to_shared(to);
  if (bytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                 :: "r"(place), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(place), "l"(from), "n"(bytes) : "memory");
  }
}
__device__ __forceinline__ long long remainder_of(unsigned number, unsigned by) {
  unsigned found = number % by;
  asm("" : "+r"(found));
  return found;
}

extern "C" __global__ __launch_bounds__(16)
void kernel_0(const double* __restrict__ I0, const double* __restrict__ I1, double* __restrict__ O0, unsigned char* __restrict__ scratch)
{
  const int group = blockIdx.x;
  const int item = threadIdx.x;
  const int lo_i = 0;
  const int hi_i = 5;
  const int lo_j = 0;
  const int hi_j = 9;
  const int lo_k = 0;
  const int hi_k = 13;
  const int x_k = remainder_of(item, 4);
  const int y_k = (unsigned)(item) / (unsigned)(4);
  const int x_i = remainder_of(y_k, 4);
  const int y_i = (unsigned)(y_k) / (unsigned)(4);
  const int t_i = lo_i;
  const int e_i = hi_i;
  const int t_j = lo_j;
  const int e_j = hi_j;
  const int t_k = lo_k;
  const int e_k = hi_k;
  int r_i = x_i + t_i;
  for (; r_i + 4 <= e_i + 3; r_i += 4) {
    int r_k = 2*x_k + t_k;
    for (; r_k + 8 <= e_k + 6; r_k += 8) {
      double* o0 = O0 + 5*r_k + r_i;
      const double* b0 = I0 + 9*r_i;
      const double* b1 = I1 + r_k;
      double a0_0 = 0.0;
      double a1_0 = 0.0;
      int r_j = t_j;
      for (; r_j < e_j; r_j++) {
        const double* p0 = b0 + r_j;
        const double* p1 = b1 + 13*r_j;
        const double x0 = p0[0];
        const double x1 = p1[0];
        a0_0 = (a0_0 + (x0 * x1));
        const double x2 = p1[1];
        a1_0 = (a1_0 + (x0 * x2));
      }
      o0[0] = a0_0;
      o0[5] = a1_0;
    }
    if (r_k + 1 <= e_k) {
      double* o0 = O0 + 5*r_k + r_i;
      const double* b0 = I0 + 9*r_i;
      const double* b1 = I1 + r_k;
      double a0_0 = 0.0;
      int r_j = t_j;
      for (; r_j < e_j; r_j++) {
        const double* p0 = b0 + r_j;
        const double* p1 = b1 + 13*r_j;
        const double x0 = p0[0];
        const double x1 = p1[0];
        a0_0 = (a0_0 + (x0 * x1));
      }
      o0[0] = a0_0;
    }
  }
}
