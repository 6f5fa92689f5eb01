// out_view(out: float32[13, 5] (i, j, k) -> (k, i))
// md_hom[i:5, j:9, k:13](mul, (cc, pw(add), cc))
// inp_view(A: float32[5, 9] (i, j, k) -> (i, j); B: float32[9, 13] (i, j, k) -> (j, k))
// cpu: parts i:1 j:1 k:1; threads i:1 j:1 k:1
// tiles i:0 j:0 k:0; registers i:2 j:1 k:8; lanes k x4
// order i j k | k i | j
// staged nothing
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
  const long lo_i = 0;
  const long hi_i = 5;
  const long lo_j = 0;
  const long hi_j = 9;
  const long lo_k = 0;
  const long hi_k = 13;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  const long t_k = lo_k;
  const long e_k = hi_k;
  long r_k = t_k;
  #pragma clang loop vectorize(disable)
  for (; r_k + 8 <= e_k; r_k += 8) {
    long r_i = t_i;
    #pragma clang loop vectorize(disable)
    for (; r_i + 2 <= e_i; r_i += 2) {
      __global float* o0 = O0 + 5*r_k + r_i;
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
        __global const float* p1 = b1 + 13*r_j;
        const float x0 = p0[0];
        const float4 x1 = vload4(0, p1);
        a0_0 = (a0_0 + ((float4)(x0) * x1));
        const float4 x2 = vload4(0, p1 + 4);
        a0_1 = (a0_1 + ((float4)(x0) * x2));
        const float x3 = p0[9];
        a1_0 = (a1_0 + ((float4)(x3) * x1));
        a1_1 = (a1_1 + ((float4)(x3) * x2));
      }
      o0[0] = a0_0.s0;
      o0[5] = a0_0.s1;
      o0[10] = a0_0.s2;
      o0[15] = a0_0.s3;
      o0[20] = a0_1.s0;
      o0[25] = a0_1.s1;
      o0[30] = a0_1.s2;
      o0[35] = a0_1.s3;
      o0[1] = a1_0.s0;
      o0[6] = a1_0.s1;
      o0[11] = a1_0.s2;
      o0[16] = a1_0.s3;
      o0[21] = a1_1.s0;
      o0[26] = a1_1.s1;
      o0[31] = a1_1.s2;
      o0[36] = a1_1.s3;
    }
    if (r_i + 1 <= e_i) {
      __global float* o0 = O0 + 5*r_k + r_i;
      __global const float* b0 = I0 + 9*r_i;
      __global const float* b1 = I1 + r_k;
      float4 a0_0 = (float4)(0.0f);
      float4 a0_1 = (float4)(0.0f);
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const float* p0 = b0 + r_j;
        __global const float* p1 = b1 + 13*r_j;
        const float x0 = p0[0];
        const float4 x1 = vload4(0, p1);
        a0_0 = (a0_0 + ((float4)(x0) * x1));
        const float4 x2 = vload4(0, p1 + 4);
        a0_1 = (a0_1 + ((float4)(x0) * x2));
      }
      o0[0] = a0_0.s0;
      o0[5] = a0_0.s1;
      o0[10] = a0_0.s2;
      o0[15] = a0_0.s3;
      o0[20] = a0_1.s0;
      o0[25] = a0_1.s1;
      o0[30] = a0_1.s2;
      o0[35] = a0_1.s3;
    }
  }
  if (r_k + 5 <= e_k) {
    long r_i = t_i;
    #pragma clang loop vectorize(disable)
    for (; r_i + 2 <= e_i; r_i += 2) {
      __global float* o0 = O0 + 5*r_k + r_i;
      __global const float* b0 = I0 + 9*r_i;
      __global const float* b1 = I1 + r_k;
      float4 a0_0 = (float4)(0.0f);
      float a0_1 = 0.0f;
      float4 a1_0 = (float4)(0.0f);
      float a1_1 = 0.0f;
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const float* p0 = b0 + r_j;
        __global const float* p1 = b1 + 13*r_j;
        const float x0 = p0[0];
        const float4 x1 = vload4(0, p1);
        a0_0 = (a0_0 + ((float4)(x0) * x1));
        const float x2 = p1[4];
        a0_1 = (a0_1 + (x0 * x2));
        const float x3 = p0[9];
        a1_0 = (a1_0 + ((float4)(x3) * x1));
        a1_1 = (a1_1 + (x3 * x2));
      }
      o0[0] = a0_0.s0;
      o0[5] = a0_0.s1;
      o0[10] = a0_0.s2;
      o0[15] = a0_0.s3;
      o0[20] = a0_1;
      o0[1] = a1_0.s0;
      o0[6] = a1_0.s1;
      o0[11] = a1_0.s2;
      o0[16] = a1_0.s3;
      o0[21] = a1_1;
    }
    if (r_i + 1 <= e_i) {
      __global float* o0 = O0 + 5*r_k + r_i;
      __global const float* b0 = I0 + 9*r_i;
      __global const float* b1 = I1 + r_k;
      float4 a0_0 = (float4)(0.0f);
      float a0_1 = 0.0f;
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const float* p0 = b0 + r_j;
        __global const float* p1 = b1 + 13*r_j;
        const float x0 = p0[0];
        const float4 x1 = vload4(0, p1);
        a0_0 = (a0_0 + ((float4)(x0) * x1));
        const float x2 = p1[4];
        a0_1 = (a0_1 + (x0 * x2));
      }
      o0[0] = a0_0.s0;
      o0[5] = a0_0.s1;
      o0[10] = a0_0.s2;
      o0[15] = a0_0.s3;
      o0[20] = a0_1;
    }
  }
}
