"""Update of accumulators for selection operators, such as argmin.

One branch for several points was measured too: none of their looks waits for another then, but
what they compared takes more instructions to remember than a branch saves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mdtensor.lower.codegen.base.tuple_variables import sets
from mdtensor.lower.codegen.base.value_from_expr import value_of, values_of
from mdtensor.lower.ir.statements import Let, Statement, When
from mdtensor.lower.ir.values import Calc, Ref, Value
from mdtensor.lower.problem.select_operators import SelectConditions


def take_tuple(
    choice: SelectConditions,
    refs: Sequence[Ref],
    params: Sequence[Value],
    index: Callable[[str], Value],
    prefix: str,
) -> list[Statement]:
    """Update the accumulator by branches: each condition is tested before later operands load.

    `params` are those of the scalar function, `prefix` begins the names of new variables.
    """
    own = values_of(choice.results, params, index)
    declared: list[list[Statement]] = []
    for asked in choice.asked:
        held = [Ref(f"{prefix}_{k}", refs[k].dtype) for k in asked]
        declared.append([Let(ref, own[k]) for k, ref in zip(asked, held, strict=True)])
        for k, ref in zip(asked, held, strict=True):
            own[k] = ref
    statements: list[Statement] = sets(refs, own)
    for condition, lets in zip(choice.conditions[::-1], declared[::-1], strict=True):
        holds = value_of(condition, [*params, *refs, *own], index)
        statements = [*lets, When(holds, tuple(statements))]
    return statements


def select_tuple(
    choice: SelectConditions,
    refs: Sequence[Ref],
    own: Sequence[Value],
    params: Sequence[Value],
    index: Callable[[str], Value],
) -> list[Value]:
    """The accumulator's tuple or the point's, by one `select` per element.

    All elements use one condition, so that its vector mask is computed once.
    """
    wins = value_of(choice.wins, [*params, *refs, *own], index)
    return [
        Calc("select", (wins, value, ref), ref.dtype, ref.lanes)
        for ref, value in zip(refs, own, strict=True)
    ]
