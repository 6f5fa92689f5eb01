// out_view(out: complex64[3, 6] (i, j, k) -> (i, k))
// md_hom[i:3, j:5, k:6](mul, (cc, pw(add), cc))
// inp_view(A: complex64[3, 5] (i, j, k) -> (i, j); B: complex64[5, 6] (i, j, k) -> (j, k))
// cpu: parts i:1 j:1 k:1; threads i:1 j:1 k:1
// tiles i:0 j:0 k:0; registers i:1 j:1 k:4; lanes k x4
// order i j k | i k | j
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
  const long hi_j = 5;
  const long lo_k = 0;
  const long hi_k = 6;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  const long t_k = lo_k;
  const long e_k = hi_k;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i < e_i; r_i++) {
    long r_k = t_k;
    #pragma clang loop vectorize(disable)
    for (; r_k + 4 <= e_k; r_k += 4) {
      __global float* o0 = O0 + 2*r_k + 12*r_i;
      __global float* o1 = O0 + 2*r_k + 12*r_i + 1;
      __global const float* b0 = I0 + 10*r_i;
      __global const float* b1 = I1 + 2*r_k;
      float4 a0_0_0 = (float4)(0.0f);
      float4 a0_0_1 = (float4)(0.0f);
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const float* p0 = b0 + 2*r_j;
        __global const float* p1 = b1 + 12*r_j;
        const float x0 = p0[0];
        const float x1 = p0[1];
        const float4 y0 = vload4(0, p1);
        const float4 y1 = vload4(0, p1 + 4);
        const float4 x2 = __builtin_shufflevector(y0, y1, 0, 2, 4, 6);
        const float4 x3 = __builtin_shufflevector(y0, y1, 1, 3, 5, 7);
        a0_0_0 = ((a0_0_0 + ((float4)(x0) * x2)) - ((float4)(x1) * x3));
        a0_0_1 = ((a0_0_1 + ((float4)(x0) * x3)) + ((float4)(x1) * x2));
      }
      vstore4(__builtin_shufflevector(a0_0_0, a0_0_1, 0, 4, 1, 5), 0, o0);
      vstore4(__builtin_shufflevector(a0_0_0, a0_0_1, 2, 6, 3, 7), 0, o0 + 4);
    }
    if (r_k + 2 <= e_k) {
      __global float* o0 = O0 + 2*r_k + 12*r_i;
      __global float* o1 = O0 + 2*r_k + 12*r_i + 1;
      __global const float* b0 = I0 + 10*r_i;
      __global const float* b1 = I1 + 2*r_k;
      float2 a0_0_0 = (float2)(0.0f);
      float2 a0_0_1 = (float2)(0.0f);
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const float* p0 = b0 + 2*r_j;
        __global const float* p1 = b1 + 12*r_j;
        const float x0 = p0[0];
        const float x1 = p0[1];
        const float2 y2 = vload2(0, p1);
        const float2 y3 = vload2(0, p1 + 2);
        const float2 x2 = __builtin_shufflevector(y2, y3, 0, 2);
        const float2 x3 = __builtin_shufflevector(y2, y3, 1, 3);
        a0_0_0 = ((a0_0_0 + ((float2)(x0) * x2)) - ((float2)(x1) * x3));
        a0_0_1 = ((a0_0_1 + ((float2)(x0) * x3)) + ((float2)(x1) * x2));
      }
      vstore2(__builtin_shufflevector(a0_0_0, a0_0_1, 0, 2), 0, o0);
      vstore2(__builtin_shufflevector(a0_0_0, a0_0_1, 1, 3), 0, o0 + 2);
    }
  }
}
