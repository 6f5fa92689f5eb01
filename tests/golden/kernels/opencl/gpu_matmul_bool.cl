// out_view(out: bool[3, 9] (i, j, k) -> (i, k))
// md_hom[i:3, j:5, k:9](mul, (cc, pw(add), cc))
// inp_view(A: bool[3, 5] (i, j, k) -> (i, j); B: bool[5, 9] (i, j, k) -> (j, k))
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
void kernel_0(BUFFER(__global const uchar) at_I0, BUFFER(__global const uchar) at_I1, BUFFER(__global uchar) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const uchar* I0 = (__global const uchar*)at_I0;
  __global const uchar* I1 = (__global const uchar*)at_I1;
  __global uchar* O0 = (__global uchar*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  const long lo_i = 0;
  const long hi_i = 3;
  const long lo_j = 0;
  const long hi_j = 5;
  const long lo_k = 0;
  const long hi_k = 9;
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
      __global uchar* o0 = O0 + r_k + 9*r_i;
      __global const uchar* b0 = I0 + 5*r_i;
      __global const uchar* b1 = I1 + r_k;
      uchar a0_0 = (uchar)(0);
      uchar a1_0 = (uchar)(0);
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const uchar* p0 = b0 + r_j;
        __global const uchar* p1 = b1 + 9*r_j;
        const uchar x0 = (uchar)(p0[0] != 0);
        const uchar x1 = (uchar)(p1[0] != 0);
        a0_0 = (a0_0 | (x0 & x1));
        const uchar x2 = (uchar)(p1[1] != 0);
        a1_0 = (a1_0 | (x0 & x2));
      }
      o0[0] = (uchar)(a0_0);
      o0[1] = (uchar)(a1_0);
    }
    if (r_k + 1 <= e_k) {
      __global uchar* o0 = O0 + r_k + 9*r_i;
      __global const uchar* b0 = I0 + 5*r_i;
      __global const uchar* b1 = I1 + r_k;
      uchar a0_0 = (uchar)(0);
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const uchar* p0 = b0 + r_j;
        __global const uchar* p1 = b1 + 9*r_j;
        const uchar x0 = (uchar)(p0[0] != 0);
        const uchar x1 = (uchar)(p1[0] != 0);
        a0_0 = (a0_0 | (x0 & x1));
      }
      o0[0] = (uchar)(a0_0);
    }
  }
}
