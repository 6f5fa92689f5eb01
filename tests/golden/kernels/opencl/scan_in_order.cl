// out_view(a: int32[23] (i) -> (i); b: int32[23] (i) -> (i))
// md_hom[i:23](f, (ps(then)))
// inp_view(x: int32[23] (i) -> (i))
// cpu: parts i:1; threads i:1
// tiles i:0; registers i:4; lanes i x4
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
  const long lo_i = 0;
  const long hi_i = 23;
  const long t_i = lo_i;
  const long e_i = hi_i;
  __global int* o0 = O0;
  __global int* o1 = O1;
  __global const int* b0 = I0;
  int a0_0_0 = 1;
  int a0_0_1 = 0;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 4 <= e_i; r_i += 4) {
    __global const int* p0 = b0 + r_i;
    __global int* q0 = o0 + r_i;
    __global int* q1 = o1 + r_i;
    const int4 x0 = vload4(0, p0);
    const int4 v0_0_0_0 = x0;
    const int4 v0_0_0_1 = as_int4(as_uint4((int4)((int)(r_i))) + as_uint4((int4)(0, 1, 2, 3)));
    const int4 u0_0_0_1_0 = as_int4(as_uint4((int4)(1, v0_0_0_0.s01, v0_0_0_0.s2)) * as_uint4(v0_0_0_0));
    const int4 u0_0_0_1_1 = as_int4(as_uint4(as_int4(as_uint4((int4)(0, v0_0_0_1.s01, v0_0_0_1.s2)) * as_uint4(v0_0_0_0))) + as_uint4(v0_0_0_1));
    const int4 u0_0_0_2_0 = as_int4(as_uint4((int4)(1, 1, u0_0_0_1_0.s01)) * as_uint4(u0_0_0_1_0));
    const int4 u0_0_0_2_1 = as_int4(as_uint4(as_int4(as_uint4((int4)(0, 0, u0_0_0_1_1.s01)) * as_uint4(u0_0_0_1_0))) + as_uint4(u0_0_0_1_1));
    const int4 w0_0_0_0 = as_int4(as_uint4((int4)(a0_0_0)) * as_uint4(u0_0_0_2_0));
    const int4 w0_0_0_1 = as_int4(as_uint4(as_int4(as_uint4((int4)(a0_0_1)) * as_uint4(u0_0_0_2_0))) + as_uint4(u0_0_0_2_1));
    const int l0_0_0_0 = (int)((uint)(a0_0_0) * (uint)(u0_0_0_2_0.s3));
    const int l0_0_0_1 = (int)((uint)((int)((uint)(a0_0_1) * (uint)(u0_0_0_2_0.s3))) + (uint)(u0_0_0_2_1.s3));
    a0_0_0 = l0_0_0_0;
    a0_0_1 = l0_0_0_1;
    vstore4(w0_0_0_0, 0, q0);
    vstore4(w0_0_0_1, 0, q1);
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
