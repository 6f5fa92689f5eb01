"""The space against brute force: every configuration counted, indexed and reached."""

import itertools
import random

import pytest
from constraint import Problem
from hypothesis import given
from hypothesis import strategies as st

from mdtensor.autotune.space.space import Space
from mdtensor.autotune.space.tree import change_cost
from mdtensor.errors import SpaceError
from mdtensor.lower.schedule.parameter import SpaceParameter

NAMES = ("a", "b", "c", "d", "e")


def residue(names, modulus, residues):
    """A named constraint over some parameters, as written by hand: arguments say what it reads."""
    arguments = ", ".join(names)
    scope = {}
    source = f"def residue_is({arguments}): return ({' + '.join(names)}) % {modulus} in {residues}"
    exec(source, scope)
    return scope["residue_is"]


def multiples(of):
    return eval(f"lambda {of}: tuple({of} * k for k in range(1, 4))")


@st.composite
def declarations(draw):
    """Some parameters with values given or computed, and constraints over any of them."""
    names = NAMES[: draw(st.integers(1, 5))]
    parameters = []
    for at, name in enumerate(names):
        if at and draw(st.booleans()):
            values = multiples(draw(st.sampled_from(names[:at])))
        else:
            values = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True))
        constraints = []
        for _ in range(draw(st.integers(0, 2))):
            read = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
            modulus = draw(st.integers(2, 4))
            residues = draw(st.sets(st.integers(0, modulus - 1), min_size=1))
            constraints.append(residue(read, modulus, tuple(residues)))
        parameters.append(SpaceParameter(name, values, constraints))
    return parameters


def brute_force(parameters):
    """Every configuration by the definition: all combinations, then every constraint."""
    partial = [{}]
    for parameter in parameters:
        partial = [
            {**chosen, parameter.name: value}
            for chosen in partial
            for value in parameter.values_given(chosen)
        ]
    checks = [check for parameter in parameters for check in parameter.constraints]

    def valid(chosen):
        return all(
            check(**{name: chosen[name] for name in check.__code__.co_varnames}) for check in checks
        )

    return [chosen for chosen in partial if valid(chosen)]


def frozen(configuration):
    return tuple(configuration.items())


@given(declarations())
def test_holds_exactly_the_valid_configurations(parameters):
    space = Space(parameters)
    expected = brute_force(parameters)
    found = [space.configuration(index) for index in range(space.size)]
    assert space.size == len(space) == len(expected)
    assert {frozen(each) for each in found} == {frozen(each) for each in expected}
    assert [space.index(each) for each in found] == list(range(space.size))


@given(declarations(), st.data())
def test_contains_and_explains_agree_with_brute_force(parameters, data):
    space = Space(parameters)
    expected = brute_force(parameters)
    chosen = {each.name: data.draw(st.integers(0, 27)) for each in parameters}
    assert (chosen in space) == (chosen in expected)
    assert (space.explain_rejection(chosen) is None) == (chosen in expected)


@given(declarations(), st.randoms(use_true_random=False))
def test_neighbours_are_valid_distinct_and_different(parameters, rng):
    space = Space(parameters)
    if not space:
        return
    here = space.sample(rng)
    for changes in (1, 3):
        found = list(space.neighbours(here, rng, changes=changes))
        assert all(each in space for each in found)
        assert len({frozen(each) for each in found} | {frozen(here)}) == len(found) + 1
    if space.size > 1:
        assert list(space.neighbours(here, rng))


@given(declarations(), st.randoms(use_true_random=False))
def test_changes_are_those_neighbours_that_need_no_repair(parameters, rng):
    space = Space(parameters)
    if not space:
        return
    here = space.sample(rng)
    found = list(space.changes(here, rng))
    alone = {
        frozen(each)
        for each in map(space.configuration, range(space.size))
        if sum(each[name] != here[name] for name in here) == 1
    }
    assert alone <= set(map(frozen, found))
    assert all(each in space and each != here for each in found)
    assert len(set(map(frozen, found))) == len(found)


@given(declarations(), st.randoms(use_true_random=False), st.data())
def test_nearest_changes_least(parameters, rng, data):
    space = Space(parameters)
    if not space:
        return
    wanted = {each.name: data.draw(st.integers(0, 27)) for each in parameters}
    found = space.nearest(wanted, rng)
    free = space._forest.free

    def cost(configuration):
        return sum(change_cost(wanted[name], configuration[name]) for name in free)

    assert found in space
    assert cost(found) == pytest.approx(min(map(cost, brute_force(parameters))))


@given(declarations(), st.randoms(use_true_random=False))
def test_coordinates_lead_back(parameters, rng):
    space = Space(parameters)
    if not space:
        return
    here = space.sample(rng)
    assert space.from_coordinates(space.to_coordinates(here)) == here
    assert space.from_coordinates([rng.uniform(-1, 2) for _ in parameters]) in space


def test_counts_what_an_independent_solver_counts():
    def divides_rows(tile):
        return 96 % tile == 0

    def divides_tile(tile, step):
        return tile % step == 0

    def fits(tile, step, depth):
        return tile * depth + step <= 100

    values = range(1, 25)
    space = Space(
        [
            SpaceParameter("tile", values, (divides_rows, fits)),
            SpaceParameter("step", values, (divides_tile,)),
            SpaceParameter("depth", values),
        ]
    )
    problem = Problem()
    problem.addVariables(["tile", "step", "depth"], list(values))
    problem.addConstraint(divides_rows, ["tile"])
    problem.addConstraint(divides_tile, ["tile", "step"])
    problem.addConstraint(fits, ["tile", "step", "depth"])
    assert space.size == len(problem.getSolutions()) == 404


def matrix_space(dims, width):
    """Three layers of parts per dim, a joint limit on the tiles, and free switches."""
    extents = (*(2**at for at in range(12)), 3, 6, 12, 24, 48)
    parameters = []
    for dim in dims:
        for outer, inner in itertools.pairwise((None, "block", "warp", "thread")):
            constraints = ()
            if outer:
                constraints = (residue_zero(f"{outer}_{dim}", f"{inner}_{dim}"),)
            parameters.append(SpaceParameter(f"{inner}_{dim}", extents, constraints))

    def fits_registers(footprint):
        return footprint <= 64

    tile = f"lambda {', '.join(f'thread_{dim}' for dim in dims)}: ("
    tile += " * ".join(f"thread_{dim}" for dim in dims) + ",)"
    parameters.append(SpaceParameter("footprint", eval(tile), (fits_registers,)))
    parameters += [SpaceParameter(f"switch_{at}", (1, 2, 4, 8)) for at in range(width)]
    return Space(parameters)


def residue_zero(outer, inner):
    scope = {}
    exec(f"def divides({outer}, {inner}): return {outer} % {inner} == 0", scope)
    return scope["divides"]


def test_counts_and_indexes_a_huge_space():
    space = matrix_space("ijk", 20)
    # Without the split into independent sub-trees, each triple of tiles would carry its chains.
    assert space._forest.node_count < 6_000
    rng = random.Random(1)
    for _ in range(100):
        index = space.sample_index(rng)
        assert space.index(space.configuration(index)) == index
    # Per dim: chains block | warp | thread; all triples of threads within the limit; switches.
    extents = (*(2**at for at in range(12)), 3, 6, 12, 24, 48)
    chains = {
        thread: sum(
            block % warp == 0 and warp % thread == 0 for block in extents for warp in extents
        )
        for thread in extents
    }
    triples = itertools.product(extents, repeat=3)
    tiles = sum(chains[x] * chains[y] * chains[z] for x, y, z in triples if x * y * z <= 64)
    assert space.size == tiles * 4**20 > 10**18


def test_groups_follow_from_the_arguments():
    def below(a, c):
        return a < c

    space = Space(
        [
            SpaceParameter("a", (1, 2), (below,)),
            SpaceParameter("b", (1, 2)),
            SpaceParameter("c", (1, 2, 3)),
            SpaceParameter("d", lambda b: (b, b + 1)),
        ]
    )
    assert space.groups == (("a", "c"), ("b", "d"))
    assert space.size == 3 * 4
    assert list(space.configuration(0)) == ["a", "b", "c", "d"]


def small():
    def divides_tile(tile, step):
        return tile % step == 0

    return Space(
        [
            SpaceParameter("tile", (2, 6, 8)),
            SpaceParameter("step", (1, 2, 3, 4), (divides_tile,)),
            SpaceParameter("order", (("i", "j"), ("j", "i"))),
        ]
    )


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        ({"tile": 6, "step": 3}, "no value for parameter 'order'"),
        ({"tile": 6, "step": 3, "order": ("i", "j"), "fast": 1}, "unknown parameter 'fast'"),
        ({"tile": 7, "step": 1, "order": ("i", "j")}, "'tile' is 7, not one of {2, 6, 8}"),
        (
            {"tile": 8, "step": 3, "order": ("i", "j")},
            "constraint of 'step' rejects divides_tile(tile=8, step=3)",
        ),
    ],
)
def test_a_rejection_names_the_reason(configuration, reason):
    space = small()
    assert space.explain_rejection(configuration) == reason
    assert configuration not in space
    with pytest.raises(SpaceError) as caught:
        space.index(configuration)
    assert caught.value.message == f"not in the space: {reason}"


def test_lists_from_json_stand_for_tuples():
    space = small()
    configuration = {"tile": 6, "step": 3, "order": ["j", "i"]}
    assert configuration in space
    assert space.configuration(space.index(configuration))["order"] == ("j", "i")


def test_a_pinned_value_is_kept_and_the_rest_repaired():
    wanted = {"tile": 6, "step": 4, "order": ("j", "i")}
    found = small().nearest(wanted, random.Random(0), pinned=["step"])
    assert found == {"tile": 8, "step": 4, "order": ("j", "i")}
    assert small().nearest({**wanted, "step": 5}, random.Random(0), pinned=["step"]) is None


def test_a_configuration_of_another_space_is_a_start():
    found = small().nearest({"tile": 7, "warp": 3, "step": 2}, random.Random(0))
    assert (found["tile"], found["step"]) == (8, 2)


def test_single_changes_reach_every_value():
    space = small()
    here = {"tile": 6, "step": 3, "order": ("i", "j")}
    found = list(space.neighbours(here, random.Random(0)))
    assert {each["tile"] for each in found} == {2, 6, 8}
    assert {each["step"] for each in found} == {1, 2, 3, 4}


def test_near_values_come_first():
    space = Space([SpaceParameter("tile", range(100))])
    firsts = [
        next(space.neighbours({"tile": 50}, random.Random(seed)))["tile"] for seed in range(99)
    ]
    assert sum(abs(first - 50) <= 5 for first in firsts) > 35
    assert any(abs(first - 50) > 5 for first in firsts)


def test_samples_are_uniform_over_configurations():
    space = small()
    rng = random.Random(0)
    drawn = [space.index(space.sample(rng)) for _ in range(1600)]
    counts = [drawn.count(index) for index in range(space.size)]
    assert space.size == 16
    assert min(counts) > 60
    assert max(counts) < 150


def test_an_empty_space_is_false_and_cannot_be_sampled():
    def never(tile):
        return tile > 9

    space = Space([SpaceParameter("tile", (1, 2), (never,)), SpaceParameter("step", (1, 2))])
    assert (space.size, bool(space)) == (0, False)
    with pytest.raises(SpaceError, match="no configuration"):
        space.sample(random.Random(0))
    with pytest.raises(SpaceError, match="no configuration"):
        space.nearest({"tile": 1}, random.Random(0))
    with pytest.raises(IndexError):
        space.configuration(0)


def test_no_parameters_make_one_configuration():
    assert Space([]).size == 1
    assert Space([]).configuration(0) == {}


def reads_nothing():
    return False


def reads_unknown(tile, warp):
    return True


def divides_by_tile(tile):
    return 8 % tile == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([SpaceParameter("a", (1,)), SpaceParameter("a", (2,))], "declared twice: a"),
        (
            [SpaceParameter("a", lambda b: (b,)), SpaceParameter("b", (1,))],
            "read 'b', which is not an earl",
        ),
        ([SpaceParameter("tile", (1,), (reads_unknown,))], "reads_unknown of 'tile' reads 'warp'"),
        ([SpaceParameter("tile", (0,), (divides_by_tile,))], r"raised: divides_by_tile\(tile=0\)"),
    ],
)
def test_ill_formed_spaces_are_refused(parameters, message):
    with pytest.raises(SpaceError, match=message):
        Space(parameters)


def test_a_constraint_that_reads_nothing_counts():
    assert Space([SpaceParameter("tile", (1, 2), (reads_nothing,))]).size == 0


def test_too_many_sub_trees_are_an_error_that_says_where():
    def whole(a, b, c):
        return (a + b + c) % 7 == 0

    parameters = [SpaceParameter(name, range(20)) for name in "ab"]
    with pytest.raises(SpaceError, match="more than 100 different sub-trees, at parameter"):
        Space([*parameters, SpaceParameter("c", range(20), (whole,))], node_limit=100)
