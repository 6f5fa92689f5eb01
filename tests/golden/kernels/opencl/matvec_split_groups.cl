// out_view(out: float32[6] (i, j) -> (i))
// md_hom[i:6, j:40](mul, (cc, pw(add)))
// inp_view(A: float32[6, 40] (i, j) -> (i, j); B: float32[40] (i, j) -> (j))
// cpu: parts i:1 j:3; threads i:1 j:1
// tiles i:0 j:0; registers i:4 j:2; lanes i x4
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
  const long lo_j = 14*z_j;
  const long hi_j = (lo_j + 14 < 40 ? lo_j + 14 : 40);
  const long lo_i = 0;
  const long hi_i = 6;
  __global float* R0 = (__global float*)(scratch);
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 4 <= e_i; r_i += 4) {
    __global float* o0 = R0 + 6*z_j + r_i;
    __global const float* b0 = I0 + 40*r_i;
    __global const float* b1 = I1;
    float4 a0_0 = (float4)(0.0f);
    long r_j = t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 2 <= e_j; r_j += 2) {
      __global const float* p0 = b0 + r_j;
      __global const float* p1 = b1 + r_j;
      const float4 x0 = (float4)(p0[0], p0[40], p0[80], p0[120]);
      const float x1 = p1[0];
      a0_0 = (a0_0 + (x0 * (float4)(x1)));
      const float4 x2 = (float4)(p0[1], p0[41], p0[81], p0[121]);
      const float x3 = p1[1];
      a0_0 = (a0_0 + (x2 * (float4)(x3)));
    }
    vstore4(a0_0, 0, o0);
  }
  if (r_i + 2 <= e_i) {
    __global float* o0 = R0 + 6*z_j + r_i;
    __global const float* b0 = I0 + 40*r_i;
    __global const float* b1 = I1;
    float2 a0_0 = (float2)(0.0f);
    long r_j = t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 2 <= e_j; r_j += 2) {
      __global const float* p0 = b0 + r_j;
      __global const float* p1 = b1 + r_j;
      const float2 x0 = (float2)(p0[0], p0[40]);
      const float x1 = p1[0];
      a0_0 = (a0_0 + (x0 * (float2)(x1)));
      const float2 x2 = (float2)(p0[1], p0[41]);
      const float x3 = p1[1];
      a0_0 = (a0_0 + (x2 * (float2)(x3)));
    }
    vstore2(a0_0, 0, o0);
  }
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
  const long lo_i = 0;
  const long hi_i = 6;
  const long lo_groups = 0;
  const long hi_groups = 3;
  const long t_groups = lo_groups;
  const long e_groups = hi_groups;
  const long t_i = lo_i;
  const long e_i = hi_i;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 4 <= e_i; r_i += 4) {
    __global float* o0 = O0 + r_i;
    __global const float* b0 = I0 + r_i;
    float4 a0_0 = (float4)(0.0f);
    long r_groups = t_groups;
    #pragma clang loop vectorize(disable)
    for (; r_groups < e_groups; r_groups++) {
      __global const float* p0 = b0 + 6*r_groups;
      const float4 x0 = vload4(0, p0);
      a0_0 = (a0_0 + x0);
    }
    vstore4(a0_0, 0, o0);
  }
  if (r_i + 2 <= e_i) {
    __global float* o0 = O0 + r_i;
    __global const float* b0 = I0 + r_i;
    float2 a0_0 = (float2)(0.0f);
    long r_groups = t_groups;
    #pragma clang loop vectorize(disable)
    for (; r_groups < e_groups; r_groups++) {
      __global const float* p0 = b0 + 6*r_groups;
      const float2 x0 = vload2(0, p0);
      a0_0 = (a0_0 + x0);
    }
    vstore2(a0_0, 0, o0);
  }
}
