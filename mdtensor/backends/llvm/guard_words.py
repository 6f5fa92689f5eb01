"""Layouts of the guard tables' words: of a table, its entries, and their arguments."""

from __future__ import annotations

from enum import IntEnum

MOST_RESULTS = 8
"""Results of a call, at most."""


class Table(IntEnum):
    """Word offsets in a table; the addresses of its entries follow.

    The first COUNT of these are looked through, from that which served the LAST call: calls that
    come again do so in the same order. HOLDER is an object that keeps them all: what is asked of
    torch lets other threads of Python run, which may drop them from the table.
    """

    WATCHERS = 0
    MISSED = 1
    ARRAY_TYPE = 2
    STRING_TYPE = 3
    NEW_ARRAY = 4
    RETURN_ARRAY = 5
    COUNT = 6
    LAST = 7
    HOLDER = 8
    ENTRIES = 9


class EntryWords(IntEnum):
    """Word offsets in an entry; the result's shape and the arguments follow.

    Slots of addresses are those of the arrays among the arguments, so many ARRAYS, and of the
    results behind them. Where CHOSEN is not 0, there begin pairs of words, one for each operand of
    the launch: the array that it begins in, and the byte there. Otherwise operands are the arrays.
    LAUNCH is the record of a launch of OPERANDS and RESULTS, or what Python calls with a stream and
    their addresses where IS_PYTHON, unless the table GRAPHS has a graph. MAKER is the type of a new
    NumPy array, or what is called for a result, or a tuple of several, where IS_CALLED; 0 where the
    result is argument OUT. Results are NumPy's where IS_ARRAY, others EXCHANGE describes.
    """

    POSITIONAL = 0
    NAMED = 1
    LEFT = 2
    COUNTED = 3
    LAUNCH = 4
    MAKER = 5
    IS_SCALAR = 6
    AXES = 7
    OUT = 8
    IS_ARRAY = 9
    ITEMS = 10
    EXCHANGE = 11
    IS_PYTHON = 12
    DEVICE = 13
    OPERANDS = 14
    IS_CALLED = 15
    RESULTS = 16
    GRAPHS = 17
    ARRAYS = 18
    CHOSEN = 19
    SHAPE = 20


class Item(IntEnum):
    """Kinds of argument guards: identity, string, NumPy array or another library's array."""

    SAME = 0
    STRING = 1
    ARRAY = 2
    EXCHANGED = 3


class DLPackWords(IntEnum):
    """Word offsets of an array class with DLPack's exchange API.

    `LAYOUT` and `STREAM` are functions of its C interface. An array is plain if attribute `FLAG` is
    False, or else what `ENABLED` gives, if method `METHOD` gives False, if attribute `LEVEL` of
    `MODULE` is the object `NO_LEVEL`, and if `MODES` gives the object `NO_MODES`.
    """

    LAYOUT = 0
    STREAM = 1
    FLAG = 2
    ENABLED = 3
    METHOD = 4
    MODULE = 5
    LEVEL = 6
    NO_LEVEL = 7
    MODES = 8
    NO_MODES = 9
