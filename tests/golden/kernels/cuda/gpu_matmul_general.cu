// out_view(out: float32[5, 21] (i, j, k) -> (i, k))
// md_hom[i:5, j:9, k:21](mul, (cc, pw(add), cc))
// inp_view(A: float32[5, 9] (i, j, k) -> (i, j); B: float32[9, 21] (i, j, k) -> (j, k))
// gpu: parts d0:0 d1:1 d2:0; threads d0:4 d1:1 d2:4
// tiles d0:4 d1:4 d2:8; registers d0:1 d1:1 d2:2; lanes none
// order d0 d1 d2 | d0 d2 | d1
// staged 0:local
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
void kernel_0(const float* __restrict__ I0, const float* __restrict__ I1, float* __restrict__ O0, unsigned char* __restrict__ scratch, const long long N0, const long long N1, const long long N2, const long long stride0_0, const long long stride1_1, const long long step0_0, const long long B_d0, const long long B_d1, const long long B_d2, const long long P_d0, const long long P_d1, const long long P_d2)
{
  const long long group = blockIdx.x;
  const long long item = threadIdx.x;
  const long long z_d2 = remainder_of(group, P_d2);
  const long long g_d2 = (group) / (P_d2);
  const long long lo_d2 = 8*z_d2*B_d2;
  const long long hi_d2 = (lo_d2 + 8*B_d2 < N2 ? lo_d2 + 8*B_d2 : N2);
  const long long z_d0 = g_d2;
  const long long lo_d0 = 4*z_d0*B_d0;
  const long long hi_d0 = (lo_d0 + 4*B_d0 < N0 ? lo_d0 + 4*B_d0 : N0);
  const long long lo_d1 = 0;
  const long long hi_d1 = N1;
  const long long x_d2 = remainder_of(item, 4);
  const long long y_d2 = (item) / (4);
  const long long x_d0 = remainder_of(y_d2, 4);
  const long long y_d0 = (y_d2) / (4);
  __shared__ __align__(16) float S0[80];
  for (long long t_d0 = lo_d0; t_d0 + 4 <= hi_d0 + 3; t_d0 += 4) {
    const long long e_d0 = (t_d0 + 4 < hi_d0 ? t_d0 + 4 : hi_d0);
    for (long long t_d1 = lo_d1; t_d1 + 4 <= hi_d1 + 3; t_d1 += 4) {
      const long long e_d1 = (t_d1 + 4 < hi_d1 ? t_d1 + 4 : hi_d1);
      __syncthreads();
      for (long long c = item; c + 16 <= 31; c += 16) {
        const long long c_d0_outer = (c) / (16);
        const long long m_d0_outer = remainder_of(c, 16);
        const long long c_d1_full = (m_d0_outer) / (4);
        const long long m_d1_full = remainder_of(m_d0_outer, 4);
        const long long c_d0_inner = (m_d1_full) / (1);
        const long long m_d0_inner = remainder_of(m_d1_full, 1);
        if (c_d1_full < -t_d1 + e_d1) {
          if (4*c_d0_outer + c_d0_inner < -t_d0 + e_d0) {
            S0[c] = I0[t_d1 + t_d0*stride0_0 + c_d1_full + 4*stride0_0*c_d0_outer + stride0_0*c_d0_inner];
          }
        }
      }
      __syncthreads();
      for (long long t_d2 = lo_d2; t_d2 + 8 <= hi_d2 + 7; t_d2 += 8) {
        const long long e_d2 = (t_d2 + 8 < hi_d2 ? t_d2 + 8 : hi_d2);
        long long r_d0 = x_d0 + t_d0;
        for (; r_d0 + 4 <= e_d0 + 3; r_d0 += 4) {
          long long r_d2 = 2*x_d2 + t_d2;
          for (; r_d2 + 8 <= e_d2 + 6; r_d2 += 8) {
            float* o0 = O0 + r_d2 + step0_0*r_d0;
            const long long k_d0 = (-t_d0 + r_d0) / (4);
            const long long m_d0 = remainder_of(-t_d0 + r_d0, 4);
            const float* b0 = S0 + m_d0 + 16*k_d0;
            const float* b1 = I1 + r_d2;
            float a0_0 = 0.0f;
            float a1_0 = 0.0f;
            long long r_d1 = t_d1;
            for (; r_d1 < e_d1; r_d1++) {
              const float* p0 = b0 + -4*t_d1 + 4*r_d1;
              const float* p1 = b1 + stride1_1*r_d1;
              const float x0 = p0[0];
              const float x1 = p1[0];
              a0_0 = (a0_0 + (x0 * x1));
              const float x2 = p1[1];
              a1_0 = (a1_0 + (x0 * x2));
            }
            if (0 < t_d1 - lo_d1) {
              a0_0 = (o0[0] + a0_0);
              a1_0 = (o0[1] + a1_0);
            }
            o0[0] = a0_0;
            o0[1] = a1_0;
          }
          for (; r_d2 < e_d2; r_d2++) {
            float* o0 = O0 + r_d2 + step0_0*r_d0;
            const long long k_d0 = (-t_d0 + r_d0) / (4);
            const long long m_d0 = remainder_of(-t_d0 + r_d0, 4);
            const float* b0 = S0 + m_d0 + 16*k_d0;
            const float* b1 = I1 + r_d2;
            float a0_0 = 0.0f;
            long long r_d1 = t_d1;
            for (; r_d1 < e_d1; r_d1++) {
              const float* p0 = b0 + -4*t_d1 + 4*r_d1;
              const float* p1 = b1 + stride1_1*r_d1;
              const float x0 = p0[0];
              const float x1 = p1[0];
              a0_0 = (a0_0 + (x0 * x1));
            }
            if (0 < t_d1 - lo_d1) {
              a0_0 = (o0[0] + a0_0);
            }
            o0[0] = a0_0;
          }
        }
      }
    }
  }
}
