// out_view(y: float32[3] (i, j) -> (i); at: int64[3] (i, j) -> (i))
// md_hom[i:3, j:21](f, (cc, pw(argmax)))
// inp_view(x: float32[3, 21] (i, j) -> (i, j))
// cpu: parts i:1 j:1; threads i:1 j:1
// tiles i:0 j:0; registers i:1 j:8; lanes j x4
// order i j | i | j
// staged nothing
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global float) at_O0, BUFFER(__global long) at_O1, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global float* O0 = (__global float*)at_O0;
  __global long* O1 = (__global long*)at_O1;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long lo_i = 0;
  const long hi_i = 3;
  const long lo_j = 0;
  const long hi_j = 21;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i < e_i; r_i++) {
    __global float* o0 = O0 + r_i;
    __global long* o1 = O1 + r_i;
    __global const float* b0 = I0 + 21*r_i;
    float4 a0_0_0 = (float4)(-INFINITY);
    long4 a0_0_1 = (long4)((long)(4611686018427387904L));
    float4 a0_1_0 = (float4)(-INFINITY);
    long4 a0_1_1 = (long4)((long)(4611686018427387904L));
    float s0_0_0 = -INFINITY;
    long s0_0_1 = (long)(4611686018427387904L);
    long r_j = t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 8 <= e_j; r_j += 8) {
      __global const float* p0 = b0 + r_j;
      const float4 x0 = vload4(0, p0);
      const float4 n1_0 = select(a0_0_0, x0, ((x0 > a0_0_0) | ((x0 == a0_0_0) & convert_int4(as_long4(as_ulong4((long4)((long)(r_j))) + as_ulong4((long4)(0, 1, 2, 3))) < a0_0_1))));
      const long4 c0 = as_long4(as_ulong4((long4)((long)(r_j))) + as_ulong4((long4)(0, 1, 2, 3)));
      const long4 n1_1 = select(a0_0_1, c0, convert_long4((x0 > a0_0_0) | ((x0 == a0_0_0) & convert_int4(c0 < a0_0_1))));
      a0_0_0 = n1_0;
      a0_0_1 = n1_1;
      const float4 x1 = vload4(0, p0 + 4);
      const float4 n6_0 = select(a0_1_0, x1, ((x1 > a0_1_0) | ((x1 == a0_1_0) & convert_int4(as_long4(as_ulong4((long4)((long)(r_j + 4))) + as_ulong4((long4)(0, 1, 2, 3))) < a0_1_1))));
      const long4 c1 = as_long4(as_ulong4((long4)((long)(r_j + 4))) + as_ulong4((long4)(0, 1, 2, 3)));
      const long4 n6_1 = select(a0_1_1, c1, convert_long4((x1 > a0_1_0) | ((x1 == a0_1_0) & convert_int4(c1 < a0_1_1))));
      a0_1_0 = n6_0;
      a0_1_1 = n6_1;
    }
    #pragma clang loop vectorize(disable)
    for (; r_j + 4 <= e_j; r_j += 4) {
      __global const float* p0 = b0 + r_j;
      const float4 x0 = vload4(0, p0);
      const float4 n1_0 = select(a0_0_0, x0, ((x0 > a0_0_0) | ((x0 == a0_0_0) & convert_int4(as_long4(as_ulong4((long4)((long)(r_j))) + as_ulong4((long4)(0, 1, 2, 3))) < a0_0_1))));
      const long4 c2 = as_long4(as_ulong4((long4)((long)(r_j))) + as_ulong4((long4)(0, 1, 2, 3)));
      const long4 n1_1 = select(a0_0_1, c2, convert_long4((x0 > a0_0_0) | ((x0 == a0_0_0) & convert_int4(c2 < a0_0_1))));
      a0_0_0 = n1_0;
      a0_0_1 = n1_1;
    }
    #pragma clang loop vectorize(disable)
    for (; r_j < e_j; r_j++) {
      __global const float* p0 = b0 + r_j;
      const float x0 = p0[0];
      const float n1_0 = (((x0 > s0_0_0) | ((x0 == s0_0_0) & ((long)(r_j) < s0_0_1))) ? x0 : s0_0_0);
      const long n1_1 = (((x0 > s0_0_0) | ((x0 == s0_0_0) & ((long)(r_j) < s0_0_1))) ? (long)(r_j) : s0_0_1);
      s0_0_0 = n1_0;
      s0_0_1 = n1_1;
    }
    const float4 a0_0_0_1 = select(a0_0_0, a0_1_0, ((a0_1_0 > a0_0_0) | ((a0_1_0 == a0_0_0) & convert_int4(a0_1_1 < a0_0_1))));
    const long4 a0_0_1_1 = select(a0_0_1, a0_1_1, convert_long4((a0_1_0 > a0_0_0) | ((a0_1_0 == a0_0_0) & convert_int4(a0_1_1 < a0_0_1))));
    float2 h0_0_0 = select(a0_0_0_1.lo, a0_0_0_1.hi, ((a0_0_0_1.hi > a0_0_0_1.lo) | ((a0_0_0_1.hi == a0_0_0_1.lo) & convert_int2(a0_0_1_1.hi < a0_0_1_1.lo))));
    long2 h0_0_1 = select(a0_0_1_1.lo, a0_0_1_1.hi, convert_long2((a0_0_0_1.hi > a0_0_0_1.lo) | ((a0_0_0_1.hi == a0_0_0_1.lo) & convert_int2(a0_0_1_1.hi < a0_0_1_1.lo))));
    float h0_1_0 = (((h0_0_0.s1 > h0_0_0.s0) | ((h0_0_0.s1 == h0_0_0.s0) & (h0_0_1.s1 < h0_0_1.s0))) ? h0_0_0.s1 : h0_0_0.s0);
    long h0_1_1 = (((h0_0_0.s1 > h0_0_0.s0) | ((h0_0_0.s1 == h0_0_0.s0) & (h0_0_1.s1 < h0_0_1.s0))) ? h0_0_1.s1 : h0_0_1.s0);
    float h0_0 = (((s0_0_0 > h0_1_0) | ((s0_0_0 == h0_1_0) & (s0_0_1 < h0_1_1))) ? s0_0_0 : h0_1_0);
    long h0_1 = (((s0_0_0 > h0_1_0) | ((s0_0_0 == h0_1_0) & (s0_0_1 < h0_1_1))) ? s0_0_1 : h0_1_1);
    o0[0] = h0_0;
    o1[0] = h0_1;
  }
}
