"""The cases beyond einsum: 002, figure 20; 003, figure 3; layers of networks."""

from bench.kernels.convolutions import CONVOLUTIONS
from bench.kernels.kernel import Kernel
from bench.kernels.records import RECORDS
from bench.kernels.reductions import REDUCTIONS
from bench.kernels.scans import SCANS
from bench.kernels.stencils import STENCILS

KERNELS: tuple[Kernel, ...] = (*STENCILS, *SCANS, *REDUCTIONS, *CONVOLUTIONS, *RECORDS)
