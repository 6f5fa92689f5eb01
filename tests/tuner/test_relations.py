"""Relations, which enumerate, against the definition by a filter of all values."""

import itertools
import random

import pytest

from mdtensor.errors import SpaceError
from mdtensor.tuner import (
    Parameter,
    Space,
    at_least,
    at_most,
    divides,
    equal,
    greater_than,
    is_multiple_of,
    less_than,
    unequal,
)

DEFINITIONS = {
    divides: lambda value, number: value != 0 and number % value == 0,
    is_multiple_of: lambda value, number: value % number == 0 if number else value == 0,
    less_than: lambda value, number: value < number,
    at_most: lambda value, number: value <= number,
    greater_than: lambda value, number: value > number,
    at_least: lambda value, number: value >= number,
    equal: lambda value, number: value == number,
    unequal: lambda value, number: value != number,
}
RANGES = [
    range(1, 200),
    range(-50, 51),
    range(0, 300, 7),
    range(5, 300, 6),
    range(90, -90, -4),
    range(4, 4),
    (8, 3, 5, 0, 12, -6, 2),
    tuple(range(1, 3000)),
]
NUMBERS = [0, 1, 2, 7, 12, 60, 97, 144, -36, 1 << 10]


@pytest.mark.parametrize("relation", DEFINITIONS, ids=lambda each: each.__name__)
def test_a_relation_keeps_what_its_definition_says_in_order(relation):
    for values, number in itertools.product(RANGES, NUMBERS):
        expected = [value for value in values if DEFINITIONS[relation](value, number)]
        assert list(relation(number).select(values, {}, "x")) == expected, (values, number)


def test_relations_combine_as_sets_do():
    for values, one, other in itertools.product(RANGES, (12, 60), (2, 7)):
        is_even_or_less = (is_multiple_of(other) | less_than(other)).select(values, {}, "x")
        assert list(is_even_or_less) == [v for v in values if v % other == 0 or v < other]
        both = divides(one) & (lambda x, other=other: x > other)
        assert list(both.select(values, {}, "x")) == [
            v for v in values if v and one % v == 0 and v > other
        ]


def test_a_number_that_is_not_whole_has_no_divisors():
    values = range(1, 100)
    assert list(divides(7.5).select(values, {}, "x")) == []
    assert list(divides(8.0).select(values, {}, "x")) == [1, 2, 4, 8]


def test_what_no_number_divides_is_named():
    with pytest.raises(SpaceError, match=r"\(2, 3\) is no number"):
        Parameter("tile", range(1, 10), divides((2, 3)))
    with pytest.raises(SpaceError, match="the values of 'tile' raised"):
        Space([Parameter("order", ("ij", "ji")), Parameter("tile", range(1, 9), divides("order"))])
    with pytest.raises(SpaceError, match="5 is no constraint of 'tile'"):
        Parameter("tile", range(1, 10), [divides(4), 5])
    with pytest.raises(SpaceError, match="'width', which is not an earlier parameter"):
        Space([Parameter("tile", range(1, 10), divides("width")), Parameter("width", (1, 2))])


def test_divisors_of_large_numbers_are_found_at_once():
    number = 2**12 * 3**5 * 1_000_003
    found = list(divides(number).select(range(1, number + 1), {}, "x"))
    assert len(found) == 13 * 6 * 2
    assert all(number % each == 0 for each in found)
    assert found == sorted(found)


def random_constraints(rng, names):
    """Constraints of the last name, and the function of all values that they stand for."""
    number = rng.choice((6, 12, 24, 30))
    kinds = [
        (divides(number), lambda x, _, n=number: x != 0 and n % x == 0),
        (less_than(number), lambda x, _, n=number: x < n),
    ]
    if len(names) > 1:
        other = rng.choice(names[:-1])
        kinds += [
            (divides(other), lambda x, c, o=other: x != 0 and c[o] % x == 0),
            (is_multiple_of(other), lambda x, c, o=other: x % c[o] == 0 if c[o] else x == 0),
            (unequal(other), lambda x, c, o=other: x != c[o]),
            (
                eval(f"lambda {names[-1]}, {other}: ({names[-1]} + {other}) % 3 != 1"),
                lambda x, c, o=other: (x + c[o]) % 3 != 1,
            ),
            (
                at_most(other) | eval(f"lambda {names[-1]}: {names[-1]} % 5 == 0"),
                lambda x, c, o=other: x <= c[o] or x % 5 == 0,
            ),
        ]
    chosen = rng.sample(kinds, rng.randrange(min(3, len(kinds)) + 1))
    return [each for each, _ in chosen], [holds for _, holds in chosen]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(100))
def test_a_space_is_that_of_brute_force(seed):
    rng = random.Random(seed)
    names, parameters, expected = [], [], [{}]
    for name in "abcd"[: rng.randrange(1, 5)]:
        names.append(name)
        start, step = rng.randrange(0, 4), rng.choice((1, 1, 2, 3))
        values = range(start, start + rng.randrange(4, 20), step)
        given, holding = random_constraints(rng, names)
        parameters.append(Parameter(name, values, given))
        expected = [
            {**chosen, name: value}
            for chosen in expected
            for value in values
            if all(holds(value, chosen) for holds in holding)
        ]
    space = Space(parameters)
    assert space.size == len(expected)
    found = [space.configuration(index) for index in range(space.size)]
    assert {tuple(each.items()) for each in found} == {tuple(each.items()) for each in expected}
    assert [space.index(each) for each in found] == list(range(space.size))
