"""OpenCL C."""

from __future__ import annotations

from mdtensor.kernels.dialect import Dialect

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

OPENCL = Dialect(
    name="opencl",
    prelude="#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
    kernel=(
        "__kernel __attribute__((reqd_work_group_size({threads}, 1, 1)))\nvoid {name}({arguments})"
    ),
    types=_TYPES,
    unsigned={"int8": "uchar", "int16": "ushort", "int32": "uint", "int64": "ulong"},
    index="long",
    regions={"global": "__global ", "local": "__local ", "private": ""},
    arrays={
        "local": "__local {type} {name}[{extent}];",
        "private": "{type} {name}[{extent}] __attribute__((aligned(64)));",
    },
    pool="",
    pooled="",
    declared_local=0,
    # Not "restrict ": it makes nothing faster, and led Intel's compiler to store in wrong places.
    restrict="",
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
    group="get_group_id(0)",
    item="get_local_id(0)",
    half_load="vload_half({index}, {buffer})",
    half_store="vstore_half_rte({value}, {index}, {buffer});",
    streaming_store="__builtin_nontemporal_store({value}, (__global {type}*)({address}));",
    streaming_alignment=64,
    copy_async="",
    commit_copies="",
    await_copies="",
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
)
