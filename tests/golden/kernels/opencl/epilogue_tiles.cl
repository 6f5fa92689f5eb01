// out_view(y: float32[5, 6] (i, k, j) -> (i, j))
// epilogue(f)(A: float32[5, 9] (i, k, j) -> ; B: float32[9, 6] (i, k, j) -> ; C: float32[5, 6] (i, k, j) -> (i, j); b: float32[6] (i, k, j) -> (j))
// md_hom[i:5, k:9, j:6](f, (cc, pw(add), cc), epilogue f)
// inp_view(A: float32[5, 9] (i, k, j) -> (i, k); B: float32[9, 6] (i, k, j) -> (k, j); C: float32[5, 6] (i, k, j) -> ; b: float32[6] (i, k, j) -> )
// cpu: parts i:1 k:1 j:1; threads i:1 k:1 j:1
// tiles i:0 k:4 j:0; registers i:2 k:1 j:4; lanes j x4
// order i k j | i j | k
// staged nothing
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global const float) at_I2, BUFFER(__global const float) at_I3, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global const float* I2 = (__global const float*)at_I2;
  __global const float* I3 = (__global const float*)at_I3;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long lo_i = 0;
  const long hi_i = 5;
  const long lo_k = 0;
  const long hi_k = 9;
  const long lo_j = 0;
  const long hi_j = 6;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  #pragma clang loop vectorize(disable)
  for (long t_k = lo_k; t_k + 4 <= hi_k + 3; t_k += 4) {
    const long e_k = (t_k + 4 < hi_k ? t_k + 4 : hi_k);
    long r_i = t_i;
    #pragma clang loop vectorize(disable)
    for (; r_i + 2 <= e_i; r_i += 2) {
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j + 4 <= e_j; r_j += 4) {
        __global float* o0 = O0 + r_j + 6*r_i;
        __global const float* b0 = I0 + 9*r_i;
        __global const float* b1 = I1 + r_j;
        __global const float* b2 = I2 + r_j + 6*r_i;
        __global const float* b3 = I3 + r_j;
        float4 a0_0 = (float4)(0.0f);
        float4 a1_0 = (float4)(0.0f);
        long r_k = t_k;
        #pragma clang loop vectorize(disable)
        for (; r_k < e_k; r_k++) {
          __global const float* p0 = b0 + r_k;
          __global const float* p1 = b1 + 6*r_k;
          __global const float* p2 = b2;
          __global const float* p3 = b3;
          const float x0 = p0[0];
          const float4 x1 = vload4(0, p1);
          a0_0 = (a0_0 + ((float4)(x0) * x1));
          const float x2 = p0[9];
          a1_0 = (a1_0 + ((float4)(x2) * x1));
        }
        if (0 < t_k - lo_k) {
          a0_0 = (vload4(0, o0) + a0_0);
          a1_0 = (vload4(0, o0 + 6) + a1_0);
        }
        if (0 < hi_k - e_k) {
          vstore4(a0_0, 0, o0);
          vstore4(a1_0, 0, o0 + 6);
        } else {
          const float4 xe0 = vload4(0, b2);
          const float4 xe1 = vload4(0, b3);
          const float4 c0 = (((a0_0 * (float4)(2.0f)) + (xe0 * (float4)(3.0f))) + xe1);
          const float4 f0_0_0 = select(c0, (float4)(0.0f), ((float4)(0.0f) > c0));
          vstore4(f0_0_0, 0, o0);
          const float4 xe2 = vload4(0, b2 + 6);
          const float4 c1 = (((a1_0 * (float4)(2.0f)) + (xe2 * (float4)(3.0f))) + xe1);
          const float4 f1_0_0 = select(c1, (float4)(0.0f), ((float4)(0.0f) > c1));
          vstore4(f1_0_0, 0, o0 + 6);
        }
      }
      if (r_j + 2 <= e_j) {
        __global float* o0 = O0 + r_j + 6*r_i;
        __global const float* b0 = I0 + 9*r_i;
        __global const float* b1 = I1 + r_j;
        __global const float* b2 = I2 + r_j + 6*r_i;
        __global const float* b3 = I3 + r_j;
        float2 a0_0 = (float2)(0.0f);
        float2 a1_0 = (float2)(0.0f);
        long r_k = t_k;
        #pragma clang loop vectorize(disable)
        for (; r_k < e_k; r_k++) {
          __global const float* p0 = b0 + r_k;
          __global const float* p1 = b1 + 6*r_k;
          __global const float* p2 = b2;
          __global const float* p3 = b3;
          const float x0 = p0[0];
          const float2 x1 = vload2(0, p1);
          a0_0 = (a0_0 + ((float2)(x0) * x1));
          const float x2 = p0[9];
          a1_0 = (a1_0 + ((float2)(x2) * x1));
        }
        if (0 < t_k - lo_k) {
          a0_0 = (vload2(0, o0) + a0_0);
          a1_0 = (vload2(0, o0 + 6) + a1_0);
        }
        if (0 < hi_k - e_k) {
          vstore2(a0_0, 0, o0);
          vstore2(a1_0, 0, o0 + 6);
        } else {
          const float2 xe0 = vload2(0, b2);
          const float2 xe1 = vload2(0, b3);
          const float2 c2 = (((a0_0 * (float2)(2.0f)) + (xe0 * (float2)(3.0f))) + xe1);
          const float2 f0_0_0 = select(c2, (float2)(0.0f), ((float2)(0.0f) > c2));
          vstore2(f0_0_0, 0, o0);
          const float2 xe2 = vload2(0, b2 + 6);
          const float2 c3 = (((a1_0 * (float2)(2.0f)) + (xe2 * (float2)(3.0f))) + xe1);
          const float2 f1_0_0 = select(c3, (float2)(0.0f), ((float2)(0.0f) > c3));
          vstore2(f1_0_0, 0, o0 + 6);
        }
      }
    }
    if (r_i + 1 <= e_i) {
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j + 4 <= e_j; r_j += 4) {
        __global float* o0 = O0 + r_j + 6*r_i;
        __global const float* b0 = I0 + 9*r_i;
        __global const float* b1 = I1 + r_j;
        __global const float* b2 = I2 + r_j + 6*r_i;
        __global const float* b3 = I3 + r_j;
        float4 a0_0 = (float4)(0.0f);
        long r_k = t_k;
        #pragma clang loop vectorize(disable)
        for (; r_k < e_k; r_k++) {
          __global const float* p0 = b0 + r_k;
          __global const float* p1 = b1 + 6*r_k;
          __global const float* p2 = b2;
          __global const float* p3 = b3;
          const float x0 = p0[0];
          const float4 x1 = vload4(0, p1);
          a0_0 = (a0_0 + ((float4)(x0) * x1));
        }
        if (0 < t_k - lo_k) {
          a0_0 = (vload4(0, o0) + a0_0);
        }
        if (0 < hi_k - e_k) {
          vstore4(a0_0, 0, o0);
        } else {
          const float4 xe0 = vload4(0, b2);
          const float4 xe1 = vload4(0, b3);
          const float4 c4 = (((a0_0 * (float4)(2.0f)) + (xe0 * (float4)(3.0f))) + xe1);
          const float4 f0_0_0 = select(c4, (float4)(0.0f), ((float4)(0.0f) > c4));
          vstore4(f0_0_0, 0, o0);
        }
      }
      if (r_j + 2 <= e_j) {
        __global float* o0 = O0 + r_j + 6*r_i;
        __global const float* b0 = I0 + 9*r_i;
        __global const float* b1 = I1 + r_j;
        __global const float* b2 = I2 + r_j + 6*r_i;
        __global const float* b3 = I3 + r_j;
        float2 a0_0 = (float2)(0.0f);
        long r_k = t_k;
        #pragma clang loop vectorize(disable)
        for (; r_k < e_k; r_k++) {
          __global const float* p0 = b0 + r_k;
          __global const float* p1 = b1 + 6*r_k;
          __global const float* p2 = b2;
          __global const float* p3 = b3;
          const float x0 = p0[0];
          const float2 x1 = vload2(0, p1);
          a0_0 = (a0_0 + ((float2)(x0) * x1));
        }
        if (0 < t_k - lo_k) {
          a0_0 = (vload2(0, o0) + a0_0);
        }
        if (0 < hi_k - e_k) {
          vstore2(a0_0, 0, o0);
        } else {
          const float2 xe0 = vload2(0, b2);
          const float2 xe1 = vload2(0, b3);
          const float2 c5 = (((a0_0 * (float2)(2.0f)) + (xe0 * (float2)(3.0f))) + xe1);
          const float2 f0_0_0 = select(c5, (float2)(0.0f), ((float2)(0.0f) > c5));
          vstore2(f0_0_0, 0, o0);
        }
      }
    }
  }
}
