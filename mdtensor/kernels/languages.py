"""The target languages of the renderers."""

from __future__ import annotations

from typing import TypeAlias

from mdtensor.kernels.dialect import Dialect
from mdtensor.kernels.llvm.language import LLVM

Language: TypeAlias = Dialect | LLVM
