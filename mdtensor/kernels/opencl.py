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
    # Not "restrict ": it makes nothing faster, and led Intel's compiler to store in wrong places.
    restrict="",
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
    group="get_group_id(0)",
    item="get_local_id(0)",
    half_load="vload_half({index}, {buffer})",
    half_store="vstore_half_rte({value}, {index}, {buffer});",
    streaming_store="__builtin_nontemporal_store({value}, (__global {type}*)({address}));",
    functions={"min": "min", "max": "max"},
    wide_types=_TYPES,
    wide_load="vload{lanes}(0, {address})",
    wide_store="vstore{lanes}({value}, 0, {address});",
    pack="({type})({values})",
    lane_prefix="s",
    lanes="0123456789abcdef",
    vectors=True,
    sizes_by_value=False,
)
