// out_view(out: complex64[3, 6] (i, j, k) -> (i, k))
// md_hom[i:3, j:5, k:6](mul, (cc, pw(add), cc))
// inp_view(A: complex64[3, 5] (i, j, k) -> (i, j); B: complex64[5, 6] (i, j, k) -> (j, k))
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
void kernel_0(const float* __restrict__ I0, const float* __restrict__ I1, float* __restrict__ O0, unsigned char* __restrict__ scratch)
{
  const int group = blockIdx.x;
  const int item = threadIdx.x;
  const int lo_i = 0;
  const int hi_i = 3;
  const int lo_j = 0;
  const int hi_j = 5;
  const int lo_k = 0;
  const int hi_k = 6;
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
      float* o0 = O0 + 2*r_k + 12*r_i;
      float* o1 = O0 + 2*r_k + 12*r_i + 1;
      const float* b0 = I0 + 10*r_i;
      const float* b1 = I1 + 2*r_k;
      float a0_0_0 = 0.0f;
      float a0_0_1 = 0.0f;
      float a1_0_0 = 0.0f;
      float a1_0_1 = 0.0f;
      int r_j = t_j;
      for (; r_j < e_j; r_j++) {
        const float* p0 = b0 + 2*r_j;
        const float* p1 = b1 + 12*r_j;
        const float x0 = p0[0];
        const float x1 = p0[1];
        const float x2 = p1[0];
        const float x3 = p1[1];
        a0_0_0 = ((a0_0_0 + (x0 * x2)) - (x1 * x3));
        a0_0_1 = ((a0_0_1 + (x0 * x3)) + (x1 * x2));
        const float x4 = p1[2];
        const float x5 = p1[3];
        a1_0_0 = ((a1_0_0 + (x0 * x4)) - (x1 * x5));
        a1_0_1 = ((a1_0_1 + (x0 * x5)) + (x1 * x4));
      }
      o0[0] = a0_0_0;
      o1[0] = a0_0_1;
      o0[2] = a1_0_0;
      o1[2] = a1_0_1;
    }
  }
}
