"""Classic einsum strings resolved against operand shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from mdtensor.dataclass import dataclass
from mdtensor.errors import SubscriptError, count_of
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.subscripts import ELLIPSIS, SubscriptIndex, Subscripts, Term


@dataclass(frozen=True, slots=True)
class Contraction:
    """The dim names of every operand and the output, and the extents of all dims.

    Dims of an ellipsis are named e0, e1, … from left to right. An operand's axis of extent 1 may
    stand for a dim of any extent.
    """

    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]
    extents: Mapping[str, int]

    @property
    def is_view(self) -> bool:
        """Whether the result is a permuted, merged or broadcast view of the one operand."""
        return len(self.inputs) == 1 and set(self.inputs[0]) <= set(self.output)


def resolve(
    subscripts: Subscripts, specs: Sequence[TensorSpec], out: TensorSpec | None = None
) -> Contraction:
    """Resolve an einsum string against the shapes of operands, and of an output if given.

    Raises SubscriptError where number of operands, number of axes or extents do not fit.
    """
    if len(subscripts.inputs) != len(specs):
        raise miscounted(subscripts, len(specs), (note_of(specs),) if specs else ())
    spans = [ellipsis_span(subscripts, number, specs) for number in range(len(specs))]
    longest = max(spans, default=0)
    inputs = [
        _expanded(term, span, longest) for term, span in zip(subscripts.inputs, spans, strict=True)
    ]
    output = _output(subscripts, longest, specs)
    extents: dict[str, int] = {}
    sites: dict[str, tuple[int, int]] = {}
    for number, (names, spec) in enumerate(zip(inputs, specs, strict=True)):
        within: dict[str, int] = {}
        for axis, (name, extent) in enumerate(zip(names, spec.shape, strict=True)):
            if within.setdefault(name, extent) != extent:
                raise SubscriptError(
                    f"index {name!r} has extents {within[name]} and {extent} in operand {number}",
                    text=subscripts.text,
                    carets=[i.column for i in subscripts.inputs[number] if i.name == name],
                    notes=(note_of(specs),),
                    hint="a diagonal needs axes of one extent",
                )
            known = extents.get(name, 1)
            if known == 1:
                extents[name], sites[name] = extent, (number, axis)
            elif extent not in (1, known):
                raise _clash(subscripts, specs, name, sites[name], (number, axis))
    if out is not None:
        _broadcast_to(subscripts, output, extents, out)
    return Contraction(tuple(inputs), output, extents)


def note_of(specs: Sequence[TensorSpec]) -> str:
    """Shapes and types of the operands, for error messages."""
    shapes = (f"operand {n}: {spec.shape} {spec.dtype.name}" for n, spec in enumerate(specs))
    return "    ".join(shapes)


def ellipsis_span(subscripts: Subscripts, number: int, specs: Sequence[TensorSpec]) -> int:
    """The number of axes of an operand that its ellipsis covers."""
    term, axes = subscripts.terms[number], len(specs[number].shape)
    letters = [index for index in term if index.name != ELLIPSIS]
    if axes == len(letters) or (axes > len(letters) and len(letters) < len(term)):
        return axes - len(letters)
    few = axes < len(letters)
    raise SubscriptError(
        f"operand {number} has {count_of(axes, 'axis', 'axes')} but"
        f" {count_of(len(letters), 'index', 'indices')}",
        text=subscripts.text,
        carets=[index.column for index in (letters[axes:] if few else letters)],
        notes=(note_of(specs),),
        hint="one index for each axis" if few else _one_for_each(subscripts, number),
    )


def miscounted(subscripts: Subscripts, operands: int, notes: tuple[str, ...]) -> SubscriptError:
    """The error for a string whose number of terms is not that of the operands."""
    text = subscripts.text
    end = text.find("->") if "->" in text else len(text)
    starts = [0, *(n + 1 for n, character in enumerate(text[:end]) if character == ",")]
    if subscripts.finish:
        after = text.index(";")
        commas = (n for n, character in enumerate(text) if character == "," and n > after)
        starts += [after + 1, *(n + 1 for n in commas)]
    hint = "terms are separated by commas, one for each operand"
    if operands > len(starts) and not subscripts.finish:
        hint += "; those that an epilogue reads stand behind a semicolon: 'ij,jk->ik; k'"
    return SubscriptError(
        f"the string has {count_of(len(starts), 'term', 'terms')} for"
        f" {count_of(operands, 'operand', 'operands')}",
        text=text,
        carets=starts[operands:] if len(starts) > operands else (end,),
        notes=notes,
        hint=hint,
    )


def _one_for_each(subscripts: Subscripts, number: int) -> str:
    """A hint for an operand with more axes than indices."""
    words = [index.name for index in subscripts.terms[number]]
    joined = next((word for word in words if len(word) > 1 and word.isalpha()), None)
    if joined is None:
        return _broadcasting(subscripts, number)
    apart = " ".join(joined)
    return f"{joined!r} is one name; where indices are sums, blanks separate them: {apart!r}"


def _broadcasting(subscripts: Subscripts, number: int) -> str:
    """A hint: the string with an ellipsis for the remaining axes."""
    dots = SubscriptIndex(ELLIPSIS, 0)
    terms = list(subscripts.terms)
    terms[number] = (dots, *terms[number])
    output = subscripts.output
    if output is not None and all(index.name != ELLIPSIS for index in output):
        output = (dots, *output)
    count = len(subscripts.inputs)
    shown = Subscripts(subscripts.text, tuple(terms[:count]), output, tuple(terms[count:]))
    return f"{str(shown)!r} broadcasts over the other axes"


def _expanded(term: Term, span: int, longest: int) -> tuple[str, ...]:
    names: list[str] = []
    for index in term:
        if index.name == ELLIPSIS:
            names += [f"e{n}" for n in range(longest - span, longest)]
        else:
            names.append(index.name)
    return tuple(names)


def _output(subscripts: Subscripts, longest: int, specs: Sequence[TensorSpec]) -> tuple[str, ...]:
    if subscripts.output is None:
        letters = Counter(index.name for term in subscripts.inputs for index in term)
        once = sorted(name for name, uses in letters.items() if uses == 1 and name != ELLIPSIS)
        return (*(f"e{n}" for n in range(longest)), *once)
    if longest and all(index.name != ELLIPSIS for index in subscripts.output):
        kept = repr(
            Subscripts("", subscripts.inputs, (SubscriptIndex(ELLIPSIS, 0), *subscripts.output))
        )
        raise SubscriptError(
            f"the output lacks the ellipsis, which stands for {count_of(longest, 'dim', 'dims')}",
            text=subscripts.text,
            carets=[i.column for term in subscripts.inputs for i in term if i.name == ELLIPSIS],
            notes=(note_of(specs),),
            hint=f"{kept!r} keeps them; to sum over them, give them letters",
        )
    return _expanded(subscripts.output, longest, longest)


def _broadcast_to(
    subscripts: Subscripts, output: tuple[str, ...], extents: dict[str, int], out: TensorSpec
) -> None:
    """Stretch dims of extent 1 to the shape of `out`, as NumPy does."""
    shape = tuple(extents[name] for name in output)
    if len(out.shape) != len(shape) or any(
        have not in (1, want) for have, want in zip(shape, out.shape, strict=True)
    ):
        raise SubscriptError(
            f"out has shape {out.shape} but the result {shape}",
            text=subscripts.text,
            carets=[index.column for index in subscripts.output or ()],
        )
    extents.update(zip(output, out.shape, strict=True))


def _clash(
    subscripts: Subscripts,
    specs: Sequence[TensorSpec],
    name: str,
    first: tuple[int, int],
    second: tuple[int, int],
) -> SubscriptError:
    extents = [specs[number].shape[axis] for number, axis in (first, second)]
    shown = "the ellipsis" if len(name) > 1 else f"index {name!r}"
    written = ELLIPSIS if len(name) > 1 else name
    return SubscriptError(
        f"{shown} has extent {extents[0]} in operand {first[0]} but {extents[1]} in operand"
        f" {second[0]}",
        text=subscripts.text,
        carets=[
            index.column
            for number in (first[0], second[0])
            for index in subscripts.inputs[number]
            if index.name == written
        ],
        notes=(note_of(specs),),
        hint=_transposed(subscripts, specs, second[0]) or _transposed(subscripts, specs, first[0]),
    )


def _transposed(subscripts: Subscripts, specs: Sequence[TensorSpec], number: int) -> str | None:
    """A hint: the string with two indices of one operand swapped, if that fits; else None."""
    term = subscripts.inputs[number]
    for left in range(len(term)):
        for right in range(left + 1, len(term)):
            exchanged = list(term)
            exchanged[left], exchanged[right] = term[right], term[left]
            inputs = list(subscripts.inputs)
            inputs[number] = tuple(exchanged)
            candidate = Subscripts(subscripts.text, tuple(inputs), subscripts.output)
            if _fits(candidate, specs):
                return f"'{candidate!r}' fits these shapes"
    return None


def _fits(subscripts: Subscripts, specs: Sequence[TensorSpec]) -> bool:
    extents: dict[str, set[int]] = {}
    for term, spec in zip(subscripts.inputs, specs, strict=True):
        if len(term) != len(spec.shape) or any(index.name == ELLIPSIS for index in term):
            return False
        for index, extent in zip(term, spec.shape, strict=True):
            extents.setdefault(index.name, set()).add(extent)
    return all(len(found - {1}) <= 1 for found in extents.values())
