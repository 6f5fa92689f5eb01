"""Compilation of LLVM IR to object files, for the host or other processors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from mdtensor.errors import CompileError
from mdtensor.kernels.kernel_source import numbered

Recipe = tuple[int, tuple[str, ...]]  # the level of code generation, and passes

# Characters of the longest text whose registers are assigned well: 45 to 70 ms each 100,000.
_OPTIMISED_FULLY = 2_000_000
# Values leave the stack; then, where a kernel stays, comparisons and addresses become fewer, which
# takes a tenth of compiling: half of a histogram's time, a tenth of a linkage of records'.
_HASTY_PASSES = ("sroa", "simplify_cfg")
_PASSES = (*_HASTY_PASSES, "instruction_combine")
# Modules of a context, which keeps what they are made of until it ends, 0.3 kB of a small one.
_MOST_OF_CONTEXT = 256


def recipe(text: str, *, hasty: bool) -> Recipe:
    """The optimisation level and passes for a module.

    >>> recipe("define void @kernel() { ret void }", hasty=False)
    (2, ('sroa', 'simplify_cfg', 'instruction_combine'))
    """
    is_quick = hasty or len(text) >= _OPTIMISED_FULLY
    return (0, _HASTY_PASSES) if is_quick else (2, _PASSES)


class ObjectCompiler:
    """Emits object files for one processor; `llvm` is llvmlite's binding.

    The processor's `triple` must be of an architecture that the caller initialised in LLVM. Only
    one thread may use it at a time.
    """

    def __init__(self, llvm: Any, triple: str, processor: str, features: str) -> None:
        self.llvm = llvm
        self.triple, self.processor, self.features = triple, processor, features
        # LLVM loses a part of each that ends, 1.7 kB of a machine and 2.6 of passes.
        self._pipelines: dict[Recipe, tuple[Any, Callable[[Any], None]]] = {}
        self._context: Any = None
        self._numbers = count()

    def machine(self, level: int) -> Any:
        """LLVM's target machine at an optimisation level from 0 to 3."""
        target = self.llvm.Target.from_triple(self.triple)
        return target.create_target_machine(
            cpu=self.processor, features=self.features, opt=level, reloc="pic"
        )

    def _pipeline(self, by: Recipe) -> tuple[Any, Callable[[Any], None]]:
        """The target machine and the pass pipeline of a recipe; memoised.

        Its passes are those that kernels need: schedules have unrolled their loops and made their
        vectors. A pipeline as compilers of C have it takes much longer, and makes nothing faster;
        nor did the rotation of loops, or the numbering of values.
        """
        if by not in self._pipelines:
            level, names = by
            machine = self.machine(level)
            options = self.llvm.create_pipeline_tuning_options(speed_level=2)
            builder = self.llvm.create_pass_builder(machine, options)
            passes = self.llvm.create_new_module_pass_manager()
            for name in names:
                getattr(passes, f"add_{name}_pass")()
            self._pipelines[by] = machine, lambda module: passes.run(module, builder)
        return self._pipelines[by]

    def object_code(self, text: str, *, hasty: bool = False) -> bytes:
        """Compile a module to an object file; CompileError with numbered lines on failure."""
        machine, module = self._optimised(text, hasty=hasty)
        with module:  # which thus ends before its context
            return bytes(machine.emit_object(module))

    def assembly(self, text: str, *, hasty: bool = False) -> str:
        """Compile a module to assembly text; CompileError on failure."""
        machine, module = self._optimised(text, hasty=hasty)
        with module:
            return str(machine.emit_assembly(module))

    def _optimised(self, text: str, *, hasty: bool) -> tuple[Any, Any]:
        module = self._parsed(text)
        machine, run_passes = self._pipeline(recipe(text, hasty=hasty))
        run_passes(module)
        return machine, module

    def _parsed(self, text: str) -> Any:
        if next(self._numbers) % _MOST_OF_CONTEXT == 0:
            self._context = self.llvm.create_context()
        module = None
        try:
            module = self.llvm.parse_assembly(text, self._context)
            module.verify()
        except RuntimeError as error:
            if module is not None:
                module.close()
            said = str(error).splitlines()
            raise CompileError(
                f"LLVM refused a kernel: {said[0] if said else error}",
                notes=[*said[:30], *numbered(text).splitlines()],
            ) from None
        return module
