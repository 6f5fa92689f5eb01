"""Dialect: the spelling of one C-like language, as data for the one renderer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class ShortFloat:
    """How floats of 16 bits are loaded, stored and stored together, and functions for that."""

    load: str
    store: str
    store_together: str
    functions: str = ""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a language spells what a LoopNest says.

    Templates are filled with `str.format`. A kernel takes a `buffer` as such an argument, and first
    declares the pointer by what is `received`, where that is not the argument itself. `vectors`
    tells whether the language has vector types with arithmetic; a nest that computes with lanes is
    rendered only in such a language.
    A language with vectors picks lanes of two of them by a `shuffle`. Where products are `fused`
    with sums, no compiler decides which are: vectors and single elements give the same bits.
    `wide_types` are the first parts of names of vector types, by element type; `wide_load`,
    `wide_store` and `pack` move them as a whole and build them; `lanes` name their elements, after
    `lane_prefix`. `long_vectors` declares vectors of more lanes than have names, `long_lanes` of
    them, for small integers: kernels that use such begin with it.
    Streaming stores are made where the outputs begin at multiples of `streaming_alignment` bytes;
    0 where the nest has seen to that. A language without `prefetch` asks for nothing ahead, one
    without `copy_async` copies at once. Arrays in local memory that together take more than
    `declared_local` bytes are `pooled` in the `pool` that a launch provides; 0 where all can be
    declared.
    What is in local memory is copied from there by `copy_out`, which others than the work-items may
    do, to whom it is shown by `show_copies`; `await_out` tells how such copies are awaited, and how
    until they have read.
    `exchange` has what a work-item does before and after all put their values into local memory,
    where that is needed, and how it takes those of another one; `arrive` the lines by which a
    group counts itself, `in_order` those by which it takes its number; `in_order_alone` are shorter
    ones for a group of one work-item, if there are any. `words` is the type of what
    groups tell each other and an expression for one such word in memory; `bits` are, by element
    type, a value's bits as an unsigned number, and the value of such a number. `atomics` combine
    an integer of so many bytes into local memory. `matrix_functions` come before kernels with
    products of matrices, which are loops in a language without; `panel_functions` before kernels
    with bulk copies, whose maps are `map_argument`s, in languages that have such. `small` are
    functions to small signed integers, by their types and the operations that these are made by,
    where a cast does not do; the texts of these functions come before kernels that call them.
    `hidden_remainder` is that of an index below 2**32 divided by another one, for kernels that
    store in loops and behind them, where the compiler may not know it; with its functions.
    `cluster` has the attribute of a kernel whose groups are clusters, and the lines by which groups
    say that they have begun, wait for that, find the first one's memory, and meet; a language
    without clusters has none. `renewed` moves a variable to another register, by its type, where
    that pays. `before_loops` are lines before each of them, `before_partial_scans` those before
    loops that combine and store in turn what there may not have been any of.
    An `index` has that type, or where all of a kernel fit in 32 bits the `narrow_index`, if there
    is one; a `division` of numbers that are not negative is then a `narrow_division`.
    """

    name: str
    prelude: str
    kernel: str
    types: Mapping[str, str]
    unsigned: Mapping[str, str]
    index: str
    regions: Mapping[str, str]
    arrays: Mapping[str, str]
    pool: str
    pooled: str
    declared_local: int
    buffer: str
    received: str
    barrier: str
    exchange: Mapping[str, str]
    arrive: tuple[str, ...]
    in_order: tuple[str, ...]
    words: tuple[str, str]
    bits: Mapping[str, tuple[str, str]]
    atomics: Mapping[tuple[str, int], str]
    group: str
    item: str
    short_floats: Mapping[str, ShortFloat]
    streaming_store: str
    renewed: Mapping[str, str]
    streaming_alignment: int
    matrix_functions: str
    prefetch: str
    copy_async: str
    commit_copies: str
    await_copies: str
    copy_out: str
    functions: Mapping[str, str]
    wide_types: Mapping[str, str]
    wide_load: str
    wide_store: str
    pack: str
    lane_prefix: str
    lanes: str
    vectors: bool
    sizes_by_value: bool
    panel_functions: str = ""
    map_argument: str = ""
    long_vectors: str = ""
    long_lanes: int = 0
    in_order_alone: tuple[str, ...] = ()
    shuffle: str = ""
    fused: str = ""
    small: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    small_functions: Mapping[str, str] = field(default_factory=dict[str, str])
    hidden_remainder: str = ""
    remainder_functions: str = ""
    before_loops: tuple[str, ...] = ()
    before_partial_scans: tuple[str, ...] = ()
    show_copies: str = ""
    await_out: tuple[str, ...] = ()
    cluster: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    division: str = "({lhs}) {op} ({rhs})"
    narrow_index: str = ""
    narrow_division: str = ""

    def narrowed(self) -> Dialect:
        """The same, with indices of 32 bits."""
        return replace(self, index=self.narrow_index, division=self.narrow_division)
