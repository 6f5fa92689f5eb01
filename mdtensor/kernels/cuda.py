"""The dialect of CUDA C++, as NVRTC compiles it."""

from __future__ import annotations

from mdtensor.kernels.cuda_mma import MATRIX_FUNCTIONS
from mdtensor.kernels.dialect import Dialect, ShortFloat

# Without headers, which NVRTC would have to find.
_PRELUDE = """\
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
}"""

# Half floats are their bits, converted in PTX.
_HALF_FUNCTIONS = """\
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
}"""

# The upper halves of floats.
_BFLOAT_FUNCTIONS = """\
__device__ __forceinline__ float of_bfloat(unsigned short bits) {
  return __uint_as_float((unsigned)bits << 16);
}
__device__ __forceinline__ float2 of_two_bfloats(unsigned both) {
  float2 values;
  values.x = __uint_as_float(both << 16), values.y = __uint_as_float(both & 0xffff0000u);
  return values;
}
__device__ __forceinline__ unsigned two_bfloats(float first, float second) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
__device__ __forceinline__ void store_bfloat(float value, unsigned short* place) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(*place) : "f"(value));
}"""

# Two or four short floats that lie beside each other.
_TOGETHER = """
__device__ __forceinline__ float2 load_NAMES2(const unsigned short* place) {
  return of_two_NAMES(*(const unsigned*)place);
}
__device__ __forceinline__ float4 load_NAMES4(const unsigned short* place) {
  const uint2 all = *(const uint2*)place;
  const float2 first = of_two_NAMES(all.x), second = of_two_NAMES(all.y);
  float4 values;
  values.x = first.x, values.y = first.y, values.z = second.x, values.w = second.y;
  return values;
}
__device__ __forceinline__ void store_NAMES(float2 values, unsigned short* place) {
  *(unsigned*)place = two_NAMES(values.x, values.y);
}
__device__ __forceinline__ void store_NAMES(float4 values, unsigned short* place) {
  uint2 all;
  all.x = two_NAMES(values.x, values.y), all.y = two_NAMES(values.z, values.w);
  *(uint2*)place = all;
}"""

# NVRTC 13 reads neighbouring bytes of local memory together, and takes differences of the first of
# four for bytes that are extended already; NVRTC 13.0 takes the magnitude of any number of 16 bits
# for positive, which it makes of choices and differences (docs/adr/0004). They may not know whence
# what these operations give, or choose first, has come:
_SMALL = {
    "byte_of": ("signed char", "int8", ("+", "-", "*")),
    "short_of": ("short", "int16", ("-", "select")),
}
_SMALL_FUNCTIONS = {
    name: f"""\
__device__ __forceinline__ {kind} {name}(int wide) {{
  asm("" : "+r"(wide));
  return ({kind})wide;
}}"""
    for name, (kind, _, _) in _SMALL.items()
}

# NVRTC 13 crashes on places made of remainders that it knows as such, and needs in loops and behind
# them (docs/adr/0004). Elsewhere what it knows of them saves registers.
_REMAINDER_FUNCTIONS = """\
__device__ __forceinline__ long long remainder_of(unsigned number, unsigned by) {
  unsigned found = number % by;
  asm("" : "+r"(found));
  return found;
}"""

# Signals are mbarriers, whose bytes bulk tensor copies count (PTX ISA, sections 9.7.13 and 9.7.9);
# panels are what wgmma calls matrices in shared memory with swizzling of 128 bytes (9.7.16).
_COPIES = "\n".join(
    f"""\
__device__ __forceinline__ void copy_box(void* to, const TensorMap* map, void* signal, {indices}) {{
  asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%1], [%0, {{{places}}}], [%{rank + 2}];"
               :: "l"(map), "r"(local_place(to)), {given}, "r"(local_place(signal)) : "memory");
}}
__device__ __forceinline__ void store_box(const TensorMap* map, const void* from, {indices}) {{
  asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group"
               " [%0, {{{places}}}], [%1];"
               :: "l"(map), "r"(local_place(from)), {given} : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}}"""
    for rank in range(2, 6)
    for indices, places, given in [
        (
            ", ".join(f"int i{n}" for n in range(rank)),
            ", ".join(f"%{n + 2}" for n in range(rank)),
            ", ".join(f'"r"(i{n})' for n in range(rank)),
        )
    ]
)
_PANEL_FUNCTIONS = (
    """\
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
  asm volatile("{\\n"
               ".reg .pred there;\\n"
               "again_%=:\\n"
               "mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\\n"
               "@!there bra again_%=;\\n"
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
"""
    + _COPIES
)

CUDA = Dialect(
    name="cuda",
    prelude=_PRELUDE,
    kernel='extern "C" __global__ {cluster}__launch_bounds__({threads})\nvoid {name}({arguments})',
    types={
        "bool": "unsigned char",
        "int8": "signed char",
        "int16": "short",
        "int32": "int",
        "int64": "long long",
        "uint8": "unsigned char",
        "uint16": "unsigned short",
        "uint32": "unsigned int",
        "uint64": "unsigned long long",
        "float16": "unsigned short",
        "bfloat16": "unsigned short",
        "float32": "float",
        "float64": "double",
    },
    unsigned={
        "int8": "unsigned char",
        "int16": "unsigned short",
        "int32": "unsigned int",
        "int64": "unsigned long long",
    },
    index="long long",
    narrow_index="int",
    narrow_division="(unsigned)({lhs}) {op} (unsigned)({rhs})",
    regions={"global": "", "local": "", "exchange": "", "private": ""},
    arrays={
        "local": "__shared__ __align__(16) {type} {name}[{extent}];",
        "exchange": "",
        "private": "{type} {name}[{extent}];",
    },
    pool="extern __shared__ __align__(1024) unsigned char pool[];",
    pooled="{type}* const {name} = ({type}*)(pool + {offset});",
    declared_local=48 << 10,
    buffer="{type}* __restrict__ {name}",
    received="",
    barrier="__syncthreads();",
    memory_barrier="__syncthreads();",
    exchange={
        "wait": "",
        "put": "",
        "down": "const {type} {name} = __shfl_down_sync(0xffffffffu, {value}, {lane});",
        "up": "const {type} {name} = __shfl_up_sync(0xffffffffu, {value}, {lane}, {width});",
        "from": "const {type} {name} = __shfl_sync(0xffffffffu, {value}, {lane}, {width});",
    },
    arrive=(
        "__shared__ int arrived;",
        "__syncthreads();",
        "if (threadIdx.x == 0) {{",
        "  arrived = count_one(counters + {counter}) + 1 == {count};",
        "  if (arrived) counters[{counter}] = 0;",
        "}}",
        "__syncthreads();",
        "const long long {name} = arrived;",
    ),
    cluster={
        "attribute": ("__cluster_dims__({count}, 1, 1) ",),
        "begin": ('asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");',),
        "await": ('asm volatile("barrier.cluster.wait.acquire;" ::: "memory");',),
        "of_first": (
            "{type}* {name};",
            'asm("mapa.u64 %0, %1, 0;" : "=l"({name}) : "l"({buffer}));',
        ),
        "meet": (
            'asm volatile("barrier.cluster.arrive.release;" ::: "memory");',
            "const long long {name} = {number} == 0;",
            'if ({name}) asm volatile("barrier.cluster.wait.acquire;" ::: "memory");',
        ),
    },
    in_order=(
        "__shared__ unsigned int taken;",
        "if (threadIdx.x == 0) {{",
        "  taken = atomicAdd(counters, 1u);",
        "  if (taken % {span}u == {last}u) atomicAdd(counters, {span}u - {last}u - 1u);",
        "}}",
        "__syncthreads();",
        "const long long group = taken % {span}u;",
        "const unsigned int epoch = taken / {span}u & 0x3fffffffu;",
    ),
    words=("unsigned long long", "((volatile unsigned long long*)counters)[{index}]"),
    bits={
        "float32": ("__float_as_uint({})", "__uint_as_float({})"),
        "float64": ("__double_as_longlong({})", "__longlong_as_double({})"),
    },
    atomics={
        ("add", 4): "atomicAdd({place}, {value});",
        ("min", 4): "atomicMin({place}, {value});",
        ("max", 4): "atomicMax({place}, {value});",
        ("add", 8): "atomicAdd((unsigned long long*)({place}), (unsigned long long){value});",
        ("min", 8): "atomicMin({place}, {value});",
        ("max", 8): "atomicMax({place}, {value});",
    },
    group="blockIdx.x",
    item="threadIdx.x",
    short_floats={
        "float16": ShortFloat(
            "of_half({buffer}[{index}])",
            "store_half({value}, {buffer} + {index});",
            "store_halves({value}, {address});",
            _HALF_FUNCTIONS + _TOGETHER.replace("NAMES", "halves"),
            "load_halves{lanes}({address})",
        ),
        "bfloat16": ShortFloat(
            "of_bfloat({buffer}[{index}])",
            "store_bfloat({value}, {buffer} + {index});",
            "store_bfloats({value}, {address});",
            _BFLOAT_FUNCTIONS + _TOGETHER.replace("NAMES", "bfloats"),
            "load_bfloats{lanes}({address})",
        ),
    },
    # A product with 1 and -0 added: what the assembler does not take for a copy.
    renewed={
        "float32": 'asm volatile("fma.rn.f32 %0, %0, 0f3F800000, 0f80000000;" : "+f"({name}));'
    },
    streaming_store="__stcs(({type}*)({address}), {value});",
    streaming_alignment=0,
    matrix_functions=MATRIX_FUNCTIONS,
    panel_functions=_PANEL_FUNCTIONS,
    map_argument="const __grid_constant__ TensorMap {name}",
    prefetch="",
    copy_async="copy_async<{nbytes}>({target}, {source});",
    commit_copies='asm volatile("cp.async.commit_group;" ::: "memory");',
    await_copies='asm volatile("cp.async.wait_group {pending};" ::: "memory");',
    copy_out=(
        'if (item == 0) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;'
        ' cp.async.bulk.commit_group;" :: "l"({target}), '
        '"r"((unsigned)__cvta_generic_to_shared({source})), "r"({nbytes}) : "memory");'
    ),
    show_copies='asm volatile("fence.proxy.async.shared::cta;" ::: "memory");',
    await_out=(
        'if (item == 0) asm volatile("cp.async.bulk.wait_group {pending};" ::: "memory");',
        'if (item == 0) asm volatile("cp.async.bulk.wait_group.read {pending};" ::: "memory");',
    ),
    functions={"min": "min", "max": "max"},
    wide_types={
        "int8": "char",
        "int16": "short",
        "int32": "int",
        "int64": "longlong",
        "uint8": "uchar",
        "uint16": "ushort",
        "uint32": "uint",
        "uint64": "ulonglong",
        "float32": "float",
        "float64": "double",
    },
    wide_load="*(const {type}*)({address})",
    wide_store="*({type}*)({address}) = {value};",
    pack="make_{type}({values})",
    lane_prefix="",
    lanes="xyzw",
    vectors=False,
    sizes_by_value=True,
    small={(dtype, op): name for name, (_, dtype, ops) in _SMALL.items() for op in ops},
    small_functions=_SMALL_FUNCTIONS,
    hidden_remainder="remainder_of({number}, {by})",
    remainder_functions=_REMAINDER_FUNCTIONS,
    # Else its assembler takes what is set under a condition for what was set before (ADR 4).
    # NVRTC writes such loops out and looks for a closed form of all turns, at times for ever.
    before_repetitions=("#pragma unroll 1",),
    no_value="{}",
)
