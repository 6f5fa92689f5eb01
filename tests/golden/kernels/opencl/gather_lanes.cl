// out_view(y: float32[6, 7] (i, j) -> (i, j))
// md_hom[i:6, j:7](take, (cc, cc))
// inp_view(at: int32[6] (i, j) -> (i); x: float32[7, 7] (i, j) -> (int64(p0), j))
// cpu: parts i:1 j:1; threads i:1 j:1
// tiles i:0 j:0; registers i:4 j:1; lanes i x4
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
void kernel_0(BUFFER(__global const int) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const int* I0 = (__global const int*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long lo_i = 0;
  const long hi_i = 6;
  const long lo_j = 0;
  const long hi_j = 7;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 4 <= e_i; r_i += 4) {
    long r_j = t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j < e_j; r_j++) {
      __global float* o0 = O0 + r_j + 7*r_i;
      __global const int* b0 = I0 + r_i;
      __global const float* b1 = I1 + r_j;
      const int4 x0 = vload4(0, b0);
      const long4 c0 = convert_long4(x0);
      const long4 g1 = as_long4(as_ulong4(max(min(select(c0, as_long4(as_ulong4(c0) + as_ulong4((long4)((long)(7)))), (c0 < (long4)((long)(0L)))), (long4)((long)(6))), (long4)((long)(0L)))) * as_ulong4((long4)((long)(7))));
      const float4 x2 = (float4)(b1[g1.s0], b1[g1.s1], b1[g1.s2], b1[g1.s3]);
      float4 a0_0 = x2;
      o0[0] = a0_0.s0;
      o0[7] = a0_0.s1;
      o0[14] = a0_0.s2;
      o0[21] = a0_0.s3;
    }
  }
  if (r_i + 2 <= e_i) {
    long r_j = t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j < e_j; r_j++) {
      __global float* o0 = O0 + r_j + 7*r_i;
      __global const int* b0 = I0 + r_i;
      __global const float* b1 = I1 + r_j;
      const int2 x0 = vload2(0, b0);
      const long2 c1 = convert_long2(x0);
      const long2 g1 = as_long2(as_ulong2(max(min(select(c1, as_long2(as_ulong2(c1) + as_ulong2((long2)((long)(7)))), (c1 < (long2)((long)(0L)))), (long2)((long)(6))), (long2)((long)(0L)))) * as_ulong2((long2)((long)(7))));
      const float2 x2 = (float2)(b1[g1.s0], b1[g1.s1]);
      float2 a0_0 = x2;
      o0[0] = a0_0.s0;
      o0[7] = a0_0.s1;
    }
  }
}
