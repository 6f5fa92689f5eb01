// out_view(y: float32[3, 37] (i, j) -> (i, j))
// md_hom[i:3, j:37](f, (cc, cc))
// inp_view(x: float32[4, 38] (i, j) -> (i, j), (i, j+1), (i+1, j))
// cpu: parts i:1 j:1; threads i:1 j:1
// tiles i:0 j:0; registers i:1 j:16; lanes j x8
// order i j | i j | -
// staged nothing
// tail split; streaming True; inline False; peel; ahead 2
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
  const long lo_i = 0;
  const long hi_i = 3;
  const long lo_j = 0;
  const long hi_j = 37;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i < e_i; r_i++) {
    long r_j = t_j;
    const long head_j = (-(size_t)(O0 + r_j + 37*r_i) & 31) / 4;
    const long whole_j = (t_j + head_j < e_j ? t_j + head_j : e_j);
    if (r_j + 4 <= whole_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float4 x0 = vload4(0, b0);
      const float4 x1 = vload4(0, b0 + 1);
      const float4 x2 = vload4(0, b0 + 38);
      float4 a0_0 = ((x0 + (x1 * (float4)(2.0f))) + x2);
      vstore4(a0_0, 0, o0);
      r_j += 4;
    }
    if (r_j + 2 <= whole_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float2 x0 = vload2(0, b0);
      const float2 x1 = vload2(0, b0 + 1);
      const float2 x2 = vload2(0, b0 + 38);
      float2 a0_0 = ((x0 + (x1 * (float2)(2.0f))) + x2);
      vstore2(a0_0, 0, o0);
      r_j += 2;
    }
    if (r_j + 1 <= whole_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float x0 = b0[0];
      const float x1 = b0[1];
      const float x2 = b0[38];
      float a0_0 = ((x0 + (x1 * 2.0f)) + x2);
      o0[0] = a0_0;
      r_j += 1;
    }
    #pragma clang loop vectorize(disable)
    for (; r_j + 16 <= e_j; r_j += 16) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      __builtin_prefetch((const void*)(size_t)(b0 + 78));
      __builtin_prefetch((const void*)(size_t)(b0 + 41));
      const float8 x0 = vload8(0, b0);
      const float8 x1 = vload8(0, b0 + 1);
      const float8 x2 = vload8(0, b0 + 38);
      float8 a0_0 = ((x0 + (x1 * (float8)(2.0f))) + x2);
      const float8 x3 = vload8(0, b0 + 8);
      const float8 x4 = vload8(0, b0 + 9);
      const float8 x5 = vload8(0, b0 + 46);
      float8 a0_1 = ((x3 + (x4 * (float8)(2.0f))) + x5);
      __builtin_nontemporal_store(a0_0, (__global float8*)(o0));
      __builtin_nontemporal_store(a0_1, (__global float8*)(o0 + 8));
    }
    #pragma clang loop vectorize(disable)
    for (; r_j + 8 <= e_j; r_j += 8) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      __builtin_prefetch((const void*)(size_t)(b0 + 70));
      __builtin_prefetch((const void*)(size_t)(b0 + 33));
      const float8 x0 = vload8(0, b0);
      const float8 x1 = vload8(0, b0 + 1);
      const float8 x2 = vload8(0, b0 + 38);
      float8 a0_0 = ((x0 + (x1 * (float8)(2.0f))) + x2);
      __builtin_nontemporal_store(a0_0, (__global float8*)(o0));
    }
    if (r_j + 4 <= e_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float4 x0 = vload4(0, b0);
      const float4 x1 = vload4(0, b0 + 1);
      const float4 x2 = vload4(0, b0 + 38);
      float4 a0_0 = ((x0 + (x1 * (float4)(2.0f))) + x2);
      vstore4(a0_0, 0, o0);
      r_j += 4;
    }
    if (r_j + 2 <= e_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float2 x0 = vload2(0, b0);
      const float2 x1 = vload2(0, b0 + 1);
      const float2 x2 = vload2(0, b0 + 38);
      float2 a0_0 = ((x0 + (x1 * (float2)(2.0f))) + x2);
      vstore2(a0_0, 0, o0);
      r_j += 2;
    }
    if (r_j + 1 <= e_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float x0 = b0[0];
      const float x1 = b0[1];
      const float x2 = b0[38];
      float a0_0 = ((x0 + (x1 * 2.0f)) + x2);
      o0[0] = a0_0;
      r_j += 1;
    }
  }
}
