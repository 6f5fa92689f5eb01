"""Benchmarks: the same cases for mdtensor and its peers in one run, beside the limits."""

import os

# Both make OpenBLAS take another processor's kernels; it reads them when NumPy is first imported.
MISLEADING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")

for variable in MISLEADING:
    os.environ.pop(variable, None)
