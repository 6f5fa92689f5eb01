"""The dialect of OpenCL C."""

from __future__ import annotations

from dataclasses import replace

from mdtensor.kernels.dialect import Dialect, ShortFloat

_TYPES = {
    "bool": "uchar",
    "int8": "char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "uchar",
    "uint16": "ushort",
    "uint32": "uint",
    "uint64": "ulong",
    "float16": "half",
    "bfloat16": "ushort",
    "float32": "float",
    "float64": "double",
}

# Compilers for processors have vectors of any length, but OpenCL's functions end at 16 lanes.
_LONG_VECTOR = """\
typedef {type} {type}32 __attribute__((ext_vector_type(32)));
typedef {type} {type}32_anywhere __attribute__((ext_vector_type(32), aligned(sizeof({type}))));
#define convert_{type}32(x) __builtin_convertvector((x), {type}32)
#define as_{type}32(x) __builtin_astype((x), {type}32)
static inline {type}32 __attribute__((overloadable)) vload32(size_t n, const {type}* p)
{{ return *((const {type}32_anywhere*)p + n); }}
static inline void __attribute__((overloadable)) vstore32({type}32 x, size_t n, {type}* p)
{{ *(({type}32_anywhere*)p + n) = x; }}
static inline {type}32 __attribute__((overloadable)) min({type}32 x, {type}32 y)
{{ return x < y ? x : y; }}
static inline {type}32 __attribute__((overloadable)) max({type}32 x, {type}32 y)
{{ return x > y ? x : y; }}"""
_LONG_SELECT = """\
static inline {type}32 __attribute__((overloadable)) select({type}32 x, {type}32 y, {mask}32 which)
{{ return which ? y : x; }}"""
_MASKS = {"char": "char", "uchar": "char", "short": "short", "ushort": "short"}
_LONG_VECTORS = "\n".join(
    (
        *(_LONG_VECTOR.format(type=name) for name in _MASKS),
        *(_LONG_SELECT.format(type=name, mask=mask) for name, mask in _MASKS.items()),
    )
)
# The upper half of a float, rounded to the nearest, of two such to the even one; a NaN stays one. A
# double is rounded to one of the two next floats first, where it lies between them to the odd one,
# so that it is rounded once.
_BFLOATS = """\
static inline ushort{n} __attribute__((overloadable)) nearest_bfloat(float{n} x)
{{
  const uint{n} bits = as_uint{n}(x), upper = bits >> 16;
  const uint{n} nearest = (bits + (upper & 1) + 0x7fff) >> 16;
  return convert_ushort{n}(select(nearest, upper | 0x40, isnan(x)));
}}
static inline ushort{n} __attribute__((overloadable)) nearest_bfloat(double{n} x)
{{
  const float{n} nearest = convert_float{n}(x);
  const double{n} back = convert_double{n}(nearest);
  const long{n} beyond = fabs(back) > fabs(x) ? (long{n})(1) : (long{n})(0);
  const long{n} odd = back != x ? (long{n})(1) : (long{n})(0);
  const uint{n} bits = (as_uint{n}(nearest) - convert_uint{n}(beyond)) | convert_uint{n}(odd);
  return nearest_bfloat(as_float{n}(bits));
}}"""
_BFLOAT_FUNCTIONS = "\n".join(_BFLOATS.format(n=n) for n in ("", 2, 4, 8, 16))
# A launch with addresses, which are numbers, is cheaper than one with pointers to shared memory.
_PRELUDE = """\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef BY_ADDRESS
#define BUFFER(type) ulong
#else
#define BUFFER(type) type*
#endif"""
_FENCE = "atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device);"

OPENCL = Dialect(
    name="opencl",
    prelude=_PRELUDE,
    kernel=(
        "__kernel __attribute__((reqd_work_group_size({threads}, 1, 1)))\nvoid {name}({arguments})"
    ),
    types=_TYPES,
    unsigned={"int8": "uchar", "int16": "ushort", "int32": "uint", "int64": "ulong"},
    index="long",
    regions={"global": "__global ", "local": "__local ", "exchange": "__local ", "private": ""},
    arrays={
        "local": "__local {type} {name}[{extent}] __attribute__((aligned(16)));",
        "exchange": "__local {type} {name}[{extent}];",
        "private": "{type} {name}[{extent}] __attribute__((aligned(64)));",
    },
    pool="",
    pooled="",
    declared_local=0,
    # Not "restrict": it makes nothing faster, and led Intel's compiler to store in wrong places.
    buffer="BUFFER({type}) at_{name}",
    received="{type}* {name} = ({type}*)at_{name};",
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
    memory_barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    exchange={
        "wait": "barrier(CLK_LOCAL_MEM_FENCE);",
        "put": "{buffer}[{item} + {offset}] = {value};",
        "down": "const {type} {name} = {buffer}[min({item} + {lane}, {last}L) + {offset}];",
        "up": "const {type} {name} = {buffer}[max({item} - {lane}, 0L) + {offset}];",
        "from": "const {type} {name} = {buffer}[{item} / {width} * {width} + {lane} + {offset}];",
    },
    arrive=(
        "__local int arrived;",
        _FENCE,
        "barrier(CLK_LOCAL_MEM_FENCE);",
        "if (get_local_id(0) == 0) {{",
        "  volatile __global uint* counter = counters + {counter};",
        "  arrived = atomic_add(counter, 1u) + 1 == {count};",
        "  if (arrived) *counter = 0;",
        "}}",
        "barrier(CLK_LOCAL_MEM_FENCE);",
        _FENCE,
        "const long {name} = arrived;",
    ),
    in_order=(
        "__local uint taken;",
        "if (get_local_id(0) == 0) {{",
        "  taken = atomic_add((volatile __global uint*)counters, 1u);",
        "  if (taken % {span}u == {last}u)",
        "    atomic_add((volatile __global uint*)counters, {span}u - {last}u - 1u);",
        "}}",
        "barrier(CLK_LOCAL_MEM_FENCE);",
        "const long group = taken % {span}u;",
        "const uint epoch = taken / {span}u & 0x3fffffffu;",
    ),
    in_order_alone=(
        "const uint taken = atomic_add((volatile __global uint*)counters, 1u);",
        "if (taken % {span}u == {last}u)",
        "  atomic_add((volatile __global uint*)counters, {span}u - {last}u - 1u);",
        "const long group = taken % {span}u;",
        "const uint epoch = taken / {span}u & 0x3fffffffu;",
    ),
    words=("ulong", "((volatile __global ulong*)counters)[{index}]"),
    atomics={
        ("add", 4): "atomic_add((volatile __local {type}*)({place}), {value});",
        ("min", 4): "atomic_min((volatile __local {type}*)({place}), {value});",
        ("max", 4): "atomic_max((volatile __local {type}*)({place}), {value});",
        ("add", 8): "atom_add((volatile __local {type}*)({place}), {value});",
        ("min", 8): "atom_min((volatile __local {type}*)({place}), {value});",
        ("max", 8): "atom_max((volatile __local {type}*)({place}), {value});",
    },
    bits={"float32": ("as_uint({})", "as_float({})"), "float64": ("as_long({})", "as_double({})")},
    group="get_group_id(0)",
    item="get_local_id(0)",
    short_floats={
        "float16": ShortFloat(
            "vload_half({index}, {buffer})",
            "vstore_half_rte({value}, {index}, {buffer});",
            "vstore_half{lanes}_rte({value}, 0, {address});",
            load_together="vload_half{lanes}(0, {address})",
        ),
        "bfloat16": ShortFloat(
            "as_float((uint){buffer}[{index}] << 16)",
            "{buffer}[{index}] = nearest_bfloat({value});",
            "vstore{lanes}(nearest_bfloat({value}), 0, {address});",
            _BFLOAT_FUNCTIONS,
            "as_float{lanes}(convert_uint{lanes}(vload{lanes}(0, {address})) << 16)",
        ),
    },
    renewed={},
    streaming_store="__builtin_nontemporal_store({value}, (__global {type}*)({address}));",
    streaming_alignment=64,
    matrix_functions="",
    # A pointer to whatever memory: what compilers take for constant, private or global memory
    # differs, and OpenCL's own function of that name is a call, around which registers are saved.
    prefetch="__builtin_prefetch((const void*)(size_t)({address}));",
    copy_async="",
    commit_copies="",
    await_copies="",
    copy_out="for (long n = item; n < {count}; n += {items}) ({target})[n] = ({source})[n];",
    functions={"min": "min", "max": "max"},
    wide_types=_TYPES,
    wide_load="vload{lanes}(0, {address})",
    wide_store="vstore{lanes}({value}, 0, {address});",
    pack="({type})({values})",
    lane_prefix="s",
    lanes="0123456789abcdef",
    vectors=True,
    sizes_by_value=False,
    long_vectors=_LONG_VECTORS,
    long_lanes=32,
    # As a vector of single lanes it is no shuffle to Intel's compiler, but as slow as its parts.
    shuffle="__builtin_shufflevector({first}, {second}, {picks})",
    # Schedules say what is a vector. Intel's compiler makes vectors of more, and crashes where a
    # reduction reads every second element, as products of complex numbers do.
    before_loops=("#pragma clang loop vectorize(disable)",),
    # Intel's compiler takes the first turn out of these, and stores its results elsewhere.
    before_partial_scans=("#pragma clang loop unroll(disable)",),
)
# For processors with such an instruction; others compute it by hundreds of theirs.
OPENCL_FMA = replace(OPENCL, fused="fma({x}, {y}, {addend})")
