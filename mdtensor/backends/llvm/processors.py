"""Facts about named processors, for LLVM's target and the cost model.

Operating systems of Arm's and Apple's processors tell neither clock nor, in part, caches; here they
are, and those of processors for which kernels are compiled and tested on others. Vectors are those
that kernels are made of: of SVE, whose length code does not know, the 128 bits that all have.
"""

from __future__ import annotations

from collections.abc import Mapping

from mdtensor.dataclass import dataclass
from mdtensor.specs import Target

AARCH64, X86_64 = "aarch64", "x86_64"
_KB, _MB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor by its LLVM name, which implies the instruction set.

    `units` is the number of vectors of which a core begins products and sums in a cycle. Caches are
    those that one core sees, in bytes; `hertz` is the clock that all cores keep, `bandwidth` the
    bytes per second that they share. `source` says where the facts are from. It is `fused` where
    one instruction computes a product and a sum, rounded once.
    """

    name: str
    machine: str
    cores: int
    vector_bytes: int
    vector_registers: int
    units: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    hertz: float
    bandwidth: float
    source: str
    fused: bool = True

    @property
    def triple(self) -> str:
        """LLVM's target triple, for Linux."""
        return f"{self.machine}-linux-gnu"

    def target(self, driver: str) -> Target:
        """The processor as a Target for lowering and the cost model."""
        return Target(
            kind="cpu",
            name=self.name,
            dialect="llvm-fma" if self.fused else "llvm",
            driver=driver,
            cores=self.cores,
            vector_bytes=self.vector_bytes,
            vector_registers=self.vector_registers,
            l1_bytes=self.l1_bytes,
            l2_bytes=self.l2_bytes,
            l3_bytes=self.l3_bytes,
            local_bytes=32 * _KB,
            max_threads=1,
            warp=1,
            rate=self.hertz * self.units * self.vector_bytes / 4,
            units=self.units,
            bandwidth=self.bandwidth,
            launch_seconds=5e-6,
        )


_ALL = (
    Processor(
        "neoverse-v2",
        AARCH64,
        cores=96,
        vector_bytes=16,
        vector_registers=32,
        units=4,
        l1_bytes=64 * _KB,
        l2_bytes=2 * _MB,
        l3_bytes=36 * _MB,
        hertz=2.8e9,
        bandwidth=537.6e9,
        source="AWS Graviton 4: Arm Neoverse V2 Software Optimization Guide, section 2.1 (four"
        " pipes of FP and ASIMD); chipsandcheese.com/2024/07/22 (cores, caches, clock);"
        " twelve channels of DDR5-5600",
    ),
    Processor(
        "neoverse-v1",
        AARCH64,
        cores=64,
        vector_bytes=16,
        vector_registers=32,
        units=4,
        l1_bytes=64 * _KB,
        l2_bytes=1 * _MB,
        l3_bytes=32 * _MB,
        hertz=2.6e9,
        bandwidth=307.2e9,
        source="AWS Graviton 3: Arm Neoverse V1 Software Optimization Guide, section 2.1 (four"
        " pipes of FP and ASIMD, two of SVE's 256 bits); en.wikichip.org/wiki/AWS_Graviton3 (the"
        " others)",
    ),
    Processor(
        "neoverse-n1",
        AARCH64,
        cores=64,
        vector_bytes=16,
        vector_registers=32,
        units=2,
        l1_bytes=64 * _KB,
        l2_bytes=1 * _MB,
        l3_bytes=32 * _MB,
        hertz=2.5e9,
        bandwidth=204.8e9,
        source="AWS Graviton 2: Arm Neoverse N1 Software Optimization Guide, section 2.1 (two"
        " pipes of FP and ASIMD); anandtech.com/show/15578 (cores, caches, clock, eight channels of"
        " DDR4-3200)",
    ),
    Processor(
        "apple-m1",
        AARCH64,
        cores=4,
        vector_bytes=16,
        vector_registers=32,
        units=4,
        l1_bytes=128 * _KB,
        l2_bytes=12 * _MB,
        l3_bytes=8 * _MB,
        hertz=3.2e9,
        bandwidth=68e9,
        source="performance cores (Firestorm) of Apple's M1: en.wikipedia.org/wiki/Apple_M1"
        " (caches, of which the third is the system's, and clock); four pipes of 128 bits:"
        " dougallj.github.io/applecpu/firestorm-simd.html",
    ),
    Processor(
        "haswell",
        X86_64,
        cores=4,
        vector_bytes=32,
        vector_registers=16,
        units=2,
        l1_bytes=32 * _KB,
        l2_bytes=256 * _KB,
        l3_bytes=8 * _MB,
        hertz=3.4e9,
        bandwidth=25.6e9,
        source="Intel Core i7-4770: Intel 64 and IA-32 Optimization Reference Manual, chapter on"
        " Haswell (two ports of fused multiply-adds, caches); ark.intel.com (base clock, memory)",
    ),
    Processor(
        "nehalem",
        X86_64,
        cores=4,
        vector_bytes=16,
        vector_registers=16,
        units=1,
        l1_bytes=32 * _KB,
        l2_bytes=256 * _KB,
        l3_bytes=8 * _MB,
        hertz=2.66e9,
        bandwidth=25.6e9,
        source="Intel Core i7-920, without AVX, as virtual machines often are: Intel 64 and IA-32"
        " Optimization Reference Manual, chapter on Nehalem (one port of products, one of sums,"
        " caches); ark.intel.com (base clock, memory)",
        fused=False,
    ),
    Processor(
        "znver2",
        X86_64,
        cores=64,
        vector_bytes=32,
        vector_registers=16,
        units=2,
        l1_bytes=32 * _KB,
        l2_bytes=512 * _KB,
        l3_bytes=16 * _MB,
        hertz=2.0e9,
        bandwidth=204.8e9,
        source="AMD EPYC 7702: Software Optimization Guide for AMD Family 17h Models 30h and"
        " greater (two pipes of multiply-adds of 256 bits, caches); amd.com (cores, base"
        " clock, eight channels of DDR4-3200)",
    ),
)
# By their names in LLVM.
PROCESSORS: Mapping[str, Processor] = {processor.name: processor for processor in _ALL}


def known_processor(name: str) -> Processor | None:
    """A processor's facts by its LLVM name; later Apple ones have those of the M1.

    >>> known_processor("apple-m3").name, known_processor("generic")
    ('apple-m1', None)
    """
    return PROCESSORS.get("apple-m1" if name.startswith("apple-m") else name)
