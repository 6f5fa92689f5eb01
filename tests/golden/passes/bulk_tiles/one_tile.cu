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
__device__ __forceinline__ float of_half(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
__device__ __forceinline__ float2 of_two_halves(unsigned both) {
  float2 values;
  values.x = of_half((unsigned short)both), values.y = of_half((unsigned short)(both >> 16));
  return values;
}
__device__ __forceinline__ unsigned two_halves(float first, float second) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
__device__ __forceinline__ void store_half(float value, unsigned short* place) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(*place) : "f"(value));
}
__device__ __forceinline__ void store_half(double value, unsigned short* place) {
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(*place) : "d"(value));
}
__device__ __forceinline__ float2 load_halves2(const unsigned short* place) {
  return of_two_halves(*(const unsigned*)place);
}
__device__ __forceinline__ float4 load_halves4(const unsigned short* place) {
  const uint2 all = *(const uint2*)place;
  const float2 first = of_two_halves(all.x), second = of_two_halves(all.y);
  float4 values;
  values.x = first.x, values.y = first.y, values.z = second.x, values.w = second.y;
  return values;
}
__device__ __forceinline__ void store_halves(float2 values, unsigned short* place) {
  *(unsigned*)place = two_halves(values.x, values.y);
}
__device__ __forceinline__ void store_halves(float4 values, unsigned short* place) {
  uint2 all;
  all.x = two_halves(values.x, values.y), all.y = two_halves(values.z, values.w);
  *(uint2*)place = all;
}
struct __align__(64) TensorMap { unsigned long long words[16]; };
__device__ __forceinline__ unsigned local_place(const void* place) {
  return __cvta_generic_to_shared(place);
}
__device__ __forceinline__ void begin_signal(void* signal, unsigned senders) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :: "r"(local_place(signal)), "r"(senders) : "memory");
}
__device__ __forceinline__ void show_signals() {
  asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void show_local() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void await_signal(void* signal, unsigned phase) {
  asm volatile("{\n"
               ".reg .pred there;\n"
               "again_%=:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\n"
               "@!there bra again_%=;\n"
               "}"
               :: "r"(local_place(signal)), "r"(phase) : "memory");
}
__device__ __forceinline__ void send_signal(void* signal) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
               :: "r"(local_place(signal)) : "memory");
}
__device__ __forceinline__ void expect_bytes(void* signal, unsigned count) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(local_place(signal)), "r"(count) : "memory");
}
// Address, bytes between panels and between groups of eight rows, and the order of a row's pieces.
__device__ __forceinline__ unsigned long long describe_panels(const void* place, unsigned panels,
                                                              unsigned groups) {
  return (local_place(place) & 0x3ffff) >> 4 | (unsigned long long)(panels >> 4) << 16
         | (unsigned long long)(groups >> 4) << 32 | 1ull << 62;
}
// Two neighbours of a warp's 16 rows, for two elements of the reduction that are four apart: what a
// work-item holds of the rows of wgmma.m64k8, if rows 8 to 15 are each beside one of the others.
// Half of the work-items load the later element first, so that together they have all banks.
__device__ __forceinline__ void load_rows(unsigned (&to)[4], const float* panels, int panel,
                                          int warp, int lane) {
  const int row = lane >> 2, along = lane & 3, later = (row >> 1) & 1;
  const int element = along + 4 * later, piece = (4 * (warp & 1) + (row >> 1)) ^ element;
  const int place = (warp >> 1) * panel + 32 * element + 4 * piece + 2 * (row & 1);
  const uint2 first = *(const uint2*)(panels + place);
  const uint2 second = *(const uint2*)(panels + (place ^ 144));
  to[0] = later ? second.x : first.x, to[1] = later ? second.y : first.y;
  to[2] = later ? first.x : second.x, to[3] = later ? first.y : second.y;
}
__device__ __forceinline__ void copy_box(void* to, const TensorMap* map, void* signal, int i0, int i1) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%1], [%0, {%2, %3}], [%4];"
               :: "l"(map), "r"(local_place(to)), "r"(i0), "r"(i1), "r"(local_place(signal)) : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap* map, const void* from, int i0, int i1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
               " [%0, {%2, %3}], [%1];"
               :: "l"(map), "r"(local_place(from)), "r"(i0), "r"(i1) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void copy_box(void* to, const TensorMap* map, void* signal, int i0, int i1, int i2) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%1], [%0, {%2, %3, %4}], [%5];"
               :: "l"(map), "r"(local_place(to)), "r"(i0), "r"(i1), "r"(i2), "r"(local_place(signal)) : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap* map, const void* from, int i0, int i1, int i2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group"
               " [%0, {%2, %3, %4}], [%1];"
               :: "l"(map), "r"(local_place(from)), "r"(i0), "r"(i1), "r"(i2) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void copy_box(void* to, const TensorMap* map, void* signal, int i0, int i1, int i2, int i3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%1], [%0, {%2, %3, %4, %5}], [%6];"
               :: "l"(map), "r"(local_place(to)), "r"(i0), "r"(i1), "r"(i2), "r"(i3), "r"(local_place(signal)) : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap* map, const void* from, int i0, int i1, int i2, int i3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group"
               " [%0, {%2, %3, %4, %5}], [%1];"
               :: "l"(map), "r"(local_place(from)), "r"(i0), "r"(i1), "r"(i2), "r"(i3) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void copy_box(void* to, const TensorMap* map, void* signal, int i0, int i1, int i2, int i3, int i4) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%1], [%0, {%2, %3, %4, %5, %6}], [%7];"
               :: "l"(map), "r"(local_place(to)), "r"(i0), "r"(i1), "r"(i2), "r"(i3), "r"(i4), "r"(local_place(signal)) : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap* map, const void* from, int i0, int i1, int i2, int i3, int i4) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group"
               " [%0, {%2, %3, %4, %5, %6}], [%1];"
               :: "l"(map), "r"(local_place(from)), "r"(i0), "r"(i1), "r"(i2), "r"(i3), "r"(i4) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

extern "C" __global__ __launch_bounds__(160)
void kernel_0(const unsigned short* __restrict__ I0, const unsigned short* __restrict__ I1, unsigned short* __restrict__ O0, unsigned char* __restrict__ scratch, const __grid_constant__ TensorMap T0, const __grid_constant__ TensorMap T1)
{
  const long long group = blockIdx.x;
  const long long item = threadIdx.x;
  extern __shared__ __align__(1024) unsigned char pool[];
  const long long lo_i = 0;
  const long long hi_i = 64;
  const long long lo_k = 0;
  const long long hi_k = 64;
  const long long lo_j = 0;
  const long long hi_j = 64;
  const long long warp = (item) / (32);
  const long long lane = (item) % (32);
  const long long v_i = warp;
  const long long l_k = (lane) % (4);
  const long long l_k_rest = (lane) / (4);
  const long long l_i = l_k_rest;
  const long long x_i = 8*v_i + l_i;
  const long long w_i = v_i;
  const long long x_k = l_k;
  unsigned short* const S0 = (unsigned short*)(pool + 0);
  unsigned short* const S1 = (unsigned short*)(pool + 24576);
  const long long t_i = lo_i;
  const long long e_i = hi_i;
  const long long t_j = lo_j;
  const long long e_j = hi_j;
  const long long t_k = lo_k;
  const long long e_k = hi_k;
  unsigned long long* const full = (unsigned long long*)(pool + 49152);
  unsigned long long* const empty = (unsigned long long*)(pool + 50176);
  if (item == 0) {
    for (int n = 0; n < 3; n++) begin_signal(full + n, 1);
    for (int n = 0; n < 3; n++) begin_signal(empty + n, 4);
    show_signals();
  }
  __syncthreads();
  if (item < 128) {
    const long long four_warps = (warp) / (4);
    long long stage = 0;
    long long phase = 0;
    const long long r_i = 16*w_i + t_i + l_i;
    const long long r_k = 2*x_k + t_k;
    const unsigned short* b0 = S0 + 64*x_i;
    const unsigned short* b1 = S1 + 2*x_k;
    float a0_0 = 0.0f;
    float a1_0 = 0.0f;
    float a2_0 = 0.0f;
    float a3_0 = 0.0f;
    float a4_0 = 0.0f;
    float a5_0 = 0.0f;
    float a6_0 = 0.0f;
    float a7_0 = 0.0f;
    float a8_0 = 0.0f;
    float a9_0 = 0.0f;
    float a10_0 = 0.0f;
    float a11_0 = 0.0f;
    float a12_0 = 0.0f;
    float a13_0 = 0.0f;
    float a14_0 = 0.0f;
    float a15_0 = 0.0f;
    float a16_0 = 0.0f;
    float a17_0 = 0.0f;
    float a18_0 = 0.0f;
    float a19_0 = 0.0f;
    float a20_0 = 0.0f;
    float a21_0 = 0.0f;
    float a22_0 = 0.0f;
    float a23_0 = 0.0f;
    float a24_0 = 0.0f;
    float a25_0 = 0.0f;
    float a26_0 = 0.0f;
    float a27_0 = 0.0f;
    float a28_0 = 0.0f;
    float a29_0 = 0.0f;
    float a30_0 = 0.0f;
    float a31_0 = 0.0f;
    long long before = 0;
    for (long long turn = 0; turn < 1; turn++) {
      await_signal(full + stage, phase);
      {
        const unsigned long long rows = describe_panels(S0 + 4096*stage + 4096*four_warps, 8192, 1024);
        const unsigned long long columns = describe_panels(S1 + 4096*stage, 8192, 1024);
        asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
        #pragma unroll
        for (int step = 0; step < 4; step++) {
          asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 1;"
                       : "+f"(a0_0), "+f"(a1_0), "+f"(a16_0), "+f"(a17_0), "+f"(a2_0), "+f"(a3_0), "+f"(a18_0), "+f"(a19_0), "+f"(a4_0), "+f"(a5_0), "+f"(a20_0), "+f"(a21_0), "+f"(a6_0), "+f"(a7_0), "+f"(a22_0), "+f"(a23_0), "+f"(a8_0), "+f"(a9_0), "+f"(a24_0), "+f"(a25_0), "+f"(a10_0), "+f"(a11_0), "+f"(a26_0), "+f"(a27_0), "+f"(a12_0), "+f"(a13_0), "+f"(a28_0), "+f"(a29_0), "+f"(a14_0), "+f"(a15_0), "+f"(a30_0), "+f"(a31_0)
                       : "l"(rows + step * 2), "l"(columns + step * 128));
        }
        asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
      }
      asm volatile("wgmma.wait_group.sync.aligned 1;" :  : : "memory");
      if (0 < turn) {
        if (lane == 0) {
          send_signal(empty + before);
        }
      }
      before += stage - before;
      stage += 1;
      if (3 <= stage) {
        stage += -3;
        phase += -2*phase + 1;
      }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(a0_0), "+f"(a1_0), "+f"(a2_0), "+f"(a3_0), "+f"(a4_0), "+f"(a5_0), "+f"(a6_0), "+f"(a7_0), "+f"(a8_0), "+f"(a9_0), "+f"(a10_0), "+f"(a11_0), "+f"(a12_0), "+f"(a13_0), "+f"(a14_0), "+f"(a15_0), "+f"(a16_0), "+f"(a17_0), "+f"(a18_0), "+f"(a19_0), "+f"(a20_0), "+f"(a21_0), "+f"(a22_0), "+f"(a23_0), "+f"(a24_0), "+f"(a25_0), "+f"(a26_0), "+f"(a27_0), "+f"(a28_0), "+f"(a29_0), "+f"(a30_0), "+f"(a31_0) : : "memory");
    if (lane == 0) {
      send_signal(empty + before);
    }
    unsigned short* o0 = O0 + r_k + 64*r_i;
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a0_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a1_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a2_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a3_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a4_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a5_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a6_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a7_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a8_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a9_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a10_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a11_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a12_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a13_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a14_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a15_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a16_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a17_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a18_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a19_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a20_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a21_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a22_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a23_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a24_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a25_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a26_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a27_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a28_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a29_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a30_0));
    asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"(a31_0));
    store_halves(make_float2(a0_0, a1_0), o0);
    store_halves(make_float2(a2_0, a3_0), o0 + 8);
    store_halves(make_float2(a4_0, a5_0), o0 + 16);
    store_halves(make_float2(a6_0, a7_0), o0 + 24);
    store_halves(make_float2(a8_0, a9_0), o0 + 32);
    store_halves(make_float2(a10_0, a11_0), o0 + 40);
    store_halves(make_float2(a12_0, a13_0), o0 + 48);
    store_halves(make_float2(a14_0, a15_0), o0 + 56);
    store_halves(make_float2(a16_0, a17_0), o0 + 512);
    store_halves(make_float2(a18_0, a19_0), o0 + 520);
    store_halves(make_float2(a20_0, a21_0), o0 + 528);
    store_halves(make_float2(a22_0, a23_0), o0 + 536);
    store_halves(make_float2(a24_0, a25_0), o0 + 544);
    store_halves(make_float2(a26_0, a27_0), o0 + 552);
    store_halves(make_float2(a28_0, a29_0), o0 + 560);
    store_halves(make_float2(a30_0, a31_0), o0 + 568);
  } else {
    if (item == 128) {
      long long stage = 0;
      long long phase = 1;
      for (long long turn = 0; turn < 1; turn++) {
        await_signal(empty + stage, phase);
        expect_bytes(full + stage, 16384);
        copy_box(S0 + 4096*stage, &T0, full + stage, (int)(t_j), (int)(t_i));
        copy_box(S1 + 4096*stage, &T1, full + stage, (int)(t_k), (int)(t_j));
        stage += 1;
        if (3 <= stage) {
          stage += -3;
          phase += -2*phase + 1;
        }
      }
    }
  }
}
