// out_view(out: float32[13, 7] (i, j, k) -> (k, i))
// md_hom[i:7, j:9, k:13](mul, (cc, pw(add), cc))
// inp_view(A: float32[7, 9] (i, j, k) -> (i, j); B: float32[9, 13] (i, j, k) -> (j, k))
// cpu: parts i:1 j:1 k:1; threads i:1 j:1 k:1
// tiles i:0 j:0 k:0; registers i:4 j:1 k:8; lanes k x4
// order i j k | k i | j
// staged nothing
// tail split; streaming False; inline False; transposed
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
  const long hi_i = 7;
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
    for (; r_i + 4 <= e_i; r_i += 4) {
      __global float* o0 = O0 + 7*r_k + r_i;
      __global const float* b0 = I0 + 9*r_i;
      __global const float* b1 = I1 + r_k;
      float4 a0_0 = (float4)(0.0f);
      float4 a0_1 = (float4)(0.0f);
      float4 a1_0 = (float4)(0.0f);
      float4 a1_1 = (float4)(0.0f);
      float4 a2_0 = (float4)(0.0f);
      float4 a2_1 = (float4)(0.0f);
      float4 a3_0 = (float4)(0.0f);
      float4 a3_1 = (float4)(0.0f);
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
        const float x4 = p0[18];
        a2_0 = (a2_0 + ((float4)(x4) * x1));
        a2_1 = (a2_1 + ((float4)(x4) * x2));
        const float x5 = p0[27];
        a3_0 = (a3_0 + ((float4)(x5) * x1));
        a3_1 = (a3_1 + ((float4)(x5) * x2));
      }
      const float4 z0 = __builtin_shufflevector(a0_0, a1_0, 0, 4, 1, 5);
      const float4 z1 = __builtin_shufflevector(a0_0, a1_0, 2, 6, 3, 7);
      const float4 z2 = __builtin_shufflevector(a2_0, a3_0, 0, 4, 1, 5);
      const float4 z3 = __builtin_shufflevector(a2_0, a3_0, 2, 6, 3, 7);
      const float4 z4 = __builtin_shufflevector(z0, z2, 0, 1, 4, 5);
      const float4 z5 = __builtin_shufflevector(z0, z2, 2, 3, 6, 7);
      const float4 z6 = __builtin_shufflevector(z1, z3, 0, 1, 4, 5);
      const float4 z7 = __builtin_shufflevector(z1, z3, 2, 3, 6, 7);
      vstore4(z4, 0, o0);
      vstore4(z6, 0, o0 + 14);
      vstore4(z5, 0, o0 + 7);
      vstore4(z7, 0, o0 + 21);
      const float4 z8 = __builtin_shufflevector(a0_1, a1_1, 0, 4, 1, 5);
      const float4 z9 = __builtin_shufflevector(a0_1, a1_1, 2, 6, 3, 7);
      const float4 z10 = __builtin_shufflevector(a2_1, a3_1, 0, 4, 1, 5);
      const float4 z11 = __builtin_shufflevector(a2_1, a3_1, 2, 6, 3, 7);
      const float4 z12 = __builtin_shufflevector(z8, z10, 0, 1, 4, 5);
      const float4 z13 = __builtin_shufflevector(z8, z10, 2, 3, 6, 7);
      const float4 z14 = __builtin_shufflevector(z9, z11, 0, 1, 4, 5);
      const float4 z15 = __builtin_shufflevector(z9, z11, 2, 3, 6, 7);
      vstore4(z12, 0, o0 + 28);
      vstore4(z14, 0, o0 + 42);
      vstore4(z13, 0, o0 + 35);
      vstore4(z15, 0, o0 + 49);
    }
    if (r_i + 3 <= e_i) {
      __global float* o0 = O0 + 7*r_k + r_i;
      __global const float* b0 = I0 + 9*r_i;
      __global const float* b1 = I1 + r_k;
      float4 a0_0 = (float4)(0.0f);
      float4 a0_1 = (float4)(0.0f);
      float4 a1_0 = (float4)(0.0f);
      float4 a1_1 = (float4)(0.0f);
      float4 a2_0 = (float4)(0.0f);
      float4 a2_1 = (float4)(0.0f);
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
        const float x4 = p0[18];
        a2_0 = (a2_0 + ((float4)(x4) * x1));
        a2_1 = (a2_1 + ((float4)(x4) * x2));
      }
      const float4 z0 = __builtin_shufflevector(a0_0, a1_0, 0, 4, 1, 5);
      const float4 z1 = __builtin_shufflevector(a0_0, a1_0, 2, 6, 3, 7);
      vstore2(z0.lo, 0, o0);
      vstore2(z0.hi, 0, o0 + 7);
      vstore2(z1.lo, 0, o0 + 14);
      vstore2(z1.hi, 0, o0 + 21);
      const float4 z2 = __builtin_shufflevector(a0_1, a1_1, 0, 4, 1, 5);
      const float4 z3 = __builtin_shufflevector(a0_1, a1_1, 2, 6, 3, 7);
      vstore2(z2.lo, 0, o0 + 28);
      vstore2(z2.hi, 0, o0 + 35);
      vstore2(z3.lo, 0, o0 + 42);
      vstore2(z3.hi, 0, o0 + 49);
      o0[2] = a2_0.s0;
      o0[9] = a2_0.s1;
      o0[16] = a2_0.s2;
      o0[23] = a2_0.s3;
      o0[30] = a2_1.s0;
      o0[37] = a2_1.s1;
      o0[44] = a2_1.s2;
      o0[51] = a2_1.s3;
    }
  }
  if (r_k + 5 <= e_k) {
    long r_i = t_i;
    #pragma clang loop vectorize(disable)
    for (; r_i + 4 <= e_i; r_i += 4) {
      __global float* o0 = O0 + 7*r_k + r_i;
      __global const float* b0 = I0 + 9*r_i;
      __global const float* b1 = I1 + r_k;
      float4 a0_0 = (float4)(0.0f);
      float a0_1 = 0.0f;
      float4 a1_0 = (float4)(0.0f);
      float a1_1 = 0.0f;
      float4 a2_0 = (float4)(0.0f);
      float a2_1 = 0.0f;
      float4 a3_0 = (float4)(0.0f);
      float a3_1 = 0.0f;
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
        const float x4 = p0[18];
        a2_0 = (a2_0 + ((float4)(x4) * x1));
        a2_1 = (a2_1 + (x4 * x2));
        const float x5 = p0[27];
        a3_0 = (a3_0 + ((float4)(x5) * x1));
        a3_1 = (a3_1 + (x5 * x2));
      }
      o0[28] = a0_1;
      o0[29] = a1_1;
      o0[30] = a2_1;
      const float4 z0 = __builtin_shufflevector(a0_0, a1_0, 0, 4, 1, 5);
      const float4 z1 = __builtin_shufflevector(a0_0, a1_0, 2, 6, 3, 7);
      const float4 z2 = __builtin_shufflevector(a2_0, a3_0, 0, 4, 1, 5);
      const float4 z3 = __builtin_shufflevector(a2_0, a3_0, 2, 6, 3, 7);
      const float4 z4 = __builtin_shufflevector(z0, z2, 0, 1, 4, 5);
      const float4 z5 = __builtin_shufflevector(z0, z2, 2, 3, 6, 7);
      const float4 z6 = __builtin_shufflevector(z1, z3, 0, 1, 4, 5);
      const float4 z7 = __builtin_shufflevector(z1, z3, 2, 3, 6, 7);
      vstore4(z4, 0, o0);
      vstore4(z6, 0, o0 + 14);
      vstore4(z5, 0, o0 + 7);
      vstore4(z7, 0, o0 + 21);
      o0[31] = a3_1;
    }
    if (r_i + 3 <= e_i) {
      __global float* o0 = O0 + 7*r_k + r_i;
      __global const float* b0 = I0 + 9*r_i;
      __global const float* b1 = I1 + r_k;
      float4 a0_0 = (float4)(0.0f);
      float a0_1 = 0.0f;
      float4 a1_0 = (float4)(0.0f);
      float a1_1 = 0.0f;
      float4 a2_0 = (float4)(0.0f);
      float a2_1 = 0.0f;
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
        const float x4 = p0[18];
        a2_0 = (a2_0 + ((float4)(x4) * x1));
        a2_1 = (a2_1 + (x4 * x2));
      }
      o0[28] = a0_1;
      const float4 z0 = __builtin_shufflevector(a0_0, a1_0, 0, 4, 1, 5);
      const float4 z1 = __builtin_shufflevector(a0_0, a1_0, 2, 6, 3, 7);
      vstore2(z0.lo, 0, o0);
      vstore2(z0.hi, 0, o0 + 7);
      vstore2(z1.lo, 0, o0 + 14);
      vstore2(z1.hi, 0, o0 + 21);
      o0[29] = a1_1;
      o0[2] = a2_0.s0;
      o0[9] = a2_0.s1;
      o0[16] = a2_0.s2;
      o0[23] = a2_0.s3;
      o0[30] = a2_1;
    }
  }
}
