"""Common subexpression elimination across a chain of `md_hom`s.

A term that several take becomes an `md_hom` of its own, which concatenates along all dims, and
whose results the others read. A softmax needs its powers twice: for the sum and the quotients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mdtensor.dataclass import dataclass
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC
from mdtensor.translate.graphs import in_order
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.md_hom_program import Step
from mdtensor.translate.operations import LONG_FUNCTIONS
from mdtensor.translate.scalar import Expr, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import dims_in, params_in, substitute
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec


@dataclass(frozen=True, slots=True)
class SharedTerm:
    """A subexpression in canonical form: parameters and dims numbered by first use.

    Parameter n is the element of a slot that access n reads.
    """

    function: Expr
    slots: tuple[int, ...]
    view: tuple[BufferAccess, ...]
    extents: tuple[int, ...]


def with_shared_terms(chain: Sequence[Step]) -> tuple[Step, ...]:
    """Compute each expensive term that several `md_hom`s take by a step of its own.

    New slots follow those of the chain.
    """
    links = tuple(chain)
    while True:
        found = Counter(term for link in links for term in {term for term, _ in _terms(link)})
        shared = [term for term, count in found.items() if count > 1]
        if not shared:
            return links
        links = _shared(links, max(shared, key=lambda term: term.function.size))


def _terms(link: Step) -> Iterator[tuple[SharedTerm, Expr]]:
    """The expensive terms of a step, each with its expression there."""
    md_hom = link.md_hom
    if not all(access.is_affine for access in md_hom.inp_view):
        return
    for node in in_order(md_hom.scalar.results):
        if node.op in LONG_FUNCTIONS and not dims_in(node):
            term = _term(link, node)
            if term.extents:
                yield term, node


def _term(link: Step, node: Expr) -> SharedTerm:
    md_hom = link.md_hom
    taken = params_in(node)
    accesses = [md_hom.inp_view[n] for n in taken]
    names = {name: f"d{n}" for n, name in enumerate(_dims(accesses))}
    types = [md_hom.scalar.params[n] for n in taken]
    given = {old: param(new, types[new]) for new, old in enumerate(taken)}
    return SharedTerm(
        substitute(node, given),
        tuple(link.operands[access.buffer] for access in accesses),
        tuple(replace(a.renamed(names), buffer=n) for n, a in enumerate(accesses)),
        tuple(md_hom.extents[name] for name in names),
    )


def _dims(accesses: Sequence[BufferAccess]) -> tuple[str, ...]:
    """Names of the accesses' dims, in order of first use."""
    return tuple(dict.fromkeys(name for access in accesses for name in access.dims))


def _shared(links: Sequence[Step], term: SharedTerm) -> tuple[Step, ...]:
    """The chain with a term computed before the first step that takes it."""
    slot = 1 + max(slot for link in links for slot in (*link.operands, *link.results))
    spec = TensorSpec.of(term.extents, term.function.dtype)
    made: list[Step] = []
    is_made = False
    for link in links:
        found = next((node for other, node in _terms(link) if other == term), None)
        if found is None:
            made.append(link)
            continue
        if not is_made:
            made.append(_computed(link, found, term, slot, spec))
        is_made = True
        made.append(_reading(link, found, slot, spec))
    return tuple(made)


def _computed(link: Step, node: Expr, term: SharedTerm, slot: int, spec: TensorSpec) -> Step:
    """The step that computes a term, on the buffers of a step that takes it."""
    read = [link.md_hom.inputs[link.md_hom.inp_view[n].buffer] for n in params_in(node)]
    names = [f"d{n}" for n in range(len(term.extents))]
    md_hom = MDHom(
        tuple(Dim(name, n, CC) for name, n in zip(names, term.extents, strict=True)),
        ScalarFunction(tuple(buffer.spec.dtype for buffer in read), (term.function,)),
        tuple(replace(buffer, name=f"x{n}") for n, buffer in enumerate(read)),
        (BufferSpec("term", spec),),
        term.view,
        (BufferAccess.at(0, names),),
    )
    return Step(md_hom, term.slots, (slot,))


def _reading(link: Step, node: Expr, slot: int, spec: TensorSpec) -> Step:
    """The step rewritten to read a term's results; unused accesses are dropped."""
    md_hom = link.md_hom
    accesses = [md_hom.inp_view[n] for n in params_in(node)]
    result = param(len(md_hom.inp_view), spec.dtype)
    function = md_hom.scalar.rewritten(lambda other: result if other == node else other)
    taken = sorted({n for expr in function.results for n in params_in(expr)})
    own = BufferAccess(len(md_hom.inputs), tuple(map(AffineIndex.of, _dims(accesses))))
    view, types = (*md_hom.inp_view, own), (*function.params, spec.dtype)
    given = {old: param(new, types[old]) for new, old in enumerate(taken)}
    return Step(
        replace(
            md_hom,
            scalar=replace(
                function,
                params=tuple(types[n] for n in taken),
                results=tuple(substitute(expr, given) for expr in function.results),
            ),
            inputs=(*md_hom.inputs, BufferSpec("term", spec)),
            inp_view=tuple(view[n] for n in taken),
        ),
        (*link.operands, slot),
        link.results,
    )
