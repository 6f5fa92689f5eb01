// out_view(y: float32[3, 37] (i, j) -> (i, j))
// md_hom[i:3, j:37](f, (cc, cc))
// inp_view(x: float32[4, 38] (i, j) -> (i, j), (i, j+1), (i+1, j))
// cpu: parts d0:0 d1:1; threads d0:1 d1:1
// tiles d0:0 d1:0; registers d0:1 d1:8; lanes d1 x8
// order d0 d1 | d0 d1 | -
// staged nothing
// tail split; streaming True; inline False; peel; ahead 1
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch, BUFFER(__global const long) at_sizes)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  __global const long* sizes = (__global const long*)at_sizes;
  const long group = get_group_id(0);
  const long N0 = sizes[0];
  const long N1 = sizes[1];
  const long stride0_0 = sizes[2];
  const long step0_0 = sizes[3];
  const long B_d0 = sizes[4];
  const long B_d1 = sizes[5];
  const long P_d0 = sizes[6];
  const long P_d1 = sizes[7];
  const long z_d0 = group;
  const long lo_d0 = z_d0*B_d0;
  const long hi_d0 = (lo_d0 + B_d0 < N0 ? lo_d0 + B_d0 : N0);
  const long lo_d1 = 0;
  const long hi_d1 = N1;
  const long t_d0 = lo_d0;
  const long e_d0 = hi_d0;
  const long t_d1 = lo_d1;
  const long e_d1 = hi_d1;
  long r_d0 = t_d0;
  #pragma clang loop vectorize(disable)
  for (; r_d0 < e_d0; r_d0++) {
    long r_d1 = t_d1;
    const long head_d1 = (-(size_t)(O0 + r_d1 + step0_0*r_d0) & 31) / 4;
    const long whole_d1 = (t_d1 + head_d1 < e_d1 ? t_d1 + head_d1 : e_d1);
    if (r_d1 + 4 <= whole_d1) {
      __global float* o0 = O0 + r_d1 + step0_0*r_d0;
      __global const float* b0 = I0 + r_d1 + stride0_0*r_d0;
      const float4 x0 = vload4(0, b0);
      const float4 x1 = vload4(0, b0 + 1);
      const float4 x2 = vload4(0, b0 + stride0_0);
      float4 a0_0 = ((x0 + (x1 * (float4)(2.0f))) + x2);
      vstore4(a0_0, 0, o0);
      r_d1 += 4;
    }
    if (r_d1 + 2 <= whole_d1) {
      __global float* o0 = O0 + r_d1 + step0_0*r_d0;
      __global const float* b0 = I0 + r_d1 + stride0_0*r_d0;
      const float2 x0 = vload2(0, b0);
      const float2 x1 = vload2(0, b0 + 1);
      const float2 x2 = vload2(0, b0 + stride0_0);
      float2 a0_0 = ((x0 + (x1 * (float2)(2.0f))) + x2);
      vstore2(a0_0, 0, o0);
      r_d1 += 2;
    }
    if (r_d1 + 1 <= whole_d1) {
      __global float* o0 = O0 + r_d1 + step0_0*r_d0;
      __global const float* b0 = I0 + r_d1 + stride0_0*r_d0;
      const float x0 = b0[0];
      const float x1 = b0[1];
      const float x2 = b0[stride0_0];
      float a0_0 = ((x0 + (x1 * 2.0f)) + x2);
      o0[0] = a0_0;
      r_d1 += 1;
    }
    #pragma clang loop vectorize(disable)
    for (; r_d1 + 8 <= e_d1; r_d1 += 8) {
      __global float* o0 = O0 + r_d1 + step0_0*r_d0;
      __global const float* b0 = I0 + r_d1 + stride0_0*r_d0;
      __builtin_prefetch((const void*)(size_t)(b0 + 9));
      __builtin_prefetch((const void*)(size_t)(b0 + stride0_0 + 8));
      const float8 x0 = vload8(0, b0);
      const float8 x1 = vload8(0, b0 + 1);
      const float8 x2 = vload8(0, b0 + stride0_0);
      float8 a0_0 = ((x0 + (x1 * (float8)(2.0f))) + x2);
      __builtin_nontemporal_store(a0_0, (__global float8*)(o0));
    }
    if (r_d1 + 4 <= e_d1) {
      __global float* o0 = O0 + r_d1 + step0_0*r_d0;
      __global const float* b0 = I0 + r_d1 + stride0_0*r_d0;
      const float4 x0 = vload4(0, b0);
      const float4 x1 = vload4(0, b0 + 1);
      const float4 x2 = vload4(0, b0 + stride0_0);
      float4 a0_0 = ((x0 + (x1 * (float4)(2.0f))) + x2);
      vstore4(a0_0, 0, o0);
      r_d1 += 4;
    }
    if (r_d1 + 2 <= e_d1) {
      __global float* o0 = O0 + r_d1 + step0_0*r_d0;
      __global const float* b0 = I0 + r_d1 + stride0_0*r_d0;
      const float2 x0 = vload2(0, b0);
      const float2 x1 = vload2(0, b0 + 1);
      const float2 x2 = vload2(0, b0 + stride0_0);
      float2 a0_0 = ((x0 + (x1 * (float2)(2.0f))) + x2);
      vstore2(a0_0, 0, o0);
      r_d1 += 2;
    }
    if (r_d1 + 1 <= e_d1) {
      __global float* o0 = O0 + r_d1 + step0_0*r_d0;
      __global const float* b0 = I0 + r_d1 + stride0_0*r_d0;
      const float x0 = b0[0];
      const float x1 = b0[1];
      const float x2 = b0[stride0_0];
      float a0_0 = ((x0 + (x1 * 2.0f)) + x2);
      o0[0] = a0_0;
      r_d1 += 1;
    }
  }
}
