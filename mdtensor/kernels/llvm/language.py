"""The LLVM IR language: its name, and the facts of the processor that it is for."""

from __future__ import annotations

from mdtensor.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LLVM:
    """LLVM IR for one processor, as data for its renderer.

    It is `fused` where products that are added up round once, and has `halves` where instructions
    convert float16. It `scales` where an instruction scales floats by powers of two, and has
    `masks` where loads of some lanes alone are as fast as others and never fault by lanes that they
    leave out: AVX-512 has both.
    """

    name: str
    fused: bool
    halves: bool = True
    scales: bool = False
    masks: bool = False
    narrow_index: str = ""

    def narrowed(self) -> LLVM:
        """The language itself: its indices stay as wide as addresses."""
        return self


LLVM_IR = LLVM("llvm", fused=False, halves=False)
LLVM_IR_FMA = LLVM("llvm", fused=True)
LLVM_IR_AVX512 = LLVM("llvm", fused=True, scales=True, masks=True)
