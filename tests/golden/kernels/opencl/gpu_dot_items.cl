// out_view(out: float32[] (i) -> ())
// md_hom[i:203](mul, (pw(add)))
// inp_view(A: float32[203] (i) -> (i); B: float32[203] (i) -> (i))
// gpu: parts i:1; threads i:8
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

__kernel __attribute__((reqd_work_group_size(8, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  const long lo_i = 0;
  const long hi_i = 203;
  const long x_i = (item) % (8);
  const long y_i = (item) / (8);
  __local float L0[8] __attribute__((aligned(16)));
  const long turn1 = (item) % (2);
  const long turn2 = (item) % (4);
  const long turn4 = (item) % (8);
  const long t_i = lo_i;
  const long e_i = hi_i;
  __global float* o0 = O0;
  __global const float* b0 = I0;
  __global const float* b1 = I1;
  float a0_0 = 0.0f;
  long r_i = 2*x_i + t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 16 <= e_i + 14; r_i += 16) {
    __global const float* p0 = b0 + r_i;
    __global const float* p1 = b1 + r_i;
    const float x0 = p0[0];
    const float x1 = p1[0];
    a0_0 = (a0_0 + (x0 * x1));
    const float x2 = p0[1];
    const float x3 = p1[1];
    a0_0 = (a0_0 + (x2 * x3));
  }
  #pragma clang loop vectorize(disable)
  for (; r_i < e_i; r_i++) {
    __global const float* p0 = b0 + r_i;
    __global const float* p1 = b1 + r_i;
    const float x0 = p0[0];
    const float x1 = p1[0];
    a0_0 = (a0_0 + (x0 * x1));
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  L0[item] = a0_0;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (turn1 < 1) {
    if (item + 1 < 8) {
      const float t0_0_1_0 = (L0[item] + L0[item + 1]);
      L0[item] = t0_0_1_0;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (turn2 < 1) {
    if (item + 2 < 8) {
      const float t0_0_2_0 = (L0[item] + L0[item + 2]);
      L0[item] = t0_0_2_0;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (turn4 < 1) {
    if (item + 4 < 8) {
      const float t0_0_4_0 = (L0[item] + L0[item + 4]);
      L0[item] = t0_0_4_0;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  a0_0 = L0[0];
  if (item < 1) {
    o0[0] = a0_0;
  }
}
