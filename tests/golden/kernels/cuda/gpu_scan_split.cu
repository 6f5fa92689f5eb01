// out_view(a: int32[23] (i) -> (i); b: int32[23] (i) -> (i))
// md_hom[i:23](f, (ps(then)))
// inp_view(x: int32[23] (i) -> (i))
// gpu: parts i:3; threads i:1
// tiles i:0; registers i:2; lanes none
// order i | - | i
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

extern "C" __global__ __launch_bounds__(1)
void kernel_0(const int* __restrict__ I0, int* __restrict__ O0, int* __restrict__ O1, unsigned char* __restrict__ scratch)
{
  const int group = blockIdx.x;
  const int z_i = group;
  const int lo_i = 8*z_i;
  const int hi_i = (lo_i + 8 < 23 ? lo_i + 8 : 23);
  int* R0 = (int*)(scratch);
  int* R1 = (int*)(scratch + 24);
  const int t_i = lo_i;
  const int e_i = hi_i;
  int* o0 = R0 + z_i;
  int* o1 = R1 + z_i;
  const int* b0 = I0;
  int a0_0_0 = 1;
  int a0_0_1 = 0;
  int r_i = t_i;
  for (; r_i + 2 <= e_i; r_i += 2) {
    const int* p0 = b0 + r_i;
    const int x0 = p0[0];
    const int n1_0 = (int)((unsigned int)(a0_0_0) * (unsigned int)(x0));
    const int n1_1 = (int)((unsigned int)((int)((unsigned int)(a0_0_1) * (unsigned int)(x0))) + (unsigned int)((int)((long long)(r_i))));
    a0_0_0 = n1_0;
    a0_0_1 = n1_1;
    const int x1 = p0[1];
    const int n6_0 = (int)((unsigned int)(a0_0_0) * (unsigned int)(x1));
    const int n6_1 = (int)((unsigned int)((int)((unsigned int)(a0_0_1) * (unsigned int)(x1))) + (unsigned int)((int)((long long)(r_i + 1))));
    a0_0_0 = n6_0;
    a0_0_1 = n6_1;
  }
  for (; r_i < e_i; r_i++) {
    const int* p0 = b0 + r_i;
    const int x0 = p0[0];
    const int n1_0 = (int)((unsigned int)(a0_0_0) * (unsigned int)(x0));
    const int n1_1 = (int)((unsigned int)((int)((unsigned int)(a0_0_1) * (unsigned int)(x0))) + (unsigned int)((int)((long long)(r_i))));
    a0_0_0 = n1_0;
    a0_0_1 = n1_1;
  }
  o0[0] = a0_0_0;
  o1[0] = a0_0_1;
}

extern "C" __global__ __launch_bounds__(1)
void kernel_1(const int* __restrict__ I0, int* __restrict__ O0, int* __restrict__ O1, unsigned char* __restrict__ scratch)
{
  const int group = blockIdx.x;
  int* R0 = (int*)(scratch);
  int* R1 = (int*)(scratch + 24);
  for (int m = 0; m < 1; m++) {
    int a0 = 1;
    int a1 = 0;
    for (int n = 0; n < 3; n++) {
      const int t0 = R0[n + m];
      const int t1 = R1[n + m];
      R0[n + m] = a0;
      R1[n + m] = a1;
      const int n0 = (int)((unsigned int)(a0) * (unsigned int)(t0));
      const int n1 = (int)((unsigned int)((int)((unsigned int)(a1) * (unsigned int)(t0))) + (unsigned int)(t1));
      a0 = n0;
      a1 = n1;
    }
  }
}

extern "C" __global__ __launch_bounds__(1)
void kernel_2(const int* __restrict__ I0, int* __restrict__ O0, int* __restrict__ O1, unsigned char* __restrict__ scratch)
{
  const int group = blockIdx.x;
  const int z_i = group;
  const int lo_i = 8*z_i;
  const int hi_i = (lo_i + 8 < 23 ? lo_i + 8 : 23);
  int* R0 = (int*)(scratch);
  int* R1 = (int*)(scratch + 24);
  const int t_i = lo_i;
  const int e_i = hi_i;
  int* o0 = O0;
  int* o1 = O1;
  int* carry0 = R0 + z_i;
  int* carry1 = R1 + z_i;
  const int* b0 = I0;
  int a0_0_0 = carry0[0];
  int a0_0_1 = carry1[0];
  int r_i = t_i;
  for (; r_i + 2 <= e_i; r_i += 2) {
    const int* p0 = b0 + r_i;
    int* q0 = o0 + r_i;
    int* q1 = o1 + r_i;
    const int x0 = p0[0];
    const int v0_0_0_0 = x0;
    const int v0_0_0_1 = (int)((long long)(r_i));
    const int w0_0_0_0 = (int)((unsigned int)(a0_0_0) * (unsigned int)(v0_0_0_0));
    const int w0_0_0_1 = (int)((unsigned int)((int)((unsigned int)(a0_0_1) * (unsigned int)(v0_0_0_0))) + (unsigned int)(v0_0_0_1));
    a0_0_0 = w0_0_0_0;
    a0_0_1 = w0_0_0_1;
    q0[0] = w0_0_0_0;
    q1[0] = w0_0_0_1;
    const int x1 = p0[1];
    const int v1_0_0_0 = x1;
    const int v1_0_0_1 = (int)((long long)(r_i + 1));
    const int w1_0_0_0 = (int)((unsigned int)(a0_0_0) * (unsigned int)(v1_0_0_0));
    const int w1_0_0_1 = (int)((unsigned int)((int)((unsigned int)(a0_0_1) * (unsigned int)(v1_0_0_0))) + (unsigned int)(v1_0_0_1));
    a0_0_0 = w1_0_0_0;
    a0_0_1 = w1_0_0_1;
    q0[1] = w1_0_0_0;
    q1[1] = w1_0_0_1;
  }
  for (; r_i < e_i; r_i++) {
    const int* p0 = b0 + r_i;
    int* q0 = o0 + r_i;
    int* q1 = o1 + r_i;
    const int x0 = p0[0];
    const int v0_0_0_0 = x0;
    const int v0_0_0_1 = (int)((long long)(r_i));
    const int w0_0_0_0 = (int)((unsigned int)(a0_0_0) * (unsigned int)(v0_0_0_0));
    const int w0_0_0_1 = (int)((unsigned int)((int)((unsigned int)(a0_0_1) * (unsigned int)(v0_0_0_0))) + (unsigned int)(v0_0_0_1));
    a0_0_0 = w0_0_0_0;
    a0_0_1 = w0_0_0_1;
    q0[0] = w0_0_0_0;
    q1[0] = w0_0_0_1;
  }
}
