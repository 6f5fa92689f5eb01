// out_view(y: float32[5, 32] (i, j) -> (i, j))
// md_hom[i:5, j:32](f, (cc, cc))
// inp_view(x: float32[6, 33] (i, j) -> (i, j), (i, j+1), (i+1, j))
// cpu: parts i:2 j:1; threads i:1 j:1
// tiles i:0 j:0; registers i:2 j:4; lanes j x4
// order i j | i j | -
// staged nothing
// tail split; streaming False; inline False; peel
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long z_i = group;
  const long lo_i = 4*z_i;
  const long hi_i = (lo_i + 4 < 5 ? lo_i + 4 : 5);
  const long lo_j = 0;
  const long hi_j = 32;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 2 <= e_i; r_i += 2) {
    long r_j = t_j;
    const long head_j = (-(size_t)(O0 + r_j + 32*r_i) & 15) / 4;
    const long whole_j = (t_j + head_j < e_j ? t_j + head_j : e_j);
    if (r_j + 2 <= whole_j) {
      __global float* o0 = O0 + r_j + 32*r_i;
      __global const float* b0 = I0 + r_j + 33*r_i;
      const float2 x0 = vload2(0, b0);
      const float2 x1 = vload2(0, b0 + 1);
      const float2 x2 = vload2(0, b0 + 33);
      float2 a0_0 = ((x0 + (x1 * (float2)(2.0f))) + x2);
      const float2 x3 = vload2(0, b0 + 34);
      const float2 x4 = vload2(0, b0 + 66);
      float2 a1_0 = ((x2 + (x3 * (float2)(2.0f))) + x4);
      vstore2(a0_0, 0, o0);
      vstore2(a1_0, 0, o0 + 32);
      r_j += 2;
    }
    if (r_j + 1 <= whole_j) {
      __global float* o0 = O0 + r_j + 32*r_i;
      __global const float* b0 = I0 + r_j + 33*r_i;
      const float x0 = b0[0];
      const float x1 = b0[1];
      const float x2 = b0[33];
      float a0_0 = ((x0 + (x1 * 2.0f)) + x2);
      const float x3 = b0[34];
      const float x4 = b0[66];
      float a1_0 = ((x2 + (x3 * 2.0f)) + x4);
      o0[0] = a0_0;
      o0[32] = a1_0;
      r_j += 1;
    }
    #pragma clang loop vectorize(disable)
    for (; r_j + 4 <= e_j; r_j += 4) {
      __global float* o0 = O0 + r_j + 32*r_i;
      __global const float* b0 = I0 + r_j + 33*r_i;
      const float4 x0 = vload4(0, b0);
      const float4 x1 = vload4(0, b0 + 1);
      const float4 x2 = vload4(0, b0 + 33);
      float4 a0_0 = ((x0 + (x1 * (float4)(2.0f))) + x2);
      const float4 x3 = vload4(0, b0 + 34);
      const float4 x4 = vload4(0, b0 + 66);
      float4 a1_0 = ((x2 + (x3 * (float4)(2.0f))) + x4);
      vstore4(a0_0, 0, o0);
      vstore4(a1_0, 0, o0 + 32);
    }
    if (r_j + 2 <= e_j) {
      __global float* o0 = O0 + r_j + 32*r_i;
      __global const float* b0 = I0 + r_j + 33*r_i;
      const float2 x0 = vload2(0, b0);
      const float2 x1 = vload2(0, b0 + 1);
      const float2 x2 = vload2(0, b0 + 33);
      float2 a0_0 = ((x0 + (x1 * (float2)(2.0f))) + x2);
      const float2 x3 = vload2(0, b0 + 34);
      const float2 x4 = vload2(0, b0 + 66);
      float2 a1_0 = ((x2 + (x3 * (float2)(2.0f))) + x4);
      vstore2(a0_0, 0, o0);
      vstore2(a1_0, 0, o0 + 32);
      r_j += 2;
    }
    if (r_j + 1 <= e_j) {
      __global float* o0 = O0 + r_j + 32*r_i;
      __global const float* b0 = I0 + r_j + 33*r_i;
      const float x0 = b0[0];
      const float x1 = b0[1];
      const float x2 = b0[33];
      float a0_0 = ((x0 + (x1 * 2.0f)) + x2);
      const float x3 = b0[34];
      const float x4 = b0[66];
      float a1_0 = ((x2 + (x3 * 2.0f)) + x4);
      o0[0] = a0_0;
      o0[32] = a1_0;
      r_j += 1;
    }
  }
  if (r_i + 1 <= e_i) {
    long r_j = t_j;
    const long head_j = (-(size_t)(O0 + r_j + 32*r_i) & 15) / 4;
    const long whole_j = (t_j + head_j < e_j ? t_j + head_j : e_j);
    if (r_j + 2 <= whole_j) {
      __global float* o0 = O0 + r_j + 32*r_i;
      __global const float* b0 = I0 + r_j + 33*r_i;
      const float2 x0 = vload2(0, b0);
      const float2 x1 = vload2(0, b0 + 1);
      const float2 x2 = vload2(0, b0 + 33);
      float2 a0_0 = ((x0 + (x1 * (float2)(2.0f))) + x2);
      vstore2(a0_0, 0, o0);
      r_j += 2;
    }
    if (r_j + 1 <= whole_j) {
      __global float* o0 = O0 + r_j + 32*r_i;
      __global const float* b0 = I0 + r_j + 33*r_i;
      const float x0 = b0[0];
      const float x1 = b0[1];
      const float x2 = b0[33];
      float a0_0 = ((x0 + (x1 * 2.0f)) + x2);
      o0[0] = a0_0;
      r_j += 1;
    }
    #pragma clang loop vectorize(disable)
    for (; r_j + 4 <= e_j; r_j += 4) {
      __global float* o0 = O0 + r_j + 32*r_i;
      __global const float* b0 = I0 + r_j + 33*r_i;
      const float4 x0 = vload4(0, b0);
      const float4 x1 = vload4(0, b0 + 1);
      const float4 x2 = vload4(0, b0 + 33);
      float4 a0_0 = ((x0 + (x1 * (float4)(2.0f))) + x2);
      vstore4(a0_0, 0, o0);
    }
    if (r_j + 2 <= e_j) {
      __global float* o0 = O0 + r_j + 32*r_i;
      __global const float* b0 = I0 + r_j + 33*r_i;
      const float2 x0 = vload2(0, b0);
      const float2 x1 = vload2(0, b0 + 1);
      const float2 x2 = vload2(0, b0 + 33);
      float2 a0_0 = ((x0 + (x1 * (float2)(2.0f))) + x2);
      vstore2(a0_0, 0, o0);
      r_j += 2;
    }
    if (r_j + 1 <= e_j) {
      __global float* o0 = O0 + r_j + 32*r_i;
      __global const float* b0 = I0 + r_j + 33*r_i;
      const float x0 = b0[0];
      const float x1 = b0[1];
      const float x2 = b0[33];
      float a0_0 = ((x0 + (x1 * 2.0f)) + x2);
      o0[0] = a0_0;
      r_j += 1;
    }
  }
}
