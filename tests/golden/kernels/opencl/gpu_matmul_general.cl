// out_view(out: float32[5, 21] (i, j, k) -> (i, k))
// md_hom[i:5, j:9, k:21](mul, (cc, pw(add), cc))
// inp_view(A: float32[5, 9] (i, j, k) -> (i, j); B: float32[9, 21] (i, j, k) -> (j, k))
// gpu: parts d0:0 d1:1 d2:0; threads d0:4 d1:1 d2:4
// tiles d0:4 d1:4 d2:8; registers d0:1 d1:1 d2:2; lanes none
// order d0 d1 d2 | d0 d2 | d1
// staged 0:local
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch, BUFFER(__global const long) at_sizes)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  __global const long* sizes = (__global const long*)at_sizes;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  const long N0 = sizes[0];
  const long N1 = sizes[1];
  const long N2 = sizes[2];
  const long stride0_0 = sizes[3];
  const long stride1_1 = sizes[4];
  const long step0_0 = sizes[5];
  const long B_d0 = sizes[6];
  const long B_d1 = sizes[7];
  const long B_d2 = sizes[8];
  const long P_d0 = sizes[9];
  const long P_d1 = sizes[10];
  const long P_d2 = sizes[11];
  const long z_d2 = (group) % (P_d2);
  const long g_d2 = (group) / (P_d2);
  const long lo_d2 = 8*z_d2*B_d2;
  const long hi_d2 = (lo_d2 + 8*B_d2 < N2 ? lo_d2 + 8*B_d2 : N2);
  const long z_d0 = g_d2;
  const long lo_d0 = 4*z_d0*B_d0;
  const long hi_d0 = (lo_d0 + 4*B_d0 < N0 ? lo_d0 + 4*B_d0 : N0);
  const long lo_d1 = 0;
  const long hi_d1 = N1;
  const long x_d2 = (item) % (4);
  const long y_d2 = (item) / (4);
  const long x_d0 = (y_d2) % (4);
  const long y_d0 = (y_d2) / (4);
  __local float S0[80];
  #pragma clang loop vectorize(disable)
  for (long t_d0 = lo_d0; t_d0 + 4 <= hi_d0 + 3; t_d0 += 4) {
    const long e_d0 = (t_d0 + 4 < hi_d0 ? t_d0 + 4 : hi_d0);
    #pragma clang loop vectorize(disable)
    for (long t_d1 = lo_d1; t_d1 + 4 <= hi_d1 + 3; t_d1 += 4) {
      const long e_d1 = (t_d1 + 4 < hi_d1 ? t_d1 + 4 : hi_d1);
      barrier(CLK_LOCAL_MEM_FENCE);
      #pragma clang loop vectorize(disable)
      for (long c = item; c + 16 <= 31; c += 16) {
        const long c_d0_outer = (c) / (16);
        const long m_d0_outer = (c) % (16);
        const long c_d1_full = (m_d0_outer) / (4);
        const long m_d1_full = (m_d0_outer) % (4);
        const long c_d0_inner = (m_d1_full) / (1);
        const long m_d0_inner = (m_d1_full) % (1);
        if (c_d1_full < -t_d1 + e_d1) {
          if (4*c_d0_outer + c_d0_inner < -t_d0 + e_d0) {
            S0[c] = I0[t_d1 + t_d0*stride0_0 + c_d1_full + 4*stride0_0*c_d0_outer + stride0_0*c_d0_inner];
          }
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      #pragma clang loop vectorize(disable)
      for (long t_d2 = lo_d2; t_d2 + 8 <= hi_d2 + 7; t_d2 += 8) {
        const long e_d2 = (t_d2 + 8 < hi_d2 ? t_d2 + 8 : hi_d2);
        long r_d0 = x_d0 + t_d0;
        #pragma clang loop vectorize(disable)
        for (; r_d0 + 4 <= e_d0 + 3; r_d0 += 4) {
          long r_d2 = 2*x_d2 + t_d2;
          #pragma clang loop vectorize(disable)
          for (; r_d2 + 8 <= e_d2 + 6; r_d2 += 8) {
            __global float* o0 = O0 + r_d2 + step0_0*r_d0;
            const long k_d0 = (-t_d0 + r_d0) / (4);
            const long m_d0 = (-t_d0 + r_d0) % (4);
            __local const float* b0 = S0 + m_d0 + 16*k_d0;
            __global const float* b1 = I1 + r_d2;
            float a0_0 = 0.0f;
            float a1_0 = 0.0f;
            long r_d1 = t_d1;
            #pragma clang loop vectorize(disable)
            for (; r_d1 < e_d1; r_d1++) {
              __local const float* p0 = b0 + -4*t_d1 + 4*r_d1;
              __global const float* p1 = b1 + stride1_1*r_d1;
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
          #pragma clang loop vectorize(disable)
          for (; r_d2 < e_d2; r_d2++) {
            __global float* o0 = O0 + r_d2 + step0_0*r_d0;
            const long k_d0 = (-t_d0 + r_d0) / (4);
            const long m_d0 = (-t_d0 + r_d0) % (4);
            __local const float* b0 = S0 + m_d0 + 16*k_d0;
            __global const float* b1 = I1 + r_d2;
            float a0_0 = 0.0f;
            long r_d1 = t_d1;
            #pragma clang loop vectorize(disable)
            for (; r_d1 < e_d1; r_d1++) {
              __local const float* p0 = b0 + -4*t_d1 + 4*r_d1;
              __global const float* p1 = b1 + stride1_1*r_d1;
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
