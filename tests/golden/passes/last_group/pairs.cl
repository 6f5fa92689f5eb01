#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global float) at_O0, BUFFER(__global long) at_O1, BUFFER(__global uchar) at_scratch, BUFFER(__global uint) at_counters)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global float* O0 = (__global float*)at_O0;
  __global long* O1 = (__global long*)at_O1;
  __global uchar* scratch = (__global uchar*)at_scratch;
  __global uint* counters = (__global uint*)at_counters;
  const long group = get_group_id(0);
  const long item = get_local_id(0);
  __local float L0[2] __attribute__((aligned(16)));
  __local long L1[2] __attribute__((aligned(16)));
  __local float X0[64];
  __local long X1[64];
  const long z_j = (group) % (5);
  const long g_j = (group) / (5);
  const long lo_j = 64*z_j;
  const long hi_j = (lo_j + 64 < 301 ? lo_j + 64 : 301);
  const long z_i = g_j;
  const long lo_i = 4*z_i;
  const long hi_i = (lo_i + 4 < 5 ? lo_i + 4 : 5);
  const long x_j = (item) % (16);
  const long x_j_rest = (item) / (16);
  const long x_i = x_j_rest;
  __global float* R0 = (__global float*)(scratch);
  __global long* R1 = (__global long*)(scratch + 200);
  const long t_j = lo_j;
  const long e_j = hi_j;
  #pragma clang loop vectorize(disable)
  for (long t_i = lo_i; t_i + 2 <= hi_i + 1; t_i += 2) {
    const long e_i = (t_i + 2 < hi_i ? t_i + 2 : hi_i);
    const long r_i = x_i + t_i;
    const long q_i_0 = (r_i < 4 ? r_i : 4);
    __global const float* b0 = I0;
    float a0_0_0 = -INFINITY;
    long a0_0_1 = (long)(4611686018427387904L);
    long r_j = 2*x_j + t_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 32 <= 2*x_j + e_j; r_j += 32) {
      __global const float* p0 = b0 + r_j;
      const float x0 = p0[301*q_i_0];
      const float x1 = p0[301*q_i_0 + 1];
      if (((x0 > a0_0_0) | ((x0 == a0_0_0) & ((long)(r_j) < a0_0_1)))) {
        a0_0_0 = x0;
        a0_0_1 = (long)(r_j);
      }
      if (((x1 > a0_0_0) | ((x1 == a0_0_0) & ((long)(r_j + 1) < a0_0_1)))) {
        a0_0_0 = x1;
        a0_0_1 = (long)(r_j + 1);
      }
    }
    r_j += -x_j;
    #pragma clang loop vectorize(disable)
    for (; r_j + 16 <= e_j + 15; r_j += 16) {
      __global const float* p0 = b0 + r_j;
      const float x0 = p0[301*q_i_0];
      if (((x0 > a0_0_0) | ((x0 == a0_0_0) & ((long)(r_j) < a0_0_1)))) {
        a0_0_0 = x0;
        a0_0_1 = (long)(r_j);
      }
    }
    __global float* o0 = R0 + 5*z_j + r_i;
    __global long* o1 = R1 + 5*z_j + r_i;
    const long place = (item) % (16);
    barrier(CLK_LOCAL_MEM_FENCE);
    X0[item + 0] = a0_0_0;
    X1[item + 0] = a0_0_1;
    barrier(CLK_LOCAL_MEM_FENCE);
    const float t0_1_0 = X0[min(item + 1, 31L) + 0];
    const long t0_1_1 = X1[min(item + 1, 31L) + 0];
    const float n0_1_0 = (((t0_1_0 > a0_0_0) | ((t0_1_0 == a0_0_0) & (t0_1_1 < a0_0_1))) ? t0_1_0 : a0_0_0);
    const long n0_1_1 = (((t0_1_0 > a0_0_0) | ((t0_1_0 == a0_0_0) & (t0_1_1 < a0_0_1))) ? t0_1_1 : a0_0_1);
    a0_0_0 = n0_1_0;
    a0_0_1 = n0_1_1;
    barrier(CLK_LOCAL_MEM_FENCE);
    X0[item + 0] = a0_0_0;
    X1[item + 0] = a0_0_1;
    barrier(CLK_LOCAL_MEM_FENCE);
    const float t0_2_0 = X0[min(item + 2, 31L) + 0];
    const long t0_2_1 = X1[min(item + 2, 31L) + 0];
    const float n0_2_0 = (((t0_2_0 > a0_0_0) | ((t0_2_0 == a0_0_0) & (t0_2_1 < a0_0_1))) ? t0_2_0 : a0_0_0);
    const long n0_2_1 = (((t0_2_0 > a0_0_0) | ((t0_2_0 == a0_0_0) & (t0_2_1 < a0_0_1))) ? t0_2_1 : a0_0_1);
    a0_0_0 = n0_2_0;
    a0_0_1 = n0_2_1;
    barrier(CLK_LOCAL_MEM_FENCE);
    X0[item + 0] = a0_0_0;
    X1[item + 0] = a0_0_1;
    barrier(CLK_LOCAL_MEM_FENCE);
    const float t0_4_0 = X0[min(item + 4, 31L) + 0];
    const long t0_4_1 = X1[min(item + 4, 31L) + 0];
    const float n0_4_0 = (((t0_4_0 > a0_0_0) | ((t0_4_0 == a0_0_0) & (t0_4_1 < a0_0_1))) ? t0_4_0 : a0_0_0);
    const long n0_4_1 = (((t0_4_0 > a0_0_0) | ((t0_4_0 == a0_0_0) & (t0_4_1 < a0_0_1))) ? t0_4_1 : a0_0_1);
    a0_0_0 = n0_4_0;
    a0_0_1 = n0_4_1;
    barrier(CLK_LOCAL_MEM_FENCE);
    X0[item + 0] = a0_0_0;
    X1[item + 0] = a0_0_1;
    barrier(CLK_LOCAL_MEM_FENCE);
    const float t0_8_0 = X0[min(item + 8, 31L) + 0];
    const long t0_8_1 = X1[min(item + 8, 31L) + 0];
    const float n0_8_0 = (((t0_8_0 > a0_0_0) | ((t0_8_0 == a0_0_0) & (t0_8_1 < a0_0_1))) ? t0_8_0 : a0_0_0);
    const long n0_8_1 = (((t0_8_0 > a0_0_0) | ((t0_8_0 == a0_0_0) & (t0_8_1 < a0_0_1))) ? t0_8_1 : a0_0_1);
    a0_0_0 = n0_8_0;
    a0_0_1 = n0_8_1;
    if (place < 1) {
      const long room0 = -t_i + e_i - 2;
      if (0 <= room0) {
        o0[0] = a0_0_0;
        o1[0] = a0_0_1;
      } else {
        if (r_i < e_i) {
          o0[0] = a0_0_0;
          o1[0] = a0_0_1;
        }
      }
    }
  }
  __local int arrived;
  atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_local_id(0) == 0) {
    volatile __global uint* counter = counters + z_i;
    arrived = atomic_add(counter, 1u) + 1 == 5;
    if (arrived) *counter = 0;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device);
  const long last = arrived;
  if (0 < last) {
    __global const float* I0 = (__global const float*)(scratch);
    __global const long* I1 = (__global const long*)(scratch + 200);
    const long lo_groups = 0;
    const long hi_groups = 5;
    const long x_groups = item;
    const long t_groups = lo_groups;
    const long e_groups = hi_groups;
    #pragma clang loop vectorize(disable)
    for (long t_i = lo_i; t_i + 2 <= hi_i + 1; t_i += 2) {
      const long e_i = (t_i + 2 < hi_i ? t_i + 2 : hi_i);
      const long r_i = t_i;
      const long q_i_0 = (r_i < 4 ? r_i : 4);
      const long q_i_1 = (r_i + 1 < 4 ? r_i + 1 : 4);
      __global const float* b0 = I0;
      __global const long* b1 = I1;
      float a0_0_0 = -INFINITY;
      long a0_0_1 = (long)(4611686018427387904L);
      float a1_0_0 = -INFINITY;
      long a1_0_1 = (long)(4611686018427387904L);
      long r_groups = x_groups + t_groups;
      #pragma clang loop vectorize(disable)
      for (; r_groups + 128 <= x_groups + e_groups; r_groups += 128) {
        __global const float* p0 = b0 + 5*r_groups;
        __global const long* p1 = b1 + 5*r_groups;
        const float x0 = p0[q_i_0];
        const long x1 = p1[q_i_0];
        const float x2 = p0[q_i_1];
        const long x3 = p1[q_i_1];
        const float x4 = p0[q_i_0 + 160];
        const long x5 = p1[q_i_0 + 160];
        const float x6 = p0[q_i_1 + 160];
        const long x7 = p1[q_i_1 + 160];
        const float x8 = p0[q_i_0 + 320];
        const long x9 = p1[q_i_0 + 320];
        const float x10 = p0[q_i_1 + 320];
        const long x11 = p1[q_i_1 + 320];
        const float x12 = p0[q_i_0 + 480];
        const long x13 = p1[q_i_0 + 480];
        const float x14 = p0[q_i_1 + 480];
        const long x15 = p1[q_i_1 + 480];
        if (((x0 > a0_0_0) | ((x0 == a0_0_0) & (x1 < a0_0_1)))) {
          a0_0_0 = x0;
          a0_0_1 = x1;
        }
        if (((x2 > a1_0_0) | ((x2 == a1_0_0) & (x3 < a1_0_1)))) {
          a1_0_0 = x2;
          a1_0_1 = x3;
        }
        if (((x4 > a0_0_0) | ((x4 == a0_0_0) & (x5 < a0_0_1)))) {
          a0_0_0 = x4;
          a0_0_1 = x5;
        }
        if (((x6 > a1_0_0) | ((x6 == a1_0_0) & (x7 < a1_0_1)))) {
          a1_0_0 = x6;
          a1_0_1 = x7;
        }
        if (((x8 > a0_0_0) | ((x8 == a0_0_0) & (x9 < a0_0_1)))) {
          a0_0_0 = x8;
          a0_0_1 = x9;
        }
        if (((x10 > a1_0_0) | ((x10 == a1_0_0) & (x11 < a1_0_1)))) {
          a1_0_0 = x10;
          a1_0_1 = x11;
        }
        if (((x12 > a0_0_0) | ((x12 == a0_0_0) & (x13 < a0_0_1)))) {
          a0_0_0 = x12;
          a0_0_1 = x13;
        }
        if (((x14 > a1_0_0) | ((x14 == a1_0_0) & (x15 < a1_0_1)))) {
          a1_0_0 = x14;
          a1_0_1 = x15;
        }
      }
      #pragma clang loop vectorize(disable)
      for (; r_groups + 32 <= e_groups + 31; r_groups += 32) {
        __global const float* p0 = b0 + 5*r_groups;
        __global const long* p1 = b1 + 5*r_groups;
        const float x0 = p0[q_i_0];
        const long x1 = p1[q_i_0];
        const float x2 = p0[q_i_1];
        const long x3 = p1[q_i_1];
        if (((x0 > a0_0_0) | ((x0 == a0_0_0) & (x1 < a0_0_1)))) {
          a0_0_0 = x0;
          a0_0_1 = x1;
        }
        if (((x2 > a1_0_0) | ((x2 == a1_0_0) & (x3 < a1_0_1)))) {
          a1_0_0 = x2;
          a1_0_1 = x3;
        }
      }
      __global float* o0 = O0 + r_i;
      __global long* o1 = O1 + r_i;
      const long place = (item) % (32);
      barrier(CLK_LOCAL_MEM_FENCE);
      X0[item + 0] = a0_0_0;
      X1[item + 0] = a0_0_1;
      X0[item + 32] = a1_0_0;
      X1[item + 32] = a1_0_1;
      barrier(CLK_LOCAL_MEM_FENCE);
      const float t0_1_0 = X0[min(item + 1, 31L) + 0];
      const long t0_1_1 = X1[min(item + 1, 31L) + 0];
      const float t1_1_0 = X0[min(item + 1, 31L) + 32];
      const long t1_1_1 = X1[min(item + 1, 31L) + 32];
      const float n0_1_0 = (((t0_1_0 > a0_0_0) | ((t0_1_0 == a0_0_0) & (t0_1_1 < a0_0_1))) ? t0_1_0 : a0_0_0);
      const long n0_1_1 = (((t0_1_0 > a0_0_0) | ((t0_1_0 == a0_0_0) & (t0_1_1 < a0_0_1))) ? t0_1_1 : a0_0_1);
      a0_0_0 = n0_1_0;
      a0_0_1 = n0_1_1;
      const float n1_1_0 = (((t1_1_0 > a1_0_0) | ((t1_1_0 == a1_0_0) & (t1_1_1 < a1_0_1))) ? t1_1_0 : a1_0_0);
      const long n1_1_1 = (((t1_1_0 > a1_0_0) | ((t1_1_0 == a1_0_0) & (t1_1_1 < a1_0_1))) ? t1_1_1 : a1_0_1);
      a1_0_0 = n1_1_0;
      a1_0_1 = n1_1_1;
      barrier(CLK_LOCAL_MEM_FENCE);
      X0[item + 0] = a0_0_0;
      X1[item + 0] = a0_0_1;
      X0[item + 32] = a1_0_0;
      X1[item + 32] = a1_0_1;
      barrier(CLK_LOCAL_MEM_FENCE);
      const float t0_2_0 = X0[min(item + 2, 31L) + 0];
      const long t0_2_1 = X1[min(item + 2, 31L) + 0];
      const float t1_2_0 = X0[min(item + 2, 31L) + 32];
      const long t1_2_1 = X1[min(item + 2, 31L) + 32];
      const float n0_2_0 = (((t0_2_0 > a0_0_0) | ((t0_2_0 == a0_0_0) & (t0_2_1 < a0_0_1))) ? t0_2_0 : a0_0_0);
      const long n0_2_1 = (((t0_2_0 > a0_0_0) | ((t0_2_0 == a0_0_0) & (t0_2_1 < a0_0_1))) ? t0_2_1 : a0_0_1);
      a0_0_0 = n0_2_0;
      a0_0_1 = n0_2_1;
      const float n1_2_0 = (((t1_2_0 > a1_0_0) | ((t1_2_0 == a1_0_0) & (t1_2_1 < a1_0_1))) ? t1_2_0 : a1_0_0);
      const long n1_2_1 = (((t1_2_0 > a1_0_0) | ((t1_2_0 == a1_0_0) & (t1_2_1 < a1_0_1))) ? t1_2_1 : a1_0_1);
      a1_0_0 = n1_2_0;
      a1_0_1 = n1_2_1;
      barrier(CLK_LOCAL_MEM_FENCE);
      X0[item + 0] = a0_0_0;
      X1[item + 0] = a0_0_1;
      X0[item + 32] = a1_0_0;
      X1[item + 32] = a1_0_1;
      barrier(CLK_LOCAL_MEM_FENCE);
      const float t0_4_0 = X0[min(item + 4, 31L) + 0];
      const long t0_4_1 = X1[min(item + 4, 31L) + 0];
      const float t1_4_0 = X0[min(item + 4, 31L) + 32];
      const long t1_4_1 = X1[min(item + 4, 31L) + 32];
      const float n0_4_0 = (((t0_4_0 > a0_0_0) | ((t0_4_0 == a0_0_0) & (t0_4_1 < a0_0_1))) ? t0_4_0 : a0_0_0);
      const long n0_4_1 = (((t0_4_0 > a0_0_0) | ((t0_4_0 == a0_0_0) & (t0_4_1 < a0_0_1))) ? t0_4_1 : a0_0_1);
      a0_0_0 = n0_4_0;
      a0_0_1 = n0_4_1;
      const float n1_4_0 = (((t1_4_0 > a1_0_0) | ((t1_4_0 == a1_0_0) & (t1_4_1 < a1_0_1))) ? t1_4_0 : a1_0_0);
      const long n1_4_1 = (((t1_4_0 > a1_0_0) | ((t1_4_0 == a1_0_0) & (t1_4_1 < a1_0_1))) ? t1_4_1 : a1_0_1);
      a1_0_0 = n1_4_0;
      a1_0_1 = n1_4_1;
      barrier(CLK_LOCAL_MEM_FENCE);
      X0[item + 0] = a0_0_0;
      X1[item + 0] = a0_0_1;
      X0[item + 32] = a1_0_0;
      X1[item + 32] = a1_0_1;
      barrier(CLK_LOCAL_MEM_FENCE);
      const float t0_8_0 = X0[min(item + 8, 31L) + 0];
      const long t0_8_1 = X1[min(item + 8, 31L) + 0];
      const float t1_8_0 = X0[min(item + 8, 31L) + 32];
      const long t1_8_1 = X1[min(item + 8, 31L) + 32];
      const float n0_8_0 = (((t0_8_0 > a0_0_0) | ((t0_8_0 == a0_0_0) & (t0_8_1 < a0_0_1))) ? t0_8_0 : a0_0_0);
      const long n0_8_1 = (((t0_8_0 > a0_0_0) | ((t0_8_0 == a0_0_0) & (t0_8_1 < a0_0_1))) ? t0_8_1 : a0_0_1);
      a0_0_0 = n0_8_0;
      a0_0_1 = n0_8_1;
      const float n1_8_0 = (((t1_8_0 > a1_0_0) | ((t1_8_0 == a1_0_0) & (t1_8_1 < a1_0_1))) ? t1_8_0 : a1_0_0);
      const long n1_8_1 = (((t1_8_0 > a1_0_0) | ((t1_8_0 == a1_0_0) & (t1_8_1 < a1_0_1))) ? t1_8_1 : a1_0_1);
      a1_0_0 = n1_8_0;
      a1_0_1 = n1_8_1;
      barrier(CLK_LOCAL_MEM_FENCE);
      X0[item + 0] = a0_0_0;
      X1[item + 0] = a0_0_1;
      X0[item + 32] = a1_0_0;
      X1[item + 32] = a1_0_1;
      barrier(CLK_LOCAL_MEM_FENCE);
      const float t0_16_0 = X0[min(item + 16, 31L) + 0];
      const long t0_16_1 = X1[min(item + 16, 31L) + 0];
      const float t1_16_0 = X0[min(item + 16, 31L) + 32];
      const long t1_16_1 = X1[min(item + 16, 31L) + 32];
      const float n0_16_0 = (((t0_16_0 > a0_0_0) | ((t0_16_0 == a0_0_0) & (t0_16_1 < a0_0_1))) ? t0_16_0 : a0_0_0);
      const long n0_16_1 = (((t0_16_0 > a0_0_0) | ((t0_16_0 == a0_0_0) & (t0_16_1 < a0_0_1))) ? t0_16_1 : a0_0_1);
      a0_0_0 = n0_16_0;
      a0_0_1 = n0_16_1;
      const float n1_16_0 = (((t1_16_0 > a1_0_0) | ((t1_16_0 == a1_0_0) & (t1_16_1 < a1_0_1))) ? t1_16_0 : a1_0_0);
      const long n1_16_1 = (((t1_16_0 > a1_0_0) | ((t1_16_0 == a1_0_0) & (t1_16_1 < a1_0_1))) ? t1_16_1 : a1_0_1);
      a1_0_0 = n1_16_0;
      a1_0_1 = n1_16_1;
      if (place < 1) {
        const long room0 = -t_i + e_i - 2;
        if (0 <= room0) {
          vstore2((float2)(a0_0_0, a1_0_0), 0, o0);
          vstore2((long2)(a0_0_1, a1_0_1), 0, o1);
        } else {
          if (r_i < e_i) {
            o0[0] = a0_0_0;
            o1[0] = a0_0_1;
          }
          if (r_i + 1 < e_i) {
            o0[1] = a1_0_0;
            o1[1] = a1_0_1;
          }
        }
      }
    }
  }
}
