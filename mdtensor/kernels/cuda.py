"""CUDA C++, as NVRTC takes it."""

from __future__ import annotations

from mdtensor.kernels.dialect import Dialect

CUDA = Dialect(
    name="cuda",
    prelude="#include <cuda_fp16.h>",
    kernel='extern "C" __global__ __launch_bounds__({threads})\nvoid {name}({arguments})',
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
        "float16": "__half",
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
    regions={"global": "", "local": "", "private": ""},
    arrays={
        "local": "__shared__ {type} {name}[{extent}];",
        "private": "{type} {name}[{extent}];",
    },
    restrict="__restrict__",
    barrier="__syncthreads();",
    group="blockIdx.x",
    item="threadIdx.x",
    half_load="__half2float({buffer}[{index}])",
    half_store="{buffer}[{index}] = __float2half_rn({value});",
    streaming_store="__stcs(({type}*)({address}), {value});",
    functions={"min": "min", "max": "max"},
    vectors=False,
    sizes_by_value=True,
)
