// out_view(y: float32[6, 7] (i, j) -> (i, j))
// md_hom[i:6, j:7](take, (cc, cc))
// inp_view(at: int32[6] (i, j) -> (i); x: float32[7, 7] (i, j) -> (int64(p0), j))
// gpu: parts i:1 j:1; threads i:2 j:4
// tiles i:0 j:0; registers i:1 j:1; lanes none
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
void kernel_0(BUFFER(__global const int) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const int* I0 = (__global const int*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  const long lo_i = 0;
  const long hi_i = 6;
  const long lo_j = 0;
  const long hi_j = 7;
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
    long r_j = x_j + t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 4 <= e_j + 3; r_j += 4) {
      __global float* o0 = O0 + r_j + 7*r_i;
      __global const int* b0 = I0 + r_i;
      __global const float* b1 = I1 + r_j;
      const int x0 = b0[0];
      const long c0 = (long)(x0);
      const long g1 = (long)((ulong)(max(min(((c0 < (long)(0L)) ? (long)((ulong)(c0) + (ulong)((long)(7))) : c0), (long)(6)), (long)(0L))) * (ulong)((long)(7)));
      const float x2 = b1[g1];
      float a0_0 = x2;
      o0[0] = a0_0;
    }
  }
}
