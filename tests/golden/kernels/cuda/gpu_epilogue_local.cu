// out_view(y: float32[5, 6] (i, k, j) -> (i, j))
// epilogue(f)(A: float32[5, 9] (i, k, j) -> ; B: float32[9, 6] (i, k, j) -> ; C: float32[5, 6] (i, k, j) -> (i, j); b: float32[6] (i, k, j) -> (j))
// md_hom[i:5, k:9, j:6](f, (cc, pw(add), cc), epilogue f)
// inp_view(A: float32[5, 9] (i, k, j) -> (i, k); B: float32[9, 6] (i, k, j) -> (k, j); C: float32[5, 6] (i, k, j) -> ; b: float32[6] (i, k, j) -> )
// gpu: parts i:1 k:1 j:1; threads i:4 k:1 j:4
// tiles i:4 k:4 j:8; registers i:1 k:1 j:2; lanes none
// order i k j | i j | k
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
void kernel_0(const float* __restrict__ I0, const float* __restrict__ I1, const float* __restrict__ I2, const float* __restrict__ I3, float* __restrict__ O0, unsigned char* __restrict__ scratch)
{
  const int group = blockIdx.x;
  const int item = threadIdx.x;
  const int lo_i = 0;
  const int hi_i = 5;
  const int lo_k = 0;
  const int hi_k = 9;
  const int lo_j = 0;
  const int hi_j = 6;
  const int x_j = remainder_of(item, 4);
  const int y_j = (unsigned)(item) / (unsigned)(4);
  const int x_i = remainder_of(y_j, 4);
  const int y_i = (unsigned)(y_j) / (unsigned)(4);
  __shared__ __align__(16) float S0[80];
  __shared__ __align__(16) float S1[96];
  const int t_j = lo_j;
  const int e_j = hi_j;
  for (int t_i = lo_i; t_i + 4 <= hi_i + 3; t_i += 4) {
    const int e_i = (t_i + 4 < hi_i ? t_i + 4 : hi_i);
    for (int t_k = lo_k; t_k + 4 <= hi_k + 3; t_k += 4) {
      const int e_k = (t_k + 4 < hi_k ? t_k + 4 : hi_k);
      __syncthreads();
      for (int c = item; c + 16 <= 31; c += 16) {
        const int c_i_outer = (unsigned)(c) / (unsigned)(16);
        const int m_i_outer = remainder_of(c, 16);
        const int c_k_full = (unsigned)(m_i_outer) / (unsigned)(4);
        const int m_k_full = remainder_of(m_i_outer, 4);
        const int c_i_inner = (unsigned)(m_k_full) / (unsigned)(1);
        const int m_i_inner = remainder_of(m_k_full, 1);
        if (c_k_full < -t_k + e_k) {
          if (4*c_i_outer + c_i_inner < -t_i + e_i) {
            S0[c] = I0[t_k + 9*t_i + c_k_full + 36*c_i_outer + 9*c_i_inner];
          }
        }
      }
      __syncthreads();
      __syncthreads();
      for (int c = item; c + 16 <= 47; c += 16) {
        const int c_j_outer = (unsigned)(c) / (unsigned)(32);
        const int m_j_outer = remainder_of(c, 32);
        const int c_k_full = (unsigned)(m_j_outer) / (unsigned)(8);
        const int m_k_full = remainder_of(m_j_outer, 8);
        const int c_j_inner = (unsigned)(m_k_full) / (unsigned)(1);
        const int m_j_inner = remainder_of(m_k_full, 1);
        if (c_k_full < -t_k + e_k) {
          if (8*c_j_outer + c_j_inner < -t_j + e_j) {
            S1[c] = I1[6*t_k + t_j + 6*c_k_full + 8*c_j_outer + c_j_inner];
          }
        }
      }
      __syncthreads();
      int r_i = x_i + t_i;
      for (; r_i + 4 <= e_i + 3; r_i += 4) {
        int r_j = 2*x_j + t_j;
        for (; r_j + 8 <= e_j + 6; r_j += 8) {
          float* o0 = O0 + r_j + 6*r_i;
          const int k_i = (-t_i + r_i) / (4);
          const int m_i = remainder_of(-t_i + r_i, 4);
          const int k_j = (-t_j + r_j) / (8);
          const int m_j = remainder_of(-t_j + r_j, 8);
          const float* b0 = S0 + m_i + 16*k_i;
          const float* b1 = S1 + m_j + 32*k_j;
          const float* b2 = I2 + r_j + 6*r_i;
          const float* b3 = I3 + r_j;
          float a0_0 = 0.0f;
          float a1_0 = 0.0f;
          int r_k = t_k;
          for (; r_k < e_k; r_k++) {
            const float* p0 = b0 + -4*t_k + 4*r_k;
            const float* p1 = b1 + -8*t_k + 8*r_k;
            const float* p2 = b2;
            const float* p3 = b3;
            const float x0 = p0[0];
            const float x1 = p1[0];
            a0_0 = (a0_0 + (x0 * x1));
            const float x2 = p1[1];
            a1_0 = (a1_0 + (x0 * x2));
          }
          if (0 < t_k - lo_k) {
            a0_0 = (o0[0] + a0_0);
            a1_0 = (o0[1] + a1_0);
          }
          if (0 < hi_k - e_k) {
            o0[0] = a0_0;
            o0[1] = a1_0;
          } else {
            const float xe0 = b2[0];
            const float xe1 = b3[0];
            const float c0 = (((a0_0 * 2.0f) + (xe0 * 3.0f)) + xe1);
            const float f0_0_0 = ((0.0f > c0) ? 0.0f : c0);
            o0[0] = f0_0_0;
            const float xe2 = b2[1];
            const float xe3 = b3[1];
            const float c1 = (((a1_0 * 2.0f) + (xe2 * 3.0f)) + xe3);
            const float f1_0_0 = ((0.0f > c1) ? 0.0f : c1);
            o0[1] = f1_0_0;
          }
        }
      }
    }
  }
}
