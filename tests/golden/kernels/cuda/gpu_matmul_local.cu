// out_view(out: float32[9, 19] (i, j, k) -> (i, k))
// md_hom[i:9, j:10, k:19](mul, (cc, pw(add), cc))
// inp_view(A: float32[9, 10] (i, j, k) -> (i, j); B: float32[10, 19] (i, j, k) -> (j, k))
// gpu: parts i:1 j:1 k:1; threads i:4 j:1 k:4
// tiles i:4 j:4 k:8; registers i:1 j:1 k:2; lanes none
// order i j k | i k | j
// staged 0:local 1:local
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
  const int hi_i = 9;
  const int lo_j = 0;
  const int hi_j = 10;
  const int lo_k = 0;
  const int hi_k = 19;
  const int x_k = remainder_of(item, 4);
  const int y_k = (unsigned)(item) / (unsigned)(4);
  const int x_i = remainder_of(y_k, 4);
  const int y_i = (unsigned)(y_k) / (unsigned)(4);
  __shared__ __align__(16) float S0[80];
  __shared__ __align__(16) float S1[96];
  for (int t_i = lo_i; t_i + 4 <= hi_i + 3; t_i += 4) {
    const int e_i = (t_i + 4 < hi_i ? t_i + 4 : hi_i);
    for (int t_j = lo_j; t_j + 4 <= hi_j + 3; t_j += 4) {
      const int e_j = (t_j + 4 < hi_j ? t_j + 4 : hi_j);
      __syncthreads();
      for (int c = item; c + 16 <= 31; c += 16) {
        const int c_i_outer = (unsigned)(c) / (unsigned)(16);
        const int m_i_outer = remainder_of(c, 16);
        const int c_j_full = (unsigned)(m_i_outer) / (unsigned)(4);
        const int m_j_full = remainder_of(m_i_outer, 4);
        const int c_i_inner = (unsigned)(m_j_full) / (unsigned)(1);
        const int m_i_inner = remainder_of(m_j_full, 1);
        if (c_j_full < -t_j + e_j) {
          if (4*c_i_outer + c_i_inner < -t_i + e_i) {
            S0[c] = I0[t_j + 10*t_i + c_j_full + 40*c_i_outer + 10*c_i_inner];
          }
        }
      }
      __syncthreads();
      for (int t_k = lo_k; t_k + 8 <= hi_k + 7; t_k += 8) {
        const int e_k = (t_k + 8 < hi_k ? t_k + 8 : hi_k);
        __syncthreads();
        for (int c = item; c + 16 <= 47; c += 16) {
          const int c_k_outer = (unsigned)(c) / (unsigned)(32);
          const int m_k_outer = remainder_of(c, 32);
          const int c_j_full = (unsigned)(m_k_outer) / (unsigned)(8);
          const int m_j_full = remainder_of(m_k_outer, 8);
          const int c_k_inner = (unsigned)(m_j_full) / (unsigned)(1);
          const int m_k_inner = remainder_of(m_j_full, 1);
          if (c_j_full < -t_j + e_j) {
            if (8*c_k_outer + c_k_inner < -t_k + e_k) {
              S1[c] = I1[t_k + 19*t_j + 8*c_k_outer + c_k_inner + 19*c_j_full];
            }
          }
        }
        __syncthreads();
        int r_i = x_i + t_i;
        for (; r_i + 4 <= e_i + 3; r_i += 4) {
          int r_k = 2*x_k + t_k;
          for (; r_k + 8 <= e_k + 6; r_k += 8) {
            float* o0 = O0 + r_k + 19*r_i;
            const int k_i = (-t_i + r_i) / (4);
            const int m_i = remainder_of(-t_i + r_i, 4);
            const int k_k = (-t_k + r_k) / (8);
            const int m_k = remainder_of(-t_k + r_k, 8);
            const float* b0 = S0 + m_i + 16*k_i;
            const float* b1 = S1 + m_k + 32*k_k;
            float a0_0 = 0.0f;
            float a1_0 = 0.0f;
            int r_j = t_j;
            for (; r_j < e_j; r_j++) {
              const float* p0 = b0 + -4*t_j + 4*r_j;
              const float* p1 = b1 + -8*t_j + 8*r_j;
              const float x0 = p0[0];
              const float x1 = p1[0];
              a0_0 = (a0_0 + (x0 * x1));
              const float x2 = p1[1];
              a1_0 = (a1_0 + (x0 * x2));
            }
            if (0 < t_j - lo_j) {
              a0_0 = (o0[0] + a0_0);
              a1_0 = (o0[1] + a1_0);
            }
            o0[0] = a0_0;
            o0[1] = a1_0;
          }
          if (r_k + 1 <= e_k) {
            float* o0 = O0 + r_k + 19*r_i;
            const int k_i = (-t_i + r_i) / (4);
            const int m_i = remainder_of(-t_i + r_i, 4);
            const int k_k = (-t_k + r_k) / (8);
            const int m_k = remainder_of(-t_k + r_k, 8);
            const float* b0 = S0 + m_i + 16*k_i;
            const float* b1 = S1 + m_k + 32*k_k;
            float a0_0 = 0.0f;
            int r_j = t_j;
            for (; r_j < e_j; r_j++) {
              const float* p0 = b0 + -4*t_j + 4*r_j;
              const float* p1 = b1 + -8*t_j + 8*r_j;
              const float x0 = p0[0];
              const float x1 = p1[0];
              a0_0 = (a0_0 + (x0 * x1));
            }
            if (0 < t_j - lo_j) {
              a0_0 = (o0[0] + a0_0);
            }
            o0[0] = a0_0;
          }
        }
      }
    }
  }
}
