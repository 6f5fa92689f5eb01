"""One einsum timed on several engines: mdtensor untuned and tuned, NumPy, opt_einsum.

Each engine runs in a block of its own after a pause, since the threads of a BLAS spin for a while
after every call and would take a core from whatever is timed next; blocks of all engines
alternate, and the fastest of an engine's blocks counts, since others were disturbed.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mdtensor.api.arrays.operands import allocate
from mdtensor.api.frontends.einsum.strided_views import windows
from mdtensor.dataclass import dataclass
from mdtensor.originals import original
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.contraction import Contraction, resolve
from mdtensor.translate.einsum.subscripts import is_affine, parse

if TYPE_CHECKING:
    from rich.table import Table

    from mdtensor.api.cli.expression_arguments import Expression

Call = Callable[[], object]

# Columns: the two of mdtensor, then its peers.
UNTUNED, TUNED = "untuned", "tuned"
# The faster of numpy.einsum's two ways is the one that is shown.
OPTIMIZED = "numpy.einsum(optimize=True)"
PEERS = ("numpy.einsum", "numpy.matmul", "opt_einsum")

# Before an engine begins: threads of OpenBLAS look for work for up to 0.2 s behind a product, and
# would take the cores of whoever comes next.
PAUSE_S = 0.25
BLOCK_S = 0.01
_MOST_CALLS = 10_000
# Share of the cores that others may use before times are called rough.
BUSY = 0.5


@dataclass(frozen=True, slots=True)
class Comparison:
    """Seconds of one call by engine, without engines that cannot express it."""

    expression: Expression
    seconds: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """Time of the fastest peer over that of the tuned kernel: above 1 is faster.

        NaN where no peer can say the expression.
        """
        times = [self.seconds[peer] for peer in PEERS if peer in self.seconds]
        return min(times, default=math.nan) / self.tuned

    @property
    def tuned(self) -> float:
        """Seconds of a call with the store's winners."""
        return self.seconds[TUNED]


@dataclass(frozen=True, slots=True)
class Contender:
    """An engine to compare: its name, its call, and the tuning mode to call it in."""

    name: str
    call: Call
    mode: Callable[[], AbstractContextManager[object]] = nullcontext


def compare(expression: Expression, *, rounds: int = 5) -> Comparison:
    """Time one expression on all engines, on random operands of its specs.

    Raises SubscriptError (a ValueError) where the specs do not fit the string, or an extent is
    missing.
    """
    operands = random_operands(expression.specs)
    engines = engines_for(expression.subscripts, operands, expression.options)
    seconds = time_alternating(engines, rounds=rounds)
    if OPTIMIZED in seconds:
        seconds["numpy.einsum"] = min(seconds["numpy.einsum"], seconds.pop(OPTIMIZED))
    return Comparison(expression, seconds)


def random_operands(specs: Sequence[TensorSpec]) -> list[np.ndarray]:
    """Random arrays of given specs, with values between -4 and 4."""
    rng: Any = np.random.default_rng(0)
    operands = [allocate(spec, np) for spec in specs]
    for operand in operands:
        np.copyto(operand, rng.uniform(-4, 4, operand.shape), casting="unsafe")
    return operands


def engines_for(
    subscripts: str, operands: Sequence[np.ndarray], options: Mapping[str, Any] | None = None
) -> list[Contender]:
    """Every engine that computes an expression on these operands, with options of `einsum`.

    Peers take sums for indices as views of the operands, made before they are timed; none has
    other operations than sums of products.
    """
    import opt_einsum

    from mdtensor.api.frontends.einsum.einsum import einsum
    from mdtensor.api.tuning.tuning_context import tuning

    given = dict(options or {})
    extents: Mapping[str, int] | None = given.get("extents")
    call = partial(einsum, subscripts, *operands, **given)
    engines = [
        Contender(UNTUNED, call, partial(tuning, "off")),
        Contender(TUNED, call, partial(tuning, "cached")),
    ]
    if given.get("semiring") is not None:
        return engines
    if is_affine(subscripts) or extents:
        classic = windows(subscripts, operands, extents)
        if classic is None:
            return engines
        subscripts, operands = classic
    numpy_einsum = original("numpy.einsum")
    contract: Any = opt_einsum.contract
    engines += [
        Contender("numpy.einsum", partial(numpy_einsum, subscripts, *operands)),
        Contender(OPTIMIZED, partial(numpy_einsum, subscripts, *operands, optimize=True)),
        Contender("opt_einsum", partial(contract, subscripts, *operands)),
    ]
    product = matmul_call(subscripts, operands)
    return engines if product is None else [*engines, Contender("numpy.matmul", product)]


def matmul_call(subscripts: str, operands: Sequence[np.ndarray]) -> Call | None:
    """`numpy.matmul` on transposed views, if one call of it computes the expression; else None.

    >>> a, b = np.ones((2, 3)), np.ones((4, 3))
    >>> matmul_call("ij,kj->ki", (a, b))().shape
    (4, 2)
    >>> matmul_call("ij->i", (a,)) is None
    True
    """
    specs = [TensorSpec.of(operand.shape, operand.dtype) for operand in operands]
    contraction = resolve(parse(subscripts), specs)
    roles = _roles_in_matmul(contraction)
    if roles is None or _broadcasts(contraction, specs):
        return None
    batch, rows, columns, summed = roles
    left, right = contraction.inputs
    first = operands[0].transpose([left.index(n) for n in (*batch, *rows, *summed)])
    second = operands[1].transpose([right.index(n) for n in (*batch, *summed, *columns)])
    produced = (*batch, *rows, *columns)
    axes = [produced.index(name) for name in contraction.output]
    if axes == sorted(axes):
        return partial(np.matmul, first, second)
    return lambda: np.matmul(first, second).transpose(axes)


def _roles_in_matmul(
    contraction: Contraction,
) -> tuple[list[str], list[str], list[str], list[str]] | None:
    """The batch, row, column and summed dims of a `numpy.matmul`; None where it is none."""
    if len(contraction.inputs) != 2:
        return None
    left, right = contraction.inputs
    output = contraction.output
    if any(len(set(names)) != len(names) for names in (left, right)):
        return None
    batch = [n for n in output if n in left and n in right]
    rows = [n for n in left if n in output and n not in right]
    columns = [n for n in right if n in output and n not in left]
    summed = [n for n in left if n in right and n not in output]
    if len(batch) + len(rows) + len(summed) != len(left) or len(summed) != 1:
        return None
    if len(batch) + len(columns) + len(summed) != len(right):
        return None
    # Where there is no row or no column, an operand is a vector, which has no batch dims.
    fewest = 1 if batch else 0
    fits = all(fewest <= len(names) <= 1 for names in (rows, columns))
    return (batch, rows, columns, summed) if fits else None


def _broadcasts(contraction: Contraction, specs: Sequence[TensorSpec]) -> bool:
    return any(
        tuple(contraction.extents[name] for name in names) != spec.shape
        for names, spec in zip(contraction.inputs, specs, strict=True)
    )


def time_alternating(engines: Sequence[Contender], *, rounds: int) -> dict[str, float]:
    """Seconds of a call by engine: the least of the rounds, each a block of calls."""
    counts = {engine.name: _calls_in_block(engine) for engine in engines}
    blocks: dict[str, list[float]] = {engine.name: [] for engine in engines}
    for _ in range(rounds):
        for engine in engines:
            with engine.mode():
                engine.call()
                time.sleep(PAUSE_S)
                engine.call()
                blocks[engine.name].append(_time(engine.call, counts[engine.name]))
    return {name: min(times) for name, times in blocks.items()}


def _calls_in_block(engine: Contender) -> int:
    with engine.mode():
        engine.call()
        once = min(_time(engine.call, 3), _time(engine.call, 3))
    return max(1, min(_MOST_CALLS, int(BLOCK_S / max(once, 1e-9))))


def _time(call: Call, count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - began) / count


def load_note() -> str:
    """A warning that the machine is under load, which makes times unreliable; else "".

    An engine suffers most when its threads wait for each other, as those of a BLAS do.
    """
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):
        return ""
    cores = os.cpu_count() or 1
    if load < BUSY * cores:
        return ""
    return f"times are rough: the machine was busy at the start (load {load:.1f} on {cores} cores)"


def table_of(comparisons: Sequence[Comparison], title: str | None = None) -> Table:
    """One row per expression: seconds by engine, and the ratio to the fastest peer."""
    from rich.table import Table

    from mdtensor.autotune.progress import format_time

    # Eighty columns have room for all of it.
    layout: Any = {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0)}
    table = Table(title=title, title_justify="left", header_style="bold", **layout)
    table.add_column("expression", no_wrap=True)
    table.add_column("shapes", no_wrap=True)
    for name in (UNTUNED, TUNED, *PEERS, "ratio"):
        heading = name.replace(".", "\n").replace("_", "\n")
        table.add_column(heading, justify="right", no_wrap=True)
    for each in comparisons:
        times = [
            format_time(each.seconds[name]) if name in each.seconds else "-"
            for name in (UNTUNED, TUNED, *PEERS)
        ]
        style = "green" if each.ratio >= 1 else "yellow"
        ratio = "-" if math.isnan(each.ratio) else f"[{style}]{each.ratio:.2f}[/]"
        table.add_row(each.expression.subscripts, " ".join(each.expression.words), *times, ratio)
    return table
