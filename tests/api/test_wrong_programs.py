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
def gather_at_floats():
    """
    DTypeError: operand 1 is used as an index, but its elements are float64
      @1, i -> i
      ^
      hint: indices are integers; astype('i8') makes them so
    """
    return mdt.einsum("@1, i -> i", X, np.ones(3))


# --- operators and functions ------------------------------------------------------------------


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
def operators_of_a_semiring_in_no_order():
    """
    TranslationError: combine is a set, which does not say what is combined first
      hint: a dict from dims to operators, in order: {'i': 'add', 'j': 'min'} is the minimum along j of the sums along i, {'j': 'min', 'i': 'add'} the sum along i of the minima along j
    """
    return mdt.einsum("ij,jk->", M, M, combine={("j", "add"), ("i", "max"), ("k", "min")})  # type: ignore[arg-type]


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
def best_of_nothing():
    """
    TranslationError: dim 'i' is empty and operator op has no identity
      hint: declare the operator's identity, or give the dim at least one element
    """
    return mdt.reduce("i->", X[:0], combine=lambda a, b: max(b, a))


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
def mode_of_another_library():
    """
    FilterError: boundary mode not supported: 'symmetric'
      hint: one of ['nearest', 'wrap', 'grid-wrap', 'reflect', 'grid-mirror', 'mirror', 'constant', 'grid-constant']
    """
    return mdt.ndimage.correlate(M, np.ones((3, 3)), mode="symmetric")


# --- stencils and slices ----------------------------------------------------------------------


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
