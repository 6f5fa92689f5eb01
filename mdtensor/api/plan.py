"""Plan: an einsum expression for arrays of fixed shapes and types, ready to be called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.api import dispatch, modes, pipeline, statistics
from mdtensor.api.einsum import Options, execute
from mdtensor.api.engine import Choice
from mdtensor.api.launch import Launch, launch_of
from mdtensor.api.operands import array_module, spec_of
from mdtensor.api.prepare import Prepared
from mdtensor.api.tune import TuningReport, seconds_of, tune_md_hom
from mdtensor.errors import ShapeError
from mdtensor.lower.cost import bytes_moved, flops
from mdtensor.lower.key import problem_key
from mdtensor.specs import TensorSpec, as_dtype
from mdtensor.translate.md_hom import MDHom

Array = Any
_may_share_memory = np.may_share_memory


def spec(shape: Sequence[int], dtype: object = "f4") -> TensorSpec:
    """The shape and type of an array that is not there yet, C-ordered.

    >>> spec((64, 128))
    float32[64, 128]
    """
    return TensorSpec.of(shape, dtype)


def compile(subscripts: str, *operands: Any, dtype: object = None) -> Plan:  # noqa: A001
    """A reusable plan for an einsum string on operands of these shapes, strides and types.

    `operands` are arrays or specs (see `spec`). Raises SubscriptError or DTypeError as `einsum`
    does.

    >>> plan = compile("ij,jk->ik", spec((64, 128)), spec((128, 32)))
    >>> plan
    Plan('ij,jk->ik', float32[64, 128], float32[128, 32])
    >>> plan(np.ones((64, 128), "f4"), np.ones((128, 32), "f4"))[0, 0]
    np.float32(128.0)
    """
    specs = tuple(op if isinstance(op, TensorSpec) else spec_of(_array(op)) for op in operands)
    wanted = None if dtype is None else as_dtype(dtype)
    return Plan(subscripts, specs, Options(dtype=wanted, order="C"))


def _array(operand: Any) -> Array:
    return operand if hasattr(operand, "strides") else np.asarray(operand)


class Plan:
    """A compiled expression; call it with arrays of its specs. Safe for use by many threads.

    `specs` are those of the operands, `result` that of the result.
    """

    def __init__(self, subscripts: str, specs: tuple[TensorSpec, ...], options: Options) -> None:
        self.subscripts = subscripts
        self.specs = specs
        self.prepared: Prepared = options.prepared(subscripts, specs, None)
        self.result = self.prepared.result
        self._layouts = tuple(f for s in specs for f in (s.shape, _byte_strides(s), s.dtype))
        out = self.result
        self._layouts_with_out = (*self._layouts, out.shape, _byte_strides(out), out.dtype)
        self._tally = statistics.tally(statistics.GENERATED, self.prepared.dtype)
        self._launch: Launch | None = None
        self._launch_into: Callable[..., None] | None = None

    def __call__(self, *operands: Array, out: Array | None = None) -> Array:
        """Computes the expression into `out`, or into a new array.

        Raises ShapeError where an operand or `out` has another shape, strides or type than the
        plan was made for, or where `out` shares memory with an operand. The arrays of the last
        call with `out` are remembered by weak references; NumPy refuses to `resize` them in place.
        """
        try:
            if out is not None and len(operands) == 2:
                a, b = operands
                # fmt: off
                given = (
                    a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype,
                    out.shape, out.strides, out.dtype,
                )
                # fmt: on
            else:
                arrays = operands if out is None else (*operands, out)
                given = tuple(f for x in arrays for f in (x.shape, x.strides, x.dtype))
        except AttributeError:
            raise ShapeError("a plan takes arrays", text=self.subscripts) from None
        if given != (self._layouts if out is None else self._layouts_with_out):
            self._compare(operands, out)
        if out is None:
            launch = self._launch
            return self._first(operands) if launch is None else launch(*operands)
        into = self._launch_into
        if into is None:
            return self._first_into(operands, out)
        into(*operands, out)
        self._tally.calls += 1
        return out

    def _first(self, operands: Sequence[Array]) -> Array:
        """A call for which the launch must be made first, or that the tuning mode watches."""
        xp = array_module(operands)
        if modes.is_watching() or not self.prepared.steps:
            return execute(self.prepared, operands, None, xp)
        self._launch = launch_of(self.prepared, pipeline.kind_of(operands[0]), xp)
        dispatch.when_cleared(self)
        return self._launch(*operands)

    def _first_into(self, operands: Sequence[Array], out: Array) -> Array:
        """The same into an array of the caller's."""
        xp = array_module(operands)
        self._check_out(*operands, out)
        if modes.is_watching() or not self.prepared.is_single:
            return execute(self.prepared, operands, out, xp)
        arrays = pipeline.kind_of(operands[0])
        program = pipeline.choice_for(self.prepared.steps[0].md_hom, arrays).program
        self._launch_into = program.remembering_launcher(self._check_out)
        dispatch.when_cleared(self)
        self._launch_into(*operands, out)
        self._tally.calls += 1
        return out

    def _check_out(self, *arrays: Array) -> None:
        *operands, out = arrays
        if not out.flags.writeable:
            raise ShapeError("out is read-only", text=self.subscripts)
        for number, operand in enumerate(operands):
            if _may_share_memory(operand, out):
                raise ShapeError(
                    f"out shares memory with operand {number}",
                    text=self.subscripts,
                    hint="einsum(..., out=...) copies where that is needed",
                )

    def forget(self) -> None:
        """Drops the launches, so that the next call takes the best kernel known then."""
        self._launch = self._launch_into = None

    def _compare(self, operands: Sequence[Array], out: Array | None) -> None:
        """Says what differs from the plan; strides of arrays without elements mean nothing."""
        if len(operands) != len(self.specs):
            raise ShapeError(
                f"{len(operands)} operands for a plan of {len(self.specs)}", text=self.subscripts
            )
        if out is not None and spec_of(out) != self.result:
            raise ShapeError(
                f"out is {spec_of(out)!r} but the result is {self.result!r}", text=self.subscripts
            )
        pairs = list(zip(operands, self.specs, strict=True))
        same = all((op.shape, op.dtype) == (spec.shape, spec.dtype) for op, spec in pairs)
        if same and not self.prepared.steps:
            return
        raise ShapeError(
            "an operand is not what the plan was made for",
            text=self.subscripts,
            notes=[
                f"operand {n}: {spec_of(op)!r}, the plan has {spec!r}"
                for n, (op, spec) in enumerate(pairs)
            ],
            hint="mdtensor.compile(...) makes a plan for these; einsum takes any",
        )

    def choices(self) -> list[Choice]:
        """The kernel of every step, on the device of NumPy arrays."""
        return [pipeline.choice_for(step.md_hom) for step in self.prepared.steps]

    def tune(
        self, budget: float | str = 30.0, *, quiet: bool = False, again: bool = False
    ) -> list[TuningReport]:
        """Searches for better kernels within a budget in seconds; one report per step."""
        share = seconds_of(budget) / max(1, len(self.prepared.steps))
        return [
            tune_md_hom(step.md_hom, share, label=self.subscripts, quiet=quiet, again=again)
            for step in self.prepared.steps
        ]

    def explain(self) -> str:
        """What runs: per step the md_hom, the schedule and where it is from, cost and source."""
        return "\n\n".join(
            explained(step.md_hom, choice)
            for step, choice in zip(self.prepared.steps, self.choices(), strict=True)
        )

    def __repr__(self) -> str:
        specs = ", ".join(map(repr, self.specs))
        return f"Plan({self.subscripts!r}, {specs})"


def explained(md_hom: MDHom, choice: Choice) -> str:
    """One `md_hom` and the kernel that was chosen for it, for people."""
    problem, seconds = choice.problem, choice.seconds
    kind = "measured" if choice.origin == "tuned" else "estimated"
    work, moved = flops(problem), bytes_moved(problem)
    return "\n".join(
        (
            "md_hom",
            *_indented(md_hom.describe()),
            "problem",
            *_indented(problem_key(problem)),
            f"schedule (from the {'store: ' if choice.origin == 'tuned' else ''}{choice.origin})",
            *_indented(choice.schedule.describe(problem)),
            "cost",
            f"  {kind} {seconds * 1e6:.1f} µs: {work / seconds / 1e9:.1f} GFLOP/s",
            f"  {moved / seconds / 1e9:.1f} GB/s of the fewest bytes",
            "source",
            *_indented(choice.source.text),
        )
    )


def _indented(text: str) -> list[str]:
    return ["  " + line for line in text.splitlines()]


def _byte_strides(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(stride * spec.dtype.itemsize for stride in spec.strides)
