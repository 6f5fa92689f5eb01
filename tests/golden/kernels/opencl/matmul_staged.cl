// out_view(out: float32[5, 21] (i, j, k) -> (i, k))
// md_hom[i:5, j:9, k:21](mul, (cc, pw(add), cc))
// inp_view(A: float32[5, 9] (i, j, k) -> (i, j); B: float32[9, 21] (i, j, k) -> (j, k))
// cpu: parts i:1 j:1 k:1; threads i:1 j:1 k:1
// tiles i:0 j:4 k:16; registers i:2 j:1 k:8; lanes k x4
// order k j i | i k | j
// staged 0:private 1:scratch
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long lo_k = 0;
  const long hi_k = 21;
  const long lo_j = 0;
  const long hi_j = 9;
  const long lo_i = 0;
  const long hi_i = 5;
  float S0[88] __attribute__((aligned(64)));
  __global float* S1 = (__global float*)(scratch + 256*group);
  const long t_i = lo_i;
  const long e_i = hi_i;
  #pragma clang loop vectorize(disable)
  for (long t_k = lo_k; t_k + 16 <= hi_k + 15; t_k += 16) {
    const long e_k = (t_k + 16 < hi_k ? t_k + 16 : hi_k);
    #pragma clang loop vectorize(disable)
    for (long t_j = lo_j; t_j + 4 <= hi_j + 3; t_j += 4) {
      const long e_j = (t_j + 4 < hi_j ? t_j + 4 : hi_j);
      // stage S0
      #pragma clang loop vectorize(disable)
      for (long q_i = t_i; q_i + 2 <= e_i + 1; q_i += 2) {
        const long k_i = (-t_i + q_i) / (2);
        const long n_i = (2 < -q_i + e_i ? 2 : -q_i + e_i);
        #pragma clang loop vectorize(disable)
        for (long u_i = 0; u_i < n_i; u_i++) {
          #pragma clang loop vectorize(disable)
          for (long q_j = t_j; q_j < e_j; q_j++) {
            S0[u_i - 2*t_j + 2*q_j + 8*k_i] = I0[9*u_i + q_j + 9*q_i];
          }
        }
      }
      // stage S1
      #pragma clang loop vectorize(disable)
      for (long band_j = t_j; band_j + 8 <= e_j + 7; band_j += 8) {
        const long bound_j = (band_j + 8 < e_j ? band_j + 8 : e_j);
        #pragma clang loop vectorize(disable)
        for (long q_k = t_k; q_k + 8 <= e_k + 7; q_k += 8) {
          const long k_k = (-t_k + q_k) / (8);
          #pragma clang loop vectorize(disable)
          for (long q_j = band_j; q_j < bound_j; q_j++) {
            if (q_k + 8 <= e_k) {
              const float4 s0_0 = vload4(0, I1 + q_k + 21*q_j);
              vstore4(s0_0, 0, S1 + -8*t_j + 8*q_j + 32*k_k);
              const float4 s4_0 = vload4(0, I1 + q_k + 21*q_j + 4);
              vstore4(s4_0, 0, S1 + -8*t_j + 8*q_j + 32*k_k + 4);
            } else {
              #pragma clang loop vectorize(disable)
              for (long u_k = 0; u_k < -q_k + e_k; u_k++) {
                S1[u_k - 8*t_j + 8*q_j + 32*k_k] = I1[u_k + q_k + 21*q_j];
              }
            }
          }
        }
      }
      long r_i = t_i;
      #pragma clang loop vectorize(disable)
      for (; r_i + 2 <= e_i; r_i += 2) {
        long r_k = t_k;
        #pragma clang loop vectorize(disable)
        for (; r_k + 8 <= e_k; r_k += 8) {
          __global float* o0 = O0 + r_k + 21*r_i;
          const long k_i = (-t_i + r_i) / (2);
          const long m_i = (-t_i + r_i) % (2);
          const long k_k = (-t_k + r_k) / (8);
          const long m_k = (-t_k + r_k) % (8);
          const float* b0 = S0 + m_i + 8*k_i;
          __global const float* b1 = S1 + m_k + 32*k_k;
          float4 a0_0 = (float4)(0.0f);
          float4 a0_1 = (float4)(0.0f);
          float4 a1_0 = (float4)(0.0f);
          float4 a1_1 = (float4)(0.0f);
          long r_j = t_j;
          #pragma clang loop vectorize(disable)
          for (; r_j < e_j; r_j++) {
            const float* p0 = b0 + -2*t_j + 2*r_j;
            __global const float* p1 = b1 + -8*t_j + 8*r_j;
            const float x0 = p0[0];
            const float4 x1 = vload4(0, p1);
            a0_0 = (a0_0 + ((float4)(x0) * x1));
            const float4 x2 = vload4(0, p1 + 4);
            a0_1 = (a0_1 + ((float4)(x0) * x2));
            const float x3 = p0[1];
            a1_0 = (a1_0 + ((float4)(x3) * x1));
            a1_1 = (a1_1 + ((float4)(x3) * x2));
          }
          if (0 < t_j - lo_j) {
            a0_0 = (vload4(0, o0) + a0_0);
            a0_1 = (vload4(0, o0 + 4) + a0_1);
            a1_0 = (vload4(0, o0 + 21) + a1_0);
            a1_1 = (vload4(0, o0 + 25) + a1_1);
          }
          vstore4(a0_0, 0, o0);
          vstore4(a0_1, 0, o0 + 4);
          vstore4(a1_0, 0, o0 + 21);
          vstore4(a1_1, 0, o0 + 25);
        }
        if (r_k + 5 <= e_k) {
          __global float* o0 = O0 + r_k + 21*r_i;
          const long k_i = (-t_i + r_i) / (2);
          const long m_i = (-t_i + r_i) % (2);
          const long k_k = (-t_k + r_k) / (8);
          const long m_k = (-t_k + r_k) % (8);
          const float* b0 = S0 + m_i + 8*k_i;
          __global const float* b1 = S1 + m_k + 32*k_k;
          float4 a0_0 = (float4)(0.0f);
          float a0_1 = 0.0f;
          float4 a1_0 = (float4)(0.0f);
          float a1_1 = 0.0f;
          long r_j = t_j;
          #pragma clang loop vectorize(disable)
          for (; r_j < e_j; r_j++) {
            const float* p0 = b0 + -2*t_j + 2*r_j;
            __global const float* p1 = b1 + -8*t_j + 8*r_j;
            const float x0 = p0[0];
            const float4 x1 = vload4(0, p1);
            a0_0 = (a0_0 + ((float4)(x0) * x1));
            const float x2 = p1[4];
            a0_1 = (a0_1 + (x0 * x2));
            const float x3 = p0[1];
            a1_0 = (a1_0 + ((float4)(x3) * x1));
            a1_1 = (a1_1 + (x3 * x2));
          }
          if (0 < t_j - lo_j) {
            a0_0 = (vload4(0, o0) + a0_0);
            a0_1 = (o0[4] + a0_1);
            a1_0 = (vload4(0, o0 + 21) + a1_0);
            a1_1 = (o0[25] + a1_1);
          }
          vstore4(a0_0, 0, o0);
          o0[4] = a0_1;
          vstore4(a1_0, 0, o0 + 21);
          o0[25] = a1_1;
        }
      }
      if (r_i + 1 <= e_i) {
        long r_k = t_k;
        #pragma clang loop vectorize(disable)
        for (; r_k + 8 <= e_k; r_k += 8) {
          __global float* o0 = O0 + r_k + 21*r_i;
          const long k_i = (-t_i + r_i) / (2);
          const long m_i = (-t_i + r_i) % (2);
          const long k_k = (-t_k + r_k) / (8);
          const long m_k = (-t_k + r_k) % (8);
          const float* b0 = S0 + m_i + 8*k_i;
          __global const float* b1 = S1 + m_k + 32*k_k;
          float4 a0_0 = (float4)(0.0f);
          float4 a0_1 = (float4)(0.0f);
          long r_j = t_j;
          #pragma clang loop vectorize(disable)
          for (; r_j < e_j; r_j++) {
            const float* p0 = b0 + -2*t_j + 2*r_j;
            __global const float* p1 = b1 + -8*t_j + 8*r_j;
            const float x0 = p0[0];
            const float4 x1 = vload4(0, p1);
            a0_0 = (a0_0 + ((float4)(x0) * x1));
            const float4 x2 = vload4(0, p1 + 4);
            a0_1 = (a0_1 + ((float4)(x0) * x2));
          }
          if (0 < t_j - lo_j) {
            a0_0 = (vload4(0, o0) + a0_0);
            a0_1 = (vload4(0, o0 + 4) + a0_1);
          }
          vstore4(a0_0, 0, o0);
          vstore4(a0_1, 0, o0 + 4);
        }
        if (r_k + 5 <= e_k) {
          __global float* o0 = O0 + r_k + 21*r_i;
          const long k_i = (-t_i + r_i) / (2);
          const long m_i = (-t_i + r_i) % (2);
          const long k_k = (-t_k + r_k) / (8);
          const long m_k = (-t_k + r_k) % (8);
          const float* b0 = S0 + m_i + 8*k_i;
          __global const float* b1 = S1 + m_k + 32*k_k;
          float4 a0_0 = (float4)(0.0f);
          float a0_1 = 0.0f;
          long r_j = t_j;
          #pragma clang loop vectorize(disable)
          for (; r_j < e_j; r_j++) {
            const float* p0 = b0 + -2*t_j + 2*r_j;
            __global const float* p1 = b1 + -8*t_j + 8*r_j;
            const float x0 = p0[0];
            const float4 x1 = vload4(0, p1);
            a0_0 = (a0_0 + ((float4)(x0) * x1));
            const float x2 = p1[4];
            a0_1 = (a0_1 + (x0 * x2));
          }
          if (0 < t_j - lo_j) {
            a0_0 = (vload4(0, o0) + a0_0);
            a0_1 = (o0[4] + a0_1);
          }
          vstore4(a0_0, 0, o0);
          o0[4] = a0_1;
        }
      }
    }
  }
}
