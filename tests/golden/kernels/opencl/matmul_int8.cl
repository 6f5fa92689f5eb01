// out_view(out: int8[3, 9] (i, j, k) -> (i, k))
// md_hom[i:3, j:5, k:9](mul, (cc, pw(add), cc))
// inp_view(A: int8[3, 5] (i, j, k) -> (i, j); B: int8[5, 9] (i, j, k) -> (j, k))
// cpu: parts i:1 j:1 k:1; threads i:1 j:1 k:1
// tiles i:0 j:0 k:0; registers i:2 j:1 k:8; lanes k x4
// order i j k | i k | j
// staged nothing
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_0(BUFFER(__global const char) at_I0, BUFFER(__global const char) at_I1, BUFFER(__global char) at_O0, BUFFER(__global uchar) at_scratch)
{
  __global const char* I0 = (__global const char*)at_I0;
  __global const char* I1 = (__global const char*)at_I1;
  __global char* O0 = (__global char*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  const long group = get_group_id(0);
  const long lo_i = 0;
  const long hi_i = 3;
  const long lo_j = 0;
  const long hi_j = 5;
  const long lo_k = 0;
  const long hi_k = 9;
  const long t_i = lo_i;
  const long e_i = hi_i;
  const long t_j = lo_j;
  const long e_j = hi_j;
  const long t_k = lo_k;
  const long e_k = hi_k;
  long r_i = t_i;
  #pragma clang loop vectorize(disable)
  for (; r_i + 2 <= e_i; r_i += 2) {
    long r_k = t_k;
    #pragma clang loop vectorize(disable)
    for (; r_k + 8 <= e_k; r_k += 8) {
      __global char* o0 = O0 + r_k + 9*r_i;
      __global const char* b0 = I0 + 5*r_i;
      __global const char* b1 = I1 + r_k;
      short4 a0_0 = (short4)((short)(0));
      short4 a0_1 = (short4)((short)(0));
      short4 a1_0 = (short4)((short)(0));
      short4 a1_1 = (short4)((short)(0));
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const char* p0 = b0 + r_j;
        __global const char* p1 = b1 + 9*r_j;
        const char x0 = p0[0];
        const char4 x1 = vload4(0, p1);
        a0_0 = as_short4(as_ushort4(a0_0) + as_ushort4(as_short4(as_ushort4((short4)((short)(x0))) * as_ushort4(convert_short4(x1)))));
        const char4 x2 = vload4(0, p1 + 4);
        a0_1 = as_short4(as_ushort4(a0_1) + as_ushort4(as_short4(as_ushort4((short4)((short)(x0))) * as_ushort4(convert_short4(x2)))));
        const char x3 = p0[5];
        a1_0 = as_short4(as_ushort4(a1_0) + as_ushort4(as_short4(as_ushort4((short4)((short)(x3))) * as_ushort4(convert_short4(x1)))));
        a1_1 = as_short4(as_ushort4(a1_1) + as_ushort4(as_short4(as_ushort4((short4)((short)(x3))) * as_ushort4(convert_short4(x2)))));
      }
      vstore4(convert_char4(a0_0), 0, o0);
      vstore4(convert_char4(a0_1), 0, o0 + 4);
      vstore4(convert_char4(a1_0), 0, o0 + 9);
      vstore4(convert_char4(a1_1), 0, o0 + 13);
    }
    if (r_k + 1 <= e_k) {
      __global char* o0 = O0 + r_k + 9*r_i;
      __global const char* b0 = I0 + 5*r_i;
      __global const char* b1 = I1 + r_k;
      short a0_0 = (short)(0);
      short a1_0 = (short)(0);
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const char* p0 = b0 + r_j;
        __global const char* p1 = b1 + 9*r_j;
        const char x0 = p0[0];
        const char x1 = p1[0];
        a0_0 = (short)((uint)(a0_0) + (uint)((short)((uint)((short)(x0)) * (uint)((short)(x1)))));
        const char x2 = p0[5];
        a1_0 = (short)((uint)(a1_0) + (uint)((short)((uint)((short)(x2)) * (uint)((short)(x1)))));
      }
      o0[0] = (char)(a0_0);
      o0[9] = (char)(a1_0);
    }
  }
  if (r_i + 1 <= e_i) {
    long r_k = t_k;
    #pragma clang loop vectorize(disable)
    for (; r_k + 8 <= e_k; r_k += 8) {
      __global char* o0 = O0 + r_k + 9*r_i;
      __global const char* b0 = I0 + 5*r_i;
      __global const char* b1 = I1 + r_k;
      short4 a0_0 = (short4)((short)(0));
      short4 a0_1 = (short4)((short)(0));
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const char* p0 = b0 + r_j;
        __global const char* p1 = b1 + 9*r_j;
        const char x0 = p0[0];
        const char4 x1 = vload4(0, p1);
        a0_0 = as_short4(as_ushort4(a0_0) + as_ushort4(as_short4(as_ushort4((short4)((short)(x0))) * as_ushort4(convert_short4(x1)))));
        const char4 x2 = vload4(0, p1 + 4);
        a0_1 = as_short4(as_ushort4(a0_1) + as_ushort4(as_short4(as_ushort4((short4)((short)(x0))) * as_ushort4(convert_short4(x2)))));
      }
      vstore4(convert_char4(a0_0), 0, o0);
      vstore4(convert_char4(a0_1), 0, o0 + 4);
    }
    if (r_k + 1 <= e_k) {
      __global char* o0 = O0 + r_k + 9*r_i;
      __global const char* b0 = I0 + 5*r_i;
      __global const char* b1 = I1 + r_k;
      short a0_0 = (short)(0);
      long r_j = t_j;
      #pragma clang loop vectorize(disable)
      for (; r_j < e_j; r_j++) {
        __global const char* p0 = b0 + r_j;
        __global const char* p1 = b1 + 9*r_j;
        const char x0 = p0[0];
        const char x1 = p1[0];
        a0_0 = (short)((uint)(a0_0) + (uint)((short)((uint)((short)(x0)) * (uint)((short)(x1)))));
      }
      o0[0] = (char)(a0_0);
    }
  }
}
