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

extern "C" __global__ __cluster_dims__(5, 1, 1) __launch_bounds__(32)
void kernel_0(const float* __restrict__ I0, float* __restrict__ O0, long long* __restrict__ O1, unsigned char* __restrict__ scratch)
{
  const int group = blockIdx.x;
  const int item = threadIdx.x;
  __shared__ __align__(16) float P0[20];
  __shared__ __align__(16) long long P1[20];
  __shared__ __align__(16) float L0[4];
  __shared__ __align__(16) long long L1[4];
  const int z_j = (unsigned)(group) % (unsigned)(5);
  const int g_j = (unsigned)(group) / (unsigned)(5);
  const int lo_j = 64*z_j;
  const int hi_j = (lo_j + 64 < 301 ? lo_j + 64 : 301);
  const int z_i = g_j;
  const int lo_i = 4*z_i;
  const int hi_i = (lo_i + 4 < 5 ? lo_i + 4 : 5);
  const int x_j = (unsigned)(item) % (unsigned)(16);
  const int x_j_rest = (unsigned)(item) / (unsigned)(16);
  const int x_i = x_j_rest;
  float* C0;
  asm("mapa.u64 %0, %1, 0;" : "=l"(C0) : "l"(P0));
  long long* C1;
  asm("mapa.u64 %0, %1, 0;" : "=l"(C1) : "l"(P1));
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  const int t_i = lo_i;
  const int e_i = hi_i;
  const int t_j = lo_j;
  const int e_j = hi_j;
  const int r_i = 2*x_i + t_i;
  const int q_i_0 = (r_i < 4 ? r_i : 4);
  const int q_i_1 = (r_i + 1 < 4 ? r_i + 1 : 4);
  const float* b0 = I0;
  float a0_0_0 = -INFINITY;
  long long a0_0_1 = (long long)(4611686018427387904L);
  float a1_0_0 = -INFINITY;
  long long a1_0_1 = (long long)(4611686018427387904L);
  int r_j = 2*x_j + t_j;
  for (; r_j + 32 <= 2*x_j + e_j; r_j += 32) {
    const float* p0 = b0 + r_j;
    const float x0 = p0[301*q_i_0];
    const float x1 = p0[301*q_i_1];
    const float x2 = p0[301*q_i_0 + 1];
    const float x3 = p0[301*q_i_1 + 1];
    if (((x0 > a0_0_0) | ((x0 == a0_0_0) & ((long long)(r_j) < a0_0_1)))) {
      a0_0_0 = x0;
      a0_0_1 = (long long)(r_j);
    }
    if (((x1 > a1_0_0) | ((x1 == a1_0_0) & ((long long)(r_j) < a1_0_1)))) {
      a1_0_0 = x1;
      a1_0_1 = (long long)(r_j);
    }
    if (((x2 > a0_0_0) | ((x2 == a0_0_0) & ((long long)(r_j + 1) < a0_0_1)))) {
      a0_0_0 = x2;
      a0_0_1 = (long long)(r_j + 1);
    }
    if (((x3 > a1_0_0) | ((x3 == a1_0_0) & ((long long)(r_j + 1) < a1_0_1)))) {
      a1_0_0 = x3;
      a1_0_1 = (long long)(r_j + 1);
    }
  }
  r_j += -x_j;
  for (; r_j + 16 <= e_j + 15; r_j += 16) {
    const float* p0 = b0 + r_j;
    const float x0 = p0[301*q_i_0];
    const float x1 = p0[301*q_i_1];
    if (((x0 > a0_0_0) | ((x0 == a0_0_0) & ((long long)(r_j) < a0_0_1)))) {
      a0_0_0 = x0;
      a0_0_1 = (long long)(r_j);
    }
    if (((x1 > a1_0_0) | ((x1 == a1_0_0) & ((long long)(r_j) < a1_0_1)))) {
      a1_0_0 = x1;
      a1_0_1 = (long long)(r_j);
    }
  }
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
  float* o0 = C0 + 4*z_j - 4*z_i + r_i;
  long long* o1 = C1 + 4*z_j - 4*z_i + r_i;
  const int place = (unsigned)(item) % (unsigned)(16);
  const float t0_1_0 = __shfl_down_sync(0xffffffffu, a0_0_0, 1);
  const long long t0_1_1 = __shfl_down_sync(0xffffffffu, a0_0_1, 1);
  const float t1_1_0 = __shfl_down_sync(0xffffffffu, a1_0_0, 1);
  const long long t1_1_1 = __shfl_down_sync(0xffffffffu, a1_0_1, 1);
  const float n0_1_0 = (((t0_1_0 > a0_0_0) | ((t0_1_0 == a0_0_0) & (t0_1_1 < a0_0_1))) ? t0_1_0 : a0_0_0);
  const long long n0_1_1 = (((t0_1_0 > a0_0_0) | ((t0_1_0 == a0_0_0) & (t0_1_1 < a0_0_1))) ? t0_1_1 : a0_0_1);
  a0_0_0 = n0_1_0;
  a0_0_1 = n0_1_1;
  const float n1_1_0 = (((t1_1_0 > a1_0_0) | ((t1_1_0 == a1_0_0) & (t1_1_1 < a1_0_1))) ? t1_1_0 : a1_0_0);
  const long long n1_1_1 = (((t1_1_0 > a1_0_0) | ((t1_1_0 == a1_0_0) & (t1_1_1 < a1_0_1))) ? t1_1_1 : a1_0_1);
  a1_0_0 = n1_1_0;
  a1_0_1 = n1_1_1;
  const float t0_2_0 = __shfl_down_sync(0xffffffffu, a0_0_0, 2);
  const long long t0_2_1 = __shfl_down_sync(0xffffffffu, a0_0_1, 2);
  const float t1_2_0 = __shfl_down_sync(0xffffffffu, a1_0_0, 2);
  const long long t1_2_1 = __shfl_down_sync(0xffffffffu, a1_0_1, 2);
  const float n0_2_0 = (((t0_2_0 > a0_0_0) | ((t0_2_0 == a0_0_0) & (t0_2_1 < a0_0_1))) ? t0_2_0 : a0_0_0);
  const long long n0_2_1 = (((t0_2_0 > a0_0_0) | ((t0_2_0 == a0_0_0) & (t0_2_1 < a0_0_1))) ? t0_2_1 : a0_0_1);
  a0_0_0 = n0_2_0;
  a0_0_1 = n0_2_1;
  const float n1_2_0 = (((t1_2_0 > a1_0_0) | ((t1_2_0 == a1_0_0) & (t1_2_1 < a1_0_1))) ? t1_2_0 : a1_0_0);
  const long long n1_2_1 = (((t1_2_0 > a1_0_0) | ((t1_2_0 == a1_0_0) & (t1_2_1 < a1_0_1))) ? t1_2_1 : a1_0_1);
  a1_0_0 = n1_2_0;
  a1_0_1 = n1_2_1;
  const float t0_4_0 = __shfl_down_sync(0xffffffffu, a0_0_0, 4);
  const long long t0_4_1 = __shfl_down_sync(0xffffffffu, a0_0_1, 4);
  const float t1_4_0 = __shfl_down_sync(0xffffffffu, a1_0_0, 4);
  const long long t1_4_1 = __shfl_down_sync(0xffffffffu, a1_0_1, 4);
  const float n0_4_0 = (((t0_4_0 > a0_0_0) | ((t0_4_0 == a0_0_0) & (t0_4_1 < a0_0_1))) ? t0_4_0 : a0_0_0);
  const long long n0_4_1 = (((t0_4_0 > a0_0_0) | ((t0_4_0 == a0_0_0) & (t0_4_1 < a0_0_1))) ? t0_4_1 : a0_0_1);
  a0_0_0 = n0_4_0;
  a0_0_1 = n0_4_1;
  const float n1_4_0 = (((t1_4_0 > a1_0_0) | ((t1_4_0 == a1_0_0) & (t1_4_1 < a1_0_1))) ? t1_4_0 : a1_0_0);
  const long long n1_4_1 = (((t1_4_0 > a1_0_0) | ((t1_4_0 == a1_0_0) & (t1_4_1 < a1_0_1))) ? t1_4_1 : a1_0_1);
  a1_0_0 = n1_4_0;
  a1_0_1 = n1_4_1;
  const float t0_8_0 = __shfl_down_sync(0xffffffffu, a0_0_0, 8);
  const long long t0_8_1 = __shfl_down_sync(0xffffffffu, a0_0_1, 8);
  const float t1_8_0 = __shfl_down_sync(0xffffffffu, a1_0_0, 8);
  const long long t1_8_1 = __shfl_down_sync(0xffffffffu, a1_0_1, 8);
  const float n0_8_0 = (((t0_8_0 > a0_0_0) | ((t0_8_0 == a0_0_0) & (t0_8_1 < a0_0_1))) ? t0_8_0 : a0_0_0);
  const long long n0_8_1 = (((t0_8_0 > a0_0_0) | ((t0_8_0 == a0_0_0) & (t0_8_1 < a0_0_1))) ? t0_8_1 : a0_0_1);
  a0_0_0 = n0_8_0;
  a0_0_1 = n0_8_1;
  const float n1_8_0 = (((t1_8_0 > a1_0_0) | ((t1_8_0 == a1_0_0) & (t1_8_1 < a1_0_1))) ? t1_8_0 : a1_0_0);
  const long long n1_8_1 = (((t1_8_0 > a1_0_0) | ((t1_8_0 == a1_0_0) & (t1_8_1 < a1_0_1))) ? t1_8_1 : a1_0_1);
  a1_0_0 = n1_8_0;
  a1_0_1 = n1_8_1;
  if (place < 1) {
    const int room0 = -t_i + e_i - 4;
    if (0 <= room0) {
      *(float2*)(o0) = make_float2(a0_0_0, a1_0_0);
      *(longlong2*)(o1) = make_longlong2(a0_0_1, a1_0_1);
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
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  const long long last = z_j == 0;
  if (last) asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
  if (0 < last) {
    const float* I0 = P0 + -4*z_i;
    const long long* I1 = P1 + -4*z_i;
    const int lo_groups = 0;
    const int hi_groups = 5;
    const int x_groups = item;
    const int t_groups = lo_groups;
    const int e_groups = hi_groups;
    for (int t_i = lo_i; t_i + 4 <= hi_i + 3; t_i += 4) {
      const int e_i = (t_i + 4 < hi_i ? t_i + 4 : hi_i);
      const int r_i = t_i;
      const int q_i_0 = (r_i < 4 ? r_i : 4);
      const int q_i_1 = (r_i + 1 < 4 ? r_i + 1 : 4);
      const int q_i_2 = (r_i + 2 < 4 ? r_i + 2 : 4);
      const int q_i_3 = (r_i + 3 < 4 ? r_i + 3 : 4);
      const float* b0 = I0;
      const long long* b1 = I1;
      float a0_0_0 = -INFINITY;
      long long a0_0_1 = (long long)(4611686018427387904L);
      float a1_0_0 = -INFINITY;
      long long a1_0_1 = (long long)(4611686018427387904L);
      float a2_0_0 = -INFINITY;
      long long a2_0_1 = (long long)(4611686018427387904L);
      float a3_0_0 = -INFINITY;
      long long a3_0_1 = (long long)(4611686018427387904L);
      int r_groups = x_groups + t_groups;
      for (; r_groups + 128 <= x_groups + e_groups; r_groups += 128) {
        const float* p0 = b0 + 4*r_groups;
        const long long* p1 = b1 + 4*r_groups;
        const float x0 = p0[q_i_0];
        const long long x1 = p1[q_i_0];
        const float x2 = p0[q_i_1];
        const long long x3 = p1[q_i_1];
        const float x4 = p0[q_i_2];
        const long long x5 = p1[q_i_2];
        const float x6 = p0[q_i_3];
        const long long x7 = p1[q_i_3];
        const float x8 = p0[q_i_0 + 128];
        const long long x9 = p1[q_i_0 + 128];
        const float x10 = p0[q_i_1 + 128];
        const long long x11 = p1[q_i_1 + 128];
        const float x12 = p0[q_i_2 + 128];
        const long long x13 = p1[q_i_2 + 128];
        const float x14 = p0[q_i_3 + 128];
        const long long x15 = p1[q_i_3 + 128];
        const float x16 = p0[q_i_0 + 256];
        const long long x17 = p1[q_i_0 + 256];
        const float x18 = p0[q_i_1 + 256];
        const long long x19 = p1[q_i_1 + 256];
        const float x20 = p0[q_i_2 + 256];
        const long long x21 = p1[q_i_2 + 256];
        const float x22 = p0[q_i_3 + 256];
        const long long x23 = p1[q_i_3 + 256];
        const float x24 = p0[q_i_0 + 384];
        const long long x25 = p1[q_i_0 + 384];
        const float x26 = p0[q_i_1 + 384];
        const long long x27 = p1[q_i_1 + 384];
        const float x28 = p0[q_i_2 + 384];
        const long long x29 = p1[q_i_2 + 384];
        const float x30 = p0[q_i_3 + 384];
        const long long x31 = p1[q_i_3 + 384];
        if (((x0 > a0_0_0) | ((x0 == a0_0_0) & (x1 < a0_0_1)))) {
          a0_0_0 = x0;
          a0_0_1 = x1;
        }
        if (((x2 > a1_0_0) | ((x2 == a1_0_0) & (x3 < a1_0_1)))) {
          a1_0_0 = x2;
          a1_0_1 = x3;
        }
        if (((x4 > a2_0_0) | ((x4 == a2_0_0) & (x5 < a2_0_1)))) {
          a2_0_0 = x4;
          a2_0_1 = x5;
        }
        if (((x6 > a3_0_0) | ((x6 == a3_0_0) & (x7 < a3_0_1)))) {
          a3_0_0 = x6;
          a3_0_1 = x7;
        }
        if (((x8 > a0_0_0) | ((x8 == a0_0_0) & (x9 < a0_0_1)))) {
          a0_0_0 = x8;
          a0_0_1 = x9;
        }
        if (((x10 > a1_0_0) | ((x10 == a1_0_0) & (x11 < a1_0_1)))) {
          a1_0_0 = x10;
          a1_0_1 = x11;
        }
        if (((x12 > a2_0_0) | ((x12 == a2_0_0) & (x13 < a2_0_1)))) {
          a2_0_0 = x12;
          a2_0_1 = x13;
        }
        if (((x14 > a3_0_0) | ((x14 == a3_0_0) & (x15 < a3_0_1)))) {
          a3_0_0 = x14;
          a3_0_1 = x15;
        }
        if (((x16 > a0_0_0) | ((x16 == a0_0_0) & (x17 < a0_0_1)))) {
          a0_0_0 = x16;
          a0_0_1 = x17;
        }
        if (((x18 > a1_0_0) | ((x18 == a1_0_0) & (x19 < a1_0_1)))) {
          a1_0_0 = x18;
          a1_0_1 = x19;
        }
        if (((x20 > a2_0_0) | ((x20 == a2_0_0) & (x21 < a2_0_1)))) {
          a2_0_0 = x20;
          a2_0_1 = x21;
        }
        if (((x22 > a3_0_0) | ((x22 == a3_0_0) & (x23 < a3_0_1)))) {
          a3_0_0 = x22;
          a3_0_1 = x23;
        }
        if (((x24 > a0_0_0) | ((x24 == a0_0_0) & (x25 < a0_0_1)))) {
          a0_0_0 = x24;
          a0_0_1 = x25;
        }
        if (((x26 > a1_0_0) | ((x26 == a1_0_0) & (x27 < a1_0_1)))) {
          a1_0_0 = x26;
          a1_0_1 = x27;
        }
        if (((x28 > a2_0_0) | ((x28 == a2_0_0) & (x29 < a2_0_1)))) {
          a2_0_0 = x28;
          a2_0_1 = x29;
        }
        if (((x30 > a3_0_0) | ((x30 == a3_0_0) & (x31 < a3_0_1)))) {
          a3_0_0 = x30;
          a3_0_1 = x31;
        }
      }
      for (; r_groups + 32 <= e_groups + 31; r_groups += 32) {
        const float* p0 = b0 + 4*r_groups;
        const long long* p1 = b1 + 4*r_groups;
        const float x0 = p0[q_i_0];
        const long long x1 = p1[q_i_0];
        const float x2 = p0[q_i_1];
        const long long x3 = p1[q_i_1];
        const float x4 = p0[q_i_2];
        const long long x5 = p1[q_i_2];
        const float x6 = p0[q_i_3];
        const long long x7 = p1[q_i_3];
        if (((x0 > a0_0_0) | ((x0 == a0_0_0) & (x1 < a0_0_1)))) {
          a0_0_0 = x0;
          a0_0_1 = x1;
        }
        if (((x2 > a1_0_0) | ((x2 == a1_0_0) & (x3 < a1_0_1)))) {
          a1_0_0 = x2;
          a1_0_1 = x3;
        }
        if (((x4 > a2_0_0) | ((x4 == a2_0_0) & (x5 < a2_0_1)))) {
          a2_0_0 = x4;
          a2_0_1 = x5;
        }
        if (((x6 > a3_0_0) | ((x6 == a3_0_0) & (x7 < a3_0_1)))) {
          a3_0_0 = x6;
          a3_0_1 = x7;
        }
      }
      float* o0 = O0 + r_i;
      long long* o1 = O1 + r_i;
      const int place = (unsigned)(item) % (unsigned)(32);
      const float t0_1_0 = __shfl_down_sync(0xffffffffu, a0_0_0, 1);
      const long long t0_1_1 = __shfl_down_sync(0xffffffffu, a0_0_1, 1);
      const float t1_1_0 = __shfl_down_sync(0xffffffffu, a1_0_0, 1);
      const long long t1_1_1 = __shfl_down_sync(0xffffffffu, a1_0_1, 1);
      const float t2_1_0 = __shfl_down_sync(0xffffffffu, a2_0_0, 1);
      const long long t2_1_1 = __shfl_down_sync(0xffffffffu, a2_0_1, 1);
      const float t3_1_0 = __shfl_down_sync(0xffffffffu, a3_0_0, 1);
      const long long t3_1_1 = __shfl_down_sync(0xffffffffu, a3_0_1, 1);
      const float n0_1_0 = (((t0_1_0 > a0_0_0) | ((t0_1_0 == a0_0_0) & (t0_1_1 < a0_0_1))) ? t0_1_0 : a0_0_0);
      const long long n0_1_1 = (((t0_1_0 > a0_0_0) | ((t0_1_0 == a0_0_0) & (t0_1_1 < a0_0_1))) ? t0_1_1 : a0_0_1);
      a0_0_0 = n0_1_0;
      a0_0_1 = n0_1_1;
      const float n1_1_0 = (((t1_1_0 > a1_0_0) | ((t1_1_0 == a1_0_0) & (t1_1_1 < a1_0_1))) ? t1_1_0 : a1_0_0);
      const long long n1_1_1 = (((t1_1_0 > a1_0_0) | ((t1_1_0 == a1_0_0) & (t1_1_1 < a1_0_1))) ? t1_1_1 : a1_0_1);
      a1_0_0 = n1_1_0;
      a1_0_1 = n1_1_1;
      const float n2_1_0 = (((t2_1_0 > a2_0_0) | ((t2_1_0 == a2_0_0) & (t2_1_1 < a2_0_1))) ? t2_1_0 : a2_0_0);
      const long long n2_1_1 = (((t2_1_0 > a2_0_0) | ((t2_1_0 == a2_0_0) & (t2_1_1 < a2_0_1))) ? t2_1_1 : a2_0_1);
      a2_0_0 = n2_1_0;
      a2_0_1 = n2_1_1;
      const float n3_1_0 = (((t3_1_0 > a3_0_0) | ((t3_1_0 == a3_0_0) & (t3_1_1 < a3_0_1))) ? t3_1_0 : a3_0_0);
      const long long n3_1_1 = (((t3_1_0 > a3_0_0) | ((t3_1_0 == a3_0_0) & (t3_1_1 < a3_0_1))) ? t3_1_1 : a3_0_1);
      a3_0_0 = n3_1_0;
      a3_0_1 = n3_1_1;
      const float t0_2_0 = __shfl_down_sync(0xffffffffu, a0_0_0, 2);
      const long long t0_2_1 = __shfl_down_sync(0xffffffffu, a0_0_1, 2);
      const float t1_2_0 = __shfl_down_sync(0xffffffffu, a1_0_0, 2);
      const long long t1_2_1 = __shfl_down_sync(0xffffffffu, a1_0_1, 2);
      const float t2_2_0 = __shfl_down_sync(0xffffffffu, a2_0_0, 2);
      const long long t2_2_1 = __shfl_down_sync(0xffffffffu, a2_0_1, 2);
      const float t3_2_0 = __shfl_down_sync(0xffffffffu, a3_0_0, 2);
      const long long t3_2_1 = __shfl_down_sync(0xffffffffu, a3_0_1, 2);
      const float n0_2_0 = (((t0_2_0 > a0_0_0) | ((t0_2_0 == a0_0_0) & (t0_2_1 < a0_0_1))) ? t0_2_0 : a0_0_0);
      const long long n0_2_1 = (((t0_2_0 > a0_0_0) | ((t0_2_0 == a0_0_0) & (t0_2_1 < a0_0_1))) ? t0_2_1 : a0_0_1);
      a0_0_0 = n0_2_0;
      a0_0_1 = n0_2_1;
      const float n1_2_0 = (((t1_2_0 > a1_0_0) | ((t1_2_0 == a1_0_0) & (t1_2_1 < a1_0_1))) ? t1_2_0 : a1_0_0);
      const long long n1_2_1 = (((t1_2_0 > a1_0_0) | ((t1_2_0 == a1_0_0) & (t1_2_1 < a1_0_1))) ? t1_2_1 : a1_0_1);
      a1_0_0 = n1_2_0;
      a1_0_1 = n1_2_1;
      const float n2_2_0 = (((t2_2_0 > a2_0_0) | ((t2_2_0 == a2_0_0) & (t2_2_1 < a2_0_1))) ? t2_2_0 : a2_0_0);
      const long long n2_2_1 = (((t2_2_0 > a2_0_0) | ((t2_2_0 == a2_0_0) & (t2_2_1 < a2_0_1))) ? t2_2_1 : a2_0_1);
      a2_0_0 = n2_2_0;
      a2_0_1 = n2_2_1;
      const float n3_2_0 = (((t3_2_0 > a3_0_0) | ((t3_2_0 == a3_0_0) & (t3_2_1 < a3_0_1))) ? t3_2_0 : a3_0_0);
      const long long n3_2_1 = (((t3_2_0 > a3_0_0) | ((t3_2_0 == a3_0_0) & (t3_2_1 < a3_0_1))) ? t3_2_1 : a3_0_1);
      a3_0_0 = n3_2_0;
      a3_0_1 = n3_2_1;
      const float t0_4_0 = __shfl_down_sync(0xffffffffu, a0_0_0, 4);
      const long long t0_4_1 = __shfl_down_sync(0xffffffffu, a0_0_1, 4);
      const float t1_4_0 = __shfl_down_sync(0xffffffffu, a1_0_0, 4);
      const long long t1_4_1 = __shfl_down_sync(0xffffffffu, a1_0_1, 4);
      const float t2_4_0 = __shfl_down_sync(0xffffffffu, a2_0_0, 4);
      const long long t2_4_1 = __shfl_down_sync(0xffffffffu, a2_0_1, 4);
      const float t3_4_0 = __shfl_down_sync(0xffffffffu, a3_0_0, 4);
      const long long t3_4_1 = __shfl_down_sync(0xffffffffu, a3_0_1, 4);
      const float n0_4_0 = (((t0_4_0 > a0_0_0) | ((t0_4_0 == a0_0_0) & (t0_4_1 < a0_0_1))) ? t0_4_0 : a0_0_0);
      const long long n0_4_1 = (((t0_4_0 > a0_0_0) | ((t0_4_0 == a0_0_0) & (t0_4_1 < a0_0_1))) ? t0_4_1 : a0_0_1);
      a0_0_0 = n0_4_0;
      a0_0_1 = n0_4_1;
      const float n1_4_0 = (((t1_4_0 > a1_0_0) | ((t1_4_0 == a1_0_0) & (t1_4_1 < a1_0_1))) ? t1_4_0 : a1_0_0);
      const long long n1_4_1 = (((t1_4_0 > a1_0_0) | ((t1_4_0 == a1_0_0) & (t1_4_1 < a1_0_1))) ? t1_4_1 : a1_0_1);
      a1_0_0 = n1_4_0;
      a1_0_1 = n1_4_1;
      const float n2_4_0 = (((t2_4_0 > a2_0_0) | ((t2_4_0 == a2_0_0) & (t2_4_1 < a2_0_1))) ? t2_4_0 : a2_0_0);
      const long long n2_4_1 = (((t2_4_0 > a2_0_0) | ((t2_4_0 == a2_0_0) & (t2_4_1 < a2_0_1))) ? t2_4_1 : a2_0_1);
      a2_0_0 = n2_4_0;
      a2_0_1 = n2_4_1;
      const float n3_4_0 = (((t3_4_0 > a3_0_0) | ((t3_4_0 == a3_0_0) & (t3_4_1 < a3_0_1))) ? t3_4_0 : a3_0_0);
      const long long n3_4_1 = (((t3_4_0 > a3_0_0) | ((t3_4_0 == a3_0_0) & (t3_4_1 < a3_0_1))) ? t3_4_1 : a3_0_1);
      a3_0_0 = n3_4_0;
      a3_0_1 = n3_4_1;
      const float t0_8_0 = __shfl_down_sync(0xffffffffu, a0_0_0, 8);
      const long long t0_8_1 = __shfl_down_sync(0xffffffffu, a0_0_1, 8);
      const float t1_8_0 = __shfl_down_sync(0xffffffffu, a1_0_0, 8);
      const long long t1_8_1 = __shfl_down_sync(0xffffffffu, a1_0_1, 8);
      const float t2_8_0 = __shfl_down_sync(0xffffffffu, a2_0_0, 8);
      const long long t2_8_1 = __shfl_down_sync(0xffffffffu, a2_0_1, 8);
      const float t3_8_0 = __shfl_down_sync(0xffffffffu, a3_0_0, 8);
      const long long t3_8_1 = __shfl_down_sync(0xffffffffu, a3_0_1, 8);
      const float n0_8_0 = (((t0_8_0 > a0_0_0) | ((t0_8_0 == a0_0_0) & (t0_8_1 < a0_0_1))) ? t0_8_0 : a0_0_0);
      const long long n0_8_1 = (((t0_8_0 > a0_0_0) | ((t0_8_0 == a0_0_0) & (t0_8_1 < a0_0_1))) ? t0_8_1 : a0_0_1);
      a0_0_0 = n0_8_0;
      a0_0_1 = n0_8_1;
      const float n1_8_0 = (((t1_8_0 > a1_0_0) | ((t1_8_0 == a1_0_0) & (t1_8_1 < a1_0_1))) ? t1_8_0 : a1_0_0);
      const long long n1_8_1 = (((t1_8_0 > a1_0_0) | ((t1_8_0 == a1_0_0) & (t1_8_1 < a1_0_1))) ? t1_8_1 : a1_0_1);
      a1_0_0 = n1_8_0;
      a1_0_1 = n1_8_1;
      const float n2_8_0 = (((t2_8_0 > a2_0_0) | ((t2_8_0 == a2_0_0) & (t2_8_1 < a2_0_1))) ? t2_8_0 : a2_0_0);
      const long long n2_8_1 = (((t2_8_0 > a2_0_0) | ((t2_8_0 == a2_0_0) & (t2_8_1 < a2_0_1))) ? t2_8_1 : a2_0_1);
      a2_0_0 = n2_8_0;
      a2_0_1 = n2_8_1;
      const float n3_8_0 = (((t3_8_0 > a3_0_0) | ((t3_8_0 == a3_0_0) & (t3_8_1 < a3_0_1))) ? t3_8_0 : a3_0_0);
      const long long n3_8_1 = (((t3_8_0 > a3_0_0) | ((t3_8_0 == a3_0_0) & (t3_8_1 < a3_0_1))) ? t3_8_1 : a3_0_1);
      a3_0_0 = n3_8_0;
      a3_0_1 = n3_8_1;
      const float t0_16_0 = __shfl_down_sync(0xffffffffu, a0_0_0, 16);
      const long long t0_16_1 = __shfl_down_sync(0xffffffffu, a0_0_1, 16);
      const float t1_16_0 = __shfl_down_sync(0xffffffffu, a1_0_0, 16);
      const long long t1_16_1 = __shfl_down_sync(0xffffffffu, a1_0_1, 16);
      const float t2_16_0 = __shfl_down_sync(0xffffffffu, a2_0_0, 16);
      const long long t2_16_1 = __shfl_down_sync(0xffffffffu, a2_0_1, 16);
      const float t3_16_0 = __shfl_down_sync(0xffffffffu, a3_0_0, 16);
      const long long t3_16_1 = __shfl_down_sync(0xffffffffu, a3_0_1, 16);
      const float n0_16_0 = (((t0_16_0 > a0_0_0) | ((t0_16_0 == a0_0_0) & (t0_16_1 < a0_0_1))) ? t0_16_0 : a0_0_0);
      const long long n0_16_1 = (((t0_16_0 > a0_0_0) | ((t0_16_0 == a0_0_0) & (t0_16_1 < a0_0_1))) ? t0_16_1 : a0_0_1);
      a0_0_0 = n0_16_0;
      a0_0_1 = n0_16_1;
      const float n1_16_0 = (((t1_16_0 > a1_0_0) | ((t1_16_0 == a1_0_0) & (t1_16_1 < a1_0_1))) ? t1_16_0 : a1_0_0);
      const long long n1_16_1 = (((t1_16_0 > a1_0_0) | ((t1_16_0 == a1_0_0) & (t1_16_1 < a1_0_1))) ? t1_16_1 : a1_0_1);
      a1_0_0 = n1_16_0;
      a1_0_1 = n1_16_1;
      const float n2_16_0 = (((t2_16_0 > a2_0_0) | ((t2_16_0 == a2_0_0) & (t2_16_1 < a2_0_1))) ? t2_16_0 : a2_0_0);
      const long long n2_16_1 = (((t2_16_0 > a2_0_0) | ((t2_16_0 == a2_0_0) & (t2_16_1 < a2_0_1))) ? t2_16_1 : a2_0_1);
      a2_0_0 = n2_16_0;
      a2_0_1 = n2_16_1;
      const float n3_16_0 = (((t3_16_0 > a3_0_0) | ((t3_16_0 == a3_0_0) & (t3_16_1 < a3_0_1))) ? t3_16_0 : a3_0_0);
      const long long n3_16_1 = (((t3_16_0 > a3_0_0) | ((t3_16_0 == a3_0_0) & (t3_16_1 < a3_0_1))) ? t3_16_1 : a3_0_1);
      a3_0_0 = n3_16_0;
      a3_0_1 = n3_16_1;
      if (place < 1) {
        const int room0 = -t_i + e_i - 4;
        if (0 <= room0) {
          *(longlong2*)(o1) = make_longlong2(a0_0_1, a1_0_1);
          *(float4*)(o0) = make_float4(a0_0_0, a1_0_0, a2_0_0, a3_0_0);
          *(longlong2*)(o1 + 2) = make_longlong2(a2_0_1, a3_0_1);
        } else {
          if (r_i < e_i) {
            o0[0] = a0_0_0;
            o1[0] = a0_0_1;
          }
          if (r_i + 1 < e_i) {
            o0[1] = a1_0_0;
            o1[1] = a1_0_1;
          }
          if (r_i + 2 < e_i) {
            o0[2] = a2_0_0;
            o1[2] = a2_0_1;
          }
          if (r_i + 3 < e_i) {
            o0[3] = a3_0_0;
            o1[3] = a3_0_1;
          }
        }
      }
    }
  }
}
