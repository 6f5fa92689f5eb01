"""Batched programs: every `md_hom` has a batch dim, the outermost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import Concat
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.md_hom_program import Program, Step
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec


def batched(program: Program, specs: Sequence[TensorSpec], are_batched: Sequence[bool]) -> Program:
    """Add a leading batch axis to the operands flagged in `are_batched`, and to all results.

    `specs` are those of the operands with that axis; the results all have it.

    Raises TranslationError where operands are brought to another type first.
    """
    if program.converted:
        raise TranslationError(
            "operands of several types have no batches", hint="bring them to one type first"
        )
    (extent,) = {spec.shape[0] for spec, has in zip(specs, are_batched, strict=True) if has}
    between = tuple(_with_axis(spec, extent) for spec in program.specs)
    slots = (*specs, *between)
    flags = (*are_batched, *(True for _ in between))
    results = len(program.results)
    return replace(
        program,
        results=between[:results],
        temporaries=between[results:],
        steps=tuple(_batched_step(step, slots, flags, extent) for step in program.steps),
        alternatives=None,
    )


def _with_axis(spec: TensorSpec, extent: int) -> TensorSpec:
    return TensorSpec.of((extent, *spec.shape), spec.dtype)


def _batched_step(
    step: Step, slots: Sequence[TensorSpec], flags: Sequence[bool], extent: int
) -> Step:
    md_hom = step.md_hom
    name = _free_name(md_hom)
    reads = [flags[slot] for slot in step.operands]

    def access(given: BufferAccess, several: Sequence[bool]) -> BufferAccess:
        if not several[given.buffer]:
            return given
        return BufferAccess(given.buffer, (AffineIndex.of(name), *given.index))

    def buffers(given: Sequence[BufferSpec], numbers: Sequence[int]) -> tuple[BufferSpec, ...]:
        return tuple(
            BufferSpec(buffer.name, slots[slot])
            for buffer, slot in zip(given, numbers, strict=True)
        )

    writes = [True for _ in step.results]
    epilogue = md_hom.epilogue
    if epilogue is not None:
        view = tuple(access(each, reads) for each in epilogue.view)
        epilogue = Epilogue(epilogue.function, view)
    made = MDHom(
        (Dim(name, extent, Concat()), *md_hom.dims),
        md_hom.scalar,
        buffers(md_hom.inputs, step.operands),
        buffers(md_hom.outputs, step.results),
        tuple(access(each, reads) for each in md_hom.inp_view),
        tuple(access(each, writes) for each in md_hom.out_view),
        epilogue,
    )
    return Step(made, step.operands, step.results)


def _free_name(md_hom: MDHom) -> str:
    names = {dim.name for dim in md_hom.dims}
    return next(name for n in range(len(names) + 1) if (name := f"batch{n}") not in names)
