// out_view(y: float32[5, 6] (i, k, j) -> (i, j))
// epilogue(f)(A: float32[5, 9] (i, k, j) -> ; B: float32[9, 6] (i, k, j) -> ; C: float32[5, 6] (i, k, j) -> (i, j); b: float32[6] (i, k, j) -> (j))
// md_hom[i:5, k:9, j:6](f, (cc, pw(add), cc), epilogue f)
// inp_view(A: float32[5, 9] (i, k, j) -> (i, k); B: float32[9, 6] (i, k, j) -> (k, j); C: float32[5, 6] (i, k, j) -> ; b: float32[6] (i, k, j) -> )
// gpu: parts i:1 k:1 j:1; threads i:4 k:1 j:4
// tiles i:4 k:4 j:8; registers i:1 k:1 j:2; lanes none
// order i k j | i j | k
// staged 0:local 1:local
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global const float) at_I2, BUFFER(__global const float) at_I3, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global const float* I2 = (__global const float*)at_I2;
  __global const float* I3 = (__global const float*)at_I3;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  const long lo_i = 0;
  const long hi_i = 5;
  const long lo_k = 0;
  const long hi_k = 9;
  const long lo_j = 0;
  const long hi_j = 6;
  const long x_j = (item) % (4);
  const long y_j = (item) / (4);
  const long x_i = (y_j) % (4);
  const long y_i = (y_j) / (4);
  __local float S0[80] __attribute__((aligned(16)));
  __local float S1[96] __attribute__((aligned(16)));
  const long t_j = lo_j;
  const long e_j = hi_j;
  #pragma clang loop vectorize(disable)
  for (long t_i = lo_i; t_i + 4 <= hi_i + 3; t_i += 4) {
    const long e_i = (t_i + 4 < hi_i ? t_i + 4 : hi_i);
    #pragma clang loop vectorize(disable)
    for (long t_k = lo_k; t_k + 4 <= hi_k + 3; t_k += 4) {
      const long e_k = (t_k + 4 < hi_k ? t_k + 4 : hi_k);
      barrier(CLK_LOCAL_MEM_FENCE);
      #pragma clang loop vectorize(disable)
      for (long c = item; c + 16 <= 31; c += 16) {
        const long c_i_outer = (c) / (16);
        const long m_i_outer = (c) % (16);
        const long c_k_full = (m_i_outer) / (4);
        const long m_k_full = (m_i_outer) % (4);
        const long c_i_inner = (m_k_full) / (1);
        const long m_i_inner = (m_k_full) % (1);
        if (c_k_full < -t_k + e_k) {
          if (4*c_i_outer + c_i_inner < -t_i + e_i) {
            S0[c] = I0[t_k + 9*t_i + c_k_full + 36*c_i_outer + 9*c_i_inner];
          }
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      barrier(CLK_LOCAL_MEM_FENCE);
      #pragma clang loop vectorize(disable)
      for (long c = item; c + 16 <= 47; c += 16) {
        const long c_j_outer = (c) / (32);
        const long m_j_outer = (c) % (32);
        const long c_k_full = (m_j_outer) / (8);
        const long m_k_full = (m_j_outer) % (8);
        const long c_j_inner = (m_k_full) / (1);
        const long m_j_inner = (m_k_full) % (1);
        if (c_k_full < -t_k + e_k) {
          if (8*c_j_outer + c_j_inner < -t_j + e_j) {
            S1[c] = I1[6*t_k + t_j + 6*c_k_full + 8*c_j_outer + c_j_inner];
          }
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      long r_i = x_i + t_i;
      #pragma clang loop vectorize(disable)
      for (; r_i + 4 <= e_i + 3; r_i += 4) {
        long r_j = 2*x_j + t_j;
        #pragma clang loop vectorize(disable)
        for (; r_j + 8 <= e_j + 6; r_j += 8) {
          __global float* o0 = O0 + r_j + 6*r_i;
          const long k_i = (-t_i + r_i) / (4);
          const long m_i = (-t_i + r_i) % (4);
          const long k_j = (-t_j + r_j) / (8);
          const long m_j = (-t_j + r_j) % (8);
          __local const float* b0 = S0 + m_i + 16*k_i;
          __local const float* b1 = S1 + m_j + 32*k_j;
          __global const float* b2 = I2 + r_j + 6*r_i;
          __global const float* b3 = I3 + r_j;
          float a0_0 = 0.0f;
          float a1_0 = 0.0f;
          long r_k = t_k;
          #pragma clang loop vectorize(disable)
          for (; r_k < e_k; r_k++) {
            __local const float* p0 = b0 + -4*t_k + 4*r_k;
            __local const float* p1 = b1 + -8*t_k + 8*r_k;
            __global const float* p2 = b2;
            __global const float* p3 = b3;
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
