"""What hypothesis draws: einsum strings, awkward extents, and arrays in awkward layouts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from tests.cases import DTYPES, values

EXTENTS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17)
MOST_POINTS = 4096


@dataclass(frozen=True)
class Problem:
    """An einsum string and its operands."""

    text: str
    operands: tuple[np.ndarray, ...]

    def __repr__(self) -> str:
        arrays = (f"{a.dtype}{list(a.shape)}:{a.strides}" for a in self.operands)
        return f"{self.text!r} on {', '.join(arrays)}"


@st.composite
def laid_out(draw: st.DrawFn, shape: tuple[int, ...], dtype: object) -> np.ndarray:
    """An array of a shape: in C order, with axes permuted, in steps, reversed or broadcast."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    axes = draw(st.permutations(range(len(shape)))) if draw(st.booleans()) else range(len(shape))
    axes = list(axes)
    ways = [
        draw(st.sampled_from(("plain", "plain", "step", "back", "back step", "repeat")))
        for _ in axes
    ]
    steps = [2 if "step" in way else 1 for way in ways]
    repeated = [way == "repeat" for way in ways]
    base_shape = tuple(
        1 if repeated[axis] and shape[axis] else shape[axis] * steps[axis] for axis in axes
    )
    base = values(rng, base_shape, dtype)
    array = base.transpose(np.argsort(axes).tolist() if axes else [])
    cuts = tuple(
        slice(None, None, -step if "back" in way else step)
        for way, step in zip(ways, steps, strict=True)
    )
    return np.broadcast_to(array[cuts], shape)


@st.composite
def problems(
    draw: st.DrawFn,
    dtypes: tuple[str, ...] = DTYPES,
    most_operands: int = 3,
    extents: tuple[int, ...] = EXTENTS,
) -> Problem:
    """An einsum of one to `most_operands` operands of one type, at most MOST_POINTS points."""
    dtype = draw(st.sampled_from(dtypes))
    letters = "ijklmB"[: draw(st.integers(1, 6))]
    size = {letter: draw(st.sampled_from(extents)) for letter in letters}
    points = 1
    for letter in letters:
        if points * size[letter] > MOST_POINTS:
            size[letter] = 2
        points *= max(size[letter], 1)
    dots = draw(st.lists(st.sampled_from((1, 2, 3)), max_size=2))
    terms: list[str] = []
    arrays: list[np.ndarray] = []
    for _ in range(draw(st.integers(1, most_operands))):
        term = draw(st.lists(st.sampled_from(letters), max_size=4))
        shape = [size[letter] for letter in term]
        for axis, letter in enumerate(term):
            if term.count(letter) == 1 and draw(st.integers(0, 9)) == 0:
                shape[axis] = 1
        if dots and draw(st.booleans()):
            own = dots[draw(st.integers(0, len(dots))) :]
            own = [1 if draw(st.integers(0, 4)) == 0 else extent for extent in own]
            place = draw(st.integers(0, len(term)))
            shape[place:place] = own
            term.insert(place, "...")
        terms.append("".join(term))
        arrays.append(draw(laid_out(tuple(shape), dtype)))
    text = ",".join(terms)
    if draw(st.booleans()):
        used = sorted(set(text) - {",", "."})
        kept = [letter for letter in draw(st.permutations(used)) if draw(st.booleans())]
        if "..." in text:
            kept.insert(draw(st.integers(0, len(kept))), "...")
        text += "->" + "".join(kept)
    return Problem(text, tuple(arrays))


@st.composite
def outputs(draw: st.DrawFn, shape: tuple[int, ...], dtype: object) -> np.ndarray:
    """A writeable array in an awkward layout, no two elements in one place."""
    axes = list(draw(st.permutations(range(len(shape)))))
    steps = [draw(st.sampled_from((1, 1, 2, -1, -2))) for _ in shape]
    base = np.zeros([shape[axis] * abs(steps[axis]) for axis in axes], dtype)  # type: ignore[call-overload]
    array = base.transpose(np.argsort(axes).tolist() if axes else [])
    return array[(*(slice(None, None, step) for step in steps), ...)]
