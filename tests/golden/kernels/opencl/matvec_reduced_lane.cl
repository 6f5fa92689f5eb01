// out_view(out: float32[6] (i, j) -> (i))
// md_hom[i:6, j:37](mul, (cc, pw(add)))
// inp_view(A: float32[6, 37] (i, j) -> (i, j); B: float32[37] (i, j) -> (j))
// cpu: parts i:1 j:1; threads i:1 j:1
// tiles i:0 j:0; registers i:2 j:16; lanes j x8
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
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long lo_i = 0;
  const long hi_i = 6;
  const long lo_j = 0;
  const long hi_j = 37;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 2 <= e_i; r_i += 2) {
    __global float* o0 = O0 + r_i;
    __global const float* b0 = I0 + 37*r_i;
    __global const float* b1 = I1;
    float8 a0_0 = (float8)(0.0f);
    float8 a0_1 = (float8)(0.0f);
    float8 a1_0 = (float8)(0.0f);
    float8 a1_1 = (float8)(0.0f);
    float s0_0 = 0.0f;
    float s1_0 = 0.0f;
    long r_j = t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 16 <= e_j; r_j += 16) {
      __global const float* p0 = b0 + r_j;
      __global const float* p1 = b1 + r_j;
      const float8 x0 = vload8(0, p0);
      const float8 x1 = vload8(0, p1);
      a0_0 = (a0_0 + (x0 * x1));
      const float8 x2 = vload8(0, p0 + 8);
      const float8 x3 = vload8(0, p1 + 8);
      a0_1 = (a0_1 + (x2 * x3));
      const float8 x4 = vload8(0, p0 + 37);
      a1_0 = (a1_0 + (x4 * x1));
      const float8 x5 = vload8(0, p0 + 45);
      a1_1 = (a1_1 + (x5 * x3));
    }
    #pragma clang loop vectorize(disable)
    for (; r_j < e_j; r_j++) {
      __global const float* p0 = b0 + r_j;
      __global const float* p1 = b1 + r_j;
      const float x0 = p0[0];
      const float x1 = p1[0];
      s0_0 = (s0_0 + (x0 * x1));
      const float x2 = p0[37];
      s1_0 = (s1_0 + (x2 * x1));
    }
    const float8 a0_0_1 = (a0_0 + a0_1);
    const float8 a1_0_1 = (a1_0 + a1_1);
    float8 h0_0_0 = __builtin_shufflevector(a0_0_1, a1_0_1, 0, 8, 1, 9, 4, 12, 5, 13);
    float8 h0_1_0 = __builtin_shufflevector(a0_0_1, a1_0_1, 2, 10, 3, 11, 6, 14, 7, 15);
    float8 h0_2_0 = (h0_0_0 + h0_1_0);
    float4 h0_3_0 = (h0_2_0.lo + h0_2_0.hi);
    float2 h0_4_0 = (h0_3_0.lo + h0_3_0.hi);
    float h0_5_0 = h0_4_0.s0;
    float h0_6_0 = h0_4_0.s1;
    float h0_0 = (h0_5_0 + s0_0);
    float h1_0 = (h0_6_0 + s1_0);
    o0[0] = h0_0;
    o0[1] = h1_0;
  }
}
