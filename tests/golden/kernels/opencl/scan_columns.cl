// out_view(y: float32[7, 10] (i, j) -> (i, j))
// epilogue(f)(x: float32[7, 10] (i, j) -> ; b: float32[10] (i, j) -> (j))
// md_hom[i:7, j:10](f, (ps(add), cc), epilogue f)
// inp_view(x: float32[7, 10] (i, j) -> (i, j); b: float32[10] (i, j) -> )
// cpu: parts i:1 j:1; threads i:1 j:1
// tiles i:0 j:0; registers i:2 j:4; lanes j x4
// order i j | j | i
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
  const long hi_i = 7;
  const long lo_j = 0;
  const long hi_j = 10;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_j = t_j;
  #pragma clang loop vectorize(disable)
  for (; r_j + 4 <= e_j; r_j += 4) {
    __global float* o0 = O0 + r_j;
    __global const float* b0 = I0 + r_j;
    __global const float* b1 = I1 + r_j;
    float4 a0_0 = (float4)(-0.0f);
    long r_i = t_i;
    #pragma clang loop vectorize(disable)
    for (; r_i + 2 <= e_i; r_i += 2) {
      __global const float* p0 = b0 + 10*r_i;
      __global const float* p1 = b1;
      __global float* q0 = o0 + 10*r_i;
      const float4 x0 = vload4(0, p0);
      const float4 v0_0_0_0 = x0;
      const float4 w0_0_0_0 = (a0_0 + v0_0_0_0);
      a0_0 = w0_0_0_0;
      const float4 xe0 = vload4(0, p1);
      const float4 f0_0_0_0 = ((w0_0_0_0 * (float4)(2.0f)) + xe0);
      vstore4(f0_0_0_0, 0, q0);
      const float4 x1 = vload4(0, p0 + 10);
      const float4 v1_0_0_0 = x1;
      const float4 w1_0_0_0 = (a0_0 + v1_0_0_0);
      a0_0 = w1_0_0_0;
      const float4 f1_0_0_0 = ((w1_0_0_0 * (float4)(2.0f)) + xe0);
      vstore4(f1_0_0_0, 0, q0 + 10);
    }
    #pragma clang loop vectorize(disable)
    for (; r_i < e_i; r_i++) {
      __global const float* p0 = b0 + 10*r_i;
      __global const float* p1 = b1;
      __global float* q0 = o0 + 10*r_i;
      const float4 x0 = vload4(0, p0);
      const float4 v0_0_0_0 = x0;
      const float4 w0_0_0_0 = (a0_0 + v0_0_0_0);
      a0_0 = w0_0_0_0;
      const float4 xe0 = vload4(0, p1);
      const float4 f0_0_0_0 = ((w0_0_0_0 * (float4)(2.0f)) + xe0);
      vstore4(f0_0_0_0, 0, q0);
    }
  }
  if (r_j + 2 <= e_j) {
    __global float* o0 = O0 + r_j;
    __global const float* b0 = I0 + r_j;
    __global const float* b1 = I1 + r_j;
    float2 a0_0 = (float2)(-0.0f);
    long r_i = t_i;
    #pragma clang loop vectorize(disable)
    for (; r_i + 2 <= e_i; r_i += 2) {
      __global const float* p0 = b0 + 10*r_i;
      __global const float* p1 = b1;
      __global float* q0 = o0 + 10*r_i;
      const float2 x0 = vload2(0, p0);
      const float2 v0_0_0_0 = x0;
      const float2 w0_0_0_0 = (a0_0 + v0_0_0_0);
      a0_0 = w0_0_0_0;
      const float2 xe0 = vload2(0, p1);
      const float2 f0_0_0_0 = ((w0_0_0_0 * (float2)(2.0f)) + xe0);
      vstore2(f0_0_0_0, 0, q0);
      const float2 x1 = vload2(0, p0 + 10);
      const float2 v1_0_0_0 = x1;
      const float2 w1_0_0_0 = (a0_0 + v1_0_0_0);
      a0_0 = w1_0_0_0;
      const float2 f1_0_0_0 = ((w1_0_0_0 * (float2)(2.0f)) + xe0);
      vstore2(f1_0_0_0, 0, q0 + 10);
    }
    #pragma clang loop vectorize(disable)
    for (; r_i < e_i; r_i++) {
      __global const float* p0 = b0 + 10*r_i;
      __global const float* p1 = b1;
      __global float* q0 = o0 + 10*r_i;
      const float2 x0 = vload2(0, p0);
      const float2 v0_0_0_0 = x0;
      const float2 w0_0_0_0 = (a0_0 + v0_0_0_0);
      a0_0 = w0_0_0_0;
      const float2 xe0 = vload2(0, p1);
      const float2 f0_0_0_0 = ((w0_0_0_0 * (float2)(2.0f)) + xe0);
      vstore2(f0_0_0_0, 0, q0);
    }
  }
}
