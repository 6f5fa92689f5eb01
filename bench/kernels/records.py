"""Records: probabilistic record linkage (PRL)."""

from __future__ import annotations

from bench.kernels.kernel import Kernel

# Cases on structured arrays have their place here.
RECORDS: tuple[Kernel, ...] = ()
