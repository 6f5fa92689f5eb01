"""Terms that several `md_hom`s of a chain take become one of their own, which changes no result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Pointwise, named
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.md_hom_program import Step
from mdtensor.translate.reference import run
from mdtensor.translate.rewrites.shared_terms import with_shared_terms
from mdtensor.translate.scalar import Expr, param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.views import BufferAccess, BufferSpec

ROWS, COLUMNS = 5, 7
X = np.random.default_rng(2).standard_normal((ROWS, COLUMNS), dtype=np.float32)
F4 = X.dtype


def md_hom(
    function: Expr, reads: Sequence[str], writes: str, names: str, reduce: str = ""
) -> MDHom:
    """An `md_hom` over rows and columns, named so; each array is read at the named dims."""
    extents = dict(zip(names, (ROWS, COLUMNS), strict=True))
    add = named(reduce, ["f4"]) if reduce else None
    dims = tuple(
        Dim(d, n, Pointwise(add) if add is not None and d not in writes else CC)
        for d, n in extents.items()
    )

    def buffer(label: str, at: str) -> BufferSpec:
        return BufferSpec(label, TensorSpec.of([extents[d] for d in at]))

    return MDHom(
        dims,
        ScalarFunction((F4,) * len(reads), (function,)),
        tuple(buffer(f"x{n}", at) for n, at in enumerate(reads)),
        (buffer("y", writes),),
        tuple(BufferAccess.at(n, at) for n, at in enumerate(reads)),
        (BufferAccess.at(0, writes),),
    )


def power(element: int, largest: int) -> Expr:
    return np.exp(param(element, F4) - param(largest, F4))


def softmax(names: str = "pq") -> tuple[Step, ...]:
    """Slot 0 is softened to slot 1; dims and parameters of the last step have another order."""
    p, both = names[0], names
    quotient = power(2, 0) / param(1, F4)
    return (
        Step(md_hom(param(0, F4), ["ij"], "i", "ij", "max"), (0,), (2,)),
        Step(md_hom(power(0, 1), ["ij", "i"], "i", "ij", "add"), (0, 2), (3,)),
        Step(md_hom(quotient, [p, p, both], both, names), (2, 3, 0), (1,)),
    )


def results(chain: Sequence[Step]) -> np.ndarray:
    slots = {0: X}
    for link in chain:
        found = run(link.md_hom, [slots[slot] for slot in link.operands], cast=True)
        slots |= dict(zip(link.results, map(np.asarray, found), strict=True))
    return slots[1]


def test_powers_are_computed_once_whatever_their_dims_are_called() -> None:
    chain = with_shared_terms(softmax())
    assert [(link.operands, link.results) for link in chain][1] == ((0, 2), (4,))
    functions = [link.md_hom.scalar.results[0] for link in chain]
    assert [str(function).count("exp") for function in functions] == [0, 1, 0, 0]
    assert 4 in chain[2].operands
    assert 4 in chain[3].operands


def test_results_stay_what_they_are() -> None:
    powers = np.exp(X.astype("f8") - X.max(-1, keepdims=True))
    expected = powers / powers.sum(-1, keepdims=True)
    np.testing.assert_allclose(results(softmax()), expected, rtol=1e-6)
    np.testing.assert_allclose(results(with_shared_terms(softmax())), expected, rtol=1e-6)


def test_a_chain_whose_terms_differ_stays_as_it_is() -> None:
    first, second, third = softmax()
    other = md_hom(np.exp(param(0, F4)), ["ij"], "i", "ij", "add")  # of other elements
    apart = Step(other, (0,), (3,))
    assert with_shared_terms((first, apart, third)) == (first, apart, third)
    assert with_shared_terms((first, second)) == (first, second)
