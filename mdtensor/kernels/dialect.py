"""Dialect: the spelling of one C-like language, as data for the common renderer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from mdtensor.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ShortFloat:
    """The spelling of 16-bit floats' loads and stores, scalar and vector, and helper functions.

    Without `load_together`, a language has no vectors that are computed with.
    """

    load: str
    store: str
    store_together: str
    functions: str = ""
    load_together: str = ""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The spelling of LoopNests in one C-like language.

    Templates are filled with `str.format`. A field that is empty, 0 or False stands for something
    that the language lacks; the renderer then does without it, or raises LoweringError.
    """

    name: str
    # Text at the beginning of every program.
    prelude: str
    # The head of a kernel.
    kernel: str
    # Names of element types, and of the unsigned ones in which signed integers wrap around.
    types: Mapping[str, str]
    unsigned: Mapping[str, str]
    # The type of indices.
    index: str
    # Qualifiers of pointers by memory region, and declarations of arrays there.
    regions: Mapping[str, str]
    arrays: Mapping[str, str]
    # Arrays in local memory of more than `declared_local` bytes together lie in the `pool` that a
    # launch provides, by `pooled`; 0 where all can be declared.
    pool: str
    pooled: str
    declared_local: int
    # A buffer as an argument, and the pointer made of it if that is not the argument itself.
    buffer: str
    received: str
    # A barrier of the work-items of a group, for local memory alone and for all.
    barrier: str
    memory_barrier: str
    # Warp shuffles: barriers and stores around them, if needed, and the exchange itself.
    exchange: Mapping[str, str]
    # The lines by which a group counts itself, and by which it takes its number in the order in
    # which groups begin.
    arrive: tuple[str, ...]
    in_order: tuple[str, ...]
    # The type of what groups publish to each other, and an expression for one such word in memory.
    words: tuple[str, str]
    # By element type: the bits of a value as an unsigned number, and the value of such a number.
    bits: Mapping[str, tuple[str, str]]
    # Atomic operations on integers of so many bytes in local memory.
    atomics: Mapping[tuple[str, int], str]
    # The numbers of the group and of the work-item in it.
    group: str
    item: str
    # Loads and stores of 16-bit floats.
    short_floats: Mapping[str, ShortFloat]
    # A store that bypasses the caches.
    streaming_store: str
    # Moves a variable to another register, by its type, where that pays.
    renewed: Mapping[str, str]
    # Bytes to which outputs are aligned for streaming stores; 0 where the nest has seen to that.
    streaming_alignment: int
    # Functions before kernels with matrix products; without them, products are loops.
    matrix_functions: str
    # A request for memory ahead of its use.
    prefetch: str
    # Asynchronous copies to local memory, groups of them, and the wait for these; without them,
    # copies are made at once.
    copy_async: str
    commit_copies: str
    await_copies: str
    # A copy of neighbours from local memory to a buffer.
    copy_out: str
    # Names of functions by operation; others have the name of the operation.
    functions: Mapping[str, str]
    # The first parts of names of vector types, by element type; loads and stores of whole vectors,
    # and a vector made of scalars.
    wide_types: Mapping[str, str]
    wide_load: str
    wide_store: str
    pack: str
    # Names of a vector's elements, behind a prefix.
    lane_prefix: str
    lanes: str
    # Whether vector types have arithmetic; nests that compute with lanes need that.
    vectors: bool
    # Whether run-time sizes are arguments by value.
    sizes_by_value: bool
    # Functions before kernels with TMA copies, and the argument that a tensor map is.
    panel_functions: str = ""
    map_argument: str = ""
    # Declarations of vectors of small integers with `long_lanes` lanes, more than have names.
    long_vectors: str = ""
    long_lanes: int = 0
    # A shorter `in_order` for groups of one work-item.
    in_order_alone: tuple[str, ...] = ()
    # Picks lanes of two vectors.
    shuffle: str = ""
    # A fused multiply-add. With it, no compiler decides what is fused: vectors and single elements
    # give the same bits.
    fused: str = ""
    # Functions to small signed integers, by type and operation, where a cast does not do; and their
    # texts, which come before kernels that call them.
    small: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    small_functions: Mapping[str, str] = field(default_factory=dict[str, str])
    # A remainder of indices below 2**32 that the compiler may not see through, for kernels that
    # store in loops and behind them; and its functions.
    hidden_remainder: str = ""
    remainder_functions: str = ""
    # Lines before every loop, before loops that scan and store elements that may be absent, and
    # before loops all of whose turns are the same.
    before_loops: tuple[str, ...] = ()
    before_partial_scans: tuple[str, ...] = ()
    before_repetitions: tuple[str, ...] = ()
    # The suffix of a declaration without a value.
    no_value: str = ""
    # A fence that publishes local memory to copies from there; waits for these copies, and until
    # they have read.
    show_copies: str = ""
    await_out: tuple[str, ...] = ()
    # A cluster: the attribute of a kernel, and the lines by which its groups begin, wait, find the
    # first one's memory, and meet.
    cluster: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    # The division of indices; and the type and division of those that fit in 32 bits.
    division: str = "({lhs}) {op} ({rhs})"
    narrow_index: str = ""
    narrow_division: str = ""

    def narrowed(self) -> Dialect:
        """The dialect with 32-bit indices."""
        return replace(self, index=self.narrow_index, division=self.narrow_division)
