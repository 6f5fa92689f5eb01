// out_view(y: float32[2, 11] (i, j) -> (i, j))
// md_hom[i:2, j:11](f, (cc, cc))
// inp_view(x: float32[2, 11] (i, j) -> (i, j), (i, max((j - 1), 0)))
// cpu: parts i:1 j:1; threads i:1 j:1
// tiles i:0 j:0; registers i:1 j:4; lanes j x4
// order i j | i j | -
// staged nothing
// tail split; streaming False; inline False
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
  const long hi_i = 2;
  const long lo_j = 0;
  const long hi_j = 11;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i < e_i; r_i++) {
    long r_j = t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 4 <= e_j; r_j += 4) {
      __global float* o0 = O0 + r_j + 11*r_i;
      __global const float* b0 = I0 + r_j + 11*r_i;
      __global const float* b1 = I0 + 11*r_i;
      const float4 x0 = vload4(0, b0);
      const long4 c0 = max(as_long4(as_ulong4(as_long4(as_ulong4((long4)((long)(r_j))) + as_ulong4((long4)(0, 1, 2, 3)))) - as_ulong4((long4)((long)(1L)))), (long4)((long)(0L)));
      const long4 g1 = as_long4(as_ulong4(max(min(select(c0, as_long4(as_ulong4(c0) + as_ulong4((long4)((long)(11)))), (c0 < (long4)((long)(0L)))), (long4)((long)(10))), (long4)((long)(0L)))) * as_ulong4((long4)((long)(1))));
      const float4 x2 = (float4)(b1[g1.s0], b1[g1.s1], b1[g1.s2], b1[g1.s3]);
      float4 a0_0 = (x0 + (x2 * (float4)(2.0f)));
      vstore4(a0_0, 0, o0);
    }
    if (r_j + 3 <= e_j) {
      __global float* o0 = O0 + r_j + 11*r_i;
      __global const float* b0 = I0 + r_j + 11*r_i;
      __global const float* b1 = I0 + 11*r_i;
      const float2 x0 = vload2(0, b0);
      const long2 c1 = max(as_long2(as_ulong2(as_long2(as_ulong2((long2)((long)(r_j))) + as_ulong2((long2)(0, 1)))) - as_ulong2((long2)((long)(1L)))), (long2)((long)(0L)));
      const long2 g1 = as_long2(as_ulong2(max(min(select(c1, as_long2(as_ulong2(c1) + as_ulong2((long2)((long)(11)))), (c1 < (long2)((long)(0L)))), (long2)((long)(10))), (long2)((long)(0L)))) * as_ulong2((long2)((long)(1))));
      const float2 x2 = (float2)(b1[g1.s0], b1[g1.s1]);
      float2 a0_0 = (x0 + (x2 * (float2)(2.0f)));
      const float x3 = b0[2];
      const long c2 = max((long)((ulong)((long)(r_j + 2)) - (ulong)((long)(1L))), (long)(0L));
      const long g4 = (long)((ulong)(max(min(((c2 < (long)(0L)) ? (long)((ulong)(c2) + (ulong)((long)(11))) : c2), (long)(10)), (long)(0L))) * (ulong)((long)(1)));
      const float x5 = b1[g4];
      float a0_1 = (x3 + (x5 * 2.0f));
      vstore2(a0_0, 0, o0);
      o0[2] = a0_1;
    }
  }
}
