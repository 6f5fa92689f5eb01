"""Sizes of tuning spaces and the seconds that making them takes: `python -m bench.spaces`.

The spaces of chapter 5 of 002 that it lists in full (saxpy and the one in the manner of CLBlast's
XgemmDirect), and those of our own schedules for its case studies. Its tables 3 and 4 have 4 to
68 ms for 2e7 to 9e18 configurations, of implementations whose parameters it does not list.
"""

# Constraints are lambdas, whose arguments are the names of parameters.
# ruff: noqa: N803
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import time
from collections.abc import Iterable

import mdtensor as mdt
from mdtensor.api.engine import registry
from mdtensor.lower.schedule.parameter import SpaceParameter as ParameterOfSchedules
from mdtensor.lower.search.schedule_space import parameters_of
from mdtensor.tuner import Parameter, Space, divides

_RUNS = 3
# The case studies of 002, section 5.7.2, as plans: an expression and its shapes.
_STUDIES: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "GEMM 10x64x500": ("ij,jk->ik", [(10, 64), (64, 500)]),
    "CONV 4096x4096": ("h+r w+s, r s -> h w", [(4096, 4096), (5, 5)]),
    "CCSD(T)": ("gdab,efgc->abcdef", [(24, 16, 24, 16), (16, 16, 24, 16)]),
}


def saxpy(count: int) -> list[Parameter]:
    """The parameters of listing 24, for so many elements."""
    return [
        Parameter("WPT", range(1, count + 1), divides(count)),
        Parameter("LS", range(1, count + 1), divides(lambda WPT: count // WPT)),
    ]


def xgemm_direct(most: int) -> list[Parameter]:
    """The parameters of CLBlast's XgemmDirect, with all values up to `most`."""
    values = range(1, most + 1)
    threads = divides(lambda MDIMCD, NDIMCD: MDIMCD * NDIMCD)
    return [
        Parameter("WGD", values),
        Parameter("MDIMCD", values, divides("WGD")),
        Parameter("NDIMCD", values, divides("WGD")),
        Parameter(
            "MDIMAD",
            values,
            divides("WGD")
            & threads
            & (lambda WGD, MDIMCD, NDIMCD, MDIMAD: WGD % (MDIMCD * NDIMCD // MDIMAD) == 0),
        ),
        Parameter(
            "NDIMBD",
            values,
            divides("WGD")
            & threads
            & (lambda WGD, MDIMCD, NDIMCD, NDIMBD: WGD % (MDIMCD * NDIMCD // NDIMBD) == 0),
        ),
        Parameter("KWID", values, divides("WGD")),
        Parameter(
            "VWMD",
            (1, 2, 4, 8),
            divides(lambda WGD, MDIMCD: WGD // MDIMCD) & divides(lambda WGD, MDIMAD: WGD // MDIMAD),
        ),
        Parameter(
            "VWND",
            (1, 2, 4, 8),
            divides(lambda WGD, NDIMCD: WGD // NDIMCD) & divides(lambda WGD, NDIMBD: WGD // NDIMBD),
        ),
        Parameter("PADA", (0, 1)),
        Parameter("PADB", (0, 1)),
    ]


def measured(name: str, parameters: Iterable[ParameterOfSchedules]) -> str:
    """A line: the size of a space, and the least seconds of some runs that make it."""
    given, seconds = tuple(parameters), list[float]()
    sizes = set[int]()
    for _ in range(_RUNS):
        began = time.perf_counter()
        sizes.add(Space(given).size)
        seconds.append(time.perf_counter() - began)
    [size] = sizes
    return f"{name:32}{len(given):>4} parameters{size:>12.3g}{min(seconds) * 1e3:>9.1f} ms"


def main() -> None:
    """Prints a line for each space."""
    print(measured("saxpy, 2**20 elements", saxpy(1 << 20)))
    print(measured("saxpy, 2**24 elements", saxpy(1 << 24)))
    for most in (32, 64, 128, 256):
        print(measured(f"XgemmDirect, values 1..{most}", xgemm_direct(most)))
    engine = registry.engine_for()
    for name, (text, shapes) in _STUDIES.items():
        plan = mdt.compile(text, *(mdt.spec(shape, "f4") for shape in shapes))
        problem = engine.problem_of(plan.md_homs[0])
        parameters = parameters_of(problem, engine.target)
        print(measured(f"our schedules of {name}", parameters))


if __name__ == "__main__":
    main()
