// out_view(out: float32[8, 8] (i, j, k) -> (k, i))
// md_hom[i:8, j:3, k:8](mul, (cc, pw(add), cc))
// inp_view(A: float32[8, 3] (i, j, k) -> (i, j); B: float32[3, 8] (i, j, k) -> (j, k))
// cpu: parts i:1 j:1 k:1; threads i:1 j:1 k:1
// tiles i:0 j:0 k:0; registers i:4 j:1 k:4; lanes k x4
// order i j k | i k | j
// staged nothing
// tail split; streaming True; inline False; transposed
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
  const int aligned_O0 = ((size_t)O0 & 63) == 0;
  const long lo_i = 0;
  const long hi_i = 8;
  const long lo_j = 0;
  const long hi_j = 3;
  const long lo_k = 0;
  const long hi_k = 8;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  const long t_k = lo_k;
  const long e_k = hi_k;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 4 <= e_i; r_i += 4) {
    long r_k = t_k;
    #pragma clang loop vectorize(disable)
    for (; r_k + 4 <= e_k; r_k += 4) {
      __global float* o0 = O0 + 8*r_k + r_i;
      __global const float* b0 = I0 + 3*r_i;
      __global const float* b1 = I1 + r_k;
      float4 a0_0 = (float4)(0.0f);
      float4 a1_0 = (float4)(0.0f);
      float4 a2_0 = (float4)(0.0f);
      float4 a3_0 = (float4)(0.0f);
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const float* p0 = b0 + r_j;
        __global const float* p1 = b1 + 8*r_j;
        const float x0 = p0[0];
        const float4 x1 = vload4(0, p1);
        a0_0 = (a0_0 + ((float4)(x0) * x1));
        const float x2 = p0[3];
        a1_0 = (a1_0 + ((float4)(x2) * x1));
        const float x3 = p0[6];
        a2_0 = (a2_0 + ((float4)(x3) * x1));
        const float x4 = p0[9];
        a3_0 = (a3_0 + ((float4)(x4) * x1));
      }
      const float4 z0 = __builtin_shufflevector(a0_0, a1_0, 0, 4, 1, 5);
      const float4 z1 = __builtin_shufflevector(a0_0, a1_0, 2, 6, 3, 7);
      const float4 z2 = __builtin_shufflevector(a2_0, a3_0, 0, 4, 1, 5);
      const float4 z3 = __builtin_shufflevector(a2_0, a3_0, 2, 6, 3, 7);
      const float4 z4 = __builtin_shufflevector(z0, z2, 0, 1, 4, 5);
      const float4 z5 = __builtin_shufflevector(z0, z2, 2, 3, 6, 7);
      const float4 z6 = __builtin_shufflevector(z1, z3, 0, 1, 4, 5);
      const float4 z7 = __builtin_shufflevector(z1, z3, 2, 3, 6, 7);
      if (aligned_O0) __builtin_nontemporal_store(z4, (__global float4*)(o0)); else vstore4(z4, 0, o0);
      if (aligned_O0) __builtin_nontemporal_store(z6, (__global float4*)(o0 + 16)); else vstore4(z6, 0, o0 + 16);
      if (aligned_O0) __builtin_nontemporal_store(z5, (__global float4*)(o0 + 8)); else vstore4(z5, 0, o0 + 8);
      if (aligned_O0) __builtin_nontemporal_store(z7, (__global float4*)(o0 + 24)); else vstore4(z7, 0, o0 + 24);
    }
  }
}
