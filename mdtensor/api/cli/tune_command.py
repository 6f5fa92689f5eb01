"""`mdtensor tune`: expressions that people type, tuned like those that a program calls."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from mdtensor.api.cli.expression_arguments import Expression
from mdtensor.api.engine import registry
from mdtensor.api.engine.tuning_mode import RecordedCall
from mdtensor.api.plans.compile import compile  # noqa: A004
from mdtensor.api.tuning.tune import tune
from mdtensor.autotune.deadline import Deadline
from mdtensor.backends.select import found_devices
from mdtensor.errors import NoDeviceError
from mdtensor.translate.md_hom import MDHom


def tune_expressions(
    expressions: Sequence[Expression], budget_s: float, *, quiet: bool, device: str | None = None
) -> None:
    """Tune all `md_hom`s of the expressions within one budget, and print the reports.

    All of them are resolved before the first is tuned, in the budget's time.

    `device` is a part of a device's name: NumPy arrays are computed there, or CuPy arrays.
    """
    deadline = Deadline(budget_s)
    arrays = "numpy" if device is None else chosen(device)
    typer.echo(tune(recorded(expressions, arrays), deadline.left, quiet=quiet))


def chosen(name: str) -> str:
    """Chooses the first device that matches a name; returns the kind of arrays that it takes.

    Raises NoDeviceError where no device has such a name.
    """
    listed = found_devices()
    fitting = [found for found in listed if found.is_called(name)]
    if not fitting:
        raise NoDeviceError(
            f"no device is called {name!r}", notes=[f"available: {each.name}" for each in listed]
        )
    if fitting[0].arrays == "numpy":
        registry.use_device(fitting[0].name)
    else:
        registry.use_cuda_device(fitting[0].name)
    return fitting[0].arrays


def recorded(expressions: Sequence[Expression], arrays: str = "numpy") -> list[RecordedCall]:
    """Every `md_hom` that `einsum` and plans would run for these expressions, each once.

    Both are wanted: like NumPy's, the result of `einsum` may have its axes in memory in another
    order than a plan's.
    """
    labels: dict[MDHom, str] = {}
    for expression in expressions:
        for order in ("K", "C"):
            options = {**expression.options, "order": order}
            plan = compile(expression.subscripts, *expression.specs, **options)
            for md_hom in plan.md_homs:
                labels.setdefault(md_hom, str(expression))
    return [RecordedCall(md_hom, label, arrays) for md_hom, label in labels.items()]
