// out_view(out: float32[9, 19] (i, j, k) -> (i, k))
// md_hom[i:9, j:10, k:19](mul, (cc, pw(add), cc))
// inp_view(A: float32[9, 10] (i, j, k) -> (i, j); B: float32[10, 19] (i, j, k) -> (j, k))
// gpu: parts i:1 j:1 k:1; threads i:4 j:1 k:4
// tiles i:4 j:4 k:8; registers i:1 j:1 k:2; lanes none
// order i j k | i k | j
// staged 0:local 1:local
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  const long lo_i = 0;
  const long hi_i = 9;
  const long lo_j = 0;
  const long hi_j = 10;
  const long lo_k = 0;
  const long hi_k = 19;
  const long x_k = (item) % (4);
  const long y_k = (item) / (4);
  const long x_i = (y_k) % (4);
  const long y_i = (y_k) / (4);
  __local float S0[80];
  __local float S1[96];
  #pragma clang loop vectorize(disable)
  for (long t_i = lo_i; t_i + 4 <= hi_i + 3; t_i += 4) {
    const long e_i = (t_i + 4 < hi_i ? t_i + 4 : hi_i);
    #pragma clang loop vectorize(disable)
    for (long t_j = lo_j; t_j + 4 <= hi_j + 3; t_j += 4) {
      const long e_j = (t_j + 4 < hi_j ? t_j + 4 : hi_j);
      barrier(CLK_LOCAL_MEM_FENCE);
      #pragma clang loop vectorize(disable)
      for (long c = item; c + 16 <= 31; c += 16) {
        const long c_i_outer = (c) / (16);
        const long m_i_outer = (c) % (16);
        const long c_j_full = (m_i_outer) / (4);
        const long m_j_full = (m_i_outer) % (4);
        const long c_i_inner = (m_j_full) / (1);
        const long m_i_inner = (m_j_full) % (1);
        if (c_j_full < -t_j + e_j) {
          if (4*c_i_outer + c_i_inner < -t_i + e_i) {
            S0[c] = I0[t_j + 10*t_i + c_j_full + 40*c_i_outer + 10*c_i_inner];
          }
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      #pragma clang loop vectorize(disable)
      for (long t_k = lo_k; t_k + 8 <= hi_k + 7; t_k += 8) {
        const long e_k = (t_k + 8 < hi_k ? t_k + 8 : hi_k);
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma clang loop vectorize(disable)
        for (long c = item; c + 16 <= 47; c += 16) {
          const long c_k_outer = (c) / (32);
          const long m_k_outer = (c) % (32);
          const long c_j_full = (m_k_outer) / (8);
          const long m_j_full = (m_k_outer) % (8);
          const long c_k_inner = (m_j_full) / (1);
          const long m_k_inner = (m_j_full) % (1);
          if (c_j_full < -t_j + e_j) {
            if (8*c_k_outer + c_k_inner < -t_k + e_k) {
              S1[c] = I1[t_k + 19*t_j + 8*c_k_outer + c_k_inner + 19*c_j_full];
            }
          }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        long r_i = x_i + t_i;
        #pragma clang loop vectorize(disable)
        for (; r_i + 4 <= e_i + 3; r_i += 4) {
          long r_k = 2*x_k + t_k;
          #pragma clang loop vectorize(disable)
          for (; r_k + 8 <= e_k + 6; r_k += 8) {
            __global float* o0 = O0 + r_k + 19*r_i;
            const long k_i = (-t_i + r_i) / (4);
            const long m_i = (-t_i + r_i) % (4);
            const long k_k = (-t_k + r_k) / (8);
            const long m_k = (-t_k + r_k) % (8);
            __local const float* b0 = S0 + m_i + 16*k_i;
            __local const float* b1 = S1 + m_k + 32*k_k;
            float a0_0 = 0.0f;
            float a1_0 = 0.0f;
            long r_j = t_j;
            #pragma clang loop vectorize(disable)
            for (; r_j < e_j; r_j++) {
              __local const float* p0 = b0 + -4*t_j + 4*r_j;
              __local const float* p1 = b1 + -8*t_j + 8*r_j;
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
            __global float* o0 = O0 + r_k + 19*r_i;
            const long k_i = (-t_i + r_i) / (4);
            const long m_i = (-t_i + r_i) % (4);
            const long k_k = (-t_k + r_k) / (8);
            const long m_k = (-t_k + r_k) % (8);
            __local const float* b0 = S0 + m_i + 16*k_i;
            __local const float* b1 = S1 + m_k + 32*k_k;
            float a0_0 = 0.0f;
            long r_j = t_j;
            #pragma clang loop vectorize(disable)
            for (; r_j < e_j; r_j++) {
              __local const float* p0 = b0 + -4*t_j + 4*r_j;
              __local const float* p1 = b1 + -8*t_j + 8*r_j;
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
