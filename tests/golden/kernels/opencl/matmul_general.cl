// out_view(out: float32[5, 21] (i, j, k) -> (i, k))
// md_hom[i:5, j:9, k:21](mul, (cc, pw(add), cc))
// inp_view(A: float32[5, 9] (i, j, k) -> (i, j); B: float32[9, 21] (i, j, k) -> (j, k))
// cpu: parts d0:0 d1:1 d2:0; threads d0:1 d1:1 d2:1
// tiles d0:0 d1:0 d2:0; registers d0:2 d1:1 d2:8; lanes d2 x4
// order d0 d1 d2 | d0 d2 | d1
// staged nothing
// tail split; streaming False; inline False
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void kernel_0(BUFFER(__global const float) at_I0, BUFFER(__global const float) at_I1, BUFFER(__global float) at_O0, BUFFER(__global uchar) at_scratch, BUFFER(__global const long) at_sizes)
{
  __global const float* I0 = (__global const float*)at_I0;
  __global const float* I1 = (__global const float*)at_I1;
  __global float* O0 = (__global float*)at_O0;
  __global uchar* scratch = (__global uchar*)at_scratch;
  __global const long* sizes = (__global const long*)at_sizes;
  const long group = get_group_id(0);
  const long N0 = sizes[0];
  const long N1 = sizes[1];
  const long N2 = sizes[2];
  const long stride0_0 = sizes[3];
  const long stride1_1 = sizes[4];
  const long step0_0 = sizes[5];
  const long B_d0 = sizes[6];
  const long B_d1 = sizes[7];
  const long B_d2 = sizes[8];
  const long P_d0 = sizes[9];
  const long P_d1 = sizes[10];
  const long P_d2 = sizes[11];
  const long z_d2 = (group) % (P_d2);
  const long g_d2 = (group) / (P_d2);
  const long lo_d2 = 8*z_d2*B_d2;
  const long hi_d2 = (lo_d2 + 8*B_d2 < N2 ? lo_d2 + 8*B_d2 : N2);
  const long z_d0 = g_d2;
  const long lo_d0 = 2*z_d0*B_d0;
  const long hi_d0 = (lo_d0 + 2*B_d0 < N0 ? lo_d0 + 2*B_d0 : N0);
  const long lo_d1 = 0;
  const long hi_d1 = N1;
  const long t_d0 = lo_d0;
  const long e_d0 = hi_d0;
  const long t_d1 = lo_d1;
  const long e_d1 = hi_d1;
  const long t_d2 = lo_d2;
  const long e_d2 = hi_d2;
  long r_d0 = t_d0;
  #pragma clang loop vectorize(disable)
  for (; r_d0 + 2 <= e_d0; r_d0 += 2) {
    long r_d2 = t_d2;
    #pragma clang loop vectorize(disable)
    for (; r_d2 + 8 <= e_d2; r_d2 += 8) {
      __global float* o0 = O0 + r_d2 + step0_0*r_d0;
      __global const float* b0 = I0 + stride0_0*r_d0;
      __global const float* b1 = I1 + r_d2;
      float4 a0_0 = (float4)(0.0f);
      float4 a0_1 = (float4)(0.0f);
      float4 a1_0 = (float4)(0.0f);
      float4 a1_1 = (float4)(0.0f);
      long flushes = 0;
      float4 ha0_0 = -0.0f;
      float4 la0_0 = 0.0f;
      float4 ha0_1 = -0.0f;
      float4 la0_1 = 0.0f;
      float4 ha1_0 = -0.0f;
      float4 la1_0 = 0.0f;
      float4 ha1_1 = -0.0f;
      float4 la1_1 = 0.0f;
      long r_d1 = t_d1;
      #pragma clang loop vectorize(disable)
      for (long c_d1 = t_d1; c_d1 + 256 <= e_d1 + 255; c_d1 += 256) {
        const long c_d1_until = (e_d1 < c_d1 + 256 ? e_d1 : c_d1 + 256);
        #pragma clang loop vectorize(disable)
        for (; r_d1 < c_d1_until; r_d1++) {
          __global const float* p0 = b0 + r_d1;
          __global const float* p1 = b1 + stride1_1*r_d1;
          const float x0 = p0[0];
          const float4 x1 = vload4(0, p1);
          a0_0 = (a0_0 + ((float4)(x0) * x1));
          const float4 x2 = vload4(0, p1 + 4);
          a0_1 = (a0_1 + ((float4)(x0) * x2));
          const float x3 = p0[stride0_0];
          a1_0 = (a1_0 + ((float4)(x3) * x1));
          a1_1 = (a1_1 + ((float4)(x3) * x2));
        }
        if (c_d1_until + 1 <= e_d1) {
          const float4 ta0_0 = (a0_0 - la0_0);
          const float4 pa0_0 = (ha0_0 + ta0_0);
          const float4 qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
          la0_0 = select(0.0f, qa0_0, ((qa0_0 - qa0_0) == 0.0f));
          ha0_0 = pa0_0;
          const float4 ta0_1 = (a0_1 - la0_1);
          const float4 pa0_1 = (ha0_1 + ta0_1);
          const float4 qa0_1 = ((pa0_1 - ha0_1) - ta0_1);
          la0_1 = select(0.0f, qa0_1, ((qa0_1 - qa0_1) == 0.0f));
          ha0_1 = pa0_1;
          const float4 ta1_0 = (a1_0 - la1_0);
          const float4 pa1_0 = (ha1_0 + ta1_0);
          const float4 qa1_0 = ((pa1_0 - ha1_0) - ta1_0);
          la1_0 = select(0.0f, qa1_0, ((qa1_0 - qa1_0) == 0.0f));
          ha1_0 = pa1_0;
          const float4 ta1_1 = (a1_1 - la1_1);
          const float4 pa1_1 = (ha1_1 + ta1_1);
          const float4 qa1_1 = ((pa1_1 - ha1_1) - ta1_1);
          la1_1 = select(0.0f, qa1_1, ((qa1_1 - qa1_1) == 0.0f));
          ha1_1 = pa1_1;
          flushes += 1;
          a0_0 = (float4)(0.0f);
          a0_1 = (float4)(0.0f);
          a1_0 = (float4)(0.0f);
          a1_1 = (float4)(0.0f);
        }
      }
      if (0 < flushes) {
        const float4 ta0_0 = (a0_0 - la0_0);
        const float4 pa0_0 = (ha0_0 + ta0_0);
        const float4 qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
        la0_0 = select(0.0f, qa0_0, ((qa0_0 - qa0_0) == 0.0f));
        ha0_0 = pa0_0;
        const float4 ta0_1 = (a0_1 - la0_1);
        const float4 pa0_1 = (ha0_1 + ta0_1);
        const float4 qa0_1 = ((pa0_1 - ha0_1) - ta0_1);
        la0_1 = select(0.0f, qa0_1, ((qa0_1 - qa0_1) == 0.0f));
        ha0_1 = pa0_1;
        const float4 ta1_0 = (a1_0 - la1_0);
        const float4 pa1_0 = (ha1_0 + ta1_0);
        const float4 qa1_0 = ((pa1_0 - ha1_0) - ta1_0);
        la1_0 = select(0.0f, qa1_0, ((qa1_0 - qa1_0) == 0.0f));
        ha1_0 = pa1_0;
        const float4 ta1_1 = (a1_1 - la1_1);
        const float4 pa1_1 = (ha1_1 + ta1_1);
        const float4 qa1_1 = ((pa1_1 - ha1_1) - ta1_1);
        la1_1 = select(0.0f, qa1_1, ((qa1_1 - qa1_1) == 0.0f));
        ha1_1 = pa1_1;
        a0_0 = ha0_0;
        a0_1 = ha0_1;
        a1_0 = ha1_0;
        a1_1 = ha1_1;
      }
      vstore4(a0_0, 0, o0);
      vstore4(a0_1, 0, o0 + 4);
      vstore4(a1_0, 0, o0 + step0_0);
      vstore4(a1_1, 0, o0 + step0_0 + 4);
    }
    #pragma clang loop vectorize(disable)
    for (; r_d2 + 4 <= e_d2; r_d2 += 4) {
      __global float* o0 = O0 + r_d2 + step0_0*r_d0;
      __global const float* b0 = I0 + stride0_0*r_d0;
      __global const float* b1 = I1 + r_d2;
      float4 a0_0 = (float4)(0.0f);
      float4 a1_0 = (float4)(0.0f);
      long flushes = 0;
      float4 ha0_0 = -0.0f;
      float4 la0_0 = 0.0f;
      float4 ha1_0 = -0.0f;
      float4 la1_0 = 0.0f;
      long r_d1 = t_d1;
      #pragma clang loop vectorize(disable)
      for (long c_d1 = t_d1; c_d1 + 256 <= e_d1 + 255; c_d1 += 256) {
        const long c_d1_until = (e_d1 < c_d1 + 256 ? e_d1 : c_d1 + 256);
        #pragma clang loop vectorize(disable)
        for (; r_d1 < c_d1_until; r_d1++) {
          __global const float* p0 = b0 + r_d1;
          __global const float* p1 = b1 + stride1_1*r_d1;
          const float x0 = p0[0];
          const float4 x1 = vload4(0, p1);
          a0_0 = (a0_0 + ((float4)(x0) * x1));
          const float x2 = p0[stride0_0];
          a1_0 = (a1_0 + ((float4)(x2) * x1));
        }
        if (c_d1_until + 1 <= e_d1) {
          const float4 ta0_0 = (a0_0 - la0_0);
          const float4 pa0_0 = (ha0_0 + ta0_0);
          const float4 qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
          la0_0 = select(0.0f, qa0_0, ((qa0_0 - qa0_0) == 0.0f));
          ha0_0 = pa0_0;
          const float4 ta1_0 = (a1_0 - la1_0);
          const float4 pa1_0 = (ha1_0 + ta1_0);
          const float4 qa1_0 = ((pa1_0 - ha1_0) - ta1_0);
          la1_0 = select(0.0f, qa1_0, ((qa1_0 - qa1_0) == 0.0f));
          ha1_0 = pa1_0;
          flushes += 1;
          a0_0 = (float4)(0.0f);
          a1_0 = (float4)(0.0f);
        }
      }
      if (0 < flushes) {
        const float4 ta0_0 = (a0_0 - la0_0);
        const float4 pa0_0 = (ha0_0 + ta0_0);
        const float4 qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
        la0_0 = select(0.0f, qa0_0, ((qa0_0 - qa0_0) == 0.0f));
        ha0_0 = pa0_0;
        const float4 ta1_0 = (a1_0 - la1_0);
        const float4 pa1_0 = (ha1_0 + ta1_0);
        const float4 qa1_0 = ((pa1_0 - ha1_0) - ta1_0);
        la1_0 = select(0.0f, qa1_0, ((qa1_0 - qa1_0) == 0.0f));
        ha1_0 = pa1_0;
        a0_0 = ha0_0;
        a1_0 = ha1_0;
      }
      vstore4(a0_0, 0, o0);
      vstore4(a1_0, 0, o0 + step0_0);
    }
    #pragma clang loop vectorize(disable)
    for (; r_d2 < e_d2; r_d2++) {
      __global float* o0 = O0 + r_d2 + step0_0*r_d0;
      __global const float* b0 = I0 + stride0_0*r_d0;
      __global const float* b1 = I1 + r_d2;
      float a0_0 = 0.0f;
      float a1_0 = 0.0f;
      long flushes = 0;
      float ha0_0 = -0.0f;
      float la0_0 = 0.0f;
      float ha1_0 = -0.0f;
      float la1_0 = 0.0f;
      long r_d1 = t_d1;
      #pragma clang loop vectorize(disable)
      for (long c_d1 = t_d1; c_d1 + 256 <= e_d1 + 255; c_d1 += 256) {
        const long c_d1_until = (e_d1 < c_d1 + 256 ? e_d1 : c_d1 + 256);
        #pragma clang loop vectorize(disable)
        for (; r_d1 < c_d1_until; r_d1++) {
          __global const float* p0 = b0 + r_d1;
          __global const float* p1 = b1 + stride1_1*r_d1;
          const float x0 = p0[0];
          const float x1 = p1[0];
          a0_0 = (a0_0 + (x0 * x1));
          const float x2 = p0[stride0_0];
          a1_0 = (a1_0 + (x2 * x1));
        }
        if (c_d1_until + 1 <= e_d1) {
          const float ta0_0 = (a0_0 - la0_0);
          const float pa0_0 = (ha0_0 + ta0_0);
          const float qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
          la0_0 = (((qa0_0 - qa0_0) == 0.0f) ? qa0_0 : 0.0f);
          ha0_0 = pa0_0;
          const float ta1_0 = (a1_0 - la1_0);
          const float pa1_0 = (ha1_0 + ta1_0);
          const float qa1_0 = ((pa1_0 - ha1_0) - ta1_0);
          la1_0 = (((qa1_0 - qa1_0) == 0.0f) ? qa1_0 : 0.0f);
          ha1_0 = pa1_0;
          flushes += 1;
          a0_0 = 0.0f;
          a1_0 = 0.0f;
        }
      }
      if (0 < flushes) {
        const float ta0_0 = (a0_0 - la0_0);
        const float pa0_0 = (ha0_0 + ta0_0);
        const float qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
        la0_0 = (((qa0_0 - qa0_0) == 0.0f) ? qa0_0 : 0.0f);
        ha0_0 = pa0_0;
        const float ta1_0 = (a1_0 - la1_0);
        const float pa1_0 = (ha1_0 + ta1_0);
        const float qa1_0 = ((pa1_0 - ha1_0) - ta1_0);
        la1_0 = (((qa1_0 - qa1_0) == 0.0f) ? qa1_0 : 0.0f);
        ha1_0 = pa1_0;
        a0_0 = ha0_0;
        a1_0 = ha1_0;
      }
      o0[0] = a0_0;
      o0[step0_0] = a1_0;
    }
  }
  #pragma clang loop vectorize(disable)
  for (; r_d0 < e_d0; r_d0++) {
    long r_d2 = t_d2;
    #pragma clang loop vectorize(disable)
    for (; r_d2 + 8 <= e_d2; r_d2 += 8) {
      __global float* o0 = O0 + r_d2 + step0_0*r_d0;
      __global const float* b0 = I0 + stride0_0*r_d0;
      __global const float* b1 = I1 + r_d2;
      float4 a0_0 = (float4)(0.0f);
      float4 a0_1 = (float4)(0.0f);
      long flushes = 0;
      float4 ha0_0 = -0.0f;
      float4 la0_0 = 0.0f;
      float4 ha0_1 = -0.0f;
      float4 la0_1 = 0.0f;
      long r_d1 = t_d1;
      #pragma clang loop vectorize(disable)
      for (long c_d1 = t_d1; c_d1 + 256 <= e_d1 + 255; c_d1 += 256) {
        const long c_d1_until = (e_d1 < c_d1 + 256 ? e_d1 : c_d1 + 256);
        #pragma clang loop vectorize(disable)
        for (; r_d1 < c_d1_until; r_d1++) {
          __global const float* p0 = b0 + r_d1;
          __global const float* p1 = b1 + stride1_1*r_d1;
          const float x0 = p0[0];
          const float4 x1 = vload4(0, p1);
          a0_0 = (a0_0 + ((float4)(x0) * x1));
          const float4 x2 = vload4(0, p1 + 4);
          a0_1 = (a0_1 + ((float4)(x0) * x2));
        }
        if (c_d1_until + 1 <= e_d1) {
          const float4 ta0_0 = (a0_0 - la0_0);
          const float4 pa0_0 = (ha0_0 + ta0_0);
          const float4 qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
          la0_0 = select(0.0f, qa0_0, ((qa0_0 - qa0_0) == 0.0f));
          ha0_0 = pa0_0;
          const float4 ta0_1 = (a0_1 - la0_1);
          const float4 pa0_1 = (ha0_1 + ta0_1);
          const float4 qa0_1 = ((pa0_1 - ha0_1) - ta0_1);
          la0_1 = select(0.0f, qa0_1, ((qa0_1 - qa0_1) == 0.0f));
          ha0_1 = pa0_1;
          flushes += 1;
          a0_0 = (float4)(0.0f);
          a0_1 = (float4)(0.0f);
        }
      }
      if (0 < flushes) {
        const float4 ta0_0 = (a0_0 - la0_0);
        const float4 pa0_0 = (ha0_0 + ta0_0);
        const float4 qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
        la0_0 = select(0.0f, qa0_0, ((qa0_0 - qa0_0) == 0.0f));
        ha0_0 = pa0_0;
        const float4 ta0_1 = (a0_1 - la0_1);
        const float4 pa0_1 = (ha0_1 + ta0_1);
        const float4 qa0_1 = ((pa0_1 - ha0_1) - ta0_1);
        la0_1 = select(0.0f, qa0_1, ((qa0_1 - qa0_1) == 0.0f));
        ha0_1 = pa0_1;
        a0_0 = ha0_0;
        a0_1 = ha0_1;
      }
      vstore4(a0_0, 0, o0);
      vstore4(a0_1, 0, o0 + 4);
    }
    #pragma clang loop vectorize(disable)
    for (; r_d2 + 4 <= e_d2; r_d2 += 4) {
      __global float* o0 = O0 + r_d2 + step0_0*r_d0;
      __global const float* b0 = I0 + stride0_0*r_d0;
      __global const float* b1 = I1 + r_d2;
      float4 a0_0 = (float4)(0.0f);
      long flushes = 0;
      float4 ha0_0 = -0.0f;
      float4 la0_0 = 0.0f;
      long r_d1 = t_d1;
      #pragma clang loop vectorize(disable)
      for (long c_d1 = t_d1; c_d1 + 256 <= e_d1 + 255; c_d1 += 256) {
        const long c_d1_until = (e_d1 < c_d1 + 256 ? e_d1 : c_d1 + 256);
        #pragma clang loop vectorize(disable)
        for (; r_d1 < c_d1_until; r_d1++) {
          __global const float* p0 = b0 + r_d1;
          __global const float* p1 = b1 + stride1_1*r_d1;
          const float x0 = p0[0];
          const float4 x1 = vload4(0, p1);
          a0_0 = (a0_0 + ((float4)(x0) * x1));
        }
        if (c_d1_until + 1 <= e_d1) {
          const float4 ta0_0 = (a0_0 - la0_0);
          const float4 pa0_0 = (ha0_0 + ta0_0);
          const float4 qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
          la0_0 = select(0.0f, qa0_0, ((qa0_0 - qa0_0) == 0.0f));
          ha0_0 = pa0_0;
          flushes += 1;
          a0_0 = (float4)(0.0f);
        }
      }
      if (0 < flushes) {
        const float4 ta0_0 = (a0_0 - la0_0);
        const float4 pa0_0 = (ha0_0 + ta0_0);
        const float4 qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
        la0_0 = select(0.0f, qa0_0, ((qa0_0 - qa0_0) == 0.0f));
        ha0_0 = pa0_0;
        a0_0 = ha0_0;
      }
      vstore4(a0_0, 0, o0);
    }
    #pragma clang loop vectorize(disable)
    for (; r_d2 < e_d2; r_d2++) {
      __global float* o0 = O0 + r_d2 + step0_0*r_d0;
      __global const float* b0 = I0 + stride0_0*r_d0;
      __global const float* b1 = I1 + r_d2;
      float a0_0 = 0.0f;
      long flushes = 0;
      float ha0_0 = -0.0f;
      float la0_0 = 0.0f;
      long r_d1 = t_d1;
      #pragma clang loop vectorize(disable)
      for (long c_d1 = t_d1; c_d1 + 256 <= e_d1 + 255; c_d1 += 256) {
        const long c_d1_until = (e_d1 < c_d1 + 256 ? e_d1 : c_d1 + 256);
        #pragma clang loop vectorize(disable)
        for (; r_d1 < c_d1_until; r_d1++) {
          __global const float* p0 = b0 + r_d1;
          __global const float* p1 = b1 + stride1_1*r_d1;
          const float x0 = p0[0];
          const float x1 = p1[0];
          a0_0 = (a0_0 + (x0 * x1));
        }
        if (c_d1_until + 1 <= e_d1) {
          const float ta0_0 = (a0_0 - la0_0);
          const float pa0_0 = (ha0_0 + ta0_0);
          const float qa0_0 = ((pa0_0 - ha0_0) - ta0_0);
          la0_0 = (((qa0_0 - qa0_0) == 0.0f) ? qa0_0 : 0.0f);
          ha0_0 = pa0_0;
          flushes += 1;
          a0_0 = 0.0f;
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
}
