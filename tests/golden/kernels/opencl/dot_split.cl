// out_view(out: float32[] (i) -> ())
// md_hom[i:203](mul, (pw(add)))
// inp_view(A: float32[203] (i) -> (i); B: float32[203] (i) -> (i))
// cpu: parts i:3; threads i:1
// tiles i:0; registers i:16; lanes i x8
// order i | - | i
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
  const long z_i = group;
  const long lo_i = 80*z_i;
  const long hi_i = (lo_i + 80 < 203 ? lo_i + 80 : 203);
  __global float* R0 = (__global float*)(scratch);
  const long t_i = lo_i;
  const long e_i = hi_i;
  __global float* o0 = R0 + z_i;
  __global const float* b0 = I0;
  __global const float* b1 = I1;
  float8 a0_0 = (float8)(0.0f);
  float8 a0_1 = (float8)(0.0f);
  float s0_0 = 0.0f;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 16 <= e_i; r_i += 16) {
    __global const float* p0 = b0 + r_i;
    __global const float* p1 = b1 + r_i;
    const float8 x0 = vload8(0, p0);
    const float8 x1 = vload8(0, p1);
    a0_0 = (a0_0 + (x0 * x1));
    const float8 x2 = vload8(0, p0 + 8);
    const float8 x3 = vload8(0, p1 + 8);
    a0_1 = (a0_1 + (x2 * x3));
  }
  #pragma clang loop vectorize(disable)
  for (; r_i + 8 <= e_i; r_i += 8) {
    __global const float* p0 = b0 + r_i;
    __global const float* p1 = b1 + r_i;
    const float8 x0 = vload8(0, p0);
    const float8 x1 = vload8(0, p1);
    a0_0 = (a0_0 + (x0 * x1));
  }
  #pragma clang loop vectorize(disable)
  for (; r_i < e_i; r_i++) {
    __global const float* p0 = b0 + r_i;
    __global const float* p1 = b1 + r_i;
    const float x0 = p0[0];
    const float x1 = p1[0];
    s0_0 = (s0_0 + (x0 * x1));
  }
  const float8 a0_0_1 = (a0_0 + a0_1);
  float4 h0_0_0 = (a0_0_1.lo + a0_0_1.hi);
  float2 h0_1_0 = (h0_0_0.lo + h0_0_0.hi);
  float h0_2_0 = (h0_1_0.s0 + h0_1_0.s1);
  float h0_0 = (h0_2_0 + s0_0);
  o0[0] = h0_0;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_1(BUFFER(__global const float) at_given_I0, BUFFER(__global const float) at_given_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* given_I0 = (__global const float*)at_given_I0;
  __global const float* given_I1 = (__global const float*)at_given_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  __global const float* I0 = (__global const float*)(scratch);
  const long lo_groups = 0;
  const long hi_groups = 3;
  const long t_groups = lo_groups;
  const long e_groups = hi_groups;
  __global float* o0 = O0;
  __global const float* b0 = I0;
  float a0_0 = 0.0f;
  long r_groups = t_groups;
  #pragma clang loop vectorize(disable)
  for (; r_groups < e_groups; r_groups++) {
    __global const float* p0 = b0 + r_groups;
    const float x0 = p0[0];
    a0_0 = (a0_0 + x0);
  }
  o0[0] = a0_0;
}
