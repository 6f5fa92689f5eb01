"""KernelSource: the text of a program and the facts that a backend needs to launch it."""

from __future__ import annotations

from mdtensor.dataclass import dataclass
from mdtensor.lower.ir.index import ZERO, Index
from mdtensor.lower.ir.loop_nest import Argument
from mdtensor.lower.ir.tma_statements import TensorMap

# Bytes of which buffers' addresses are multiples where programs count on it.
ALIGNMENT = 16
# Names for backends, which do not import the lowering, of launch expressions and tensor maps.
LaunchIndex = Index
LaunchMap = TensorMap


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """One kernel of a program: its name, work-items per group, and launch parameters.

    `groups`, the bytes of `scratch` memory and the number of `counters` are expressions over the
    program's sizes. `pool` is the number of bytes of local memory that a group is given at launch,
    beside what the kernel declares.
    """

    name: str
    threads: int
    groups: Index
    scratch: Index
    pool: int = 0
    counters: Index = ZERO


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A program: kernels that run one after the other with the same arguments.

    The arguments are the buffers in order, scratch memory, counters (uint32) where the program has
    any, and then the `sizes`, where there are any: an array of int64, or one integer each if
    `sizes_by_value`. Counters are 0 before the first launch; a launch leaves them as the next one
    on the same queue needs them, so no two that may overlap share them. Where there is a program
    `unaligned`, this one is for buffers at multiples of `ALIGNMENT`, that one for all others.
    Behind all other arguments come `maps`, by which bulk copies see some of the buffers. A
    `fragile` program has loops of which the last iteration alone decides: optimised, some
    compilers' results are those of one iteration more. A `hasty` one is compiled as fast as can be,
    on devices that `hurry`, and runs slower.
    """

    text: str
    dialect: str
    entries: tuple[KernelEntry, ...]
    arguments: tuple[Argument, ...]
    sizes: tuple[str, ...]
    sizes_by_value: bool
    inline: bool = False
    streaming: bool = False
    unaligned: KernelSource | None = None
    maps: tuple[TensorMap, ...] = ()
    fragile: bool = False
    hasty: bool = False

    @property
    def arrays(self) -> tuple[Argument, ...]:
        """The buffers that a caller passes: inputs, then outputs."""
        return tuple(a for a in self.arguments if a.role in ("input", "output"))


def numbered(text: str) -> str:
    """The text with line numbers, counted as compilers count them."""
    return "\n".join(f"{n:4d} | {line}" for n, line in enumerate(text.splitlines(), start=1))
