"""Who is in the register already? Persons are found again in spite of typing errors.

python examples/record_linkage.py [matches.csv]

Probabilistic record linkage (Fellegi and Sunter, 1969): every attribute on which two records agree
speaks for one person, by the logarithm of how much more often it does so for one person than for
two; every attribute on which they differ speaks against it.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable

import numpy as np

import mdtensor as mdt

PERSON = np.dtype(
    [
        ("insurance", "i4"),  # 0 where it is not known
        ("first", "S12"),
        ("last", "S16"),
        ("born", [("year", "i2"), ("month", "u1"), ("day", "u1")]),
        ("postcode", "i4"),
    ]
)
MATCH = np.dtype([("weight", "f4"), ("person", "i4"), ("measure", "i4")])
BY_INSURANCE, BY_WEIGHT = 14, 1
TYPED_RIGHT = 0.9
CERTAIN, NOBODY = 1000.0, 2**31 - 1

FIRST = "Anna Bernd Britta Clara Dieter Eva Frank Greta Hans Ida Jan Jutta Karin Klaus Lena Marie"
FIRST += " Martin Nele Otto Paula Peter Ralf Rosa Sabine Stefan Tim Ulrike Uwe Vera Werner"
LAST = "Albers Bauer Becker Brandt Fischer Hoffmann Huber Jansen Kaiser Keller Klein Koch Krause"
LAST += " Lange Lehmann Maier Meyer Neumann Richter Schmidt Schneider Schulz Vogel Wagner Weber"
ENDINGS = ("", "mann", "kamp", "hoff")


def register_of(count: int, draw: np.random.Generator) -> np.ndarray:
    """Persons who do not exist."""
    names = [last + ending for last in LAST.split() for ending in ENDINGS]
    people = np.zeros(count, PERSON)
    people["insurance"] = draw.permutation(8 * count)[:count] + 1
    people["first"] = draw.choice(np.array(FIRST.split(), "S12"), count)
    people["last"] = draw.choice(np.array(names, "S16"), count)
    people["born"]["year"] = draw.integers(1930, 2010, count)
    people["born"]["month"] = draw.integers(1, 13, count)
    people["born"]["day"] = draw.integers(1, 29, count)
    people["postcode"] = draw.integers(48_100, 48_400, count)
    return people


def mistyped(name: bytes, draw: np.random.Generator) -> bytes:
    """A name with two letters exchanged, one left out, or another one in its place."""
    at = int(draw.integers(1, len(name) - 1))
    match draw.integers(3):
        case 0:
            return name[:at] + name[at : at + 2][::-1] + name[at + 2 :]
        case 1:
            return name[:at] + name[at + 1 :]
        case _:
            return name[:at] + bytes([draw.integers(97, 123)]) + name[at + 1 :]


def typed_again(people: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """The same persons as others write them down: few with their number, some with errors."""
    typed = people.copy()
    typed["insurance"][draw.random(len(typed)) < 0.7] = 0
    for field in ("first", "last"):
        for n in np.flatnonzero(draw.random(len(typed)) > TYPED_RIGHT):
            typed[field][n] = mistyped(bytes(typed[field][n]), draw)
    moved = draw.random(len(typed)) > TYPED_RIGHT
    typed["postcode"][moved] = draw.integers(48_100, 48_400, int(moved.sum()))
    exchanged = (draw.random(len(typed)) > TYPED_RIGHT) & (typed["born"]["day"] <= 12)
    born = typed["born"]
    days, months = born["day"][exchanged], born["month"][exchanged]
    born["day"][exchanged], born["month"][exchanged] = months, days
    return typed


def weights_of(values: np.ndarray) -> tuple[float, float]:
    """What it is worth that two records agree on an attribute, and that they do not."""
    _, counts = np.unique(values, return_counts=True)
    by_chance = float(np.sum((counts / len(values)) ** 2))
    agree = math.log2(TYPED_RIGHT / by_chance)
    return agree, math.log2((1 - TYPED_RIGHT) / (1 - by_chance))


def weight_function(register: np.ndarray) -> Callable[..., tuple[object, object, int]]:
    """What says how well two records fit, with weights from the values in the register."""
    names = {name: weights_of(register[name]) for name in ("first", "last", "postcode")}
    dates = {name: weights_of(register["born"][name]) for name in ("year", "month", "day")}

    def weight(new, known, *, p):  # type: ignore[no-untyped-def]
        if new["insurance"] != 0 and new["insurance"] == known["insurance"]:
            return CERTAIN, p, BY_INSURANCE
        total = np.float32(0)
        for name, (agree, differ) in names.items():
            total += agree if new[name] == known[name] else differ
        for name, (agree, differ) in dates.items():
            total += agree if new["born"][name] == known["born"][name] else differ
        return total, p, BY_WEIGHT

    return weight


@mdt.operator(identity=(-math.inf, NOBODY, 0), commutative=True)
def better(lhs, rhs):  # type: ignore[no-untyped-def]
    """The heavier match; of equal ones, that with the person who comes first."""
    if lhs["weight"] > rhs["weight"]:
        return lhs
    if lhs["weight"] == rhs["weight"] and lhs["person"] < rhs["person"]:
        return lhs
    return rhs


def found_again(new: np.ndarray, register: np.ndarray) -> np.ndarray:
    """The best match of every new record."""
    weight = weight_function(register)
    return mdt.reduce("n,p->n", new, register, f=weight, combine=better, dtype=MATCH)


def line(person: np.void) -> str:
    """A record in words."""
    year, month, day = person["born"]
    name = f"{person['first'].decode()} {person['last'].decode()}"
    return f"{name}, {year}-{month:02d}-{day:02d}, {person['postcode']}"


def main() -> None:
    draw = np.random.default_rng(1969)
    everybody = register_of(9000, draw)
    register = everybody[:8000]
    truth = draw.permutation(len(everybody))[:2000]
    new = typed_again(everybody[truth], draw)
    matches = found_again(new, register)

    # Among so many persons, a match has to outweigh that somebody fits by chance.
    accepted = matches["weight"] > math.log2(len(register))
    right = accepted & (matches["person"] == truth)
    print(f"{len(new)} new records, {len(register)} persons in the register")
    by_number = np.count_nonzero(matches["measure"] == BY_INSURANCE)
    print(f"{np.count_nonzero(accepted)} found again, {by_number} by their number; for example")
    interesting = np.flatnonzero(right & (matches["measure"] == BY_WEIGHT))
    for n in interesting[np.argsort(matches["weight"][interesting])][:3]:
        print(f"  {line(new[n])}\n    is {line(register[matches['person'][n]])}")
    if len(sys.argv) > 1:
        write(sys.argv[1], new, register, matches, accepted)
    known = np.count_nonzero(truth < len(register))
    print(f"precision {right.sum() / accepted.sum():.3f}, recall {right.sum() / known:.3f}")


def write(
    path: str, new: np.ndarray, register: np.ndarray, matches: np.ndarray, accepted: np.ndarray
) -> None:
    """The accepted matches as a table."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["weight", "measure", "new record", "person in the register"])
        for n in np.flatnonzero(accepted):
            weight, person, measure = matches[n]
            table.writerow([f"{weight:.1f}", measure, line(new[n]), line(register[person])])


if __name__ == "__main__":
    main()
