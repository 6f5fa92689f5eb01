// out_view(y: float32[3] (i, j) -> (i); at: int64[3] (i, j) -> (i))
// md_hom[i:3, j:21](f, (cc, pw(argmax)))
// inp_view(x: float32[3, 21] (i, j) -> (i, j))
// gpu: parts i:1 j:1; threads i:1 j:4
// tiles i:0 j:0; registers i:1 j:2; lanes none
// order i j | i | j
// staged nothing
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(4, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global float) at_O0, BUFFER(__global long) at_O1, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global float* O0 = (__global float*)at_O0;
  __global long* O1 = (__global long*)at_O1;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  const long lo_i = 0;
  const long hi_i = 3;
  const long lo_j = 0;
  const long hi_j = 21;
  const long x_j = (item) % (4);
  const long y_j = (item) / (4);
  __local float L0[4] __attribute__((aligned(16)));
  __local long L1[4] __attribute__((aligned(16)));
  const long turn1 = (item) % (2);
  const long turn2 = (item) % (4);
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i < e_i; r_i++) {
    __global float* o0 = O0 + r_i;
    __global long* o1 = O1 + r_i;
    __global const float* b0 = I0 + 21*r_i;
    float a0_0_0 = -INFINITY;
    long a0_0_1 = (long)(4611686018427387904L);
    long r_j = 2*x_j + t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 8 <= e_j + 6; r_j += 8) {
      __global const float* p0 = b0 + r_j;
      const float x0 = p0[0];
      const float n1_0 = (((x0 > a0_0_0) | ((x0 == a0_0_0) & ((long)(r_j) < a0_0_1))) ? x0 : a0_0_0);
      const long n1_1 = (((x0 > a0_0_0) | ((x0 == a0_0_0) & ((long)(r_j) < a0_0_1))) ? (long)(r_j) : a0_0_1);
      a0_0_0 = n1_0;
      a0_0_1 = n1_1;
      const float x1 = p0[1];
      const float n6_0 = (((x1 > a0_0_0) | ((x1 == a0_0_0) & ((long)(r_j + 1) < a0_0_1))) ? x1 : a0_0_0);
      const long n6_1 = (((x1 > a0_0_0) | ((x1 == a0_0_0) & ((long)(r_j + 1) < a0_0_1))) ? (long)(r_j + 1) : a0_0_1);
      a0_0_0 = n6_0;
      a0_0_1 = n6_1;
    }
    #pragma clang loop vectorize(disable)
    for (; r_j < e_j; r_j++) {
      __global const float* p0 = b0 + r_j;
      const float x0 = p0[0];
      const float n1_0 = (((x0 > a0_0_0) | ((x0 == a0_0_0) & ((long)(r_j) < a0_0_1))) ? x0 : a0_0_0);
      const long n1_1 = (((x0 > a0_0_0) | ((x0 == a0_0_0) & ((long)(r_j) < a0_0_1))) ? (long)(r_j) : a0_0_1);
      a0_0_0 = n1_0;
      a0_0_1 = n1_1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    L0[item] = a0_0_0;
    L1[item] = a0_0_1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (turn1 < 1) {
      if (item + 1 < 4) {
        const float t0_0_1_0 = (((L0[item + 1] > L0[item]) | ((L0[item + 1] == L0[item]) & (L1[item + 1] < L1[item]))) ? L0[item + 1] : L0[item]);
        const long t0_0_1_1 = (((L0[item + 1] > L0[item]) | ((L0[item + 1] == L0[item]) & (L1[item + 1] < L1[item]))) ? L1[item + 1] : L1[item]);
        L0[item] = t0_0_1_0;
        L1[item] = t0_0_1_1;
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (turn2 < 1) {
      if (item + 2 < 4) {
        const float t0_0_2_0 = (((L0[item + 2] > L0[item]) | ((L0[item + 2] == L0[item]) & (L1[item + 2] < L1[item]))) ? L0[item + 2] : L0[item]);
        const long t0_0_2_1 = (((L0[item + 2] > L0[item]) | ((L0[item + 2] == L0[item]) & (L1[item + 2] < L1[item]))) ? L1[item + 2] : L1[item]);
        L0[item] = t0_0_2_0;
        L1[item] = t0_0_2_1;
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    a0_0_0 = L0[0];
    a0_0_1 = L1[0];
    if (item < 1) {
      o0[0] = a0_0_0;
      o1[0] = a0_0_1;
    }
  }
}
