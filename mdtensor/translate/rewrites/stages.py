"""An `md_hom` with several operators as a chain of `md_hom`s with one operator each.

Dims are combined from the last to the first (002, section 4.2.2, Definition 4), so the last ones
can be combined alone, and their results, an array on the dims before them, are the input of the
rest. Concatenation commutes with everything, wherever its dim stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Combine, Concat, Operator, Pointwise, PrefixSum
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.scalar_function import identity_function
from mdtensor.translate.views import Access, Buffer


@dataclass(frozen=True, slots=True)
class Stage:
    """One `md_hom` of a chain.

    `inputs` are the positions of its inputs among those of the whole; -1 - n is element n of the
    tuple that the stage before it computes. The last stage writes the outputs of the whole.
    """

    md_hom: MDHom
    inputs: tuple[int, ...]


def stages(md_hom: MDHom) -> tuple[Stage, ...]:
    """The chain: each stage combines dims by one operator, or takes one prefix sum.

    >>> from mdtensor.translate.combine import named
    >>> x = Buffer("x", TensorSpec.of((4, 3)))
    >>> y = Buffer("y", TensorSpec.of((4,)))
    >>> add = named("add", ["f4"])
    >>> sums = MDHom(
    ...     (Dim("i", 4, PrefixSum(add)), Dim("j", 3, Pointwise(add))),
    ...     identity_function([x.spec.dtype]),
    ...     (x,),
    ...     (y,),
    ...     (Access.at(0, "ij"),),
    ...     (Access.at(0, "i"),),
    ... )
    >>> for stage in stages(sums):
    ...     print(stage.md_hom)
    md_hom[i:4, j:3](id, (cc, pw(add)))
    md_hom[i:4](id, (ps(add)))
    """
    groups = _groups(md_hom.dims)
    if len(groups) <= 1:
        return (Stage(md_hom, tuple(range(len(md_hom.inputs)))),)
    chain: list[Stage] = []
    rest = Stage(md_hom, tuple(range(len(md_hom.inputs))))
    for group in groups[:-1]:
        first, rest = _cut(rest, group)
        chain.append(first)
    return (*chain, rest)


def finished_apart(md_hom: MDHom) -> tuple[Stage, Stage]:
    """The combination of an `md_hom` of one operator, and what is left to do on its results."""
    group = frozenset(dim.name for dim in md_hom.dims if not isinstance(dim.combine, Concat))
    return _cut(Stage(md_hom, tuple(range(len(md_hom.inputs)))), group)


def _groups(dims: Sequence[Dim]) -> list[frozenset[str]]:
    """Names of the dims that each stage combines, first stage first."""
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


def _cut(whole: Stage, group: frozenset[str]) -> tuple[Stage, Stage]:
    """The stage that combines the dims of a group, and what is left to do on its results."""
    md_hom = whole.md_hom
    kept = [d for d in md_hom.dims if d.name not in group or isinstance(d.combine, PrefixSum)]
    spec = [TensorSpec.of([d.extent for d in kept], t) for t in md_hom.scalar.result_dtypes]
    buffers = tuple(Buffer(f"t{n}", s) for n, s in enumerate(spec))
    names = [dim.name for dim in kept]
    places = tuple(Access.at(n, names) for n in range(len(buffers)))

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
    inputs = (*(-1 - n for n in range(own)), *(whole.inputs[n] for n in read))
    return Stage(first, whole.inputs), Stage(second, inputs)
