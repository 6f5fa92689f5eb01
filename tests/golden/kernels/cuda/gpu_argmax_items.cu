// out_view(y: float32[3] (i, j) -> (i); at: int64[3] (i, j) -> (i))
// md_hom[i:3, j:21](f, (cc, pw(argmax)))
// inp_view(x: float32[3, 21] (i, j) -> (i, j))
// gpu: parts i:1 j:1; threads i:1 j:4
// tiles i:0 j:0; registers i:1 j:2; lanes none
// order i j | i | j
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
void kernel_0(const float* __restrict__ I0, float* __restrict__ O0, long long* __restrict__ O1, unsigned char* __restrict__ scratch)
{
  const int group = blockIdx.x;
  const int item = threadIdx.x;
  const int lo_i = 0;
  const int hi_i = 3;
  const int lo_j = 0;
  const int hi_j = 21;
  const int x_j = remainder_of(item, 4);
  const int y_j = (unsigned)(item) / (unsigned)(4);
  __shared__ __align__(16) float L0[4];
  __shared__ __align__(16) long long L1[4];
  const int turn1 = remainder_of(item, 2);
  const int turn2 = remainder_of(item, 4);
  const int t_i = lo_i;
  const int e_i = hi_i;
  const int t_j = lo_j;
  const int e_j = hi_j;
  int r_i = t_i;
  for (; r_i < e_i; r_i++) {
    float* o0 = O0 + r_i;
    long long* o1 = O1 + r_i;
    const float* b0 = I0 + 21*r_i;
    float a0_0_0 = -INFINITY;
    long long a0_0_1 = (long long)(4611686018427387904L);
    int r_j = 2*x_j + t_j;
    for (; r_j + 8 <= e_j + 6; r_j += 8) {
      const float* p0 = b0 + r_j;
      const float x0 = p0[0];
      const float n1_0 = (((x0 > a0_0_0) | ((x0 == a0_0_0) & ((long long)(r_j) < a0_0_1))) ? x0 : a0_0_0);
      const long long n1_1 = (((x0 > a0_0_0) | ((x0 == a0_0_0) & ((long long)(r_j) < a0_0_1))) ? (long long)(r_j) : a0_0_1);
      a0_0_0 = n1_0;
      a0_0_1 = n1_1;
      const float x1 = p0[1];
      const float n6_0 = (((x1 > a0_0_0) | ((x1 == a0_0_0) & ((long long)(r_j + 1) < a0_0_1))) ? x1 : a0_0_0);
      const long long n6_1 = (((x1 > a0_0_0) | ((x1 == a0_0_0) & ((long long)(r_j + 1) < a0_0_1))) ? (long long)(r_j + 1) : a0_0_1);
      a0_0_0 = n6_0;
      a0_0_1 = n6_1;
    }
    for (; r_j < e_j; r_j++) {
      const float* p0 = b0 + r_j;
      const float x0 = p0[0];
      const float n1_0 = (((x0 > a0_0_0) | ((x0 == a0_0_0) & ((long long)(r_j) < a0_0_1))) ? x0 : a0_0_0);
      const long long n1_1 = (((x0 > a0_0_0) | ((x0 == a0_0_0) & ((long long)(r_j) < a0_0_1))) ? (long long)(r_j) : a0_0_1);
      a0_0_0 = n1_0;
      a0_0_1 = n1_1;
    }
    __syncthreads();
    L0[item] = a0_0_0;
    L1[item] = a0_0_1;
    __syncthreads();
    if (turn1 < 1) {
      if (item + 1 < 4) {
        const float t0_0_1_0 = (((L0[item + 1] > L0[item]) | ((L0[item + 1] == L0[item]) & (L1[item + 1] < L1[item]))) ? L0[item + 1] : L0[item]);
        const long long t0_0_1_1 = (((L0[item + 1] > L0[item]) | ((L0[item + 1] == L0[item]) & (L1[item + 1] < L1[item]))) ? L1[item + 1] : L1[item]);
        L0[item] = t0_0_1_0;
        L1[item] = t0_0_1_1;
      }
    }
    __syncthreads();
    if (turn2 < 1) {
      if (item + 2 < 4) {
        const float t0_0_2_0 = (((L0[item + 2] > L0[item]) | ((L0[item + 2] == L0[item]) & (L1[item + 2] < L1[item]))) ? L0[item + 2] : L0[item]);
        const long long t0_0_2_1 = (((L0[item + 2] > L0[item]) | ((L0[item + 2] == L0[item]) & (L1[item + 2] < L1[item]))) ? L1[item + 2] : L1[item]);
        L0[item] = t0_0_2_0;
        L1[item] = t0_0_2_1;
      }
    }
    __syncthreads();
    a0_0_0 = L0[0];
    a0_0_1 = L1[0];
    if (item < 1) {
      o0[0] = a0_0_0;
      o1[0] = a0_0_1;
    }
  }
}
