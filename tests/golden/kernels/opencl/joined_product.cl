// out_view(out: float32[7, 27] (i, j, k) -> (i, k))
// md_hom[i:7, j:5, k:27](mul, (cc, pw(add), cc))
// inp_view(A: float32[7, 5] (i, j, k) -> (i, j); B: float32[5, 27] (i, j, k) -> (j, k))
// cpu: parts i:1 j:1 k:1; threads i:1 j:1 k:1
// tiles i:0 j:2 k:0; registers i:3 j:1 k:4; lanes k x4
// order i j k | i k | j
// staged nothing
// tail split; streaming True; inline False; peel
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long lo_i = 0;
  const long hi_i = 7;
  const long lo_j = 0;
  const long hi_j = 5;
  const long lo_k = 0;
  const long hi_k = 27;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_k = lo_k;
  const long e_k = hi_k;
  #pragma clang loop vectorize(disable)
  for (long t_j = lo_j; t_j + 2 <= hi_j + 1; t_j += 2) {
    const long e_j = (t_j + 2 < hi_j ? t_j + 2 : hi_j);
    long r_i = t_i;
    #pragma clang loop vectorize(disable)
    for (; r_i + 3 <= e_i; r_i += 3) {
      long r_k = t_k;
      const long head_k = (-(size_t)(O0 + r_k + 27*r_i) & 15) / 4;
      const long whole_k = (t_k + head_k < e_k ? t_k + head_k : e_k);
      if (r_k + 2 <= whole_k) {
        __global float* o0 = O0 + r_k + 27*r_i;
        __global const float* b0 = I0 + 5*r_i;
        __global const float* b1 = I1 + r_k;
        float2 a0_0 = (float2)(0.0f);
        float2 a1_0 = (float2)(0.0f);
        float2 a2_0 = (float2)(0.0f);
        long r_j = t_j;
        #pragma clang loop vectorize(disable)
        for (; r_j < e_j; r_j++) {
          __global const float* p0 = b0 + r_j;
          __global const float* p1 = b1 + 27*r_j;
          const float x0 = p0[0];
          const float2 x1 = vload2(0, p1);
          a0_0 = (a0_0 + ((float2)(x0) * x1));
          const float x2 = p0[5];
          a1_0 = (a1_0 + ((float2)(x2) * x1));
          const float x3 = p0[10];
          a2_0 = (a2_0 + ((float2)(x3) * x1));
        }
        if (0 < t_j - lo_j) {
          a0_0 = (vload2(0, o0) + a0_0);
          a1_0 = (vload2(0, o0 + 27) + a1_0);
          a2_0 = (vload2(0, o0 + 54) + a2_0);
        }
        vstore2(a0_0, 0, o0);
        vstore2(a1_0, 0, o0 + 27);
        vstore2(a2_0, 0, o0 + 54);
        r_k += 2;
      }
      if (r_k + 1 <= whole_k) {
        __global float* o0 = O0 + r_k + 27*r_i;
        __global const float* b0 = I0 + 5*r_i;
        __global const float* b1 = I1 + r_k;
        float a0_0 = 0.0f;
        float a1_0 = 0.0f;
        float a2_0 = 0.0f;
        long r_j = t_j;
        #pragma clang loop vectorize(disable)
        for (; r_j < e_j; r_j++) {
          __global const float* p0 = b0 + r_j;
          __global const float* p1 = b1 + 27*r_j;
          const float x0 = p0[0];
          const float x1 = p1[0];
          a0_0 = (a0_0 + (x0 * x1));
          const float x2 = p0[5];
          a1_0 = (a1_0 + (x2 * x1));
          const float x3 = p0[10];
          a2_0 = (a2_0 + (x3 * x1));
        }
        if (0 < t_j - lo_j) {
          a0_0 = (o0[0] + a0_0);
          a1_0 = (o0[27] + a1_0);
          a2_0 = (o0[54] + a2_0);
        }
        o0[0] = a0_0;
        o0[27] = a1_0;
        o0[54] = a2_0;
        r_k += 1;
      }
      if (r_k + 4 <= e_k) {
        float4 last1;
        float4 last2;
        {
          __global float* o0 = O0 + r_k + 27*r_i;
          __global const float* b0 = I0 + 5*r_i;
          __global const float* b1 = I1 + r_k;
          float4 a0_0 = (float4)(0.0f);
          float4 a1_0 = (float4)(0.0f);
          float4 a2_0 = (float4)(0.0f);
          long r_j = t_j;
          #pragma clang loop vectorize(disable)
          for (; r_j < e_j; r_j++) {
            __global const float* p0 = b0 + r_j;
            __global const float* p1 = b1 + 27*r_j;
            const float x0 = p0[0];
            const float4 x1 = vload4(0, p1);
            a0_0 = (a0_0 + ((float4)(x0) * x1));
            const float x2 = p0[5];
            a1_0 = (a1_0 + ((float4)(x2) * x1));
            const float x3 = p0[10];
            a2_0 = (a2_0 + ((float4)(x3) * x1));
          }
          if (0 < t_j - lo_j) {
            a0_0 = (vload4(0, o0) + a0_0);
            a1_0 = (vload4(0, o0 + 27) + a1_0);
            a2_0 = (vload4(0, o0 + 54) + a2_0);
          }
          __builtin_nontemporal_store(a0_0, (__global float4*)(o0));
          o0[27] = a1_0.s0;
          last1 = a1_0;
          vstore2(a2_0.lo, 0, o0 + 54);
          last2 = a2_0;
          r_k += 4;
        }
        #pragma clang loop vectorize(disable)
        for (; r_k + 4 <= e_k; r_k += 4) {
          __global float* o0 = O0 + r_k + 27*r_i;
          __global const float* b0 = I0 + 5*r_i;
          __global const float* b1 = I1 + r_k;
          float4 a0_0 = (float4)(0.0f);
          float4 a1_0 = (float4)(0.0f);
          float4 a2_0 = (float4)(0.0f);
          long r_j = t_j;
          #pragma clang loop vectorize(disable)
          for (; r_j < e_j; r_j++) {
            __global const float* p0 = b0 + r_j;
            __global const float* p1 = b1 + 27*r_j;
            const float x0 = p0[0];
            const float4 x1 = vload4(0, p1);
            a0_0 = (a0_0 + ((float4)(x0) * x1));
            const float x2 = p0[5];
            a1_0 = (a1_0 + ((float4)(x2) * x1));
            const float x3 = p0[10];
            a2_0 = (a2_0 + ((float4)(x3) * x1));
          }
          if (0 < t_j - lo_j) {
            a0_0 = (vload4(0, o0) + a0_0);
            a1_0 = (vload4(0, o0 + 27) + a1_0);
            a2_0 = (vload4(0, o0 + 54) + a2_0);
          }
          __builtin_nontemporal_store(a0_0, (__global float4*)(o0));
          __builtin_nontemporal_store(__builtin_shufflevector(last1, a1_0, 1, 2, 3, 4), (__global float4*)(o0 + 24));
          last1 = a1_0;
          __builtin_nontemporal_store(__builtin_shufflevector(last2, a2_0, 2, 3, 4, 5), (__global float4*)(o0 + 52));
          last2 = a2_0;
        }
        {
          __global float* o0 = O0 + r_k + 27*r_i;
          o0[24] = last1.s1;
          vstore2(last1.hi, 0, o0 + 25);
          vstore2(last2.hi, 0, o0 + 52);
        }
      }
      if (r_k + 2 <= e_k) {
        __global float* o0 = O0 + r_k + 27*r_i;
        __global const float* b0 = I0 + 5*r_i;
        __global const float* b1 = I1 + r_k;
        float2 a0_0 = (float2)(0.0f);
        float2 a1_0 = (float2)(0.0f);
        float2 a2_0 = (float2)(0.0f);
        long r_j = t_j;
        #pragma clang loop vectorize(disable)
        for (; r_j < e_j; r_j++) {
          __global const float* p0 = b0 + r_j;
          __global const float* p1 = b1 + 27*r_j;
          const float x0 = p0[0];
          const float2 x1 = vload2(0, p1);
          a0_0 = (a0_0 + ((float2)(x0) * x1));
          const float x2 = p0[5];
          a1_0 = (a1_0 + ((float2)(x2) * x1));
          const float x3 = p0[10];
          a2_0 = (a2_0 + ((float2)(x3) * x1));
        }
        if (0 < t_j - lo_j) {
          a0_0 = (vload2(0, o0) + a0_0);
          a1_0 = (vload2(0, o0 + 27) + a1_0);
          a2_0 = (vload2(0, o0 + 54) + a2_0);
        }
        vstore2(a0_0, 0, o0);
        vstore2(a1_0, 0, o0 + 27);
        vstore2(a2_0, 0, o0 + 54);
        r_k += 2;
      }
      if (r_k + 1 <= e_k) {
        __global float* o0 = O0 + r_k + 27*r_i;
        __global const float* b0 = I0 + 5*r_i;
        __global const float* b1 = I1 + r_k;
        float a0_0 = 0.0f;
        float a1_0 = 0.0f;
        float a2_0 = 0.0f;
        long r_j = t_j;
        #pragma clang loop vectorize(disable)
        for (; r_j < e_j; r_j++) {
          __global const float* p0 = b0 + r_j;
          __global const float* p1 = b1 + 27*r_j;
          const float x0 = p0[0];
          const float x1 = p1[0];
          a0_0 = (a0_0 + (x0 * x1));
          const float x2 = p0[5];
          a1_0 = (a1_0 + (x2 * x1));
          const float x3 = p0[10];
          a2_0 = (a2_0 + (x3 * x1));
        }
        if (0 < t_j - lo_j) {
          a0_0 = (o0[0] + a0_0);
          a1_0 = (o0[27] + a1_0);
          a2_0 = (o0[54] + a2_0);
        }
        o0[0] = a0_0;
        o0[27] = a1_0;
        o0[54] = a2_0;
        r_k += 1;
      }
    }
    if (r_i + 1 <= e_i) {
      long r_k = t_k;
      const long head_k = (-(size_t)(O0 + r_k + 27*r_i) & 15) / 4;
      const long whole_k = (t_k + head_k < e_k ? t_k + head_k : e_k);
      if (r_k + 2 <= whole_k) {
        __global float* o0 = O0 + r_k + 27*r_i;
        __global const float* b0 = I0 + 5*r_i;
        __global const float* b1 = I1 + r_k;
        float2 a0_0 = (float2)(0.0f);
        long r_j = t_j;
        #pragma clang loop vectorize(disable)
        for (; r_j < e_j; r_j++) {
          __global const float* p0 = b0 + r_j;
          __global const float* p1 = b1 + 27*r_j;
          const float x0 = p0[0];
          const float2 x1 = vload2(0, p1);
          a0_0 = (a0_0 + ((float2)(x0) * x1));
        }
        if (0 < t_j - lo_j) {
          a0_0 = (vload2(0, o0) + a0_0);
        }
        vstore2(a0_0, 0, o0);
        r_k += 2;
      }
      if (r_k + 1 <= whole_k) {
        __global float* o0 = O0 + r_k + 27*r_i;
        __global const float* b0 = I0 + 5*r_i;
        __global const float* b1 = I1 + r_k;
        float a0_0 = 0.0f;
        long r_j = t_j;
        #pragma clang loop vectorize(disable)
        for (; r_j < e_j; r_j++) {
          __global const float* p0 = b0 + r_j;
          __global const float* p1 = b1 + 27*r_j;
          const float x0 = p0[0];
          const float x1 = p1[0];
          a0_0 = (a0_0 + (x0 * x1));
        }
        if (0 < t_j - lo_j) {
          a0_0 = (o0[0] + a0_0);
        }
        o0[0] = a0_0;
        r_k += 1;
      }
      #pragma clang loop vectorize(disable)
      for (; r_k + 4 <= e_k; r_k += 4) {
        __global float* o0 = O0 + r_k + 27*r_i;
        __global const float* b0 = I0 + 5*r_i;
        __global const float* b1 = I1 + r_k;
        float4 a0_0 = (float4)(0.0f);
        long r_j = t_j;
        #pragma clang loop vectorize(disable)
        for (; r_j < e_j; r_j++) {
          __global const float* p0 = b0 + r_j;
          __global const float* p1 = b1 + 27*r_j;
          const float x0 = p0[0];
          const float4 x1 = vload4(0, p1);
          a0_0 = (a0_0 + ((float4)(x0) * x1));
        }
        if (0 < t_j - lo_j) {
          a0_0 = (vload4(0, o0) + a0_0);
        }
        __builtin_nontemporal_store(a0_0, (__global float4*)(o0));
      }
      if (r_k + 2 <= e_k) {
        __global float* o0 = O0 + r_k + 27*r_i;
        __global const float* b0 = I0 + 5*r_i;
        __global const float* b1 = I1 + r_k;
        float2 a0_0 = (float2)(0.0f);
        long r_j = t_j;
        #pragma clang loop vectorize(disable)
        for (; r_j < e_j; r_j++) {
          __global const float* p0 = b0 + r_j;
          __global const float* p1 = b1 + 27*r_j;
          const float x0 = p0[0];
          const float2 x1 = vload2(0, p1);
          a0_0 = (a0_0 + ((float2)(x0) * x1));
        }
        if (0 < t_j - lo_j) {
          a0_0 = (vload2(0, o0) + a0_0);
        }
        vstore2(a0_0, 0, o0);
        r_k += 2;
      }
      if (r_k + 1 <= e_k) {
        __global float* o0 = O0 + r_k + 27*r_i;
        __global const float* b0 = I0 + 5*r_i;
        __global const float* b1 = I1 + r_k;
        float a0_0 = 0.0f;
        long r_j = t_j;
        #pragma clang loop vectorize(disable)
        for (; r_j < e_j; r_j++) {
          __global const float* p0 = b0 + r_j;
          __global const float* p1 = b1 + 27*r_j;
          const float x0 = p0[0];
          const float x1 = p1[0];
          a0_0 = (a0_0 + (x0 * x1));
        }
        if (0 < t_j - lo_j) {
          a0_0 = (o0[0] + a0_0);
        }
        o0[0] = a0_0;
        r_k += 1;
      }
    }
  }
}
