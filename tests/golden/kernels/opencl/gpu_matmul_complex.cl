// out_view(out: complex64[3, 6] (i, j, k) -> (i, k))
// md_hom[i:3, j:5, k:6](mul, (cc, pw(add), cc))
// inp_view(A: complex64[3, 5] (i, j, k) -> (i, j); B: complex64[5, 6] (i, j, k) -> (j, k))
// gpu: parts i:1 j:1 k:1; threads i:4 j:1 k:4
// tiles i:0 j:0 k:0; registers i:1 j:1 k:2; lanes none
// order i j k | i k | j
// staged nothing
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  const long lo_i = 0;
  const long hi_i = 3;
  const long lo_j = 0;
  const long hi_j = 5;
  const long lo_k = 0;
  const long hi_k = 6;
  const long x_k = (item) % (4);
  const long y_k = (item) / (4);
  const long x_i = (y_k) % (4);
  const long y_i = (y_k) / (4);
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  const long t_k = lo_k;
  const long e_k = hi_k;
  long r_i = x_i + t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 4 <= e_i + 3; r_i += 4) {
    long r_k = 2*x_k + t_k;
    #pragma clang loop vectorize(disable)
    for (; r_k + 8 <= e_k + 6; r_k += 8) {
      __global float* o0 = O0 + 2*r_k + 12*r_i;
      __global float* o1 = O0 + 2*r_k + 12*r_i + 1;
      __global const float* b0 = I0 + 10*r_i;
      __global const float* b1 = I1 + 2*r_k;
      float a0_0_0 = 0.0f;
      float a0_0_1 = 0.0f;
      float a1_0_0 = 0.0f;
      float a1_0_1 = 0.0f;
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const float* p0 = b0 + 2*r_j;
        __global const float* p1 = b1 + 12*r_j;
        const float x0 = p0[0];
        const float x1 = p0[1];
        const float x2 = p1[0];
        const float x3 = p1[1];
        a0_0_0 = ((a0_0_0 + (x0 * x2)) - (x1 * x3));
        a0_0_1 = ((a0_0_1 + (x0 * x3)) + (x1 * x2));
        const float x4 = p1[2];
        const float x5 = p1[3];
        a1_0_0 = ((a1_0_0 + (x0 * x4)) - (x1 * x5));
        a1_0_1 = ((a1_0_1 + (x0 * x5)) + (x1 * x4));
      }
      o0[0] = a0_0_0;
      o1[0] = a0_0_1;
      o0[2] = a1_0_0;
      o1[2] = a1_0_1;
    }
  }
}
