"""Which LLVM IR is written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LLVM:
    """The language LLVM IR; `fused` where products that are added up round once."""

    name: str
    fused: bool
    narrow_index: str = ""

    def narrowed(self) -> LLVM:
        """Itself: indices are as wide as addresses."""
        return self


LLVM_IR = LLVM("llvm", fused=False)
LLVM_IR_FMA = LLVM("llvm", fused=True)
