// out_view(out: float32[7, 11] (i, j) -> (i, j))
// md_hom[i:7, j:11](mul, (cc, cc))
// inp_view(A: float32[7] (i, j) -> (i); B: float32[11] (i, j) -> (j))
// gpu: parts i:2 j:1; threads i:2 j:4
// tiles i:0 j:0; registers i:1 j:2; lanes none
// order i j | i j | -
// staged nothing
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(8, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  const long z_i = group;
  const long lo_i = 4*z_i;
  const long hi_i = (lo_i + 4 < 7 ? lo_i + 4 : 7);
  const long lo_j = 0;
  const long hi_j = 11;
  const long x_j = (item) % (4);
  const long y_j = (item) / (4);
  const long x_i = (y_j) % (2);
  const long y_i = (y_j) / (2);
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = x_i + t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 2 <= e_i + 1; r_i += 2) {
    long r_j = 2*x_j + t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 8 <= e_j + 6; r_j += 8) {
      __global float* o0 = O0 + r_j + 11*r_i;
      __global const float* b0 = I0 + r_i;
      __global const float* b1 = I1 + r_j;
      const float x0 = b0[0];
      const float x1 = b1[0];
      float a0_0 = (x0 * x1);
      const float x2 = b1[1];
      float a1_0 = (x0 * x2);
      o0[0] = a0_0;
      o0[1] = a1_0;
    }
    if (r_j + 1 <= e_j) {
      __global float* o0 = O0 + r_j + 11*r_i;
      __global const float* b0 = I0 + r_i;
      __global const float* b1 = I1 + r_j;
      const float x0 = b0[0];
      const float x1 = b1[0];
      float a0_0 = (x0 * x1);
      o0[0] = a0_0;
    }
  }
}
