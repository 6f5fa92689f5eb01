"""Shorter sequences of steps: without copies of temporaries, and with small steps merged."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mdtensor.translate.combine import Concat
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Step
from mdtensor.translate.scalar import param
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import all_substituted, params_in
from mdtensor.translate.views import BufferAccess

# Points of steps that are merged: above, it is not the launch that takes the time; and the buffers
# of what they become.
_MOST_POINTS, _MOST_BUFFERS = 1 << 16, 16


def shortened(steps: Sequence[Step], operands: int, results: Collection[int]) -> list[Step]:
    """Fewer steps that compute the same `results` from so many `operands`, the first slots.

    Where a temporary is copied to a result, it is the result. Elementwise steps over the same few
    points become one, of several results.
    """
    return _merged(_without_copies(list(steps), operands, results))


def _without_copies(steps: list[Step], operands: int, results: Collection[int]) -> list[Step]:
    number = 0
    while number < len(steps):
        step = steps[number]
        if step.results[0] in results and _is_copy(step):
            [source], [target] = step.operands, step.results
            others = [*steps[:number], *steps[number + 1 :]]
            is_temporary = source >= operands and source not in results
            is_last = not any(source in each.results for each in steps[number:])
            if is_temporary and is_last and not any(target in each.results for each in others):
                slots = {n: n for each in others for n in (*each.operands, *each.results)}
                steps = [each.on({**slots, source: target}) for each in others]
                continue
        number += 1
    return steps


def _is_copy(step: Step) -> bool:
    """Whether a step copies one whole array to another one of the same layout."""
    md_hom = step.md_hom
    if len(md_hom.inp_view) != 1 or len(md_hom.out_view) != 1 or not _is_elementwise(md_hom):
        return False
    whole = BufferAccess.at(0, [dim.name for dim in md_hom.dims])
    [read], [written] = md_hom.inputs, md_hom.outputs
    return (
        md_hom.scalar.results[0].op == "param"
        and read.spec == written.spec
        and read.spec.shape == tuple([dim.extent for dim in md_hom.dims])
        and md_hom.inp_view[0] == whole == md_hom.out_view[0]
    )


def _is_elementwise(md_hom: MDHom) -> bool:
    """Whether nothing is combined, and no index computed."""
    is_mapped = md_hom.epilogue is None and all(isinstance(d.combine, Concat) for d in md_hom.dims)
    return is_mapped and all(access.is_affine for access in md_hom.inp_view)


def _merged(steps: Sequence[Step]) -> list[Step]:
    found: list[Step] = []
    for step in steps:
        number = _partner(found, step)
        if number is None:
            found.append(step)
        else:
            found[number] = _as_one(found[number], step)
    return found


def _partner(before: Sequence[Step], step: Step) -> int | None:
    """The latest step with which one can be merged, across all steps behind that."""
    if not _is_mapped(step):
        return None
    for number in range(len(before) - 1, -1, -1):
        if _are_ordered(before[number], step):
            return None
        if _are_alike(before[number], step):
            return number
    return None


def _are_ordered(one: Step, other: Step) -> bool:
    """Whether one of two steps writes an array that the other one reads or writes."""
    written = {*one.results}, {*other.results}
    return bool(written[0] & {*other.operands, *other.results} or written[1] & {*one.operands})


def _is_mapped(step: Step) -> bool:
    """Whether a step is elementwise, and no fill, over which others may write."""
    return bool(step.operands) and _is_elementwise(step.md_hom)


def _are_alike(one: Step, other: Step) -> bool:
    """Whether two steps are elementwise over the same few points."""
    slots = {*one.operands, *one.results, *other.operands, *other.results}
    return (
        len(slots) <= _MOST_BUFFERS
        and _is_mapped(one)
        and [dim.name for dim in one.md_hom.dims] == [dim.name for dim in other.md_hom.dims]
        and one.md_hom.dims == other.md_hom.dims
        and one.md_hom.points <= _MOST_POINTS
    )


def _as_one(first: Step, second: Step) -> Step:
    """Two independent steps over the same points as one."""
    one, other = first.md_hom.scalar, second.md_hom.scalar
    behind = {n: param(len(one.params) + n, dtype) for n, dtype in enumerate(other.params)}
    results = one.results + all_substituted(other.results, behind)
    return Step.of(
        first.specs | second.specs,
        first.md_hom.dims,
        ScalarFunction(one.params + other.params, results, one.name),
        first.reads + second.reads,
        first.writes + second.writes,
    )


def with_results(step: Step, due: Sequence[int]) -> Step:
    """The step without results that are not `due`, and what it reads for them, if elementwise."""
    if len(due) == len(step.results) or not _is_elementwise(step.md_hom):
        return step
    function, writes = step.md_hom.scalar, step.writes
    kept = [n for n, (slot, _) in enumerate(writes) if slot in due]
    results = [function.results[n] for n in kept]
    read = sorted({n for result in results for n in params_in(result)})
    types = tuple([function.params[n] for n in read])
    places = {old: param(new, types[new]) for new, old in enumerate(read)}
    return Step.of(
        step.specs,
        step.md_hom.dims,
        ScalarFunction(types, all_substituted(results, places), function.name),
        [step.reads[n] for n in read],
        [writes[n] for n in kept],
    )
