// out_view(y: float32[7, 10] (i, j) -> (i, j))
// epilogue(f)(x: float32[7, 10] (i, j) -> ; b: float32[10] (i, j) -> (j))
// md_hom[i:7, j:10](f, (ps(add), cc), epilogue f)
// inp_view(x: float32[7, 10] (i, j) -> (i, j); b: float32[10] (i, j) -> )
// gpu: parts d0:0 d1:0; threads d0:1 d1:4
// tiles d0:0 d1:0; registers d0:1 d1:1; lanes none
// order d0 d1 | d1 | d0
// staged nothing
// tail split; streaming False; inline False
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
// Counts after all that the group wrote, and before all that it reads then.
__device__ __forceinline__ unsigned count_one(unsigned* counter) {
  unsigned before;
  asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}
template <int bytes>
__device__ __forceinline__ void copy_async(void* to, const void* from) {
  const unsigned place = __cvta_generic_to_shared(to);
  if (bytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                 :: "r"(place), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(place), "l"(from), "n"(bytes) : "memory");
  }
}
__device__ __forceinline__ long long remainder_of(unsigned number, unsigned by) {
  unsigned found = number % by;
  asm("" : "+r"(found));
  return found;
}

extern "C" __global__ __launch_bounds__(4)
void kernel_0(const float* __restrict__ I0, const float* __restrict__ I1, float* __restrict__ O0, unsigned char* __restrict__ scratch, const long long N0, const long long N1, const long long stride0_0, const long long step0_0, const long long B_d0, const long long B_d1, const long long P_d0, const long long P_d1)
{
  const long long group = blockIdx.x;
  const long long item = threadIdx.x;
  const long long z_d1 = remainder_of(group, P_d1);
  const long long g_d1 = (group) / (P_d1);
  const long long lo_d1 = 4*z_d1*B_d1;
  const long long hi_d1 = (lo_d1 + 4*B_d1 < N1 ? lo_d1 + 4*B_d1 : N1);
  const long long z_d0 = g_d1;
  const long long lo_d0 = z_d0*B_d0;
  const long long hi_d0 = (lo_d0 + B_d0 < N0 ? lo_d0 + B_d0 : N0);
  const long long x_d1 = remainder_of(item, 4);
  const long long y_d1 = (item) / (4);
  float* R0 = (float*)(scratch);
  const long long t_d0 = lo_d0;
  const long long e_d0 = hi_d0;
  const long long t_d1 = lo_d1;
  const long long e_d1 = hi_d1;
  long long r_d1 = x_d1 + t_d1;
  for (; r_d1 + 4 <= e_d1 + 3; r_d1 += 4) {
    float* o0 = R0 + r_d1 + z_d0*N1;
    const float* b0 = I0 + r_d1;
    const float* b1 = I1 + r_d1;
    float a0_0 = -0.0f;
    long long flushes = 0;
    float ha0_0 = -0.0f;
    float la0_0 = 0.0f;
    long long r_d0 = t_d0;
    for (long long c_d0 = t_d0; c_d0 + 32 <= e_d0 + 31; c_d0 += 32) {
      const long long c_d0_until = (e_d0 < c_d0 + 32 ? e_d0 : c_d0 + 32);
      for (; r_d0 < c_d0_until; r_d0++) {
        const float* p0 = b0 + stride0_0*r_d0;
        const float* p1 = b1;
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

extern "C" __global__ __launch_bounds__(1)
void kernel_1(const float* __restrict__ I0, const float* __restrict__ I1, float* __restrict__ O0, unsigned char* __restrict__ scratch, const long long N0, const long long N1, const long long stride0_0, const long long step0_0, const long long B_d0, const long long B_d1, const long long P_d0, const long long P_d1)
{
  const long long group = blockIdx.x;
  float* R0 = (float*)(scratch);
  for (long long m = 0; m < N1; m++) {
    float a0 = -0.0f;
    for (long long n = 0; n < P_d0; n++) {
      const float t0 = R0[m + n*N1];
      R0[m + n*N1] = a0;
      const float n0 = (a0 + t0);
      a0 = n0;
    }
  }
}

extern "C" __global__ __launch_bounds__(4)
void kernel_2(const float* __restrict__ I0, const float* __restrict__ I1, float* __restrict__ O0, unsigned char* __restrict__ scratch, const long long N0, const long long N1, const long long stride0_0, const long long step0_0, const long long B_d0, const long long B_d1, const long long P_d0, const long long P_d1)
{
  const long long group = blockIdx.x;
  const long long item = threadIdx.x;
  const long long z_d1 = remainder_of(group, P_d1);
  const long long g_d1 = (group) / (P_d1);
  const long long lo_d1 = 4*z_d1*B_d1;
  const long long hi_d1 = (lo_d1 + 4*B_d1 < N1 ? lo_d1 + 4*B_d1 : N1);
  const long long z_d0 = g_d1;
  const long long lo_d0 = z_d0*B_d0;
  const long long hi_d0 = (lo_d0 + B_d0 < N0 ? lo_d0 + B_d0 : N0);
  const long long x_d1 = remainder_of(item, 4);
  const long long y_d1 = (item) / (4);
  float* R0 = (float*)(scratch);
  const long long t_d0 = lo_d0;
  const long long e_d0 = hi_d0;
  const long long t_d1 = lo_d1;
  const long long e_d1 = hi_d1;
  long long r_d1 = x_d1 + t_d1;
  for (; r_d1 + 4 <= e_d1 + 3; r_d1 += 4) {
    float* o0 = O0 + r_d1;
    float* carry0 = R0 + r_d1 + z_d0*N1;
    const float* b0 = I0 + r_d1;
    const float* b1 = I1 + r_d1;
    float a0_0 = carry0[0];
    long long r_d0 = t_d0;
    for (; r_d0 < e_d0; r_d0++) {
      const float* p0 = b0 + stride0_0*r_d0;
      const float* p1 = b1;
      float* q0 = o0 + step0_0*r_d0;
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
