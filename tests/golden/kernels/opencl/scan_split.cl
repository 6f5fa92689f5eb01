// out_view(y: float32[2, 61] (i, j) -> (i, j))
// epilogue(f)(x: float32[2, 61] (i, j) -> ; b: float32[61] (i, j) -> (j))
// md_hom[i:2, j:61](f, (cc, ps(add)), epilogue f)
// inp_view(x: float32[2, 61] (i, j) -> (i, j); b: float32[61] (i, j) -> )
// cpu: parts i:1 j:3; threads i:1 j:1
// tiles i:0 j:0; registers i:1 j:8; lanes j x8
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
  const long z_j = group;
  const long lo_j = 24*z_j;
  const long hi_j = (lo_j + 24 < 61 ? lo_j + 24 : 61);
  const long lo_i = 0;
  const long hi_i = 2;
  __global float* R0 = (__global float*)(scratch);
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i < e_i; r_i++) {
    __global float* o0 = R0 + 2*z_j + r_i;
    __global const float* b0 = I0 + 61*r_i;
    __global const float* b1 = I1;
    float8 a0_0 = (float8)(-0.0f);
    float s0_0 = -0.0f;
    long r_j = t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 8 <= e_j; r_j += 8) {
      __global const float* p0 = b0 + r_j;
      __global const float* p1 = b1 + r_j;
      const float8 x0 = vload8(0, p0);
      a0_0 = (a0_0 + x0);
    }
    #pragma clang loop vectorize(disable)
    for (; r_j < e_j; r_j++) {
      __global const float* p0 = b0 + r_j;
      __global const float* p1 = b1 + r_j;
      const float x0 = p0[0];
      s0_0 = (s0_0 + x0);
    }
    float4 h0_0_0 = (a0_0.lo + a0_0.hi);
    float2 h0_1_0 = (h0_0_0.lo + h0_0_0.hi);
    float h0_2_0 = (h0_1_0.s0 + h0_1_0.s1);
    float h0_0 = (h0_2_0 + s0_0);
    o0[0] = h0_0;
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_1(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  __global float* R0 = (__global float*)(scratch);
  #pragma clang loop vectorize(disable)
  for (long m = 0; m < 2; m++) {
    float a0 = -0.0f;
    #pragma clang loop vectorize(disable)
    for (long n = 0; n < 3; n++) {
      const float t0 = R0[2*n + m];
      R0[2*n + m] = a0;
      const float n0 = (a0 + t0);
      a0 = n0;
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_2(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long z_j = group;
  const long lo_j = 24*z_j;
  const long hi_j = (lo_j + 24 < 61 ? lo_j + 24 : 61);
  const long lo_i = 0;
  const long hi_i = 2;
  __global float* R0 = (__global float*)(scratch);
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i < e_i; r_i++) {
    __global float* o0 = O0 + 61*r_i;
    __global float* carry0 = R0 + 2*z_j + r_i;
    __global const float* b0 = I0 + 61*r_i;
    __global const float* b1 = I1;
    float a0_0 = carry0[0];
    long r_j = t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 8 <= e_j; r_j += 8) {
      __global const float* p0 = b0 + r_j;
      __global const float* p1 = b1 + r_j;
      __global float* q0 = o0 + r_j;
      const float8 x0 = vload8(0, p0);
      const float8 v0_0_0_0 = x0;
      const float8 u0_0_0_1_0 = ((float8)(-0.0f, v0_0_0_0.s0123, v0_0_0_0.s45, v0_0_0_0.s6) + v0_0_0_0);
      const float8 u0_0_0_2_0 = ((float8)(-0.0f, -0.0f, u0_0_0_1_0.s0123, u0_0_0_1_0.s45) + u0_0_0_1_0);
      const float8 u0_0_0_4_0 = ((float8)(-0.0f, -0.0f, -0.0f, -0.0f, u0_0_0_2_0.s0123) + u0_0_0_2_0);
      const float8 w0_0_0_0 = ((float8)(a0_0) + u0_0_0_4_0);
      const float l0_0_0_0 = (a0_0 + u0_0_0_4_0.s7);
      a0_0 = l0_0_0_0;
      const float8 xe0 = vload8(0, p1);
      const float8 f0_0_0_0 = ((w0_0_0_0 * (float8)(2.0f)) + xe0);
      vstore8(f0_0_0_0, 0, q0);
    }
    #pragma clang loop vectorize(disable)
    for (; r_j < e_j; r_j++) {
      __global const float* p0 = b0 + r_j;
      __global const float* p1 = b1 + r_j;
      __global float* q0 = o0 + r_j;
      const float x0 = p0[0];
      const float v0_0_0_0 = x0;
      const float w0_0_0_0 = (a0_0 + v0_0_0_0);
      a0_0 = w0_0_0_0;
      const float xe0 = p1[0];
      const float f0_0_0_0 = ((w0_0_0_0 * 2.0f) + xe0);
      q0[0] = f0_0_0_0;
    }
  }
}
