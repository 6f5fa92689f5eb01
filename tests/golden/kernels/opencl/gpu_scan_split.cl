// out_view(a: int32[23] (i) -> (i); b: int32[23] (i) -> (i))
// md_hom[i:23](f, (ps(then)))
// inp_view(x: int32[23] (i) -> (i))
// gpu: parts i:3; threads i:1
// tiles i:0; registers i:2; lanes none
// order i | - | i
// staged nothing
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_0(BUFFER(__global const int) at_I0, BUFFER(__global int) at_O0, BUFFER(__global int) at_O1, BUFFER(__global uchar) at_scratch)
{
  __global const int* I0 = (__global const int*)at_I0;
  __global int* O0 = (__global int*)at_O0;
  __global int* O1 = (__global int*)at_O1;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long z_i = group;
  const long lo_i = 8*z_i;
  const long hi_i = (lo_i + 8 < 23 ? lo_i + 8 : 23);
  __global int* R0 = (__global int*)(scratch);
  __global int* R1 = (__global int*)(scratch + 24);
  const long t_i = lo_i;
  const long e_i = hi_i;
  __global int* o0 = R0 + z_i;
  __global int* o1 = R1 + z_i;
  __global const int* b0 = I0;
  int a0_0_0 = 1;
  int a0_0_1 = 0;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 2 <= e_i; r_i += 2) {
    __global const int* p0 = b0 + r_i;
    const int x0 = p0[0];
    const int n1_0 = (int)((uint)(a0_0_0) * (uint)(x0));
    const int n1_1 = (int)((uint)((int)((uint)(a0_0_1) * (uint)(x0))) + (uint)((int)((long)(r_i))));
    a0_0_0 = n1_0;
    a0_0_1 = n1_1;
    const int x1 = p0[1];
    const int n6_0 = (int)((uint)(a0_0_0) * (uint)(x1));
    const int n6_1 = (int)((uint)((int)((uint)(a0_0_1) * (uint)(x1))) + (uint)((int)((long)(r_i + 1))));
    a0_0_0 = n6_0;
    a0_0_1 = n6_1;
  }
  #pragma clang loop vectorize(disable)
  for (; r_i < e_i; r_i++) {
    __global const int* p0 = b0 + r_i;
    const int x0 = p0[0];
    const int n1_0 = (int)((uint)(a0_0_0) * (uint)(x0));
    const int n1_1 = (int)((uint)((int)((uint)(a0_0_1) * (uint)(x0))) + (uint)((int)((long)(r_i))));
    a0_0_0 = n1_0;
    a0_0_1 = n1_1;
  }
  o0[0] = a0_0_0;
  o1[0] = a0_0_1;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_1(BUFFER(__global const int) at_I0, BUFFER(__global int) at_O0, BUFFER(__global int) at_O1, BUFFER(__global uchar) at_scratch)
{
  __global const int* I0 = (__global const int*)at_I0;
  __global int* O0 = (__global int*)at_O0;
  __global int* O1 = (__global int*)at_O1;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  __global int* R0 = (__global int*)(scratch);
  __global int* R1 = (__global int*)(scratch + 24);
  #pragma clang loop vectorize(disable)
  for (long m = 0; m < 1; m++) {
    int a0 = 1;
    int a1 = 0;
    #pragma clang loop vectorize(disable)
    for (long n = 0; n < 3; n++) {
      const int t0 = R0[n + m];
      const int t1 = R1[n + m];
      R0[n + m] = a0;
      R1[n + m] = a1;
      const int n0 = (int)((uint)(a0) * (uint)(t0));
      const int n1 = (int)((uint)((int)((uint)(a1) * (uint)(t0))) + (uint)(t1));
      a0 = n0;
      a1 = n1;
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_2(BUFFER(__global const int) at_I0, BUFFER(__global int) at_O0, BUFFER(__global int) at_O1, BUFFER(__global uchar) at_scratch)
{
  __global const int* I0 = (__global const int*)at_I0;
  __global int* O0 = (__global int*)at_O0;
  __global int* O1 = (__global int*)at_O1;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long z_i = group;
  const long lo_i = 8*z_i;
  const long hi_i = (lo_i + 8 < 23 ? lo_i + 8 : 23);
  __global int* R0 = (__global int*)(scratch);
  __global int* R1 = (__global int*)(scratch + 24);
  const long t_i = lo_i;
  const long e_i = hi_i;
  __global int* o0 = O0;
  __global int* o1 = O1;
  __global int* carry0 = R0 + z_i;
  __global int* carry1 = R1 + z_i;
  __global const int* b0 = I0;
  int a0_0_0 = carry0[0];
  int a0_0_1 = carry1[0];
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 2 <= e_i; r_i += 2) {
    __global const int* p0 = b0 + r_i;
    __global int* q0 = o0 + r_i;
    __global int* q1 = o1 + r_i;
    const int x0 = p0[0];
    const int v0_0_0_0 = x0;
    const int v0_0_0_1 = (int)((long)(r_i));
    const int w0_0_0_0 = (int)((uint)(a0_0_0) * (uint)(v0_0_0_0));
    const int w0_0_0_1 = (int)((uint)((int)((uint)(a0_0_1) * (uint)(v0_0_0_0))) + (uint)(v0_0_0_1));
    a0_0_0 = w0_0_0_0;
    a0_0_1 = w0_0_0_1;
    q0[0] = w0_0_0_0;
    q1[0] = w0_0_0_1;
    const int x1 = p0[1];
    const int v1_0_0_0 = x1;
    const int v1_0_0_1 = (int)((long)(r_i + 1));
    const int w1_0_0_0 = (int)((uint)(a0_0_0) * (uint)(v1_0_0_0));
    const int w1_0_0_1 = (int)((uint)((int)((uint)(a0_0_1) * (uint)(v1_0_0_0))) + (uint)(v1_0_0_1));
    a0_0_0 = w1_0_0_0;
    a0_0_1 = w1_0_0_1;
    q0[1] = w1_0_0_0;
    q1[1] = w1_0_0_1;
  }
  #pragma clang loop vectorize(disable)
  for (; r_i < e_i; r_i++) {
    __global const int* p0 = b0 + r_i;
    __global int* q0 = o0 + r_i;
    __global int* q1 = o1 + r_i;
    const int x0 = p0[0];
    const int v0_0_0_0 = x0;
    const int v0_0_0_1 = (int)((long)(r_i));
    const int w0_0_0_0 = (int)((uint)(a0_0_0) * (uint)(v0_0_0_0));
    const int w0_0_0_1 = (int)((uint)((int)((uint)(a0_0_1) * (uint)(v0_0_0_0))) + (uint)(v0_0_0_1));
    a0_0_0 = w0_0_0_0;
    a0_0_1 = w0_0_0_1;
    q0[0] = w0_0_0_0;
    q1[0] = w0_0_0_1;
  }
}
