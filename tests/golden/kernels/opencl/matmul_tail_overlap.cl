// out_view(out: float32[4, 15] (i, j, k) -> (i, k))
// md_hom[i:4, j:9, k:15](mul, (cc, pw(add), cc))
// inp_view(A: float32[4, 9] (i, j, k) -> (i, j); B: float32[9, 15] (i, j, k) -> (j, k))
// cpu: parts i:1 j:1 k:1; threads i:1 j:1 k:1
// tiles i:0 j:0 k:0; registers i:2 j:1 k:8; lanes k x4
// order i j k | i k | j
// staged nothing
// tail overlap; streaming False; inline False
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
  const long lo_i = 0;
  const long hi_i = 4;
  const long lo_j = 0;
  const long hi_j = 9;
  const long lo_k = 0;
  const long hi_k = 15;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  const long t_k = lo_k;
  const long e_k = hi_k;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 2 <= e_i; r_i += 2) {
    long r_k = t_k;
    #pragma clang loop vectorize(disable)
    for (; r_k + 8 <= e_k; r_k += 8) {
      __global float* o0 = O0 + r_k + 15*r_i;
      __global const float* b0 = I0 + 9*r_i;
      __global const float* b1 = I1 + r_k;
      float4 a0_0 = (float4)(0.0f);
      float4 a0_1 = (float4)(0.0f);
      float4 a1_0 = (float4)(0.0f);
      float4 a1_1 = (float4)(0.0f);
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const float* p0 = b0 + r_j;
        __global const float* p1 = b1 + 15*r_j;
        const float x0 = p0[0];
        const float4 x1 = vload4(0, p1);
        a0_0 = (a0_0 + ((float4)(x0) * x1));
        const float4 x2 = vload4(0, p1 + 4);
        a0_1 = (a0_1 + ((float4)(x0) * x2));
        const float x3 = p0[9];
        a1_0 = (a1_0 + ((float4)(x3) * x1));
        a1_1 = (a1_1 + ((float4)(x3) * x2));
      }
      vstore4(a0_0, 0, o0);
      vstore4(a0_1, 0, o0 + 4);
      vstore4(a1_0, 0, o0 + 15);
      vstore4(a1_1, 0, o0 + 19);
    }
    if (r_k + 7 <= e_k) {
      __global float* o0 = O0 + r_k + 15*r_i;
      __global const float* b0 = I0 + 9*r_i;
      __global const float* b1 = I1 + r_k;
      float4 a0_0 = (float4)(0.0f);
      float4 a0_1 = (float4)(0.0f);
      float4 a1_0 = (float4)(0.0f);
      float4 a1_1 = (float4)(0.0f);
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const float* p0 = b0 + r_j;
        __global const float* p1 = b1 + 15*r_j;
        const float x0 = p0[0];
        const float4 x1 = vload4(0, p1);
        a0_0 = (a0_0 + ((float4)(x0) * x1));
        const float4 x2 = vload4(0, p1 + 3);
        a0_1 = (a0_1 + ((float4)(x0) * x2));
        const float x3 = p0[9];
        a1_0 = (a1_0 + ((float4)(x3) * x1));
        a1_1 = (a1_1 + ((float4)(x3) * x2));
      }
      vstore4(a0_0, 0, o0);
      vstore4(a0_1, 0, o0 + 3);
      vstore4(a1_0, 0, o0 + 15);
      vstore4(a1_1, 0, o0 + 18);
    }
  }
}
