"""One import for all names that listings of the directive and the DSL use.

>>> from mdtensor.directive import Buffer, add, cc, combine_ops, fp32, inp, mdh, out, pw
"""

from mdtensor.api.frontends.loops.buffer_types import (
    Buffer,
    Scalar,
    char,
    fp16,
    fp32,
    fp64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from mdtensor.api.frontends.loops.clauses import (
    add,
    combine_ops,
    inp,
    maximum,
    minimum,
    mul,
    out,
    pw_custom_func,
)
from mdtensor.api.frontends.loops.dsl import f_mul, inp_view, md_hom, out_view
from mdtensor.api.frontends.loops.mdh import mdh
from mdtensor.translate.operators.combination import cc, ps, pw

# As Listing 45 of 002 writes them.
CC, PW, PS = cc, pw, ps

__all__ = [
    "CC",
    "PS",
    "PW",
    "Buffer",
    "Scalar",
    "add",
    "cc",
    "char",
    "combine_ops",
    "f_mul",
    "fp16",
    "fp32",
    "fp64",
    "inp",
    "inp_view",
    "int8",
    "int16",
    "int32",
    "int64",
    "maximum",
    "md_hom",
    "mdh",
    "minimum",
    "mul",
    "out",
    "out_view",
    "ps",
    "pw",
    "pw_custom_func",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
