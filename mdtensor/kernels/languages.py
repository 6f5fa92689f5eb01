"""The languages in which programs are written."""

from __future__ import annotations

from typing import TypeAlias

from mdtensor.kernels.dialect import Dialect
from mdtensor.kernels.llvm.language import LLVM

Language: TypeAlias = Dialect | LLVM
