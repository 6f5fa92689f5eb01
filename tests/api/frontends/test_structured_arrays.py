"""Reductions of records against plain Python: record linkage, results with fields, wrong uses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mdtensor.api.frontends.operators import operator, ps
from mdtensor.api.frontends.reduce import reduce, scan
from mdtensor.directive import (
    Buffer,
    add,
    cc,
    combine_ops,
    fp64,
    inp,
    int32,
    int64,
    mdh,
    out,
    pw,
    pw_custom_func,
)
from mdtensor.errors import DTypeError, FieldError, ProgramError, ShapeError, TranslationError

PERSON = np.dtype(
    [
        ("id", "i8"),
        ("first", "S12"),
        ("last", "U7"),
        ("born", [("year", "i2"), ("month", "u1"), ("day", "u1")]),
        ("postcode", "S5"),
        ("scores", "f4", (3,)),
    ]
)
MATCH = np.dtype([("weight", "f8"), ("index", "i4"), ("measure", "i4")])
BY_ID, BY_WEIGHT = 14, 1
AGREE = {"first": 5.5, "last": 6.25, "postcode": 7.75, "year": 4.5, "month": 3.25}
DISAGREE = {"first": -3.0, "last": -3.5, "postcode": -1.25, "year": -4.5, "month": -2.75}


def people(count: int, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    array = np.zeros(count, PERSON)
    array["id"] = draw.integers(0, 4 * count, count)
    array["first"] = draw.choice([b"Anna", b"Annegret", b"Anneliese", b"Jan"], count)
    array["last"] = draw.choice(["Kühn", "Kuehn", "Schmidt", ""], count)
    array["born"]["year"] = draw.integers(1950, 1954, count)
    array["born"]["month"] = draw.integers(1, 4, count)
    array["postcode"] = draw.choice([b"48149", b"48159"], count)
    array["scores"] = draw.integers(-5, 5, (count, 3))
    return array


def weight(new: Any, known: Any, *, i: Any) -> Any:
    """The sum of the weights with which attributes agree or do not; equal ids are enough."""
    if new["id"] == known["id"]:
        return 1000.0, i, BY_ID
    total = 0.0
    for name in ("first", "last", "postcode"):
        total += AGREE[name] if new[name] == known[name] else DISAGREE[name]
    for name in ("year", "month"):
        total += AGREE[name] if new["born"][name] == known["born"][name] else DISAGREE[name]
    return total, i, BY_WEIGHT


@operator(identity=(-math.inf, 2**31 - 1, 0), commutative=True)
def best(lhs: Any, rhs: Any) -> Any:
    """The heavier match; the one with the smaller index where both weigh the same."""
    if lhs["weight"] > rhs["weight"]:
        return lhs
    if lhs["weight"] == rhs["weight"] and lhs["index"] <= rhs["index"]:
        return lhs
    return rhs


def linked(new: np.ndarray, register: np.ndarray) -> np.ndarray:
    """The best matches, by Python."""
    found = np.zeros(len(new), MATCH)
    for n, record in enumerate(new):
        matches = [weight(record, known, i=i) for i, known in enumerate(register)]
        found[n] = max(matches, key=lambda match: (match[0], -match[1]))
    return found


@pytest.mark.parametrize(("news", "knowns"), [(1, 1), (13, 101), (64, 257)])
def test_records_are_linked(executed: str, news: int, knowns: int) -> None:
    new, register = people(news, 1), people(knowns, 2)
    found = reduce("n,i->n", new, register, f=weight, combine=best, dtype=MATCH)
    assert found.dtype == MATCH
    np.testing.assert_array_equal(found, linked(new, register))


def test_strings_that_are_compared_often_become_codes(executed: str) -> None:
    draw = np.random.default_rng(5)
    names = draw.choice([b"Anna", b"Annegret", b"Anneliese", b"Johannes", b""], 1100)
    lists = names[:512].reshape(32, 16)
    count = reduce("k j, i -> i", lists, names[:600], f=lambda a, b: a == b, combine="add")
    expected = (lists.reshape(-1) == names[:600, None]).sum(1)
    np.testing.assert_array_equal(count, expected)
    both = reduce("k, i -> i", names, names[:520], f=lambda a, b: a == b and b != b"", combine="or")
    np.testing.assert_array_equal(both, names[:520] != b"")


def test_best_matches_without_any(executed: str) -> None:
    found = reduce("n,i->n", people(3, 1), people(0, 2), f=weight, combine=best, dtype=MATCH)
    np.testing.assert_array_equal(found["weight"], [-math.inf] * 3)
    assert found["index"].tolist() == [2**31 - 1] * 3


def test_results_go_to_fields_of_out() -> None:
    new, register = people(13, 1), people(101, 2)
    wide = np.zeros((13, 2), [("measure", "i8"), ("weight", "f8"), ("index", "i4")])
    column = wide[:, 1]

    def by_name(a: Any, b: Any, *, i: Any) -> Any:
        value, index, measure = weight(a, b, i=i)
        return {"weight": value, "index": index, "measure": measure}

    assert reduce("n,i->n", new, register, f=by_name, combine=best_by_name, out=column) is column
    expected = linked(new, register)
    for name in MATCH.names or ():
        np.testing.assert_array_equal(column[name], expected[name])
    assert not wide[:, 0]["weight"].any()


@operator(identity=(0, -math.inf, 2**31 - 1), commutative=True)
def best_by_name(lhs: Any, rhs: Any) -> Any:
    """As `best`, on fields in another order, and returning a dict."""
    first = lhs.weight > rhs.weight or (lhs.weight == rhs.weight and lhs.index <= rhs.index)
    if first:
        return {"measure": lhs.measure, "weight": lhs.weight, "index": lhs.index}
    return {"weight": rhs.weight, "index": rhs.index, "measure": rhs.measure}


def test_operators_may_assign_their_result(executed: str) -> None:
    new, register = people(5, 1), people(31, 2)

    def best_assigned(res: Any, lhs: Any, rhs: Any) -> None:
        if lhs["weight"] > rhs["weight"]:
            res["weight"] = lhs["weight"]
            res["index"] = lhs["index"]
            res["measure"] = lhs["measure"]
        else:
            res["weight"] = rhs["weight"]
            res["index"] = rhs["index"]
            res["measure"] = rhs["measure"]

    found = reduce("n,i->n", new, register, f=weight, combine=best_assigned, dtype=MATCH)
    np.testing.assert_array_equal(found["weight"], linked(new, register)["weight"])


def test_fields_that_f_names_name_the_result(executed: str) -> None:
    array = people(20, 3)
    total = reduce("i->", array, f=lambda r: {"n": 1, "sum": r["scores"][0]}, combine="add")
    assert total.dtype == np.dtype([("n", "i8"), ("sum", "f4")])
    assert (total["n"], total["sum"]) == (20, array["scores"][:, 0].sum())


def test_numbers_of_records_without_fields_in_the_result(executed: str) -> None:
    array = people(20, 3)
    found = reduce("i->", array, f=lambda r: sum(r["scores"]), combine="max")
    assert found == array["scores"].sum(1).max()
    pair = reduce("i->", array, f=lambda r: (r["id"], r["born"]["day"]), combine="max")
    assert pair == (array["id"].max(), array["born"]["day"].max())


def test_strings_alone(executed: str) -> None:
    names = np.array(["Ann", "Max", "Ann", "Annegret"])
    count = reduce("i,j->i", names, names[:3], f=lambda a, b: a == b, combine="add")
    np.testing.assert_array_equal(count, [2, 1, 2, 0])
    assert reduce("i->", names.astype("S"), f=lambda a: a == b"Ann", combine="add") == 2


def test_records_beside_numbers_and_gathers(executed: str) -> None:
    array, index = people(20, 3), np.array([3, 0, 19, 7])
    factors = np.arange(4.0)
    found = reduce("@1, i, i -> i", array, index, factors, f=lambda r, x: x * r["scores"][2])
    np.testing.assert_array_equal(found, factors * array["scores"][index, 2])


def test_records_are_scanned(executed: str) -> None:
    array = people(20, 3)
    result = np.dtype([("total", "i8"), ("most", "f4")])
    found = scan(
        "i->i",
        array,
        f=lambda r: (r["id"], r["scores"][1]),
        combine=lambda a, b: (a["total"] + b["total"], max(a["most"], b["most"])),
        dtype=result,
    )
    np.testing.assert_array_equal(found["total"], np.cumsum(array["id"]))
    np.testing.assert_array_equal(found["most"], np.maximum.accumulate(array["scores"][:, 1]))
    by_dim = {"i": ps(lambda a, b: {"n": a["n"] + b["n"]})}
    one = reduce("i->i", array, f=lambda r: {"n": r["id"]}, combine=by_dim)
    np.testing.assert_array_equal(one["n"], np.cumsum(array["id"]))


def test_records_that_are_only_counted(executed: str) -> None:
    assert reduce("i->", people(20, 3), f=lambda r: 1) == 20


def test_slices_and_other_byte_orders(executed: str) -> None:
    array = people(40, 3)[::-2]
    swapped = array.astype(PERSON.newbyteorder())
    for given in (array, swapped):
        assert reduce("i->", given, f=lambda r: r["id"] * r["born"]["year"]) == np.sum(
            array["id"] * array["born"]["year"]
        )
        assert reduce("i->", given, f=lambda r: r["last"] == "Kühn") == np.sum(
            array["last"] == "Kühn"
        )


def test_a_record_is_an_operand() -> None:
    array = people(20, 3)
    same = reduce(",i->i", array[4], array, f=lambda a, b: a["first"] == b["first"])
    np.testing.assert_array_equal(same, array["first"] == array["first"][4])


def test_records_without_a_function() -> None:
    with pytest.raises(FieldError) as caught:
        reduce("i->", people(3, 1))
    assert str(caught.value) == (
        "elements of operand 0 (records) cannot be multiplied\n"
        "  hint: f says what is computed from them: f=lambda r: r['field']"
    )


def test_a_record_as_a_number() -> None:
    with pytest.raises(ProgramError) as caught:
        reduce("i->", people(3, 1), f=lambda r: r * 2)
    assert caught.value.message == "operation 'mul' takes numbers, not operand 0 (a record)"
    with pytest.raises(ProgramError) as caught:
        reduce("i->", people(3, 1), f=lambda r: r["last"])
    assert caught.value.message == (
        "the function returns field 'last' of operand 0 (U7), which is no number"
    )


def test_records_as_indices_or_in_epilogues() -> None:
    array = people(3, 1)
    with pytest.raises(FieldError, match=r"operand 1 has elements of type .*, not numbers"):
        reduce("i->i; i", array["id"], array, epilogue=lambda t, r: t)


def test_results_that_do_not_fit() -> None:
    array = people(3, 1)
    with pytest.raises(TranslationError) as caught:
        reduce("i->", array, f=lambda r: (r["id"], 1), dtype=MATCH)
    assert caught.value.message == (
        "f returns 2 values, but the result has the fields weight, index, measure"
    )
    with pytest.raises(TranslationError) as caught:
        reduce("i->", array, f=lambda r: {"id": r["id"]}, dtype=[("n", "i8")])
    assert caught.value.message == "f returns the fields id, but the result has n"
    with pytest.raises(DTypeError) as wrong:
        reduce("i->", array, f=lambda r: r["id"], dtype=[("name", "S8")])
    assert wrong.value.message == ("field 'name' of the result is |S8; results are single numbers")
    with pytest.raises(ShapeError) as shape:
        reduce("i->i", array, f=lambda r: r["id"], dtype=[("n", "i8")], out=np.zeros(3))
    assert shape.value.message == "out is no array of records, but dtype is"
    narrow = np.zeros(3, [("n", "i4")])
    with pytest.raises(DTypeError) as wrong:
        reduce("i->i", array, f=lambda r: r["id"], dtype=[("n", "i8")], out=narrow)
    assert wrong.value.message == (
        "out has elements of type [('n', '<i4')], but dtype is [('n', '<i8')]"
    )


def test_operators_name_fields_that_there_are() -> None:
    with pytest.raises(ProgramError) as caught:
        reduce(
            "i->",
            people(3, 1),
            f=lambda r: {"id": r["id"]},
            combine=lambda a, b: {"id": a["key"] + b["key"]},
        )
    assert caught.value.message == "the tuples that are combined have no field 'key'"
    assert caught.value.hint == "their fields are id"


# ---- the directive


def nest(new_dtype: Any, known_dtype: Any) -> Any:
    """`weight` and `best` as a nest of loops with operators (003, listing 11)."""

    @pw_custom_func(identity=(-math.inf, 2**31 - 1, 0), commutative=True)
    def heavier(res: Any, lhs: Any, rhs: Any) -> None:
        if lhs["w"] > rhs["w"] or (lhs["w"] == rhs["w"] and lhs["index"] <= rhs["index"]):
            res["w"] = lhs["w"]
            res["index"] = lhs["index"]
            res["measure"] = lhs["measure"]
        else:
            res["w"] = rhs["w"]
            res["index"] = rhs["index"]
            res["measure"] = rhs["measure"]

    @mdh(
        out(w=Buffer[fp64], index=Buffer[int32], measure=Buffer[int32]),
        inp(new=Buffer[new_dtype], known=Buffer[known_dtype]),
        combine_ops(cc, pw(heavier)),
    )
    def linked_by_loops(w: Any, index: Any, measure: Any, new: Any, known: Any) -> None:
        for n in range(len(new)):
            for i in range(len(known)):
                found = weight(new[n], known[i], i=i)
                w[n] = found[0]
                index[n] = found[1]
                measure[n] = found[2]

    return linked_by_loops


@pytest.mark.parametrize(("news", "knowns"), [(3, 5), (13, 101)])
def test_records_are_linked_by_the_directive(executed: str, news: int, knowns: int) -> None:
    new, register = people(news, 1), people(knowns, 2)
    found = nest(PERSON, PERSON)(new, register)
    expected = linked(new, register)
    for values, name in zip(found, MATCH.names or (), strict=True):
        np.testing.assert_array_equal(values, expected[name])


def test_strings_and_nested_fields_in_loops(executed: str) -> None:
    array, names = people(20, 3), np.array([b"Anna", b"Jan", b"x"], "S20")

    @mdh
    def counted(counts: Any, people: Any, names: Any) -> None:
        for k in range(len(names)):
            for n in range(len(people)):
                agree = people[n].first == names[k] and people[n]["last"] != ""
                counts[k] += people[n].born.month if agree else 0

    counts = np.zeros(3, np.int64)
    counted(counts, array, names)
    agree = (array["first"] == names[:, None]) & (array["last"] != "")
    np.testing.assert_array_equal(counts, (agree * array["born"]["month"]).sum(1))


def test_loops_write_numbers_only() -> None:
    @mdh
    def renamed(people: Any) -> None:
        for n in range(len(people)):
            people[n]["first"] = b"Anna"

    with pytest.raises(ProgramError) as caught:
        renamed(people(3, 1))
    assert caught.value.message == (
        "an element of people.first is a string, and kernels write only numbers"
    )


@pytest.mark.parametrize("field", ["", "code", "name"])
def test_loops_compare_records_and_sub_arrays_as_reductions_do(field: str) -> None:
    kind = np.dtype([("id", "i8"), ("code", "u1", (4,)), ("name", "S4")])
    ours, theirs = np.zeros(3, kind), np.zeros(2, kind)
    ours["id"], theirs["id"] = [1, 2, 3], [1, 3]
    ours["code"], theirs["code"] = [[1, 2, 3, 4], [5, 6, 7, 8], [1, 1, 1, 1]], [[5, 6, 7, 8]] * 2
    ours["name"], theirs["name"] = [b"Ann", b"Bob", b""], [b"Bob", b""]
    ours[0], theirs[1] = ours[0], ours[0]

    @mdh(out(y=Buffer[int64]), inp(a=Buffer[kind], b=Buffer[kind]), combine_ops(cc, pw(add)))
    def counted(y, a, b):
        for n in range(3):
            for i in range(2):
                y[n] = 1 if (a[n][field] == b[i][field] if field else a[n] == b[i]) else 0

    def same(a: Any, b: Any) -> bool:
        return np.array_equal(a[field], b[field]) if field else a == b

    expected = [sum(same(a, b) for b in theirs) for a in ours]
    assert counted(ours, theirs).tolist() == expected
    whole = reduce(
        "i,j->i",
        ours,
        theirs,
        f=lambda a, b: 1 if (a[field] == b[field] if field else a == b) else 0,
    )
    assert whole.tolist() == expected


def test_loops_take_records_and_sub_arrays_apart_as_reductions_do() -> None:
    kind = np.dtype([("id", "i8"), ("code", "u1", (4,))])
    people = np.zeros(3, kind)
    people["id"], people["code"] = [4, 5, 6], np.arange(12).reshape(3, 4)

    @mdh
    def taken(x, y):
        for n in range(3):
            total = 0
            for value in x[n]["code"]:
                total += value
            first, code = x[n]
            y[n, 0] = x[n][0] + len(x[n]) + first
            y[n, 1] = x["id"][n] + x["code"][n][1]
            y[n, 2] = max(x[n]["code"]) + sum(code)
            y[n, 3] = total if 5 in code else 99

    found = np.zeros((3, 4), "i8")
    taken(people, found)
    assert found.tolist() == [[10, 5, 9, 99], [12, 10, 29, 22], [14, 15, 49, 99]]


def test_loops_name_the_fields_that_there_are() -> None:
    @mdh
    def wrong(x, y):
        for n in range(3):
            y[n] = x["age"][n]

    with pytest.raises(ProgramError) as caught:
        wrong(np.zeros(3, [("id", "i8")]), np.zeros(3))
    assert (caught.value.message, caught.value.hint) == ("x has no field 'age'", "one of id")
