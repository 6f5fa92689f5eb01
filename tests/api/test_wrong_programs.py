"""Wrong programs of every front end: the whole text that a person reads, as each one's docstring.

Where a text names a place in this file, "HERE" stands for it, and the line that it shows is checked
to be the one at that place.
"""

# The texts are as they are printed.
# ruff: noqa: E501
from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.directive import (
    Buffer,
    add,
    cc,
    combine_ops,
    f_mul,
    fp64,
    inp,
    inp_view,
    md_hom,
    mdh,
    out,
    out_view,
    pw,
)
from mdtensor.errors import MdtensorError

D = Buffer[fp64]
X, M = np.arange(6.0), np.ones((6, 6))
PEOPLE = np.zeros(3, [("name", "S8"), ("born", "i4")])
NAMES = np.zeros(3, [("name", "S8")])
WRONG: list[Callable[[], Any]] = []


def wrong(program: Callable[[], Any]) -> Callable[[], Any]:
    WRONG.append(program)
    return program


# --- whole arrays -------------------------------------------------------------------------------


@wrong
def a_stencil_over_all_elements():
    """
    ProgramError: a stencil goes over all elements of an array
      mdt.stencil(lambda u: max(*u))(X)
                                ^
      HERE, in <lambda>
      hint: name those around the point: sum(u[n] for n in (-1, 0, 1))
    """
    mdt.stencil(lambda u: max(*u))(X)


@wrong
def a_stencil_that_looks_for_an_element():
    """
    ProgramError: a stencil goes over all elements of an array
      mdt.stencil(lambda u: 1.0 in u)(X)
                            ^
      HERE, in <lambda>
      hint: name those around the point: sum(u[n] for n in (-1, 0, 1))
    """
    mdt.stencil(lambda u: 1.0 in u)(X)


@wrong
def loops_that_sum_a_whole_array():
    """
    ProgramError: x: float64[6] is gone over as a whole
      y[i] = sum(x)
             ^
      HERE, in total
      hint: go over indices: for i in range(len(x)): … x[i]
    """

    @mdh
    def total(y, x):
        for i in range(len(x)):
            y[i] = sum(x)

    total(np.zeros(6), X)


@wrong
def loops_over_a_list_that_holds_itself():
    """
    ProgramError: [[[[[[[[[...]]]]]]]]] holds itself, or is nested too deeply
      for i in range(len(x)):
               ^
      HERE, in copied
      hint: an array of its numbers
    """

    @mdh
    def copied(y, x):
        for i in range(len(x)):
            y[i] = x[i]

    x = []
    x.append(x)
    copied(np.zeros(1), x)


# --- what is no number, compared or asked whether it is true -----------------------------------


@wrong
def rows_that_are_compared():
    """
    ProgramError: a row of A: float64[6, 6] is used as a whole: a comparison
      y[i] = 1 if A[i] == B[i] else 0
                  ^
      HERE, in equal_rows
      hint: loop over its elements
    """

    @mdh
    def equal_rows(y, A, B):
        for i in range(len(A)):
            y[i] = 1 if A[i] == B[i] else 0

    equal_rows(np.zeros(6), M, M)


@wrong
def rows_that_differ():
    """
    ProgramError: a row of A: float64[6, 6] is used as a whole: a comparison
      y[i] = 1 if A[i] != B[i] else 0
                  ^
      HERE, in other_rows
      hint: loop over its elements
    """

    @mdh
    def other_rows(y, A, B):
        for i in range(len(A)):
            y[i] = 1 if A[i] != B[i] else 0

    other_rows(np.zeros(6), M, M)


@wrong
def arrays_that_are_compared():
    """
    ProgramError: a: float64[6] is used as a whole: a comparison
      y[i] = 1 if a == b else 0
                  ^
      HERE, in equal_arrays
      hint: loop over its elements
    """

    @mdh
    def equal_arrays(y, a, b):
        for i in range(len(a)):
            y[i] = 1 if a == b else 0

    equal_arrays(np.zeros(6), X, X)


@wrong
def truth_of_a_row():
    """
    ProgramError: a row of A: float64[6, 6] is used as a whole: a condition
      y[i] = 1 if A[i] else 0
                  ^
      HERE, in rows_that_hold
      hint: loop over its elements
    """

    @mdh
    def rows_that_hold(y, A):
        for i in range(len(A)):
            y[i] = 1 if A[i] else 0

    rows_that_hold(np.zeros(6), M)


@wrong
def a_row_in_a_condition_of_operators():
    """
    ProgramError: a row of A: float64[6, 6] is used as a whole: operation 'lt'
      y[i] = 1.0 if A[i] < 2 else 0.0
                    ^
      HERE, in rows_below
      hint: loop over its elements
    """

    @mdh(out(y=D), inp(A=D), combine_ops(cc))
    def rows_below(y, A):
        for i in range(len(A)):
            y[i] = 1.0 if A[i] < 2 else 0.0

    rows_below(M)


@wrong
def arrays_of_a_stencil_that_are_compared():
    """
    ProgramError: a stencil uses an array instead of an element of it: a comparison
      mdt.stencil(lambda u, v: 1.0 if u == v else 0.0)(X, X)
                                      ^
      HERE, in <lambda>
      hint: u[0] is the point itself
    """
    mdt.stencil(lambda u, v: 1.0 if u == v else 0.0)(X, X)


@wrong
def truth_of_an_array_of_a_stencil():
    """
    ProgramError: a stencil uses an array instead of an element of it: a condition
      mdt.stencil(lambda u: 1.0 if u else 0.0)(X)
                                   ^
      HERE, in <lambda>
      hint: u[0] is the point itself
    """
    mdt.stencil(lambda u: 1.0 if u else 0.0)(X)


@wrong
def records_of_other_fields():
    """
    ProgramError: operand 0 (a record) and operand 1 (a record) have different fields
      return mdt.reduce("i,i->i", PEOPLE, NAMES, f=lambda p, n: 1 if p == n else 0)
                                                                     ^
      HERE, in <lambda>
      hint: compare the fields that both have
    """
    return mdt.reduce("i,i->i", PEOPLE, NAMES, f=lambda p, n: 1 if p == n else 0)


@wrong
def records_of_loops_with_other_fields():
    """
    ProgramError: a record of p and a record of n have different fields
      y[i] = 1 if p[i] == n[i] else 0
                  ^
      HERE, in equal_records
      hint: compare the fields that both have
    """

    @mdh
    def equal_records(y, p, n):
        for i in range(len(p)):
            y[i] = 1 if p[i] == n[i] else 0

    equal_records(np.zeros(3), PEOPLE, NAMES)


@wrong
def identity_of_an_element():
    """
    PassedOverError: whether p0 is the same object is known to Python only
      return mdt.reduce("i->", X, f=lambda x: 1 if x is X else 0)
                                                   ^
      HERE, in <lambda>
      hint: compare values by == or !=
    """
    return mdt.reduce("i->", X, f=lambda x: 1 if x is X else 0)


@wrong
def an_element_as_text():
    """
    PassedOverError: the value of p0 is known only when the kernel runs
      return mdt.reduce("i->", X, f=lambda x: len(f"{x}"))
                                                     ^
      HERE, in <lambda>
      hint: kernels print nothing
    """
    return mdt.reduce("i->", X, f=lambda x: len(f"{x}"))


@wrong
def an_element_as_a_key():
    """
    ProgramError: the value of p0 is known only when the kernel runs
      return mdt.reduce("i->", X, f=lambda x: 2 + {0.0: 1, 1.0: 2}[x])
                                                  ^
      HERE, in <lambda>
      hint: sets and dicts cannot look for it; compare with each
    """
    return mdt.reduce("i->", X, f=lambda x: 2 + {0.0: 1, 1.0: 2}[x])


@wrong
def an_element_as_an_index_of_a_list():
    """
    ProgramError: [4, 5, 6] is a list, which no kernel can index by p0
      return mdt.reduce("i->", X, f=lambda x: [4, 5, 6][x])
                                              ^
      HERE, in <lambda>
      hint: make it an array: numpy.asarray([4, 5, 6])
    """
    return mdt.reduce("i->", X, f=lambda x: [4, 5, 6][x])


@wrong
def an_element_as_an_index_of_an_array():
    """
    ProgramError: table is an array from around the function, which it cannot index by p0
      return mdt.reduce("i->", X, f=lambda x: table[x])
                                              ^
      HERE, in <lambda>
      hint: make it an operand: loops index it, and '@1, i -> i' reads it at operand 1
    """
    table = np.array([4, 5, 6])
    return mdt.reduce("i->", X, f=lambda x: table[x])


@wrong
def a_record_as_a_condition():
    """
    ProgramError: a record of people is used as a whole: a condition
      y[i] = 1 if people[i] else 0
                  ^
      HERE, in born
      hint: take one of its fields: name, born
    """

    @mdh
    def born(y, people):
        for i in range(len(people)):
            y[i] = 1 if people[i] else 0

    born(np.zeros(3), PEOPLE)


@wrong
def a_record_and_a_number():
    """
    ProgramError: a record of people is compared with 1
      y[i] = 1 if people[i] == 1 else 0
                  ^
      HERE, in ones
      hint: take one of its fields: name, born
    """

    @mdh
    def ones(y, people):
        for i in range(len(people)):
            y[i] = 1 if people[i] == 1 else 0

    ones(np.zeros(3), PEOPLE)


@wrong
def an_element_looked_for_in_a_list():
    """
    ProgramError: the value of p0 is known only when the kernel runs
      return mdt.reduce("i->", X, f=lambda x: 1 + [0.0, 1.0].index(x))
                                                  ^
      HERE, in <lambda>
      hint: compare by numpy.equal(a, b)
    """
    return mdt.reduce("i->", X, f=lambda x: 1 + [0.0, 1.0].index(x))


@wrong
def class_of_an_element():
    """
    PassedOverError: isinstance of p0, which is known only when the kernel runs
      return mdt.reduce("i->", X, f=lambda x: 1 if isinstance(x, float) else 0)
                                                   ^
      HERE, in <lambda>
      hint: elements have a dtype, such as x.dtype.kind == 'f'
    """
    return mdt.reduce("i->", X, f=lambda x: 1 if isinstance(x, float) else 0)


@wrong
def elements_in_order():
    """
    ProgramError: the truth of (p0 > 1.5) is known only when the kernel runs
      return mdt.reduce("i->", X, f=lambda x: sum(sorted([x, 1.5])))
                                                  ^
      HERE, in <lambda>
      hint: use numpy.where(condition, then, otherwise) for if
    """
    return mdt.reduce("i->", X, f=lambda x: sum(sorted([x, 1.5])))


# --- strings and shapes -----------------------------------------------------------------------


@wrong
def extents_that_differ():
    """
    SubscriptError: index 'j' has extent 3 in operand 0 but 4 in operand 1
      ij,jk->ik
       ^ ^
      operand 0: (2, 3) float32    operand 1: (4, 3) float32
      hint: 'ij,kj->ik' fits these shapes
    """
    return mdt.einsum("ij,jk->ik", np.ones((2, 3), "f4"), np.ones((4, 3), "f4"))


@wrong
def ambiguous_extents():
    """
    SubscriptError: the extents of 'h' and 'r' cannot be told from the shapes
      h+r -> h
      ^
      operand 0: (6,) float64
      hint: give one by extents={'r': …}, or by an operand that has 'r' alone on an axis
    """
    return mdt.einsum("h+r -> h", X)


@wrong
def window_larger_than_the_operand():
    """
    SubscriptError: index 'h+r' of operand 0 runs from 0 to 8, but its axis has extent 6
      h+r, r -> h
      ^
      operand 0: (6,) float64    operand 1: (9,) float64
      hint: 'h' has extent 1 there already: make the other dims of the sum smaller
    """
    return mdt.einsum("h+r, r -> h", X, np.ones(9))


@wrong
def gather_at_floats():
    """
    DTypeError: operand 1 is used as an index, but its elements are float64
      @1, i -> i
      ^
      hint: indices are integers; astype('i8') makes them so
    """
    return mdt.einsum("@1, i -> i", X, np.ones(3))


@wrong
def unknown_semiring():
    """
    TranslationError: unknown semiring 'plus_min'
      hint: one of min_plus, max_plus, max_times, logsumexp, bool, or f=… and combine=…
    """
    return mdt.einsum("ij,jk->ik", M, M, semiring="plus_min")


@wrong
def result_of_another_shape():
    """
    ShapeError: out has shape (6,) but the result (5,)
    """
    return mdt.einsum("i+1 -> i", X, out=np.empty(6))


# --- operators and functions ------------------------------------------------------------------


@wrong
def operator_that_is_not_associative():
    """
    OperatorError: operator 'op' is not associative
      a = -0.375, b = 0.0, c = 0.125
      (a ∘ b) ∘ c = -0.5
      a ∘ (b ∘ c) = -0.25
      hint: results of parts must be enough to go on with: for a mean, combine (sum, count)
    """
    return mdt.reduce("i->", X, combine=lambda a, b: a - b, check=True)


@wrong
def dims_of_an_operator_that_does_not_commute():
    """
    OperatorError: operators 'op' (∘) and 'op' (⊕) on different dims do not interchange
      a = (0.375, 0.375), b = (0.0, 0.0), c = (-0.0, -0.625), d = (1.0, 0.0)
      (a ∘ b) ⊕ (c ∘ d) = (-0.0, -0.625)
      (a ⊕ c) ∘ (b ⊕ d) = (-0.0, 0.0)
      hint: say by a dict which dim is combined first, or take two computations
    """
    return mdt.reduce(
        "ij->",
        M,
        f=lambda x: (x, x),
        combine=lambda lhs, rhs: (lhs[0] * rhs[0], lhs[1] * rhs[0] + rhs[1]),
        check=True,
    )


@wrong
def operators_in_no_order():
    """
    TranslationError: combine is a set, which does not say what is combined first
      hint: a dict from dims to operators, in order: {'i': 'add', 'j': 'min'} is the minimum along j of the sums along i, {'j': 'min', 'i': 'add'} the sum along i of the minima along j
    """
    return mdt.reduce("ij->", M, combine={("i", "add"), ("j", "min")})


@wrong
def operators_in_a_list():
    """
    TranslationError: combine is a list, which does not say what is combined first
      hint: a dict from dims to operators, in order: {'i': 'add', 'j': 'min'} is the minimum along j of the sums along i, {'j': 'min', 'i': 'add'} the sum along i of the minima along j
    """
    return mdt.reduce("ij->", M, combine=["add", "min"])  # type: ignore[arg-type]


@wrong
def an_operator_for_two_dims_at_once():
    """
    SubscriptError: combine names dim 'ij', which the string does not have
      ij->
      hint: its dims are 'i', 'j'
    """
    return mdt.reduce("ij->", M, combine={"ij": "add"})


@wrong
def scans_in_no_order():
    """
    TranslationError: combine is a set, which does not say what is combined first
      hint: a dict from dims to operators, in order: {'i': 'add', 'j': 'min'} is the minimum along j of the sums along i, {'j': 'min', 'i': 'add'} the sum along i of the minima along j
    """
    return mdt.scan("ij->ij", M, combine={("i", "add"), ("j", "max")})  # type: ignore[arg-type]


@wrong
def operators_of_a_semiring_in_no_order():
    """
    TranslationError: combine is a set, which does not say what is combined first
      hint: a dict from dims to operators, in order: {'i': 'add', 'j': 'min'} is the minimum along j of the sums along i, {'j': 'min', 'i': 'add'} the sum along i of the minima along j
    """
    return mdt.einsum("ij,jk->", M, M, combine={("j", "add"), ("i", "max"), ("k", "min")})  # type: ignore[arg-type]


@wrong
def sum_of_positions():
    """
    TranslationError: 'add' along 'i' is applied after 'argmin' along 'j', and would combine the positions that it finds
      hint: apply 'add' before it, as {'i': 'add', 'j': 'argmin'} does, or combine 'j' by 'min', which gives values alone
    """
    return mdt.reduce("ij->", M, combine={"j": "argmin", "i": "add"})


@wrong
def position_of_what_was_combined_before():
    """
    TranslationError: result 1 of f is a position that 'argmin' along 'j' finds, but differs along 'i', which 'add' combines before
      hint: return the index of what is combined last: (value, j)
    """
    return mdt.reduce("ij->", M, f=lambda x, *, i: (x, i), combine={"i": "add", "j": "argmin"})


@wrong
def sum_of_an_index_for_an_operator_of_tuples():
    """
    TranslationError: 'add' along 'i' would combine result 1 of f, an index of 'j', with itself
      hint: say by an operator of tuples what becomes of it along 'i': lambda lhs, rhs: (lhs[0] + rhs[0], lhs[1])
    """
    return mdt.reduce(
        "ij->",
        M,
        f=lambda x, *, j: (x, j),
        combine={"i": "add", "j": lambda lhs, rhs: lhs if lhs[0] < rhs[0] else rhs},
    )


@wrong
def operator_of_another_width():
    """
    TranslationError: operator 'op' returns 2 values for tuples of 3
      hint: lhs, rhs and the result have one element for every result of f
    """
    return mdt.reduce("i->", X, f=lambda x: (x, x, x), combine=lambda a, b: (a[0], b[1]))


@wrong
def unknown_operator():
    """
    TranslationError: unknown operator 'avg'
      hint: a mean is a sum with epilogue=lambda total: total / count
    """
    return mdt.reduce("i->", X, combine="avg")


@wrong
def best_of_nothing():
    """
    TranslationError: dim 'i' is empty and operator op has no identity
      hint: declare the operator's identity, or give the dim at least one element
    """
    return mdt.reduce("i->", X[:0], combine=lambda a, b: max(b, a))


@wrong
def dim_without_operator():
    """
    SubscriptError: dim 'i' is not in the output, but no operator combines it
      ij->
      hint: combine={'i': 'add', …}, or let the output have it
    """
    return mdt.reduce("ij->", M, combine={"j": "add"})


@wrong
def exclusive_scan_without_identity():
    """
    TranslationError: an exclusive scan begins with the identity, and operator op has none
      hint: declare it by identity=…
    """
    return mdt.scan("i->i", X, combine=lambda a, b: a + b, exclusive=True)


@wrong
def loop_of_unknown_length():
    """
    ProgramError: 'while' has no known number of steps
      while x > 1:
      ^
      HERE, in halvings
      hint: write 'for … in range(…)' with a constant
    """

    def halvings(x):
        count = 0
        while x > 1:
            x, count = x / 2, count + 1
        return count

    return mdt.reduce("i->i", X, f=halvings)


@wrong
def unsupported_construct():
    """
    PassedOverError: 'try' cannot be traced: kernels raise nothing
      try:
      ^
      HERE, in described
      hint: test with if instead
    """

    def described(x):
        if x > 0:
            try:
                return 1 / x
            except ZeroDivisionError:
                return 0.0
        return x

    return mdt.reduce("i->", X, f=described)


@wrong
def unknown_function():
    """
    ProgramError: np.fft.fft cannot be traced
      return mdt.reduce("i->", X, f=lambda x: x + np.fft.fft(x))
                                                  ^
      HERE, in <lambda>
      hint: write it with ufuncs, np.where, np.clip or np.round
    """
    return mdt.reduce("i->", X, f=lambda x: x + np.fft.fft(x))


# --- records ----------------------------------------------------------------------------------


@wrong
def string_too_long_for_its_field():
    """
    ProgramError: 'Annegrete' has 9 characters, but field 'name' of operand 0 (S8) holds 8
      return mdt.reduce("i->", PEOPLE, f=lambda p: p["name"] == "Annegrete")
                                                   ^
      HERE, in <lambda>
      hint: it equals no such string; compare with 'Annegret'
    """
    return mdt.reduce("i->", PEOPLE, f=lambda p: p["name"] == "Annegrete")


@wrong
def unknown_field():
    """
    ProgramError: operand 0 has no field 'age'
      return mdt.reduce("i->", PEOPLE, f=lambda p: p["age"])
                                                   ^
      HERE, in <lambda>
      hint: its fields are name, born
    """
    return mdt.reduce("i->", PEOPLE, f=lambda p: p["age"])


# --- convolutions and filters -----------------------------------------------------------------


@wrong
def layout_whose_result_has_windows():
    """
    SubscriptError: 'R' occurs in the result only
      NHWC,KRSC->NPQRK
      hint: C is in image and filter, K in filter and result, N in image and result
    """
    return mdt.conv(np.ones((1, 8, 8, 2)), np.ones((4, 3, 3, 2)), layout="NHWC,KRSC->NPQRK")


@wrong
def groups_that_do_not_divide_channels():
    """
    ShapeError: groups=2 with 5 channels of the image, 2 channels and 4 results of the filter
      hint: the filter has image channels / groups channels, and results divisible by groups
    """
    return mdt.conv(np.ones((1, 8, 8, 5)), np.ones((4, 3, 3, 2)), groups=2)


@wrong
def filter_larger_than_the_image():
    """
    ShapeError: along spatial axis 0 no window fits: the image has 2 elements and padding (0, 0), a window 3
      image: (1, 2, 8, 2)    filter: (4, 3, 3, 2)    dilation: 1    stride: 1
      hint: more padding, less dilation, or a smaller filter
    """
    return mdt.conv(np.ones((1, 2, 8, 2)), np.ones((4, 3, 3, 2)))


@wrong
def mode_of_another_library():
    """
    FilterError: boundary mode not supported: 'symmetric'
      hint: one of ['nearest', 'wrap', 'grid-wrap', 'reflect', 'grid-mirror', 'mirror', 'constant', 'grid-constant']
    """
    return mdt.ndimage.correlate(M, np.ones((3, 3)), mode="symmetric")


# --- stencils and slices ----------------------------------------------------------------------


@wrong
def unknown_border():
    """
    TranslationError: unknown border 'periodic'
      hint: one of valid, fixed, constant, nearest, reflect, mirror, wrap
    """
    return mdt.stencil(lambda u: u[-1] + u[1], border="periodic")


@wrong
def index_that_is_no_offset():
    """
    ProgramError: a stencil reads at 0.5, which is no relative index
      return mdt.stencil(lambda u: u[0.5])(X)
                                   ^
      HERE, in <lambda>
      hint: whole numbers, one for each axis: u[-1, 0] is the element above the point
    """
    return mdt.stencil(lambda u: u[0.5])(X)


@wrong
def stencil_of_other_rank():
    """
    ProgramError: a stencil reads at 1 indices from an array of 2 axes
      return mdt.stencil(lambda u: u[-1] + u[1])(M)
                                   ^
      HERE, in <lambda>
      hint: u[0, 0] is the point itself
    """
    return mdt.stencil(lambda u: u[-1] + u[1])(M)


@wrong
def slices_of_different_lengths():
    """
    ShapeError: shapes (5,), (4,) do not broadcast
      hint: axes are matched from the last one on; np.newaxis adds one of extent 1
    """
    x = mdt.lazy(X)
    return x[1:] + x[2:]


@wrong
def index_out_of_range():
    """
    IndexingError: index 6 is out of range for axis 0, which has 6 elements
    """
    return mdt.lazy(M)[6]


@wrong
def mask_of_a_lazy_array():
    """
    IndexingError: a lazy array cannot be indexed by <lazy bool[6]: (p0 > 2)>
      hint: integers, slices, ... and np.newaxis; mdtensor.reduce reads at computed indices
    """
    x = mdt.lazy(X)
    return x[x > 2]


# --- loops, with operators and without --------------------------------------------------------


@wrong
def carried_dependence():
    """
    ProgramError: loop 'i' reads an element of x that an earlier iteration writes
      x[i] = 0.5 * (x[i - 1] + x[i])
      ^
      HERE, in smoothed
      hint: write to another array than x, or give it an axis for the loop; if the loop must run in order, call the function once for each of its iterations
    """

    @mdh
    def smoothed(x):
        for i in range(1, len(x)):
            x[i] = 0.5 * (x[i - 1] + x[i])

    smoothed(np.ones(5000))


@wrong
def index_out_of_reach():
    """
    ProgramError: index i+1 of x is out of reach: it runs from 1 to 6, but axis 0 has extent 6
      y[i] = (x[i] + x[i + 1]) / 2
      ^
      HERE, in means
      hint: shorten the loop, or read under a condition: x[i - 1] if i > 0 else 0
    """

    @mdh(out(y=D), inp(x=D), combine_ops(cc))
    def means(y, x):
        for i in range(len(x)):
            y[i] = (x[i] + x[i + 1]) / 2

    means(X)


@wrong
def bound_that_is_no_integer():
    """
    ProgramError: a bound of a loop is no integer
      for j in range(x[i]):
               ^
      HERE, in sums
      hint: bounds are integers from arguments and shapes, sums of outer loops' variables, or elements of arrays of integers
    """

    @mdh
    def sums(x, n, y):
        for i in range(len(y)):
            for j in range(x[i]):
                y[i] += n[j]

    sums(X, np.ones(3, int), np.zeros(3))


@wrong
def list_in_the_place_of_an_array():
    """
    ProgramError: x is a list, which no kernel can index by i
      y[i] = 2 * x[i]
                 ^
      HERE, in doubled
      hint: make it an array: numpy.asarray(x)
    """

    @mdh
    def doubled(x, y):
        for i in range(len(x)):
            y[i] = 2 * x[i]

    doubled([1.0, 2.0, 3.0], np.zeros(3))


@wrong
def list_in_the_place_of_a_result():
    """
    ProgramError: y is a list, which no kernel can index by i
      y[i] += x[i]
      ^
      HERE, in added
      hint: make it an array: numpy.asarray(y)
    """

    @mdh
    def added(x, y):
        for i in range(len(x)):
            y[i] += x[i]

    added(X, [0.0] * 6)


@wrong
def last_one_wins():
    """
    ProgramError: every iteration of loop 'j' writes the same element of y, and the last would win
      y[i] = A[i, j]
      ^
      HERE, in rows
      hint: a reduction is +=, *=, = min(…) or = max(…), or name the operators by combine_ops(…); a temporary needs an axis for the loop
    """

    @mdh
    def rows(A, y):
        for i in range(A.shape[0]):
            for j in range(A.shape[1]):
                y[i] = A[i, j]

    rows(M, np.zeros(6))


@wrong
def operator_too_many():
    """
    ProgramError: combine_ops names 2 operators, but 1 loop is nested
      y[i] = x[i]
      ^
      HERE, in copied
      hint: name an operator for each loop, from the outermost to the innermost
    """

    @mdh(out(y=D), inp(x=D), combine_ops(cc, pw(add)))
    def copied(y, x):
        for i in range(len(x)):
            y[i] = x[i]

    copied(X)


@wrong
def type_that_was_not_declared():
    """
    DTypeError: x holds float32, but was declared as Buffer[float64]
      hint: convert it by x.astype('float64'), or declare its type
    """

    @mdh(out(y=D), inp(x=D), combine_ops(cc))
    def copied(y, x):
        for i in range(len(x)):
            y[i] = x[i]

    copied(X.astype("f4"))


# --- views ------------------------------------------------------------------------------------


@wrong
def view_that_is_not_affine():
    """
    ProgramError: y is written at an index that is not affine
      def squares():
      ^
      HERE, in squares
      hint: indices of outputs are sums of multiples of the loops' variables
    """

    @mdh()
    def squares():
        return (
            out_view[fp64](y=[lambda i: i * i]),
            md_hom[3](f_mul, (cc,)),
            inp_view[fp64](x=[lambda i: i]),
        )

    squares(X)


@wrong
def size_without_operator():
    """
    TranslationError: md_hom has 2 sizes but 1 operator
      hint: a size and an operator for every dim
    """

    @mdh()
    def product():
        return (
            out_view[fp64](w=[lambda i, k: i]),
            md_hom[6, 6](f_mul, (cc,)),
            inp_view[fp64, fp64](A=[lambda i, k: (i, k)], v=[lambda i, k: k]),
        )

    product(M, X)


@wrong
def type_without_buffer():
    """
    TranslationError: inp_view names 2 types for 1 buffer
      hint: inp_view[T, T](a=…, b=…) has one type for each buffer
    """
    return inp_view[fp64, fp64](x=[lambda i: i])


# ----------------------------------------------------------------------------------------------


@pytest.mark.sampled(24)
@pytest.mark.parametrize("program", WRONG, ids=lambda program: program.__name__)
def test_a_wrong_program_is_explained(program: Callable[[], Any]) -> None:
    with pytest.raises(MdtensorError) as caught:
        program()
    shows_another = caught.value.__context__ is not None and not caught.value.__suppress_context__
    assert not shows_another, "what went before it is shown as well"
    text = f"{type(caught.value).__name__}: {caught.value}"
    place = re.search(re.escape(__file__) + r":(\d+)", text)
    if place is not None:
        assert caught.value.text is not None
        assert caught.value.text.strip() in linecache.getline(__file__, int(place[1]))
        text = text.replace(place[0], "HERE")
    assert text == inspect.getdoc(program)


def test_there_are_enough() -> None:
    assert len(WRONG) >= 20
