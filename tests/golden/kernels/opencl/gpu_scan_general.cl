// out_view(y: float32[7, 10] (i, j) -> (i, j))
// epilogue(f)(x: float32[7, 10] (i, j) -> ; b: float32[10] (i, j) -> (j))
// md_hom[i:7, j:10](f, (ps(add), cc), epilogue f)
// inp_view(x: float32[7, 10] (i, j) -> (i, j); b: float32[10] (i, j) -> )
// gpu: parts d0:0 d1:0; threads d0:1 d1:4
// tiles d0:0 d1:0; registers d0:1 d1:1; lanes none
// order d0 d1 | d1 | d0
// staged nothing
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(4, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch, BUFFER(__global const long) at_sizes)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  __global const long* sizes = (__global const long*)at_sizes;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  const long N0 = sizes[0];
  const long N1 = sizes[1];
  const long stride0_0 = sizes[2];
  const long step0_0 = sizes[3];
  const long B_d0 = sizes[4];
  const long B_d1 = sizes[5];
  const long P_d0 = sizes[6];
  const long P_d1 = sizes[7];
  const long z_d1 = (group) % (P_d1);
  const long g_d1 = (group) / (P_d1);
  const long lo_d1 = 4*z_d1*B_d1;
  const long hi_d1 = (lo_d1 + 4*B_d1 < N1 ? lo_d1 + 4*B_d1 : N1);
  const long z_d0 = g_d1;
  const long lo_d0 = z_d0*B_d0;
  const long hi_d0 = (lo_d0 + B_d0 < N0 ? lo_d0 + B_d0 : N0);
  const long x_d1 = (item) % (4);
  const long y_d1 = (item) / (4);
  __global float* R0 = (__global float*)(scratch);
  const long t_d0 = lo_d0;
  const long e_d0 = hi_d0;
  const long t_d1 = lo_d1;
  const long e_d1 = hi_d1;
  long r_d1 = x_d1 + t_d1;
  #pragma clang loop vectorize(disable)
  for (; r_d1 + 4 <= e_d1 + 3; r_d1 += 4) {
    __global float* o0 = R0 + r_d1 + z_d0*N1;
    __global const float* b0 = I0 + r_d1;
    __global const float* b1 = I1 + r_d1;
    float a0_0 = -0.0f;
    long flushes = 0;
    float ha0_0 = -0.0f;
    float la0_0 = 0.0f;
    long r_d0 = t_d0;
    #pragma clang loop vectorize(disable)
    for (long c_d0 = t_d0; c_d0 + 32 <= e_d0 + 31; c_d0 += 32) {
      const long c_d0_until = (e_d0 < c_d0 + 32 ? e_d0 : c_d0 + 32);
      #pragma clang loop vectorize(disable)
      for (; r_d0 < c_d0_until; r_d0++) {
        __global const float* p0 = b0 + stride0_0*r_d0;
        __global const float* p1 = b1;
        const float x0 = p0[0];
        a0_0 = (a0_0 + x0);
      }
      if (c_d0_until + 1 <= e_d0) {
        const float ta0_0 = (a0_0 - la0_0);
        const float pa0_0 = (ha0_0 + ta0_0);
        const float qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
        la0_0 = (((qa0_0 - qa0_0) == 0.0f) ? qa0_0 : 0.0f);
        ha0_0 = pa0_0;
        flushes += 1;
        a0_0 = -0.0f;
      }
    }
    if (0 < flushes) {
      const float ta0_0 = (a0_0 - la0_0);
      const float pa0_0 = (ha0_0 + ta0_0);
      const float qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
      la0_0 = (((qa0_0 - qa0_0) == 0.0f) ? qa0_0 : 0.0f);
      ha0_0 = pa0_0;
      a0_0 = ha0_0;
    }
    o0[0] = a0_0;
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_1(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch, BUFFER(__global const long) at_sizes)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  __global const long* sizes = (__global const long*)at_sizes;
  const long group = get_group_id(0);
  const long N0 = sizes[0];
  const long N1 = sizes[1];
  const long stride0_0 = sizes[2];
  const long step0_0 = sizes[3];
  const long B_d0 = sizes[4];
  const long B_d1 = sizes[5];
  const long P_d0 = sizes[6];
  const long P_d1 = sizes[7];
  __global float* R0 = (__global float*)(scratch);
  #pragma clang loop vectorize(disable)
  for (long m = 0; m < N1; m++) {
    float a0 = -0.0f;
    #pragma clang loop vectorize(disable)
    for (long n = 0; n < P_d0; n++) {
      const float t0 = R0[m + n*N1];
      R0[m + n*N1] = a0;
      const float n0 = (a0 + t0);
      a0 = n0;
    }
  }
}

__kernel __attribute__((reqd_work_group_size(4, 1, 1)))
void kernel_2(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch, BUFFER(__global const long) at_sizes)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  __global const long* sizes = (__global const long*)at_sizes;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  const long N0 = sizes[0];
  const long N1 = sizes[1];
  const long stride0_0 = sizes[2];
  const long step0_0 = sizes[3];
  const long B_d0 = sizes[4];
  const long B_d1 = sizes[5];
  const long P_d0 = sizes[6];
  const long P_d1 = sizes[7];
  const long z_d1 = (group) % (P_d1);
  const long g_d1 = (group) / (P_d1);
  const long lo_d1 = 4*z_d1*B_d1;
  const long hi_d1 = (lo_d1 + 4*B_d1 < N1 ? lo_d1 + 4*B_d1 : N1);
  const long z_d0 = g_d1;
  const long lo_d0 = z_d0*B_d0;
  const long hi_d0 = (lo_d0 + B_d0 < N0 ? lo_d0 + B_d0 : N0);
  const long x_d1 = (item) % (4);
  const long y_d1 = (item) / (4);
  __global float* R0 = (__global float*)(scratch);
  const long t_d0 = lo_d0;
  const long e_d0 = hi_d0;
  const long t_d1 = lo_d1;
  const long e_d1 = hi_d1;
  long r_d1 = x_d1 + t_d1;
  #pragma clang loop vectorize(disable)
  for (; r_d1 + 4 <= e_d1 + 3; r_d1 += 4) {
    __global float* o0 = O0 + r_d1;
    __global float* carry0 = R0 + r_d1 + z_d0*N1;
    __global const float* b0 = I0 + r_d1;
    __global const float* b1 = I1 + r_d1;
    float a0_0 = carry0[0];
    long r_d0 = t_d0;
    #pragma clang loop vectorize(disable)
    for (; r_d0 < e_d0; r_d0++) {
      __global const float* p0 = b0 + stride0_0*r_d0;
      __global const float* p1 = b1;
      __global float* q0 = o0 + step0_0*r_d0;
      const float x0 = p0[0];
      const float v0_0_0_0 = x0;
      const float w0_0_0_0 = (a0_0 + v0_0_0_0);
      a0_0 = w0_0_0_0;
      const float xe0 = p1[0];
      const float f0_0_0_0 = ((w0_0_0_0 * 2.0f) + xe0);
      q0[0] = f0_0_0_0;
    }
  }
}
