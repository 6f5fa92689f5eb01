"""A process that hosts engines and times what it is asked for: `python -m bench.worker ENGINE…`.

Every library has threads that keep a core busy for a while after a call, so each lives in a
process of its own. Requests and replies are lines of JSON on the standard streams.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import traceback
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from bench import first_calls, host
from bench.engines import ENGINES, OURS, UNTUNED, Library, Tuned, versions
from bench.families import named
from bench.limits import LIMITS, Limits
from bench.timing import batch
from bench.workload import CALL, Arrays, Call, Workload, poison
from bench.workloads import WORKLOADS, Contraction

Reply = dict[str, Any]


class Host:
    """The engines of this process, and the case that they were last asked to prepare."""

    def __init__(self, names: list[str]) -> None:
        self.engines: dict[str, Library] = {name: ENGINES[name]() for name in names}
        self.workload: Workload = WORKLOADS[0]
        self.operands: list[np.ndarray] = []
        self.outs: Arrays = ()
        self.references: Arrays = ()
        self.calls: dict[str, dict[str, Call]] = {}

    @cached_property
    def limits(self) -> Limits:
        """The limits of the device, opened when first asked for."""
        return Limits()

    def describe(self) -> Reply:
        """Versions of the engines' packages."""
        found: dict[str, str] = {}
        for engine in self.engines.values():
            found.update(versions(engine))
        return {"versions": found}

    def device(self) -> Reply:
        """The device and the environment of mdtensor."""
        from mdtensor.api.engine import registry

        engine = registry.engine_for()
        return {
            "name": engine.target.name,
            "cores": engine.target.cores,
            "driver": engine.target.driver,
            "vector_bytes": engine.target.vector_bytes,
        }

    def tune(self, case: str, budget: float) -> Reply:
        """Tunes a case unless the store knows a winner."""
        import mdtensor

        workload = named(case)
        if isinstance(workload, Contraction):
            plan = mdtensor.compile(workload.subscripts, *workload.inputs)
            reports = plan.tune(budget=budget, quiet=True)
        else:
            call = Tuned().calls(workload, workload.operands(), workload.empty_outputs())[CALL]
            with mdtensor.tuning("record") as seen:
                call()
            reports = mdtensor.tune(seen, budget=budget, quiet=True)
        return {
            "trials": sum(report.trials for report in reports),
            "seconds": sum(report.elapsed for report in reports),
            "cached": all(report.cached for report in reports),
        }

    def load(self, case: str, references: list[str]) -> Reply:
        """Makes the operands of a case; each engine is prepared after that."""
        self.drop()
        self.workload = named(case)
        self.operands = self.workload.operands()
        self.outs = self.workload.empty_outputs()
        self.references = tuple(np.load(path, mmap_mode="r") for path in references)
        return {}

    def prepare(self, engine: str, prefix: str = "") -> Reply:
        """Makes the calls of an engine and checks what each computes; wrong ones are left out.

        With a prefix of their names, they are further calls, which make their results.
        """
        if engine == LIMITS:
            self.calls[engine] = dict(self.limits.calls(self.workload, self.operands, self.outs))
            return {"errors": dict.fromkeys(self.calls[engine], 0.0), "refused": {}}
        errors: dict[str, float] = {}
        refused: dict[str, str] = {}
        outs = self.workload.no_outputs() if prefix else self.outs
        made = self.engines[engine].calls(self.workload, self.operands, outs)
        calls = {prefix + name: call for name, call in made.items()}
        for name in list(calls):
            try:
                errors[name] = self._checked(calls[name])
            except Exception as error:  # a peer's words about what it cannot do
                refused[name] = f"{type(error).__name__}: {error}"[:300]
            else:
                if errors[name] <= self.workload.tolerance:
                    continue
                refused[name] = f"error {errors.pop(name):.2e} > {self.workload.tolerance:.2e}"
            del calls[name]
        self.calls.setdefault(engine, {}).update(calls)
        if engine == UNTUNED:
            self._settle(calls)
        return {"errors": errors, "refused": refused}

    def settle(self, engine: str, call: str, seconds: float) -> Reply:
        """Makes a call so often that its shape gets a kernel of its own, and waits for that."""
        from mdtensor.api.engine import registry

        for _ in range(2):
            batch(self.calls[engine][call], seconds)
            registry.engine_for().settle()
        return {}

    def _settle(self, calls: dict[str, Call]) -> None:
        """Waits for the better general kernels that first calls had compiled in the background."""
        from mdtensor.api.engine import registry

        for _ in range(3):
            registry.engine_for().settle()
            for call in calls.values():
                call()

    def _checked(self, call: Call) -> float:
        worst = 0.0
        # The second call takes the path of all later ones.
        for _ in range(2):
            for out in self.outs:
                poison(out)
            worst = max(worst, self.workload.error(call(), self.references))
        return worst

    def time(self, engine: str, call: str, seconds: float) -> Reply:
        """The median and the least of a batch."""
        samples = batch(self.calls[engine][call], seconds)
        median = statistics.median(samples)
        return {"median": median, "least": min(samples), "samples": len(samples)}

    def fma_flops(self) -> Reply:
        """Operations of the limits' call "fma" for the current case."""
        return {"flops": self.limits.flops(self.workload)}

    def profile(self) -> Reply:
        """Where the time of a small case's calls goes."""
        assert isinstance(self.workload, Contraction)
        return host.profile(self.workload, self.operands, self.calls[OURS])

    def first_calls(self) -> Reply:
        """First calls on new shapes of a known structure."""
        return first_calls.first_calls()

    def drop(self) -> Reply:
        """Lets go of the arrays."""
        self.calls, self.operands = {}, []
        self.outs = self.references = ()
        return {}


def main() -> None:
    """Serves requests until the standard input ends."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no reply
    served = Host(sys.argv[1:])
    for line in sys.stdin:
        request = json.loads(line)
        function: Callable[..., Reply] = getattr(served, request.pop("do"))
        try:
            reply = function(**request)
        except Exception:
            reply = {"failure": traceback.format_exc(limit=-4)}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
