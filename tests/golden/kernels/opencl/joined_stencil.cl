// out_view(y: float32[7, 37] (i, j) -> (i, j))
// md_hom[i:7, j:37](f, (cc, cc))
// inp_view(x: float32[8, 38] (i, j) -> (i, j), (i, j+1), (i+1, j))
// cpu: parts i:1 j:1; threads i:1 j:1
// tiles i:0 j:0; registers i:3 j:16; lanes j x8
// order i j | i j | -
// staged nothing
// tail split; streaming True; inline False; peel; ahead 2
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long lo_i = 0;
  const long hi_i = 7;
  const long lo_j = 0;
  const long hi_j = 37;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 3 <= e_i; r_i += 3) {
    long r_j = t_j;
    const long head_j = (-(size_t)(O0 + r_j + 37*r_i) & 31) / 4;
    const long whole_j = (t_j + head_j < e_j ? t_j + head_j : e_j);
    if (r_j + 4 <= whole_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float4 x0 = vload4(0, b0);
      const float4 x1 = vload4(0, b0 + 1);
      const float4 x2 = vload4(0, b0 + 38);
      float4 a0_0 = ((x0 + (x1 * (float4)(2.0f))) + x2);
      const float4 x3 = vload4(0, b0 + 39);
      const float4 x4 = vload4(0, b0 + 76);
      float4 a1_0 = ((x2 + (x3 * (float4)(2.0f))) + x4);
      const float4 x5 = vload4(0, b0 + 77);
      const float4 x6 = vload4(0, b0 + 114);
      float4 a2_0 = ((x4 + (x5 * (float4)(2.0f))) + x6);
      vstore4(a0_0, 0, o0);
      vstore4(a1_0, 0, o0 + 37);
      vstore4(a2_0, 0, o0 + 74);
      r_j += 4;
    }
    if (r_j + 2 <= whole_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float2 x0 = vload2(0, b0);
      const float2 x1 = vload2(0, b0 + 1);
      const float2 x2 = vload2(0, b0 + 38);
      float2 a0_0 = ((x0 + (x1 * (float2)(2.0f))) + x2);
      const float2 x3 = vload2(0, b0 + 39);
      const float2 x4 = vload2(0, b0 + 76);
      float2 a1_0 = ((x2 + (x3 * (float2)(2.0f))) + x4);
      const float2 x5 = vload2(0, b0 + 77);
      const float2 x6 = vload2(0, b0 + 114);
      float2 a2_0 = ((x4 + (x5 * (float2)(2.0f))) + x6);
      vstore2(a0_0, 0, o0);
      vstore2(a1_0, 0, o0 + 37);
      vstore2(a2_0, 0, o0 + 74);
      r_j += 2;
    }
    if (r_j + 1 <= whole_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float x0 = b0[0];
      const float x1 = b0[1];
      const float x2 = b0[38];
      float a0_0 = ((x0 + (x1 * 2.0f)) + x2);
      const float x3 = b0[39];
      const float x4 = b0[76];
      float a1_0 = ((x2 + (x3 * 2.0f)) + x4);
      const float x5 = b0[77];
      const float x6 = b0[114];
      float a2_0 = ((x4 + (x5 * 2.0f)) + x6);
      o0[0] = a0_0;
      o0[37] = a1_0;
      o0[74] = a2_0;
      r_j += 1;
    }
    if (r_j + 8 <= e_j) {
      float8 last1;
      float8 last2;
      {
        __global float* o0 = O0 + r_j + 37*r_i;
        __global const float* b0 = I0 + r_j + 38*r_i;
        __builtin_prefetch((const void*)(size_t)(b0 + 146));
        __builtin_prefetch((const void*)(size_t)(b0 + 109));
        __builtin_prefetch((const void*)(size_t)(b0 + 71));
        __builtin_prefetch((const void*)(size_t)(b0 + 33));
        const float8 x0 = vload8(0, b0);
        const float8 x1 = vload8(0, b0 + 1);
        const float8 x2 = vload8(0, b0 + 38);
        float8 a0_0 = ((x0 + (x1 * (float8)(2.0f))) + x2);
        const float8 x3 = vload8(0, b0 + 39);
        const float8 x4 = vload8(0, b0 + 76);
        float8 a1_0 = ((x2 + (x3 * (float8)(2.0f))) + x4);
        const float8 x5 = vload8(0, b0 + 77);
        const float8 x6 = vload8(0, b0 + 114);
        float8 a2_0 = ((x4 + (x5 * (float8)(2.0f))) + x6);
        __builtin_nontemporal_store(a0_0, (__global float8*)(o0));
        vstore2(a1_0.s01, 0, o0 + 37);
        o0[39] = a1_0.s2;
        last1 = a1_0;
        vstore4(a2_0.lo, 0, o0 + 74);
        vstore2(a2_0.s45, 0, o0 + 78);
        last2 = a2_0;
        r_j += 8;
      }
      #pragma clang loop vectorize(disable)
      for (; r_j + 16 <= e_j; r_j += 16) {
        __global float* o0 = O0 + r_j + 37*r_i;
        __global const float* b0 = I0 + r_j + 38*r_i;
        __builtin_prefetch((const void*)(size_t)(b0 + 154));
        __builtin_prefetch((const void*)(size_t)(b0 + 117));
        __builtin_prefetch((const void*)(size_t)(b0 + 79));
        __builtin_prefetch((const void*)(size_t)(b0 + 41));
        const float8 x0 = vload8(0, b0);
        const float8 x1 = vload8(0, b0 + 1);
        const float8 x2 = vload8(0, b0 + 38);
        float8 a0_0 = ((x0 + (x1 * (float8)(2.0f))) + x2);
        const float8 x3 = vload8(0, b0 + 8);
        const float8 x4 = vload8(0, b0 + 9);
        const float8 x5 = vload8(0, b0 + 46);
        float8 a0_1 = ((x3 + (x4 * (float8)(2.0f))) + x5);
        const float8 x6 = vload8(0, b0 + 39);
        const float8 x7 = vload8(0, b0 + 76);
        float8 a1_0 = ((x2 + (x6 * (float8)(2.0f))) + x7);
        const float8 x8 = vload8(0, b0 + 47);
        const float8 x9 = vload8(0, b0 + 84);
        float8 a1_1 = ((x5 + (x8 * (float8)(2.0f))) + x9);
        const float8 x10 = vload8(0, b0 + 77);
        const float8 x11 = vload8(0, b0 + 114);
        float8 a2_0 = ((x7 + (x10 * (float8)(2.0f))) + x11);
        const float8 x12 = vload8(0, b0 + 85);
        const float8 x13 = vload8(0, b0 + 122);
        float8 a2_1 = ((x9 + (x12 * (float8)(2.0f))) + x13);
        __builtin_nontemporal_store(a0_0, (__global float8*)(o0));
        __builtin_nontemporal_store(a0_1, (__global float8*)(o0 + 8));
        __builtin_nontemporal_store(__builtin_shufflevector(last1, a1_0, 3, 4, 5, 6, 7, 8, 9, 10), (__global float8*)(o0 + 32));
        __builtin_nontemporal_store(__builtin_shufflevector(a1_0, a1_1, 3, 4, 5, 6, 7, 8, 9, 10), (__global float8*)(o0 + 40));
        last1 = a1_1;
        __builtin_nontemporal_store(__builtin_shufflevector(last2, a2_0, 6, 7, 8, 9, 10, 11, 12, 13), (__global float8*)(o0 + 72));
        __builtin_nontemporal_store(__builtin_shufflevector(a2_0, a2_1, 6, 7, 8, 9, 10, 11, 12, 13), (__global float8*)(o0 + 80));
        last2 = a2_1;
      }
      #pragma clang loop vectorize(disable)
      for (; r_j + 8 <= e_j; r_j += 8) {
        __global float* o0 = O0 + r_j + 37*r_i;
        __global const float* b0 = I0 + r_j + 38*r_i;
        __builtin_prefetch((const void*)(size_t)(b0 + 146));
        __builtin_prefetch((const void*)(size_t)(b0 + 109));
        __builtin_prefetch((const void*)(size_t)(b0 + 71));
        __builtin_prefetch((const void*)(size_t)(b0 + 33));
        const float8 x0 = vload8(0, b0);
        const float8 x1 = vload8(0, b0 + 1);
        const float8 x2 = vload8(0, b0 + 38);
        float8 a0_0 = ((x0 + (x1 * (float8)(2.0f))) + x2);
        const float8 x3 = vload8(0, b0 + 39);
        const float8 x4 = vload8(0, b0 + 76);
        float8 a1_0 = ((x2 + (x3 * (float8)(2.0f))) + x4);
        const float8 x5 = vload8(0, b0 + 77);
        const float8 x6 = vload8(0, b0 + 114);
        float8 a2_0 = ((x4 + (x5 * (float8)(2.0f))) + x6);
        __builtin_nontemporal_store(a0_0, (__global float8*)(o0));
        __builtin_nontemporal_store(__builtin_shufflevector(last1, a1_0, 3, 4, 5, 6, 7, 8, 9, 10), (__global float8*)(o0 + 32));
        last1 = a1_0;
        __builtin_nontemporal_store(__builtin_shufflevector(last2, a2_0, 6, 7, 8, 9, 10, 11, 12, 13), (__global float8*)(o0 + 72));
        last2 = a2_0;
      }
      {
        __global float* o0 = O0 + r_j + 37*r_i;
        o0[32] = last1.s3;
        vstore4(last1.hi, 0, o0 + 33);
        vstore2(last2.s67, 0, o0 + 72);
      }
    }
    if (r_j + 4 <= e_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float4 x0 = vload4(0, b0);
      const float4 x1 = vload4(0, b0 + 1);
      const float4 x2 = vload4(0, b0 + 38);
      float4 a0_0 = ((x0 + (x1 * (float4)(2.0f))) + x2);
      const float4 x3 = vload4(0, b0 + 39);
      const float4 x4 = vload4(0, b0 + 76);
      float4 a1_0 = ((x2 + (x3 * (float4)(2.0f))) + x4);
      const float4 x5 = vload4(0, b0 + 77);
      const float4 x6 = vload4(0, b0 + 114);
      float4 a2_0 = ((x4 + (x5 * (float4)(2.0f))) + x6);
      vstore4(a0_0, 0, o0);
      vstore4(a1_0, 0, o0 + 37);
      vstore4(a2_0, 0, o0 + 74);
      r_j += 4;
    }
    if (r_j + 2 <= e_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float2 x0 = vload2(0, b0);
      const float2 x1 = vload2(0, b0 + 1);
      const float2 x2 = vload2(0, b0 + 38);
      float2 a0_0 = ((x0 + (x1 * (float2)(2.0f))) + x2);
      const float2 x3 = vload2(0, b0 + 39);
      const float2 x4 = vload2(0, b0 + 76);
      float2 a1_0 = ((x2 + (x3 * (float2)(2.0f))) + x4);
      const float2 x5 = vload2(0, b0 + 77);
      const float2 x6 = vload2(0, b0 + 114);
      float2 a2_0 = ((x4 + (x5 * (float2)(2.0f))) + x6);
      vstore2(a0_0, 0, o0);
      vstore2(a1_0, 0, o0 + 37);
      vstore2(a2_0, 0, o0 + 74);
      r_j += 2;
    }
    if (r_j + 1 <= e_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float x0 = b0[0];
      const float x1 = b0[1];
      const float x2 = b0[38];
      float a0_0 = ((x0 + (x1 * 2.0f)) + x2);
      const float x3 = b0[39];
      const float x4 = b0[76];
      float a1_0 = ((x2 + (x3 * 2.0f)) + x4);
      const float x5 = b0[77];
      const float x6 = b0[114];
      float a2_0 = ((x4 + (x5 * 2.0f)) + x6);
      o0[0] = a0_0;
      o0[37] = a1_0;
      o0[74] = a2_0;
      r_j += 1;
    }
  }
  if (r_i + 1 <= e_i) {
    long r_j = t_j;
    const long head_j = (-(size_t)(O0 + r_j + 37*r_i) & 31) / 4;
    const long whole_j = (t_j + head_j < e_j ? t_j + head_j : e_j);
    if (r_j + 4 <= whole_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float4 x0 = vload4(0, b0);
      const float4 x1 = vload4(0, b0 + 1);
      const float4 x2 = vload4(0, b0 + 38);
      float4 a0_0 = ((x0 + (x1 * (float4)(2.0f))) + x2);
      vstore4(a0_0, 0, o0);
      r_j += 4;
    }
    if (r_j + 2 <= whole_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float2 x0 = vload2(0, b0);
      const float2 x1 = vload2(0, b0 + 1);
      const float2 x2 = vload2(0, b0 + 38);
      float2 a0_0 = ((x0 + (x1 * (float2)(2.0f))) + x2);
      vstore2(a0_0, 0, o0);
      r_j += 2;
    }
    if (r_j + 1 <= whole_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float x0 = b0[0];
      const float x1 = b0[1];
      const float x2 = b0[38];
      float a0_0 = ((x0 + (x1 * 2.0f)) + x2);
      o0[0] = a0_0;
      r_j += 1;
    }
    #pragma clang loop vectorize(disable)
    for (; r_j + 16 <= e_j; r_j += 16) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      __builtin_prefetch((const void*)(size_t)(b0 + 78));
      __builtin_prefetch((const void*)(size_t)(b0 + 41));
      const float8 x0 = vload8(0, b0);
      const float8 x1 = vload8(0, b0 + 1);
      const float8 x2 = vload8(0, b0 + 38);
      float8 a0_0 = ((x0 + (x1 * (float8)(2.0f))) + x2);
      const float8 x3 = vload8(0, b0 + 8);
      const float8 x4 = vload8(0, b0 + 9);
      const float8 x5 = vload8(0, b0 + 46);
      float8 a0_1 = ((x3 + (x4 * (float8)(2.0f))) + x5);
      __builtin_nontemporal_store(a0_0, (__global float8*)(o0));
      __builtin_nontemporal_store(a0_1, (__global float8*)(o0 + 8));
    }
    #pragma clang loop vectorize(disable)
    for (; r_j + 8 <= e_j; r_j += 8) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      __builtin_prefetch((const void*)(size_t)(b0 + 70));
      __builtin_prefetch((const void*)(size_t)(b0 + 33));
      const float8 x0 = vload8(0, b0);
      const float8 x1 = vload8(0, b0 + 1);
      const float8 x2 = vload8(0, b0 + 38);
      float8 a0_0 = ((x0 + (x1 * (float8)(2.0f))) + x2);
      __builtin_nontemporal_store(a0_0, (__global float8*)(o0));
    }
    if (r_j + 4 <= e_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float4 x0 = vload4(0, b0);
      const float4 x1 = vload4(0, b0 + 1);
      const float4 x2 = vload4(0, b0 + 38);
      float4 a0_0 = ((x0 + (x1 * (float4)(2.0f))) + x2);
      vstore4(a0_0, 0, o0);
      r_j += 4;
    }
    if (r_j + 2 <= e_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float2 x0 = vload2(0, b0);
      const float2 x1 = vload2(0, b0 + 1);
      const float2 x2 = vload2(0, b0 + 38);
      float2 a0_0 = ((x0 + (x1 * (float2)(2.0f))) + x2);
      vstore2(a0_0, 0, o0);
      r_j += 2;
    }
    if (r_j + 1 <= e_j) {
      __global float* o0 = O0 + r_j + 37*r_i;
      __global const float* b0 = I0 + r_j + 38*r_i;
      const float x0 = b0[0];
      const float x1 = b0[1];
      const float x2 = b0[38];
      float a0_0 = ((x0 + (x1 * 2.0f)) + x2);
      o0[0] = a0_0;
      r_j += 1;
    }
  }
}
