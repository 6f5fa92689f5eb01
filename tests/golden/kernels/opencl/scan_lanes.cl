// out_view(y: float32[3, 21] (i, j) -> (i, j))
// epilogue(f)(x: float32[3, 21] (i, j) -> ; b: float32[21] (i, j) -> (j))
// md_hom[i:3, j:21](f, (cc, ps(add)), epilogue f)
// inp_view(x: float32[3, 21] (i, j) -> (i, j); b: float32[21] (i, j) -> )
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
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
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
    __global float* o0 = O0 + 21*r_i;
    __global const float* b0 = I0 + 21*r_i;
    __global const float* b1 = I1;
    float a0_0 = -0.0f;
    long r_j = t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 8 <= e_j; r_j += 8) {
      __global const float* p0 = b0 + r_j;
      __global const float* p1 = b1 + r_j;
      __global float* q0 = o0 + r_j;
      const float4 x0 = vload4(0, p0);
      const float4 v0_0_0_0 = x0;
      const float4 u0_0_0_1_0 = ((float4)(-0.0f, v0_0_0_0.s01, v0_0_0_0.s2) + v0_0_0_0);
      const float4 u0_0_0_2_0 = ((float4)(-0.0f, -0.0f, u0_0_0_1_0.s01) + u0_0_0_1_0);
      const float4 w0_0_0_0 = ((float4)(a0_0) + u0_0_0_2_0);
      const float l0_0_0_0 = (a0_0 + u0_0_0_2_0.s3);
      a0_0 = l0_0_0_0;
      const float4 xe0 = vload4(0, p1);
      const float4 f0_0_0_0 = ((w0_0_0_0 * (float4)(2.0f)) + xe0);
      vstore4(f0_0_0_0, 0, q0);
      const float4 x1 = vload4(0, p0 + 4);
      const float4 v1_0_0_0 = x1;
      const float4 u1_0_0_1_0 = ((float4)(-0.0f, v1_0_0_0.s01, v1_0_0_0.s2) + v1_0_0_0);
      const float4 u1_0_0_2_0 = ((float4)(-0.0f, -0.0f, u1_0_0_1_0.s01) + u1_0_0_1_0);
      const float4 w1_0_0_0 = ((float4)(a0_0) + u1_0_0_2_0);
      const float l1_0_0_0 = (a0_0 + u1_0_0_2_0.s3);
      a0_0 = l1_0_0_0;
      const float4 xe1 = vload4(0, p1 + 4);
      const float4 f1_0_0_0 = ((w1_0_0_0 * (float4)(2.0f)) + xe1);
      vstore4(f1_0_0_0, 0, q0 + 4);
    }
    #pragma clang loop vectorize(disable)
    for (; r_j + 4 <= e_j; r_j += 4) {
      __global const float* p0 = b0 + r_j;
      __global const float* p1 = b1 + r_j;
      __global float* q0 = o0 + r_j;
      const float4 x0 = vload4(0, p0);
      const float4 v0_0_0_0 = x0;
      const float4 u0_0_0_1_0 = ((float4)(-0.0f, v0_0_0_0.s01, v0_0_0_0.s2) + v0_0_0_0);
      const float4 u0_0_0_2_0 = ((float4)(-0.0f, -0.0f, u0_0_0_1_0.s01) + u0_0_0_1_0);
      const float4 w0_0_0_0 = ((float4)(a0_0) + u0_0_0_2_0);
      const float l0_0_0_0 = (a0_0 + u0_0_0_2_0.s3);
      a0_0 = l0_0_0_0;
      const float4 xe0 = vload4(0, p1);
      const float4 f0_0_0_0 = ((w0_0_0_0 * (float4)(2.0f)) + xe0);
      vstore4(f0_0_0_0, 0, q0);
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
