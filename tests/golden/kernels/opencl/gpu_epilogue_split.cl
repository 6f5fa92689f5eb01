// out_view(y: float32[5, 6] (i, k, j) -> (i, j))
// epilogue(f)(A: float32[5, 9] (i, k, j) -> ; B: float32[9, 6] (i, k, j) -> ; C: float32[5, 6] (i, k, j) -> (i, j); b: float32[6] (i, k, j) -> (j))
// md_hom[i:5, k:9, j:6](f, (cc, pw(add), cc), epilogue f)
// inp_view(A: float32[5, 9] (i, k, j) -> (i, k); B: float32[9, 6] (i, k, j) -> (k, j); C: float32[5, 6] (i, k, j) -> ; b: float32[6] (i, k, j) -> )
// gpu: parts i:1 k:2 j:1; threads i:4 k:1 j:4
// tiles i:0 k:0 j:0; registers i:1 k:1 j:2; lanes none
// order i k j | i j | k
// staged nothing
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
  const long z_k = group;
  const long lo_k = 5*z_k;
  const long hi_k = (lo_k + 5 < 9 ? lo_k + 5 : 9);
  const long lo_i = 0;
  const long hi_i = 5;
  const long lo_j = 0;
  const long hi_j = 6;
  const long x_j = (item) % (4);
  const long y_j = (item) / (4);
  const long x_i = (y_j) % (4);
  const long y_i = (y_j) / (4);
  __global float* R0 = (__global float*)(scratch);
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_k = lo_k;
  const long e_k = hi_k;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = x_i + t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 4 <= e_i + 3; r_i += 4) {
    long r_j = 2*x_j + t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 8 <= e_j + 6; r_j += 8) {
      __global float* o0 = R0 + 30*z_k + r_j + 6*r_i;
      __global const float* b0 = I0 + 9*r_i;
      __global const float* b1 = I1 + r_j;
      __global const float* b2 = I2 + r_j + 6*r_i;
      __global const float* b3 = I3 + r_j;
      float a0_0 = 0.0f;
      float a1_0 = 0.0f;
      long r_k = t_k;
      #pragma clang loop vectorize(disable)
      for (; r_k < e_k; r_k++) {
        __global const float* p0 = b0 + r_k;
        __global const float* p1 = b1 + 6*r_k;
        __global const float* p2 = b2;
        __global const float* p3 = b3;
        const float x0 = p0[0];
        const float x1 = p1[0];
        a0_0 = (a0_0 + (x0 * x1));
        const float x2 = p1[1];
        a1_0 = (a1_0 + (x0 * x2));
      }
      o0[0] = a0_0;
      o0[1] = a1_0;
    }
  }
}

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void kernel_1(BUFFER(__global const float) at_given_I0, BUFFER(__global const float) at_given_I1, BUFFER(__global const float) at_given_I2, BUFFER(__global const float) at_given_I3, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* given_I0 = (__global const float*)at_given_I0;
  __global const float* given_I1 = (__global const float*)at_given_I1;
  __global const float* given_I2 = (__global const float*)at_given_I2;
  __global const float* given_I3 = (__global const float*)at_given_I3;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  __global const float* I0 = (__global const float*)(scratch);
  __global const float* I1 = given_I0;
  __global const float* I2 = given_I1;
  __global const float* I3 = given_I2;
  __global const float* I4 = given_I3;
  const long z_i = group;
  const long lo_i = 4*z_i;
  const long hi_i = (lo_i + 4 < 5 ? lo_i + 4 : 5);
  const long lo_groups = 0;
  const long hi_groups = 2;
  const long lo_j = 0;
  const long hi_j = 6;
  const long x_j = (item) % (8);
  const long x_j_rest = (item) / (8);
  const long x_i = x_j_rest;
  const long t_groups = lo_groups;
  const long e_groups = hi_groups;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  const long r_i = x_i + t_i;
  const long r_j = x_j + t_j;
  const long q_i_0 = (r_i < 4 ? r_i : 4);
  const long q_j_0 = (r_j < 5 ? r_j : 5);
  __global const float* b0 = I0;
  __global const float* b1 = I3;
  __global const float* b2 = I4;
  float a0_0 = 0.0f;
  long r_groups = t_groups;
  #pragma clang loop vectorize(disable)
  for (; r_groups + 2 <= e_groups; r_groups += 2) {
    __global const float* p0 = b0 + 30*r_groups;
    __global const float* p1 = b1;
    __global const float* p2 = b2;
    const float x0 = p0[q_j_0 + 6*q_i_0];
    a0_0 = (a0_0 + x0);
    const float x1 = p0[q_j_0 + 6*q_i_0 + 30];
    a0_0 = (a0_0 + x1);
  }
  __global float* o0 = O0 + r_j + 6*r_i;
  const long room0 = -t_i + e_i - 4;
  const long room1 = (-t_j + e_j - 8) | (room0);
  if (0 <= room1) {
    const float xe0_0 = b1[q_j_0 + 6*q_i_0];
    const float xe0_1 = b2[q_j_0];
    const float c0 = (((a0_0 * 2.0f) + (xe0_0 * 3.0f)) + xe0_1);
    const float f0_0 = ((0.0f > c0) ? 0.0f : c0);
    o0[0] = f0_0;
  } else {
    if (r_i < e_i) {
      if (r_j < e_j) {
        const float xe0_0 = b1[q_j_0 + 6*q_i_0];
        const float xe0_1 = b2[q_j_0];
        const float c1 = (((a0_0 * 2.0f) + (xe0_0 * 3.0f)) + xe0_1);
        const float f0_0 = ((0.0f > c1) ? 0.0f : c1);
        o0[0] = f0_0;
      }
    }
  }
}
