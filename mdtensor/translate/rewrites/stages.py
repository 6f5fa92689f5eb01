"""Splitting of an `md_hom` with several operators into steps with one each.

Dims are combined from the last to the first (002, section 4.2.2, Definition 4), so the last ones
can be combined alone, and their results, an array on the dims before them, are the input of the
rest. Concatenation commutes with everything, wherever its dim stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Combine, Concat, Operator, Pointwise, PrefixSum
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.md_hom_program import Program, Step
from mdtensor.translate.program_builder import ProgramBuilder
from mdtensor.translate.scalar_function import identity_function
from mdtensor.translate.views import BufferAccess, BufferSpec


def stages(md_hom: MDHom) -> Program:
    """The program whose steps reduce dims by one operator each, or take one prefix sum.

    >>> from mdtensor.translate.combine import named
    >>> x = BufferSpec("x", TensorSpec.of((4, 3)))
    >>> y = BufferSpec("y", TensorSpec.of((4,)))
    >>> add = named("add", ["f4"])
    >>> sums = MDHom(
    ...     (Dim("i", 4, PrefixSum(add)), Dim("j", 3, Pointwise(add))),
    ...     identity_function([x.spec.dtype]),
    ...     (x,),
    ...     (y,),
    ...     (BufferAccess.at(0, "ij"),),
    ...     (BufferAccess.at(0, "i"),),
    ... )
    >>> for step in stages(sums).steps:
    ...     print(step.operands, step.results, step.md_hom)
    (0,) (2,) md_hom[i:4, j:3](id, (cc, pw(add)))
    (2,) (1,) md_hom[i:4](id, (ps(add)))
    """
    groups = _groups(md_hom.dims)
    if len(groups) <= 1:
        return Program.of(md_hom)
    builder = ProgramBuilder([buffer.spec for buffer in md_hom.inputs])
    slots = tuple(range(builder.operands))
    for group in groups[:-1]:
        first, md_hom, read = _cut(md_hom, group)
        slots = (*builder.add(first, slots), *[slots[n] for n in read])
    return builder.program(builder.add(md_hom, slots))


def staged(program: Program) -> Program:
    """Split all steps of a program by `stages`."""
    if all(len(_groups(step.md_hom.dims)) <= 1 for step in program.steps):
        return program
    temporaries, last = list(program.temporaries), program.result_slots.stop
    steps: list[Step] = []
    for step in program.steps:
        chain, first = stages(step.md_hom), last + len(temporaries)
        temporaries += chain.temporaries
        slots = (*step.operands, *step.results, *range(first, last + len(temporaries)))
        steps += [each.on(slots) for each in chain.steps]
    return replace(program, temporaries=tuple(temporaries), steps=tuple(steps))


def finished_apart(md_hom: MDHom) -> tuple[MDHom, MDHom, tuple[int, ...]]:
    """Split an `md_hom` of one operator into its reduction and the epilogue of the results.

    The numbers are those of the inputs that the epilogue reads.
    """
    return _cut(
        md_hom, frozenset(dim.name for dim in md_hom.dims if not isinstance(dim.combine, Concat))
    )


def _groups(dims: Sequence[Dim]) -> list[frozenset[str]]:
    """The dims combined by each stage, in the order of execution."""
    groups: list[frozenset[str]] = []
    last: Operator | None = None
    for dim in reversed(dims):
        if isinstance(dim.combine, Concat):
            continue
        if isinstance(dim.combine, Pointwise) and groups and dim.combine.op == last:
            groups[-1] |= {dim.name}
            continue
        groups.append(frozenset({dim.name}))
        last = dim.combine.op if isinstance(dim.combine, Pointwise) else None
    return groups


def _cut(md_hom: MDHom, group: frozenset[str]) -> tuple[MDHom, MDHom, tuple[int, ...]]:
    """The step that combines a group of dims, the rest, and numbers of the rest's inputs."""
    kept = [d for d in md_hom.dims if d.name not in group or isinstance(d.combine, PrefixSum)]
    spec = [TensorSpec.of([d.extent for d in kept], t) for t in md_hom.scalar.result_dtypes]
    buffers = tuple(BufferSpec(f"t{n}", s) for n, s in enumerate(spec))
    names = [dim.name for dim in kept]
    places = tuple(BufferAccess.at(n, names) for n in range(len(buffers)))

    def combine(dim: Dim, here: bool) -> Combine:
        return dim.combine if (dim.name in group) == here else CC

    first = MDHom(
        tuple(replace(d, combine=combine(d, here=True)) for d in md_hom.dims),
        md_hom.scalar,
        md_hom.inputs,
        buffers,
        md_hom.inp_view,
        places,
    )
    types = md_hom.scalar.result_dtypes
    epilogue = md_hom.epilogue
    own = len(buffers)
    read = () if epilogue is None else tuple(dict.fromkeys(a.buffer for a in epilogue.view))
    if epilogue is not None:
        moved = tuple(replace(a, buffer=own + read.index(a.buffer)) for a in epilogue.view)
        epilogue = replace(epilogue, view=moved)
    second = MDHom(
        tuple(replace(d, combine=combine(d, here=False)) for d in kept),
        identity_function(types),
        (*buffers, *(md_hom.inputs[n] for n in read)),
        md_hom.outputs,
        places,
        md_hom.out_view,
        epilogue,
    )
    return first, second, read
