"""einsum over semirings other than sums of products: shortest paths, likelihoods, relations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from mdtensor.api.frontends.einsum.contraction_path import Optimize, Path, contraction_path
from mdtensor.api.frontends.einsum.einsum_planner import broadcast_extents
from mdtensor.dataclass import dataclass
from mdtensor.errors import TranslationError, shown
from mdtensor.options import is_one_of
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.affine_index import AffineSum
from mdtensor.translate.einsum.contraction import Contraction, resolve
from mdtensor.translate.einsum.index_space import IndexSpace
from mdtensor.translate.einsum.subscripts import parse
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.program_builder import ProgramBuilder
from mdtensor.translate.reductions.combinations_of_dims import Said
from mdtensor.translate.reductions.md_hom_from_reduction import (
    Reduction,
    md_hom_from_reduced_space,
    md_hom_from_reduction,
)
from mdtensor.translate.scalar import apply


@dataclass(frozen=True, slots=True)
class Semiring:
    """A product of elements and an operator in place of the sum.

    `distributes` says that the operator can be applied to some operands before the others come in,
    whatever the elements. A maximum of products is none, since negative factors turn the order
    around.
    """

    f: Callable[..., Any] | None
    combine: Said
    distributes: bool = True


def total(*elements: Any) -> Any:
    """The sum of elements."""
    return reduce(lambda lhs, rhs: lhs + rhs, elements)


def all_true(*elements: Any) -> Any:
    """Whether all elements are nonzero."""
    return reduce(lambda lhs, rhs: lhs & rhs, (apply("ne", element, 0) for element in elements))


SEMIRINGS: Mapping[str, Semiring] = {
    "min_plus": Semiring(total, "lesser"),
    "max_plus": Semiring(total, "greater"),
    "max_times": Semiring(None, "greater", distributes=False),
    "logsumexp": Semiring(total, "logaddexp"),
    "bool": Semiring(all_true, "or"),
}


def semiring_of(name: str | None, f: Callable[..., Any] | None, combine: Said | None) -> Semiring:
    """The semiring of a name, or one of a given function and operator.

    Raises TranslationError for an unknown name, and for a name besides functions.

    >>> semiring_of("max_times", None, None).combine
    'greater'
    """
    if name is None:
        return Semiring(f, "add" if combine is None else combine, distributes=False)
    if f is not None or combine is not None:
        raise TranslationError("semiring is given, and f or combine too", hint="leave one out")
    if not is_one_of(name, SEMIRINGS):
        raise TranslationError(
            f"unknown semiring {shown(name)}",
            hint=f"one of {', '.join(SEMIRINGS)}, or f=… and combine=…",
        )
    return SEMIRINGS[name]


def in_stages(reduction: Reduction, specs: Sequence[TensorSpec], optimize: Optimize) -> Program:
    """A reduction in pairwise stages along a path, where the operator distributes.

    It is one `md_hom` where a path saves nothing, or where operands of different types or empty
    dims would make intermediates differ from what they are as parts of the whole.

    >>> reduction = Reduction("ij,jk,kl->il", total, "min")
    >>> for step in in_stages(reduction, [TensorSpec.of((90, 90))] * 3, False).steps:
    ...     print(step.operands, step.results, step.md_hom)
    (0, 1) (4,) md_hom[i:90, j:90, k:90](total, (cc, pw(min), cc))
    (2, 4) (3,) md_hom[k:90, l:90, i:90](total, (pw(min), cc, cc))
    """
    whole = md_hom_from_reduction(reduction, specs)
    contraction = resolve(parse(reduction.text), specs)
    path = contraction_path(contraction, [spec.shape for spec in specs], optimize)
    if len(path) == 1 or len({spec.dtype for spec in specs}) > 1 or not whole.points:
        return Program.of(whole)
    return _staged(reduction, whole, contraction, specs, path)


def _staged(
    reduction: Reduction,
    whole: MDHom,
    contraction: Contraction,
    specs: Sequence[TensorSpec],
    path: Path,
) -> Program:
    """The steps of a path, with intermediates in the type of the reduction as a whole."""
    (held,) = whole.scalar.result_dtypes
    (result,) = (buffer.spec for buffer in whole.outputs)
    builder = ProgramBuilder(specs)
    terms = list(zip(contraction.inputs, specs, range(len(specs)), strict=True))
    for positions in path:
        chosen = [terms[position] for position in positions]
        terms = [term for n, term in enumerate(terms) if n not in positions]
        is_last = not terms
        needed = {name for names, _, _ in terms for name in names}.union(contraction.output)
        space = _space(chosen, contraction.output if is_last else None, needed)
        dtype = result.dtype if is_last else held
        stage = replace(reduction, dtype=dtype, acc_dtype=held)
        if not is_last:
            stage = replace(stage, order="C")
        md_hom = md_hom_from_reduced_space(stage, space, [spec for _, spec, _ in chosen])
        (slot,) = builder.add(md_hom, [number for _, _, number in chosen])
        terms.append((space.output, builder.specs[slot], slot))
    return builder.program([slot for _, _, slot in terms])


def _space(
    terms: Sequence[tuple[tuple[str, ...], TensorSpec, int]],
    output: tuple[str, ...] | None,
    needed: set[str],
) -> IndexSpace:
    """The index space of a stage; without an output, the dims that later stages need are kept."""
    extents = broadcast_extents([names for names, _, _ in terms], [spec for _, spec, _ in terms])
    inputs = tuple(
        tuple(
            AffineSum(((name, 1),)) if extent == extents[name] else AffineSum()
            for name, extent in zip(names, spec.shape, strict=True)
        )
        for names, spec, _ in terms
    )
    if output is None:
        output = tuple(name for name in extents if name in needed)
    return IndexSpace(inputs, output, extents, (), tuple(range(len(terms))))
